//! A source of messages that is polled at an interval.

use std::time::Duration;

use serde_json::Value;

use crate::feeds::gone::Gone;

/// How often a source is polled, unless it says otherwise.
const PULSE: Duration = Duration::from_secs(1);

/// What a feed sends (`pulse_feed`).
pub(crate) trait Pulse: Send + 'static {
    /// What to send now; all of it is in memory until the reader has read it.
    ///
    /// # Errors
    ///
    /// When the subject of the feed is gone.
    fn messages(&mut self) -> Result<Vec<Value>, Gone>;

    /// How often it is polled.
    fn interval(&self) -> Duration {
        PULSE
    }

    /// The reader has sent a text.
    fn hear(&mut self, _: &str) {}
}
