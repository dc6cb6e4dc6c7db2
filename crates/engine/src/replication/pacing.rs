//! How old changes must be to be sent.
//!
//! Changes do not say when they were made; so this remembers up to where the log was at which time. What was there
//! before a link began counts as made when it began: a delay is never shorter than it should be.

use std::{collections::VecDeque, time::Duration};

use model::Etag;

/// Observations during one delay.
const OBSERVATIONS: u32 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Pacing {
    delay: Duration,
    /// Moments of the monotonic clock, and the last etag then.
    seen: VecDeque<(Duration, Etag)>,
    /// Everything up to here is old enough.
    due: Etag,
}

impl Pacing {
    pub(super) fn new(delay: Duration) -> Pacing {
        Pacing { delay, seen: VecDeque::new(), due: Etag::ZERO }
    }

    /// Notes where the log is now; returns up to where it may be sent, and after what time to look again if that is not
    /// all.
    pub(super) fn observe(&mut self, now: Duration, last: Etag) -> (Etag, Option<Duration>) {
        if self.delay.is_zero() {
            return (Etag(u64::MAX), None);
        }
        let interval = self.delay / OBSERVATIONS;
        let is_new = self
            .seen
            .back()
            .is_none_or(|(at, etag)| *etag < last && interval <= now.saturating_sub(*at));
        if is_new && self.due < last {
            self.seen.push_back((now, last));
        }
        while let Some((at, etag)) = self.seen.front()
            && self.delay <= now.saturating_sub(*at)
        {
            self.due = *etag;
            self.seen.pop_front();
        }
        let next = match self.seen.front() {
            Some((at, _)) => Some(at.saturating_add(self.delay).saturating_sub(now)),
            None if self.due < last => Some(interval),
            None => None,
        };
        (self.due, next.map(|next| next.max(Duration::from_millis(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_before_its_time_and_everything_is_after() {
        let seconds = Duration::from_secs;
        let mut pacing = Pacing::new(seconds(64));
        assert_eq!(pacing.observe(seconds(0), Etag(5)), (Etag::ZERO, Some(seconds(64))));
        assert_eq!(pacing.observe(seconds(10), Etag(7)), (Etag::ZERO, Some(seconds(54))));
        assert_eq!(pacing.observe(seconds(63), Etag(7)), (Etag::ZERO, Some(seconds(1))));
        assert_eq!(pacing.observe(seconds(64), Etag(7)), (Etag(5), Some(seconds(10))));
        assert_eq!(pacing.observe(seconds(80), Etag(7)), (Etag(7), None));
        assert_eq!(pacing.observe(seconds(90), Etag(8)), (Etag(7), Some(seconds(64))));
    }

    #[test]
    fn without_a_delay_everything_is_sent() {
        assert_eq!(
            Pacing::new(Duration::ZERO).observe(Duration::ZERO, Etag(5)),
            (Etag(u64::MAX), None)
        );
    }

    #[test]
    fn what_is_written_all_the_time_is_sent_in_time() {
        let mut pacing = Pacing::new(Duration::from_secs(64));
        for second in 0..1000 {
            let (due, _) = pacing.observe(Duration::from_secs(second), Etag(second));
            assert!(due.0 <= second.saturating_sub(64));
            assert!(second.saturating_sub(66) <= due.0, "{due:?} at {second}");
        }
    }
}
