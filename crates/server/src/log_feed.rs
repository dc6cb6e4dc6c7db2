//! Entries of the server's log, shown to those who watch it as they are made.
//!
//! Nothing is kept while nobody watches. Those who log never wait: entries lie in a ring of [`WAITING_MAX`]. A reader
//! that is slower than that misses the oldest, and is shown how many.

use std::{sync::Arc, time::Duration};

use model::date;
use platform::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::{gone::Gone, pulse::Pulse};

/// Entries that may wait for a reader.
const WAITING_MAX: usize = 1024;
/// What a reader is sent at once has about so many bytes of texts at most; the rest waits for its turn.
const SENT_BYTES_MAX: usize = 64 << 10;
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
pub(crate) struct LogWatcher {
    entries: broadcast::Receiver<Arc<LogEntry>>,
    /// Entries that it missed since the last that it was shown.
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
    /// What stands in the place of entries that a reader missed.
    fn about_missed(at: Timestamp, count: u64) -> LogEntry {
        LogEntry {
            at,
            level: "WARN",
            logger: module_path!().to_owned(),
            message: "entries are left out here: they were not read in time".to_owned(),
            database: None,
            facts: format!("count={count}"),
        }
    }

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
