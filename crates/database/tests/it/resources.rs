//! Low disks, low memory and slow I/O, seen on a simulated machine one look at a time.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use commands::{Batch, Command, CommitQueueOptions, SubmitError};
use database::{
    Access, Activity, DatabaseLease, DatabaseOptions, DatabaseRegistry, DiskSpaceLevel,
    DiskSpaceLimits, Flusher, HugeDocumentLimits, MemoryLevel, MemoryPressure, RegistryOptions,
    ResourceEvent, ResourceWatch, ServerCatalog,
};
use documents::{ExpectedVersion, PutDocument, RequestedId};
use model::{DatabaseRecord, IdSeparator};
use platform::{
    Platform,
    descriptors::OpenFiles,
    simulated::{Random, Simulation},
};
use script::ScriptPool;
use storage::EnvironmentOptions;

use crate::{commit_threads_on, indexing_on, record};

const MB: u64 = 1 << 20;

/// A server's databases on a simulated machine, and what the watch reported.
struct Machine {
    simulation: Simulation,
    registry: DatabaseRegistry,
    memory: Arc<MemoryPressure>,
    watch: ResourceWatch,
    reported: Arc<Mutex<Vec<ResourceEvent>>>,
    /// How many of 1,000 files are open.
    open_files: Arc<AtomicU64>,
    _flusher: Arc<Flusher>,
}

impl Machine {
    fn new(names: &[&str], disk_space: DiskSpaceLimits) -> Machine {
        let simulation = Platform::simulated(1);
        let platform = simulation.platform.clone();
        simulation.memory.set_limit(1000 * MB);
        let catalog = Arc::new(ServerCatalog::open(&platform, "/data/System".into()).unwrap());
        for name in names {
            catalog.create(record(name)).unwrap();
        }
        let flusher = Arc::new(Flusher::start(1, Arc::clone(&platform.clock), |_| ()).unwrap());
        let options_of = {
            let platform = platform.clone();
            move |record: &DatabaseRecord| {
                let directory = format!("/data/Databases/{}", record.name.lower_cased());
                let mut environment = EnvironmentOptions::new(directory);
                environment.slow_io_min = Duration::from_millis(200);
                let (platform, queue) = (platform.clone(), CommitQueueOptions::default());
                let scripts = ScriptPool::new(Arc::clone(&platform.clock));
                let indexing = indexing_on(&platform);
                let commit_threads = commit_threads_on(&platform);
                let activity = Arc::new(Activity::new(Arc::clone(&platform.clock)));
                Ok(DatabaseOptions {
                    is_in_memory: false,
                    node_tag: model::NodeTag::A,
                    platform,
                    environment,
                    queue,
                    commit_threads,
                    disk_space,
                    scripts,
                    indexing,
                    huge_documents: HugeDocumentLimits::default(),
                    activity,
                    tombstones_interval: Duration::from_secs(300),
                    deletions_needed: Arc::new(|_, _| Vec::new()),
                    on_refused: |_, _| (),
                })
            }
        };
        let options = RegistryOptions {
            memory: database::DatabaseMemory::unlimited(),
            concurrent_loads_max: 1,
            close_timeout: Duration::from_secs(60),
            on_event: |_| (),
        };
        let registry = DatabaseRegistry::new(catalog, Arc::clone(&flusher), options, options_of);
        let limit = platform.memory.limit().unwrap();
        let memory = Arc::new(MemoryPressure::new(limit, 200 * MB));
        let open_files = Arc::new(AtomicU64::new(0));
        let reported = Arc::new(Mutex::new(Vec::new()));
        let watch = {
            let reported = Arc::clone(&reported);
            ResourceWatch::new(
                registry.clone(),
                Arc::clone(&flusher),
                platform,
                Arc::clone(&memory),
                {
                    let open = Arc::clone(&open_files);
                    move || Some(OpenFiles { open: open.load(Ordering::SeqCst), limit: 1000 })
                },
                move |event| reported.lock().unwrap().push(event.clone()),
            )
        };
        Machine { simulation, registry, memory, watch, reported, open_files, _flusher: flusher }
    }

