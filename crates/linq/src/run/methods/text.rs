//! Methods of texts. Positions count UTF-16 units, as in .NET; comparisons are ordinal.

use crate::compile::call::options_of;
use crate::compile::names::{Method, StaticOption};
use crate::compile::plan::{Argument, Known, MethodCall, Node};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::property::no_such;
use crate::run::{Evaluated, Machine, overflow_index, wrong_arguments};
use crate::value::{ListKind, Text, Value};

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn text_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        text: Text<'a>,
    ) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        let made = |text: String| Ok(Value::text(text));
        match method {
            Method::ToString if arguments.is_empty() => Ok(Value::Text(text.into_string())),
            Method::ToLower | Method::ToLowerInvariant => made(lower(&text)),
            Method::ToUpper | Method::ToUpperInvariant => made(upper(&text)),
            Method::Normalize => Ok(Value::Text(text.into_string())),
            Method::Trim | Method::TrimStart | Method::TrimEnd => {
                let characters = self.characters(arguments)?;
                made(trimmed(&text, method, &characters).to_owned())
            }
            Method::Substring => self.substring(&text, arguments),
            Method::Remove => self.removed(&text, arguments),
            Method::Insert => self.inserted(&text, arguments),
            Method::Replace => self.replaced(&text, arguments),
            Method::PadLeft | Method::PadRight => self.padded(&text, method, arguments),
            Method::StartsWith | Method::EndsWith | Method::Contains => {
                self.matches(&text, method, arguments)
            }
            Method::IndexOf | Method::LastIndexOf => self.index_of(&text, method, arguments),
            Method::Split => self.split(&text, arguments),
            Method::ToCharArray => {
                let characters = text.chars().map(Value::Char).collect();
                self.plain(characters)
            }
            Method::Reverse => made(text.chars().rev().collect()),
            Method::Equals => self.text_equals(&text, arguments),
            Method::CompareTo => self.text_compare(&text, arguments),
            Method::ToString | Method::GetHashCode => {
                self.scalar_method(call, method, Value::Text(text))
            }
            _ => Err(no_such(&Value::Text(text), &call.name)),
        }
    }

    fn plain(&mut self, items: Vec<Value<'a>>) -> Evaluated<'a> {
        self.check_length(items.len())?;
        Ok(Value::list_of(ListKind::Plain, items))
    }

    /// The characters of all arguments: characters, strings, or arrays of them.
    fn characters(&mut self, arguments: &'a [Argument]) -> Result<Vec<char>, Fault> {
        let texts = self.separators(arguments)?;
        Ok(texts.iter().flat_map(|text| text.chars()).collect())
    }

    /// The texts of all arguments that are texts, characters, or arrays of them.
    fn separators(&mut self, arguments: &'a [Argument]) -> Result<Vec<String>, Fault> {
        let mut texts = Vec::new();
        for argument in arguments {
            let Argument::Value(node) = argument else { continue };
            match self.eval(node)? {
                Value::Text(text) => texts.push(text.as_str().to_owned()),
                Value::Char(character) => texts.push(character.to_string()),
                Value::List(list) => {
                    texts.extend(list.items.iter().filter_map(|item| match item {
                        Value::Text(text) => Some(text.as_str().to_owned()),
                        Value::Char(character) => Some(character.to_string()),
                        _ => None,
                    }))
                }
                Value::Integer(_) => {}
                null if null.is_null() => {}
                _ => return Err(wrong_arguments()),
            }
        }
        Ok(texts)
    }

    fn substring(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let start = self.offset(text, arguments, 0)?;
        let rest = &text[start..];
        let end = match arguments.get(1) {
            Some(_) => self.offset(rest, arguments, 1)?,
            None => rest.len(),
        };
        Ok(Value::text(&rest[..end]))
    }

    /// The byte offset of the position that an argument names.
    fn offset(
        &mut self,
        text: &str,
        arguments: &'a [Argument],
        index: usize,
    ) -> Result<usize, Fault> {
        let units = self.integer_argument(arguments, index)?;
        usize::try_from(units)
            .ok()
            .and_then(|units| byte_offset(text, units))
            .ok_or_else(overflow_index)
    }

    fn removed(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let start = self.offset(text, arguments, 0)?;
        let rest = &text[start..];
        let end = match arguments.get(1) {
            Some(_) => self.offset(rest, arguments, 1)?,
            None => rest.len(),
        };
        Ok(Value::text(format!("{}{}", &text[..start], &rest[end..])))
    }

    fn inserted(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let at = self.offset(text, arguments, 0)?;
        let piece = self.text_argument(arguments, 1)?;
        self.check_text(text.len() + piece.len())?;
        Ok(Value::text(format!("{}{piece}{}", &text[..at], &text[at..])))
    }

    fn replaced(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let old = self.text_argument(arguments, 0)?;
        let new = match self.argument(arguments, 1)? {
            null if null.is_null() => Text::constant(""),
            Value::Text(text) => text,
            Value::Char(character) => Text::shared(character.to_string().into()),
            _ => return Err(wrong_arguments()),
        };
        if old.is_empty() {
            let message = "an empty text cannot be replaced";
            return Err(Fault::new(EvaluationErrorKind::InvalidArgument, message));
        }
        let count = text.len() / old.len();
        self.check_text(text.len().saturating_add(count.saturating_mul(new.len())))?;
        Ok(Value::text(text.replace(old.as_str(), &new)))
    }

    fn padded(&mut self, text: &str, method: Method, arguments: &'a [Argument]) -> Evaluated<'a> {
        let width = self.integer_argument(arguments, 0)?;
        let Ok(width) = usize::try_from(width) else { return Err(overflow_index()) };
        self.check_text(width)?;
        let character = match arguments.get(1) {
            Some(_) => self.text_argument(arguments, 1)?.chars().next().unwrap_or(' '),
            None => ' ',
        };
        let missing = width.saturating_sub(text.encode_utf16().count());
        let padding = std::iter::repeat_n(character, missing);
        Ok(Value::text(match method {
            Method::PadLeft => padding.chain(text.chars()).collect::<String>(),
            _ => text.chars().chain(padding).collect::<String>(),
        }))
    }

    fn matches(&mut self, text: &str, method: Method, arguments: &'a [Argument]) -> Evaluated<'a> {
        let part = self.text_argument(arguments, 0)?;
        let (text, part) = folded_pair(text, &part, options_of(arguments));
        Ok(Value::Bool(match method {
            Method::StartsWith => text.starts_with(&*part),
            Method::EndsWith => text.ends_with(&*part),
            _ => text.contains(&*part),
        }))
    }

    fn index_of(&mut self, text: &str, method: Method, arguments: &'a [Argument]) -> Evaluated<'a> {
        let part = self.text_argument(arguments, 0)?;
        let start = match arguments.get(1) {
            Some(Argument::Value(_)) => self.offset(text, arguments, 1)?,
            _ => 0,
        };
        let option = options_of(arguments);
        let (rest, part) = folded_pair(&text[start..], &part, option);
        let found = match method {
            Method::IndexOf => rest.find(&*part),
            _ => folded_pair(text, &part, option).0.rfind(&*part),
        };
        let before = if method == Method::IndexOf { units(&text[..start]) } else { 0 };
        Ok(Value::Integer(match found {
            Some(at) if method == Method::IndexOf => (before + units(&rest[..at])) as i64,
            Some(at) => units(&text[..at]) as i64,
            None => -1,
        }))
    }

    fn split(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let mut separators = self.separators(arguments)?;
        if let [first, second] = arguments
            && is_character(first)
            && is_character(second)
        {
            separators.truncate(1);
        }
        let option = options_of(arguments);
        let limit = self.split_limit(arguments)?;
        let mut parts = split_by(text, &separators, limit);
        if option == Some(StaticOption::TrimEntries) {
            parts.iter_mut().for_each(|part| *part = part.trim());
        }
        if option == Some(StaticOption::RemoveEmptyEntries) {
            parts.retain(|part| !part.is_empty());
        }
        let parts = parts.into_iter().map(Value::text).collect();
        self.plain(parts)
    }

    /// The number after the separators, if any.
    fn split_limit(&mut self, arguments: &'a [Argument]) -> Result<usize, Fault> {
        for argument in arguments.iter().skip(1) {
            let Argument::Value(node) = argument else { continue };
            match self.eval(node)? {
                Value::Integer(limit) => {
                    return usize::try_from(limit).map_err(|_| overflow_index());
                }
                // A second character is treated as a number.
                Value::Char(code) => return Ok(u32::from(code) as usize),
                _ => {}
            }
        }
        Ok(usize::MAX)
    }

    fn text_equals(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let Value::Text(other) = self.argument(arguments, 0)? else {
            return Ok(Value::Bool(false));
        };
        let (text, other) = folded_pair(text, &other, options_of(arguments));
        Ok(Value::Bool(text == other))
    }

    /// The distance of the first characters that differ, else that of the lengths.
    fn text_compare(&mut self, text: &str, arguments: &'a [Argument]) -> Evaluated<'a> {
        let other = match self.argument(arguments, 0)? {
            Value::Text(other) => other,
            null if null.is_null() => return Ok(Value::Integer(1)),
            _ => return Err(wrong_arguments()),
        };
        let differing = text.bytes().zip(other.bytes()).find(|(left, right)| left != right);
        Ok(Value::Integer(match differing {
            Some((left, right)) => i64::from(left) - i64::from(right),
            None => text.len() as i64 - other.len() as i64,
        }))
    }
}

fn is_character(argument: &Argument) -> bool {
    matches!(argument, Argument::Value(Node { known: Known::Char, .. }))
}

fn split_by<'t>(text: &'t str, separators: &[String], limit: usize) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < text.len() && parts.len() + 1 < limit {
        let rest = &text[at..];
        let separator = match separators {
            [] => rest.chars().next().filter(|c| c.is_whitespace()).map(char::len_utf8),
            _ => {
                let fits = |separator: &&String| {
                    !separator.is_empty() && rest.starts_with(separator.as_str())
                };
                separators.iter().find(fits).map(String::len)
            }
        };
        match separator {
            Some(length) => {
                parts.push(&text[start..at]);
                at += length;
                start = at;
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    parts.push(&text[start..]);
    parts
}

/// UTF-16 units of a text.
fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The byte offset of the position `units` UTF-16 units into `text`.
fn byte_offset(text: &str, units: usize) -> Option<usize> {
    if text.is_ascii() {
        return (units <= text.len()).then_some(units);
    }
    let mut left = units;
    for (offset, character) in text.char_indices() {
        if left == 0 {
            return Some(offset);
        }
        // A position inside a pair of surrogates cannot be kept in UTF-8: it moves after the pair.
        left = left.saturating_sub(character.len_utf16());
    }
    (left == 0).then_some(text.len())
}

fn trimmed<'t>(text: &'t str, method: Method, characters: &[char]) -> &'t str {
    let is_trimmed = |character: char| match characters {
        [] => character.is_whitespace(),
        _ => characters.contains(&character),
    };
    match method {
        Method::TrimStart => text.trim_start_matches(is_trimmed),
        Method::TrimEnd => text.trim_end_matches(is_trimmed),
        _ => text.trim_matches(is_trimmed),
    }
}

/// Both texts, in lower case when the option says that case does not matter.
pub(crate) fn folded_pair<'t>(
    left: &'t str,
    right: &'t str,
    option: Option<StaticOption>,
) -> (std::borrow::Cow<'t, str>, std::borrow::Cow<'t, str>) {
    match option {
        Some(option) if option.ignores_case() => (upper(left).into(), upper(right).into()),
        _ => (left.into(), right.into()),
    }
}

/// Upper case where one character has one.
pub(crate) fn upper(text: &str) -> String {
    text.chars()
        .map(|character| {
            let mut upper = character.to_uppercase();
            if upper.len() == 1 { upper.next().unwrap_or(character) } else { character }
        })
        .collect()
}

/// Lower case where one character has one.
pub(crate) fn lower(text: &str) -> String {
    text.chars()
        .map(|character| {
            let mut lower = character.to_lowercase();
            if lower.len() == 1 { lower.next().unwrap_or(character) } else { character }
        })
        .collect()
}
