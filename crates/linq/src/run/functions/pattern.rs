//! `Regex`, with bounded backtracking.

use std::rc::Rc;

use fancy_regex::{Captures, Regex};

use crate::compile::call::{build_regex, options_of};
use crate::compile::names::Function;
use crate::compile::plan::FunctionCall;
use crate::limits::REGEX_CACHE_MAX;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::{Evaluated, Machine};
use crate::value::{ListKind, Names, Text, Value};

const MATCH: &[&str] = &["Value", "Success", "Index", "Length", "Groups"];
const GROUP: &[&str] = &["Value", "Success", "Index", "Length"];

/// A compiled pattern: the definition's own, or one from a document.
enum Pattern<'a> {
    Constant(&'a Regex),
    Cached(Rc<Regex>),
}

impl std::ops::Deref for Pattern<'_> {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        match self {
            Pattern::Constant(regex) => regex,
            Pattern::Cached(regex) => regex,
        }
    }
}

impl<'a> Machine<'a, '_> {
    pub(super) fn pattern_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let argument = self.text_argument(&call.arguments, 0)?;
        let text = argument.as_str();
        if call.function == Function::RegexEscape {
            return Ok(Value::text(fancy_regex::escape(text).into_owned()));
        }
        let regex = self.pattern(call)?;
        match call.function {
            Function::RegexIsMatch => {
                regex.is_match(text).map(Value::Bool).map_err(|error| failed(&error))
            }
            Function::RegexReplace => {
                let replacement = self.text_argument(&call.arguments, 2)?;
                self.replaced_by(&regex, text, &replacement)
            }
            Function::RegexMatch => {
                let captures = regex.captures(text).map_err(|error| failed(&error))?;
                Ok(match_value(&regex, text, captures.as_ref()))
            }
            Function::RegexMatches => {
                let mut items = Vec::new();
                for captures in regex.captures_iter(text) {
                    let captures = captures.map_err(|error| failed(&error))?;
                    items.push(match_value(&regex, text, Some(&captures)));
                }
                self.plain_list(items)
            }
            _ => {
                let mut items = Vec::new();
                for part in regex.split(text) {
                    items.push(Value::text(part.map_err(|error| failed(&error))?));
                }
                self.plain_list(items)
            }
        }
    }

    fn plain_list(&mut self, items: Vec<Value<'a>>) -> Evaluated<'a> {
        self.check_length(items.len())?;
        Ok(Value::list_of(ListKind::Plain, items))
    }

    fn pattern(&mut self, call: &'a FunctionCall) -> Result<Pattern<'a>, Fault> {
        if let Some(regex) = &call.regex {
            return Ok(Pattern::Constant(regex));
        }
        let pattern = self.text_argument(&call.arguments, 1)?;
        let known = self.regexes.iter().find(|(own, _)| **own == *pattern.as_str());
        if let Some((_, regex)) = known {
            return Ok(Pattern::Cached(Rc::clone(regex)));
        }
        let regex = build_regex(&pattern, options_of(&call.arguments));
        let regex = Rc::new(regex.map_err(|error| failed(&error))?);
        if self.regexes.len() == REGEX_CACHE_MAX {
            self.regexes.remove(0);
        }
        self.regexes.push((pattern.as_str().into(), Rc::clone(&regex)));
        Ok(Pattern::Cached(regex))
    }

    fn replaced_by(&mut self, regex: &Regex, text: &str, replacement: &str) -> Evaluated<'a> {
        let template = template(replacement);
        let mut replaced = String::new();
        let mut end = 0;
        for captures in regex.captures_iter(text) {
            let captures = captures.map_err(|error| failed(&error))?;
            let Some(whole) = captures.get(0) else { continue };
            replaced.push_str(&text[end..whole.start()]);
            captures.expand(&template, &mut replaced);
            end = whole.end();
            self.check_text(replaced.len())?;
        }
        replaced.push_str(&text[end..]);
        Ok(Value::text(replaced))
    }
}

#[cold]
fn failed(error: &fancy_regex::Error) -> Fault {
    let message = format!("the regular expression cannot be used: {error}");
    Fault::new(EvaluationErrorKind::InvalidArgument, message)
}

/// .NET's `$1x` is group 1 and an x; the library reads a group of that name.
fn template(replacement: &str) -> String {
    let mut template = String::new();
    let mut characters = replacement.chars().peekable();
    while let Some(character) = characters.next() {
        template.push(character);
        if character != '$' {
            continue;
        }
        if characters.next_if_eq(&'$').is_some() {
            template.push('$');
        } else if characters.next_if_eq(&'&').is_some() {
            template.push_str("{0}");
        } else if characters.peek().is_some_and(char::is_ascii_digit) {
            template.push('{');
            while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                template.push(digit);
            }
            template.push('}');
        }
    }
    template
}

fn group_values<'a>(text: &str, found: Option<(usize, usize)>) -> Vec<Value<'a>> {
    let (start, end) = found.unwrap_or((0, 0));
    let units = |text: &str| text.encode_utf16().count() as i64;
    vec![
        Value::text(&text[start..end]),
        Value::Bool(found.is_some()),
        Value::Integer(units(&text[..start])),
        Value::Integer(units(&text[start..end])),
    ]
}

fn match_value<'a>(regex: &Regex, text: &str, captures: Option<&Captures<'_, str>>) -> Value<'a> {
    let range = |index: usize| {
        let found = captures?.get(index)?;
        Some((found.start(), found.end()))
    };
    let mut entries = Vec::new();
    for (index, name) in regex.capture_names().enumerate() {
        let names = Names::Fixed(GROUP);
        let values = group_values(text, range(index));
        let group = Value::record(names, values);
        if let Some(name) = name {
            entries.push((Value::Text(Text::shared(name.into())), group.clone()));
        }
        entries.push((Value::Integer(index as i64), group));
    }
    let mut values = group_values(text, range(0));
    values.push(Value::dictionary(entries));
    Value::record(Names::Fixed(MATCH), values)
}