    fn open(&self, name: &str) -> DatabaseLease {
        loop {
            match self.registry.access(name).unwrap() {
                Access::Ready(lease) => return lease,
                Access::Wait(ticket) => {
                    let (sender, receiver) = mpsc::channel();
                    ticket.on_arrival(move |arrival| drop(sender.send(arrival))).unwrap();
                    receiver.recv().unwrap().unwrap();
                }
            }
        }
    }

    fn free_bytes(&self) -> u64 {
        self.simulation.platform.disk.space(Path::new("/data")).unwrap().free_bytes
    }

    /// Leaves that many bytes free.
    fn leave_free(&self, bytes: u64) {
        self.simulation.disk.space_limit(Some(1 << 40));
        let taken = (1 << 40) - self.free_bytes();
        self.simulation.disk.space_limit(Some(taken + bytes));
    }

    fn reported(&self) -> Vec<ResourceEvent> {
        std::mem::take(&mut self.reported.lock().unwrap())
    }

    /// The levels of the disks that were reported.
    fn reported_levels(&self) -> Vec<DiskSpaceLevel> {
        let level = |event: &ResourceEvent| match event {
            ResourceEvent::DiskSpace { reading, .. } => Some(reading.level),
            _ => None,
        };
        self.reported().iter().filter_map(level).collect()
    }
}

fn put_text(id: &str, text: &str) -> Batch {
    let json = format!("{{\"Text\":\"{text}\"}}");
    let limits = blittable::ParseLimits::default();
    let body = blittable::parse_document(json.as_bytes(), &limits).unwrap();
    let id = RequestedId::parse(Some(id), IdSeparator::default()).unwrap();
    Batch::one(Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body }))
}

fn try_put(database: &DatabaseLease, id: &str) -> Result<(), SubmitError> {
    database.queue().submit_and_wait(put_text(id, "short"))?.unwrap();
    Ok(())
}

fn count(database: &DatabaseLease) -> u64 {
    documents::progress(&database.read()).unwrap().documents
}

const LIMITS: DiskSpaceLimits =
    DiskSpaceLimits { alert_bytes: 500 * MB, alert_percent: 0, write_bytes: 100 * MB };

#[test]
fn a_low_disk_warns_then_refuses_writes_reads_go_on_and_it_ends_by_itself() {
    let machine = Machine::new(&["a"], LIMITS);
    let database = machine.open("a");
    try_put(&database, "before").unwrap();
    machine.watch.check();
    assert!(machine.reported_levels().is_empty());

    machine.leave_free(400 * MB);
    machine.watch.check();
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Low], "once");
    try_put(&database, "warned").unwrap();

    machine.leave_free(50 * MB);
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Refusing]);
    let refused = try_put(&database, "refused").unwrap_err();
    let SubmitError::LowDiskSpace(low) = &refused else { panic!("{refused:?}") };
    assert_eq!((low.free_bytes, low.was_full), (machine.free_bytes(), false));
    assert!(low.directory.starts_with("/data/Databases/a"));
    let text = refused.to_string();
    assert!(text.contains(&machine.free_bytes().to_string()) && text.contains("/data"), "{text}");
    assert_eq!(count(&database), 2, "reading goes on");

    // A little more than the limit is not enough, or the state would flicker.
    machine.leave_free(105 * MB);
    machine.watch.check();
    assert!(machine.reported_levels().is_empty());
    try_put(&database, "refused").unwrap_err();

    machine.leave_free(2000 * MB);
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Enough]);
    try_put(&database, "after").unwrap();
    assert_eq!(count(&database), 3);
}

#[test]
fn a_database_that_opens_on_a_low_disk_refuses_from_its_first_write() {
    let machine = Machine::new(&["a"], LIMITS);
    machine.leave_free(50 * MB);
    let database = machine.open("a");
    assert!(matches!(try_put(&database, "x"), Err(SubmitError::LowDiskSpace(_))));
    assert_eq!(database.disk_space().level, DiskSpaceLevel::Refusing);
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Refusing]);
}

