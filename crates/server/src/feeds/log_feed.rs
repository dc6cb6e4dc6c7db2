//! Entries of the server's log, sent to those who watch it.
//!
//! Nothing is stored while no one watches. Logging never blocks: entries go into a ring of
//! [`WAITING_MAX`]. A reader that is slower than that misses the oldest, and is informed how many.

use std::{sync::Arc, time::Duration};

use model::date;
use platform::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::feeds::{gone::Gone, pulse::Pulse};

/// How many entries may wait for a reader.
const WAITING_MAX: usize = 1024;
/// Approximate maximum size of what a reader is sent in one go; the rest is sent later.
const SENT_BYTES_MAX: usize = 64 << 10;
/// How often a reader is sent new entries.
const PULSE: Duration = Duration::from_millis(200);
/// The source of an entry that names no database.
const SERVER: &str = "Server";

/// An entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// When it was made.
    pub at: Timestamp,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The module of the server that created it.
    pub logger: String,
    /// The message, without its fields.
    pub message: String,
    /// The database that it names.
    pub database: Option<String>,
    /// Its fields, as `name=value`, separated by blanks.
    pub facts: String,
}

/// The source of entries for watchers.
pub struct LogFeed {
    sender: broadcast::Sender<Arc<LogEntry>>,
}

impl LogFeed {
    /// A feed without watchers.
    pub fn new() -> Arc<LogFeed> {
        Arc::new(LogFeed { sender: broadcast::channel(WAITING_MAX).0 })
    }

    /// Whether there are watchers: otherwise no entry need be created.
    pub fn is_watched(&self) -> bool {
        self.sender.receiver_count() != 0
    }

    /// Sends an entry to the watchers. Never blocks.
    pub fn show(&self, entry: LogEntry) {
        // The watchers may have disconnected in the meantime.
        drop(self.sender.send(Arc::new(entry)));
    }

    /// Adds a watcher of the entries from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<LogEntry>> {
        self.sender.subscribe()
    }
}

/// A reader of entries.
pub(crate) struct LogWatcher {
    entries: broadcast::Receiver<Arc<LogEntry>>,
    /// Entries missed since the last one that was sent.
    missed: u64,
}

impl LogWatcher {
    /// A reader of the entries from now on.
    pub(crate) fn of(feed: &LogFeed) -> LogWatcher {
        LogWatcher { entries: feed.watch(), missed: 0 }
    }
}

impl Pulse for LogWatcher {
    fn interval(&self) -> Duration {
        PULSE
    }

    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        while messages.len() < WAITING_MAX && bytes < SENT_BYTES_MAX {
            match self.entries.try_recv() {
                Ok(entry) => {
                    if 0 < self.missed {
                        messages.push(LogEntry::about_missed(entry.at, self.missed).shape());
                        self.missed = 0;
                    }
                    bytes += entry.message.len() + entry.facts.len();
                    messages.push(entry.shape());
                }
                Err(TryRecvError::Lagged(missed)) => self.missed += missed,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => return Err(Gone),
            }
        }
        Ok(messages)
    }
}

impl LogEntry {
    /// Stands for the entries that a reader missed.
    fn about_missed(at: Timestamp, count: u64) -> LogEntry {
        LogEntry {
            at,
            level: "WARN",
            logger: module_path!().to_owned(),
            message: "some entries are missing here: they were not read in time".to_owned(),
            database: None,
            facts: format!("count={count}"),
        }
    }

    /// In the form of RavenDB 7.1.
    fn shape(&self) -> Value {
        let moment = date::format(self.at.ticks());
        // With a precision of a tenth of a millisecond, without the mark of UTC.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_too_slow_is_shown_how_many_entries_it_missed() {
        let feed = LogFeed::new();
        let mut watcher = LogWatcher::of(&feed);
        for number in 0..WAITING_MAX + 3 {
            feed.show(LogEntry {
                at: Timestamp::from_ticks(0),
                level: "INFO",
                logger: String::new(),
                message: number.to_string(),
                database: None,
                facts: String::new(),
            });
        }
        let messages = watcher.messages().ok().unwrap();
        assert_eq!(
            (&messages[0]["Level"], &messages[0]["Data"]),
            (&json!("WARN"), &json!("count=3"))
        );
        assert_eq!(messages[1]["Message"], "3");
    }

    #[test]
    fn long_entries_are_sent_in_several_turns() {
        let feed = LogFeed::new();
        let mut watcher = LogWatcher::of(&feed);
        for _ in 0..3 {
            feed.show(LogEntry {
                at: Timestamp::from_ticks(0),
                level: "INFO",
                logger: String::new(),
                message: "x".repeat(SENT_BYTES_MAX / 2),
                database: None,
                facts: String::new(),
            });
        }
        assert_eq!(watcher.messages().ok().unwrap().len(), 2);
        assert_eq!(watcher.messages().ok().unwrap().len(), 1);
    }
}
