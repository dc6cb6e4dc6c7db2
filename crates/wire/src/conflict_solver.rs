//! How conflicts are resolved: the section `ConflictSolverConfig` of a record.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    stored_section::{SectionKind, StoredSection},
};

const LATEST: &str = "ResolveToLatest";
const BY_COLLECTION: &str = "ResolveByCollection";
const SCRIPT: &str = "Script";
const LAST_MODIFIED: &str = "LastModifiedTime";

/// How conflicts are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictSolver {
    /// Whether the version that was written last is kept.
    pub resolves_to_latest: bool,
    /// The scripts that decide first, by lower-cased collection.
    pub scripts: BTreeMap<String, String>,
}

impl Default for ConflictSolver {
    fn default() -> Self {
        Self { resolves_to_latest: true, scripts: BTreeMap::new() }
    }
}

impl ConflictSolver {
    /// The configuration that a record has; without one, the version that was written last is kept.
    pub fn of_section(section: Option<&Value>) -> ConflictSolver {
        let Some(section) = section else { return ConflictSolver::default() };
        let scripts = section[BY_COLLECTION].as_object().into_iter().flatten();
        let scripts = scripts.filter_map(|(collection, script)| {
            Some((collection.to_lowercase(), script[SCRIPT].as_str()?.to_owned()))
        });
        ConflictSolver {
            resolves_to_latest: section[LATEST].as_bool().unwrap_or(false),
            scripts: scripts.collect(),
        }
    }

    /// Whether versions in conflict are kept until somebody, or a script, resolves it.
    pub fn keeps_conflicts(&self) -> bool {
        !self.resolves_to_latest || !self.scripts.is_empty()
    }
}

/// Reads what a client sent. `now` is the time that new scripts get.
///
/// # Errors
/// A property is of another type; a script is empty.
pub fn read_conflict_solver(
    sent: &Map<String, Value>,
    now: &str,
) -> Result<StoredSection, ProtocolError> {
    let latest = match sent.get(LATEST) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(latest)) => *latest,
        Some(other) => return Err(mistyped(LATEST, other, "System.Boolean")),
    };
    let mut scripts = Map::new();
    match sent.get(BY_COLLECTION) {
        None | Some(Value::Null) => {}
        Some(Value::Object(sent)) => {
            for (collection, script) in sent {
                let text = script.get(SCRIPT).and_then(Value::as_str).unwrap_or_default();
                if text.trim().is_empty() {
                    return Err(ProtocolError::invalid_operation(format!(
                        "The script that resolves conflicts of the collection '{collection}' is empty"
                    )));
                }
                scripts.insert(collection.clone(), json!({SCRIPT: text, LAST_MODIFIED: now}));
            }
        }
        Some(other) => return Err(mistyped(BY_COLLECTION, other, "an object")),
    }
    let section = json!({LATEST: latest, BY_COLLECTION: scripts});
    Ok(StoredSection::new(SectionKind::ConflictSolver, section))
}

fn mistyped(name: &str, found: &Value, wanted: &str) -> ProtocolError {
    ProtocolError::invalid_operation(format!("'{name}' cannot be {found}: it is {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: Value) -> Result<ConflictSolver, String> {
        let section = read_conflict_solver(sent.as_object().unwrap(), "now");
        let section = section.map_err(|error| error.message)?;
        Ok(ConflictSolver::of_section(Some(section.json())))
    }

    #[test]
    fn a_configuration_says_who_decides() {
        assert!(!ConflictSolver::of_section(None).keeps_conflicts());
        assert!(!read(json!({"ResolveToLatest": true})).unwrap().keeps_conflicts());
        assert!(read(json!({"ResolveToLatest": false})).unwrap().keeps_conflicts());
        let scripted = json!({
            "ResolveToLatest": true, "ResolveByCollection": {"Users": {"Script": "return docs[0];"}}
        });
        let solver = read(scripted).unwrap();
        assert!(solver.keeps_conflicts() && solver.resolves_to_latest);
        assert_eq!(solver.scripts["users"], "return docs[0];");
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for sent in [
            json!({"ResolveToLatest": 1}),
            json!({"ResolveByCollection": []}),
            json!({"ResolveByCollection": {"Users": {"Script": " "}}}),
            json!({"ResolveByCollection": {"Users": null}}),
        ] {
            assert!(read(sent.clone()).is_err(), "{sent}");
        }
    }
}
