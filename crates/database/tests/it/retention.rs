//! Expiring, refreshing and archiving documents, with a clock that the test advances.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use cluster_state::RecordDraft;
use commands::{Batch, Command, CommitQueueOptions};
use database::{
    Access, Activity, DatabaseLease, DatabaseOptions, DatabaseRegistry, Decision, DiskSpaceLimits,
    Flusher, HugeDocumentLimits, RegistryOptions, Retention, RetentionEvent, ServerCatalog,
    TombstoneHolder, TombstoneNeed,
};
use documents::{ExpectedVersion, PutDocument, RequestedId, TombstoneKind};
use model::{
    DatabaseRecord, DocumentId, Etag, IdSeparator, RetentionKind, date, ticks::TICKS_PER_SECOND,
};
use platform::{Platform, simulated::Simulation};
use script::ScriptPool;
use storage::EnvironmentOptions;

use crate::{commit_threads_on, indexing_on, record};

const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

pub(crate) struct Machine {
    pub(crate) simulation: Simulation,
    registry: DatabaseRegistry,
    retention: Retention,
    reported: Arc<Mutex<Vec<RetentionEvent>>>,
    _flusher: Arc<Flusher>,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine::with_tombstones_for(NEVER)
    }

    /// Removes tombstones at this interval.
    fn with_tombstones_for(tombstones_interval: Duration) -> Machine {
        let simulation = Platform::simulated(1);
        let platform = simulation.platform.clone();
        let catalog = Arc::new(ServerCatalog::open(&platform, "/data/System".into()).unwrap());
        catalog.create(record("a")).unwrap();
        let flusher = Arc::new(Flusher::start(1, Arc::clone(&platform.clock), |_| ()).unwrap());
        let options_of = {
            let platform = platform.clone();
            move |record: &DatabaseRecord| {
                let directory = format!("/data/Databases/{}", record.name.lower_cased());
                Ok(DatabaseOptions {
                    is_in_memory: false,
                    node_tag: model::NodeTag::A,
                    environment: EnvironmentOptions::new(directory),
                    queue: CommitQueueOptions::default(),
                    commit_threads: commit_threads_on(&platform),
                    huge_documents: HugeDocumentLimits::default(),
                    activity: Arc::new(Activity::new(Arc::clone(&platform.clock))),
                    tombstones_interval,
                    deletions_needed: Arc::new(|_, _| Vec::new()),
                    on_refused: |_, _| (),
                    disk_space: DiskSpaceLimits {
                        alert_bytes: 0,
                        alert_percent: 0,
                        write_bytes: 0,
                    },
                    scripts: ScriptPool::new(Arc::clone(&platform.clock)),
                    indexing: indexing_on(&platform),
                    platform: platform.clone(),
                })
            }
        };
        let options = RegistryOptions {
            memory: database::DatabaseMemory::unlimited(),
            concurrent_loads_max: 1,
            close_timeout: Duration::from_secs(60),
            on_event: |_| (),
        };
        let registry =
            DatabaseRegistry::new(Arc::clone(&catalog), Arc::clone(&flusher), options, options_of);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let retention = {
            let reported = Arc::clone(&reported);
            Retention::new(registry.clone(), platform, move |event| {
                reported.lock().unwrap().push(event.clone());
            })
        };
        Machine { simulation, registry, retention, reported, _flusher: flusher }
    }

    pub(crate) fn open(&self) -> DatabaseLease {
        loop {
            match self.registry.access("a").unwrap() {
                Access::Ready(lease) => return lease,
                Access::Wait(ticket) => {
                    let (sender, receiver) = mpsc::channel();
                    ticket.on_arrival(move |arrival| drop(sender.send(arrival))).unwrap();
                    receiver.recv().unwrap().unwrap();
                }
            }
        }
    }

    pub(crate) fn configure(&self, sections: &str) {
        let change = |_: &DatabaseRecord, draft: &mut RecordDraft| {
            draft.body = sections.as_bytes().to_vec();
            Decision::Replace
        };
        assert!(self.registry.change_record("a", change).unwrap().is_some());
    }

    /// Runs once after this many seconds. Returns what was reported.
    fn look_after(&self, seconds: u64) -> Vec<(bool, u64)> {
        let reported = self.reported_after(seconds);
        let shown = reported.iter().map(|event| match event {
            RetentionEvent::Done { kind, documents, .. } => {
                (*kind == RetentionKind::Expiration, *documents)
            }
            RetentionEvent::PoliciesApplied { .. } => panic!("no database has policies here"),
            RetentionEvent::TombstonesRemoved { .. } => panic!("tombstones stay here"),
            RetentionEvent::Failed { message, .. } => panic!("{message}"),
        });
        shown.collect()
    }

    /// The same, as it was reported.
    pub(crate) fn reported_after(&self, seconds: u64) -> Vec<RetentionEvent> {
        self.simulation.clock.advance(Duration::from_secs(seconds));
        self.retention.check();
        std::mem::take(&mut *self.reported.lock().unwrap())
    }

    fn put(&self, database: &DatabaseLease, id: &str, property: &str, seconds: i64) {
        let time = self.simulation.platform.clock.now().ticks() + seconds * TICKS_PER_SECOND;
        let json = format!(r#"{{"@metadata":{{"{property}":"{}"}}}}"#, date::format(time));
        let limits = blittable::ParseLimits::default();
        let body = blittable::parse_document(json.as_bytes(), &limits).unwrap();
        let id = RequestedId::parse(Some(id), IdSeparator::default()).unwrap();
        let put = PutDocument { id, expected: ExpectedVersion::Any, body };
        database.queue().submit_and_wait(Batch::one(Command::Put(put))).unwrap().unwrap();
    }
}

