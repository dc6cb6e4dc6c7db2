//! Cluster-wide transactions: from a client's commands to the state that all nodes agree on, and from there into the
//! database.
//!
//! A transaction is read, completed, tried if it is large, submitted, and then executed in the database. Only how
//! the waits between these steps are done differs between a caller that blocks ([`Engine::transact`]) and one that
//! awaits; as in `submission`.

use std::sync::{Arc, mpsc};

use blittable::BlittableBuf;
use cluster::Submission;
use cluster_state::{
    Applied, ClusterTransaction, Command, DocumentChange, GUARD_PREFIX, Guard, Outcome,
    TransactionOutcome, ValueChange, expiry_ticks,
};
use commands::{BatchOutcome, CommandError};
use database::{DatabaseLease, ExecutionError, guarded_transaction, transaction_version};
use documents::check_document;
use model::{DatabaseRecord, DocumentId, IdSeparator};
use wire::{BatchCommand, CompareExchangeChange, DocumentCommand};

use crate::{
    engine::Engine,
    error::EngineError,
    invalid_transaction::{InvalidTransaction, Violations},
    next_identities::NextIdentities,
    submission::PreparedBatch,
};

/// Copies of a transaction's bodies: the command, the entry of the log, the rows of both in the
/// state machine, and what the database executes.
const COPIES_ON_THE_WAY: usize = 5;

/// Whether documents of a transaction are protected by atomic guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guards {
    /// Guards are neither checked nor written.
    Off,
    /// A document that a concurrent transaction has changed is refused.
    On,
}

/// A transaction whose ids wait for the next values of identities, if it has such ids.
pub struct TransactionPreparation<'d> {
    database: &'d DatabaseLease,
    record: Arc<DatabaseRecord>,
    transaction: ClusterTransaction,
    identities: NextIdentities,
}

/// A transaction whose ids are complete.
pub struct PreparedTransaction {
    record: Arc<DatabaseRecord>,
    command: ClusterTransaction,
}

/// A transaction on its way into the shared state.
pub struct SubmittedTransaction {
    record: Arc<DatabaseRecord>,
    transaction: ClusterTransaction,
    submission: Submission,
}

/// A transaction in the shared state, whose documents the database executes in its turn.
pub struct CommittedTransaction {
    record: Arc<DatabaseRecord>,
    transaction: ClusterTransaction,
    index: u64,
    first_number: u64,
}

impl Engine {
    /// Executes a cluster-wide transaction, and waits until it is durable in the database. A request whose id is
    /// remembered is not applied again. Blocks.
    ///
    /// # Errors
    /// Those of the steps. Nothing of it was done, unless the error says that the outcome is unknown, or the
    /// database cannot execute it now: then it follows later.
    pub fn transact(
        &self,
        database: &DatabaseLease,
        commands: Vec<BatchCommand>,
        guards: Guards,
        request_id: Option<&str>,
    ) -> Result<(CommittedTransaction, BatchOutcome), EngineError> {
        let prepared = self.prepare_transaction(database, commands, guards)?.wait()?;
        if let Some(dry_run) = self.dry_run_of(database, &prepared)? {
            let (sender, receiver) = mpsc::channel();
            // The receiver waits for it.
            let reply = Box::new(move |outcome| drop(sender.send(outcome)));
            let submitted = self.submit(database, dry_run, reply)?;
            self.settle(database, submitted, receiver.recv().ok())?;
        }
        let committed = self.submit_transaction(database, prepared, request_id)?.wait()?;
        let (sender, receiver) = mpsc::channel();
        self.execute_transaction(database, &committed, move |outcome| drop(sender.send(outcome)));
        let outcome = self.settle_transaction(database, receiver.recv().ok())?;
        Ok((committed, outcome))
    }

