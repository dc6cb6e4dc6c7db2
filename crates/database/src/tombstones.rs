//! Removes tombstones that no holder needs, and reports who needs the others.
//!
//! The cleaner notes the current etag of the database, then asks all followers of deletions up to where they
//! have read, and removes what all of them have read: from snapshots, a bounded number per command, through
//! the commit queue. A follower that registers later starts from a newer state of the database and needs
//! nothing older. It is therefore sufficient that no holder, once asked, ever goes back. Other readers detect
//! removed tombstones by `documents::last_removed_tombstone`.
//!
//! | holder | tombstones it needs |
//! |---|---|
//! | indexes, also if paused, disabled, failed, being built, or not opened | of what they map or load |
//! | readers of the live tail | documents |
//! | policies of time series | deleted ranges |
//! | scheduled backups | everything, up to their last one; during the first, all ([`DeletionsNeeded`](crate::DeletionsNeeded)) |
//! | ETL tasks | what they read and have not sent, also while they are disabled (the same) |
//! | [registered](TombstoneHolders::register) holders | as they report |
//!
//! Subscriptions read the document log but send no deletions, and hold nothing. Those of
//! attachments are read by ETL tasks alone.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use commands::{Batch, Command, CommandError, CommandResult, SubmitError};
use documents::{DocumentError, RemoveTombstones, TombstoneKind, removable_tombstones};
use indexing::IndexNeeds;
use model::{CollectionName, Etag};
use storage::Transaction;

use crate::open_database::Database;

/// Stored until the policies of time series have run once: they begin with everything.
const NOT_LOOKED: u64 = u64::MAX;
/// Commands that forget notes of transactions, each time that tombstones are removed.
const FORGETTING_STEPS_MAX: usize = 100;

/// Why unneeded tombstones were left. Those already removed stay removed; the others can go later.
#[derive(Clone, Debug)]
pub enum TombstoneError {
    /// The documents could not be read.
    Documents(DocumentError),
    /// The commit queue did not accept the command.
    NotSubmitted(SubmitError),
    /// The command that removes them failed.
    Failed(CommandError),
}

impl fmt::Display for TombstoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TombstoneError::Documents(error) => error.fmt(f),
            TombstoneError::NotSubmitted(error) => error.fmt(f),
            TombstoneError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TombstoneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TombstoneError::Documents(error) => Some(error),
            TombstoneError::NotSubmitted(error) => Some(error),
            TombstoneError::Failed(error) => Some(error),
        }
    }
}

impl From<DocumentError> for TombstoneError {
    fn from(error: DocumentError) -> TombstoneError {
        TombstoneError::Documents(error)
    }
}

/// Tombstones of one kind that are still needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneNeed {
    /// The holder: the name of an index, the number of a reader.
    pub holder: String,
    /// Its kind, in one word: `Index`, `Tail`.
    pub process: &'static str,
    /// Its state, in one word: `Running`, `Paused`.
    pub condition: &'static str,
    /// The kind of tombstones.
    pub kind: TombstoneKind,
    /// The collection; `None` for all.
    pub collection: Option<CollectionName>,
    /// The holder has read all deletions up to here.
    pub known: Etag,
}

/// A follower of deletions: replication, an ETL task, an incremental backup.
pub trait TombstoneHolder: Send + Sync {
    /// What it needs now. This may never go back, unless the holder reads everything again from a newer state
    /// of the database.
    fn tombstone_needs(&self) -> Vec<TombstoneNeed>;
}

/// Followers of the deletions of a database other than its indexes and the readers of its tail.
pub struct TombstoneHolders {
    others: Mutex<Vec<Weak<dyn TombstoneHolder>>>,
    /// The etag up to which the policies of time series have looked.
    policies_known: AtomicU64,
    /// Where forgetting notes of transactions goes on.
    notes_position: AtomicU64,
    /// Held while tombstones are removed, so that there is one cleaner at a time.
    cleaning: Mutex<()>,
}

impl Default for TombstoneHolders {
    fn default() -> Self {
        let policies_known = AtomicU64::new(NOT_LOOKED);
        Self {
            others: Mutex::default(),
            policies_known,
            notes_position: AtomicU64::new(0),
            cleaning: Mutex::default(),
        }
    }
}

impl TombstoneHolders {
    /// Adds a holder for as long as it exists. It must be registered before it reads anything.
    pub fn register(&self, holder: Weak<dyn TombstoneHolder>) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(holder);
    }

    fn others(&self) -> Vec<TombstoneNeed> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.retain(|holder| holder.strong_count() != 0);
        let present: Vec<_> = others.iter().filter_map(Weak::upgrade).collect();
        drop(others);
        present.iter().flat_map(|holder| holder.tombstone_needs()).collect()
    }

    /// The policies of time series are about to look at the database: everything there now is needed until
    /// [`TombstoneHolders::policies_looked`] is called. Called before the state is read.
    pub(crate) fn policies_look(&self) {
        // If they have run before, they still need what they reported then.
        let known = self.policies_known.load(Ordering::SeqCst);
        self.policies_known.store(if known == NOT_LOOKED { 0 } else { known }, Ordering::SeqCst);
    }

    /// The policies of time series will continue from here.
    pub(crate) fn policies_looked(&self, up_to: Etag) {
        self.policies_known.store(up_to.0, Ordering::SeqCst);
    }
}

