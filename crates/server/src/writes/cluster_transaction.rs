//! Cluster-wide transactions: from a client's batch to the cluster's state machine and into the
//! database.

use blittable::BlittableBuf;
use cluster_state::{
    Applied, ClusterTransaction, Command, DocumentChange, GUARD_PREFIX, Guard, Outcome,
    TransactionOutcome, ValueChange, Violation, expiry_ticks,
};
use commands::BatchOutcome;
use database::{DatabaseLease, ExecutionError, guarded_transaction, transaction_version};
use documents::check_document;
use model::{CollectionName, DatabaseRecord, DocumentId, IdSeparator, date};
use tokio::sync::oneshot;
use wire::{BatchCommand, CompareExchangeChange, ConcurrencyViolation, ErrorFields, ErrorKind};

use crate::{
    answers::json_text::JsonObject,
    api_error::ApiError,
    call::Call,
    http::body_share::BodyShare,
    server_state::ServerState,
    writes::{cluster_commands::submit_of, submitting::submit},
};

/// The first version of clients that support atomic guards.
const GUARDS_SINCE: (u32, u32) = (5, 2);

/// Executes a cluster-wide transaction; returns the response, and what others may wait for.
pub(crate) async fn execute(
    call: &Call,
    commands: Vec<BatchCommand>,
) -> Result<(Vec<u8>, BatchOutcome), ApiError> {
    let database = call.database()?;
    let record = database.record();
    let mut transaction = Reader { call, record: &record, has_guards: has_guards(call)? };
    let mut transaction = transaction.read(commands, database)?;
    finish_ids(&call.state, database, &mut transaction).await?;
    let mut share = BodyShare::none_of(&call.state);
    share.grow_to(bytes_on_the_way(&transaction))?;
    dry_run(&call.state, database, &transaction).await?;
    let command = Command::Transaction(transaction);
    let Applied { index, outcome } = submit_of(call, &command).await?;
    let Command::Transaction(transaction) = command else {
        return Err(ApiError::invalid_operation("the transaction is missing"));
    };
    let first_number = match outcome {
        Outcome::Transaction(TransactionOutcome::Committed { first_number }) => first_number,
        Outcome::Transaction(TransactionOutcome::Violated(violations)) => {
            return Err(violated(&violations));
        }
        _ => return Err(ApiError::invalid_operation("the outcome of the transaction is missing")),
    };
    if !transaction.documents.is_empty() {
        wait_for_execution(&call.state, database, index).await?;
    }
    let answer = write_answer(&transaction, &record, index, first_number);
    Ok((answer, outcome_of(database, &transaction)?))
}

/// Atomic guards are for clients that support them and do not disable them.
fn has_guards(call: &Call) -> Result<bool, ApiError> {
    if call.query().bool("disableAtomicDocumentWrites")?.unwrap_or(false) {
        return Ok(false);
    }
    let version = call.header("Raven-Client-Version").unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), minor) = (numbers.next(), numbers.next().flatten()) else {
        return Ok(false);
    };
    Ok(GUARDS_SINCE <= (major, minor.unwrap_or(0)))
}

/// Copies of a transaction's bodies: the command, the entry of the log, the rows of both in the
/// state machine, and what the database executes.
const COPIES_ON_THE_WAY: usize = 5;

struct Reader<'c> {
    call: &'c Call,
    record: &'c DatabaseRecord,
    has_guards: bool,
}

