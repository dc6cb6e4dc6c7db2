//! Opening, sharing and closing databases from many threads.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use commands::{Batch, Command, CommitQueueOptions};
use database::{
    Access, AccessError, Activity, DatabaseLease, DatabaseMemory, DatabaseOptions,
    DatabaseRegistry, DiskSpaceLimits, Flusher, HugeDocumentLimits, LoadError, NewDatabase,
    RegistryOptions, ServerCatalog,
};
use documents::{ExpectedVersion, PutDocument, RequestedId};
use model::{DatabaseRecord, IdSeparator};
use platform::Platform;
use script::ScriptPool;
use storage::{EnvironmentOptions, MemoryBudget};

use crate::{commit_threads_on, indexing_on, record, toggle};

pub(crate) struct House {
    pub(crate) platform: Platform,
    pub(crate) catalog: Arc<ServerCatalog>,
    pub(crate) registry: DatabaseRegistry,
    loads: Arc<AtomicUsize>,
    memory: DatabaseMemory,
}

type Before = dyn Fn(&DatabaseRecord) -> Result<(), String> + Send + Sync;

impl House {
    fn new(names: &[&str], concurrent_loads_max: usize, before: Box<Before>) -> House {
        House::on(Platform::memory(), names, concurrent_loads_max, before)
    }

    /// On a disk that may already have databases.
    pub(crate) fn on(
        platform: Platform,
        names: &[&str],
        concurrent_loads_max: usize,
        before: Box<Before>,
    ) -> House {
        House::within(DatabaseMemory::unlimited(), platform, names, concurrent_loads_max, before)
    }

    /// With this memory for open databases.
    fn within(
        memory: DatabaseMemory,
        platform: Platform,
        names: &[&str],
        concurrent_loads_max: usize,
        before: Box<Before>,
    ) -> House {
        let catalog = Arc::new(ServerCatalog::open(&platform, "/data/System".into()).unwrap());
        for name in names.iter().filter(|name| catalog.record(name).is_none()) {
            catalog.create(record(name)).unwrap();
        }
        let flusher = Flusher::start(1, Arc::clone(&platform.clock), |error| panic!("{error}"));
        let loads = Arc::new(AtomicUsize::new(0));
        let options_of = {
            let (platform, loads) = (platform.clone(), Arc::clone(&loads));
            move |record: &DatabaseRecord| {
                before(record)?;
                loads.fetch_add(1, Ordering::SeqCst);
                let directory = format!("/data/Databases/{}", record.name.lower_cased());
                Ok(DatabaseOptions {
                    is_in_memory: false,
                    node_tag: model::NodeTag::A,
                    platform: platform.clone(),
                    environment: EnvironmentOptions::new(directory),
                    queue: CommitQueueOptions::default(),
                    commit_threads: commit_threads_on(&platform),
                    huge_documents: HugeDocumentLimits::default(),
                    activity: Arc::new(Activity::new(Arc::clone(&platform.clock))),
                    tombstones_interval: Duration::from_secs(300),
                    deletions_needed: Arc::new(|_, _| Vec::new()),
                    on_refused: |_, _| (),
                    disk_space: DiskSpaceLimits::NONE,
                    scripts: ScriptPool::new(Arc::clone(&platform.clock)),
                    indexing: indexing_on(&platform),
                })
            }
        };
        let options = RegistryOptions {
            memory: memory.clone(),
            concurrent_loads_max,
            close_timeout: Duration::from_secs(60),
            on_event: |_| (),
        };
        let registry = DatabaseRegistry::new(
            Arc::clone(&catalog),
            Arc::new(flusher.unwrap()),
            options,
            options_of,
        );
        House { platform, catalog, registry, loads, memory }
    }

    /// With a small database, three that take more than a megabyte, and one that takes more than eight; they are
    /// opened one at a time.
    fn with_memory(open_bytes: u64, opening_small: Arc<MemoryBudget>) -> House {
        let open = MemoryBudget::new(open_bytes);
        let memory = DatabaseMemory { open, opening_small, ..DatabaseMemory::unlimited() };
        let house = House::within(memory, Platform::memory(), &["small"], 1, Box::new(|_| Ok(())));
        for name in ["a", "b", "c", "larger"] {
            let padding = "x".repeat(if name == "larger" { 1 << 20 } else { 128 << 10 });
            let body = format!("{{\"DatabaseName\":\"{name}\",\"Padding\":\"{padding}\"}}");
            let new = NewDatabase { body: body.into_bytes(), ..record(name) };
            house.catalog.create(new).unwrap();
        }
        house
    }

