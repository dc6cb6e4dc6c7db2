//! Executes the documents' part of cluster-wide transactions, from the cluster's state into the database.
//!
//! The state machine stores the document changes of each transaction. The request that made one asks for it
//! to be executed; everything stored before it is submitted to the commit queue first, in order. When a
//! database is opened, it executes what a crash has left. A stored transaction is executed however much
//! memory it takes, so one that may take much is tried in a dry run before it is proposed to the cluster.
//! Invariant: a transaction is executed exactly once, after all earlier ones; see
//! `documents::ClusterDocuments`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cluster_state::{
    ClusterError, ClusterStore, ClusterTransaction, DocumentChange, Guard, NumberedChange,
    StoredTransaction,
};
use commands::{
    Batch, BatchOutcome, Command, CommandError, CommandResult, CommitQueue, SubmitError,
};
use documents::{ClusterDocument, ClusterDocuments};
use model::{ChangeVector, DatabaseId, DatabaseRecord, DocumentId};

/// Why a transaction was not executed. It stays stored, and is executed with the next one, when the database next
/// follows its cluster, or when it is next opened.
#[derive(Clone, Debug)]
pub enum ExecutionError {
    /// The stored transaction cannot be read.
    Cluster(ClusterError),
    /// The commit queue did not accept it.
    NotSubmitted(SubmitError),
    /// Its changes failed when they were executed.
    Failed(Arc<CommandError>),
}

/// Bytes of pages that a document change touches in addition to its body: the rows and trees of the document,
/// its revision and its tombstone.
const PAGE_BYTES_OF_CHANGE: usize = 128 << 10;
/// A body is stored in the document and in its revision, in pages that may be half full.
const PAGES_OF_BYTES: usize = 4;
/// A transaction that takes at most `1 / DRY_RUN_PART` of the memory for transactions gets no dry run.
const DRY_RUN_PART: u64 = 4;
/// Outcomes that are kept for requests that are still to ask: twice as many as requests whose transactions are
/// committed together, because the first of them that asks has all of them executed.
const OUTCOMES_MAX: usize = 1024;

/// Called with the outcome of the batch that executed a transaction; `None` if that is no longer known, or an
/// earlier process executed it.
type Done = Box<dyn FnOnce(Result<Option<BatchOutcome>, ExecutionError>) + Send>;

#[derive(Default)]
struct Progress {
    /// The last transaction that has been queued or executed.
    submitted: u64,
    /// The submissions, numbered.
    submissions: u64,
    /// Transactions in the commit queue, by index.
    in_queue: BTreeMap<u64, Submitted>,
    /// Requests, each with the index of its transaction.
    waiting: Vec<(u64, Done)>,
    /// The outcomes of executed transactions for which nobody was waiting, by index; the newest.
    outcomes: BTreeMap<u64, BatchOutcome>,
}

/// A transaction in the commit queue.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Submitted {
    /// The number of its submission: after a failure it is submitted again.
    number: u64,
    /// The transaction before it.
    before: u64,
}

/// The progress of a database with the transactions of its cluster.
pub(crate) struct ClusterTransactions {
    executed: AtomicU64,
    progress: Mutex<Progress>,
}

impl ClusterTransactions {
    pub(crate) fn executed_up_to(index: u64) -> Arc<Self> {
        let progress = Progress { submitted: index, ..Progress::default() };
        Arc::new(Self { executed: AtomicU64::new(index), progress: Mutex::new(progress) })
    }

    /// The last durably executed transaction.
    pub(crate) fn executed(&self) -> u64 {
        self.executed.load(Ordering::Acquire)
    }

    /// Executes everything up to the transaction with this index, which is in the state. `done` gets the outcome of
    /// that one, no matter which request had it executed.
    pub(crate) fn execute(
        self: &Arc<Self>,
        cluster: &ClusterStore,
        record: &DatabaseRecord,
        queue: &CommitQueue,
        index: u64,
        done: Done,
    ) {
        let mut progress = self.lock();
        if index <= self.executed() {
            let outcome = progress.outcomes.remove(&index);
            drop(progress);
            return done(Ok(outcome));
        }
        progress.waiting.push((index, done));
        // The caller is one of those that wait for its outcome.
        drop(self.submit_stored(progress, cluster, record, queue));
    }

