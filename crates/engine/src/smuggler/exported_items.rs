//! Elements of the smaller kinds of data.

use blittable::write_json_string;
use cluster_state::{ClusterState, CompareExchangeEntry, SubscriptionRecord};
use documents::{
    ContentHasher, CounterRow, CounterTombstoneRow, DocumentError, DocumentRow,
    collection_numbered, counters_of, log::LogEntry,
};
use model::{AttachmentName, ChangeVector, DatabaseId, DocumentId, date};
use serde_json::{Value, json};
use smuggler::Section;
use storage::ReadTransaction;
use wire::smuggler_result::SmugglerPart;

use crate::error::EngineError;

/// Separates the parts of the key of an attachment.
const KEY_SEPARATOR: char = '\u{1e}';

/// The part of a result that counts a section.
pub(super) fn part_of(section: Section) -> SmugglerPart {
    match section {
        Section::DatabaseRecord => SmugglerPart::DatabaseRecord,
        Section::Documents | Section::LegacyAttachments => SmugglerPart::Documents,
        Section::Revisions => SmugglerPart::RevisionDocuments,
        Section::Tombstones
        | Section::LegacyDocumentDeletions
        | Section::LegacyAttachmentDeletions => SmugglerPart::Tombstones,
        Section::Conflicts => SmugglerPart::Conflicts,
        Section::Indexes | Section::LegacyTransformers => SmugglerPart::Indexes,
        Section::Identities => SmugglerPart::Identities,
        Section::CompareExchange => SmugglerPart::CompareExchange,
        Section::CompareExchangeTombstones => SmugglerPart::CompareExchangeTombstones,
        Section::Counters | Section::CounterGroups => SmugglerPart::Counters,
        Section::Subscriptions => SmugglerPart::Subscriptions,
        Section::TimeSeries => SmugglerPart::TimeSeries,
        Section::TimeSeriesDeletedRanges => SmugglerPart::TimeSeriesDeletedRanges,
        Section::ReplicationHubCertificates => SmugglerPart::ReplicationHubCertificates,
    }
}

pub(super) fn write_identity(name: &str, value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Key\":");
    write_json_string(name, out);
    out.extend_from_slice(format!(",\"Value\":\"{value}\"}}").as_bytes());
}

/// The value is JSON in a text.
pub(super) fn write_compare_exchange(
    entry: &CompareExchangeEntry<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    out.extend_from_slice(b"{\"Key\":");
    write_json_string(&entry.key, out);
    out.extend_from_slice(b",\"Value\":");
    let json = entry.value.to_json().map_err(DocumentError::from)?;
    write_json_string(&String::from_utf8_lossy(&json), out);
    out.push(b'}');
    Ok(())
}

/// A compare exchange value that was deleted.
pub(super) fn write_deleted_value(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Key\":");
    write_json_string(key, out);
    out.push(b'}');
}

pub(super) fn subscription(record: &SubscriptionRecord) -> Value {
    let SubscriptionRecord { settings, position, .. } = record;
    let time = |ticks: Option<i64>| ticks.map(date::format);
    let vector = Some(&position.change_vector).filter(|vector| !vector.is_empty());
    json!({
        "Query": settings.query, "ChangeVectorForNextBatchStartingPoint": vector,
        "SubscriptionId": record.id, "SubscriptionName": record.name,
        "MentorNode": settings.mentor_node, "PinToMentorNode": settings.is_pinned,
        "NodeTag": record.node_tag, "LastBatchAckTime": time(record.last_acknowledged_ticks),
        "LastClientConnectionTime": time(record.last_connected_ticks),
        "Disabled": settings.is_disabled, "RaftCommandIndex": record.index
    })
}

/// A hash of the identities and subscriptions of a database, which differs if an export of them would. When workers were
/// last connected is left out: each connection would change it.
pub(crate) fn hash_of_counters_and_positions(
    agreed: &ClusterState,
    database: DatabaseId,
) -> Result<String, EngineError> {
    let mut hasher = ContentHasher::default();
    let mut element = Vec::new();
    for (name, value) in agreed.identities(database)? {
        element.clear();
        write_identity(&name, value, &mut element);
        hasher.update(&element);
    }
    for record in agreed.subscriptions(database)? {
        let mut shown = subscription(&record?);
        if let Some(shown) = shown.as_object_mut() {
            shown.retain(|name, _| {
                !["LastBatchAckTime", "LastClientConnectionTime"].contains(&&**name)
            });
        }
        hasher.update(shown.to_string().as_bytes());
    }
    Ok(String::from_utf8_lossy(&hasher.finish().text()).into_owned())
}

/// The counters of a document: what each database has counted, by the position of its id in `@dbIds`.
pub(super) fn write_counters(
    tx: &ReadTransaction,
    row: &DocumentRow<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    let id = DocumentId::new(row.id()).map_err(DocumentError::from)?;
    let counters = counters_of(tx, &id)?.collect::<Result<Vec<_>, _>>()?;
    write_group(row.id(), &counters, out)
}

/// One counter in the same form.
pub(super) fn write_counter(
    tx: &ReadTransaction,
    row: &CounterRow<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    let lower_id = row.lower_document_id();
    let id = DocumentId::new(lower_id).map_err(DocumentError::from)?;
    let document = documents::get(tx, &id)?;
    let id = document.as_ref().map_or(lower_id, |document| document.id());
    write_group(id, std::slice::from_ref(row), out)
}