    pub(crate) fn simple(names: &[&str]) -> House {
        House::new(names, 4, Box::new(|_| Ok(())))
    }

    /// Waits for the database, as a request does.
    pub(crate) fn open(&self, name: &str) -> Result<DatabaseLease, AccessError> {
        loop {
            match self.registry.access(name)? {
                Access::Ready(lease) => return Ok(lease),
                Access::Wait(ticket) => {
                    let (sender, receiver) = mpsc::channel();
                    ticket.on_arrival(move |arrival| drop(sender.send(arrival)))?;
                    receiver.recv().unwrap().map_err(AccessError::Load)?;
                }
            }
        }
    }
}

pub(crate) fn put(database: &DatabaseLease, id: &str) {
    let body = blittable::parse_document(b"{}", &blittable::ParseLimits::default()).unwrap();
    let id = RequestedId::parse(Some(id), IdSeparator::default()).unwrap();
    let command = Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body });
    database.queue().submit_and_wait(Batch::one(command)).unwrap().unwrap();
}

pub(crate) fn count(database: &DatabaseLease) -> u64 {
    documents::progress(&database.read()).unwrap().documents
}

#[test]
fn many_first_requests_open_a_database_once() {
    let house = House::simple(&["a"]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| house.open("A").unwrap());
        }
    });
    assert_eq!(house.loads.load(Ordering::SeqCst), 1);
    assert!(matches!(house.open("nope"), Err(AccessError::Missing)));
}

#[test]
fn a_database_that_needs_the_memory_of_others_closes_those_that_are_not_in_use() {
    let house = House::with_memory(3 << 20, MemoryBudget::unlimited());
    let open = Arc::clone(&house.memory.open);
    let used = house.open("a").unwrap();
    put(&used, "kept");
    drop(house.open("b").unwrap());
    let two = open.held_bytes();
    assert!((2 << 20) < two && two <= open.bytes_max(), "{two}");
    let also_used = house.open("c").unwrap();
    let leases = house.registry.open_leases();
    let names: Vec<_> =
        leases.iter().map(|lease| lease.record().name.as_str().to_owned()).collect();
    assert!(names.contains(&"a".to_owned()) && !names.contains(&"b".to_owned()), "{names:?}");
    assert_eq!(count(&used), 1);
    assert_eq!(open.held_bytes(), two);
    // One that is larger than all of the memory is opened where no other is open that is not small.
    drop((used, also_used, leases));
    drop(house.open("larger").unwrap());
    assert_eq!(open.held_bytes(), open.bytes_max());
}

#[test]
fn databases_that_wait_for_memory_are_in_nobodys_way() {
    let house = House::with_memory(3 << 20, MemoryBudget::unlimited());
    let used = [house.open("a").unwrap(), house.open("b").unwrap()];
    assert!(matches!(house.registry.access("c"), Ok(Access::Wait(_))));
    assert!(matches!(house.registry.access("larger"), Ok(Access::Wait(_))));
    // Only one is opened at a time, but those do not count.
    put(&house.open("small").unwrap(), "x");
    assert!(house.registry.if_open("c").is_none());
    drop(used);
    drop(house.open("c").unwrap());
    drop(house.open("larger").unwrap());
}

#[test]
fn small_databases_that_are_open_take_only_what_is_measured_and_wait_when_memory_is_used_up() {
    let opening_small = MemoryBudget::new(1 << 20);
    let house = House::with_memory(3 << 20, Arc::clone(&opening_small));
    drop(house.open("small").unwrap());
    assert_eq!((house.memory.open.held_bytes(), opening_small.held_bytes()), (0, 0));
    house.registry.with_closed("small", || ());
    let mut others = opening_small.share(0);
    others.try_grow_to(1 << 20).unwrap();
    // What is not small has other memory.
    drop(house.open("a").unwrap());
    assert!(matches!(house.registry.access("small"), Ok(Access::Wait(_))));
    while house.registry.if_open("a").is_some() {
        std::thread::yield_now();
    }
    assert!(house.registry.if_open("small").is_none());
    drop(others);
    put(&house.open("small").unwrap(), "x");
}

