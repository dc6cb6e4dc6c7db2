//! What an index maps: documents, counters, or segments of time series; and the logs in which it follows
//! them.
//!
//! Whatever it is, it has a key by which the index knows what it gave, takes its etags from the one
//! sequence of its database, and leaves something in the log when it goes. So everything behind the maps
//! is the same for every kind. An index of something else than documents follows documents, too, where
//! its maps look at them.

use std::{borrow::Cow, iter::Peekable};

use documents::{
    CounterLogEntry, CounterRow, DocumentError, DocumentRow, LogEntry,
    time_series::{
        SegmentRow, TICKS_PER_MILLISECOND, TimeSeriesLogEntry, last_time_series_etags,
        time_series_changed_after, time_series_log, time_series_log_of_collection,
    },
};
use model::{CollectionName, CounterName, DocumentId, Etag};
use storage::{ReadTransaction, Transaction};

use crate::{
    mapper::{Follows, Mapper},
    segment_key::{self, KeyRange},
};

/// Between the id and the name in the key of a counter.
const BEHIND_ID: char = '\u{1e}';

/// What maps are run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Documents.
    Documents,
    /// Counters.
    Counters,
    /// Segments of time series.
    TimeSeries,
}

/// One thing that maps are run over.
pub enum SourceItem<'t> {
    /// A document.
    Document(DocumentRow<'t>),
    /// A counter.
    Counter(CounterRow<'t>),
    /// A segment of a time series.
    Segment(SegmentRow<'t>),
}

impl<'t> SourceItem<'t> {
    /// The document, if it is one.
    pub fn document(&self) -> Option<&DocumentRow<'t>> {
        match self {
            Self::Document(row) => Some(row),
            Self::Counter(_) | Self::Segment(_) => None,
        }
    }

    /// How the index knows what comes of it.
    pub(crate) fn key(&self) -> Cow<'t, str> {
        match self {
            Self::Document(row) => Cow::Borrowed(row.lower_id()),
            Self::Counter(row) => {
                Cow::Owned(counter_key(row.lower_document_id(), row.lower_name()))
            }
            Self::Segment(row) => Cow::Owned(segment_key::of_segment(row)),
        }
    }

    /// Keys of others in whose place it is: what the index has under them is of the past.
    pub(crate) fn replaces(&self) -> Option<KeyRange> {
        match self {
            Self::Document(_) | Self::Counter(_) => None,
            Self::Segment(row) => KeyRange::inside_segment(row),
        }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> Cow<'t, str> {
        match self {
            Self::Document(row) => Cow::Borrowed(row.id()),
            Self::Counter(row) => Cow::Owned(format!("{}/{}", row.lower_document_id(), row.name())),
            Self::Segment(row) => {
                let ticks = row.start_ms().saturating_mul(TICKS_PER_MILLISECOND);
                Cow::Owned(format!("{}|{}|{ticks}", row.lower_document_id(), row.lower_name()))
            }
        }
    }

    /// The collection of the document that it is, or belongs to.
    pub(crate) fn collection(
        &self,
        documents: &ReadTransaction,
    ) -> Result<Cow<'_, str>, DocumentError> {
        let number = match self {
            Self::Document(row) => return row.collection(),
            Self::Counter(row) => row.collection_number(),
            Self::Segment(row) => row.collection_number(),
        };
        let found = documents::collection_numbered(documents, number)?;
        Ok(Cow::Owned(found.name.as_str().to_owned()))
    }

    /// Whether a map that is bound to a name is over this; documents have none.
    pub(crate) fn is_called(&self, name: Option<&str>) -> bool {
        let own = match self {
            Self::Document(_) => return true,
            Self::Counter(row) => row.lower_name(),
            Self::Segment(row) => row.lower_name(),
        };
        name.is_none_or(|name| model::lower_case(name) == own)
    }

    pub(crate) fn etag(&self) -> Etag {
        match self {
            Self::Document(row) => row.etag(),
            Self::Counter(row) => row.etag(),
            Self::Segment(row) => row.etag(),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Document(row) => row.body_bytes(),
            Self::Counter(row) => row.size_bytes(),
            Self::Segment(row) => row.size_bytes(),
        }
    }
}

fn counter_key(lower_id: &str, lower_name: &str) -> String {
    format!("{lower_id}{BEHIND_ID}{lower_name}")
}