/// A counter that was deleted: its value is a text with the version of the deletion, `database:etag`.
pub(super) fn write_deleted_counter(
    row: &CounterTombstoneRow<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    let version: Result<ChangeVector, _> = row.change_vector().parse();
    let version = version.map_err(|_| DocumentError::Corrupt {
        detail: "the version of a deletion is unreadable",
    })?;
    let parts = version.entries().map(|entry| format!("{}:{}", entry.database_id, entry.etag.0));
    let parts: Vec<String> = parts.collect();
    let name = row.lower_name();
    let element = json!({
        "DocId": row.lower_document_id(), "ChangeVector": version.as_str(),
        "Values": {"@dbIds": [], "@names": {name: name}, "@vals": {name: parts.join(", ")}}
    });
    out.extend_from_slice(element.to_string().as_bytes());
    Ok(())
}

/// Whether there is a document of that id, whose counters are exported.
pub(super) fn is_of_document(tx: &ReadTransaction, lower_id: &str) -> Result<bool, EngineError> {
    let id = DocumentId::new(lower_id).map_err(DocumentError::from)?;
    Ok(documents::get(tx, &id)?.is_some())
}

/// Whether there is again what a tombstone says was deleted.
pub(super) fn is_created_again(
    tx: &ReadTransaction,
    entry: &LogEntry<'_>,
) -> Result<bool, EngineError> {
    match entry {
        LogEntry::DocumentTombstone(row) => {
            let id = DocumentId::new(row.id()).map_err(DocumentError::from)?;
            Ok(documents::get(tx, &id)?.is_some())
        }
        LogEntry::AttachmentTombstone(row) => {
            let id = DocumentId::new(row.lower_document_id()).map_err(DocumentError::from)?;
            let name = AttachmentName::new(row.lower_name());
            let detail = "the name of an attachment is unreadable";
            let name = name.map_err(|_| DocumentError::Corrupt { detail })?;
            Ok(documents::attachment(tx, &id, &name)?.is_some())
        }
        _ => Ok(false),
    }
}

fn write_group(
    id: &str,
    counters: &[CounterRow<'_>],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    let mut databases: Vec<DatabaseId> = Vec::new();
    let mut version = ChangeVector::empty();
    for counter in counters {
        version = version.merge(&counter.change_vector());
        for value in counter.values() {
            let id = value?.database_id;
            if !databases.contains(&id) {
                databases.push(id);
            }
        }
    }
    out.extend_from_slice(b"{\"DocId\":");
    write_json_string(id, out);
    out.extend_from_slice(format!(",\"ChangeVector\":\"{version}\",\"Values\":{{").as_bytes());
    let ids: Vec<String> = databases.iter().map(DatabaseId::to_string).collect();
    out.extend_from_slice(format!("\"@dbIds\":{},\"@names\":{{", json!(ids)).as_bytes());
    for (position, counter) in counters.iter().enumerate() {
        write_name(position, counter, out);
        write_json_string(counter.name(), out);
    }
    out.extend_from_slice(b"},\"@vals\":{");
    for (position, counter) in counters.iter().enumerate() {
        write_name(position, counter, out);
        write_values(counter, &databases, out)?;
    }
    out.extend_from_slice(b"}}}");
    Ok(())
}

fn write_name(position: usize, counter: &CounterRow<'_>, out: &mut Vec<u8>) {
    if position != 0 {
        out.push(b',');
    }
    write_json_string(counter.lower_name(), out);
    out.push(b':');
}

/// Pairs of a value and its etag; zeroes for databases that have counted nothing.
fn write_values(
    counter: &CounterRow<'_>,
    databases: &[DatabaseId],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    let values = counter.values().collect::<Result<Vec<_>, _>>()?;
    let pair = |id: &DatabaseId| values.iter().find(|value| value.database_id == *id);
    let known = databases.iter().rposition(|id| pair(id).is_some()).map_or(0, |last| last + 1);
    let pairs = databases[..known].iter().map(|id| match pair(id) {
        Some(value) => format!("{},{}", value.value, value.etag.0),
        None => "0,0".to_owned(),
    });
    let pairs: Vec<String> = pairs.collect();
    out.extend_from_slice(format!("[{}]", pairs.join(",")).as_bytes());
    Ok(())
}

/// Tombstones.
pub(super) fn write_other(
    tx: &ReadTransaction,
    entry: &LogEntry<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    match entry {
        LogEntry::DocumentTombstone(row) => {
            let collection = collection_numbered(tx, row.collection_number())?;
            let collection = collection.name.to_string();
            let flags = row.flags().to_string();
            let flags = if flags.is_empty() { "None".to_owned() } else { flags };
            let element = json!({
                "Key": row.id(), "Type": "Document", "Collection": collection, "Flags": flags,
                "ChangeVector": row.change_vector(), "DeletedEtag": row.deleted_etag().0,
                "Etag": row.etag().0, "LastModified": date::format(row.last_modified_ticks())
            });
            out.extend_from_slice(element.to_string().as_bytes());
        }
        LogEntry::AttachmentTombstone(row) => {
            let (id, name) = (row.lower_document_id(), row.lower_name());
            let s = KEY_SEPARATOR;
            let element = json!({
                "Key": format!("{id}{s}d{s}{name}{s}{s}"), "Type": "Attachment",
                "Collection": null, "Flags": "None", "ChangeVector": row.change_vector(),
                "DeletedEtag": row.deleted_etag().0, "Etag": row.etag().0,
                "LastModified": date::format(row.deleted_at_ticks())
            });
            out.extend_from_slice(element.to_string().as_bytes());
        }
        _ => {}
    }
    Ok(())
}
