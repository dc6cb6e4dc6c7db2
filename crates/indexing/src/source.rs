//! What an index maps: documents, counters, or segments of time series; and the logs in which it follows
//! them.
//!
//! Every item has a key under which the index stores its output, takes its etags from the one
//! sequence of its database, and leaves an entry in the log when it is deleted. So everything after
//! the maps is the same for every kind. An index of other items than documents also follows
//! documents, if its maps read them.

use std::borrow::Cow;

use documents::{
    CounterRow, DocumentError, DocumentRow,
    log::{self, EntryKind, EntryKinds, LogEntry, LogReader, Selection},
    time_series::SegmentRow,
};
use model::{CollectionName, CounterName, DocumentId, Etag, ticks::TICKS_PER_MILLISECOND};
use storage::{ReadTransaction, Transaction};

use crate::{
    mapper::{Follows, Mapper},
    segment_key::{self, KeyRange},
};

/// Between the id and the name in the key of a counter.
const BEHIND_ID: char = '\u{1e}';

/// The kind of items that maps run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Documents.
    Documents,
    /// Counters.
    Counters,
    /// Segments of time series.
    TimeSeries,
}

impl SourceKind {
    /// The kind of log entry that is mapped.
    fn item(self) -> EntryKind {
        match self {
            Self::Documents => EntryKind::Document,
            Self::Counters => EntryKind::Counter,
            Self::TimeSeries => EntryKind::Segment,
        }
    }

    /// The kinds of log entries: items, and their deletions.
    pub(crate) fn entries(self) -> EntryKinds {
        match self {
            Self::Documents => EntryKinds::DOCUMENTS,
            Self::Counters => EntryKinds::COUNTERS,
            Self::TimeSeries => EntryKinds::TIME_SERIES,
        }
    }
}

/// An item that maps run over.
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

    /// The key under which the index stores its output.
    pub(crate) fn key(&self) -> Cow<'t, str> {
        match self {
            Self::Document(row) => Cow::Borrowed(row.lower_id()),
            Self::Counter(row) => {
                Cow::Owned(counter_key(row.lower_document_id(), row.lower_name()))
            }
            Self::Segment(row) => Cow::Owned(segment_key::of_segment(row)),
        }
    }

    /// Keys that the item supersedes: the index's data under them is outdated.
    pub(crate) fn replaces(&self) -> Option<KeyRange> {
        match self {
            Self::Document(_) | Self::Counter(_) => None,
            Self::Segment(row) => KeyRange::inside_segment(row),
        }
    }

    /// Its name in messages.
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

    /// The collection of its document.
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

    /// Whether a map that is bound to a name applies; documents have none.
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

/// The current item of a key.
pub(crate) fn find<'t>(
    kind: SourceKind,
    documents: &'t ReadTransaction,
    key: &str,
) -> Result<Option<SourceItem<'t>>, DocumentError> {
    // An invalid id or name has no item.
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
    /// An item, as it was last written.
    There(SourceItem<'t>),
    /// An item was deleted.
    Gone {
        /// Its key in the index.
        key: Cow<'t, str>,
        etag: Etag,
    },
    /// A range of items was deleted; some that were put later may have their keys again.
    AllGone {
        /// Their keys in the index.
        keys: KeyRange,
        etag: Etag,
    },
    /// A document changed that maps may have read, but do not map.
    LookedAt {
        /// Its lower-cased id.
        lower_id: &'t str,
        etag: Etag,
    },
}

impl<'t> SourceChange<'t> {
    /// The meaning of a log entry for an index of that kind; `None` for an entry that no index
    /// follows.
    fn of(entry: LogEntry<'t>, kind: SourceKind) -> Option<Self> {
        let is_mapped = kind == SourceKind::Documents;
        Some(match entry {
            LogEntry::Document(row) if is_mapped => Self::There(SourceItem::Document(row)),
            LogEntry::Document(row) => {
                Self::LookedAt { lower_id: row.lower_id(), etag: row.etag() }
            }
            LogEntry::DocumentTombstone(row) if is_mapped => {
                Self::Gone { key: Cow::Borrowed(row.lower_id()), etag: row.etag() }
            }
            LogEntry::DocumentTombstone(row) => {
                Self::LookedAt { lower_id: row.lower_id(), etag: row.etag() }
            }
            LogEntry::Counter(row) => Self::There(SourceItem::Counter(row)),
            LogEntry::CounterTombstone(row) => {
                let key = counter_key(row.lower_document_id(), row.lower_name());
                Self::Gone { key: Cow::Owned(key), etag: row.etag() }
            }
            LogEntry::Segment(row) => Self::There(SourceItem::Segment(row)),
            LogEntry::DeletedRange(row) => {
                Self::AllGone { keys: KeyRange::of_deleted(&row), etag: row.etag() }
            }
            LogEntry::Revision(_)
            | LogEntry::Attachment(_)
            | LogEntry::AttachmentTombstone(_)
            | LogEntry::Conflict(_) => return None,
        })
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

    /// The lower-cased id of the changed document, if it is one.
    pub(crate) fn document_id(&self) -> Option<&str> {
        match self {
            Self::There(SourceItem::Document(row)) => Some(row.lower_id()),
            Self::There(SourceItem::Counter(_) | SourceItem::Segment(_)) | Self::AllGone { .. } => {
                None
            }
            // The key of a counter is not that of a document.
            Self::Gone { key, .. } => Some(key),
            Self::LookedAt { lower_id, .. } => Some(lower_id),
        }
    }
}

/// The collections of a log; empty for all.
type Collections = Vec<CollectionName>;

/// The logs that an index follows.
pub(crate) struct Followed {
    kind: SourceKind,
    /// Of the mapped items; documents that are only read are included in those of documents.
    mapped: Collections,
    /// Of documents that are only read, if other items are mapped.
    looked_at: Option<Collections>,
    /// The collections of everything that is followed; empty for all.
    all: Collections,
    /// Where the logs of mapped items end for this index, if it does not follow them to their end.
    limit: Option<LogLimit>,
}

/// The limits of an index that follows only a few items.
struct LogLimit {
    /// The last etag to read in each log of mapped items.
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

