//! What clients have configured of a database: the JSON as they sent it, and its meaning.
//!
//! Invariant: a configuration never changes; a change of a record stores another one. So its JSON is parsed at
//! most once, at the first use, and records of databases that nobody opens are never parsed. The JSON keeps the
//! properties that no version of Corvus knows, and the order of all, for clients that read the record back. It is
//! opaque here: `wire` parses it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use crate::{
    DocumentsCompression, IdSeparator, RecordedIndexes, RetentionConfigurations,
    RevisionsConfiguration, TimeSeriesConfiguration,
};

/// The configuration of a database in its record.
#[derive(Clone)]
pub struct RecordConfiguration {
    json: Arc<[u8]>,
    sections: OnceLock<Arc<RecordSections>>,
}

/// The sections of a configuration that the engine interprets.
#[derive(Clone, Debug)]
pub struct RecordSections {
    /// Whether the database is being restored, and not to be used.
    pub is_restoring: bool,
    /// Settings that take precedence over the server's: names of keys, and their values as texts.
    pub settings: BTreeMap<String, String>,
    /// Which older versions of documents are kept.
    pub revisions: Result<Arc<RevisionsConfiguration>, UnreadableSection>,
    /// Which documents are compressed.
    pub compression: Result<DocumentsCompression, UnreadableSection>,
    /// The separator in ids that the server numbers.
    pub id_separator: IdSeparator,
    /// How often due documents are looked for.
    pub retention: RetentionConfigurations,
    /// The policies of time series and the names of their values; `None` if there are none.
    pub time_series: Option<Arc<TimeSeriesConfiguration>>,
    /// The definitions of indexes.
    pub indexes: Result<RecordedIndexes, UnreadableSection>,
}

/// A section of a record holds something that cannot be interpreted. A database with such a section is not opened;
/// one that is open keeps its present configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableSection {
    /// What is wrong with it.
    pub message: String,
}

impl RecordConfiguration {
    /// A configuration as a client sent it: a JSON object.
    pub fn new(json: &[u8]) -> Self {
        Self { json: json.into(), sections: OnceLock::new() }
    }

    /// The JSON, with every property in its place.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Its sections; `parse` is called with the JSON at the first use.
    pub fn sections(&self, parse: fn(&[u8]) -> RecordSections) -> &RecordSections {
        self.sections.get_or_init(|| Arc::new(parse(&self.json)))
    }
}

impl PartialEq for RecordConfiguration {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for RecordConfiguration {}

impl fmt::Debug for RecordConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.json))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static PARSED: AtomicU32 = AtomicU32::new(0);

    fn parse(json: &[u8]) -> RecordSections {
        PARSED.fetch_add(1, Ordering::Relaxed);
        RecordSections {
            is_restoring: false,
            settings: [("json".to_owned(), String::from_utf8_lossy(json).into_owned())].into(),
            revisions: Ok(Arc::default()),
            compression: Ok(DocumentsCompression::nothing()),
            id_separator: IdSeparator::default(),
            retention: RetentionConfigurations::default(),
            time_series: None,
            indexes: Ok(RecordedIndexes::default()),
        }
    }

    #[test]
    fn a_configuration_is_parsed_once_and_its_copies_are_not_parsed_again() {
        let configuration = RecordConfiguration::new(b"{\"B\":1,\"A\":2}");
        assert_eq!(configuration.json(), b"{\"B\":1,\"A\":2}");
        assert_eq!(configuration.sections(parse).settings["json"], "{\"B\":1,\"A\":2}");
        let copy = configuration.clone();
        assert_eq!(copy.sections(parse).settings, configuration.sections(parse).settings);
        assert_eq!(PARSED.load(Ordering::Relaxed), 1);
        assert_eq!(copy, configuration);
        assert_ne!(copy, RecordConfiguration::new(b"{}"));
    }
}
