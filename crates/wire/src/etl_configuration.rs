//! ETL tasks as clients define them, and as the record of a database stores them.

use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    sent_properties::{flag, property, text, texts, unfit, with_names_as_written},
};

/// How long a destination may take for one request unless a task says otherwise.
const LOAD_TIMEOUT_SECONDS: u64 = 60;
/// A task may not wait longer.
const LOAD_TIMEOUT_SECONDS_MAX: u64 = 60 * 60;
/// Each script of a task reads the log by itself.
const SCRIPTS_MAX: usize = 64;
const TRANSFORMS: &str = "Transforms";
/// The properties of a task that this server knows, as they are written.
const TASK_PROPERTIES: [&str; 10] = [
    "EtlType",
    "TaskId",
    "Name",
    "Disabled",
    "ConnectionStringName",
    "MentorNode",
    "PinToMentorNode",
    "LoadRequestTimeoutInSec",
    "AllowEtlOnNonEncryptedChannel",
    TRANSFORMS,
];
/// Those of a transformation.
const TRANSFORM_PROPERTIES: [&str; 5] =
    ["Name", "Disabled", "ApplyToAllDocuments", "Collections", "Script"];

/// A task that sends documents to another database of Corvus or RavenDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RavenEtl {
    /// Its number; 0 if it has none yet.
    pub id: u64,
    /// Its name, unique among the ETL tasks of its database.
    pub name: String,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// The name of its connection string.
    pub connection: String,
    /// The node that should run it.
    pub mentor_node: Option<String>,
    /// Whether only that node may run it.
    pub is_pinned: bool,
    /// How long the destination may take for one request, in seconds.
    pub load_timeout_seconds: u64,
    /// Whether what is stored encrypted may be sent over connections that are not.
    pub allows_unencrypted: bool,
    /// What it sends; at least one.
    pub transforms: Vec<EtlTransformation>,
}

/// A part of a task: which documents it sends, and what of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtlTransformation {
    /// Its name, unique within its task.
    pub name: String,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// Whether it reads all documents.
    pub reads_all: bool,
    /// The collections that it reads; none if it reads all documents.
    pub collections: Vec<String>,
    /// Its script; `None` if it sends documents as they are.
    pub script: Option<String>,
}

impl RavenEtl {
    /// The number of a stored task; `None` if it has none.
    pub fn id_of(stored: &Map<String, Value>) -> Option<u64> {
        property(stored, "TaskId").and_then(Value::as_u64).filter(|id| *id != 0)
    }

