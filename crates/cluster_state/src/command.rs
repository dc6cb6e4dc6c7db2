//! Commands and their outcomes, with their encoding.
//!
//! ```text
//! a batch     number of commands 4, then each after its length 4
//! a command   whether the request has an id 1, the id after its length 4,
//!             kind 1, then the fields of that kind
//! ```
//!
//! Each kind of command has a file of its own that describes its fields and its effect. Kind numbers are
//! never reused, because they are stored in logs.

use model::DatabaseId;

use crate::{
    applying::Applying,
    compare_exchange::{CompareExchangeCommand, CompareExchangeOutcome},
    deletions,
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    executed::ExecutedCommand,
    identities::IdentityCommand,
    record_command::{RecordCommand, RecordOutcome},
    removed_database, requests,
    server_values::ServerValueCommand,
    subscriptions::{SubscriptionCommand, SubscriptionOutcome},
    transactions::{ClusterTransaction, TransactionOutcome},
};

/// The largest command accepted.
pub const COMMAND_BYTES_MAX: usize = 128 << 20;

const COMPARE_EXCHANGE: u8 = 1;
const REMOVE_DATABASE: u8 = 2;
const SUBSCRIPTION: u8 = 3;
const IDENTITY: u8 = 4;
const TRANSACTION: u8 = 5;
const RECORD: u8 = 6;
const SERVER_VALUE: u8 = 7;
const EXECUTED: u8 = 8;

/// A change of the server-wide state.
#[derive(Clone, Debug)]
pub enum Command {
    /// Change values of compare exchange.
    CompareExchange(CompareExchangeCommand),
    /// Change subscriptions.
    Subscription(SubscriptionCommand),
    /// Change identities.
    Identity(IdentityCommand),
    /// Change values and documents together.
    Transaction(ClusterTransaction),
    /// Change the record of a database.
    Record(RecordCommand),
    /// Set a server value.
    ServerValue(ServerValueCommand),
    /// Note up to where a node has executed the cluster-wide transactions of a database.
    Executed(ExecutedCommand),
    /// Remove some of the entries of a deleted database.
    RemoveDatabase {
        /// Its topology id, which is never reused.
        database: DatabaseId,
    },
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Of [`Command::CompareExchange`].
    CompareExchange(CompareExchangeOutcome),
    /// Of [`Command::Subscription`].
    Subscription(SubscriptionOutcome),
    /// Of [`Command::Identity`]: the value of each name, in order.
    Identities(Vec<i64>),
    /// Of [`Command::Transaction`].
    Transaction(TransactionOutcome),
    /// Of [`Command::Record`].
    Record(RecordOutcome),
    /// Of [`Command::ServerValue`].
    ServerValueSet,
    /// Of [`Command::Executed`].
    ExecutedNoted,
    /// Of [`Command::RemoveDatabase`].
    DatabaseRemoved {
        /// Whether nothing is left to remove.
        is_done: bool,
    },
}