#[test]
fn a_database_on_a_full_disk_is_opened_and_read() {
    let machine = Machine::new(&["a"], DiskSpaceLimits::NONE);
    try_put(&machine.open("a"), "before").unwrap();
    machine.registry.with_closed("a", || ());
    machine.leave_free(0);
    let database = machine.open("a");
    assert_eq!(count(&database), 1);
    assert!(try_put(&database, "refused").is_err());
    machine.simulation.disk.space_limit(None);
    machine.simulation.clock.advance(Duration::from_secs(6));
    machine.watch.check();
    try_put(&database, "after").unwrap();
    assert_eq!(count(&database), 2);
}

#[test]
fn a_write_that_finds_no_room_begins_the_state_even_without_limits() {
    let machine = Machine::new(&["a"], DiskSpaceLimits::NONE);
    let database = machine.open("a");
    machine.leave_free(3 * MB);
    let mut random = Random::new(1);
    // Text that cannot be compressed.
    let mut text =
        || (0..20_000).map(|_| format!("{:016x}", random.next_u64())).collect::<String>();
    let mut written = 0;
    let failed = loop {
        match database.queue().submit_and_wait(put_text(&format!("u/{written}"), &text())).unwrap()
        {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(failed.to_string().contains("no space left"), "{failed}");
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Refusing]);
    let refused = try_put(&database, "refused").unwrap_err();
    assert!(matches!(&refused, SubmitError::LowDiskSpace(low) if low.was_full), "{refused:?}");
    assert_eq!(count(&database), written);

    machine.simulation.disk.space_limit(None);
    machine.simulation.clock.advance(Duration::from_secs(6));
    machine.watch.check();
    assert_eq!(machine.reported_levels(), [DiskSpaceLevel::Enough]);
    try_put(&database, "after").unwrap();
    assert_eq!(count(&database), written + 1);
}

#[test]
fn low_memory_flushes_at_once_closes_the_unused_and_ends_by_itself() {
    let machine = Machine::new(&["used", "idle"], DiskSpaceLimits::NONE);
    drop(machine.open("idle"));
    let used = machine.open("used");
    try_put(&used, "x").unwrap();
    assert!(used.environment().statistics().unflushed_bytes > 0);
    let look = || {
        machine.simulation.clock.advance(Duration::from_secs(11));
        machine.watch.check();
    };
    machine.simulation.memory.set_taken(700 * MB);
    look();
    assert_eq!(machine.memory.level(), MemoryLevel::Enough);

    machine.simulation.memory.set_taken(850 * MB);
    look();
    look();
    look();
    assert_eq!(machine.memory.level(), MemoryLevel::Low);
    assert!(machine.registry.if_open("idle").is_none(), "it was not in use");
    assert!(machine.registry.if_open("used").is_some());
    // The flusher has a thread of its own.
    while used.environment().statistics().unflushed_bytes > 0 {
        std::thread::yield_now();
    }

    machine.simulation.memory.set_taken(950 * MB);
    look();
    assert_eq!(machine.memory.level(), MemoryLevel::Critical);
    machine.simulation.memory.set_taken(100 * MB);
    look();
    let levels: Vec<MemoryLevel> = machine
        .reported()
        .iter()
        .filter_map(|event| match event {
            ResourceEvent::Memory(reading) => Some(reading.level),
            _ => None,
        })
        .collect();
    assert_eq!(levels, [MemoryLevel::Low, MemoryLevel::Critical, MemoryLevel::Enough]);
    assert_eq!(machine.memory.changes().len(), 3);
}

#[test]
fn few_descriptors_close_the_unused_and_are_reported_once() {
    let machine = Machine::new(&["used", "idle"], DiskSpaceLimits::NONE);
    drop(machine.open("idle"));
    let _used = machine.open("used");
    let look = || {
        machine.simulation.clock.advance(Duration::from_secs(11));
        machine.watch.check();
    };
    machine.open_files.store(800, Ordering::SeqCst);
    (0..3).for_each(|_| look());
    assert!(machine.registry.if_open("idle").is_some(), "there are enough");
    machine.open_files.store(900, Ordering::SeqCst);
    (0..3).for_each(|_| look());
    assert!(machine.registry.if_open("idle").is_none(), "it was not in use");
    assert!(machine.registry.if_open("used").is_some());
    machine.open_files.store(100, Ordering::SeqCst);
    (0..3).for_each(|_| look());
    let reported = machine.reported();
    let open = reported.iter().filter_map(|event| match event {
        ResourceEvent::OpenFiles(files) => Some((files.open, files.is_short())),
        _ => None,
    });
    assert_eq!(open.collect::<Vec<_>>(), [(900, true), (100, false)]);
}