/// What is there under a key now.
pub(crate) fn find<'t>(
    kind: SourceKind,
    documents: &'t ReadTransaction,
    key: &str,
) -> Result<Option<SourceItem<'t>>, DocumentError> {
    // Keys that no id or name has are those of nothing.
    match kind {
        SourceKind::Documents => {
            let Ok(id) = DocumentId::new(key) else { return Ok(None) };
            Ok(documents::get(documents, &id)?.map(SourceItem::Document))
        }
        SourceKind::Counters => {
            let (id, name) = key.split_once(BEHIND_ID).unwrap_or((key, ""));
            let (Ok(id), Ok(name)) = (DocumentId::new(id), CounterName::new(name)) else {
                return Ok(None);
            };
            Ok(documents::counter(documents, &id, &name)?.map(SourceItem::Counter))
        }
        SourceKind::TimeSeries => Ok(segment_key::find(documents, key)?.map(SourceItem::Segment)),
    }
}

/// One change in a log that an index follows.
pub(crate) enum SourceChange<'t> {
    /// Something that may be mapped is there, as it was last written.
    There(SourceItem<'t>),
    /// Something is gone.
    Gone {
        /// How the index knew it.
        key: Cow<'t, str>,
        etag: Etag,
    },
    /// Things are gone; some that were put later may have their keys again.
    AllGone {
        /// How the index knew them.
        keys: KeyRange,
        etag: Etag,
    },
    /// A document changed that maps may have looked at, and that is none of what is mapped.
    LookedAt {
        /// Its lower-cased id.
        lower_id: &'t str,
        etag: Etag,
    },
}

impl<'t> SourceChange<'t> {
    fn of_document(entry: LogEntry<'t>) -> Self {
        match entry {
            LogEntry::Document(row) => Self::There(SourceItem::Document(row)),
            LogEntry::Tombstone(row) => {
                Self::Gone { key: Cow::Borrowed(row.lower_id()), etag: row.etag() }
            }
        }
    }

    fn of_looked_at(entry: LogEntry<'t>) -> Self {
        let etag = entry.etag();
        let lower_id = match entry {
            LogEntry::Document(row) => row.lower_id(),
            LogEntry::Tombstone(row) => row.lower_id(),
        };
        Self::LookedAt { lower_id, etag }
    }

    fn of_counter(entry: CounterLogEntry<'t>) -> Self {
        match entry {
            CounterLogEntry::Counter(row) => Self::There(SourceItem::Counter(row)),
            CounterLogEntry::Tombstone(row) => {
                let key = counter_key(row.lower_document_id(), row.lower_name());
                Self::Gone { key: Cow::Owned(key), etag: row.etag() }
            }
        }
    }

    fn of_segment(entry: TimeSeriesLogEntry<'t>) -> Self {
        match entry {
            TimeSeriesLogEntry::Segment(row) => Self::There(SourceItem::Segment(row)),
            TimeSeriesLogEntry::Deleted(row) => {
                Self::AllGone { keys: KeyRange::of_deleted(&row), etag: row.etag() }
            }
        }
    }

    /// The position in the log.
    pub(crate) fn etag(&self) -> Etag {
        match self {
            Self::There(item) => item.etag(),
            Self::Gone { etag, .. } | Self::AllGone { etag, .. } | Self::LookedAt { etag, .. } => {
                *etag
            }
        }
    }

    /// The lower-cased id of the document that changed, if it is one.
    pub(crate) fn document_id(&self) -> Option<&str> {
        match self {
            Self::There(SourceItem::Document(row)) => Some(row.lower_id()),
            Self::There(SourceItem::Counter(_) | SourceItem::Segment(_)) | Self::AllGone { .. } => {
                None
            }
            // The key of a counter is none of a document.
            Self::Gone { key, .. } => Some(key),
            Self::LookedAt { lower_id, .. } => Some(lower_id),
        }
    }
}

/// The collections of a log; none is all.
type Collections = Vec<CollectionName>;

/// The logs that an index follows.
pub(crate) struct Followed {
    kind: SourceKind,
    /// Of what is mapped; of documents, those that are only looked at are among them.
    mapped: Collections,
    /// Of documents that are only looked at, beside something else that is mapped.
    looked_at: Option<Collections>,
    /// The collections of all that is followed; none is all.
    all: Collections,
    /// Where the logs of what is mapped end for this index, if it does not follow them to their end.
    limit: Option<LogLimit>,
}

/// How far an index reads that follows a few items only.
struct LogLimit {
    /// The last etag to be read in each log of what is mapped.
    last: Vec<Etag>,
    leaves_out: bool,
}