    /// A task and its transformations with the names of their properties as they are written: clients may send them in any
    /// case, and a property must not be stored under two names.
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        let mut named = with_names_as_written(sent, &TASK_PROPERTIES);
        if let Some(Value::Array(transforms)) = named.get_mut(TRANSFORMS) {
            for transform in transforms.iter_mut().filter_map(Value::as_object_mut) {
                *transform = with_names_as_written(transform, &TRANSFORM_PROPERTIES);
            }
        }
        named
    }

    /// Reads a task of a list of tasks of this kind, which need not say that they are.
    ///
    /// # Errors
    /// As [`RavenEtl::read`].
    pub fn read_stored(stored: &Map<String, Value>) -> Result<Self, ProtocolError> {
        if property(stored, "EtlType").is_some() {
            return Self::read(stored);
        }
        let mut stored = stored.clone();
        stored.insert("EtlType".to_owned(), "Raven".into());
        Self::read(&stored)
    }

    /// Reads a task of this kind, as it is sent or stored.
    ///
    /// # Errors
    /// It is of another kind, which is not supported; a property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let kind = property(sent, "EtlType").ok_or_else(|| {
            ProtocolError::invalid_operation("ETL configuration must have EtlType field")
        })?;
        let kind = kind.as_str().ok_or_else(|| unfit("EtlType", kind, "a text"))?;
        if !kind.eq_ignore_ascii_case("Raven") {
            return Err(other_kind(kind));
        }
        let etl = Self {
            id: Self::id_of(sent).unwrap_or(0),
            name: text(sent, "Name")?.unwrap_or_default(),
            is_disabled: flag(sent, "Disabled")?,
            connection: text(sent, "ConnectionStringName")?.unwrap_or_default(),
            mentor_node: text(sent, "MentorNode")?,
            is_pinned: flag(sent, "PinToMentorNode")?,
            load_timeout_seconds: match property(sent, "LoadRequestTimeoutInSec") {
                None => LOAD_TIMEOUT_SECONDS,
                Some(sent) => sent
                    .as_u64()
                    .filter(|seconds| (1..=LOAD_TIMEOUT_SECONDS_MAX).contains(seconds))
                    .ok_or_else(|| {
                        let message = format!(
                            "'LoadRequestTimeoutInSec' must be a number from 1 to {LOAD_TIMEOUT_SECONDS_MAX}"
                        );
                        ProtocolError::new(ErrorKind::InvalidData, message)
                    })?,
            },
            allows_unencrypted: flag(sent, "AllowEtlOnNonEncryptedChannel")?,
            transforms: transforms(sent)?,
        };
        etl.check()?;
        Ok(etl)
    }

    /// Checks what does not depend on the database.
    fn check(&self) -> Result<(), ProtocolError> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok(());
        }
        let message = format!(
            "Invalid ETL configuration for '{}'. Reason: {}",
            self.name,
            problems.join(" ")
        );
        Err(ProtocolError::invalid_operation(message))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.name.is_empty() {
            problems.push("Name of ETL configuration cannot be empty.".to_owned());
        }
        if self.connection.is_empty() {
            problems.push("ConnectionStringName cannot be empty.".to_owned());
        }
        match self.transforms.len() {
            0 => problems.push("'Transforms' list cannot be empty.".to_owned()),
            1..=SCRIPTS_MAX => {}
            _ => problems.push(format!("'Transforms' list has more than {SCRIPTS_MAX} scripts.")),
        }
        for (at, transform) in self.transforms.iter().enumerate() {
            let is_same =
                |other: &EtlTransformation| other.name.eq_ignore_ascii_case(&transform.name);
            if self.transforms[..at].iter().any(is_same) {
                let name = &transform.name;
                problems.push(format!(
                    "Script name '{name}' name is already defined. The script names need to be unique."
                ));
            }
            problems.extend(transform.problems());
        }
        problems
    }

    /// The transformation of this name.
    pub fn transform(&self, name: &str) -> Option<&EtlTransformation> {
        self.transforms.iter().find(|transform| transform.name.eq_ignore_ascii_case(name))
    }
}

/// The refusal of a task of another kind.
fn other_kind(kind: &str) -> ProtocolError {
    let known =
        ["Sql", "Olap", "ElasticSearch", "Queue", "Snowflake", "EmbeddingsGeneration", "GenAi"];
    let (error, message) = match known.iter().find(|known| known.eq_ignore_ascii_case(kind)) {
        Some(known) => (
            ErrorKind::NotSupported,
            format!(
                "ETL tasks of the type '{known}' are not supported by this server yet: it sends documents to \
                 databases of Corvus and RavenDB ('Raven'). Its connection strings can be stored."
            ),
        ),
        None => (ErrorKind::NotSupported, format!("Unknown ETL configuration type: {kind}")),
    };
    ProtocolError::new(error, message)
}

fn transforms(sent: &Map<String, Value>) -> Result<Vec<EtlTransformation>, ProtocolError> {
    let sent = match property(sent, TRANSFORMS) {
        None => return Ok(Vec::new()),
        Some(Value::Array(sent)) => sent,
        Some(other) => return Err(unfit(TRANSFORMS, other, "an array")),
    };
    sent.iter()
        .map(|sent| match sent {
            Value::Object(sent) => EtlTransformation::read(sent),
            other => Err(unfit(TRANSFORMS, other, "an array of objects")),
        })
        .collect()
}

