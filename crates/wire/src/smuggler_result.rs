//! What an export or an import has done, as clients poll it.

use model::{TimeSpan, date};
use serde_json::{Map, Value, json};

/// The parts of a result, in the order of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmugglerPart {
    /// Settings of the database.
    DatabaseRecord,
    /// Documents.
    Documents,
    /// Revisions.
    RevisionDocuments,
    /// Deletions.
    Tombstones,
    /// Conflicts.
    Conflicts,
    /// Identities.
    Identities,
    /// Definitions of indexes.
    Indexes,
    /// Compare exchange values.
    CompareExchange,
    /// Subscriptions.
    Subscriptions,
    /// Counters.
    Counters,
    /// Deletions of compare exchange values.
    CompareExchangeTombstones,
    /// Segments of time series.
    TimeSeries,
    /// Certificates of a replication hub.
    ReplicationHubCertificates,
    /// Deleted ranges of time series.
    TimeSeriesDeletedRanges,
}

impl SmugglerPart {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::DatabaseRecord,
        Self::Documents,
        Self::RevisionDocuments,
        Self::Tombstones,
        Self::Conflicts,
        Self::Identities,
        Self::Indexes,
        Self::CompareExchange,
        Self::Subscriptions,
        Self::Counters,
        Self::CompareExchangeTombstones,
        Self::TimeSeries,
        Self::ReplicationHubCertificates,
        Self::TimeSeriesDeletedRanges,
    ];

    /// Its name in a result.
    pub fn name(self) -> &'static str {
        match self {
            Self::DatabaseRecord => "DatabaseRecord",
            Self::Documents => "Documents",
            Self::RevisionDocuments => "RevisionDocuments",
            Self::Tombstones => "Tombstones",
            Self::Conflicts => "Conflicts",
            Self::Identities => "Identities",
            Self::Indexes => "Indexes",
            Self::CompareExchange => "CompareExchange",
            Self::Subscriptions => "Subscriptions",
            Self::Counters => "Counters",
            Self::CompareExchangeTombstones => "CompareExchangeTombstones",
            Self::TimeSeries => "TimeSeries",
            Self::ReplicationHubCertificates => "ReplicationHubCertificates",
            Self::TimeSeriesDeletedRanges => "TimeSeriesDeletedRanges",
        }
    }

    fn has_etag(self) -> bool {
        use SmugglerPart as P;
        !matches!(
            self,
            P::DatabaseRecord
                | P::Indexes
                | P::CompareExchangeTombstones
                | P::ReplicationHubCertificates
                | P::Subscriptions
        )
    }

    /// Whether items of it may be left out one by one.
    pub fn has_skipped(self) -> bool {
        use SmugglerPart as P;
        matches!(
            self,
            P::Documents
                | P::RevisionDocuments
                | P::Counters
                | P::TimeSeries
                | P::TimeSeriesDeletedRanges
        )
    }

    /// Whether contents of attachments belong to it.
    pub fn has_attachments(self) -> bool {
        matches!(self, Self::Documents | Self::RevisionDocuments)
    }
}

/// How much of one part was read, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmugglerCounts {
    /// Items read.
    pub read: u64,
    /// Items that could not be stored.
    pub errored: u64,
    /// Items that were left out as requested.
    pub skipped: u64,
    /// The last etag, of an export.
    pub last_etag: u64,
    /// Contents of attachments read.
    pub attachments_read: u64,
    /// Contents of attachments that could not be stored.
    pub attachments_errored: u64,
    /// When it began, in ticks of UTC.
    pub started_ticks: Option<i64>,
    /// Whether it is complete.
    pub is_processed: bool,
    /// Whether all of it was left out.
    pub is_skipped: bool,
}

/// What an export or an import has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmugglerResult {
    counts: [SmugglerCounts; SmugglerPart::ALL.len()],
    messages: Vec<String>,
    /// Messages that were not kept.
    messages_left_out: u64,
    /// The current message, of the progress.
    pub message: String,
    /// How long it took, in ticks.
    pub elapsed_ticks: i64,
    /// The parts of the database's record that were changed.
    pub record_parts: Vec<&'static str>,
}