#[test]
fn a_machine_without_memory_counts_whatever_this_process_has() {
    let machine = Machine::new(&[], DiskSpaceLimits::NONE);
    machine.simulation.memory.set_machine_free(100 * MB);
    machine.watch.check();
    assert_eq!(machine.memory.level(), MemoryLevel::Low);
}

/// A clock that jumps, so that every operation measured by it appears slow.
struct LeapingClock(Arc<platform::simulated::SimulatedClock>);

impl platform::Clock for LeapingClock {
    fn now(&self) -> platform::Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(Duration::from_millis(300));
        self.0.monotonic()
    }
}

#[test]
fn slow_io_is_reported_once_with_its_file_and_kept() {
    let simulation = Platform::simulated(2);
    let clock = Arc::new(LeapingClock(Arc::clone(&simulation.clock)));
    let platform = Platform { clock, ..simulation.platform.clone() };
    let catalog = Arc::new(ServerCatalog::open(&platform, "/data/System".into()).unwrap());
    catalog.create(record("a")).unwrap();
    let flusher = Arc::new(Flusher::start(0, Arc::clone(&platform.clock), |_| ()).unwrap());
    let options_of = {
        let platform = platform.clone();
        move |_: &DatabaseRecord| {
            let mut environment = EnvironmentOptions::new("/data/a");
            environment.slow_io_min = Duration::from_millis(300);
            let (platform, queue) = (platform.clone(), CommitQueueOptions::default());
            let scripts = ScriptPool::new(Arc::clone(&platform.clock));
            let indexing = indexing_on(&platform);
            let commit_threads = commit_threads_on(&platform);
            let activity = Arc::new(Activity::new(Arc::clone(&platform.clock)));
            let disk_space = DiskSpaceLimits::NONE;
            Ok(DatabaseOptions {
                is_in_memory: false,
                node_tag: model::NodeTag::A,
                platform,
                environment,
                queue,
                commit_threads,
                disk_space,
                scripts,
                indexing,
                huge_documents: HugeDocumentLimits::default(),
                activity,
                tombstones_interval: Duration::from_secs(300),
                deletions_needed: Arc::new(|_, _| Vec::new()),
                on_refused: |_, _| (),
            })
        }
    };
    let options = RegistryOptions {
        memory: database::DatabaseMemory::unlimited(),
        concurrent_loads_max: 1,
        close_timeout: Duration::ZERO,
        on_event: |_| (),
    };
    let registry = DatabaseRegistry::new(catalog, Arc::clone(&flusher), options, options_of);
    let memory = Arc::new(MemoryPressure::new(platform.memory.limit().unwrap(), 1));
    let reported = Arc::new(Mutex::new(Vec::new()));
    let watch = {
        let reported = Arc::clone(&reported);
        let report = move |event: &ResourceEvent| reported.lock().unwrap().push(event.clone());
        ResourceWatch::new(registry.clone(), flusher, platform, memory, || None, report)
    };
    let Ok(Access::Wait(ticket)) = registry.access("a") else { panic!("it is not open yet") };
    let (sender, receiver) = mpsc::channel();
    ticket.on_arrival(move |arrival| drop(sender.send(arrival))).unwrap();
    receiver.recv().unwrap().unwrap();
    let database = registry.if_open("a").unwrap();
    watch.check();
    reported.lock().unwrap().clear();

    try_put(&database, "x").unwrap();
    watch.check();
    let first = std::mem::take(&mut *reported.lock().unwrap());
    let writes = first.iter().filter(|event| {
        matches!(event, ResourceEvent::SlowIo { database, directory, operation }
            if database == "a" && directory.ends_with("journals")
                && operation.file.ends_with(".journal") && operation.bytes > 0
                && operation.duration >= Duration::from_millis(300))
    });
    assert!(writes.count() > 0, "{first:?}");
    watch.check();
    assert!(reported.lock().unwrap().is_empty(), "once");
    assert!(!database.environment().slow_io(storage::IoPosition::default()).0.is_empty());
}
