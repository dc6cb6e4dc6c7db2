//! Counts how often something happens: in total, on average, and recently.
//!
//! A meter counts the events of each of the last fifteen minutes' seconds, so a rate is exact for
//! its period and needs no background work. A meter that has never counted anything allocates no
//! slots.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The seconds of the longest rate, plus the one in progress.
const SLOTS: u64 = Meter::SECONDS_KEPT + 1;

/// Counts events; can be marked and read on any thread.
#[derive(Debug)]
pub struct Meter {
    state: Mutex<State>,
    /// A meter that also counts these events, along with those of other parts.
    whole: Option<Arc<Meter>>,
}

#[derive(Debug)]
struct State {
    began: Duration,
    count: u64,
    /// The newest second that has a slot, counted as the clock does.
    newest: u64,
    /// Events by second; the slot of a second is its number modulo [`SLOTS`]. Empty before the
    /// first event.
    slots: Vec<u64>,
}

/// The rates of a meter at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeterReading {
    /// Events since the meter began.
    pub count: u64,
    /// Events of the last second that is over.
    pub current: u64,
    /// Events per second since the meter began.
    pub mean: f64,
    /// Events per second in the last minute.
    pub one_minute: f64,
    /// Events per second in the last five minutes.
    pub five_minutes: f64,
    /// Events per second in the last fifteen minutes.
    pub fifteen_minutes: f64,
}

impl Meter {
    /// The seconds of the longest rate.
    pub const SECONDS_KEPT: u64 = 15 * 60;

    /// A meter that begins at this moment of the monotonic clock.
    pub fn new(now: Duration) -> Meter {
        let state = State { began: now, count: 0, newest: now.as_secs(), slots: Vec::new() };
        Meter { state: Mutex::new(state), whole: None }
    }

    /// A meter whose events are also counted by `whole`.
    pub fn part_of(whole: &Arc<Meter>, now: Duration) -> Meter {
        Meter { whole: Some(Arc::clone(whole)), ..Meter::new(now) }
    }

    /// Counts events that happen at a moment of the monotonic clock.
    pub fn mark(&self, now: Duration, events: u64) {
        if events == 0 {
            return;
        }
        let mut state = self.lock();
        state.advance(now);
        if state.slots.is_empty() {
            state.slots = vec![0; SLOTS as usize];
        }
        state.count = state.count.saturating_add(events);
        let slot = slot_of(state.newest);
        state.slots[slot] = state.slots[slot].saturating_add(events);
        drop(state);
        if let Some(whole) = &self.whole {
            whole.mark(now, events);
        }
    }

    /// The rates at a moment of the monotonic clock.
    pub fn read(&self, now: Duration) -> MeterReading {
        let mut state = self.lock();
        state.advance(now);
        let up_time = now.saturating_sub(state.began).as_secs_f64();
        let per_second = |seconds: u64| state.sum_of(seconds) as f64 / seconds as f64;
        MeterReading {
            count: state.count,
            current: state.sum_of(1),
            mean: if up_time == 0.0 { 0.0 } else { state.count as f64 / up_time },
            one_minute: per_second(60),
            five_minutes: per_second(300),
            fifteen_minutes: per_second(Meter::SECONDS_KEPT),
        }
    }

    /// The events of the last fifteen minutes: how many seconds ago, and how many; the newest first, without
    /// the seconds that had none.
    pub fn seconds(&self, now: Duration) -> Vec<(u64, u64)> {
        let mut state = self.lock();
        state.advance(now);
        let counted = (1..=Meter::SECONDS_KEPT).map(|ago| (ago, state.events_of(ago)));
        counted.filter(|(_, events)| *events != 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts stay valid even if a thread panicked while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes the slot of the current second the newest. A caller with an older moment, because
    /// another thread was faster, shares that slot.
    fn advance(&mut self, now: Duration) {
        let second = now.as_secs();
        let passed = second.saturating_sub(self.newest);
        if !self.slots.is_empty() {
            for empty in 0..passed.min(SLOTS) {
                self.slots[slot_of(second - empty)] = 0;
            }
        }
        self.newest += passed;
    }

    /// The events of the second that began `ago` seconds before the current one.
    fn events_of(&self, ago: u64) -> u64 {
        match self.newest.checked_sub(ago) {
            Some(second) => self.slots.get(slot_of(second)).copied().unwrap_or(0),
            None => 0,
        }
    }

    /// The events of the last seconds that are over.
    fn sum_of(&self, seconds: u64) -> u64 {
        (1..=seconds).map(|ago| self.events_of(ago)).sum()
    }
}

fn slot_of(second: u64) -> usize {
    (second % SLOTS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_rate_is_what_happened_in_its_time() {
        let meter = Meter::new(at(10_500));
        meter.mark(at(10_600), 30);
        meter.mark(at(11_999), 30);
        assert_eq!(
            meter.read(at(11_999)).current,
            30,
            "the second that is not over does not count"
        );
        let reading = meter.read(at(12_500));
        assert_eq!((reading.count, reading.current), (60, 30));
        assert_eq!((reading.mean, reading.one_minute, reading.five_minutes), (30.0, 1.0, 0.2));
        assert_eq!(meter.seconds(at(12_500)), [(1, 30), (2, 30)]);
        assert_eq!(meter.read(at(13_000)).current, 0);
        // The first second leaves the minute, then the second one does.
        assert_eq!(meter.read(at(71_000)).one_minute, 0.5);
        assert_eq!(meter.read(at(72_000)).one_minute, 0.0);
        assert_eq!(meter.read(at(910_000)).fifteen_minutes, 60.0 / 900.0);
        assert_eq!(meter.read(at(911_000)).fifteen_minutes, 30.0 / 900.0);
        let last = meter.read(at(912_000));
        assert_eq!((last.count, last.fifteen_minutes), (60, 0.0));
        assert_eq!(meter.seconds(at(912_000)), []);
    }

    #[test]
    fn seconds_without_events_are_empty_however_many_they_are() {
        let meter = Meter::new(at(0));
        for pause in [1, 59, 60, 899, 900, 901, 902, 5_000, 1_000_000] {
            meter.mark(at(0), 7);
            let before = meter.lock().newest * 1000;
            let after = meter.seconds(at(before + pause * 1000));
            assert_eq!(after, if pause <= 900 { vec![(pause, 7)] } else { vec![] }, "{pause}");
            meter.read(at(before + pause * 1000 + 2_000_000));
        }
    }

    #[test]
    fn the_whole_counts_what_its_parts_count() {
        let whole = Arc::new(Meter::new(at(0)));
        let parts = [Meter::part_of(&whole, at(0)), Meter::part_of(&whole, at(5_000))];
        parts[0].mark(at(5_000), 1);
        parts[1].mark(at(5_001), 2);
        // The events of a slow thread are not counted in a second that is over.
        parts[1].mark(at(4_000), 4);
        assert_eq!(whole.read(at(6_000)).count, 7);
        assert_eq!(whole.read(at(6_000)).current, 7);
        assert_eq!(parts[1].read(at(6_000)).mean, 6.0);
        assert_eq!(Meter::new(at(0)).read(at(0)), MeterReading::default());
    }
}