    /// Submits everything that is stored and not yet executed. The outcomes are left for the requests that made the
    /// transactions.
    pub(crate) fn follow(
        self: &Arc<Self>,
        cluster: &ClusterStore,
        record: &DatabaseRecord,
        queue: &CommitQueue,
    ) -> Result<(), ExecutionError> {
        self.submit_stored(self.lock(), cluster, record, queue)
    }

    /// Executes everything that is stored, and waits for it.
    pub(crate) fn catch_up(
        self: &Arc<Self>,
        cluster: &ClusterStore,
        record: &DatabaseRecord,
        queue: &CommitQueue,
    ) -> Result<(), ExecutionError> {
        let state = cluster.read();
        let last = state
            .transactions_after(record.topology_id, self.executed())
            .map_err(ExecutionError::Cluster)?
            .last();
        let Some(last) = last.transpose().map_err(ExecutionError::Cluster)? else { return Ok(()) };
        let (sender, receiver) = std::sync::mpsc::channel();
        // The receiver waits below, so sending cannot fail.
        let done = Box::new(move |outcome| drop(sender.send(outcome)));
        self.execute(cluster, record, queue, last.index, done);
        let closed = || ExecutionError::Failed(Arc::new(CommandError::Closed));
        receiver.recv().unwrap_or_else(|_| Err(closed())).map(drop)
    }

    /// Submits what is stored. If that fails, those that wait for what is not in the queue are notified; the others have
    /// outcomes of their own.
    fn submit_stored(
        self: &Arc<Self>,
        mut progress: MutexGuard<'_, Progress>,
        cluster: &ClusterStore,
        record: &DatabaseRecord,
        queue: &CommitQueue,
    ) -> Result<(), ExecutionError> {
        let submitted = self.submit_after(&mut progress, cluster, record, queue);
        if let Err(error) = &submitted {
            let not_queued = progress.submitted + 1;
            let concerned = progress.waiting_from(not_queued);
            drop(progress);
            concerned.into_iter().for_each(|done| done(Err(error.clone())));
        }
        submitted
    }

    fn submit_after(
        self: &Arc<Self>,
        progress: &mut Progress,
        cluster: &ClusterStore,
        record: &DatabaseRecord,
        queue: &CommitQueue,
    ) -> Result<(), ExecutionError> {
        let state = cluster.read();
        let read_at = cluster.point_of(&state).map_err(ClusterError::from);
        let read_at = read_at.map_err(ExecutionError::Cluster)?;
        let stored = state
            .transactions_after(record.topology_id, progress.submitted)
            .map_err(ExecutionError::Cluster)?;
        for transaction in stored {
            let transaction = transaction.map_err(ExecutionError::Cluster)?;
            let (index, before) = (transaction.index, transaction.before);
            // A transaction that was stored and no longer is has been executed, even if the database has lost
            // its mark.
            let after = (before == progress.submitted).then_some(before);
            let documents =
                ClusterDocuments { read_at, ..documents_of(transaction, after, record)? };
            let batch = Batch::one(Command::ClusterDocuments(documents));
            let own = Arc::clone(self);
            progress.submissions += 1;
            let submitted = Submitted { number: progress.submissions, before: progress.submitted };
            let reply = Box::new(move |outcome| own.ended(index, submitted, outcome));
            queue.submit(batch, reply).map_err(ExecutionError::NotSubmitted)?;
            progress.in_queue.insert(index, submitted);
            progress.submitted = index;
        }
        Ok(())
    }

