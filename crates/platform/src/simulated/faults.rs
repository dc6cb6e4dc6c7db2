//! Fault injection: the schedule of injected errors and of the power cut, the counters that select
//! operations, and the log of operations.

use std::{collections::VecDeque, fmt, io, path::Path, sync::Arc};

use rustix::io::Errno;

use crate::simulated::power::Survival;

/// Operations kept in the log; older ones are dropped.
const LOGGED_OPERATIONS_MAX: usize = 1000;

/// Kinds of operations, to select the ones that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Opening an existing file.
    Open,
    /// Reading from a file.
    Read,
    /// Loading bytes of a mapping before they are first touched. Later touches are not seen.
    Load,
    /// Writing to a file.
    Write,
    /// Syncing a file or a directory.
    Sync,
    /// Changing the length of a file or reserving space.
    Allocate,
    /// Creating a file, or one directory of a path.
    Create,
    /// Renaming.
    Rename,
    /// Removing a file or a directory tree.
    Remove,
}

/// Which operations of the disk a fault counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationFilter {
    /// All but loads: a load that fails concerns its reader alone, and is injected on purpose.
    Any,
    /// All but opening and reading: those at which the power can be cut.
    Mutating,
    /// Those of one kind.
    Only(OperationKind),
}

impl OperationFilter {
    fn matches(self, kind: OperationKind) -> bool {
        match self {
            Self::Any => kind != OperationKind::Load,
            Self::Mutating => {
                !matches!(kind, OperationKind::Open | OperationKind::Read | OperationKind::Load)
            }
            Self::Only(only) => only == kind,
        }
    }
}

/// The error of an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `EIO`: the device failed.
    InputOutput,
    /// `ENOSPC`, that is `StorageFull`.
    StorageFull,
}

impl FaultKind {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::InputOutput => Errno::IO.into(),
            Self::StorageFull => Errno::NOSPC.into(),
        }
    }
}

/// How long an injected fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSpan {
    /// For one operation.
    Once,
    /// For every matching operation from then on, even after a restart, until faults are cleared.
    UntilCleared,
}

/// The error of every operation from a power cut on, until the code under test starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerLost;

impl fmt::Display for PowerLost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("power lost")
    }
}

impl std::error::Error for PowerLost {}

/// Whether an error is [`PowerLost`], directly or as the source of another.
pub fn is_power_lost(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<PowerLost>() {
            return true;
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<PowerLost>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What happened to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Proceed,
    Fail(FaultKind),
    LosePower,
}

/// One operation in the disk's log.
#[derive(Clone, Debug)]
pub struct LoggedOperation {
    number: u64,
    description: Description,
    verdict: Verdict,
}

/// What an operation is about.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) kind: OperationKind,
    pub(super) name: &'static str,
    pub(super) path: Arc<Path>,
    /// Offset and length, or a length alone, where there is one.
    pub(super) offset: Option<u64>,
    pub(super) len: Option<u64>,
}

impl Description {
    pub(super) fn new(kind: OperationKind, name: &'static str, path: &Path) -> Self {
        Self { kind, name, path: path.into(), offset: None, len: None }
    }
}

impl fmt::Display for LoggedOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, path, offset, len, .. } = &self.description;
        write!(formatter, "{:>6} {name} {}", self.number, path.display())?;
        if let Some(offset) = offset {
            write!(formatter, " at {offset}")?;
        }
        if let Some(len) = len {
            write!(formatter, " of {len} bytes")?;
        }
        match self.verdict {
            Verdict::Proceed => Ok(()),
            Verdict::Fail(fault) => write!(formatter, " FAILS: {fault:?}"),
            Verdict::LosePower => formatter.write_str(" POWER LOST"),
        }
    }
}

/// A number of matching operations to wait for.
struct Countdown {
    filter: OperationFilter,
    left: u64,
}

impl Countdown {
    fn new(filter: OperationFilter, nth: u64) -> Self {
        assert!(nth > 0, "the next operation is the first one");
        Self { filter, left: nth }
    }

    /// Whether this operation is the one, or one after it.
    fn reached(&mut self, kind: OperationKind) -> bool {
        if self.filter.matches(kind) {
            self.left = self.left.saturating_sub(1);
            return self.left == 0;
        }
        false
    }
}

struct Fault {
    countdown: Countdown,
    kind: FaultKind,
    span: FaultSpan,
}

/// The faults to come, and the operations so far.
pub(super) struct Schedule {
    faults: Vec<Fault>,
    power_cut: Option<(Countdown, Survival)>,
    counts: [u64; OperationKind::Remove as usize + 1],
    log: VecDeque<LoggedOperation>,
}

impl Schedule {
    pub(super) fn empty() -> Self {
        Self {
            faults: Vec::new(),
            power_cut: None,
            counts: Default::default(),
            log: VecDeque::new(),
        }
    }

    pub(super) fn fail(
        &mut self,
        nth: u64,
        filter: OperationFilter,
        kind: FaultKind,
        span: FaultSpan,
    ) {
        self.faults.push(Fault { countdown: Countdown::new(filter, nth), kind, span });
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    pub(super) fn cut_power(&mut self, nth: u64, survival: Survival) {
        self.power_cut = Some((Countdown::new(OperationFilter::Mutating, nth), survival));
    }

    /// Removes and returns the scheduled power cut, whether it was reached or not.
    pub(super) fn take_power_cut(&mut self) -> Option<Survival> {
        self.power_cut.take().map(|(_, survival)| survival)
    }

    /// Counts and logs an operation and decides its outcome.
    pub(super) fn judge(&mut self, description: Description) -> Verdict {
        let kind = description.kind;
        self.counts[kind as usize] += 1;
        let verdict = self.verdict(kind);
        if self.log.len() == LOGGED_OPERATIONS_MAX {
            self.log.pop_front();
        }
        let number = self.count(OperationFilter::Any);
        self.log.push_back(LoggedOperation { number, description, verdict });
        verdict
    }

    fn verdict(&mut self, kind: OperationKind) -> Verdict {
        let mut failure = None;
        self.faults.retain_mut(|fault| {
            let strikes = fault.countdown.reached(kind);
            if strikes {
                failure = failure.or(Some(fault.kind));
            }
            !(strikes && fault.span == FaultSpan::Once)
        });
        if self.power_cut.as_mut().is_some_and(|(countdown, _)| countdown.reached(kind)) {
            return Verdict::LosePower;
        }
        failure.map_or(Verdict::Proceed, Verdict::Fail)
    }

    pub(super) fn count(&self, filter: OperationFilter) -> u64 {
        use OperationKind::{Allocate, Create, Load, Open, Read, Remove, Rename, Sync, Write};
        let kinds = [Open, Read, Load, Write, Sync, Allocate, Create, Rename, Remove];
        let matching = kinds.into_iter().filter(|kind| filter.matches(*kind));
        matching.map(|kind| self.counts[kind as usize]).sum()
    }

    pub(super) fn log(&self) -> Vec<LoggedOperation> {
        self.log.iter().cloned().collect()
    }
}
