//! What histories of many clients say about isolation: pure functions over what was asked and answered.
//!
//! After Elle (Kingsbury & Alvaro, 2020): values are written once, so what a read shows tells which
//! transaction wrote it, and lists that grow tell in which order. From that follows a graph of who
//! depends on whom, and a cycle in it is an anomaly with a name (Adya). Registers of compare exchange
//! carry the version that the server gave them; whether they are linearizable is decided by it.
//!
//! Used by tests and by `cargo xtask`, never by the server.
//!
//! | file | what |
//! |---|---|
//! | `history` | [`Transaction`], [`Step`]: what a client did, and what it was told |
//! | `anomaly` | [`Anomaly`], [`Finding`]: what can be wrong |
//! | `versions` | which versions a key had, who wrote them, who saw them |
//! | `lists`, `registers` | the versions of lists that grow, of values that replace each other |
//! | `reads` | what single transactions show: aborted, intermediate, fractured reads, lost updates |
//! | `graph`, `cycles` | who depends on whom, and cycles in it |
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
/// [`Step::Value`]). The order of two values is known where one transaction read the one and wrote the
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
