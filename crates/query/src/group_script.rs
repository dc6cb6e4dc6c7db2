//! `key()`, `count()` and `sum(x => x.Field)` in a script that produces the results of groups, and
//! in the functions that it calls.
//!
//! They are not functions: a result has these values as properties already, and each call is
//! replaced by the property. What the script sums determines what the automatic index has to sum.

use std::ops::Range;

use blittable::write_json_string;
use indexing::Aggregate;
use rql::script_text::{closing, words};

use crate::error::QueryError;
use crate::filter_script::document_name;
use crate::parameters::QueryContext;
use crate::row_script::{functions_of, script_text};

/// The name of the result where calls were replaced.
const RESULT: &str = "_group";

/// A script with its calls replaced.
pub(crate) struct GroupScript {
    /// The script, including all functions that it calls.
    pub(crate) text: String,
    /// The aggregates of each group that it uses, besides the key.
    pub(crate) aggregates: Vec<Aggregate>,
}

impl QueryContext<'_> {
    /// The script that produces the rows of groups; `None` without one, or when it has no such
    /// calls.
    pub(crate) fn group_script(&self) -> Result<Option<GroupScript>, QueryError> {
        let Some(script) = script_text(self.query).filter(|_| self.is_grouped()) else {
            return Ok(None);
        };
        let mut calls =
            Calls { context: self, keys: self.key_paths()?, aggregates: Vec::new(), any: false };
        let mut functions = String::new();
        for function in functions_of(self.query) {
            functions.push_str(&calls.replaced_in(&function)?);
            functions.push('\n');
        }
        let script = calls.replaced_in(&script)?;
        let row = self.alias().map_or_else(|| document_name(0), str::to_owned);
        let text = format!("(({RESULT}) => {{ {functions} return ({script}); }})({row})");
        Ok(calls.any.then_some(GroupScript { text, aggregates: calls.aggregates }))
    }
}

struct Calls<'s, 'a> {
    context: &'s QueryContext<'a>,
    keys: Vec<String>,
    aggregates: Vec<Aggregate>,
    /// Whether anything was replaced.
    any: bool,
}

impl Calls<'_, '_> {
    fn replaced_in(&mut self, script: &str) -> Result<String, QueryError> {
        let mut out = String::with_capacity(script.len());
        let mut taken = 0;
        for word in words(script) {
            if word.start < taken {
                continue;
            }
            let Some((end, value)) = self.value_of(script, &word)? else { continue };
            out.push_str(&script[taken..word.start]);
            out.push_str(&value);
            taken = end;
            self.any = true;
        }
        out.push_str(&script[taken..]);
        Ok(out)
    }

