//! The audit log: one entry for each request that administers something, and for each that was refused for lack of a
//! certificate, a key or a clearance.
//!
//! Bodies are not in it: they may contain secrets. Connections of the TCP protocol administer nothing.
//!
//! Invariant: a request that administers something has an entry whatever its client does, also if it disconnects before
//! its response: it is not executed unless there is a place for its entry. Entries are written by a thread of their own,
//! and only requests that administer something wait for that: a disk that hangs costs the others nothing. Refused
//! requests have other places, and lose their entries when these are taken: strangers can send any number of them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use http::{Method, StatusCode};
use security::{Caller, Requirement};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wire::ErrorKind;

use crate::api_error::ApiError;

/// Writes one entry, a line of JSON. It may block.
pub type AuditSink = Box<dyn FnMut(&[u8]) + Send>;

/// Entries of each kind that wait to be written: of requests that administer something, and of refused ones.
const ENTRIES_MAX: usize = 1024;
/// How long a response waits for its entry to be written, and the end of the server for the last ones.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The log, if there is one.
pub(crate) struct AuditLog {
    writer: Option<Arc<Writer>>,
}

/// The way to the thread that writes.
struct Writer {
    orders: Sender<Order>,
    administration: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    /// Refusals that found no place.
    lost: Arc<AtomicU64>,
}

/// What the thread is to do.
enum Order {
    Write(Entry),
    /// Notify that everything before this is written.
    Report(Sender<()>),
}

struct Entry {
    line: String,
    _place: OwnedSemaphorePermit,
    /// Notified once it is written.
    written: Option<oneshot::Sender<()>>,
}

/// A request that is being answered, as far as an entry shows it. Dropping it before its end writes an entry, too.
pub(crate) struct AuditedRequest {
    writer: Arc<Writer>,
    method: Method,
    target: String,
    peer: SocketAddr,
    caller: Caller,
    /// For the entry of one that administers something, once that is known.
    place: Option<OwnedSemaphorePermit>,
    began: i64,
    is_over: bool,
}

impl AuditLog {
    /// A log that writes to `sink`, in a thread of its own.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn new(sink: Option<AuditSink>) -> std::io::Result<AuditLog> {
        let Some(sink) = sink else {
            return Ok(AuditLog { writer: None });
        };
        let (orders, received) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let lost_there = Arc::clone(&lost);
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&received, &lost_there, sink))?;
        let places = || Arc::new(Semaphore::new(ENTRIES_MAX));
        let writer = Writer { orders, administration: places(), refusals: places(), lost };
        Ok(AuditLog { writer: Some(Arc::new(writer)) })
    }

    /// Waits until what has been logged is written, for a bounded time. Blocks.
    pub(crate) fn close(&self) {
        let Some(writer) = &self.writer else { return };
        let (written, is_written) = mpsc::channel();
        let is_sent = writer.orders.send(Order::Report(written)).is_ok();
        if !is_sent || is_written.recv_timeout(WAIT_MAX).is_err() {
            tracing::error!("the last entries of the audit log could not be written in time");
        }
    }

    /// Remembers a request, if there is a log. `now` is in ticks.
    pub(crate) fn begin(
        &self,
        (method, target): (&Method, &str),
        (peer, caller): (SocketAddr, &Caller),
        now: i64,
    ) -> Option<AuditedRequest> {
        let writer = self.writer.as_ref()?;
        Some(AuditedRequest {
            writer: Arc::clone(writer),
            method: method.clone(),
            target: target.to_owned(),
            peer,
            caller: caller.clone(),
            place: None,
            began: now,
            is_over: false,
        })
    }
}

fn write_all(orders: &Receiver<Order>, lost: &AtomicU64, mut sink: AuditSink) {
    let write_lost = |sink: &mut AuditSink| {
        let lost = lost.swap(0, Ordering::Relaxed);
        if 0 < lost {
            sink(format!("{}\n", json!({"Lost": lost})).as_bytes());
        }
    };
    while let Ok(order) = orders.recv() {
        write_lost(&mut sink);
        match order {
            Order::Write(entry) => {
                sink(entry.line.as_bytes());
                if let Some(written) = entry.written {
                    // The request may have waited for long enough.
                    let _ = written.send(());
                }
            }
            Order::Report(written) => {
                let _ = written.send(());
            }
        }
    }
    write_lost(&mut sink);
}

impl AuditedRequest {
    /// Takes a place for the entry of a request that may do what its route does, if that is to administer something.
    ///
    /// # Errors
    /// All places are taken, since the disk of the log does not write. The request must not be executed.
    pub(crate) fn permit(&mut self, requirement: Requirement) -> Result<(), ApiError> {
        let is_reading = matches!(self.method, Method::GET | Method::HEAD);
        if is_reading || !is_administrative(requirement) {
            return Ok(());
        }
        let place = Arc::clone(&self.writer.administration).try_acquire_owned();
        self.place = Some(place.map_err(|_| {
            let message = format!(
                "The audit log is not being written: {ENTRIES_MAX} entries wait for its disk. Nothing was changed."
            );
            ApiError::new(ErrorKind::Overloaded, message)
        })?);
        Ok(())
    }

