//! Checks memory several times a second, and disks, slow I/O and open files once a second; reacts and
//! reports.
//!
//! One thread serves the whole server. Its reactions: a database on a full disk refuses writes; held
//! snapshots that have expired or keep too much end; when memory is low, all databases are flushed at once;
//! when memory or file descriptors are low, unused databases are closed early. No reaction has to be undone:
//! each state ends with the first check after its cause is gone.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use platform::{Platform, descriptors::OpenFiles};
use storage::{IoKind, IoOperation};

use crate::{
    disk_space::DiskSpaceReading,
    flusher::Flusher,
    memory_pressure::{MemoryLevel, MemoryPressure, MemoryReading},
    open_database::Database,
    registry::DatabaseRegistry,
};

/// How often memory is checked; it may run out within a second.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);
/// Everything else is checked once per this many memory checks.
const CHECKS_PER_ROUND: u32 = 4;
/// The minimum time that a database is unused before it is closed while memory or descriptors are low; at
/// most twice as long.
const IDLE_TIME_WHEN_LOW: Duration = Duration::from_secs(10);

/// An event for the operator.
#[derive(Clone, Debug)]
pub enum ResourceEvent {
    /// The disk space level of a database has changed.
    DiskSpace {
        /// The name of the database.
        database: String,
        /// The reading with the new level.
        reading: DiskSpaceReading,
    },
    /// The memory level has changed.
    Memory(MemoryReading),
    /// File descriptors are running out, or no longer.
    OpenFiles(OpenFiles),
    /// A slow I/O operation.
    SlowIo {
        /// The name of the database.
        database: String,
        /// The directory of the file.
        directory: PathBuf,
        /// The operation, with its file, bytes and duration.
        operation: IoOperation,
    },
}

type OnEvent = dyn Fn(&ResourceEvent) + Send + Sync;
type CountFiles = dyn Fn() -> Option<OpenFiles> + Send + Sync;

struct Shared {
    registry: DatabaseRegistry,
    flusher: Arc<Flusher>,
    platform: Platform,
    memory: Arc<MemoryPressure>,
    on_event: Box<OnEvent>,
    count_files: Box<CountFiles>,
    are_files_short: AtomicBool,
    /// When idle databases were last looked for because a resource was low.
    last_idle_check: Mutex<Duration>,
    closing: Mutex<bool>,
    wakes: Condvar,
}

/// The watch. Dropping it ends its thread.
pub struct ResourceWatch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ResourceWatch {
    /// A watch without a thread: it checks on [`ResourceWatch::check`] until [`ResourceWatch::start`].
    pub fn new(
        registry: DatabaseRegistry,
        flusher: Arc<Flusher>,
        platform: Platform,
        memory: Arc<MemoryPressure>,
        count_files: impl Fn() -> Option<OpenFiles> + Send + Sync + 'static,
        on_event: impl Fn(&ResourceEvent) + Send + Sync + 'static,
    ) -> ResourceWatch {
        let shared = Shared {
            registry,
            flusher,
            platform,
            memory,
            on_event: Box::new(on_event),
            count_files: Box::new(count_files),
            are_files_short: AtomicBool::new(false),
            last_idle_check: Mutex::default(),
            closing: Mutex::default(),
            wakes: Condvar::new(),
        };
        ResourceWatch { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Starts the thread that checks periodically.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("resource-watch".into());
        let thread = builder.spawn(move || shared.run())?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Checks once, now. Blocks while it closes databases.
    pub fn check(&self) {
        self.shared.check();
    }

    /// Ends the thread, and waits for it.
    pub fn close(&self) {
        *self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wakes.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has nothing left to stop.
            drop(thread.join());
        }
    }
}

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn run(&self) {
        let mut checks = 0;
        while !self.is_closing_after(MEMORY_INTERVAL) {
            checks = (checks + 1) % CHECKS_PER_ROUND;
            match checks {
                0 => self.check(),
                _ => self.look_at_memory(),
            }
            let now = self.platform.clock.monotonic();
            for database in self.registry.open_databases() {
                database.look_at_snapshots(now);
            }
        }
    }

    fn is_closing_after(&self, wait: Duration) -> bool {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let (closing, _) = self
            .wakes
            .wait_timeout_while(closing, wait, |closing| !*closing)
            .unwrap_or_else(PoisonError::into_inner);
        *closing
    }

    fn check(&self) {
        for database in self.registry.open_databases() {
            self.look_at(&database);
        }
        self.look_at_memory();
        self.look_at_open_files();
    }

    fn look_at_open_files(&self) {
        // If descriptors cannot be counted, they are assumed to suffice.
        let Some(files) = (self.count_files)() else { return };
        if self.are_files_short.swap(files.is_short(), Ordering::Relaxed) != files.is_short() {
            (self.on_event)(&ResourceEvent::OpenFiles(files));
        }
        if files.is_short() {
            self.close_unused();
        }
    }

    fn look_at(&self, database: &Database) {
        database.look_at_disk(self.platform.clock.monotonic());
        let name = || database.record().name.as_str().to_owned();
        if let Some(reading) = database.disk_gauge().take_change() {
            (self.on_event)(&ResourceEvent::DiskSpace { database: name(), reading });
        }
        for operation in database.take_slow_io() {
            let directory = directory_of(database, operation.kind);
            (self.on_event)(&ResourceEvent::SlowIo { database: name(), directory, operation });
        }
    }

    fn look_at_memory(&self) {
        // If memory cannot be measured, the level is left unchanged.
        let Ok(usage) = self.platform.memory.usage() else { return };
        if let Some(reading) = self.memory.measured(usage, self.platform.clock.now()) {
            (self.on_event)(&ResourceEvent::Memory(reading));
        }
        if self.memory.level() != MemoryLevel::Enough {
            self.flusher.flush_all_soon();
            self.close_unused();
        }
    }

    fn close_unused(&self) {
        let now = self.platform.clock.monotonic();
        {
            let mut last = self.last_idle_check.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_sub(*last) < IDLE_TIME_WHEN_LOW {
                return;
            }
            *last = now;
        }
        self.registry.close_idle(1);
    }
}

fn directory_of(database: &Database, kind: IoKind) -> PathBuf {
    let options = database.environment().options();
    match kind {
        IoKind::JournalWrite | IoKind::Compression => options.journals(),
        IoKind::DataFlush | IoKind::DataSync => options.directory.clone(),
    }
}