    fn ended(&self, index: u64, submitted: Submitted, outcome: Result<BatchOutcome, CommandError>) {
        let mut progress = self.lock();
        let concerned = match outcome {
            Ok(outcome) => {
                self.executed.fetch_max(index, Ordering::AcqRel);
                progress.executed(index, outcome)
            }
            Err(error) => {
                let error = ExecutionError::Failed(Arc::new(error));
                let concerned = progress.failed(index, submitted).into_iter();
                concerned.map(|done| (done, Err(error.clone()))).collect()
            }
        };
        drop(progress);
        concerned.into_iter().for_each(|(done, outcome)| done(outcome));
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// The requests that waited for a transaction, with its outcome, which is kept if there was none.
    fn executed(
        &mut self,
        index: u64,
        outcome: BatchOutcome,
    ) -> Vec<(Done, Result<Option<BatchOutcome>, ExecutionError>)> {
        self.in_queue = self.in_queue.split_off(&index.saturating_add(1));
        // An earlier process may have executed it; its outcome is not that of this batch then.
        if matches!(outcome.results[..], [CommandResult::ClusterDocuments(true)]) {
            self.outcomes.insert(index, outcome);
        }
        let concerned = self.waiting.extract_if(.., |(waits_for, _)| *waits_for <= index);
        let concerned = concerned.map(|(waits_for, done)| {
            let outcome = self.outcomes.remove(&waits_for);
            (done, Ok(outcome))
        });
        let concerned = concerned.collect();
        while OUTCOMES_MAX < self.outcomes.len() {
            self.outcomes.pop_first();
        }
        concerned
    }

    /// The requests that wait for a transaction which failed, or for a later one. An earlier one may be
    /// durable already, although its outcome is still to come. The next request submits this one and all
    /// later ones again. A submission that was superseded in that way concerns nobody.
    fn failed(&mut self, index: u64, submitted: Submitted) -> Vec<Done> {
        if self.in_queue.get(&index) != Some(&submitted) {
            return Vec::new();
        }
        self.in_queue.split_off(&index);
        self.submitted = submitted.before;
        self.waiting_from(index)
    }

    /// Takes the requests that wait for this transaction or a later one.
    fn waiting_from(&mut self, index: u64) -> Vec<Done> {
        let concerned = self.waiting.extract_if(.., |(waits_for, _)| index <= *waits_for);
        concerned.map(|(_, done)| done).collect()
    }
}

fn documents_of(
    transaction: StoredTransaction,
    after: Option<u64>,
    record: &DatabaseRecord,
) -> Result<ClusterDocuments, ExecutionError> {
    let StoredTransaction { index, ticks, documents, .. } = transaction;
    let changes = documents.into_iter().map(|change| document_of(change, index, record));
    Ok(ClusterDocuments {
        group: record.topology_id,
        index,
        after,
        read_at: None,
        ticks,
        changes: changes.collect::<Result<_, _>>()?,
        is_dry_run: false,
    })
}

/// A batch that executes the transaction as if it were the last one and is then undone. `None` if the
/// transaction takes little of the `bytes_max` available to transactions.
pub(crate) fn dry_run_of(
    transaction: &ClusterTransaction,
    record: &DatabaseRecord,
    bytes_max: u64,
) -> Result<Option<Batch>, ExecutionError> {
    if page_bytes_of(transaction) <= bytes_max / DRY_RUN_PART {
        return Ok(None);
    }
    let index = u64::MAX;
    let changes = (1..).zip(&transaction.documents).map(|(number, change)| {
        let DocumentChange { id, body, guard, replaces } = change.clone();
        let is_guarded = guard != Guard::Off;
        document_of(NumberedChange { id, number, is_guarded, body, replaces }, index, record)
    });
    Ok(Some(Batch::one(Command::ClusterDocuments(ClusterDocuments {
        group: record.topology_id,
        index,
        after: None,
        read_at: None,
        ticks: transaction.ticks,
        changes: changes.collect::<Result<_, _>>()?,
        is_dry_run: true,
    }))))
}

/// Bytes of the pages that a transaction changes; an upper bound in nearly all cases.
fn page_bytes_of(transaction: &ClusterTransaction) -> u64 {
    let of_one = |change: &DocumentChange| {
        let bytes = change.body.as_ref().map_or(0, |body| body.as_bytes().len());
        bytes.saturating_mul(PAGES_OF_BYTES).saturating_add(PAGE_BYTES_OF_CHANGE) as u64
    };
    transaction.documents.iter().map(of_one).fold(0, u64::saturating_add)
}

fn document_of(
    change: NumberedChange,
    index: u64,
    record: &DatabaseRecord,
) -> Result<ClusterDocument, ExecutionError> {
    let damaged = |detail| ExecutionError::Cluster(ClusterError::Corrupt { detail });
    let version = transaction_version(record, change.number, change.is_guarded.then_some(index));
    Ok(ClusterDocument {
        id: DocumentId::new(change.id).map_err(|_| damaged("the id of a document is too long"))?,
        change_vector: version.parse().map_err(|_| damaged("a change vector cannot be read"))?,
        body: change.body,
        replaces: change.replaces,
    })
}

/// The change vector of a document written by a transaction: its number, and the transaction if it has an
/// atomic guard. There is no space after the comma.
pub fn transaction_version(record: &DatabaseRecord, number: u64, guarded: Option<u64>) -> String {
    let DatabaseRecord { topology_id, cluster_transaction_id, .. } = record;
    match guarded {
        None => format!("RAFT:{number}-{topology_id}"),
        Some(index) => {
            format!("RAFT:{number}-{topology_id},TRXN:{index}-{cluster_transaction_id}")
        }
    }
}

/// The transaction that a change vector names for the atomic guard; 0 if it names none of this database.
pub fn guarded_transaction(change_vector: &str, cluster_transaction_id: DatabaseId) -> u64 {
    let Ok(version) = change_vector.parse::<ChangeVector>() else { return 0 };
    version.etag_of(cluster_transaction_id).0
}

impl std::fmt::Display for ExecutionError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster(error) => error.fmt(formatter),
            Self::NotSubmitted(error) => error.fmt(formatter),
            Self::Failed(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ExecutionError {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Transactions 10, 11 and 12 in the queue, each with a request that waits for it.
    fn three_in_queue() -> (Progress, Vec<Submitted>, Vec<Receiver<bool>>) {
        let mut progress = Progress { submitted: 9, ..Progress::default() };
        let (mut submissions, mut requests) = (Vec::new(), Vec::new());
        for index in 10..=12 {
            submissions.push(submit(&mut progress, index));
            requests.push(wait_for(&mut progress, index));
        }
        (progress, submissions, requests)
    }

    fn submit(progress: &mut Progress, index: u64) -> Submitted {
        progress.submissions += 1;
        let submitted = Submitted { number: progress.submissions, before: progress.submitted };
        progress.in_queue.insert(index, submitted);
        progress.submitted = index;
        submitted
    }

    fn wait_for(progress: &mut Progress, index: u64) -> Receiver<bool> {
        let (sender, receiver) = channel();
        progress
            .waiting
            .push((index, Box::new(move |outcome| sender.send(outcome.is_ok()).unwrap())));
        receiver
    }

    fn fail(progress: &mut Progress, index: u64, submitted: Submitted) {
        let error = ExecutionError::Failed(Arc::new(CommandError::Closed));
        let failed = progress.failed(index, submitted);
        failed.into_iter().for_each(|done| done(Err(error.clone())));
    }

    fn succeed(progress: &mut Progress, index: u64) {
        let executed = progress.executed(index, BatchOutcome::default());
        executed.into_iter().for_each(|(done, outcome)| done(outcome));
    }

    #[test]
    fn a_failure_concerns_no_earlier_transaction() {
        let (mut progress, submissions, requests) = three_in_queue();
        fail(&mut progress, 11, submissions[1]);
        assert!(requests[0].try_recv().is_err());
        assert_eq!((requests[1].try_recv(), requests[2].try_recv()), (Ok(false), Ok(false)));
        assert_eq!(progress.submitted, 10);
        succeed(&mut progress, 10);
        assert_eq!(requests[0].try_recv(), Ok(true));
    }

    #[test]
    fn a_superseded_submission_fails_no_new_request() {
        let (mut progress, submissions, _requests) = three_in_queue();
        fail(&mut progress, 11, submissions[1]);
        for index in 11..=12 {
            submit(&mut progress, index);
        }
        let request = wait_for(&mut progress, 12);
        fail(&mut progress, 12, submissions[2]);
        assert!(request.try_recv().is_err());
        for index in 10..=12 {
            succeed(&mut progress, index);
        }
        assert_eq!(request.try_recv(), Ok(true));
        assert!(progress.in_queue.is_empty());
    }

    /// The journal's failure may be reported after that of the transaction built on it.
    #[test]
    fn failures_in_the_wrong_order_leave_no_request_waiting() {
        let (mut progress, submissions, requests) = three_in_queue();
        fail(&mut progress, 11, submissions[1]);
        let eleven = submit(&mut progress, 11);
        let request = wait_for(&mut progress, 11);
        fail(&mut progress, 10, submissions[0]);
        assert_eq!((requests[0].try_recv(), request.try_recv()), (Ok(false), Ok(false)));
        assert_eq!(progress.submitted, 9);
        fail(&mut progress, 11, eleven);
        assert_eq!(progress.submitted, 9);
    }
}