    /// Reads the commands of a transaction, and requests what its ids need to be complete. Never blocks.
    ///
    /// # Errors
    /// A command cannot be part of a transaction ([`EngineError::InvalidTransaction`]); a document cannot be stored;
    /// those of [`Engine::next_identities`].
    pub fn prepare_transaction<'d>(
        &self,
        database: &'d DatabaseLease,
        commands: Vec<BatchCommand>,
        guards: Guards,
    ) -> Result<TransactionPreparation<'d>, EngineError> {
        let record = database.record();
        let ticks = self.clock().now().ticks();
        let executed = self.executed_by_all(&record, database.executed_transaction())?;
        let reader = Reader { record: &record, guards, executed };
        let transaction = reader.read(commands, database, ticks)?;
        let identities = self.next_identities(database, identities_of(&transaction))?;
        Ok(TransactionPreparation { database, record, transaction, identities })
    }

    /// A batch that tries a large transaction and is then undone: submit it first, and the transaction only if it
    /// succeeds, because the database must execute what was committed. `None` if there is always room for it.
    ///
    /// # Errors
    /// An id is too long.
    pub fn dry_run_of(
        &self,
        database: &DatabaseLease,
        prepared: &PreparedTransaction,
    ) -> Result<Option<PreparedBatch>, EngineError> {
        let dry_run = database.dry_run_of(&prepared.command);
        let dry_run = dry_run.map_err(|error| self.not_executed(database, error))?;
        Ok(dry_run.map(PreparedBatch::from))
    }

    /// Submits a transaction. Never blocks. A request whose id is remembered is not applied again.
    ///
    /// # Errors
    /// Those of [`Engine::submit_for`]. Nothing is done then.
    pub fn submit_transaction(
        &self,
        database: &DatabaseLease,
        prepared: PreparedTransaction,
        request_id: Option<&str>,
    ) -> Result<SubmittedTransaction, EngineError> {
        let PreparedTransaction { record, command } = prepared;
        let command = Command::Transaction(command);
        let submission = self.submit_for(database, &command, request_id)?;
        let Command::Transaction(transaction) = command else {
            return Err(EngineError::Internal { what: "the transaction is missing".to_owned() });
        };
        Ok(SubmittedTransaction { record, transaction, submission })
    }

    /// Executes a transaction in a database, after all earlier ones. `done` is called when that is durable or has
    /// failed; pass its argument to [`Engine::settle_transaction`]. Never blocks.
    pub fn execute_transaction(
        &self,
        database: &DatabaseLease,
        committed: &CommittedTransaction,
        done: impl FnOnce(Result<Option<BatchOutcome>, ExecutionError>) + Send + 'static,
    ) {
        match committed.transaction.documents.is_empty() {
            // Nothing of it is stored for the database.
            true => done(Ok(Some(BatchOutcome::default()))),
            false => database.execute_transaction(self.cluster.store(), committed.index, done),
        }
    }

    /// The outcome of a transaction that the database has executed; `outcome` is `None` if the queue ended without
    /// one. A database whose storage failed is closed, and opened again through recovery.
    ///
    /// # Errors
    /// It was not executed. It is committed, and executed with the next one or when the database is next opened.
    pub fn settle_transaction(
        &self,
        database: &DatabaseLease,
        outcome: Option<Result<Option<BatchOutcome>, ExecutionError>>,
    ) -> Result<BatchOutcome, EngineError> {
        let closed = || Err(ExecutionError::Failed(Arc::new(CommandError::Closed)));
        let outcome = outcome.unwrap_or_else(closed);
        match outcome.map_err(|error| self.not_executed(database, error))? {
            Some(outcome) => Ok(outcome),
            None => executed_earlier(database),
        }
    }

    fn not_executed(&self, database: &DatabaseLease, error: ExecutionError) -> EngineError {
        match error {
            ExecutionError::Cluster(error) => EngineError::Cluster(error),
            ExecutionError::NotSubmitted(error) => self.not_submitted(database, error),
            ExecutionError::Failed(error) => {
                self.note_failure(database, &error);
                EngineError::Command(Arc::unwrap_or_clone(error))
            }
        }
    }
}

/// What a transaction may have changed whose outcome is not remembered, because its request is repeated: anything
/// up to now.
fn executed_earlier(database: &DatabaseLease) -> Result<BatchOutcome, EngineError> {
    let tx = database.read();
    let collections = documents::collections(&tx)?.into_iter().map(|known| known.name);
    Ok(BatchOutcome {
        last_etag: documents::progress(&tx)?.last_etag,
        collections: collections.collect(),
        ..BatchOutcome::default()
    })
}

impl TransactionPreparation<'_> {
    /// The transaction when its ids are complete. Blocks.
    ///
    /// # Errors
    /// There are no values for the identities; an id would be too long.
    pub fn wait(self) -> Result<PreparedTransaction, EngineError> {
        let separator = self.database.queue().id_separator();
        prepared((self.record, separator), self.transaction, self.identities.wait()?)
    }

    /// As [`TransactionPreparation::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`TransactionPreparation::wait`].
    pub async fn ready(self) -> Result<PreparedTransaction, EngineError> {
        let separator = self.database.queue().id_separator();
        prepared((self.record, separator), self.transaction, self.identities.ready().await?)
    }
}