    /// Writes the entry of the request, if it belongs in the log, at this moment in ticks. One that administered something
    /// waits until it is written; a refused one does not.
    pub(crate) async fn end(mut self, status: StatusCode, is_denied: bool, now: i64) {
        self.is_over = true;
        let line = |request: &Self| request.line(json!(status.as_u16()), is_denied, now);
        let Some(place) = self.place.take() else {
            if is_denied {
                self.writer.write_refusal(|| line(&self));
            }
            return;
        };
        let (written, is_written) = oneshot::channel();
        self.writer.write(Entry { line: line(&self), _place: place, written: Some(written) });
        if !matches!(tokio::time::timeout(WAIT_MAX, is_written).await, Ok(Ok(()))) {
            tracing::error!("an entry of the audit log could not be written in time");
        }
    }

    fn line(&self, status: Value, is_denied: bool, at: i64) -> String {
        let mut entry = json!({
            "Time": model::date::format(at),
            "From": self.peer.to_string(),
            "Certificate": self.caller.certificate().map(|certificate| certificate.in_words()),
            "Method": self.method.as_str(),
            "Target": self.target,
            "Status": status,
            "Denied": is_denied,
        });
        if let Some(key) = self.caller.api_key_in_words() {
            entry["ApiKey"] = Value::String(key);
        }
        format!("{entry}\n")
    }
}

impl Drop for AuditedRequest {
    /// Its client has disconnected; what it started may go on, so there is no status.
    fn drop(&mut self) {
        if let Some(place) = self.place.take().filter(|_| !self.is_over) {
            let line = self.line(Value::Null, false, self.began);
            self.writer.write(Entry { line, _place: place, written: None });
        }
    }
}

impl Writer {
    fn write(&self, entry: Entry) {
        if self.orders.send(Order::Write(entry)).is_err() {
            tracing::error!("the audit log is not written any more");
        }
    }

    fn write_refusal(&self, line: impl FnOnce() -> String) {
        match Arc::clone(&self.refusals).try_acquire_owned() {
            Ok(place) => self.write(Entry { line: line(), _place: place, written: None }),
            Err(_) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

fn is_administrative(requirement: Requirement) -> bool {
    match requirement {
        Requirement::DatabaseAdmin | Requirement::Operator | Requirement::ClusterAdmin => true,
        Requirement::Anyone
        | Requirement::ValidUser
        | Requirement::Read
        | Requirement::Write
        | Requirement::Sink => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (AuditLog, Receiver<Value>, Sender<()>) {
        let (sender, entries) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let sink = move |line: &[u8]| {
            // Once the gate is gone it is open.
            let _ = gate.recv();
            sender.send(serde_json::from_slice(line).unwrap()).unwrap();
        };
        (AuditLog::new(Some(Box::new(sink))).unwrap(), entries, release)
    }

    fn begin(log: &AuditLog, target: &str) -> AuditedRequest {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        log.begin((&Method::POST, target), (peer, &Caller::Unsecured), 0).unwrap()
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_up_no_refusal_and_what_is_lost_is_counted() {
        let (log, entries, release) = log();
        // One is being written, as many wait as may.
        for number in 0..ENTRIES_MAX + 50 {
            begin(&log, &format!("/{number}")).end(StatusCode::FORBIDDEN, true, 0).await;
        }
        drop(release);
        let first = entries.recv().unwrap();
        assert_eq!(first["Target"], "/0");
        let mut written = 1;
        let mut lost = 0;
        drop(log);
        for entry in entries {
            lost += entry["Lost"].as_u64().unwrap_or(0);
            written += u64::from(entry["Target"].is_string());
        }
        assert!(lost > 0);
        assert_eq!(written + lost, ENTRIES_MAX as u64 + 50);
    }

    #[test]
    fn a_request_that_ends_without_a_response_has_an_entry() {
        let (log, entries, release) = log();
        drop(release);
        let mut request = begin(&log, "/admin/databases");
        request.permit(Requirement::Operator).unwrap();
        drop(request);
        let mut other = begin(&log, "/databases/db/docs");
        other.permit(Requirement::Write).unwrap();
        drop(other);
        drop(log);
        let entries: Vec<_> = entries.iter().collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0]["Target"], "/admin/databases");
        assert_eq!(entries[0]["Status"], Value::Null);
    }

    #[tokio::test]
    async fn nothing_is_administered_without_a_place_for_its_entry() {
        let (log, entries, release) = log();
        // Strangers take none of the places.
        for _ in 0..2 * ENTRIES_MAX {
            begin(&log, "/stranger").end(StatusCode::FORBIDDEN, true, 0).await;
        }
        for number in 0..ENTRIES_MAX {
            let mut request = begin(&log, &format!("/{number}"));
            request.permit(Requirement::ClusterAdmin).unwrap();
            drop(request);
        }
        let refused = begin(&log, "/more").permit(Requirement::ClusterAdmin).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Overloaded);
        begin(&log, "/databases/db/docs").permit(Requirement::Write).unwrap();
        drop(release);
        drop(log);
        let of_administration =
            |entry: &Value| entry["Status"].is_null() && entry["Lost"].is_null();
        assert_eq!(entries.iter().filter(of_administration).count(), ENTRIES_MAX);
    }
}
