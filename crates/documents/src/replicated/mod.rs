//! What other databases have sent: their changes, stored with the versions that they have there.
//!
//! Every database that receives the same changes stores the same, whatever the order in which they arrive, and however
//! often: what is stored of a document is the join of a lattice. A version that contains the stored one replaces it, one
//! that the stored one contains is dropped, and of two that do not know each other the higher one in the order of
//! [`rank`] is kept, with the joined change vector of both.
//!
//! The change vector of a version says what its writer knew. What the database [contains](contained) says more, that nothing
//! is missing up to there, so it takes over that of a source only once everything has arrived that the source had.
//!
//! | file | what |
//! |---|---|
//! | `item` | what is received |
//! | `sources` | up to where the changes of each source have been received |
//! | `batch` | one batch, as one transaction |
//! | `rank` | which of two versions is kept |
//! | `version` | documents and their deletions |
//!
//! What belongs to documents is received in the modules of `revisions`, `attachments`, `counters` and `time_series`. It may
//! arrive before its document, and may be left without one.

mod batch;
mod item;
mod rank;
mod sources;
mod version;

pub use batch::{Received, ReceivedBatch};
pub use item::{
    ReceivedAttachment, ReceivedAttachmentTombstone, ReceivedCounter, ReceivedCounterTombstone,
    ReceivedDeletedRange, ReceivedItem, ReceivedRevision, ReceivedSegment, ReceivedVersion,
    is_made_later,
};
pub use sources::{
    Source, SourceProgress, accepted_of, contained, contained_with_transactions, source_progress,
    sources,
};

pub(crate) use item::Origin;
pub(crate) use rank::without_lists;
pub(crate) use sources::{has_sources, leave_group};
