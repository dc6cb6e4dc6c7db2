//! `/stats` and `/collections/stats` in their variants.

use serde_json::{Map, Value, json};

use crate::index_shapes::IndexSummary;
use crate::server_shapes::DebugMetadata;
use crate::size_text::SizeText;

/// The statistics of one open database.
#[derive(Clone, Debug)]
pub struct DatabaseStatistics {
    /// All documents, including HiLo documents.
    pub documents_count: u64,
    /// Tombstones of documents.
    pub tombstones_count: u64,
    /// Revisions of documents; `None` if revisions are not configured and there are none.
    pub revisions_count: Option<u64>,
    /// Attachments of documents and revisions.
    pub attachments_count: u64,
    /// Distinct contents of attachments.
    pub contents_count: u64,
    /// Documents in conflict.
    pub conflicted_documents: u64,
    /// Versions of documents in conflict.
    pub conflicts_count: u64,
    /// Documents that have counters.
    pub counted_documents: u64,
    /// Segments of time series.
    pub time_series_segments_count: u64,
    /// Deleted ranges of time series.
    pub time_series_deleted_ranges_count: u64,
    /// The database's change vector; empty before the first write.
    pub change_vector: String,
    /// 22 characters of base64.
    pub database_id: String,
    /// Commands in the commit queue.
    pub queued_commands: u64,
    /// The etag of the newest document.
    pub last_document_etag: u64,
    /// The newest etag of all.
    pub last_database_etag: u64,
    /// Bytes on disk.
    pub size_bytes: u64,
    /// Each index.
    pub indexes: Vec<IndexSummary>,
}

/// What the cluster stores for a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterStatistics {
    /// Identities.
    pub identities_count: u64,
    /// Values of compare exchange.
    pub compare_exchange_count: u64,
    /// Deleted compare exchange values.
    pub deleted_compare_exchange_count: u64,
}

impl DatabaseStatistics {
    /// `/stats`, with the marker of diagnostic answers first.
    pub fn to_json(&self, metadata: &DebugMetadata) -> Value {
        let mut answer = Map::new();
        answer.insert("@metadata".into(), json!(metadata));
        self.append_to(&mut answer);
        Value::Object(answer)
    }

    /// `/stats/detailed`.
    pub fn to_detailed_json(&self, cluster: &ClusterStatistics) -> Value {
        let Value::Object(mut answer) = json!({
            "CountOfIdentities": cluster.identities_count,
            "CountOfCompareExchange": cluster.compare_exchange_count,
            "CountOfCompareExchangeTombstones": cluster.deleted_compare_exchange_count,
            "CountOfTimeSeriesDeletedRanges": self.time_series_deleted_ranges_count
        }) else {
            return Value::Null;
        };
        self.append_to(&mut answer);
        Value::Object(answer)
    }

    /// `/stats/essential`.
    pub fn to_essential_json(&self) -> Value {
        json!({
            "CountOfIndexes": self.indexes.len(), "CountOfDocuments": self.documents_count,
            "CountOfRevisionDocuments": self.revisions_count.unwrap_or(0),
            "CountOfTombstones": self.tombstones_count,
            "CountOfDocumentsConflicts": self.conflicted_documents,
            "CountOfConflicts": self.conflicts_count,
            "CountOfAttachments": self.attachments_count,
            "CountOfCounterEntries": self.counted_documents,
            "CountOfTimeSeriesSegments": self.time_series_segments_count,
            "Indexes": self.summaries()
        })
    }

    fn summaries(&self) -> Vec<Value> {
        self.indexes.iter().map(IndexSummary::to_json).collect()
    }

    /// When any index last indexed.
    fn last_indexing_time(&self) -> Option<&str> {
        self.indexes.iter().filter_map(|index| index.last_indexing_time.as_deref()).max()
    }

