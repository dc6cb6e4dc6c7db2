//! The merge: from all sources to one value for each key.
//!
//! Not here: reading the sources, and comparing keys with each other (`addresses`). Invariant: the
//! result holds a value for every key that Corvus reads; where the one set is invalid it holds the
//! default, and a problem is reported.

use std::collections::BTreeMap;

use crate::active_keys::ACTIVE;
use crate::effective::{Effective, Overridden};
use crate::key::{Key, Scope, Status};
use crate::problem::{Problem, Warning};
use crate::source::Source;
use crate::table::{find_family, find_key, nearest_name};
use crate::value::{Value, check_only, parse_value};

/// Shown in place of a secret value.
const HIDDEN: &str = "(hidden)";

/// The prefix, in lower case, of settings without effect: Corvus needs no licence.
const LICENCE: &str = "license";

/// The values of the keys that Corvus reads, by name.
pub(crate) type Values = BTreeMap<&'static str, Value>;

/// A setting as read from a source, before its key is looked up.
#[derive(Debug, Clone)]
pub(crate) struct RawSetting {
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
    /// In a known family, but not listed itself.
    Unlisted,
}

/// All values set for one key, lowest precedence first.
struct Group {
    row: Option<&'static Key>,
    raw: Vec<RawSetting>,
}

/// Merges values for the server. `raw` is sorted by precedence, lowest first.
pub(crate) fn merge(
    raw: Vec<RawSetting>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> Merged {
    let mut groups = group_by_key(raw, problems, warnings);
    let mut merged = Merged { values: Values::new(), effective: Vec::new() };
    for key in ACTIVE {
        let raw = groups.remove(&key.name.to_lowercase()).map_or(Vec::new(), |group| group.raw);
        merged.values.insert(key.name, chosen_value(key, raw.last(), problems));
        merged.effective.push(effective(key.name, Some(key), raw));
    }
    let mut ignored = Vec::new();
    for group in groups.into_values() {
        let name = match (group.row, group.raw.last()) {
            (Some(key), _) => key.name.to_owned(),
            (None, Some(raw)) => raw.name.clone(),
            (None, None) => continue,
        };
        if let (Some(key), Some(raw)) = (group.row, group.raw.last())
            && let Err(problem) = parse_raw(key, raw)
        {
            problems.push(problem);
        }
        if !name.to_lowercase().starts_with(LICENCE) {
            ignored.push(name.clone());
        }
        merged.effective.push(effective(&name, group.row, group.raw));
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
        let raw = RawSetting { name: name.clone(), text: text.clone(), source };
        let key = match identify(&raw) {
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
                let (name, source) = (raw.name, raw.source);
                problems.push(Problem::SetTwice { name, source });
                continue;
            }
            match parse_raw(key, &raw) {
                Ok(value) => {
                    values.insert(key.name, value);
                    overridden.push(key.name);
                }
                Err(problem) => problems.push(problem),
            }
        } else if let Err(problem) = parse_raw(key, &raw) {
            problems.push(problem);
        }
    }
    (values, overridden)
}

fn group_by_key(
    raw: Vec<RawSetting>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for raw in raw {
        let row = match identify(&raw) {
            Ok(Named::Row(key)) => Some(key),
            Ok(Named::Unlisted) => {
                if let Some(nearest) = nearest_name(&raw.name) {
                    let (name, source) = (raw.name.clone(), raw.source.clone());
                    warnings.push(Warning::UnlistedKey { name, source, nearest });
                }
                None
            }
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let group = groups.entry(raw.name.to_lowercase());
        group.or_insert_with(|| Group { row, raw: Vec::new() }).raw.push(raw);
    }
    groups
}

fn identify(raw: &RawSetting) -> Result<Named, Problem> {
    match find_key(&raw.name) {
        Some(Key { name, status: Status::Refused { reason }, .. }) => {
            Err(Problem::RefusedKey { name, source: raw.source.clone(), reason })
        }
        Some(key) => Ok(Named::Row(key)),
        None if find_family(&raw.name).is_some() => Ok(Named::Unlisted),
        None => {
            let nearest = nearest_name(&raw.name);
            let (name, source) = (raw.name.clone(), raw.source.clone());
            Err(Problem::UnknownKey { name, source, nearest })
        }
    }
}

/// The value in effect for `key`: the one set, else the default.
///
/// Overridden values are not checked: in an emergency, an override must be able to replace a faulty
/// value in the file.
fn chosen_value(key: &'static Key, raw: Option<&RawSetting>, problems: &mut Vec<Problem>) -> Value {
    if let Some(raw) = raw {
        match parse_raw(key, raw) {
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

fn parse_raw(key: &'static Key, raw: &RawSetting) -> Result<Value, Problem> {
    let parsed = parse_value(key.value_type, &raw.text);
    let checked = parsed.and_then(|value| match key.only {
        Some(only) => check_only(only, &raw.text).map(|()| value),
        None => Ok(value),
    });
    checked.map_err(|expected| Problem::InvalidValue {
        name: key.name,
        value: shown(Some(key), &raw.text),
        source: raw.source.clone(),
        expected,
    })
}

fn effective(name: &str, key: Option<&'static Key>, raw: Vec<RawSetting>) -> Effective {
    let default = key.and_then(|key| key.default).map(str::to_owned);
    let mut candidates: Vec<Overridden> = raw
        .into_iter()
        .rev()
        .map(|raw| Overridden { value: Some(shown(key, &raw.text)), source: raw.source })
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
