//! The minimum rate at which clients read responses and send bodies, and the one below which the
//! body of a request yields its memory, or its connection, to others that wait for it.
//!
//! Only the time counts in which the server waits for the client, so a busy server or a response
//! that takes long to produce is not held against the client.

use std::{pin::pin, sync::Arc, time::Duration};

use database::{Closing, DatabaseLease};
use settings::HttpSettings;
use tokio::time::{Instant, timeout};
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    database_access::unless_closed,
    http::{body_share::BodyShare, connection_watch::ConnectionWatch},
};

/// Minimum length of the interval over which the received bytes are counted, and how often a body that
/// is waited for may be asked for its connection.
const PART_MIN: Duration = Duration::from_secs(1);
/// A body that receives less than this in one interval yields its memory and its connection to others.
pub(crate) const YIELDING_BYTES: u64 = 16 << 10;

/// A minimum average of bytes per second, after a grace period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinDataRate {
    /// Zero when there is no minimum rate.
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

    /// How long a client may take for this many bytes.
    pub(crate) fn time_for(self, bytes: u64) -> Duration {
        let milliseconds = bytes.saturating_mul(1000).checked_div(self.bytes_per_second);
        milliseconds.map_or(Duration::MAX, |milliseconds| {
            self.grace.saturating_add(Duration::from_millis(milliseconds))
        })
    }
}

/// The progress of a request body.
pub(crate) struct BodyPace {
    rate: MinDataRate,
    /// How long the client may be silent.
    silence_max: Duration,
    connection: Arc<ConnectionWatch>,
    /// Of the database for which the body is intended.
    closing: Option<Closing>,
    bytes: u64,
    waited: Duration,
    /// What was received in the interval before the newest one.
    previous: Newest,
    /// What was received in the newest interval.
    newest: Newest,
}

/// An interval in which a body was waited for.
#[derive(Default)]
struct Newest {
    bytes: u64,
    waited: Duration,
}

impl BodyPace {
    /// Of a body that arrives on this connection.
    pub(crate) fn of(settings: &HttpSettings, connection: Arc<ConnectionWatch>) -> BodyPace {
        BodyPace {
            rate: MinDataRate::of(settings),
            silence_max: settings.idle_connection_timeout,
            connection,
            closing: None,
            bytes: 0,
            waited: Duration::ZERO,
            previous: Newest::default(),
            newest: Newest::default(),
        }
    }

    /// The rest of the body is not awaited once this database is being closed.
    pub(crate) fn until_closed(self, database: &DatabaseLease) -> BodyPace {
        BodyPace { closing: Some(Closing::of(database)), ..self }
    }