impl Followed {
    pub(crate) fn by(mapper: &dyn Mapper) -> Self {
        let (kind, own) = (mapper.source_kind(), mapper.collections());
        let looked_at = match mapper.looks_at() {
            Follows::Everything => Some(Vec::new()),
            Follows::Collections([]) => None,
            Follows::Collections(names) => Some(names.to_vec()),
        };
        let all = match &looked_at {
            _ if own.is_empty() => Vec::new(),
            None => own.to_vec(),
            Some(more) if more.is_empty() => Vec::new(),
            Some(more) => {
                let more = more.iter().filter(|name| !own.contains(name));
                own.iter().chain(more).cloned().collect()
            }
        };
        match kind {
            SourceKind::Documents => {
                Self { kind, mapped: all.clone(), looked_at: None, all, limit: None }
            }
            SourceKind::Counters | SourceKind::TimeSeries => {
                Self { kind, mapped: own.to_vec(), looked_at, all, limit: None }
            }
        }
    }

    /// Follows the oldest items of each collection only, and nothing that is written later.
    pub(crate) fn limited_to(
        mut self,
        items_max: usize,
        tx: &ReadTransaction,
    ) -> Result<Self, DocumentError> {
        let mut limit = LogLimit { last: Vec::new(), leaves_out: false };
        for log in logs_of(self.kind, &self.mapped, tx, Etag::ZERO)? {
            let mut last = Etag::ZERO;
            let mut items = 0;
            for change in log {
                let change = change?;
                items += usize::from(matches!(change, SourceChange::There(_)));
                if items_max < items {
                    limit.leaves_out = true;
                    break;
                }
                last = change.etag();
            }
            limit.last.push(last);
        }
        self.limit = Some(limit);
        Ok(self)
    }

    /// Whether there were more items than it follows.
    pub(crate) fn leaves_out(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.leaves_out)
    }

    /// The collections of all that is followed; none is all.
    pub(crate) fn collections(&self) -> &[CollectionName] {
        &self.all
    }

    /// The kinds of logs, and their collections; none is all.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (SourceKind, &[CollectionName])> {
        let looked_at = self.looked_at.iter().map(|names| (SourceKind::Documents, &names[..]));
        std::iter::once((self.kind, &self.mapped[..])).chain(looked_at)
    }

    /// The etag of the last change in the logs.
    pub(crate) fn last_etag_in(&self, tx: &impl Transaction) -> Result<Etag, DocumentError> {
        let last = last_of_all(&self.mapped, &|name| match (self.kind, name) {
            (SourceKind::Documents, name) => last_document_etag(tx, name),
            (SourceKind::Counters, name) => documents::last_counter_etag_of_collection(tx, name),
            (SourceKind::TimeSeries, name) => {
                let (written, deleted) = last_time_series_etags(tx, name)?;
                Ok(written.max(deleted))
            }
        })?;
        match &self.looked_at {
            None => Ok(last),
            Some(names) => Ok(last.max(last_of_all(names, &|name| last_document_etag(tx, name))?)),
        }
    }

    /// How many changes come after an etag, documents that are only looked at aside; counting ends at
    /// `at_most` for each log.
    pub(crate) fn behind(
        &self,
        tx: &ReadTransaction,
        after: Etag,
        at_most: u64,
    ) -> Result<u64, DocumentError> {
        let count = |collection: Option<&CollectionName>| match self.kind {
            SourceKind::Documents => documents::changes_after(tx, collection, after, at_most),
            SourceKind::Counters => {
                documents::counters_changed_after(tx, collection, after, at_most)
            }
            SourceKind::TimeSeries => {
                let changes = time_series_changed_after(tx, collection, after, at_most)?;
                Ok(changes.segments + changes.deleted_ranges)
            }
        };
        match self.mapped.as_slice() {
            [] => count(None),
            names => names.iter().map(|name| count(Some(name))).sum(),
        }
    }

    /// The changes after an etag.
    pub(crate) fn changes_after<'t>(
        &self,
        tx: &'t ReadTransaction,
        after: Etag,
    ) -> Result<SourceChanges<'t>, DocumentError> {
        let mut logs = logs_of(self.kind, &self.mapped, tx, after)?;
        if let Some(limit) = &self.limit {
            let whole = logs.into_iter().zip(limit.last.iter().copied());
            logs = whole.map(|(log, last)| log_up_to(log, last)).collect();
        }
        if let Some(names) = &self.looked_at {
            let looked_at = names.iter().map(Some);
            let all = if names.is_empty() { Some(None) } else { None };
            for collection in looked_at.chain(all) {
                logs.push(document_log(tx, collection, after, SourceChange::of_looked_at)?);
            }
        }
        Ok(SourceChanges { logs })
    }
}