impl PreparedTransaction {
    /// The memory that the copies of its bodies take until it is executed.
    pub fn bytes_on_the_way(&self) -> u64 {
        let documents = self.command.documents.iter().filter_map(|change| change.body.as_ref());
        let values = self.command.values.iter().filter_map(|change| change.value.as_ref());
        let bytes: usize = documents.chain(values).map(|body| body.as_bytes().len()).sum();
        bytes.saturating_mul(COPIES_ON_THE_WAY) as u64
    }
}

impl SubmittedTransaction {
    /// The transaction when it is committed. Blocks.
    ///
    /// # Errors
    /// The versions that it expects are not the present ones ([`EngineError::Violations`]); those of applying it.
    pub fn wait(self) -> Result<CommittedTransaction, EngineError> {
        let applied = self.submission.wait()?;
        committed(self.record, self.transaction, applied)
    }

    /// As [`SubmittedTransaction::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`SubmittedTransaction::wait`].
    pub async fn ready(self) -> Result<CommittedTransaction, EngineError> {
        let applied = self.submission.await?;
        committed(self.record, self.transaction, applied)
    }
}

impl CommittedTransaction {
    /// Its index in the shared state.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Its changes.
    pub fn changes(&self) -> &ClusterTransaction {
        &self.transaction
    }

    /// Its changes of documents in their order, each with the change vector that results from it.
    pub fn documents(&self) -> impl Iterator<Item = (&DocumentChange, String)> {
        (self.first_number..).zip(&self.transaction.documents).map(|(number, change)| {
            let guarded = (change.guard != Guard::Off).then_some(self.index);
            (change, transaction_version(&self.record, number, guarded))
        })
    }
}

fn committed(
    record: Arc<DatabaseRecord>,
    transaction: ClusterTransaction,
    applied: Applied,
) -> Result<CommittedTransaction, EngineError> {
    let Applied { index, outcome } = applied;
    match outcome {
        Outcome::Transaction(TransactionOutcome::Committed { first_number }) => {
            Ok(CommittedTransaction { record, transaction, index, first_number })
        }
        Outcome::Transaction(TransactionOutcome::Violated(violations)) => {
            Err(EngineError::Violations(Violations(violations)))
        }
        _ => {
            let what = "the outcome of the transaction is missing".to_owned();
            Err(EngineError::Internal { what })
        }
    }
}

/// The names of the identities that complete ids, one for each such id.
fn identities_of(transaction: &ClusterTransaction) -> Vec<String> {
    let ids = transaction.documents.iter().map(|change| &change.id);
    ids.filter(|id| id.ends_with(IdSeparator::IDENTITY_SUFFIX)).cloned().collect()
}

/// Completes the ids of a transaction with the values of [`identities_of`], in their order.
fn prepared(
    (record, separator): (Arc<DatabaseRecord>, IdSeparator),
    mut transaction: ClusterTransaction,
    numbers: Vec<i64>,
) -> Result<PreparedTransaction, EngineError> {
    let unfinished = transaction.documents.iter_mut();
    let unfinished = unfinished.filter(|change| change.id.ends_with(IdSeparator::IDENTITY_SUFFIX));
    for (change, number) in unfinished.zip(numbers) {
        let name = change.id.trim_end_matches(IdSeparator::IDENTITY_SUFFIX);
        change.id = format!("{name}{separator}{number}");
        checked_id(&change.id)?;
    }
    Ok(PreparedTransaction { record, command: transaction })
}

fn checked_id(id: &str) -> Result<DocumentId, EngineError> {
    DocumentId::new(id).map_err(|error| EngineError::Document(error.into()))
}

/// Reads the commands of a transaction.
struct Reader<'r> {
    record: &'r DatabaseRecord,
    guards: Guards,
    /// All nodes of the database have executed the transactions up to this one.
    executed: u64,
}

/// Notes which versions are replaced. Ids that are not complete are those of new documents.
fn note_replaced(
    documents: &mut [DocumentChange],
    database: &DatabaseLease,
) -> Result<(), EngineError> {
    let tx = database.read();
    for change in documents {
        let id = checked_id(&change.id)?;
        change.replaces = Some(documents::version_of(&tx, &id)?);
    }
    Ok(())
}

