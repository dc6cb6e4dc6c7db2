//! Bounds of a script's run: steps and time, counted by the engine's interrupt handler.
//!
//! Memory and recursion are bounded by the engine itself (see `engine`). Invariant: once a meter has
//! said stop it says so until the next run begins, so that a script which is stopped inside of a builtin
//! cannot go on.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use platform::Clock;

use crate::error::Exhausted;

/// Calls and loop iterations between two questions of the engine (`JS_INTERRUPT_COUNTER_INIT` of the
/// patched QuickJS).
const STEPS_PER_QUESTION: u64 = 10;

/// How many statements a script may execute per call if nobody says otherwise.
pub const STEPS_MAX_DEFAULT: u64 = 10_000;

/// What one step of the limit allows. The engine counts calls (builtins included) and loop iterations,
/// not statements; a statement of common scripts has fewer than this many of them, so that what ran
/// within the limit elsewhere runs here.
const ACTIONS_PER_STEP: u64 = 4;

/// How long one run of a script may take if nobody says otherwise.
pub const TIME_MAX_DEFAULT: Duration = Duration::from_secs(10);

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Statements, roughly: the engine stops after four times as many calls and loop iterations.
    pub steps_max: u64,
    /// Time on the clock.
    pub time_max: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { steps_max: STEPS_MAX_DEFAULT, time_max: TIME_MAX_DEFAULT }
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

    /// Begins a run.
    pub(crate) fn start(&self, budget: Budget) {
        self.budget.set(budget);
        self.actions.set(0);
        self.deadline.set(self.clock.monotonic().saturating_add(budget.time_max));
        self.exhausted.set(None);
    }

    /// Whether the script has to stop; asked by the engine every few steps.
    pub(crate) fn must_stop(&self) -> bool {
        if self.exhausted.get().is_some() {
            return true;
        }
        let actions = self.actions.get() + STEPS_PER_QUESTION;
        self.actions.set(actions);
        let budget = self.budget.get();
        if actions > budget.steps_max.saturating_mul(ACTIONS_PER_STEP) {
            self.exhausted.set(Some(Exhausted::Steps(budget.steps_max)));
        } else if self.clock.monotonic() > self.deadline.get() {
            let millis = u64::try_from(budget.time_max.as_millis()).unwrap_or(u64::MAX);
            self.exhausted.set(Some(Exhausted::Time(millis)));
        }
        self.exhausted.get().is_some()
    }

    /// The bound that stopped the run, if one did.
    pub(crate) fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted.get()
    }
}