    /// Records bytes that have been received.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.newest.bytes = self.newest.bytes.saturating_add(bytes as u64);
    }

    /// Waits for the next piece of a body that has this share of the memory.
    ///
    /// # Errors
    ///
    /// 408 when the client is silent for too long, or too slow on average, or sends almost nothing
    /// while others wait for memory or for a connection. 503 when the database is being closed.
    pub(crate) async fn next<T>(
        &mut self,
        coming: impl Future<Output = T>,
        share: &BodyShare,
    ) -> Result<T, ApiError> {
        let mut coming = pin!(coming);
        let mut silence = Duration::ZERO;
        let part_max = self.rate.grace.max(PART_MIN);
        loop {
            let left = self.rate.time_for(self.bytes).saturating_sub(self.waited);
            let silence_left = self.silence_max.saturating_sub(silence);
            let part_left = part_max.saturating_sub(self.newest.waited);
            let wait_max = left.min(silence_left).min(part_left).min(PART_MIN);
            let began = Instant::now();
            let come = match &mut self.closing {
                None => timeout(wait_max, coming.as_mut()).await,
                Some(closing) => {
                    let come = unless_closed(closing, timeout(wait_max, coming.as_mut()));
                    come.await?
                }
            };
            let waited = began.elapsed();
            self.waited += waited;
            self.newest.waited += waited;
            silence += waited;
            match come {
                Ok(come) => return Ok(come),
                Err(_) if left <= waited => return Err(self.too_slow()),
                Err(_) if silence_left <= waited => return Err(silent(self.silence_max)),
                Err(_) if self.is_stalled() && self.connection.try_give_up_place() => {
                    return Err(yielded("a connection", &self.newest));
                }
                Err(_) if part_left <= waited => {
                    self.previous = std::mem::take(&mut self.newest);
                    if self.previous.bytes < YIELDING_BYTES && share.try_give_up() {
                        return Err(yielded("memory", &self.previous));
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Whether almost nothing has arrived for a while: in this interval and the one before.
    fn is_stalled(&self) -> bool {
        PART_MIN <= self.newest.waited && self.newest.bytes + self.previous.bytes < YIELDING_BYTES
    }

    fn too_slow(&self) -> ApiError {
        let message = format!(
            "Only {} bytes of the request's body arrived within {} seconds: that is less than {} bytes per \
             second (Http.MinDataRateBytesPerSec, after Http.MinDataRateGracePeriodInSec).",
            self.bytes,
            self.waited.as_secs(),
            self.rate.bytes_per_second
        );
        ApiError::new(ErrorKind::RequestTimeout, message)
    }
}

/// The error for a body that yields to others what they wait for.
fn yielded(wanted: &str, newest: &Newest) -> ApiError {
    let message = format!(
        "Other requests wait for {wanted}, and only {} bytes of this one's body arrived within {} seconds. \
         Try again later.",
        newest.bytes,
        newest.waited.as_secs()
    );
    ApiError::new(ErrorKind::RequestTimeout, message)
}

/// The error for a client that sends nothing of its request's body.
pub(crate) fn silent(silence_max: Duration) -> ApiError {
    let seconds = silence_max.as_secs();
    let message = format!("Nothing of the request's body arrived for {seconds} seconds");
    ApiError::new(ErrorKind::RequestTimeout, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use storage::MemoryBudget;

    use super::*;
    use crate::http::{body_share::BodyRoom, connection_limiter::ConnectionLimiter};

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
            let mut pace = pace_of(rate, silence_max);
            let share = BodyShare::none_in(room());
            assert!(pace.next(never(), &share).await.unwrap_err().message.contains("MinDataRate"));
            pace.received(1000);
            pace.next(async {}, &share).await.unwrap();
            let error = pace.next(never(), &share).await.unwrap_err();
            assert!(error.message.starts_with("Nothing"));
        });
    }

    #[test]
    fn a_body_of_which_next_to_nothing_comes_leaves_when_another_waits_for_its_memory() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let never = std::future::pending::<()>;
        let wanted = async |received: usize, asks: bool| {
            let room = room();
            let mut share = BodyShare::none_in(Arc::clone(&room));
            share.grow_when_there_is_room(ROOM_BYTES).await.unwrap();
            let rate = MinDataRate { bytes_per_second: 0, grace: Duration::ZERO };
            let mut pace = pace_of(rate, 4 * PART_MIN);
            pace.received(received);
            // The interval ends immediately, so that the test need not wait.
            pace.newest.waited = PART_MIN;
            let mut other = BodyShare::none_in(room);
            let asking = other.grow_when_there_is_room(ROOM_BYTES);
            let mut asking = pin!(asking);
            if asks {
                assert!(timeout(Duration::ZERO, asking.as_mut()).await.is_err());
            }
            timeout(Duration::from_millis(50), pace.next(never(), &share)).await.err().is_none()
        };
        runtime.block_on(async {
            assert!(wanted(0, true).await);
            assert!(!wanted(0, false).await, "no other body waits");
            assert!(!wanted(1 << 20, true).await, "it comes along");
        });
    }

    const ROOM_BYTES: u64 = 200 << 10;

    fn room() -> Arc<BodyRoom> {
        BodyRoom::new(MemoryBudget::new(ROOM_BYTES), MemoryBudget::new(0))
    }

    fn pace_of(rate: MinDataRate, silence_max: Duration) -> BodyPace {
        let connection = ConnectionWatch::new(Arc::new(ConnectionLimiter::new(1)));
        let (closing, bytes, waited, previous, newest) = Default::default();
        BodyPace { rate, silence_max, connection, closing, bytes, waited, previous, newest }
    }
}