/// A command that was applied. It is sent between nodes as its index 8, then its outcome.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The index of the change. Every command takes one, even one that was refused.
    pub index: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl Command {
    /// The database that the command changes; `None` if it spans databases or the request is remembered
    /// elsewhere.
    pub(crate) fn database(&self) -> Option<DatabaseId> {
        match self {
            Self::CompareExchange(command) => command.database(),
            Self::Subscription(command) => Some(command.database()),
            Self::Identity(command) => Some(command.database()),
            Self::Transaction(transaction) => Some(transaction.database),
            Self::Executed(command) => Some(command.database),
            // Records remember requests themselves, so a database that is recreated starts with none.
            Self::Record(_) | Self::ServerValue(_) => None,
            Self::RemoveDatabase { database } => Some(*database),
        }
    }

    /// The database whose earlier commands affect the outcome. Subscriptions need none, because their
    /// positions only grow; neither does deleting a database.
    pub(crate) fn needs_history_of(&self) -> Option<DatabaseId> {
        match self {
            Self::Subscription(_)
            | Self::Executed(_)
            | Self::Record(_)
            | Self::ServerValue(_)
            | Self::RemoveDatabase { .. } => None,
            Self::CompareExchange(_) | Self::Identity(_) | Self::Transaction(_) => self.database(),
        }
    }

    /// Whether an encoded command is carried out once, however often it is sent: its request has an id, and both the
    /// request and its outcome are remembered.
    pub fn is_carried_out_once(encoded: &[u8]) -> bool {
        // The outcome of a command is smaller than the command, or small. Records are left out: what remembers the request
        // may be deleted together with the database.
        encoded.len() <= requests::OUTCOME_BYTES_MAX
            && match Self::decode(encoded) {
                Ok((Some(id), command)) => {
                    let database = command.database().unwrap_or(DatabaseId([0; 16]));
                    !matches!(command, Self::Record(_)) && requests::key(database, id).is_some()
                }
                Ok((None, _)) | Err(_) => false,
            }
    }

    /// What it changes, in a word.
    fn kind(&self) -> &'static str {
        match self {
            Self::CompareExchange(_) => "CompareExchange",
            Self::Subscription(_) => "Subscription",
            Self::Identity(_) => "Identity",
            Self::Transaction(_) => "ClusterTransaction",
            Self::Record(_) => "DatabaseRecord",
            Self::ServerValue(_) => "ServerValue",
            Self::Executed(_) => "ExecutedTransactions",
            Self::RemoveDatabase { .. } => "RemoveDatabase",
        }
    }

    /// Refuses a command that cannot be applied: once in the log, it would stop the state machine.
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        match self {
            Self::CompareExchange(command) => command.check(),
            Self::Subscription(command) => command.check(),
            Self::Identity(command) => command.check(),
            Self::Transaction(transaction) => transaction.check(),
            Self::Executed(_)
            | Self::Record(_)
            | Self::ServerValue(_)
            | Self::RemoveDatabase { .. } => Ok(()),
        }
    }

    /// The bytes stored in the log, with the id of the request.
    pub fn encode(&self, request_id: Option<&str>) -> Vec<u8> {
        let mut encoder = Encoder::default();
        encoder.optional(request_id, Encoder::text);
        match self {
            Self::CompareExchange(command) => {
                encoder.byte(COMPARE_EXCHANGE);
                command.encode(&mut encoder);
            }
            Self::Subscription(command) => {
                encoder.byte(SUBSCRIPTION);
                command.encode(&mut encoder);
            }
            Self::Identity(command) => {
                encoder.byte(IDENTITY);
                command.encode(&mut encoder);
            }
            Self::Transaction(transaction) => {
                encoder.byte(TRANSACTION);
                transaction.encode(&mut encoder);
            }
            Self::Record(command) => {
                encoder.byte(RECORD);
                command.encode(&mut encoder);
            }
            Self::ServerValue(command) => {
                encoder.byte(SERVER_VALUE);
                command.encode(&mut encoder);
            }
            Self::Executed(command) => {
                encoder.byte(EXECUTED);
                command.encode(&mut encoder);
            }
            Self::RemoveDatabase { database } => {
                encoder.byte(REMOVE_DATABASE);
                encoder.raw(&database.0);
            }
        }
        encoder.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<(Option<&str>, Self), Malformed> {
        let mut decoder = Decoder::new(bytes);
        let request_id = decoder.optional(Decoder::text)?;
        let command = match decoder.byte()? {
            COMPARE_EXCHANGE => {
                Self::CompareExchange(CompareExchangeCommand::decode(&mut decoder)?)
            }
            SUBSCRIPTION => Self::Subscription(SubscriptionCommand::decode(&mut decoder)?),
            IDENTITY => Self::Identity(IdentityCommand::decode(&mut decoder)?),
            TRANSACTION => Self::Transaction(ClusterTransaction::decode(&mut decoder)?),
            RECORD => Self::Record(RecordCommand::decode(&mut decoder)?),
            SERVER_VALUE => Self::ServerValue(ServerValueCommand::decode(&mut decoder)?),
            REMOVE_DATABASE => Self::RemoveDatabase { database: DatabaseId(decoder.fixed()?) },
            EXECUTED => Self::Executed(ExecutedCommand::decode(&mut decoder)?),
            _ => return Err(Malformed("a logged command is of an unknown kind")),
        };
        decoder.end()?;
        Ok((request_id, command))
    }

    pub(crate) fn apply(self, applying: &mut Applying<'_>) -> Result<Outcome, ClusterError> {
        match self {
            Self::CompareExchange(command) => command.apply(applying).map(Outcome::CompareExchange),
            Self::Subscription(command) => command.apply(applying).map(Outcome::Subscription),
            Self::Identity(command) => command.apply(applying).map(Outcome::Identities),
            Self::Transaction(transaction) => transaction.apply(applying).map(Outcome::Transaction),
            Self::Record(command) => command.apply(applying).map(Outcome::Record),
            Self::ServerValue(command) => command.apply(applying).map(|()| Outcome::ServerValueSet),
            Self::Executed(command) => command.apply(applying.tx).map(|()| Outcome::ExecutedNoted),
            Self::RemoveDatabase { database } => {
                let is_done = removed_database::remove_some(applying.tx, database)?;
                if is_done {
                    deletions::entries_removed(applying.tx, database)?;
                }
                Ok(Outcome::DatabaseRemoved { is_done })
            }
        }
    }
}