impl Reader<'_> {
    fn read(
        &mut self,
        commands: Vec<BatchCommand>,
        database: &DatabaseLease,
    ) -> Result<ClusterTransaction, ApiError> {
        let separator = database.queue().id_separator();
        let mut transaction = ClusterTransaction {
            database: self.record.topology_id,
            values: Vec::new(),
            documents: Vec::new(),
            ticks: self.call.state.engine.clock().now().ticks(),
            executed: database.executed_transaction(),
        };
        for command in commands {
            let kind = command.type_name();
            match command {
                BatchCommand::Put {
                    id, change_vector, original_change_vector, document, ..
                } => {
                    let change_vector = original_change_vector.or(change_vector);
                    let id = named(id, kind, 0)?;
                    check_end(&id, separator, Ends::MayBeIdentity)?;
                    let checked = check_document(
                        &DocumentId::new(id.as_str())?,
                        &document,
                        transaction.ticks,
                    );
                    checked?;
                    let guard = self.guard(change_vector.as_deref().unwrap_or_default());
                    transaction.documents.push(DocumentChange { id, body: Some(document), guard });
                }
                BatchCommand::Delete { id, change_vector, original_change_vector } => {
                    let change_vector = original_change_vector.or(change_vector);
                    let id = named(id, kind, 0)?;
                    check_end(&id, separator, Ends::Complete)?;
                    DocumentId::new(id.as_str())?;
                    let guard = match (self.has_guards, change_vector) {
                        (false, _) => Guard::Off,
                        (true, None) => Guard::Unchecked,
                        (true, Some(change_vector)) => self.guard(&change_vector),
                    };
                    transaction.documents.push(DocumentChange { id, body: None, guard });
                }
                BatchCommand::CompareExchange { key, index, change } => {
                    let key = named(key, kind, index)?;
                    check_end(&key, separator, Ends::Complete)?;
                    transaction.values.push(self.value(key, index, change)?);
                }
                BatchCommand::DeletePrefix { .. } => {
                    return Err(refused(
                        "Deleting by prefix is not supported on cluster transaction",
                    ));
                }
                _ => return Err(unsupported(kind)),
            }
        }
        Ok(transaction)
    }

    fn guard(&self, change_vector: &str) -> Guard {
        match self.has_guards {
            false => Guard::Off,
            true => Guard::Expected(guarded_transaction(
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
    ) -> Result<ValueChange, ApiError> {
        if self.has_guards && key.to_ascii_lowercase().starts_with(GUARD_PREFIX) {
            return Err(ApiError::new(
                ErrorKind::CompareExchangeInvalidKey,
                format!(
                    "You cannot manipulate the atomic guard '{key}' via the cluster-wide session"
                ),
            ));
        }
        let expected = u64::try_from(index).map_err(|_| {
            ApiError::new(ErrorKind::InvalidData, "Index must be a non-negative number")
        })?;
        let value = match change {
            CompareExchangeChange::Delete => None,
            CompareExchangeChange::Put(Some(value)) => {
                check_expiry(&key, self.record.name.as_str(), &value)?;
                Some(value)
            }
            CompareExchangeChange::Put(None) => {
                return Err(ApiError::invalid_operation(
                    "CompareExchangePUT command must have a 'Document' property",
                ));
            }
        };
        Ok(ValueChange { key, expected, value })
    }
}

/// Rejects a value whose expiration is not a timestamp.
pub(crate) fn check_expiry(
    key: &str,
    database: &str,
    value: &BlittableBuf,
) -> Result<(), ApiError> {
    let checked = expiry_ticks(&value.as_view());
    checked.map(drop).map_err(|error| {
        refused(&format!(
            "Could not apply command AddOrUpdateCompareExchangeCommand - failed to get `Expires` \
             for compare exchange key:{key} database:{database}. {error}"
        ))
    })
}

fn named(id: Option<String>, kind: &str, index: i64) -> Result<String, ApiError> {
    id.filter(|id| !id.trim().is_empty()).ok_or_else(|| {
        refused(&format!(
            "In ClusterTransactionDataCommand document id cannot be null, empty or white spaces as \
             part of cluster transaction. Type:({kind}), Index:({index})"
        ))
    })
}

/// How the id of a command may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With its last part.
    Complete,
    /// As a prefix that an identity completes, too.
    MayBeIdentity,
}

fn check_end(id: &str, separator: IdSeparator, ends: Ends) -> Result<(), ApiError> {
    let is_identity = id.ends_with(IdSeparator::IDENTITY_SUFFIX);
    if !id.ends_with(separator.character()) && (!is_identity || ends == Ends::MayBeIdentity) {
        return Ok(());
    }
    Err(refused(&format!(
        "Document id {id} cannot end with '|' or '{separator}' as part of cluster transaction"
    )))
}

fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorKind::RachisApply, message)
}

fn unsupported(kind: &str) -> ApiError {
    ApiError::new(
        ErrorKind::ArgumentOutOfRange,
        format!(
            "Specified argument was out of the range of valid values. (Parameter 'The command type \
             {kind} is not supported in cluster transaction.')"
        ),
    )
}

/// Completes ids that end with `|` with the next value of that identity.
async fn finish_ids(
    state: &ServerState,
    database: &DatabaseLease,
    transaction: &mut ClusterTransaction,
) -> Result<(), ApiError> {
    let unfinished = transaction.documents.iter_mut();
    let unfinished: Vec<_> =
        unfinished.filter(|change| change.id.ends_with(IdSeparator::IDENTITY_SUFFIX)).collect();
    let names = unfinished.iter().map(|change| change.id.clone()).collect();
    let separator = database.queue().id_separator();
    let numbers = state.engine.next_identities(database, names)?.ready().await?;
    for (change, number) in unfinished.into_iter().zip(numbers) {
        let name = change.id.trim_end_matches(IdSeparator::IDENTITY_SUFFIX);
        change.id = format!("{name}{separator}{number}");
        DocumentId::new(change.id.as_str())?;
    }
    Ok(())
}

/// The memory of the copies of a transaction's bodies until it is executed.
fn bytes_on_the_way(transaction: &ClusterTransaction) -> u64 {
    let documents = transaction.documents.iter().filter_map(|change| change.body.as_ref());
    let values = transaction.values.iter().filter_map(|change| change.value.as_ref());
    let bytes: usize = documents.chain(values).map(|body| body.as_bytes().len()).sum();
    bytes.saturating_mul(COPIES_ON_THE_WAY) as u64
}