impl Reader<'_> {
    fn read(
        &self,
        commands: Vec<BatchCommand>,
        database: &DatabaseLease,
        ticks: i64,
    ) -> Result<ClusterTransaction, EngineError> {
        let separator = database.queue().id_separator();
        let mut transaction = ClusterTransaction {
            database: self.record.topology_id,
            values: Vec::new(),
            documents: Vec::new(),
            ticks,
            executed: self.executed,
        };
        for command in commands {
            let kind = command.type_name();
            match command {
                BatchCommand::Document(command) => {
                    let change = self.document(command, kind, separator, ticks)?;
                    transaction.documents.push(change);
                }
                BatchCommand::CompareExchange { key, index, change } => {
                    let key = named(key, kind, index)?;
                    check_end(&key, separator, Ends::Complete)?;
                    transaction.values.push(self.value(key, index, change)?);
                }
                BatchCommand::Patch(_)
                | BatchCommand::Attachment(_)
                | BatchCommand::Counters { .. }
                | BatchCommand::TimeSeries(_) => {
                    return Err(InvalidTransaction::Unsupported { kind }.into());
                }
            }
        }
        if 1 < self.record.topology.nodes().count() {
            note_replaced(&mut transaction.documents, database)?;
        }
        Ok(transaction)
    }

    /// `kind` is the protocol's name of the command, for errors.
    fn document(
        &self,
        command: DocumentCommand,
        kind: &'static str,
        separator: IdSeparator,
        ticks: i64,
    ) -> Result<DocumentChange, EngineError> {
        match command {
            DocumentCommand::Put {
                id, change_vector, original_change_vector, document, ..
            } => {
                let change_vector = original_change_vector.or(change_vector);
                let id = named(id, kind, 0)?;
                check_end(&id, separator, Ends::MayBeIdentity)?;
                check_document(&checked_id(&id)?, &document, ticks)?;
                let guard = self.guard(change_vector.as_deref().unwrap_or_default());
                Ok(DocumentChange { id, body: Some(document), guard, replaces: None })
            }
            DocumentCommand::Delete { id, change_vector, original_change_vector } => {
                let change_vector = original_change_vector.or(change_vector);
                let id = named(id, kind, 0)?;
                check_end(&id, separator, Ends::Complete)?;
                checked_id(&id)?;
                let guard = match (self.guards, change_vector) {
                    (Guards::Off, _) => Guard::Off,
                    (Guards::On, None) => Guard::Unchecked,
                    (Guards::On, Some(change_vector)) => self.guard(&change_vector),
                };
                Ok(DocumentChange { id, body: None, guard, replaces: None })
            }
            DocumentCommand::DeletePrefix { .. } => Err(InvalidTransaction::DeletesByPrefix.into()),
            DocumentCommand::ForceRevision { .. } => {
                Err(InvalidTransaction::Unsupported { kind }.into())
            }
        }
    }

    fn guard(&self, change_vector: &str) -> Guard {
        match self.guards {
            Guards::Off => Guard::Off,
            Guards::On => Guard::Expected(guarded_transaction(
                change_vector,
                self.record.cluster_transaction_id,
            )),
        }
    }

    fn value(
        &self,
        key: String,
        index: i64,
        change: CompareExchangeChange,
    ) -> Result<ValueChange, EngineError> {
        let is_guard = key.to_ascii_lowercase().starts_with(GUARD_PREFIX);
        if self.guards == Guards::On && is_guard {
            return Err(InvalidTransaction::AtomicGuard { key }.into());
        }
        let expected = u64::try_from(index).map_err(|_| InvalidTransaction::NegativeIndex)?;
        let value = match change {
            CompareExchangeChange::Delete => None,
            CompareExchangeChange::Put(Some(value)) => {
                check_expiry(&key, self.record.name.as_str(), &value)?;
                Some(value)
            }
            CompareExchangeChange::Put(None) => return Err(InvalidTransaction::ValueMissing.into()),
        };
        Ok(ValueChange { key, expected, value })
    }
}

/// Rejects a value whose expiration is not a timestamp.
///
/// # Errors
/// [`InvalidTransaction::Expiry`].
pub fn check_expiry(key: &str, database: &str, value: &BlittableBuf) -> Result<(), EngineError> {
    expiry_ticks(&value.as_view()).map(drop).map_err(|error| {
        let (key, database) = (key.to_owned(), database.to_owned());
        InvalidTransaction::Expiry { key, database, detail: error.to_string() }.into()
    })
}

fn named(id: Option<String>, kind: &'static str, index: i64) -> Result<String, InvalidTransaction> {
    id.filter(|id| !id.trim().is_empty()).ok_or(InvalidTransaction::NameMissing { kind, index })
}

/// How the id of a command may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With its last part.
    Complete,
    /// As a prefix that an identity completes, too.
    MayBeIdentity,
}

fn check_end(id: &str, separator: IdSeparator, ends: Ends) -> Result<(), InvalidTransaction> {
    let is_identity = id.ends_with(IdSeparator::IDENTITY_SUFFIX);
    if !id.ends_with(separator.character()) && (!is_identity || ends == Ends::MayBeIdentity) {
        return Ok(());
    }
    Err(InvalidTransaction::Unfinished { id: id.to_owned(), separator })
}
