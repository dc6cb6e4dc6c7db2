//! Entries of the server's log, shown to those who watch it as they are made.
//!
//! Nothing is kept while nobody watches. Those who log never wait: entries lie in a ring of [`WAITING_MAX`], and a
//! reader that is slower than that misses the oldest.

use std::{sync::Arc, time::Duration};

use model::date;
use platform::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::{pulse_feed::Pulse, web_socket::Gone};

/// Entries that may wait for a reader.
const WAITING_MAX: usize = 1024;
/// How often a reader is sent what has gathered.
const PULSE: Duration = Duration::from_millis(200);
/// What an entry is about that names no database.
const SERVER: &str = "Server";

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// When it was made.
    pub at: Timestamp,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The part of the server that made it.
    pub logger: String,
    /// What happened.
    pub message: String,
    /// The database that it names.
    pub database: Option<String>,
    /// The facts of it, as `name=value`, parted by blanks.
    pub facts: String,
}

/// Where entries come from that somebody watches.
pub struct LogFeed {
    sender: broadcast::Sender<Arc<LogEntry>>,
}

impl LogFeed {
    /// A feed that nobody watches.
    pub fn new() -> Arc<LogFeed> {
        Arc::new(LogFeed { sender: broadcast::channel(WAITING_MAX).0 })
    }

    /// Whether somebody watches: else no entry need be made.
    pub fn is_watched(&self) -> bool {
        self.sender.receiver_count() != 0
    }

    /// Shows an entry to those who watch. Never waits.
    pub fn show(&self, entry: LogEntry) {
        // Those who watched may have gone meanwhile.
        drop(self.sender.send(Arc::new(entry)));
    }

    /// One more watches: the entries from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<LogEntry>> {
        self.sender.subscribe()
    }
}

/// A reader of entries.
pub(crate) struct LogWatcher(pub(crate) broadcast::Receiver<Arc<LogEntry>>);

impl Pulse for LogWatcher {
    fn interval(&self) -> Duration {
        PULSE
    }

    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let mut messages = Vec::new();
        while messages.len() < WAITING_MAX {
            match self.0.try_recv() {
                Ok(entry) => messages.push(entry.shape()),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => return Err(Gone),
            }
        }
        Ok(messages)
    }
}

impl LogEntry {
    /// As RavenDB 7.1 shows it.
    fn shape(&self) -> Value {
        let moment = date::format(self.at.ticks());
        // To a tenth of a millisecond, without the mark of UTC.
        let moment = moment.get(..24).unwrap_or(&moment).replace('T', " ");
        let mut shape = Map::new();
        let mut set = |name: &str, value: Value| shape.insert(name.to_owned(), value);
        set("Date", moment.into());
        set("Level", self.level.into());
        set("Resource", self.database.as_deref().unwrap_or(SERVER).into());
        set("Logger", self.logger.as_str().into());
        set("Message", self.message.as_str().into());
        if !self.facts.is_empty() {
            set("Data", json!(self.facts));
        }
        Value::Object(shape)
    }
}
