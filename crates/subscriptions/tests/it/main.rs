//! Subscriptions over a database in memory, seen from outside.

mod handovers;
mod histories;
