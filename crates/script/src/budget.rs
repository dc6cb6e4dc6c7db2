//! Limits on a script's run: steps and time, counted by the engine's interrupt handler.
//!
//! Memory and recursion are bounded by the engine itself (see `engine`). Invariant: once a meter
//! has requested a stop it keeps doing so until the next run begins, so that a script stopped
//! inside a builtin cannot continue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Clock;

use crate::error::Exhausted;

/// Calls and loop iterations between two questions of the engine (`JS_INTERRUPT_COUNTER_INIT` of the
/// patched QuickJS).
const STEPS_PER_QUESTION: u64 = 10;

/// Default limit on the statements that a script may execute per call.
pub const STEPS_MAX_DEFAULT: u64 = 10_000;

/// What one step of the limit allows. The engine counts calls (builtins included) and loop
/// iterations, not statements; a statement of common scripts has fewer than this many of them, so
/// that scripts within RavenDB's limit run here, too.
const ACTIONS_PER_STEP: u64 = 4;

/// Default limit on the time of one run of a script.
pub const TIME_MAX_DEFAULT: Duration = Duration::from_secs(10);

/// Default limit on the size of a result, in bytes.
pub const RESULT_BYTES_MAX_DEFAULT: u64 = 64 << 20;

thread_local! {
    /// Of the script that runs on this thread.
    static CURRENT: RefCell<Option<Rc<Meter>>> = const { RefCell::new(None) };
}

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Statements, roughly: the engine stops after four times as many calls and loop iterations.
    pub steps_max: u64,
    /// Time on the clock.
    pub time_max: Duration,
    /// Bytes that each result may have as JSON, about.
    pub result_bytes_max: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            steps_max: STEPS_MAX_DEFAULT,
            time_max: TIME_MAX_DEFAULT,
            result_bytes_max: RESULT_BYTES_MAX_DEFAULT,
        }
    }
}

/// Counts what one run uses.
pub(crate) struct Meter {
    clock: Arc<dyn Clock>,
    budget: Cell<Budget>,
    actions: Cell<u64>,
    deadline: Cell<Duration>,
    exhausted: Cell<Option<Exhausted>>,
}

impl Meter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Meter {
        Meter {
            clock,
            budget: Cell::new(Budget::default()),
            actions: Cell::new(0),
            deadline: Cell::new(Duration::MAX),
            exhausted: Cell::new(None),
        }
    }

    /// The meter of the script that runs on this thread.
    pub(crate) fn current() -> Option<Rc<Meter>> {
        CURRENT.with_borrow(Option::clone)
    }

    /// Does `work` as part of a run that this meter measures.
    pub(crate) fn measure<R>(self: &Rc<Self>, work: impl FnOnce() -> R) -> R {
        let outer = CURRENT.replace(Some(Rc::clone(self)));
        let done = work();
        CURRENT.set(outer);
        done
    }

    /// Whether a result of that many bytes has to be abandoned because it is too large or time is
    /// up.
    pub(crate) fn must_stop_at(&self, result_bytes: u64) -> bool {
        let bytes_max = self.budget.get().result_bytes_max;
        if self.exhausted.get().is_none() && bytes_max < result_bytes {
            self.exhausted.set(Some(Exhausted::Result(bytes_max)));
        }
        self.is_late()
    }

    /// Whether a bound was hit, or the time is over.
    fn is_late(&self) -> bool {
        if self.exhausted.get().is_none() && self.deadline.get() < self.clock.monotonic() {
            let time_max = self.budget.get().time_max;
            let millis = u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX);
            self.exhausted.set(Some(Exhausted::Time(millis)));
        }
        self.exhausted.get().is_some()
    }

    /// Begins a run.
    pub(crate) fn start(&self, budget: Budget) {
        self.budget.set(budget);
        self.actions.set(0);
        self.deadline.set(self.clock.monotonic().saturating_add(budget.time_max));
        self.exhausted.set(None);
    }

    /// Whether the script has to stop; called by the engine every few steps.
    pub(crate) fn must_stop(&self) -> bool {
        if self.exhausted.get().is_some() {
            return true;
        }
        let actions = self.actions.get() + STEPS_PER_QUESTION;
        self.actions.set(actions);
        let budget = self.budget.get();
        if actions > budget.steps_max.saturating_mul(ACTIONS_PER_STEP) {
            self.exhausted.set(Some(Exhausted::Steps(budget.steps_max)));
        }
        self.is_late()
    }

    /// The bound that stopped the run, if one did.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted.get()
    }
}
