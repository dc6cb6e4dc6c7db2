//! What an export or an import is to contain, as clients send it.

use serde_json::{Map, Value};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// Kinds of data in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmugglerType {
    /// Documents.
    Documents,
    /// Revisions.
    RevisionDocuments,
    /// Definitions of indexes.
    Indexes,
    /// Identities.
    Identities,
    /// Deletions.
    Tombstones,
    /// Attachments without a document, of RavenDB 3.5.
    LegacyAttachments,
    /// Conflicts.
    Conflicts,
    /// Compare exchange values.
    CompareExchange,
    /// Deletions of documents, of RavenDB 3.5.
    LegacyDocumentDeletions,
    /// Deletions of attachments, of RavenDB 3.5.
    LegacyAttachmentDeletions,
    /// Settings of the database.
    DatabaseRecord,
    /// Counters, one by one, of RavenDB 4.1.
    Counters,
    /// Attachments of documents and revisions.
    Attachments,
    /// Counters by document.
    CounterGroups,
    /// Subscriptions.
    Subscriptions,
    /// Deletions of compare exchange values.
    CompareExchangeTombstones,
    /// Time series.
    TimeSeries,
    /// Certificates of a replication hub.
    ReplicationHubCertificates,
    /// Deleted ranges of time series.
    TimeSeriesDeletedRanges,
}

/// The words of the protocol.
const WORDS: &[(&str, SmugglerType)] = &[
    ("Documents", SmugglerType::Documents),
    ("RevisionDocuments", SmugglerType::RevisionDocuments),
    ("Indexes", SmugglerType::Indexes),
    ("Identities", SmugglerType::Identities),
    ("Tombstones", SmugglerType::Tombstones),
    ("LegacyAttachments", SmugglerType::LegacyAttachments),
    ("Conflicts", SmugglerType::Conflicts),
    ("CompareExchange", SmugglerType::CompareExchange),
    ("LegacyDocumentDeletions", SmugglerType::LegacyDocumentDeletions),
    ("LegacyAttachmentDeletions", SmugglerType::LegacyAttachmentDeletions),
    ("DatabaseRecord", SmugglerType::DatabaseRecord),
    ("Counters", SmugglerType::Counters),
    ("Attachments", SmugglerType::Attachments),
    ("CounterGroups", SmugglerType::CounterGroups),
    ("Subscriptions", SmugglerType::Subscriptions),
    ("CompareExchangeTombstones", SmugglerType::CompareExchangeTombstones),
    ("TimeSeries", SmugglerType::TimeSeries),
    ("ReplicationHubCertificates", SmugglerType::ReplicationHubCertificates),
    ("TimeSeriesDeletedRanges", SmugglerType::TimeSeriesDeletedRanges),
];

impl SmugglerType {
    /// Its word in the protocol.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// Words that are read and mean nothing here.
const WORDS_WITHOUT_TYPE: [&str; 2] = ["None", "Unknown"];

/// What is exported and imported unless something else is asked for.
const DEFAULT_TYPES: [SmugglerType; 13] = [
    SmugglerType::Indexes,
    SmugglerType::Documents,
    SmugglerType::RevisionDocuments,
    SmugglerType::Conflicts,
    SmugglerType::DatabaseRecord,
    SmugglerType::ReplicationHubCertificates,
    SmugglerType::Identities,
    SmugglerType::CompareExchange,
    SmugglerType::Attachments,
    SmugglerType::CounterGroups,
    SmugglerType::Subscriptions,
    SmugglerType::TimeSeries,
    SmugglerType::TimeSeriesDeletedRanges,
];

/// How the text of a dump is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SmugglerCompression {
    /// Zstandard.
    #[default]
    Zstd,
    /// gzip.
    Gzip,
}