/// Messages kept; further ones are counted.
const MESSAGES_MAX: usize = 1000;

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageLevel {
    /// Something was done.
    Info,
    /// Something was left out.
    Warning,
    /// Something could not be done.
    Error,
}

impl SmugglerResult {
    /// The counts of a part.
    pub fn counts(&self, part: SmugglerPart) -> &SmugglerCounts {
        &self.counts[part as usize]
    }

    /// The counts of a part, to change them.
    pub fn counts_mut(&mut self, part: SmugglerPart) -> &mut SmugglerCounts {
        &mut self.counts[part as usize]
    }

    /// Adds a message, at a time in ticks of UTC.
    pub fn add_message(&mut self, level: MessageLevel, text: &str, now_ticks: i64) {
        let level = match level {
            MessageLevel::Info => "INFO",
            MessageLevel::Warning => "WARNING",
            MessageLevel::Error => "ERROR",
        };
        let time = date::format(now_ticks);
        let time = time.get(11..19).unwrap_or_default();
        self.message = format!("[{time} {level}] {text}");
        match self.messages.len() < MESSAGES_MAX {
            true => self.messages.push(self.message.clone()),
            false => self.messages_left_out += 1,
        }
    }

    /// The messages so far.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// What was stored so far, for people: `Documents: 5, Indexes: 1`.
    pub fn summary(&self) -> String {
        let done = SmugglerPart::ALL.iter().filter_map(|part| {
            let counts = self.counts(*part);
            let stored = counts.read.saturating_sub(counts.errored + counts.skipped);
            (0 < stored).then(|| format!("{}: {stored}", part.name()))
        });
        let done: Vec<String> = done.collect();
        if done.is_empty() { "nothing".to_owned() } else { done.join(", ") }
    }

    /// The result as an answer, with its type first.
    pub fn to_json(&self) -> Value {
        let type_name = "Raven.Client.Documents.Smuggler.SmugglerResult, Raven.Client";
        Value::Object(self.to_json_of(type_name))
    }

    /// The result as the first part of a longer one, of that type.
    pub(crate) fn to_json_of(&self, type_name: &str) -> Map<String, Value> {
        let mut shape = self.parts(type_name);
        let mut messages = self.messages.clone();
        if 0 < self.messages_left_out {
            messages.push(format!("{} more messages were not kept.", self.messages_left_out));
        }
        shape.insert("Messages".to_owned(), json!(messages));
        shape.insert(
            "Elapsed".to_owned(),
            json!(TimeSpan { ticks: self.elapsed_ticks }.to_string()),
        );
        shape
    }

    /// The progress of an operation that runs.
    pub fn progress_json(&self) -> Value {
        let name = "Raven.Client.Documents.Smuggler.SmugglerResult+SmugglerProgress, Raven.Client";
        let mut shape = self.parts(name);
        shape.insert("Message".to_owned(), json!(self.message));
        Value::Object(shape)
    }

    fn parts(&self, type_name: &str) -> Map<String, Value> {
        let mut shape = Map::new();
        shape.insert("$type".to_owned(), json!(type_name));
        for part in SmugglerPart::ALL {
            let mut counts = counts_json(part, self.counts(part));
            if part == SmugglerPart::DatabaseRecord {
                for name in &self.record_parts {
                    counts[format!("{name}Updated")] = true.into();
                }
            }
            shape.insert(part.name().to_owned(), counts);
        }
        shape
    }
}

fn counts_json(part: SmugglerPart, counts: &SmugglerCounts) -> Value {
    let mut shape = json!({
        "StartTime": counts.started_ticks.map(date::format), "Processed": counts.is_processed,
        "ReadCount": counts.read, "Skipped": counts.is_skipped, "ErroredCount": counts.errored
    });
    if part.has_etag() {
        shape["LastEtag"] = counts.last_etag.into();
    }
    if part.has_attachments() {
        shape["Attachments"] = json!({
            "StartTime": null, "Processed": counts.is_processed,
            "ReadCount": counts.attachments_read, "Skipped": counts.is_skipped,
            "ErroredCount": counts.attachments_errored
        });
    }
    if part.has_skipped() {
        shape["SkippedCount"] = counts.skipped.into();
    }
    shape
}