fn needs_of_index(index: IndexNeeds) -> impl Iterator<Item = TombstoneNeed> {
    let IndexNeeds { index, condition, known, logs } = index;
    logs.into_iter().flat_map(move |(kind, names)| {
        let need = TombstoneNeed {
            holder: index.clone(),
            process: "Index",
            condition: condition.name(),
            kind,
            collection: None,
            known,
        };
        let all = names.is_empty().then(|| need.clone());
        let each = names.into_iter().map(move |name| {
            let collection = Some(name);
            TombstoneNeed { collection, ..need.clone() }
        });
        all.into_iter().chain(each)
    })
}

/// The etags up to which tombstones may be removed: the minimum over all holders.
struct Limits {
    last_etag: Etag,
    of_all: HashMap<TombstoneKind, Etag>,
    of_one: HashMap<(TombstoneKind, u32), Etag>,
}

impl Limits {
    fn of(
        tx: &impl Transaction,
        last_etag: Etag,
        needs: &[TombstoneNeed],
    ) -> Result<Self, DocumentError> {
        let mut limits = Self { last_etag, of_all: HashMap::new(), of_one: HashMap::new() };
        for need in needs {
            let limit = match &need.collection {
                None => limits.of_all.entry(need.kind).or_insert(need.known),
                // A collection without documents so far has no tombstones in this snapshot.
                Some(name) => match documents::collection(tx, name)? {
                    Some(found) => {
                        limits.of_one.entry((need.kind, found.number)).or_insert(need.known)
                    }
                    None => continue,
                },
            };
            *limit = (*limit).min(need.known);
        }
        Ok(limits)
    }

    fn of_collection(&self, kind: TombstoneKind, number: u32) -> Etag {
        let all = self.of_all.get(&kind).copied().unwrap_or(self.last_etag);
        let one = self.of_one.get(&(kind, number)).copied().unwrap_or(self.last_etag);
        all.min(one).min(self.last_etag)
    }
}

impl Database {
    /// Which holders need which tombstones. Blocks while an index is opened.
    pub fn tombstone_needs(&self) -> Vec<TombstoneNeed> {
        let indexes = self.indexes().tombstone_needs().into_iter().flat_map(needs_of_index);
        let mut needs: Vec<_> = indexes.chain(self.followers().tombstone_needs()).collect();
        let known = self.tombstone_holders().policies_known.load(Ordering::SeqCst);
        let has_policies = self.time_series().is_some_and(|found| !found.collections.is_empty());
        if known != NOT_LOOKED && has_policies {
            needs.push(TombstoneNeed {
                holder: "Policies of time series".to_owned(),
                process: "TimeSeriesPolicies",
                condition: "Running",
                kind: TombstoneKind::TimeSeries,
                collection: None,
                known: Etag(known),
            });
        }
        needs.extend(self.deletions_needed());
        needs.extend(self.tombstone_holders().others());
        needs
    }

    /// Removes the tombstones that no holder needs; returns their number. Blocks: goes through the commit
    /// queue in pieces, and stops early when `may_go_on` returns `false` or the queue has no room.
    ///
    /// # Errors
    /// Why the rest could not be removed; the tombstones removed until then stay removed.
    pub fn remove_tombstones(&self, may_go_on: &dyn Fn() -> bool) -> Result<u64, TombstoneError> {
        let cleaning = &self.tombstone_holders().cleaning;
        let _cleaning = cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        // The state is read first: a holder that registers later begins after it.
        let tx = self.read();
        let last_etag = documents::progress(&tx)?.last_etag;
        let limits = Limits::of(&tx, last_etag, &self.tombstone_needs())?;
        drop(tx);
        let mut removed = 0;
        for kind in TombstoneKind::ALL {
            let mut from = None;
            loop {
                if !may_go_on() || self.is_closing() {
                    return Ok(removed);
                }
                let limit_of = |number| limits.of_collection(kind, number);
                let found = removable_tombstones(&self.read(), kind, from.as_deref(), limit_of)?;
                if !found.rows.is_empty() {
                    removed += self.remove_found(RemoveTombstones { kind, rows: found.rows })?;
                }
                from = found.next;
                if from.is_none() {
                    break;
                }
            }
        }
        self.forget_transactions(may_go_on)?;
        Ok(removed)
    }

    /// Forgets notes of transactions that say nothing any more, from where that ended the last time.
    fn forget_transactions(&self, may_go_on: &dyn Fn() -> bool) -> Result<(), TombstoneError> {
        let position = &self.tombstone_holders().notes_position;
        let mut from = Some(Etag(position.load(Ordering::SeqCst)));
        for _ in 0..FORGETTING_STEPS_MAX {
            let Some(at) = from.filter(|_| may_go_on() && !self.is_closing()) else { break };
            let batch = Batch::one(Command::ForgetTransactions(at));
            let outcome =
                self.queue().submit_and_wait(batch).map_err(TombstoneError::NotSubmitted)?;
            from = match outcome.map_err(TombstoneError::Failed)?.results.first() {
                Some(CommandResult::TransactionsForgotten(next)) => *next,
                _ => None,
            };
            position.store(from.map_or(0, |next| next.0), Ordering::SeqCst);
        }
        Ok(())
    }

    fn remove_found(&self, request: RemoveTombstones) -> Result<u64, TombstoneError> {
        let batch = Batch::one(Command::RemoveTombstones(request));
        let outcome = self.queue().submit_and_wait(batch).map_err(TombstoneError::NotSubmitted)?;
        let outcome = outcome.map_err(TombstoneError::Failed)?;
        Ok(outcome.results.iter().fold(0, |sum, result| match result {
            CommandResult::TombstonesRemoved(removed) => sum + removed,
            _ => sum,
        }))
    }
}
