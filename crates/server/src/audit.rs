//! The audit log: one entry for each request that administers something, and for each that was refused for lack of a
//! certificate, a key or a clearance.
//!
//! Bodies are not in it: they may contain secrets. Connections of the TCP protocol administer nothing.
//!
//! Invariant: a request that administers something has an entry whatever its client does, also if it disconnects before
//! its response. Entries are written by a thread of their own, and only requests that administer something wait for
//! that: a disk that hangs costs the others nothing.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::Duration,
};

use http::{Method, StatusCode};
use security::{Caller, Requirement};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Writes one entry, a line of JSON. It may block.
pub type AuditSink = Box<dyn FnMut(&[u8]) + Send>;

/// Entries that wait to be written; further ones are lost, and counted.
const ENTRIES_MAX: usize = 1024;
/// How long a response waits for its entry to be written, and the end of the server for the last ones.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The log, if there is one.
pub(crate) struct AuditLog {
    writer: Option<Arc<Writer>>,
    /// Disconnected when the last entry is written.
    end: Mutex<Option<Receiver<()>>>,
}

/// The way to the thread that writes.
struct Writer {
    entries: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

struct Entry {
    line: String,
    /// Dropped once it is written.
    written: Option<oneshot::Sender<()>>,
}

/// A request that is being answered, as far as an entry shows it. Dropping it before its end writes an entry, too.
pub(crate) struct AuditedRequest {
    writer: Arc<Writer>,
    method: Method,
    target: String,
    peer: SocketAddr,
    caller: Caller,
    /// That of its route, once it is known.
    requirement: Option<Requirement>,
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
            return Ok(AuditLog { writer: None, end: Mutex::default() });
        };
        let (entries, received) = mpsc::sync_channel(ENTRIES_MAX);
        let (running, end) = mpsc::channel::<()>();
        let lost = Arc::new(AtomicU64::new(0));
        let lost_there = Arc::clone(&lost);
        thread::Builder::new().name("audit".to_owned()).spawn(move || {
            write_all(&received, &lost_there, sink);
            drop(running);
        })?;
        let writer = Some(Arc::new(Writer { entries, lost }));
        Ok(AuditLog { writer, end: Mutex::new(Some(end)) })
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
            requirement: None,
            began: now,
            is_over: false,
        })
    }
}

impl Drop for AuditLog {
    /// Waits for the last entries.
    fn drop(&mut self) {
        drop(self.writer.take());
        let end = self.end.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let rest = end.map(|end| end.recv_timeout(WAIT_MAX));
        if rest == Some(Err(RecvTimeoutError::Timeout)) {
            tracing::error!("the last entries of the audit log could not be written in time");
        }
    }
}

fn write_all(received: &Receiver<Entry>, lost: &AtomicU64, mut sink: AuditSink) {
    while let Ok(entry) = received.recv() {
        let lost = lost.swap(0, Ordering::Relaxed);
        if 0 < lost {
            sink(format!("{}\n", json!({"Lost": lost})).as_bytes());
        }
        sink(entry.line.as_bytes());
        drop(entry.written);
    }
}

impl AuditedRequest {
    /// Sets the requirement of its route.
    pub(crate) fn set_requirement(&mut self, requirement: Requirement) {
        self.requirement = Some(requirement);
    }

    /// Writes the entry of the request, if it belongs in the log, at this moment in ticks. One that administered something
    /// waits until it is written; a refused one does not, since strangers can send any number of them.
    pub(crate) async fn end(mut self, status: StatusCode, is_denied: bool, now: i64) {
        self.is_over = true;
        let is_administration = self.is_administration();
        if !is_denied && !is_administration {
            return;
        }
        let line = self.line(json!(status.as_u16()), is_denied, now);
        let (written, is_written) = oneshot::channel();
        self.writer.write(Entry { line, written: Some(written) });
        if !is_denied && tokio::time::timeout(WAIT_MAX, is_written).await.is_err() {
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

    fn is_administration(&self) -> bool {
        let is_reading = matches!(self.method, Method::GET | Method::HEAD);
        !is_reading && self.requirement.is_some_and(is_administrative)
    }
}

impl Drop for AuditedRequest {
    /// Its client has disconnected; what it started may go on, so there is no status.
    fn drop(&mut self) {
        if !self.is_over && self.is_administration() {
            let line = self.line(Value::Null, false, self.began);
            self.writer.write(Entry { line, written: None });
        }
    }
}

impl Writer {
    fn write(&self, entry: Entry) {
        if self.entries.try_send(entry).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn is_administrative(requirement: Requirement) -> bool {
    match requirement {
        Requirement::DatabaseAdmin | Requirement::Operator | Requirement::ClusterAdmin => true,
        Requirement::Anyone | Requirement::ValidUser | Requirement::Read | Requirement::Write => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

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
        // The next entry says how many were lost.
        begin(&log, "/last").end(StatusCode::FORBIDDEN, true, 0).await;
        drop(log);
        for entry in entries {
            lost += entry["Lost"].as_u64().unwrap_or(0);
            written += u64::from(entry["Target"].is_string());
        }
        assert!(lost > 0);
        assert_eq!(written + lost, ENTRIES_MAX as u64 + 51);
    }

    #[test]
    fn a_request_that_ends_without_a_response_has_an_entry() {
        let (log, entries, release) = log();
        drop(release);
        let mut request = begin(&log, "/admin/databases");
        request.set_requirement(Requirement::Operator);
        drop(request);
        let mut other = begin(&log, "/databases/db/docs");
        other.set_requirement(Requirement::Write);
        drop(other);
        drop(log);
        let entries: Vec<_> = entries.iter().collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0]["Target"], "/admin/databases");
        assert_eq!(entries[0]["Status"], Value::Null);
    }
}
