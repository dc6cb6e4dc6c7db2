//! One client: requests, with responses classified by their meaning for a history.

use std::time::Duration;

use serde_json::Value;

use crate::{consistency::DATABASE, http_client::HttpClient};

/// The history recorded by a process.
pub(crate) struct Played<T> {
    pub(crate) history: Vec<T>,
    pub(crate) committed: u64,
    /// An unexpected response.
    pub(crate) broken: Option<String>,
}

impl<T> Default for Played<T> {
    fn default() -> Self {
        Played { history: Vec::new(), committed: 0, broken: None }
    }
}

impl<T> Played<T> {
    pub(crate) fn join(&mut self, other: Played<T>) {
        self.history.extend(other.history);
        self.committed += other.committed;
        self.broken = self.broken.take().or(other.broken);
    }
}

/// Why there is no usable response.
pub(crate) enum Trouble {
    /// Refused by optimistic concurrency: nothing was done.
    Conflict,
    /// The outcome is unknown: the connection broke, or the server does not know it.
    Unknown,
    /// The snapshot has ended.
    SnapshotEnded,
    /// A response that is never valid.
    Broken(String),
}

/// A connection to the database.
pub(crate) struct Client(HttpClient);

impl Client {
    /// Connects to a server that answers each request within that time, or never.
    pub(crate) fn connect(url: &str, time_max: Duration) -> Option<Client> {
        HttpClient::connect_within(url, time_max).ok().map(Client)
    }

    /// The body of a successful response; `None` for 404.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Value, Trouble> {
        let target = format!("{DATABASE}{path}");
        let Ok(answer) = self.0.send_with(method, &target, headers, body) else {
            return Err(Trouble::Unknown);
        };
        match answer.status {
            200..=299 if answer.body.is_empty() => Ok(Value::Null),
            200..=299 => serde_json::from_slice(&answer.body)
                .map_err(|error| Trouble::Broken(format!("{method} {path}: {error}"))),
            404 => Ok(Value::Null),
            409 => Err(Trouble::Conflict),
            412 => Err(Trouble::SnapshotEnded),
            // 408: it was written, and other nodes may not have it.
            408 | 503 => Err(Trouble::Unknown),
            _ => Err(Trouble::Broken(format!("{method} {path}: {}", answer.described()))),
        }
    }
}
