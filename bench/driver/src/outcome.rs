//! The outcome of one round of one work.

use std::time::Duration;

use hdrhistogram::Histogram;
use report::Better;

/// The precision of recorded latencies.
const SIGNIFICANT_DIGITS: u8 = 3;

/// One round.
pub(crate) struct Outcome {
    /// The number of documents or requests, whichever the work counts.
    pub(crate) operations: u64,
    /// The time from the first byte sent to the last response.
    pub(crate) elapsed: Duration,
    /// The latency of each request in nanoseconds; empty if one request is the whole round.
    pub(crate) latencies: Histogram<u64>,
    /// The server's processor time during `elapsed`.
    pub(crate) server_time: Duration,
    /// The processor time of the driver or its client program during `elapsed`.
    pub(crate) driver_time: Duration,
    /// The growth of the server's own memory, if the work measures it.
    pub(crate) memory_growth_megabytes: f64,
}

/// An empty histogram, which grows with what is recorded.
pub(crate) fn no_latencies() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_DIGITS).expect("so many digits are possible")
}

/// A figure that a work reports from its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// `<unit>/s`.
    Rate(&'static str),
    /// Milliseconds for each operation.
    MillisecondsEach,
    /// The percentile of the latencies, in milliseconds.
    LatencyPercentile(u8),
    /// Processor time of the server for each operation, in microseconds.
    ServerTimeEach,
    /// The same of the driver.
    DriverTimeEach,
    /// The same of the client program that the driver has started.
    ClientTimeEach,
    /// The highest memory of the server that is not backed by files during the work, minus its
    /// value before the first round.
    MemoryGrowth,
}

impl Figure {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Rate(unit) => format!("{unit}/s"),
            Self::MillisecondsEach => "ms each".to_owned(),
            Self::LatencyPercentile(percent) => format!("p{percent} ms"),
            Self::ServerTimeEach => "server CPU µs each".to_owned(),
            Self::DriverTimeEach => "driver CPU µs each".to_owned(),
            Self::ClientTimeEach => "client CPU µs each".to_owned(),
            Self::MemoryGrowth => "MB of memory added".to_owned(),
        }
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Self::Rate(_) => Better::More,
            Self::MillisecondsEach
            | Self::LatencyPercentile(_)
            | Self::ServerTimeEach
            | Self::MemoryGrowth => Better::Less,
            // The driver's own cost is not a result.
            Self::DriverTimeEach | Self::ClientTimeEach => Better::Neither,
        }
    }

    /// The figure of one round.
    pub(crate) fn of(self, outcome: &Outcome) -> f64 {
        let each = |time: Duration| time.as_secs_f64() / outcome.operations.max(1) as f64;
        match self {
            Self::Rate(_) => outcome.operations as f64 / outcome.elapsed.as_secs_f64(),
            Self::MillisecondsEach => each(outcome.elapsed) * 1e3,
            Self::LatencyPercentile(percent) => {
                outcome.latencies.value_at_percentile(f64::from(percent)) as f64 / 1e6
            }
            Self::ServerTimeEach => each(outcome.server_time) * 1e6,
            Self::DriverTimeEach | Self::ClientTimeEach => each(outcome.driver_time) * 1e6,
            Self::MemoryGrowth => outcome.memory_growth_megabytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_operation_and_per_second() {
        let mut latencies = no_latencies();
        for milliseconds in [9, 1, 2] {
            latencies += milliseconds * 1_000_000;
        }
        let outcome = Outcome {
            operations: 1_000,
            elapsed: Duration::from_secs(2),
            latencies,
            server_time: Duration::from_millis(30),
            driver_time: Duration::from_millis(5),
            memory_growth_megabytes: 7.0,
        };
        let cases = [
            (Figure::Rate("requests"), "requests/s", 500.0),
            (Figure::MillisecondsEach, "ms each", 2.0),
            (Figure::LatencyPercentile(50), "p50 ms", 2.0),
            (Figure::LatencyPercentile(99), "p99 ms", 9.0),
            (Figure::ServerTimeEach, "server CPU µs each", 30.0),
            (Figure::DriverTimeEach, "driver CPU µs each", 5.0),
            (Figure::ClientTimeEach, "client CPU µs each", 5.0),
            (Figure::MemoryGrowth, "MB of memory added", 7.0),
        ];
        for (figure, name, expected) in cases {
            assert_eq!(figure.name(), name);
            let (is, digits) = (figure.of(&outcome), 1e-3);
            assert!((is - expected).abs() <= expected * digits, "{name}: {is}");
        }
    }
}