/// The last of the etags of these collections; of everything when there are none.
fn last_of_all(
    names: &[CollectionName],
    last_of: &dyn Fn(Option<&CollectionName>) -> Result<Etag, DocumentError>,
) -> Result<Etag, DocumentError> {
    match names {
        [] => last_of(None),
        names => names.iter().try_fold(Etag::ZERO, |last, name| Ok(last.max(last_of(Some(name))?))),
    }
}

fn last_document_etag(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
) -> Result<Etag, DocumentError> {
    match name {
        None => Ok(documents::progress(tx)?.last_etag),
        Some(name) => documents::last_etag_of_collection(tx, name),
    }
}

/// The logs of what is mapped, one for each collection.
pub(crate) fn logs_of<'t>(
    kind: SourceKind,
    collections: &[CollectionName],
    tx: &'t ReadTransaction,
    after: Etag,
) -> Result<Vec<Log<'t>>, DocumentError> {
    let each = collections.iter().map(Some);
    let all = if collections.is_empty() { Some(None) } else { None };
    let log_of = |collection| match kind {
        SourceKind::Documents => document_log(tx, collection, after, SourceChange::of_document),
        SourceKind::Counters => counter_log(tx, collection, after),
        SourceKind::TimeSeries => segment_log(tx, collection, after),
    };
    each.chain(all).map(log_of).collect()
}

pub(crate) type Change<'t> = Result<SourceChange<'t>, DocumentError>;
pub(crate) type Log<'t> = Peekable<Box<dyn Iterator<Item = Change<'t>> + 't>>;

fn log_up_to<'t>(log: Log<'t>, last: Etag) -> Log<'t> {
    let is_before =
        move |change: &Change<'t>| change.as_ref().map_or(true, |change| change.etag() <= last);
    let log: Box<dyn Iterator<Item = Change<'t>> + 't> = Box::new(log.take_while(is_before));
    log.peekable()
}

fn document_log<'t>(
    tx: &'t ReadTransaction,
    collection: Option<&CollectionName>,
    after: Etag,
    change_of: fn(LogEntry<'t>) -> SourceChange<'t>,
) -> Result<Log<'t>, DocumentError> {
    let log: Box<dyn Iterator<Item = Change<'t>> + 't> = match collection {
        None => Box::new(documents::log(tx, after)?.map(move |entry| entry.map(change_of))),
        Some(name) => {
            let log = documents::log_of_collection(tx, name, after)?;
            Box::new(log.map(move |entry| entry.map(change_of)))
        }
    };
    Ok(log.peekable())
}

fn counter_log<'t>(
    tx: &'t ReadTransaction,
    collection: Option<&CollectionName>,
    after: Etag,
) -> Result<Log<'t>, DocumentError> {
    let change_of = SourceChange::of_counter;
    let log: Box<dyn Iterator<Item = Change<'t>> + 't> = match collection {
        None => Box::new(documents::counter_log(tx, after)?.map(move |entry| entry.map(change_of))),
        Some(name) => {
            let log = documents::counter_log_of_collection(tx, name, after)?;
            Box::new(log.map(move |entry| entry.map(change_of)))
        }
    };
    Ok(log.peekable())
}

fn segment_log<'t>(
    tx: &'t ReadTransaction,
    collection: Option<&CollectionName>,
    after: Etag,
) -> Result<Log<'t>, DocumentError> {
    let change_of = SourceChange::of_segment;
    let log: Box<dyn Iterator<Item = Change<'t>> + 't> = match collection {
        None => Box::new(time_series_log(tx, after)?.map(move |entry| entry.map(change_of))),
        Some(name) => {
            let log = time_series_log_of_collection(tx, name, after)?;
            Box::new(log.map(move |entry| entry.map(change_of)))
        }
    };
    Ok(log.peekable())
}

/// Several logs as one, in the order of etags.
pub(crate) struct SourceChanges<'t> {
    logs: Vec<Log<'t>>,
}

impl<'t> Iterator for SourceChanges<'t> {
    type Item = Change<'t>;

    fn next(&mut self) -> Option<Change<'t>> {
        // An error comes first: nothing behind it may be taken for indexed.
        let etag = |change: &Change<'t>| change.as_ref().map_or(Etag::ZERO, SourceChange::etag);
        let first = self
            .logs
            .iter_mut()
            .enumerate()
            .filter_map(|(at, log)| log.peek().map(|change| (etag(change), at)))
            .min()?;
        self.logs[first.1].next()
    }
}
