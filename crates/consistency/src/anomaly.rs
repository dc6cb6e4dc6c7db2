//! The anomalies that are distinguished, with their names in the literature.

use std::fmt;

/// What can be wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Anomaly {
    /// G0, dirty write: the writes of two transactions are in opposite orders.
    G0,
    /// G1a, aborted read: a value of a transaction that was refused.
    G1a,
    /// G1b, intermediate read: a value that its transaction wrote over.
    G1b,
    /// G1c: information flows in a circle.
    G1c,
    /// G-single, read skew: a cycle with one anti-dependency.
    GSingle,
    /// G2, such as write skew: a cycle with several anti-dependencies.
    G2,
    /// A cycle only with real-time or process order: a stale value was read, or an acknowledged
    /// write was lost.
    Realtime(&'static str),
    /// Two transactions read the same version of a key and both replaced it.
    LostUpdate,
    /// A transaction shows one write of another and misses a second one.
    FracturedRead,
    /// A transaction contradicts itself: it reads a key twice and differently, or misses its own write.
    Internal,
    /// A value that was never written.
    Garbage,
    /// A value twice in one list.
    Duplicate,
    /// Two reads of a list of which neither is a prefix of the other.
    IncompatibleOrder,
    /// The versions of a register follow each other in a circle.
    CyclicVersions,
    /// No order of the calls of compare exchange explains their answers.
    NotLinearizable,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::G0 => out.write_str("G0"),
            Anomaly::G1a => out.write_str("G1a"),
            Anomaly::G1b => out.write_str("G1b"),
            Anomaly::G1c => out.write_str("G1c"),
            Anomaly::GSingle => out.write_str("G-single"),
            Anomaly::G2 => out.write_str("G2"),
            Anomaly::Realtime(of) => write!(out, "{of}-realtime"),
            Anomaly::LostUpdate => out.write_str("lost update"),
            Anomaly::FracturedRead => out.write_str("fractured read"),
            Anomaly::Internal => out.write_str("internal"),
            Anomaly::Garbage => out.write_str("garbage read"),
            Anomaly::Duplicate => out.write_str("duplicate elements"),
            Anomaly::IncompatibleOrder => out.write_str("incompatible order"),
            Anomaly::CyclicVersions => out.write_str("cyclic versions"),
            Anomaly::NotLinearizable => out.write_str("not linearizable"),
        }
    }
}

/// One anomaly that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub anomaly: Anomaly,
    /// The transactions that show it, by their places in the history; a cycle in its order.
    pub transactions: Vec<usize>,
    /// What is wrong, in words.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(anomaly: Anomaly, transactions: Vec<usize>, detail: String) -> Finding {
        Finding { anomaly, transactions, detail }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} {:?}", self.anomaly, self.detail, self.transactions)
    }
}
