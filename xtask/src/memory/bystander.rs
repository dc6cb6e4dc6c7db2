//! A client that is independent of the steps: reads and writes small documents of the other
//! databases in turn, and measures the latency of each.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::{stage::Stage, stores};
use crate::{Failure, http_client::HttpClient};

/// The pause between two requests, so that it adds no load of its own.
const PAUSE: Duration = Duration::from_millis(20);
/// One request in this many is a write.
const WRITES_EVERY: usize = 4;

/// The measured latencies.
pub(super) struct Bystander {
    /// From the shortest to the longest.
    waits: Vec<Duration>,
    refused: usize,
}

impl Bystander {
    /// Sends requests until that moment.
    pub(super) fn watch(stage: &Stage, end: Instant) -> Result<Bystander, Failure> {
        let mut client = HttpClient::connect(&stage.url)?;
        let mut found = Bystander { waits: Vec::new(), refused: 0 };
        for number in 0.. {
            if Instant::now() >= end {
                break;
            }
            let database = stores::name_of_many(number as u64);
            let began = Instant::now();
            let answer = match number % WRITES_EVERY {
                0 => {
                    let path = format!("/databases/{database}/docs?id=bystanders/1");
                    client.send("PUT", &path, format!(r#"{{"Number":{number}}}"#).as_bytes())?
                }
                _ => client.send("GET", &format!("/databases/{database}/docs?id=users/1"), b"")?,
            };
            found.waits.push(began.elapsed());
            match answer.status {
                200..=299 => {}
                _ if stage.is_refusal(&answer) => found.refused += 1,
                _ => return Err(format!("{database}: {}", answer.described()).into()),
            }
            std::thread::sleep(PAUSE);
        }
        found.waits.sort_unstable();
        Ok(found)
    }

    /// The 99th percentile.
    pub(super) fn p99(&self) -> Duration {
        self.part(99)
    }

    fn part(&self, percent: usize) -> Duration {
        let index = (self.waits.len() * percent / 100).min(self.waits.len().saturating_sub(1));
        self.waits.get(index).copied().unwrap_or_default()
    }
}

impl fmt::Display for Bystander {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (half, p99, longest) = (self.part(50), self.p99(), self.part(100));
        write!(
            f,
            "small requests to other databases: {}, of which {} were refused; half within {half:.1?}, \
             99 of 100 within {p99:.1?}, the longest {longest:.1?}",
            self.waits.len(),
            self.refused
        )
    }
}
