//! Which changes of a subscription are settled, which are held by workers, and which were released
//! unsettled.
//!
//! A *change* is what the log holds at an etag: a version of a document, or a revision. Invariant:
//! every matching change up to the cursor is settled, or is listed here. So the cursor and the list
//! determine what is still to be sent, whatever order workers acknowledge in, and nothing else has
//! to be stored. And: two changes of one document are never held by two workers at a time, which
//! preserves their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::Etag;
use xxhash_rust::xxh3::xxh3_64;

/// Identifies a worker within a subscription.
pub type WorkerNumber = u64;

/// What to do with the next change in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Send it.
    Take,
    /// Postpone it: another worker holds an earlier change of the document.
    Later,
    /// End the batch before it: the worker itself holds an earlier change of the document.
    NextBatch,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    cursor: Etag,
    listed: BTreeMap<Etag, Listed>,
    documents: HashMap<u64, DocumentUse>,
}

#[derive(Clone, Copy, Debug)]
struct Listed {
    /// The document; unknown after a restart until the change is read again.
    document: Option<u64>,
    holder: Option<WorkerNumber>,
}

/// How many changes of one document are listed.
#[derive(Clone, Copy, Debug, Default)]
struct DocumentUse {
    holder: Option<WorkerNumber>,
    held: u32,
    free: u32,
    /// The newest released one; it may be settled.
    newest_free: Option<Etag>,
}

/// Identifies a document by a hash of its id. A collision only delays a change unnecessarily.
pub(crate) fn document_hash(lower_id: &str) -> u64 {
    xxh3_64(lower_id.as_bytes())
}

impl Progress {
    pub(crate) fn new(cursor: Etag, unsettled: &[Etag]) -> Progress {
        let listed = unsettled.iter().map(|etag| (*etag, Listed { document: None, holder: None }));
        Progress { cursor, listed: listed.collect(), documents: HashMap::new() }
    }

    /// The etag up to which the log was read.
    pub(crate) fn cursor(&self) -> Etag {
        self.cursor
    }

    /// The changes that are not settled.
    pub(crate) fn unsettled(&self) -> Vec<Etag> {
        self.listed.keys().copied().collect()
    }

    /// The first change that is not settled.
    pub(crate) fn first_unsettled(&self) -> Option<Etag> {
        self.listed.keys().next().copied()
    }

    pub(crate) fn has_unsettled(&self) -> bool {
        !self.listed.is_empty()
    }

    /// The first released change after `after` that `worker` may send again.
    pub(crate) fn next_free(&self, after: Etag, worker: WorkerNumber) -> Option<Etag> {
        let from = after.next()?;
        let is_free = |listed: &Listed| {
            listed.holder.is_none()
                && listed.document.is_none_or(|document| {
                    self.documents
                        .get(&document)
                        .and_then(|uses| uses.holder)
                        .is_none_or(|holder| holder == worker)
                })
        };
        self.listed.range(from..).find(|(_, listed)| is_free(listed)).map(|(etag, _)| *etag)
    }

    /// Whether `worker` may send a document's change read from the log. `is_newest` means that the
    /// log has no earlier changes of the document left.
    pub(crate) fn offer(&self, document: u64, worker: WorkerNumber, is_newest: bool) -> Offer {
        let Some(uses) = self.documents.get(&document) else { return Offer::Take };
        match uses.holder {
            Some(holder) if holder != worker => Offer::Later,
            Some(_) if is_newest => Offer::NextBatch,
            // An earlier, released one has to be sent again first.
            _ if !is_newest && 0 < uses.free => Offer::Later,
            Some(_) | None => Offer::Take,
        }
    }

    /// Whether `worker` may send a listed change again, now that its document is known.
    pub(crate) fn offer_again(&self, document: u64, worker: WorkerNumber) -> Offer {
        match self.documents.get(&document).and_then(|uses| uses.holder) {
            Some(holder) if holder != worker => Offer::Later,
            Some(_) | None => Offer::Take,
        }
    }

    /// Assigns a change to a worker.
    pub(crate) fn take(&mut self, etag: Etag, document: u64, worker: WorkerNumber) {
        self.remove(etag);
        self.list(etag, document, Some(worker));
    }