impl Applied {
    /// Appends the bytes that another node reads.
    pub fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.index);
        self.outcome.encode(encoder);
    }

    /// Reads what another node appended.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { index: decoder.u64()?, outcome: Outcome::decode(decoder)? })
    }
}

impl Outcome {
    /// Whether a repeated request gets this outcome again. Otherwise the caller submits another command for the
    /// same request, which must be applied.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Subscription(SubscriptionOutcome::OtherVersion))
    }

    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Self::CompareExchange(outcome) => {
                encoder.byte(COMPARE_EXCHANGE);
                outcome.encode(encoder);
            }
            Self::Subscription(outcome) => {
                encoder.byte(SUBSCRIPTION);
                outcome.encode(encoder);
            }
            Self::Identities(values) => {
                encoder.byte(IDENTITY);
                encoder.list(values, |encoder, value| encoder.i64(*value));
            }
            Self::Transaction(outcome) => {
                encoder.byte(TRANSACTION);
                outcome.encode(encoder);
            }
            Self::Record(outcome) => {
                encoder.byte(RECORD);
                outcome.encode(encoder);
            }
            Self::ServerValueSet => encoder.byte(SERVER_VALUE),
            Self::ExecutedNoted => encoder.byte(EXECUTED),
            Self::DatabaseRemoved { is_done } => {
                encoder.byte(REMOVE_DATABASE);
                encoder.flag(*is_done);
            }
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match decoder.byte()? {
            COMPARE_EXCHANGE => Self::CompareExchange(CompareExchangeOutcome::decode(decoder)?),
            SUBSCRIPTION => Self::Subscription(SubscriptionOutcome::decode(decoder)?),
            IDENTITY => Self::Identities(decoder.list(Decoder::i64)?),
            TRANSACTION => Self::Transaction(TransactionOutcome::decode(decoder)?),
            RECORD => Self::Record(RecordOutcome::decode(decoder)?),
            SERVER_VALUE => Self::ServerValueSet,
            EXECUTED => Self::ExecutedNoted,
            REMOVE_DATABASE => Self::DatabaseRemoved { is_done: decoder.flag()? },
            _ => return Err(Malformed("an outcome is of an unknown kind")),
        })
    }
}

/// The commands of one log entry, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBatch(pub Vec<u8>);

impl EncodedBatch {
    /// A batch of commands encoded by [`Command::encode`].
    pub fn of<'c>(commands: impl ExactSizeIterator<Item = &'c [u8]>) -> Self {
        let mut encoder = Encoder::default();
        encoder.u32(u32::try_from(commands.len()).expect("a batch has few commands"));
        commands.for_each(|command| encoder.bytes(command));
        Self(encoder.finish())
    }

    /// Reads all commands: one that cannot be read must not get into the log.
    ///
    /// # Errors
    /// The bytes are malformed, or a command cannot be applied.
    pub fn check(&self) -> Result<(), ClusterError> {
        self.each(|bytes| Command::decode(bytes)?.1.check())
    }

    /// The different kinds of the commands, in words, in their order.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn kinds(&self) -> Result<Vec<&'static str>, ClusterError> {
        let mut kinds = Vec::new();
        self.each(|bytes| {
            let kind = Command::decode(bytes)?.1.kind();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            Ok(())
        })?;
        Ok(kinds)
    }

    /// The number of commands.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn count(&self) -> Result<usize, Malformed> {
        Decoder::new(&self.0).u32().map(|count| count as usize)
    }

    /// Calls `visit` with each command in turn.
    pub(crate) fn each(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), ClusterError>,
    ) -> Result<(), ClusterError> {
        let mut decoder = Decoder::new(&self.0);
        for _ in 0..decoder.u32()? {
            visit(decoder.bytes()?)?;
        }
        Ok(decoder.end()?)
    }
}