impl EtlTransformation {
    /// Reads one.
    ///
    /// # Errors
    /// A property is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let name = text(sent, "Name")?.unwrap_or_default();
        let reads_all = flag(sent, "ApplyToAllDocuments")?;
        let mut collections: Vec<String> = Vec::new();
        for collection in texts(sent, "Collections")? {
            if !collections.iter().any(|known| known.eq_ignore_ascii_case(&collection)) {
                collections.push(collection);
            }
        }
        let is_disabled = flag(sent, "Disabled")?;
        Ok(Self { name, is_disabled, reads_all, collections, script: text(sent, "Script")? })
    }

    fn problems(&self) -> Vec<String> {
        let name = &self.name;
        let mut problems = Vec::new();
        if name.is_empty() {
            problems.push("Script name cannot be empty.".to_owned());
        }
        match (self.reads_all, self.collections.is_empty()) {
            (false, true) => problems.push(format!(
                "Collections need be specified or ApplyToAllDocuments has to be set. Script name: '{name}'."
            )),
            (true, false) => problems.push(format!(
                "Collections cannot be specified when ApplyToAllDocuments is set. Script name: '{name}'."
            )),
            (true, true) | (false, false) => {}
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<RavenEtl, ProtocolError> {
        RavenEtl::read(sent.as_object().unwrap())
    }

    fn task(transforms: Value) -> Value {
        json!({"EtlType": "Raven", "Name": "n", "ConnectionStringName": "c", "Transforms": transforms})
    }

    #[test]
    fn a_task_has_scripts() {
        let read = read(task(json!([
            {"Name": "a", "ApplyToAllDocuments": true, "Script": " "},
            {"name": "b", "collections": ["Users", "users", "Orders"], "script": "loadToUsers(this)", "Disabled": true},
        ])))
        .unwrap();
        let [first, second] = &read.transforms[..] else { panic!("{read:?}") };
        assert_eq!((first.script.as_deref(), first.collections.len()), (None, 0));
        assert_eq!(second.collections, ["Users", "Orders"]);
        assert!(second.is_disabled && !first.is_disabled);
        assert_eq!(read.load_timeout_seconds, LOAD_TIMEOUT_SECONDS);
    }

    #[test]
    fn a_task_is_stored_with_the_names_that_every_reader_knows() {
        let sent = json!({
            "etltype": "Raven", "name": "n", "NAME": "other", "Extra": {"name": 1}, "disabled": true, "Disabled": false,
            "transforms": [{"script": "s", "collections": ["A"], "more": 1}]
        });
        let expected = json!({
            "EtlType": "Raven", "Name": "n", "Extra": {"name": 1}, "Disabled": false,
            "Transforms": [{"Script": "s", "Collections": ["A"], "more": 1}]
        });
        let named = RavenEtl::with_names_as_written(sent.as_object().unwrap());
        assert_eq!(Value::Object(named), expected);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_reason() {
        let all = json!([{"Name": "a", "ApplyToAllDocuments": true}]);
        for (sent, expected) in [
            (json!({}), "ETL configuration must have EtlType field"),
            (json!({"EtlType": "sql"}), "'Sql' are not supported"),
            (json!({"EtlType": "Fax"}), "Unknown ETL configuration type: Fax"),
            (json!({"EtlType": 5}), "a text, not a number"),
            (
                json!({"EtlType": "Raven", "Transforms": all}),
                "Name of ETL configuration cannot be empty. ConnectionStringName",
            ),
            (task(json!([])), "'Transforms' list cannot be empty"),
            (task(json!({})), "an array, not an object"),
            (task(json!([5])), "an array of objects"),
            (task(json!([{"Name": "a"}])), "Collections need be specified"),
            (
                task(json!([{"Name": "a", "Collections": ["A"], "ApplyToAllDocuments": true}])),
                "cannot be specified",
            ),
            (task(json!([{"ApplyToAllDocuments": true}])), "Script name cannot be empty"),
            (
                task(
                    json!([{"Name": "a", "Collections": ["A"]}, {"Name": "A", "Collections": ["A"]}]),
                ),
                "already defined",
            ),
        ] {
            let error = read(sent.clone()).unwrap_err();
            assert!(error.message.contains(expected), "{sent}: {}", error.message);
        }
        let mut sent = task(all);
        sent["LoadRequestTimeoutInSec"] = json!(0);
        assert!(read(sent).unwrap_err().message.contains("LoadRequestTimeoutInSec"));
    }
}
