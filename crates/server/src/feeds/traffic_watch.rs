//! The requests that the server answers, reported to watchers.
//!
//! Nothing is recorded while there are no watchers and no request is to be logged. Answering
//! requests never waits: reports go into a ring of [`WAITING_MAX`], and a reader that is slower
//! than that misses the oldest.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode, header};
use model::date;
use platform::{Clock, Timestamp};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::TryRecvError};
use wire::QueryString;

use crate::{
    feeds::{gone::Gone, pulse::Pulse},
    http::{
        route_path::split_database,
        traffic_log::{Traffic, TrafficLog},
    },
};

/// How many requests may wait for a reader.
const WAITING_MAX: usize = 1024;
/// Maximum length of a reported target; longer ones are truncated.
const TARGET_BYTES_MAX: usize = 4 << 10;
/// Approximate maximum size of the targets that a reader is sent in one go; the others are sent
/// later.
const SENT_BYTES_MAX: usize = 64 << 10;
/// How often a reader is sent new reports.
const PULSE: Duration = Duration::from_millis(200);
/// Stands for a missing value.
const NOTHING: &str = "N/A";

/// Receives reports of answered requests.
pub(crate) struct TrafficWatch {
    clock: Arc<dyn Clock>,
    sender: broadcast::Sender<Arc<Exchange>>,
    /// Logs the selected requests.
    pub(crate) log: TrafficLog,
}

/// A response as watchers see it.
pub(crate) struct AnswerFacts {
    pub(crate) status: StatusCode,
    /// The bytes of its body; `None` when it is produced while it is sent.
    pub(crate) bytes: Option<u64>,
}

/// A request that is being answered.
pub(crate) struct Begun {
    method: Method,
    target: String,
    request_bytes: u64,
    began: Duration,
}

/// A request and its outcome.
struct Exchange {
    at: Timestamp,
    method: Method,
    target: String,
    database: Option<String>,
    status: u16,
    elapsed: Duration,
    request_bytes: u64,
    answer_bytes: u64,
}

impl TrafficWatch {
    /// Initially nothing is watched or logged.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> TrafficWatch {
        let sender = broadcast::channel(WAITING_MAX).0;
        TrafficWatch { clock, sender, log: TrafficLog::default() }
    }

    /// Records the start of a request, if there are watchers or it may be logged.
    pub(crate) fn begin(
        &self,
        (method, target): (&Method, &str),
        headers: &HeaderMap,
    ) -> Option<Begun> {
        if self.sender.receiver_count() == 0 && !self.log.is_on() {
            return None;
        }
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Some(Begun {
            method: method.clone(),
            target: target[..target.floor_char_boundary(TARGET_BYTES_MAX)].to_owned(),
            request_bytes: length.and_then(|length| length.parse().ok()).unwrap_or(0),
            began: self.clock.monotonic(),
        })
    }

    /// Reports that a request was answered.
    pub(crate) fn end(&self, begun: Begun, answer: &AnswerFacts, database: Option<&str>) {
        // What becomes a session is not a response; watchers would see themselves.
        if answer.status == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        let Begun { method, target, request_bytes, began } = begun;
        let exchange = Exchange {
            at: self.clock.now(),
            method,
            target,
            database: database.map(str::to_owned),
            status: answer.status.as_u16(),
            elapsed: self.clock.monotonic().saturating_sub(began),
            request_bytes,
            answer_bytes: answer.bytes.unwrap_or(0),
        };
        if self.log.is_on() {
            self.log.log(&exchange.traffic());
        }
        // The watchers may have disconnected in the meantime.
        drop(self.sender.send(Arc::new(exchange)));
    }

    /// Adds a watcher; of a single database, if one is named.
    pub(crate) fn watch(&self, address: String, database: Option<String>) -> impl Pulse + use<> {
        Watcher { receiver: self.sender.subscribe(), address, database, sent: 0 }
    }
}

struct Watcher {
    receiver: broadcast::Receiver<Arc<Exchange>>,
    address: String,
    database: Option<String>,
    sent: u64,
}

impl Pulse for Watcher {
    fn interval(&self) -> Duration {
        PULSE
    }

    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let mut messages = Vec::new();
        let mut bytes = 0;
        while messages.len() < WAITING_MAX && bytes < SENT_BYTES_MAX {
            match self.receiver.try_recv() {
                Ok(exchange) if self.is_wanted(&exchange) => {
                    self.sent += 1;
                    bytes += exchange.target.len();
                    messages.push(exchange.shape(&self.address, self.sent));
                }
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => return Err(Gone),
            }
        }
        Ok(messages)
    }
}

impl Watcher {
    fn is_wanted(&self, exchange: &Exchange) -> bool {
        let Some(wanted) = &self.database else { return true };
        exchange.database.as_ref().is_some_and(|database| database.eq_ignore_ascii_case(wanted))
    }
}

impl Exchange {
    /// The part of it that may be logged.
    fn traffic(&self) -> Traffic<'_> {
        let path = self.target.split('?').next().unwrap_or(&self.target);
        let kind = match &self.database {
            Some(_) => split_database(path).map_or("None", |(_, rest)| kind_of(rest)),
            None => "None",
        };
        Traffic {
            database: self.database.as_deref(),
            method: self.method.as_str(),
            path,
            kind,
            status: self.status,
            elapsed: self.elapsed,
            request_bytes: self.request_bytes,
            response_bytes: self.answer_bytes,
        }
    }

    fn shape(&self, address: &str, number: u64) -> Value {
        let (_, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let query = QueryString::parse(query);
        json!({
            "TrafficWatchType": "Http", "TimeStamp": date::format(self.at.ticks()),
            "DatabaseName": self.database.as_deref().unwrap_or(NOTHING),
            "CustomInfo": query.get("id").or_else(|| query.get("query")).unwrap_or(NOTHING),
            "ClientIP": null, "CertificateThumbprint": null, "RequestId": number,
            "HttpMethod": self.method.as_str(),
            "ElapsedMilliseconds": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "ResponseStatusCode": self.status, "RequestUri": format!("{address}{}", self.target),
            "AbsoluteUri": address, "RequestSizeInBytes": self.request_bytes,
            "ResponseSizeInBytes": self.answer_bytes, "Type": self.traffic().kind
        })
    }
}

/// The protocol's type of the requests below a path of a database.
fn kind_of(rest: &str) -> &'static str {
    let part = rest.trim_start_matches('/').split('/').next().unwrap_or("");
    match part.to_ascii_lowercase().as_str() {
        "docs" => "Documents",
        "queries" => "Queries",
        "bulk_docs" => "BulkDocs",
        "multi_get" => "MultiGet",
        "indexes" => "Index",
        "operations" => "Operations",
        "counters" => "Counters",
        "hilo" => "Hilo",
        "subscriptions" => "Subscriptions",
        "streams" => "Streams",
        "timeseries" => "TimeSeries",
        "notifications" | "notification-center" => "Notifications",
        _ => "None",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_called_by_what_they_are_about() {
        for (rest, kind) in
            [("/docs", "Documents"), ("/Indexes/stats", "Index"), ("/stats", "None"), ("", "None")]
        {
            assert_eq!(kind_of(rest), kind, "{rest}");
        }
    }
}
