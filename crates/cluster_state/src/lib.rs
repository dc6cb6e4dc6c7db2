//! The server-wide state that all nodes agree on. Commands change it; each is applied once, in one order.
//!
//! It depends on storage only: `cluster` puts the commands into order and makes them durable.
//!
//! Invariant: applying is a function of the state and the command alone, with no clock and no
//! randomness.
//!
//! | file | what |
//! |---|---|
//! | `command` | [`Command`], [`Outcome`], [`Applied`], [`EncodedBatch`]: the commands and their encoding |
//! | `apply`, `applying` | applying the commands of a log entry |
//! | `store`, `state` | [`ClusterStore`], [`ClusterState`]: reading |
//! | `record_command`, `database_record`, `database_nodes`, `records` | database records; as rows, and in memory |
//! | `server_values` | values that all nodes share, such as the client configuration |
//! | `compare_exchange` | values under keys, changed only if their version is the expected one |
//! | `value_log`, `value_watches`, `database_values` | the change log of these values, its watchers, and reading the values of one database |
//! | `subscriptions` | subscriptions: settings and progress; their encoding and rows |
//! | `identities` | named counters |
//! | `transactions` | atomic changes of values and documents |
//! | `deletions` | deleted databases of which something is still to be removed |
//! | `removed_database` | removing the entries of a deleted database |
//! | `image` | the whole state as rows, for a node that lags |
//! | `requests` | answered requests, in case a client repeats them |
//! | `refusals` | databases whose commands are refused, and why |
//! | `schema`, `encoding` | the trees of the state, and the encoding of its values |
//! | `change_index` | the counter that numbers all changes |
//! | `error` | errors of commands and of reading |

#![forbid(unsafe_code)]

mod apply;
mod applying;
mod change_index;
mod command;
mod compare_exchange;
mod database_nodes;
mod database_record;
mod database_values;
mod deletions;
mod encoding;
mod error;
mod executed;
mod identities;
mod image;
mod record_command;
mod records;
mod refusals;
mod removed_database;
mod requests;
mod schema;
mod server_values;
mod state;
mod store;
mod subscriptions;
mod transactions;
mod value_log;
mod value_watches;

pub use crate::{
    apply::{Effects, apply_batch},
    command::{Applied, COMMAND_BYTES_MAX, Command, EncodedBatch, Outcome},
    compare_exchange::{
        COMPARE_EXCHANGE_KEY_BYTES_MAX, CompareExchangeCommand, CompareExchangeEntry,
        CompareExchangeOutcome, FORGOTTEN_MAX, InvalidExpiry, expiry_ticks, is_any_due,
    },
    database_values::{DatabaseValues, ValueSource},
    deletions::{DeletedDatabase, PendingDeletion, end_deletion, pending_deletions},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    executed::ExecutedCommand,
    identities::{IDENTITY_MAX, IdentityCommand},
    image::{ImageInstaller, ImageReader, clear_state},
    record_command::{
        NewDatabase, RecordChange, RecordCommand, RecordDraft, RecordOutcome, topology_of,
    },
    records::{ChangedRecord, Changes, ChangesListener},
    schema::{FORMAT_VERSION, READABLE_VERSIONS, environments},
    server_values::{ServerValue, ServerValueCommand, read as read_server_value},
    state::ClusterState,
    store::ClusterStore,
    subscriptions::{
        Handover, SubscriptionCommand, SubscriptionOutcome, SubscriptionPosition,
        SubscriptionRecord, SubscriptionSettings,
    },
    transactions::{
        ClusterTransaction, DocumentChange, GUARD_PREFIX, Guard, NumberedChange, StoredTransaction,
        TransactionOutcome, ValueChange, Violation, guard_key,
    },
    value_log::ChangedValue,
    value_watches::ValueWatch,
};