    fn append_to(&self, answer: &mut Map<String, Value>) {
        answer.insert("CountOfIndexes".into(), self.indexes.len().into());
        answer.insert("CountOfDocuments".into(), self.documents_count.into());
        if let Some(count) = self.revisions_count {
            answer.insert("CountOfRevisionDocuments".into(), count.into());
        }
        let Value::Object(numbers) = json!({
            "CountOfTombstones": self.tombstones_count,
            "CountOfDocumentsConflicts": self.conflicted_documents,
            "CountOfConflicts": self.conflicts_count, "CountOfAttachments": self.attachments_count,
            "CountOfCounterEntries": self.counted_documents,
            "CountOfTimeSeriesSegments": self.time_series_segments_count, "CountOfUniqueAttachments": self.contents_count,
            "DatabaseChangeVector": self.change_vector, "DatabaseId": self.database_id,
            "NumberOfTransactionMergerQueueOperations": self.queued_commands, "Is64Bit": true,
            "Pager": "Voron.Impl.Paging.RvnMemoryMapPager", "LastDocEtag": self.last_document_etag,
            "LastDatabaseEtag": self.last_database_etag, "LastIndexingTime": self.last_indexing_time(),
            "SizeOnDisk": SizeText::of(self.size_bytes), "TempBuffersSizeOnDisk": SizeText::of(0),
            "Indexes": self.summaries()
        }) else {
            return;
        };
        answer.extend(numbers);
    }
}

/// The statistics of one collection.
#[derive(Clone, Debug)]
pub struct CollectionStatistics {
    /// Its name in its original spelling.
    pub name: String,
    /// Number of its documents.
    pub documents_count: u64,
    /// Bytes of its documents.
    pub documents_bytes: u64,
    /// Bytes of its tombstones.
    pub tombstones_bytes: u64,
    /// Bytes of its revisions.
    pub revisions_bytes: u64,
}

/// `/collections/stats`. `conflicts` is the number of documents in conflict.
pub fn collections_answer(collections: &[CollectionStatistics], conflicts: u64) -> Value {
    let counts = collections.iter().map(|one| (one.name.clone(), one.documents_count.into()));
    json!({
        "CountOfDocuments": total(collections), "CountOfConflicts": conflicts,
        "Collections": counts.collect::<Map<String, Value>>()
    })
}

/// `/collections/stats/detailed`.
pub fn detailed_collections_answer(collections: &[CollectionStatistics], conflicts: u64) -> Value {
    let details = collections.iter().map(|one| {
        let all = one.documents_bytes + one.tombstones_bytes + one.revisions_bytes;
        let detail = json!({
            "Name": one.name, "CountOfDocuments": one.documents_count, "Size": SizeText::of(all),
            "DocumentsSize": SizeText::of(one.documents_bytes),
            "TombstonesSize": SizeText::of(one.tombstones_bytes),
            "RevisionsSize": SizeText::of(one.revisions_bytes)
        });
        (one.name.clone(), detail)
    });
    json!({
        "CountOfDocuments": total(collections), "CountOfConflicts": conflicts,
        "Collections": details.collect::<Map<String, Value>>()
    })
}

fn total(collections: &[CollectionStatistics]) -> u64 {
    collections.iter().map(|one| one.documents_count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_listed_with_their_counts_and_the_sum() {
        let of = |name: &str, documents_count: u64, documents_bytes: u64| CollectionStatistics {
            name: name.into(),
            documents_count,
            documents_bytes,
            tombstones_bytes: 24,
            revisions_bytes: 1000,
        };
        let (users, empty) = (of("Users", 2, 1024), of("@empty", 7, 0));
        assert_eq!(
            collections_answer(&[users.clone(), empty], 3),
            json!({"CountOfDocuments": 9, "CountOfConflicts": 3,
                "Collections": {"Users": 2, "@empty": 7}})
        );
        let detailed = detailed_collections_answer(&[users], 0);
        let users = &detailed["Collections"]["Users"];
        assert_eq!(users["Size"]["HumaneSize"], "2 KBytes");
        assert_eq!(users["DocumentsSize"]["SizeInBytes"], 1024);
        assert_eq!(users["TombstonesSize"]["SizeInBytes"], 24);
        assert_eq!(users["RevisionsSize"]["SizeInBytes"], 1000);
    }
}
