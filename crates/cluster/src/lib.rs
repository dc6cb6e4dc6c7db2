//! The server-wide state that all nodes agree on, as one replicated state machine (openraft).
//!
//! Whoever wants to change it submits a [`Command`]. Commands that wait together become one entry of
//! the log; the entry is made durable, then applied, and everybody hears the [`Outcome`] of his own
//! command. Today there is one voter, so an entry is decided with its being appended, and is applied in
//! the same transaction; there is no other way in, and so no second one to keep when more nodes come.
//!
//! Invariants: an outcome is told only after its effect is on stable storage; a command is applied
//! exactly once, because the last applied entry is stored in the transaction of its effect; applying is
//! a function of the state and the command alone, with no clock and no randomness.
//!
//! | file | what |
//! |---|---|
//! | `cluster`, `driver` | [`Cluster`]: the way in, and the thread on which the machine runs |
//! | `command` | [`Command`], [`Outcome`], [`Applied`]: what can be asked for, and their bytes |
//! | `compare_exchange` | values under keys that change only as their writer expects |
//! | `value_log`, `value_watches`, `database_values` | which of them changed, and who is told; reading those of one database |
//! | `subscriptions` | subscriptions: what they ask, and how far they have come; as bytes and as rows |
//! | `identities` | numbers that rise by one |
//! | `transactions` | changes of values and documents that happen together |
//! | `removed_database` | what a database leaves behind when it is deleted |
//! | `requests` | requests that a client repeats |
//! | `state` | [`ClusterState`]: reading |
//! | `schema`, `encoding` | where everything lies, and how |
//! | `change_index` | the one counter that numbers all changes |
//! | `log_store`, `state_machine`, `network`, `raft_types` | what openraft asks for |
//! | `error`, `failure` | why a command could not be done |

#![forbid(unsafe_code)]

mod change_index;
mod cluster;
mod command;
mod compare_exchange;
mod database_values;
mod driver;
mod encoding;
mod error;
mod failure;
mod identities;
mod log_store;
mod network;
mod raft_types;
mod refusals;
mod removed_database;
mod requests;
mod schema;
mod state;
mod state_machine;
mod subscriptions;
mod transactions;
mod value_log;
mod value_watches;

pub use crate::{
    change_index::{last_index, take_index},
    cluster::{Cluster, Submission},
    command::{Applied, COMMAND_BYTES_MAX, Command, Outcome},
    compare_exchange::{
        COMPARE_EXCHANGE_KEY_BYTES_MAX, CompareExchangeCommand, CompareExchangeEntry,
        CompareExchangeOutcome, FORGOTTEN_MAX, InvalidExpiry, expiry_ticks,
    },
    database_values::{DatabaseValues, ValueSource},
    error::ClusterError,
    identities::{IDENTITY_MAX, IdentityCommand},
    state::ClusterState,
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
