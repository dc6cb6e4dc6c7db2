//! A history: what clients did and the responses they received, with start and end times.

/// The end of an operation without a known end.
pub const NEVER: u64 = u64::MAX;

/// The outcome of a transaction, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Committed,
    /// It was refused: nothing of it may be visible.
    Failed,
    /// Unknown: the response never arrived.
    Unknown,
}

/// A part of a transaction. Values are above 0 and written once per key; 0 is a key without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Puts a value at the end of a list.
    Append {
        /// The list.
        key: u64,
        /// What was put there.
        value: u64,
    },
    /// Reads a whole list.
    List {
        /// The list.
        key: u64,
        /// What was in it.
        values: Vec<u64>,
    },
    /// Replaces the value of a register.
    Write {
        /// The register.
        key: u64,
        /// Its new value.
        value: u64,
    },
    /// Reads a register.
    Value {
        /// The register.
        key: u64,
        /// Its value, or 0.
        value: u64,
    },
}

/// What one client did as a unit.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The process that ran it; each process is sequential.
    pub process: u32,
    /// When it began, on a clock that all processes share.
    pub began: u64,
    /// When the client knew the outcome; [`NEVER`] when it never did.
    pub ended: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// Its steps, in order. Reads of refused or unknown transactions are ignored.
    pub steps: Vec<Step>,
}

impl Transaction {
    /// Whether its reads count.
    pub(crate) fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }
}