    /// The replacement of the call that starts with `word`, and where the call ends; `None` if it
    /// is not one.
    fn value_of(
        &mut self,
        script: &str,
        word: &Range<usize>,
    ) -> Result<Option<(usize, String)>, QueryError> {
        let name = &script[word.clone()];
        let is_known = ["key", "count", "sum"].contains(&name);
        let is_member = script[..word.start].trim_end().ends_with('.');
        let is_declared =
            self.context.query.declarations.iter().any(|function| function.name == name);
        if !is_known || is_member || is_declared {
            return Ok(None);
        }
        let Some(rest) = script[word.end..].trim_start().strip_prefix('(') else {
            return Ok(None);
        };
        let open = script.len() - rest.len() - 1;
        // The script engine reports an unclosed bracket better.
        let Some(end) = closing(script, open) else { return Ok(None) };
        let arguments = script[open + 1..end - 1].trim();
        let value = match name {
            "sum" => self.aggregate(Aggregate::Sum(summed_path(arguments)?)),
            _ if !arguments.is_empty() => {
                return Err(refused(format!("{name}() must be called without arguments")));
            }
            "count" => self.aggregate(Aggregate::Count),
            _ => self.key(),
        };
        Ok(Some((end, value)))
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> String {
        let value = property(aggregate.name());
        self.aggregates.push(aggregate);
        value
    }

    fn key(&self) -> String {
        if let [only] = self.keys.as_slice() {
            return property(only);
        }
        let members = self.keys.iter().map(|key| format!("{}: {}", quoted(key), property(key)));
        format!("({{{}}})", members.collect::<Vec<_>>().join(", "))
    }
}

/// `A.B` of `x => x.A.B`.
fn summed_path(argument: &str) -> Result<String, QueryError> {
    if argument.is_empty() {
        let message = "sum(doc => doc.fieldName) must be called with a single arrow function \
                       expression argument";
        return Err(refused(message.to_owned()));
    }
    let path = argument.split_once("=>").and_then(|(parameter, body)| {
        let parameter = parameter.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let path = body.trim().strip_prefix(parameter)?.trim_start().strip_prefix('.')?;
        let is_name = |name: &str| {
            !name.is_empty()
                && name.chars().all(|letter| letter.is_alphanumeric() || "_$".contains(letter))
        };
        let names: Vec<&str> = path.split('.').map(str::trim).collect();
        names.iter().all(|name| is_name(name)).then(|| names.join("."))
    });
    path.ok_or_else(|| {
        let message = "sum(doc => doc.fieldName) must be called with arrow function expression that \
                       points to field you want to aggregate";
        refused(message.to_owned())
    })
}

fn refused(message: String) -> QueryError {
    QueryError::InvalidOperation { message }
}

/// The property of the result.
fn property(path: &str) -> String {
    format!("{RESULT}[{}]", quoted(path))
}

fn quoted(text: &str) -> String {
    let mut json = Vec::new();
    write_json_string(text, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;

    fn script_of(text: &str) -> Result<Option<GroupScript>, String> {
        let query = parse(text).map_err(|error| error.to_string())?;
        let context = QueryContext::new(&query, None);
        context.group_script().map_err(|error| error.to_string())
    }

    fn replaced(group_by: &str, script: &str) -> String {
        let script = script_of(&format!("from G as g group by {group_by} select {script}"));
        let text = script.unwrap().unwrap().text;
        let body = text.strip_prefix("((_group) => {  return (").unwrap();
        body.strip_suffix("); })(g)").unwrap().replace('\n', "")
    }

    #[test]
    fn calls_become_properties() {
        for (group_by, script, expected) in [
            ("g.C", "{ K: key() }", r#"{K: _group["C"]}"#),
            ("g.A.B", "{ K: key ( ) + 1 }", r#"{K: _group["A.B"] + 1}"#),
            ("g.C, g.D", "{ K: key().C }", r#"{K: ({"C": _group["C"], "D": _group["D"]}).C}"#),
            ("g.T[]", "{ N: count(), K: key() }", r#"{N: _group["Count"], K: _group["T[]"]}"#),
            (
                "g.C",
                "{ S: sum(x => x.N) / sum((y)=>y . A .B) }",
                r#"{S: _group["N"] / _group["A.B"]}"#,
            ),
            (
                "g.C",
                "{ S: 'count()', T: `${count()}`, g: g.count() }",
                r#"{S: 'count()', T: `${_group["Count"]}`, g: g.count()}"#,
            ),
            (
                "g.C",
                "{ count: count(), sum: [1].map(sum => sum) }",
                r#"{count: _group["Count"], sum: [1].map(sum => sum)}"#,
            ),
        ] {
            assert_eq!(replaced(group_by, script), expected);
        }
    }

    #[test]
    fn sums_become_aggregates() {
        let aggregates_of = |text: &str| script_of(text).unwrap().map(|script| script.aggregates);
        let sum = |path: &str| Aggregate::Sum(path.to_owned());
        let begin = "declare function f(a) { return { a, b: sum(x => x.M) }; } from G as g";
        assert_eq!(
            aggregates_of(&format!("{begin} group by g.C select f(count())")),
            Some(vec![sum("M"), Aggregate::Count])
        );
        assert_eq!(aggregates_of("from G as g group by g.C select { K: g.C }"), None);
        assert_eq!(aggregates_of("from G as g select { K: count() }"), None);
        assert_eq!(aggregates_of("from G as g group by g.C select { K: key() }"), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for (script, expected) in [
            ("{ K: key(1) }", "key() must be called without arguments"),
            ("{ K: count(x => x.N) }", "count() must be called without arguments"),
            ("{ K: sum() }", "with a single arrow function"),
            ("{ K: sum(x => x) }", "points to field"),
            ("{ K: sum(x => y.N) }", "points to field"),
            ("{ K: sum(x => x.N + 1) }", "points to field"),
            ("{ K: sum(x => x['N']) }", "points to field"),
            ("{ K: sum(x => { return x.N; }) }", "points to field"),
            ("{ K: sum(x => x.N, 2) }", "points to field"),
            ("{ K: sum(g.N) }", "points to field"),
        ] {
            let text = format!("from G as g group by g.C select {script}");
            let message = script_of(&text).err().unwrap();
            assert!(message.contains(expected), "{script}: {message}");
        }
    }
}
