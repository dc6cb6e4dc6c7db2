//! The sections of a database's record that clients replace by requests of their own.

use std::collections::BTreeMap;

use model::{RetentionKind, TIME_SERIES_PROPERTY};
use serde_json::{Map, Value};

use crate::record_body::texts_of_settings;

/// A section of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// What the clients of the database load from the server.
    Client,
    /// Which documents are compressed.
    Compression,
    /// Which revisions of conflicts are kept.
    ConflictRevisions,
    /// How conflicts are resolved.
    ConflictSolver,
    /// How documents expire, or are refreshed or archived.
    Retention(RetentionKind),
    /// Which revisions of documents are kept.
    Revisions,
    /// Settings that take precedence over the server's.
    Settings,
    /// What the studio shows of the database.
    Studio,
    /// The policies of time series and the names of their values.
    TimeSeries,
}

impl SectionKind {
    /// The property of a record that holds the section.
    pub fn property(self) -> &'static str {
        match self {
            SectionKind::Client => "Client",
            SectionKind::Compression => "DocumentsCompression",
            SectionKind::ConflictRevisions => "RevisionsForConflicts",
            SectionKind::ConflictSolver => "ConflictSolverConfig",
            SectionKind::Retention(kind) => kind.property(),
            SectionKind::Revisions => "Revisions",
            SectionKind::Settings => "Settings",
            SectionKind::Studio => "Studio",
            SectionKind::TimeSeries => TIME_SERIES_PROPERTY,
        }
    }
}

/// The content of a section as it is stored and shown. Invariant: it is valid, because only the readers of this
/// crate make one, from what a client sent.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSection {
    kind: SectionKind,
    json: Value,
}

impl StoredSection {
    /// The content of a section that was found to be valid.
    pub(crate) fn new(kind: SectionKind, json: Value) -> Self {
        Self { kind, json }
    }

    /// The section.
    pub fn kind(&self) -> SectionKind {
        self.kind
    }

    /// The content.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The content as bytes.
    pub fn to_json(&self) -> Vec<u8> {
        self.json.to_string().into_bytes()
    }

    /// The names of settings, and their values as texts; `None` in another section.
    pub fn settings(&self) -> Option<BTreeMap<String, String>> {
        match (self.kind, &self.json) {
            (SectionKind::Settings, Value::Object(settings)) => Some(texts_of_settings(settings)),
            _ => None,
        }
    }
}

/// The settings of a database, as sent by a client. `engine` checks their names and values.
pub fn read_settings_section(sent: Map<String, Value>) -> StoredSection {
    StoredSection::new(SectionKind::Settings, Value::Object(sent))
}
