//! The log: where it goes, what is in it, and in which form.
//!
//! It always goes to standard error, to files when there is a directory for them, and to clients
//! that watch. What is logged depends on `CORVUS_LOG` (levels by target, for developers), else
//! `Logs.MinLevel`, else `Logs.Mode`; a mode set by a client applies from then on.

use std::{io, sync::Arc};

use platform::Platform;
use server::LogFeed;
use settings::LogSettings;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::LevelFilter,
    fmt::{
        self,
        writer::{BoxMakeWriter, MakeWriterExt},
    },
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::{log_entries::ShownEntries, log_files::LogFiles};

const FILTER_VARIABLE: &str = "CORVUS_LOG";
/// Libraries that log normal operation verbosely. openraft logs each attempt to reach a node that is away; the crate
/// `cluster` says what happens.
const QUIET: &str = "openraft=off,hyper=info,tungstenite=info";
/// Entries that may be pending for the log files; further ones are dropped so that requests do not
/// wait.
const WAITING_ENTRIES_MAX: usize = 16 << 10;

/// The log of this process. Dropping it writes the pending entries.
pub(crate) struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    feed: Arc<LogFeed>,
    _files: Option<WorkerGuard>,
}

impl Log {
    /// Begins to log, for the whole process.
    ///
    /// # Errors
    /// When the directory of the log files cannot be used.
    pub(crate) fn begin(settings: &LogSettings, platform: &Platform) -> io::Result<Log> {
        let configured =
            std::env::var(FILTER_VARIABLE).ok().filter(|configured| !configured.trim().is_empty());
        let directives = configured.unwrap_or_else(|| level_of(settings).to_owned());
        let (filter, handle) = reload::Layer::new(filter_of(&directives));
        let (writer, guard) = match LogFiles::of(settings, Arc::clone(&platform.clock))? {
            Some(files) => {
                let builder =
                    NonBlockingBuilder::default().buffered_lines_limit(WAITING_ENTRIES_MAX);
                let (files, guard) = builder.finish(files);
                (BoxMakeWriter::new(io::stderr.and(files)), Some(guard))
            }
            None => (BoxMakeWriter::new(io::stderr), None),
        };
        let layer = fmt::layer().with_writer(writer);
        // Boxed, since text and JSON are different types.
        let layer = if settings.is_json { layer.json().boxed() } else { layer.boxed() };
        let feed = LogFeed::new();
        let shown = ShownEntries { feed: Arc::clone(&feed), clock: Arc::clone(&platform.clock) };
        tracing_subscriber::registry().with(filter).with(layer).with(shown).init();
        Ok(Log { filter: handle, feed, _files: guard })
    }

    /// The entries, for watchers.
    pub(crate) fn feed(&self) -> Arc<LogFeed> {
        Arc::clone(&self.feed)
    }

    /// A function that switches to a mode, by RavenDB's name.
    pub(crate) fn mode_switch(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let filter = self.filter.clone();
        // It fails when the process is ending.
        move |mode| drop(filter.reload(filter_of(level_of_mode(mode))))
    }
}

/// The directives requested come last and so win.
fn filter_of(directives: &str) -> EnvFilter {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::OFF.into())
        .parse_lossy(format!("{QUIET},{directives}"))
}

fn level_of(settings: &LogSettings) -> &'static str {
    match settings.level {
        Some("Trace") => "trace",
        Some("Debug") => "debug",
        Some("Info") => "info",
        Some("Warn") => "warn",
        Some("Error" | "Fatal") => "error",
        Some(_) => "off",
        None => level_of_mode(settings.mode),
    }
}

fn level_of_mode(mode: &str) -> &'static str {
    match mode {
        "None" => "hyper=off,tungstenite=off,off",
        "Information" => "debug",
        _ => "info",
    }
}
