//! Processor time used, by this process and in total, and the processors this process may use.
//!
//! Times only grow; a load is the difference between two readings.

use std::{fs, io, time::Duration};

/// Processor time used by this process since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessTimes {
    /// Time spent in user code.
    pub user: Duration,
    /// In the kernel, on its behalf.
    pub system: Duration,
}

/// The time of all processors together since the machine began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MachineTimes {
    /// Time during which processors were busy.
    pub busy: Duration,
    /// Busy and idle time together.
    pub all: Duration,
}

/// Processor time used by this process.
///
/// # Errors
/// When the system does not report it.
pub fn process_times() -> io::Result<ProcessTimes> {
    let (user, system) = process_ticks(&fs::read_to_string("/proc/self/stat")?)?;
    Ok(ProcessTimes { user: of_ticks(user), system: of_ticks(system) })
}

/// Processor time of the machine.
///
/// # Errors
/// When the system does not report it.
pub fn machine_times() -> io::Result<MachineTimes> {
    let (busy, all) = machine_ticks(&fs::read_to_string("/proc/stat")?)?;
    Ok(MachineTimes { busy: of_ticks(busy), all: of_ticks(all) })
}

/// The processors that this process may run on, one bit for each of the first 64.
///
/// # Errors
/// When the system does not report it.
pub fn allowed_processors() -> io::Result<u64> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    Ok((0..64).filter(|number| allowed.is_set(*number)).fold(0, |mask, number| mask | 1 << number))
}

fn of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let rest = ticks % per_second * 1_000_000_000 / per_second;
    Duration::from_secs(ticks / per_second) + Duration::from_nanos(rest)
}

/// Ticks of `/proc/self/stat`, in user code and in the kernel.
fn process_ticks(stat: &str) -> io::Result<(u64, u64)> {
    // The name of the program, in parentheses, may have anything in it.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(unreadable)?;
    let mut fields = fields.split_whitespace().skip(11).map(number);
    let mut next = || fields.next().unwrap_or_else(|| Err(unreadable()));
    Ok((next()?, next()?))
}

/// Ticks of all processors in `/proc/stat`: busy, and in total.
fn machine_ticks(stat: &str) -> io::Result<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).ok_or_else(unreadable)?;
    // user, nice, system, idle, waiting for a disk, interrupts, stolen; what guests take is counted in user.
    let numbers: Vec<u64> =
        line.split_whitespace().take(8).map(number).collect::<io::Result<_>>()?;
    let all: u64 = numbers.iter().sum();
    let idle: u64 = numbers.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}

fn number(field: &str) -> io::Result<u64> {
    field.parse().map_err(|_| unreadable())
}

fn unreadable() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_in_the_systems_files() {
        let stat = "cpu  10 1 20 60 5 2 1 1 99 0\ncpu0 1 2 3\n";
        assert_eq!(machine_ticks(stat).unwrap(), (35, 100));
        let own = "7 (a) b) S 1 1 1 0 -1 4 9 0 0 0 250 50 0 0 20 0";
        assert_eq!(process_ticks(own).unwrap(), (250, 50));
        for nonsense in ["", "nonsense", "7 (a) S 1", "7 (a) S 1 1 1 0 -1 4 9 0 0 0 x y"] {
            assert!(process_ticks(nonsense).is_err(), "{nonsense}");
            assert!(machine_ticks(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_process_that_works_has_worked_longer() {
        let before = process_times().unwrap();
        while process_times().unwrap() == before {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
        let machine = machine_times().unwrap();
        assert!(machine.busy <= machine.all && Duration::ZERO < machine.busy);
        assert_ne!(allowed_processors().unwrap(), 0);
    }
}