    /// Follows only the oldest items of each collection, and nothing that is written later.
    pub(crate) fn limited_to(
        mut self,
        items_max: usize,
        tx: &ReadTransaction,
    ) -> Result<Self, DocumentError> {
        let mut limit = LogLimit { last: Vec::new(), leaves_out: false };
        for selected in each_of(self.kind.entries(), &self.mapped) {
            let mut last = Etag::ZERO;
            let mut items = 0;
            for entry in log::read(tx, &[selected], Etag::ZERO)? {
                let entry = entry?;
                items += usize::from(entry.kind() == self.kind.item());
                if items_max < items {
                    limit.leaves_out = true;
                    break;
                }
                last = entry.etag();
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

    /// The collections of everything that is followed; empty for all.
    pub(crate) fn collections(&self) -> &[CollectionName] {
        &self.all
    }

    /// The kinds of logs, and their collections; empty for all.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (SourceKind, &[CollectionName])> {
        let looked_at = self.looked_at.iter().map(|names| (SourceKind::Documents, &names[..]));
        std::iter::once((self.kind, &self.mapped[..])).chain(looked_at)
    }

    /// The etag of the last change in the logs. If all documents are followed, it may be that of
    /// another kind of change.
    pub(crate) fn last_etag_in(&self, tx: &impl Transaction) -> Result<Etag, DocumentError> {
        let mut logs = self.logs();
        if logs.any(|(kind, names)| kind == SourceKind::Documents && names.is_empty()) {
            return Ok(documents::progress(tx)?.last_etag);
        }
        let selected = self.logs();
        let selected =
            selected.map(|(kind, names)| Selection::of_collections(kind.entries(), names));
        log::last_etag(tx, &selected.collect::<Vec<_>>())
    }

    /// The number of changes after an etag, without documents that are only read; counting ends at
    /// `at_most`.
    pub(crate) fn behind(
        &self,
        tx: &ReadTransaction,
        after: Etag,
        at_most: u64,
    ) -> Result<u64, DocumentError> {
        let mapped = Selection::of_collections(self.kind.entries(), &self.mapped);
        log::count_after(tx, &[mapped], after, at_most)
    }

    /// The changes after an etag.
    pub(crate) fn changes_after<'t>(
        &self,
        tx: &'t ReadTransaction,
        after: Etag,
    ) -> Result<SourceChanges<'t>, DocumentError> {
        let mut selected = Vec::new();
        match &self.limit {
            None => selected.push(Selection::of_collections(self.kind.entries(), &self.mapped)),
            Some(limit) => {
                let each = each_of(self.kind.entries(), &self.mapped);
                selected.extend(each.zip(&limit.last).map(|(each, last)| each.up_to(*last)));
            }
        }
        if let Some(names) = &self.looked_at {
            selected.push(Selection::of_collections(EntryKinds::DOCUMENTS, names));
        }
        Ok(SourceChanges { kind: self.kind, log: log::read(tx, &selected, after)? })
    }
}

/// Selects entries of each collection separately, or of all together when there are none.
fn each_of(kinds: EntryKinds, names: &[CollectionName]) -> impl Iterator<Item = Selection<'_>> {
    let all = if names.is_empty() { Some(Selection::all(kinds)) } else { None };
    names.iter().map(move |name| Selection::of_collection(kinds, name)).chain(all)
}

/// The changes that an index follows, in etag order.
pub(crate) struct SourceChanges<'t> {
    kind: SourceKind,
    log: LogReader<'t, ReadTransaction>,
}

impl<'t> Iterator for SourceChanges<'t> {
    type Item = Result<SourceChange<'t>, DocumentError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let change = self.log.next()?.map(|entry| SourceChange::of(entry, self.kind));
            if let Some(change) = change.transpose() {
                return Some(change);
            }
        }
    }
}

/// The oldest items of a kind, in each of some collections or among all.
pub(crate) fn oldest_of_each<'t>(
    kind: SourceKind,
    collections: &[CollectionName],
    tx: &'t ReadTransaction,
    items_max: usize,
) -> Result<Vec<SourceItem<'t>>, DocumentError> {
    let mut found = Vec::new();
    for selected in each_of(kind.item().into(), collections) {
        let log = log::read(tx, &[selected], Etag::ZERO)?;
        for change in (SourceChanges { kind, log }).take(items_max) {
            if let SourceChange::There(item) = change? {
                found.push(item);
            }
        }
    }
    Ok(found)
}