/// What an export or an import is to contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmugglerOptions {
    /// The kinds of data.
    pub types: Vec<SmugglerType>,
    /// The parts of the database's record, in lower case; all when `None`.
    pub record_types: Option<Vec<String>>,
    /// The collections; all when empty.
    pub collections: Vec<String>,
    /// Whether expired documents are included.
    pub include_expired: bool,
    /// Whether documents that indexes wrote are included.
    pub include_artificial: bool,
    /// Whether archived documents are included.
    pub include_archived: bool,
    /// Whether analyzers are left out of the definitions of indexes.
    pub remove_analyzers: bool,
    /// Whether no revisions are made of imported documents.
    pub skip_revision_creation: bool,
    /// A script that changes or leaves out documents.
    pub transform_script: Option<String>,
    /// The most steps of that script for one document.
    pub transform_steps_max: Option<u64>,
    /// The name of the file, for browsers.
    pub file_name: Option<String>,
    /// How the file is compressed.
    pub compression: SmugglerCompression,
    /// The key of an encrypted file.
    pub encryption_key: Option<SmugglerKey>,
}

/// A key in base64, as a client sent it.
#[derive(Clone, PartialEq, Eq)]
pub struct SmugglerKey(pub String);

impl std::fmt::Debug for SmugglerKey {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SmugglerKey")
    }
}

impl Default for SmugglerOptions {
    fn default() -> Self {
        Self {
            types: DEFAULT_TYPES.to_vec(),
            record_types: None,
            collections: Vec::new(),
            include_expired: true,
            include_artificial: false,
            include_archived: true,
            remove_analyzers: false,
            skip_revision_creation: false,
            transform_script: None,
            transform_steps_max: None,
            file_name: None,
            compression: SmugglerCompression::default(),
            encryption_key: None,
        }
    }
}

impl SmugglerOptions {
    /// Reads the options of a request. Names of properties are read in any case, since clients differ in that; unknown
    /// ones are ignored.
    ///
    /// # Errors
    /// A property of another type than it should have, or with an unknown word.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let mut options = Self::default();
        for (name, value) in sent.iter().filter(|(_, value)| !value.is_null()) {
            match name.to_ascii_lowercase().as_str() {
                "operateontypes" => options.types = types_in(name, value)?,
                "operateondatabaserecordtypes" | "operateondatabaserecordtype" => {
                    options.record_types = Some(words_in(name, value)?);
                }
                "collections" => options.collections = texts_in(name, value)?,
                "includeexpired" => options.include_expired = flag_in(name, value)?,
                "includeartificial" => options.include_artificial = flag_in(name, value)?,
                "includearchived" => options.include_archived = flag_in(name, value)?,
                "removeanalyzers" => options.remove_analyzers = flag_in(name, value)?,
                "skiprevisioncreation" => options.skip_revision_creation = flag_in(name, value)?,
                "transformscript" => options.transform_script = text_in(name, value)?,
                "maxstepsfortransformscript" => options.transform_steps_max = value.as_u64(),
                "filename" => options.file_name = text_in(name, value)?,
                "compressionalgorithm" => options.compression = compression_in(name, value)?,
                "encryptionkey" => options.encryption_key = text_in(name, value)?.map(SmugglerKey),
                _ => {}
            }
        }
        Ok(options)
    }

    /// Whether this kind of data is included.
    pub fn includes(&self, kind: SmugglerType) -> bool {
        match kind {
            // Clients that know only the one name want both.
            SmugglerType::CounterGroups | SmugglerType::Counters => {
                self.types.contains(&SmugglerType::CounterGroups)
                    || self.types.contains(&SmugglerType::Counters)
            }
            kind => self.types.contains(&kind),
        }
    }

    /// Whether this part of the database's record is included.
    pub fn includes_record_part(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.record_types.as_ref().is_none_or(|words| words.contains(&name))
    }

    /// Whether documents of this collection are included.
    pub fn includes_collection(&self, name: &str) -> bool {
        self.collections.is_empty()
            || self.collections.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn types_in(name: &str, value: &Value) -> Result<Vec<SmugglerType>, ProtocolError> {
    let Value::String(text) = value else { return Err(unfit(name, value)) };
    let mut types = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
            Some((_, kind)) => types.push(*kind),
            None if WORDS_WITHOUT_TYPE.iter().any(|known| known.eq_ignore_ascii_case(word)) => {}
            None => {
                let message = format!(
                    "Could not convert Sparrow.Json.LazyStringValue ('{text}') to \
                     Raven.Client.Documents.Smuggler.DatabaseItemType"
                );
                return Err(ProtocolError::new(ErrorKind::Format, message));
            }
        }
    }
    Ok(types)
}

