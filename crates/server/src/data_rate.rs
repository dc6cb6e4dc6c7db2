//! The least rate at which clients take answers and send bodies.
//!
//! Only the time counts in which the server waits for the client. So a server that is busy, or an answer
//! that takes long to be made, is nobody's fault here.

use std::time::Duration;

use settings::HttpSettings;
use tokio::time::{Instant, timeout};
use wire::{ErrorKind, ProtocolError};

/// Bytes in a second, on the whole, after a time of grace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinDataRate {
    /// None when there is no least rate.
    pub(crate) bytes_per_second: u64,
    pub(crate) grace: Duration,
}

impl MinDataRate {
    pub(crate) fn of(settings: &HttpSettings) -> MinDataRate {
        MinDataRate {
            bytes_per_second: settings.data_rate_min,
            grace: settings.data_rate_grace_period,
        }
    }

    /// How long a client may take for so many bytes.
    pub(crate) fn time_for(self, bytes: u64) -> Duration {
        let milliseconds = bytes.saturating_mul(1000).checked_div(self.bytes_per_second);
        milliseconds.map_or(Duration::MAX, |milliseconds| {
            self.grace.saturating_add(Duration::from_millis(milliseconds))
        })
    }
}

/// How a body of a request comes along.
pub(crate) struct BodyPace {
    rate: MinDataRate,
    /// How long the client may be silent.
    silence_max: Duration,
    bytes: u64,
    waited: Duration,
}

impl BodyPace {
    pub(crate) fn of(settings: &HttpSettings) -> BodyPace {
        BodyPace {
            rate: MinDataRate::of(settings),
            silence_max: settings.idle_connection_timeout,
            bytes: 0,
            waited: Duration::ZERO,
        }
    }

    /// So many bytes more have come.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// 408 when the client is silent for too long, or too slow on the whole.
    pub(crate) async fn next<T>(
        &mut self,
        coming: impl Future<Output = T>,
    ) -> Result<T, ProtocolError> {
        let left = self.rate.time_for(self.bytes).saturating_sub(self.waited);
        let began = Instant::now();
        let come = timeout(left.min(self.silence_max), coming).await;
        self.waited += began.elapsed();
        come.map_err(|_| match left < self.silence_max {
            true => self.too_slow(),
            false => silent(self.silence_max),
        })
    }

    fn too_slow(&self) -> ProtocolError {
        let message = format!(
            "Only {} bytes of the request's body arrived within {} seconds: that is less than {} bytes per \
             second (Http.MinDataRateBytesPerSec, after Http.MinDataRateGracePeriodInSec).",
            self.bytes,
            self.waited.as_secs(),
            self.rate.bytes_per_second
        );
        ProtocolError::new(ErrorKind::RequestTimeout, message)
    }
}

/// The error for a client that sends nothing of its request's body.
pub(crate) fn silent(silence_max: Duration) -> ProtocolError {
    let seconds = silence_max.as_secs();
    let message = format!("Nothing of the request's body arrived for {seconds} seconds");
    ProtocolError::new(ErrorKind::RequestTimeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_bytes_grows_with_them_and_has_no_end_without_a_rate() {
        let rate = MinDataRate { bytes_per_second: 200, grace: Duration::from_secs(5) };
        assert_eq!(rate.time_for(0), Duration::from_secs(5));
        assert_eq!(rate.time_for(100), Duration::from_millis(5500));
        assert_eq!(rate.time_for(u64::MAX), rate.time_for(u64::MAX - 1));
        let none = MinDataRate { bytes_per_second: 0, ..rate };
        assert_eq!(none.time_for(0), Duration::MAX);
    }

    #[test]
    fn a_body_is_too_slow_or_silent_whichever_comes_first() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let never = std::future::pending::<()>;
        runtime.block_on(async {
            let rate = MinDataRate { bytes_per_second: 1, grace: Duration::ZERO };
            let silence_max = Duration::from_millis(1);
            let mut pace = BodyPace { rate, silence_max, bytes: 0, waited: Duration::ZERO };
            assert!(pace.next(never()).await.unwrap_err().message.contains("MinDataRate"));
            pace.received(1000);
            pace.next(async {}).await.unwrap();
            assert!(pace.next(never()).await.unwrap_err().message.starts_with("Nothing"));
        });
    }
}