/// Rejects a transaction that the database could not execute, before the cluster commits it.
async fn dry_run(
    state: &ServerState,
    database: &DatabaseLease,
    transaction: &ClusterTransaction,
) -> Result<(), ApiError> {
    let dry_run = database.dry_run_of(transaction);
    match dry_run.map_err(|error| execution_error(state, database, error))? {
        Some(dry_run) => submit(state, database, dry_run).await.map(drop),
        None => Ok(()),
    }
}

async fn wait_for_execution(
    state: &ServerState,
    database: &DatabaseLease,
    index: u64,
) -> Result<(), ApiError> {
    let (sender, receiver) = oneshot::channel();
    // A client that disconnects does not revoke its transaction.
    let done = move |outcome| drop(sender.send(outcome));
    state.engine.execute_transaction(database, index, done);
    let closed = || ApiError::new(ErrorKind::StorageFailed, "the queue of changes has ended");
    let executed = receiver.await.map_err(|_| closed())?;
    executed.map_err(|error| execution_error(state, database, error))
}

fn execution_error(
    state: &ServerState,
    database: &DatabaseLease,
    error: ExecutionError,
) -> ApiError {
    match error {
        ExecutionError::Cluster(error) => ApiError::from(error),
        ExecutionError::NotSubmitted(error) => {
            ApiError::from(state.engine.not_submitted(database, error))
        }
        ExecutionError::Failed(error) => {
            state.engine.note_failure(database, &error);
            ApiError::from(error)
        }
    }
}

fn violated(violations: &[Violation]) -> ApiError {
    let mut message =
        "Failed to execute cluster transaction due to the following issues: ".to_owned();
    for (position, violation) in violations.iter().enumerate() {
        if position > 0 {
            message.push('\n');
        }
        let Violation { key, document, is_delete, expected, actual } = violation;
        if let Some(document) = document {
            message.push_str(&format!(
                "Guard compare exchange value '{key}' index does not match the transaction index's \
                 {expected} change vector on {document}\n"
            ));
        }
        let what = if *is_delete { "deleting" } else { "putting" };
        message.push_str(&format!(
            "Concurrency check failed for {what} the key '{key}'. Requested index: {expected}, \
             actual index: {actual}"
        ));
    }
    let mut error = ApiError::new(ErrorKind::ClusterTransactionConcurrency, message);
    let reported = violations.iter().map(|violation| ConcurrencyViolation {
        is_document: violation.document.is_some(),
        key: violation.key.clone(),
        expected: violation.expected,
        actual: violation.actual,
    });
    error.fields = ErrorFields::Violations(reported.collect());
    error
}

/// Documents first, then values, each in their order.
fn write_answer(
    transaction: &ClusterTransaction,
    record: &DatabaseRecord,
    index: u64,
    first_number: u64,
) -> Vec<u8> {
    let mut body = b"{\"Results\":[".to_vec();
    let modified = date::format(transaction.ticks);
    for (number, change) in (first_number..).zip(&transaction.documents) {
        separate(&mut body);
        let (kind, id) = match change.body {
            Some(_) => ("PUT", "@id"),
            None => ("DELETE", "Id"),
        };
        let guarded = (change.guard != Guard::Off).then_some(index);
        let mut object = JsonObject::begin(&mut body);
        object.text("Type", kind);
        object.text("@last-modified", &modified);
        object.text(id, &change.id);
        object.text("@change-vector", &transaction_version(record, number, guarded));
        object.end();
    }
    for change in &transaction.values {
        separate(&mut body);
        let kind = match change.value {
            Some(_) => "CompareExchangePUT",
            None => "CompareExchangeDELETE",
        };
        let mut object = JsonObject::begin(&mut body);
        object.text("Type", kind);
        object.text("Key", &change.key);
        object.number("Index", index);
        object.end();
    }
    body.extend_from_slice(format!("],\"TransactionIndex\":{index}}}").as_bytes());
    body
}

fn separate(body: &mut Vec<u8>) {
    if body.last() != Some(&b'[') {
        body.push(b',');
    }
}

/// The changes that waiting for indexes refers to.
fn outcome_of(
    database: &DatabaseLease,
    transaction: &ClusterTransaction,
) -> Result<BatchOutcome, ApiError> {
    let progress = documents::progress(&database.read())?;
    let mut collections: Vec<CollectionName> = Vec::new();
    for body in transaction.documents.iter().filter_map(|change| change.body.as_ref()) {
        let collection = documents::collection_of_document(body);
        let collection = collection?;
        if !collections.contains(&collection) {
            collections.push(collection);
        }
    }
    Ok(BatchOutcome { last_etag: progress.last_etag, collections, ..BatchOutcome::default() })
}