fn words_in(name: &str, value: &Value) -> Result<Vec<String>, ProtocolError> {
    let lower = |word: &str| word.trim().to_ascii_lowercase();
    match value {
        Value::String(text) => Ok(text.split(',').map(lower).collect()),
        Value::Array(_) => Ok(texts_in(name, value)?.iter().map(|word| lower(word)).collect()),
        other => Err(unfit(name, other)),
    }
}

fn texts_in(name: &str, value: &Value) -> Result<Vec<String>, ProtocolError> {
    let Value::Array(items) = value else { return Err(unfit(name, value)) };
    let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| unfit(name, value));
    items.iter().map(text).collect()
}

fn text_in(name: &str, value: &Value) -> Result<Option<String>, ProtocolError> {
    let text = value.as_str().ok_or_else(|| unfit(name, value))?;
    Ok(Some(text.to_owned()).filter(|text| !text.trim().is_empty()))
}

fn flag_in(name: &str, value: &Value) -> Result<bool, ProtocolError> {
    value.as_bool().ok_or_else(|| unfit(name, value))
}

fn compression_in(name: &str, value: &Value) -> Result<SmugglerCompression, ProtocolError> {
    match value.as_str() {
        Some(word) if word.eq_ignore_ascii_case("zstd") => Ok(SmugglerCompression::Zstd),
        Some(word) if word.eq_ignore_ascii_case("gzip") => Ok(SmugglerCompression::Gzip),
        _ => Err(unfit(name, value)),
    }
}

fn unfit(name: &str, value: &Value) -> ProtocolError {
    let message = format!("The option '{name}' cannot have the value {value}");
    ProtocolError::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<SmugglerOptions, ProtocolError> {
        SmugglerOptions::read(sent.as_object().unwrap())
    }

    #[test]
    fn names_are_read_in_any_case_and_defaults_are_the_protocols() {
        let options = read(json!({
            "operateOnTypes": "Documents, counters", "Collections": ["Us"], "IncludeExpired": false,
            "CompressionAlgorithm": "Gzip", "TransformScript": "", "somethingNew": [1],
            "EncryptionKey": null
        }));
        let options = options.unwrap();
        assert!(options.includes(SmugglerType::CounterGroups));
        assert!(!options.includes(SmugglerType::Indexes));
        assert!(options.includes_collection("us") && !options.includes_collection("Other"));
        assert!(!options.include_expired && options.transform_script.is_none());
        assert_eq!(options.compression, SmugglerCompression::Gzip);
        let default = read(json!({})).unwrap();
        assert!(default.includes(SmugglerType::TimeSeries));
        assert!(!default.includes(SmugglerType::Tombstones));
        assert!(default.includes_collection("Any") && default.includes_record_part("Revisions"));
        assert!(read(json!({"OperateOnTypes": "None"})).unwrap().types.is_empty());
        let some = read(json!({"OperateOnDatabaseRecordTypes": "Revisions,Expiration"})).unwrap();
        assert!(some.includes_record_part("revisions") && !some.includes_record_part("Client"));
    }

    #[test]
    fn a_key_is_read_and_never_shown() {
        let options = read(json!({"EncryptionKey": "abc"})).unwrap();
        assert_eq!(options.encryption_key, Some(SmugglerKey("abc".to_owned())));
        assert!(!format!("{options:?}").contains("abc"));
        assert_eq!(read(json!({"EncryptionKey": " "})).unwrap().encryption_key, None);
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for sent in [
            json!({"OperateOnTypes": "Documents,Foo"}),
            json!({"OperateOnTypes": 5}),
            json!({"Collections": "Us"}),
            json!({"IncludeExpired": "yes"}),
            json!({"EncryptionKey": 5}),
            json!({"CompressionAlgorithm": "brotli"}),
        ] {
            assert!(read(sent.clone()).is_err(), "{sent}");
        }
    }
}
