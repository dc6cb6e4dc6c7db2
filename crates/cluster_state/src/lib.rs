//! The server-wide state that all nodes agree on: commands change it, each applied once and in one order.
//!
//! It knows storage alone: `cluster` brings the commands into their order and makes them durable.
//!
//! Invariant: applying is a function of the state and the command alone, with no clock and no
//! randomness.
//!
//! | file | what |
//! |---|---|
//! | `command` | [`Command`], [`Outcome`], [`Applied`], [`EncodedBatch`]: what can be asked for, and their bytes |
//! | `apply`, `applying` | applying what an entry of the log holds |
//! | `store`, `state` | [`ClusterStore`], [`ClusterState`]: reading |
//! | `record_command`, `database_record`, `records` | records of databases; as rows, and in memory |
//! | `server_values` | values that the servers share, such as the configuration of clients |
//! | `compare_exchange` | values under keys that change only as their writer expects |
//! | `value_log`, `value_watches`, `database_values` | which of them changed, and who is notified; reading those of one database |
//! | `subscriptions` | subscriptions: what they ask, and how far they have come; as bytes and as rows |
//! | `identities` | numbers that rise by one |
//! | `transactions` | changes of values and documents that happen together |
//! | `removed_database` | what a database leaves behind when it is deleted |
//! | `requests` | requests that a client repeats |
//! | `refusals` | databases for which nothing is done, and why |
//! | `schema`, `encoding` | where everything lies, and how |
//! | `change_index` | the one counter that numbers all changes |
//! | `error` | why a command could not be done |

#![forbid(unsafe_code)]

mod apply;
mod applying;
mod change_index;
mod command;
mod compare_exchange;
mod database_record;
mod database_values;
mod encoding;
mod error;
mod identities;
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
    database_record::{DatabaseRecord, RecordRequest},
    database_values::{DatabaseValues, ValueSource},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    identities::{IDENTITY_MAX, IdentityCommand},
    record_command::{
        NewDatabase, PendingRemoval, RecordChange, RecordCommand, RecordDraft, RecordOutcome,
        end_removal, pending_removals,
    },
    records::ChangedRecord,
    schema::{FORMAT_VERSION, READABLE_VERSIONS, environments},
    server_values::{ServerValue, ServerValueCommand},
    state::ClusterState,
    store::ClusterStore,
    subscriptions::{
        SubscriptionCommand, SubscriptionOutcome, SubscriptionPosition, SubscriptionRecord,
        SubscriptionSettings,
    },
    transactions::{
        ClusterTransaction, DocumentChange, GUARD_PREFIX, Guard, NumberedChange, StoredTransaction,
        TransactionOutcome, ValueChange, Violation, guard_key,
    },
    value_log::ChangedValue,
    value_watches::ValueWatch,
};
