//! How busy the processors are: with this process, and with everything.
//!
//! The system counts the time that was worked; a share is what was worked between two looks.

use std::{
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Shorter spans tell nothing: the system counts in hundredths of a second.
const SPAN_MIN: Duration = Duration::from_millis(500);
/// The unit in which the system counts.
const TICK: Duration = Duration::from_millis(10);

/// The time that this process has worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProcessTimes {
    /// For itself.
    pub(crate) user: Duration,
    /// In the system, for this process.
    pub(crate) system: Duration,
}

/// Shares of all processors, in percent.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) process: f64,
    pub(crate) machine: f64,
}

/// Measures shares, for all who ask together.
#[derive(Default)]
pub(crate) struct ProcessorLoad {
    last: Mutex<Option<Look>>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Duration,
    counts: Counts,
    shares: Shares,
}

/// Ticks since the system began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    process: u64,
    busy: u64,
    all: u64,
}

impl ProcessorLoad {
    /// The shares of late. The first one who asks hears of all the time since the machine began.
    pub(crate) fn shares(&self, now: Duration) -> Shares {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = *last
            && now.saturating_sub(look.at) < SPAN_MIN
        {
            return look.shares;
        }
        let counts = Counts::now();
        let before = last.map_or(Counts::default(), |look| look.counts);
        let shares = counts.since(before);
        *last = Some(Look { at: now, counts, shares });
        shares
    }
}

impl Counts {
    /// The kernel's own files are not data: they do not go through the disk of the platform.
    fn now() -> Counts {
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (busy, all) = machine_ticks(&machine);
        let (user, system) = own_ticks();
        Counts { process: user + system, busy, all }
    }

    fn since(self, before: Counts) -> Shares {
        let all = self.all.saturating_sub(before.all);
        let share = |now: u64, before: u64| match all {
            0 => 0.0,
            all => 100.0 * now.saturating_sub(before).min(all) as f64 / all as f64,
        };
        Shares {
            process: share(self.process, before.process),
            machine: share(self.busy, before.busy),
        }
    }
}

/// The time that this process has worked since it began.
pub(crate) fn process_times() -> ProcessTimes {
    let (user, system) = own_ticks();
    let time = |ticks: u64| TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    ProcessTimes { user: time(user), system: time(system) }
}

fn own_ticks() -> (u64, u64) {
    process_ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// Ticks of `/proc/self/stat`, for itself and in the system.
fn process_ticks(stat: &str) -> (u64, u64) {
    // The name of the program, in parentheses, may have anything in it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
    (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
}

/// Ticks of all processors in `/proc/stat`: those with work, and all.
fn machine_ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    // user, nice, system, idle, waiting for a disk, interrupts, stolen; what guests take is counted in user.
    let numbers = line.unwrap_or("").split_whitespace().take(8);
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap_or(0)).collect();
    let all: u64 = numbers.iter().sum();
    let idle: u64 = numbers.iter().skip(3).take(2).sum();
    (all - idle, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_the_systems_files() {
        let stat = "cpu  10 1 20 60 5 2 1 1 99 0\ncpu0 1 2 3\n";
        assert_eq!(machine_ticks(stat), (35, 100));
        assert_eq!(machine_ticks(""), (0, 0));
        let own = "7 (a) b) S 1 1 1 0 -1 4 9 0 0 0 250 50 0 0 20 0";
        assert_eq!(process_ticks(own), (250, 50));
        assert_eq!(process_ticks("nonsense"), (0, 0));
    }

    #[test]
    fn shares_are_those_of_the_time_between() {
        let before = Counts { process: 100, busy: 500, all: 1000 };
        let after = Counts { process: 150, busy: 600, all: 1200 };
        assert_eq!(after.since(before), Shares { process: 25.0, machine: 50.0 });
        assert_eq!(before.since(before), Shares::default());
    }

    #[test]
    fn those_who_ask_soon_after_hear_the_same() {
        let load = ProcessorLoad::default();
        let first = load.shares(Duration::from_secs(10));
        assert_eq!(load.shares(Duration::from_millis(10_400)), first);
    }
}
