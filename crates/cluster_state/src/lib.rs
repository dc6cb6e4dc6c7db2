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
//! | `store`, `state` | [`ClusterStore`], [`ClusterState`]: reading |
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

mod change_index;
mod command;
mod compare_exchange;
mod database_values;
mod encoding;
mod error;
mod identities;
mod refusals;
mod removed_database;
mod requests;
mod schema;
mod state;
mod store;
mod subscriptions;
mod transactions;
mod value_log;
mod value_watches;

pub use crate::{
    change_index::{last_index, take_index},
    command::{Applied, COMMAND_BYTES_MAX, Command, EncodedBatch, Outcome, apply_batch},
    compare_exchange::{
        COMPARE_EXCHANGE_KEY_BYTES_MAX, CompareExchangeCommand, CompareExchangeEntry,
        CompareExchangeOutcome, FORGOTTEN_MAX, InvalidExpiry, expiry_ticks, is_any_due,
    },
    database_values::{DatabaseValues, ValueSource},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    identities::{IDENTITY_MAX, IdentityCommand},
    schema::{FORMAT_VERSION, VERSION_WITHOUT_POINTS},
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
