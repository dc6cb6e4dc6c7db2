//! What of its log a database sends over one link, if that is not everything.
//!
//! Invariant: a receiver of a filtered link never learns what the sender contains, because some of it does not arrive.
//! Its position is kept under the id of a stream, which is another one for each filter: a link that lets more through
//! than before begins at the start of the log, and what is there already changes nothing.

use documents::{ReceivedItem, log::LogEntry};
use model::{AllowedPaths, DatabaseId, DocumentFlags};
use xxhash_rust::xxh3::Xxh3;

use crate::message::Batch;

/// See the module. The default lets everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFilter {
    /// What is sent is let through by each of them.
    paths: Vec<AllowedPaths>,
    omits_deletions: bool,
}

impl LinkFilter {
    /// What all of these let through; without deletions, if they are omitted.
    pub fn new(
        paths: impl IntoIterator<Item = Option<AllowedPaths>>,
        omits_deletions: bool,
    ) -> LinkFilter {
        let is_filter = |paths: &AllowedPaths| !paths.paths().iter().any(|path| path == "*");
        let mut paths: Vec<AllowedPaths> = paths.into_iter().flatten().filter(is_filter).collect();
        paths.sort_by(|one, other| one.paths().cmp(other.paths()));
        paths.dedup();
        LinkFilter { paths, omits_deletions }
    }

    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.paths.is_empty() && !self.omits_deletions
    }

    /// Whether deletions are left out.
    pub fn omits_deletions(&self) -> bool {
        self.omits_deletions
    }

    /// What a receiver keeps its position under.
    pub fn stream_of(&self, source: DatabaseId) -> DatabaseId {
        if self.is_everything() {
            return source;
        }
        let mut hasher = Xxh3::new();
        hasher.update(&source.0);
        hasher.update(&[u8::from(self.omits_deletions)]);
        for paths in &self.paths {
            hasher.update(&(paths.paths().len() as u64).to_le_bytes());
            for path in paths.paths() {
                hasher.update(&(path.len() as u64).to_le_bytes());
                hasher.update(path.as_bytes());
            }
        }
        DatabaseId(hasher.digest128().to_le_bytes())
    }

    /// Whether a change is sent.
    pub(crate) fn passes(&self, entry: &LogEntry<'_>) -> bool {
        let is_deletion = match entry {
            LogEntry::DocumentTombstone(_)
            | LogEntry::AttachmentTombstone(_)
            | LogEntry::CounterTombstone(_)
            | LogEntry::DeletedRange(_) => true,
            LogEntry::Revision(row) => row.flags().contains(DocumentFlags::DELETE_REVISION),
            LogEntry::Conflict(row) => row.body().is_none(),
            LogEntry::Document(_)
            | LogEntry::Attachment(_)
            | LogEntry::Counter(_)
            | LogEntry::Segment(_) => false,
        };
        // What has no id is sent with something that has one.
        let is_allowed = entry.lower_document_id().is_none_or(|id| self.allows(id));
        is_allowed && !(is_deletion && self.omits_deletions)
    }

    /// Whether a batch may arrive over a link with this filter: all of it, or nothing is stored. A sender that leaves
    /// something out cannot say what it contains: the receiver would no longer take that from anybody.
    pub fn admits(&self, batch: &Batch) -> bool {
        let says_what_it_may = self.is_everything() || batch.complete.is_none();
        says_what_it_may && batch.items.iter().all(|item| self.admits_item(item))
    }

    fn admits_item(&self, item: &ReceivedItem) -> bool {
        let (id, is_deletion) = match item {
            ReceivedItem::Version(version) => (&version.id, version.body.is_none()),
            ReceivedItem::Revision(revision) => {
                let flags = revision.version.flags;
                (&revision.version.id, flags.contains(DocumentFlags::DELETE_REVISION))
            }
            ReceivedItem::Attachment(attachment) => (&attachment.id, false),
            ReceivedItem::AttachmentTombstone(tombstone) => (&tombstone.id, true),
            ReceivedItem::Counter(counter) => (&counter.id, false),
            ReceivedItem::CounterTombstone(tombstone) => (&tombstone.id, true),
            ReceivedItem::Segment(segment) => (&segment.id, false),
            ReceivedItem::DeletedRange(range) => (&range.id, true),
        };
        self.allows(id.lower_cased()) && !(is_deletion && self.omits_deletions)
    }

    fn allows(&self, lower_id: &str) -> bool {
        self.paths.iter().all(|paths| paths.allows(lower_id))
    }
}

#[cfg(test)]
mod tests {
    use documents::Source;
    use model::{Etag, NodeTag};

    use super::*;

    fn paths(paths: &[&str]) -> Option<AllowedPaths> {
        Some(AllowedPaths::new(paths.iter().copied()).unwrap())
    }

    #[test]
    fn a_document_is_let_through_by_all_filters_or_not_at_all() {
        let filter = LinkFilter::new([paths(&["a/*", "b/*"]), None, paths(&["b/*", "c/*"])], false);
        for (id, is_allowed) in [("a/1", false), ("b/1", true), ("c/1", false)] {
            assert_eq!(filter.allows(id), is_allowed, "{id}");
        }
        assert!(!LinkFilter::new([paths(&[])], false).allows("a/1"));
    }

    #[test]
    fn what_leaves_something_out_does_not_say_what_the_sender_contains() {
        let source = Source { database_id: DatabaseId([3; 16]), node_tag: NodeTag::A };
        let batch = |complete: Option<&str>| Batch {
            group: None,
            source,
            after: Etag(1),
            last_etag: Etag(2),
            point: None,
            complete: complete.map(|vector| vector.parse().unwrap()),
            contents: Vec::new(),
            items: Vec::new(),
        };
        let (silent, claims) = (batch(None), batch(Some("A:5-AAAAAAAAAAAAAAAAAAAAAA")));
        for filter in [LinkFilter::new([paths(&["a/*"])], false), LinkFilter::new([], true)] {
            assert!(filter.admits(&silent) && !filter.admits(&claims));
        }
        let everything = LinkFilter::new([paths(&["*"])], false);
        assert!(everything.admits(&silent) && everything.admits(&claims));
    }

    #[test]
    fn each_filter_has_a_stream_of_its_own() {
        let source = DatabaseId([3; 16]);
        let everything = LinkFilter::new([None, paths(&["*"]), paths(&["a/*", "*"])], false);
        assert!(everything.is_everything());
        assert_eq!(everything.stream_of(source), source);
        let filters = [
            LinkFilter::new([], true),
            LinkFilter::new([paths(&["a/*"])], false),
            LinkFilter::new([paths(&["a/*"])], true),
            LinkFilter::new([paths(&["a/*", "b/*"])], false),
            LinkFilter::new([paths(&["a/*"]), paths(&["b/*"])], false),
            LinkFilter::new([paths(&[])], false),
        ];
        let mut streams: Vec<_> = filters.iter().map(|filter| filter.stream_of(source)).collect();
        streams.push(source);
        streams.sort();
        streams.dedup();
        assert_eq!(streams.len(), 7);
        let (one, other) = (paths(&["a/*"]), paths(&["b/*"]));
        let same = [
            LinkFilter::new([one.clone(), other.clone()], false),
            LinkFilter::new([other, None, one.clone(), one], false),
        ];
        assert_eq!(same[0].stream_of(source), same[1].stream_of(source));
        assert_ne!(same[0].stream_of(source), same[0].stream_of(DatabaseId([4; 16])));
    }
}