fn count(database: &DatabaseLease) -> u64 {
    documents::progress(&database.read()).unwrap().documents
}

#[test]
fn documents_expire_and_are_refreshed_as_often_as_is_configured() {
    let machine = Machine::new();
    let database = machine.open();
    for number in 0..1500 {
        machine.put(&database, &format!("t/{number}"), "@expires", 5);
    }
    machine.put(&database, "t/later", "@expires", 10_000);
    machine.put(&database, "t/refresh", "@refresh", 5);
    assert!(machine.look_after(1000).is_empty(), "it is not configured");
    machine.configure(
        r#"{"Expiration":{"DeleteFrequencyInSec":60},"Refresh":{"RefreshFrequencyInSec":30}}"#,
    );
    assert!(machine.look_after(0).is_empty(), "the first interval has begun");
    assert_eq!(machine.look_after(31), [(false, 1)]);
    assert_eq!(machine.look_after(30), [(true, 1500)]);
    assert_eq!(count(&database), 2);
    assert!(machine.look_after(61).is_empty());
    assert_eq!(machine.look_after(10_000), [(true, 1)]);
    machine.put(&database, "t/more", "@expires", 0);
    machine.configure(r#"{"Expiration":{"Disabled":true,"DeleteFrequencyInSec":60}}"#);
    assert!(machine.look_after(1000).is_empty());
}

#[test]
fn one_look_deals_with_no_more_than_is_configured() {
    let machine = Machine::new();
    let database = machine.open();
    for number in 0..7 {
        machine.put(&database, &format!("t/{number}"), "@expires", 0);
    }
    machine.configure(r#"{"Expiration":{"DeleteFrequencyInSec":60,"MaxItemsToProcess":3}}"#);
    let looks = [machine.look_after(0), machine.look_after(60), machine.look_after(60)];
    assert_eq!(looks, [vec![], vec![(true, 3)], vec![(true, 3)]]);
    assert_eq!(count(&database), 1);
}

/// A follower of deletions, as replication will be.
struct Follower(Mutex<Etag>);

impl TombstoneHolder for Follower {
    fn tombstone_needs(&self) -> Vec<TombstoneNeed> {
        vec![TombstoneNeed {
            holder: "to B".to_owned(),
            process: "Replication",
            condition: "Running",
            kind: TombstoneKind::Documents,
            collection: None,
            known: *self.0.lock().unwrap(),
        }]
    }
}

#[test]
fn tombstones_are_removed_as_often_as_is_configured_but_those_that_somebody_needs() {
    let machine = Machine::with_tombstones_for(Duration::from_secs(300));
    let database = machine.open();
    let removed = |seconds| {
        let reported = machine.reported_after(seconds).into_iter().map(|event| match event {
            RetentionEvent::TombstonesRemoved { tombstones, .. } => tombstones,
            other => panic!("{other:?}"),
        });
        reported.sum::<u64>()
    };
    assert_eq!(removed(0), 0);
    for number in 0..3 {
        machine.put(&database, &format!("t/{number}"), "Name", 0);
    }
    let delete = |id: &str| {
        let (id, expected) = (DocumentId::new(id).unwrap(), ExpectedVersion::Any);
        let batch = Batch::one(Command::Delete { id, expected });
        database.queue().submit_and_wait(batch).unwrap().unwrap().last_etag
    };
    let follower = Arc::new(Follower(Mutex::new(delete("t/0"))));
    let holder: Arc<dyn TombstoneHolder> = Arc::clone(&follower) as _;
    database.tombstone_holders().register(Arc::downgrade(&holder));
    delete("t/1");
    assert_eq!(removed(100), 0, "it is not yet time");
    assert_eq!(removed(200), 1);
    assert_eq!(database.tombstone_needs(), follower.tombstone_needs());
    assert_eq!(removed(300), 0);
    *follower.0.lock().unwrap() = delete("t/2");
    assert_eq!(removed(300), 2);
    drop((holder, follower));
    assert_eq!(database.tombstone_needs(), []);
}
