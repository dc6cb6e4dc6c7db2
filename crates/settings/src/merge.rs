//! The merge: from everything that was given to one value for each key.
//!
//! Not here: reading the sources, and comparing keys with each other (`addresses`).
//! Invariant: the result holds a value for every key that Corvus reads; where the given one is
//! invalid it holds the default, and there is a problem.

use std::collections::BTreeMap;

use crate::active_keys::ACTIVE;
use crate::effective::{Effective, Overridden};
use crate::key::{Key, Scope, Status};
use crate::problem::{Problem, Warning};
use crate::source::Source;
use crate::table::{find_family, find_key, nearest_name};
use crate::value::{Value, check_only, parse_value};

/// What is shown in place of a value that must not be.
const HIDDEN: &str = "(hidden)";

/// What the names begin with, in lower case, of settings that need no effect: Corvus asks for no licence.
const LICENCE: &str = "license";

/// The values of the keys that Corvus reads, by name.
pub(crate) type Values = BTreeMap<&'static str, Value>;

/// A value as it was given, before anybody knows whether the key exists.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) name: String,
    /// Not empty.
    pub(crate) text: String,
    pub(crate) source: Source,
}

/// The outcome of a merge.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) values: Values,
    pub(crate) effective: Vec<Effective>,
}

/// What a name turned out to be.
enum Named {
    Row(&'static Key),
    /// Known by its family only.
    Unlisted,
}

/// Everything that was given for one key, lowest precedence first.
struct Group {
    row: Option<&'static Key>,
    given: Vec<Given>,
}

/// Merges values for the server. `given` is sorted by precedence, lowest first.
pub(crate) fn merge(
    given: Vec<Given>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> Merged {
    let mut groups = group_by_key(given, problems, warnings);
    let mut merged = Merged { values: Values::new(), effective: Vec::new() };
    for key in ACTIVE {
        let given = groups.remove(&key.name.to_lowercase()).map_or(Vec::new(), |group| group.given);
        merged.values.insert(key.name, chosen_value(key, given.last(), problems));
        merged.effective.push(effective(key.name, Some(key), given));
    }
    let mut ignored = Vec::new();
    for group in groups.into_values() {
        let name = match (group.row, group.given.last()) {
            (Some(key), _) => key.name.to_owned(),
            (None, Some(given)) => given.name.clone(),
            (None, None) => continue,
        };
        if let (Some(key), Some(given)) = (group.row, group.given.last())
            && let Err(problem) = parse_given(key, given)
        {
            problems.push(problem);
        }
        if !name.to_lowercase().starts_with(LICENCE) {
            ignored.push(name.clone());
        }
        merged.effective.push(effective(&name, group.row, group.given));
    }
    if !ignored.is_empty() {
        warnings.push(Warning::WithoutEffect { names: ignored });
    }
    merged
}

/// Puts the overrides of one database over the values of the server.
///
/// Returns the values, and the names that were overridden.
pub(crate) fn merge_database(
    server: &Values,
    overrides: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> (Values, Vec<&'static str>) {
    let mut values = server.clone();
    let mut overridden = Vec::new();
    for (name, text) in overrides.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let source = Source::DatabaseRecord;
        let given = Given { name: name.clone(), text: text.clone(), source };
        let key = match identify(&given) {
            Ok(Named::Row(key)) => key,
            Ok(Named::Unlisted) => continue,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        if key.scope == Scope::Server {
            problems.push(Problem::ServerOnly { name: key.name });
        } else if key.status == Status::Active {
            if overridden.contains(&key.name) {
                let (name, source) = (given.name, given.source);
                problems.push(Problem::GivenTwice { name, source });
                continue;
            }
            match parse_given(key, &given) {
                Ok(value) => {
                    values.insert(key.name, value);
                    overridden.push(key.name);
                }
                Err(problem) => problems.push(problem),
            }
        } else if let Err(problem) = parse_given(key, &given) {
            problems.push(problem);
        }
    }
    (values, overridden)
}

fn group_by_key(
    given: Vec<Given>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for given in given {
        let row = match identify(&given) {
            Ok(Named::Row(key)) => Some(key),
            Ok(Named::Unlisted) => {
                if let Some(nearest) = nearest_name(&given.name) {
                    let (name, source) = (given.name.clone(), given.source.clone());
                    warnings.push(Warning::UnlistedKey { name, source, nearest });
                }
                None
            }
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let group = groups.entry(given.name.to_lowercase());
        group.or_insert_with(|| Group { row, given: Vec::new() }).given.push(given);
    }
    groups
}

fn identify(given: &Given) -> Result<Named, Problem> {
    match find_key(&given.name) {
        Some(Key { name, status: Status::Refused { reason }, .. }) => {
            Err(Problem::RefusedKey { name, source: given.source.clone(), reason })
        }
        Some(key) => Ok(Named::Row(key)),
        None if find_family(&given.name).is_some() => Ok(Named::Unlisted),
        None => {
            let nearest = nearest_name(&given.name);
            let (name, source) = (given.name.clone(), given.source.clone());
            Err(Problem::UnknownKey { name, source, nearest })
        }
    }
}

/// The value that holds for `key`: the given one, else the default.
///
/// Values that lost are not judged: an override must be able to mend a faulty file in an emergency.
fn chosen_value(key: &'static Key, given: Option<&Given>, problems: &mut Vec<Problem>) -> Value {
    if let Some(given) = given {
        match parse_given(key, given) {
            Ok(value) => return value,
            Err(problem) => problems.push(problem),
        }
    }
    match key.default {
        Some(text) => parse_value(key.value_type, text)
            .expect("every default is valid: every_default_is_a_valid_value_of_its_key"),
        None => Value::Unset,
    }
}

fn parse_given(key: &'static Key, given: &Given) -> Result<Value, Problem> {
    let parsed = parse_value(key.value_type, &given.text);
    let checked = parsed.and_then(|value| match key.only {
        Some(only) => check_only(only, &given.text).map(|()| value),
        None => Ok(value),
    });
    checked.map_err(|expected| Problem::InvalidValue {
        name: key.name,
        value: shown(Some(key), &given.text),
        source: given.source.clone(),
        expected,
    })
}

fn effective(name: &str, key: Option<&'static Key>, given: Vec<Given>) -> Effective {
    let default = key.and_then(|key| key.default).map(str::to_owned);
    let mut candidates: Vec<Overridden> = given
        .into_iter()
        .rev()
        .map(|given| Overridden { value: Some(shown(key, &given.text)), source: given.source })
        .collect();
    let status = key.map_or(Status::Accepted, |key| key.status);
    if candidates.is_empty() || status == Status::Active {
        candidates.push(Overridden { value: default, source: Source::Default });
    }
    let winner = candidates.remove(0);
    let (value, source) = (winner.value, winner.source);
    Effective { name: name.to_owned(), value, source, overridden: candidates, status }
}

/// The text to show for a value. A key that is not in the table may well be a secret.
fn shown(key: Option<&'static Key>, text: &str) -> String {
    match key {
        Some(key) if !key.secret => text.trim().to_owned(),
        Some(_) | None => HIDDEN.to_owned(),
    }
}