#[test]
fn a_database_that_is_slow_to_open_delays_no_other() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let before = move |record: &DatabaseRecord| {
        if record.name.as_str() == "slow" {
            released.lock().unwrap().recv().unwrap();
        }
        Ok(())
    };
    let house = House::new(&["slow", "fast"], 4, Box::new(before));
    assert!(matches!(house.registry.access("slow"), Ok(Access::Wait(_))));
    put(&house.open("fast").unwrap(), "x");
    assert!(house.registry.if_open("slow").is_none());
    release.send(()).unwrap();
    house.open("slow").unwrap();
}

#[test]
fn only_so_many_open_at_once_and_the_others_come_after_them() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let before = {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        move |_: &DatabaseRecord| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    };
    let names: Vec<String> = (0..12).map(|n| format!("d{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let house = House::new(&names, 2, Box::new(before));
    std::thread::scope(|scope| {
        for name in names {
            let house = &house;
            scope.spawn(move || house.open(name).unwrap());
        }
    });
    assert_eq!(house.loads.load(Ordering::SeqCst), 12);
    assert!(most.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_failed_opening_is_reported_and_the_next_request_tries_again() {
    let tries = Arc::new(AtomicUsize::new(0));
    let before = {
        let tries = Arc::clone(&tries);
        move |_: &DatabaseRecord| match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Err("not yet".to_owned()),
            1 => panic!("worse"),
            _ => Ok(()),
        }
    };
    let house = House::new(&["a"], 1, Box::new(before));
    let Err(AccessError::Load(error)) = house.open("a") else { panic!("it opened") };
    assert!(matches!(&*error, LoadError::Settings { message } if message == "not yet"));
    let Err(AccessError::Load(error)) = house.open("a") else { panic!("it opened") };
    assert!(matches!(*error, LoadError::Panicked));
    house.open("a").unwrap();
}

#[test]
fn closing_waits_for_the_users_and_keeps_the_name_taken() {
    let house = House::simple(&["a"]);
    let lease = house.open("a").unwrap();
    put(&lease, "x");
    let (started, has_started) = mpsc::channel();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            house.registry.with_closed("A", || {
                started.send(()).unwrap();
                house.platform.disk.lock_dir("/data/Databases/a".as_ref()).is_ok()
            })
        });
        while !lease.is_closing() {
            std::thread::yield_now();
        }
        assert!(has_started.try_recv().is_err(), "the database is still in use");
        assert!(matches!(house.registry.access("a"), Ok(Access::Wait(_))));
        assert_eq!(count(&lease), 1);
        drop(lease);
        assert!(closing.join().unwrap());
    });
    assert_eq!(count(&house.open("a").unwrap()), 1);
    assert_eq!(house.loads.load(Ordering::SeqCst), 2);
}

#[test]
fn only_databases_without_requests_are_closed_as_idle() {
    let house = House::simple(&["used", "held", "idle"]);
    let held = house.open("held").unwrap();
    drop(house.open("idle").unwrap());
    for _ in 0..3 {
        drop(house.open("used").unwrap());
        house.registry.close_idle(1);
    }
    assert!(house.registry.if_open("used").is_some());
    assert!(house.registry.if_open("held").is_some());
    assert!(house.registry.if_open("idle").is_none());
    drop(held);
    house.open("idle").unwrap();
}

#[test]
fn a_failed_database_is_opened_again_through_recovery() {
    let house = House::simple(&["a"]);
    let lease = house.open("a").unwrap();
    put(&lease, "x");
    house.registry.reopen_after_failure(&lease);
    house.registry.reopen_after_failure(&lease);
    drop(lease);
    while house.loads.load(Ordering::SeqCst) < 2 {
        let lease = house.open("a").unwrap();
        assert_eq!(count(&lease), 1);
    }
}

#[test]
fn disabled_databases_and_a_server_that_stops_open_nothing() {
    let house = House::simple(&["a", "b"]);
    drop(house.open("b").unwrap());
    house.catalog.update("a", toggle(true)).unwrap();
    assert!(matches!(house.open("a"), Err(AccessError::Disabled)));
    house.registry.close_all();
    assert!(matches!(house.open("b"), Err(AccessError::ShuttingDown)));
}

#[test]
fn a_locked_database_refuses_requests_instead_of_letting_them_wait() {
    let house = House::simple(&["a"]);
    put(&house.open("a").unwrap(), "x/1");
    let seen = house.registry.with_locked("A", "it is being tested", || house.open("a").err());
    assert!(matches!(seen, Some(AccessError::Locked { reason: "it is being tested" })));
    assert_eq!(count(&house.open("a").unwrap()), 1);
}
