//! The load of the processors: by this process, and in total.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use platform::processor_time::{machine_times, process_times};

/// Shorter intervals are meaningless: the system counts in hundredths of a second.
const SPAN_MIN: Duration = Duration::from_millis(500);

/// Fractions of all processors, in percent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) process: f64,
    pub(crate) machine: f64,
}

/// Measures the load, for all readers together.
pub(crate) struct ProcessorLoad {
    last: Mutex<Look>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Duration,
    worked: Worked,
    /// Between the previous measurement and this one.
    shares: Shares,
}

/// The processor time so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Worked {
    process: Duration,
    busy: Duration,
    all: Duration,
}

impl ProcessorLoad {
    /// Takes the first measurement.
    pub(crate) fn begin(now: Duration) -> ProcessorLoad {
        let look = Look { at: now, worked: Worked::until_now(), shares: Shares::default() };
        ProcessorLoad { last: Mutex::new(look) }
    }

    /// The load since the last measurement, or its result if it was just taken.
    pub(crate) fn shares(&self, now: Duration) -> Shares {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if SPAN_MIN <= now.saturating_sub(last.at) {
            let worked = Worked::until_now();
            *last = Look { at: now, worked, shares: worked.since(last.worked) };
        }
        last.shares
    }
}

impl Worked {
    /// Unknown values count as zero: a dashboard shows no load then.
    fn until_now() -> Worked {
        let (process, machine) =
            (process_times().unwrap_or_default(), machine_times().unwrap_or_default());
        Worked { process: process.user + process.system, busy: machine.busy, all: machine.all }
    }

    fn since(self, before: Worked) -> Shares {
        let all = self.all.saturating_sub(before.all);
        let share = |now: Duration, before: Duration| match all.is_zero() {
            true => 0.0,
            false => 100.0 * now.saturating_sub(before).min(all).div_duration_f64(all),
        };
        Shares {
            process: share(self.process, before.process),
            machine: share(self.busy, before.busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_time_between() {
        let worked = |process, busy, all| {
            let [process, busy, all] = [process, busy, all].map(Duration::from_secs);
            Worked { process, busy, all }
        };
        let (before, after) = (worked(100, 500, 1000), worked(150, 600, 1200));
        assert_eq!(after.since(before), Shares { process: 25.0, machine: 50.0 });
        assert_eq!(before.since(before), Shares::default());
    }

    #[test]
    fn those_who_ask_soon_after_are_shown_the_same() {
        let load = ProcessorLoad::begin(Duration::from_secs(10));
        assert_eq!(load.shares(Duration::from_millis(10_400)), Shares::default());
        let later = load.shares(Duration::from_secs(11));
        assert_eq!(load.shares(Duration::from_millis(11_400)), later);
    }
}