    /// Keeps a change for later.
    pub(crate) fn postpone(&mut self, etag: Etag, document: u64) {
        self.remove(etag);
        self.list(etag, document, None);
    }

    fn list(&mut self, etag: Etag, document: u64, holder: Option<WorkerNumber>) {
        let uses = self.documents.entry(document).or_default();
        match holder {
            Some(_) => {
                uses.holder = holder;
                uses.held += 1;
            }
            None => {
                uses.free += 1;
                uses.newest_free = uses.newest_free.max(Some(etag));
            }
        }
        self.listed.insert(etag, Listed { document: Some(document), holder });
    }

    /// The newest released change of a document, or of another one with the same hash.
    pub(crate) fn waiting_of(&self, document: u64) -> Option<Etag> {
        let newest = self.documents.get(&document)?.newest_free?;
        self.listed.get(&newest).is_some_and(|listed| listed.holder.is_none()).then_some(newest)
    }

    /// Removes a change that is settled, or that the log no longer has.
    pub(crate) fn remove(&mut self, etag: Etag) {
        let Some(listed) = self.listed.remove(&etag) else { return };
        let Some(document) = listed.document else { return };
        let Some(uses) = self.documents.get_mut(&document) else { return };
        match listed.holder {
            Some(_) => {
                uses.held -= 1;
                if uses.held == 0 {
                    uses.holder = None;
                }
            }
            None => uses.free -= 1,
        }
        if uses.held == 0 && uses.free == 0 {
            self.documents.remove(&document);
        }
    }

    /// Releases changes that a worker did not settle.
    pub(crate) fn release(&mut self, etags: &BTreeSet<Etag>) {
        for etag in etags {
            let Some(document) = self.listed.get(etag).and_then(|listed| listed.document) else {
                continue;
            };
            self.postpone(*etag, document);
        }
    }

    /// Advances the cursor. The log is read from the cursor on while the subscription is locked, so
    /// the new cursor is always larger.
    pub(crate) fn advance(&mut self, cursor: Etag) {
        assert!(self.cursor < cursor, "{cursor:?} is not after {:?}", self.cursor);
        self.cursor = cursor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerNumber = 1;
    const B: WorkerNumber = 2;

    #[test]
    fn a_changed_document_waits_for_the_worker_that_has_it() {
        let mut progress = Progress::new(Etag(0), &[]);
        let document = document_hash("users/1");
        assert_eq!(progress.offer(document, A, true), Offer::Take);
        progress.take(Etag(1), document, A);
        progress.advance(Etag(1));
        assert_eq!(progress.offer(document, A, true), Offer::NextBatch);
        assert_eq!(progress.offer(document, B, true), Offer::Later);
        progress.postpone(Etag(7), document);
        progress.advance(Etag(7));
        assert_eq!(progress.next_free(Etag(0), B), None);
        assert_eq!(progress.unsettled(), [Etag(1), Etag(7)]);
        progress.remove(Etag(1));
        assert_eq!(progress.next_free(Etag(0), B), Some(Etag(7)));
    }

    #[test]
    fn what_a_lost_worker_had_is_free_again() {
        let mut progress = Progress::new(Etag(0), &[]);
        progress.take(Etag(1), 10, A);
        progress.take(Etag(2), 20, A);
        progress.release(&BTreeSet::from([Etag(1), Etag(2)]));
        assert_eq!(progress.next_free(Etag(0), B), Some(Etag(1)));
        assert_eq!(progress.next_free(Etag(1), B), Some(Etag(2)));
        progress.take(Etag(1), 10, B);
        assert_eq!(progress.next_free(Etag(0), A), Some(Etag(2)));
    }

    #[test]
    fn revisions_of_a_document_stay_in_order() {
        let mut progress = Progress::new(Etag(0), &[]);
        progress.take(Etag(1), 10, A);
        assert_eq!(progress.offer(10, A, false), Offer::Take);
        assert_eq!(progress.offer(10, B, false), Offer::Later);
        progress.release(&BTreeSet::from([Etag(1)]));
        assert_eq!(progress.offer(10, B, false), Offer::Later);
        assert_eq!(progress.next_free(Etag(0), B), Some(Etag(1)));
    }
}
