//! A history: what clients did and what they were told, with the times at which they began and ended.

/// The end of what has no known end.
pub const NEVER: u64 = u64::MAX;

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged.
    Committed,
    /// It was refused: nothing of it may be seen.
    Failed,
    /// Nobody knows: the answer never came.
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
    /// Who did it; each process does one thing after the other.
    pub process: u32,
    /// When it began, on a clock that all processes share.
    pub began: u64,
    /// When the client knew the outcome; [`NEVER`] when it never did.
    pub ended: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// What it did, in its order. Reads of what was refused or is unknown say nothing.
    pub steps: Vec<Step>,
}

impl Transaction {
    /// Whether what it read counts.
    pub(crate) fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }
}
