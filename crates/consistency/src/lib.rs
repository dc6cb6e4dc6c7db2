//! Checks isolation on histories of many clients: pure functions over requests and responses.
//!
//! After Elle (Kingsbury & Alvaro, 2020): values are written once, so a read identifies the
//! transaction that wrote its value, and growing lists reveal the order. That yields a graph of
//! dependencies, in which each cycle is a named anomaly (Adya). Registers of compare exchange carry
//! the version that the server assigned; their linearizability is checked by it.
//!
//! Used by tests and by `cargo xtask`, never by the server.
//!
//! | file | what |
//! |---|---|
//! | `history` | [`Transaction`], [`Step`]: what a client did, and the responses it received |
//! | `anomaly` | [`Anomaly`], [`Finding`]: what can be wrong |
//! | `versions` | the versions of a key, their writers and readers |
//! | `lists`, `registers` | the versions of lists that grow, of values that replace each other |
//! | `reads` | what single transactions show: aborted, intermediate, fractured reads, lost updates |
//! | `graph`, `cycles` | dependencies between transactions, and cycles in them |
//! | `exchange` | linearizability of compare exchange |

#![forbid(unsafe_code)]

mod anomaly;
mod cycles;
mod exchange;
mod graph;
mod history;
mod lists;
mod reads;
mod registers;
mod versions;

#[cfg(test)]
mod tests;

pub use crate::{
    anomaly::{Anomaly, Finding},
    exchange::{Exchange, ExchangeKind, Seen, check_exchanges},
    history::{NEVER, Outcome, Step, Transaction},
};

/// What is wrong with a history of lists that grow ([`Step::Append`], [`Step::List`]).
pub fn check_lists(history: &[Transaction]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let versions = lists::versions_of(history, &mut findings);
    check(history, &versions, findings)
}

/// What is wrong with a history of values that replace each other ([`Step::Write`],
/// [`Step::Value`]). The order of two values is known where a transaction read one and wrote the
/// other.
pub fn check_registers(history: &[Transaction]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let versions = registers::versions_of(history, &mut findings);
    check(history, &versions, findings)
}

fn check(
    history: &[Transaction],
    versions: &versions::Versions,
    mut findings: Vec<Finding>,
) -> Vec<Finding> {
    reads::check(history, versions, &mut findings);
    cycles::check(&graph::Graph::of(history, versions), &mut findings);
    findings
}
