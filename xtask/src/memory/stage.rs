//! Shared by the steps of the drill: the server's address, and requests that may be rejected for
//! lack of memory.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde_json::Value;

use crate::{
    Failure,
    http_client::{Answer, HttpClient},
};

/// How often a request that is rejected for lack of memory is retried, and with what pause.
const TRIES: u64 = 200;
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The server of the drill.
pub(super) struct Stage {
    pub(super) url: String,
    refused: AtomicU64,
}

impl Stage {
    pub(super) fn new(url: &str) -> Stage {
        Stage { url: url.to_owned(), refused: AtomicU64::new(0) }
    }

    /// The number of requests that were rejected for lack of memory.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether this is a rejection for lack of memory or of a place; if so, it is counted.
    pub(super) fn is_refusal(&self, answer: &Answer) -> bool {
        let is_refusal = answer.status == 503 && is_short_of_memory(&answer.body);
        if is_refusal {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_refusal
    }

    /// Sends a request by `send` until it succeeds; retries while it is rejected for lack of
    /// memory. `attempt` counts from 0.
    pub(super) fn until_taken(
        &self,
        mut send: impl FnMut(u64) -> std::io::Result<Answer>,
    ) -> Result<Answer, Failure> {
        let mut refusal = String::new();
        for attempt in 0..TRIES {
            let answer = send(attempt)?;
            match answer.status {
                200..=299 => return Ok(answer),
                _ if self.is_refusal(&answer) => refusal = answer.described(),
                _ => return Err(answer.described().into()),
            }
            std::thread::sleep(RETRY_PAUSE);
        }
        Err(format!("refused {TRIES} times, at last with {refusal}").into())
    }

    /// A JSON response.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = HttpClient::connect(&self.url)?.send("GET", path, b"")?;
        match answer.status {
            200 => Ok(serde_json::from_slice(&answer.body)?),
            _ => Err(format!("{path}: {}", answer.described()).into()),
        }
    }
}

fn is_short_of_memory(body: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let of_kind = |kind| error["Type"].as_str().is_some_and(|name| name.ends_with(kind));
    of_kind("LowMemoryException") || of_kind("ServerLoadFailureException")
}

/// Runs `work` in that many threads. Returns the first failure.
pub(super) fn at_once(
    threads: u64,
    work: impl Fn(u64) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let mut ended = ended.map(|ended| ended.unwrap_or_else(|_| Err("it panicked".into())));
        ended.try_for_each(|ended| ended)
    })
}
