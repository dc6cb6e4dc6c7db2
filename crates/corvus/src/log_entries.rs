//! Log entries for clients that watch the log of the server, in addition to those that are written.

use std::{
    fmt::{Debug, Write},
    sync::Arc,
};

use platform::Clock;
use server::{LogEntry, LogFeed};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// Bytes of a message, and of the fields of an entry, that watchers receive: their backlog is
/// bounded.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Passes every entry that is logged to the watchers.
pub(crate) struct ShownEntries {
    pub(crate) feed: Arc<LogFeed>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl<S: Subscriber> Layer<S> for ShownEntries {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !self.feed.is_watched() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { mut message, database, mut facts } = fields;
        cut(&mut message);
        cut(&mut facts);
        self.feed.show(LogEntry {
            at: self.clock.now(),
            level: event.metadata().level().as_str(),
            logger: event.metadata().target().to_owned(),
            message,
            database,
            facts,
        });
    }
}

fn cut(text: &mut String) {
    let mut end = TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// The fields of an entry.
#[derive(Default)]
struct Fields {
    message: String,
    database: Option<String>,
    facts: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "database" => self.database = Some(value.to_owned()).filter(|name| !name.is_empty()),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let into = if field.name() == "message" { &mut self.message } else { &mut self.facts };
        if field.name() != "message" {
            let separator = if into.is_empty() { "" } else { " " };
            // Writing to a string does not fail.
            let _ = write!(into, "{separator}{}=", field.name());
        }
        let _ = write!(into, "{value:?}");
    }
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn an_entry_is_shown_with_its_database_and_its_facts() {
        let (feed, clock) = (LogFeed::new(), Platform::memory().clock);
        let layer = ShownEntries { feed: Arc::clone(&feed), clock };
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("no watcher");
            let mut watcher = feed.watch();
            tracing::warn!(target: "part", database = "shop", count = 3, name = "x", "it happened");
            let entry = watcher.try_recv().unwrap();
            assert_eq!((entry.level, entry.logger.as_str()), ("WARN", "part"));
            assert_eq!(entry.message, "it happened");
            assert_eq!(entry.database.as_deref(), Some("shop"));
            assert_eq!(entry.facts, "count=3 name=\"x\"");
            assert!(watcher.try_recv().is_err(), "what was before is not shown");
            tracing::info!("{}", "ü".repeat(TEXT_BYTES_MAX));
            assert_eq!(watcher.try_recv().unwrap().message.len(), TEXT_BYTES_MAX);
        });
    }
}
