//! The duration of the stages of a query, for `include timings()`.
//!
//! The stages follow each other, so their durations add up to the total.

use std::time::Duration;

use serde_json::{Value, json};

/// The moments at which the stages of a query ended, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryTimings {
    /// The index was chosen; absent where the query names it.
    pub(crate) chosen: Option<Duration>,
    /// The index had caught up, or waiting for it had ended; absent without an index.
    pub(crate) caught_up: Option<Duration>,
    /// The rows were found.
    pub(crate) found: Option<Duration>,
}

impl QueryTimings {
    /// The stages of a query that began and ended at these moments, in the protocol's form.
    pub(crate) fn shape(&self, began: Duration, ended: Duration) -> Value {
        let chosen = self.chosen.unwrap_or(began);
        let caught_up = self.caught_up.unwrap_or(chosen);
        let found = self.found.unwrap_or(caught_up);
        let leaf = |from: Duration, to: Duration| json!({"DurationInMs": milliseconds(from, to), "Timings": null});
        let mut query = json!({"Retriever": leaf(found, ended)});
        if self.caught_up.is_some() {
            query["Search"] = leaf(caught_up, found);
        }
        let mut stages = json!({});
        if self.chosen.is_some() {
            stages["Optimizer"] = leaf(began, chosen);
        }
        stages["Query"] = json!({"DurationInMs": milliseconds(caught_up, ended), "Timings": query});
        if self.caught_up.is_some() {
            stages["Staleness"] = leaf(chosen, caught_up);
        }
        json!({"DurationInMs": milliseconds(began, ended), "Timings": stages})
    }
}

/// Rounded up: everything took some time.
pub(crate) fn milliseconds(from: Duration, to: Duration) -> u64 {
    let micros = to.saturating_sub(from).as_micros();
    u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other() {
        let at = Duration::from_millis;
        let timings =
            QueryTimings { chosen: Some(at(13)), caught_up: Some(at(20)), found: Some(at(50)) };
        let leaf = |duration: u64| json!({"DurationInMs": duration, "Timings": null});
        let query = json!({"Retriever": leaf(100), "Search": leaf(30)});
        let stages = json!({
            "Optimizer": leaf(3), "Query": {"DurationInMs": 130, "Timings": query},
            "Staleness": leaf(7)
        });
        let whole = json!({"DurationInMs": 140, "Timings": stages});
        assert_eq!(timings.shape(at(10), at(150)), whole);
        let of_collection = QueryTimings::default().shape(Duration::ZERO, Duration::from_micros(1));
        let query = json!({"DurationInMs": 1, "Timings": {"Retriever": leaf(1)}});
        assert_eq!(of_collection, json!({"DurationInMs": 1, "Timings": {"Query": query}}));
    }
}
