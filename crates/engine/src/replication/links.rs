//! Which links there are. A link has a thread while it has something to do, and a moment longer: an idle one costs memory
//! only.
//!
//! Invariant: a destination of a database has at most one link.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
    thread::JoinHandle,
    time::Duration,
};

use database::{DeletionsNeeded, TombstoneNeed};
use documents::TombstoneKind;
use model::{DatabaseId, DatabaseName, DatabaseRecord, Etag, NodeTag};
use platform::Clock;
use wire::RecordBody;

use super::{
    destinations::{DestinationKey, Direction, InternalDestination, LinkDestination},
    hub_sessions::HubSessions,
    hubs::{HubTask, hubs_of},
    link::{self, Link},
    receiving::Incoming,
    server_wide::Followed,
    sinks::{SinkTask, sinks_of},
    staging::Staging,
    statistics::{LinkState, LinkStatistics},
    tasks::{ReplicationTask, tasks_of},
};
use crate::{
    engine::Engine,
    etl::{Cancel, Outbound, Signal},
};

/// Links of all databases.
const LINKS_MAX: usize = 16_384;
/// How long the deletions of a database with a hub are kept for sinks that are away.
const HUB_RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Stands for all hubs of a database where the age of deletions is remembered.
const RETENTION_OF_HUBS: u64 = 0;

/// See the module.
#[derive(Default)]
pub(crate) struct ReplicationLinks {
    inner: Mutex<Inner>,
    /// What other databases send.
    pub(super) incoming: Incoming,
    /// Contents of attachments on their way.
    pub(super) staging: Staging,
    /// The sinks of hubs.
    pub(super) hubs: HubSessions,
    /// The tasks that every database has.
    pub(super) server_wide: Followed,
    /// Tasks that wait until destinations have something.
    waiting: Mutex<Vec<Waker>>,
    /// The address of this server, for operators of others.
    own_url: OnceLock<String>,
}

#[derive(Default)]
struct Inner {
    running: Vec<Running>,
    /// The other members of the groups of databases.
    members: HashMap<DatabaseId, Vec<InternalDestination>>,
    /// The index of the shared state that the links follow.
    seen_index: u64,
    /// The tasks of each record, by the version of the record.
    known: HashMap<DatabaseId, (u64, Arc<RecordTasks>)>,
    is_closing: bool,
}

struct Running {
    shared: Arc<LinkShared>,
}

/// What a record defines.
struct RecordTasks {
    tasks: Vec<ReplicationTask>,
    sinks: Vec<SinkTask>,
    hubs: Vec<HubTask>,
}

impl RecordTasks {
    fn of(record: &DatabaseRecord) -> RecordTasks {
        let body = RecordBody::of_record(record);
        RecordTasks { tasks: tasks_of(record), sinks: sinks_of(&body), hubs: hubs_of(&body) }
    }

    /// Where the links lead that a node has to run.
    fn destinations(&self, record: &DatabaseRecord, own: NodeTag) -> Vec<LinkDestination> {
        let tasks = self.tasks.iter().filter(|task| task.node(&record.topology) == Some(own));
        let sinks = self.sinks.iter().filter(|sink| sink.node(&record.topology) == Some(own));
        let of_tasks = tasks.filter_map(ReplicationTask::destination);
        of_tasks.chain(sinks.flat_map(SinkTask::destinations)).collect()
    }
}

/// Where a link is.
enum Place {
    /// On its thread, which may be about to begin or to end.
    Thread(Option<JoinHandle<()>>),
    /// Nowhere, until it is woken.
    Parked(Box<Link>),
    /// It has ended.
    Ended,
}

/// What a link shares with others.
pub(super) struct LinkShared {
    place: Mutex<Place>,
    pub(super) database: DatabaseId,
    pub(super) database_name: DatabaseName,
    pub(super) destination: LinkDestination,
    pub(super) cancel: Cancel,
    pub(super) signal: Signal,
    /// Whether the destination is to be asked whether it is there, even if there is nothing to send.
    pub(super) asks: AtomicBool,
    /// The link on its way to a thread.
    next: Mutex<Option<Box<Link>>>,
    /// If it is done with a database that was closed: how often that was opened until then; otherwise 0.
    pub(super) done_at_opening: AtomicU64,
    pub(super) statistics: Mutex<LinkStatistics>,
}

impl LinkShared {
    pub(super) fn statistics(&self) -> MutexGuard<'_, LinkStatistics> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the link look at its log again. If no thread can be started, the next call tries again.
    pub(super) fn wake(self: &Arc<Self>) {
        self.signal.wake();
        let mut place = self.place();
        if let Place::Parked(_) = &*place {
            self.begin(&mut place);
        }
    }

    /// Moves a parked link to a thread of its own.
    fn begin(self: &Arc<Self>, place: &mut Place) {
        // The thread takes the link from here, so that it is not lost if there is no thread.
        let shared = Arc::clone(self);
        let name = format!("link {}", self.database_name.as_str());
        let thread = std::thread::Builder::new().name(name);
        match thread.spawn(move || shared.run()) {
            Ok(thread) => {
                if let Place::Parked(link) = std::mem::replace(place, Place::Thread(Some(thread))) {
                    *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
                }
            }
            Err(error) => tracing::error!(%error, "a link of replication has no thread"),
        }
    }

    /// Runs the link on this thread until it has nothing to do for a while, or ends.
    fn run(self: Arc<Self>) {
        // It was put there before the lock was released.
        drop(self.place());
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut link) = next else { return };
        loop {
            let is_idle = link::run(&mut link);
            let mut place = self.place();
            if !is_idle || self.cancel.is_canceled() {
                *place = Place::Ended;
                return;
            }
            if !self.signal.is_woken() {
                *place = Place::Parked(link);
                return;
            }
        }
    }

    fn has_ended(&self) -> bool {
        match &*self.place() {
            Place::Ended => true,
            // It leaves this place before it ends, unless it has panicked.
            Place::Thread(Some(thread)) => thread.is_finished(),
            Place::Thread(None) | Place::Parked(_) => false,
        }
    }

    /// Has the link end soon.
    fn stop(&self) {
        self.cancel.cancel();
        self.signal.wake();
        let parked = {
            let mut place = self.place();
            match &*place {
                Place::Parked(_) => Some(std::mem::replace(&mut *place, Place::Ended)),
                Place::Thread(_) | Place::Ended => None,
            }
        };
        // Without the lock: what the link holds may be about to wake it.
        drop(parked);
    }

    /// Waits until a link that was stopped has ended.
    fn join(&self) {
        let thread = match &mut *self.place() {
            Place::Thread(thread) => thread.take(),
            Place::Parked(_) | Place::Ended => None,
        };
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }

    fn leads_to(&self, database: DatabaseId, key: &DestinationKey) -> bool {
        self.database == database && self.destination.key == *key
    }
}

impl ReplicationLinks {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The links of a database.
    pub(super) fn of_database(&self, database: DatabaseId) -> Vec<Arc<LinkShared>> {
        let inner = self.lock();
        let links = inner.running.iter().filter(|running| running.shared.database == database);
        links.map(|running| Arc::clone(&running.shared)).collect()
    }

    /// Has all links end, and waits for them.
    pub(crate) fn close(&self) {
        let running = {
            let mut inner = self.lock();
            inner.is_closing = true;
            std::mem::take(&mut inner.running)
        };
        running.iter().for_each(|running| running.shared.stop());
        running.iter().for_each(|running| running.shared.join());
    }

    /// A destination has more than before.
    pub(super) fn advanced(&self) {
        let waiting =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Wakes a task once a destination has more than now.
    pub(crate) fn wake_when_advanced(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Forgets a task that no longer waits. While no destination has more, nothing else would.
    pub(crate) fn wake_no_more(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|known| !known.will_wake(waker));
    }

    /// Whether any database has links to other members of its group.
    pub(crate) fn has_members(&self) -> bool {
        !self.lock().members.is_empty()
    }

    /// The other members of the database's group that have everything up to an etag, or what has replaced it.
    pub(crate) fn members_with(&self, database: DatabaseId, etag: Etag) -> Vec<String> {
        let links = self.of_database(database).into_iter();
        let members = links.filter_map(|link| match &link.destination.key {
            DestinationKey::Member(tag) if Some(etag) <= link.statistics().complete_until => {
                Some(tag.clone())
            }
            DestinationKey::Member(_) | DestinationKey::Task(_) | DestinationKey::Sink(..) => None,
        });
        members.collect()
    }

    /// Of the links to other members of a database's group: which of them are active, and what those members have completely.
    pub(crate) fn complete_at_members(
        &self,
        database: DatabaseId,
    ) -> BTreeMap<String, (LinkState, Option<Etag>)> {
        let links = self.of_database(database).into_iter();
        let members = links.filter_map(|link| match &link.destination.key {
            DestinationKey::Member(tag) => {
                let statistics = link.statistics();
                Some((tag.clone(), (statistics.state, statistics.complete_until)))
            }
            DestinationKey::Task(_) | DestinationKey::Sink(..) => None,
        });
        members.collect()
    }

    /// Has the link to another member of a database's group ask whether that is there: an idle one sends nothing.
    pub(crate) fn ask_member(&self, database: DatabaseId, node: NodeTag) {
        let key = DestinationKey::Member(node.to_string());
        for link in self.of_database(database).iter().filter(|link| link.destination.key == key) {
            link.asks.store(true, Ordering::SeqCst);
            link.wake();
        }
    }

    pub(super) fn own_url(&self) -> &str {
        self.own_url.get().map_or("", String::as_str)
    }

    /// What links need of the deletions of a database, whether or not they run.
    fn needs(&self, record: &DatabaseRecord) -> Vec<TombstoneNeed> {
        let RecordTasks { tasks, sinks, .. } = RecordTasks::of(record);
        let mut holders: Vec<(DestinationKey, String, bool)> = tasks
            .iter()
            .map(|ReplicationTask { definition, .. }| {
                let key = DestinationKey::Task(definition.id);
                (key, definition.name.clone(), definition.is_disabled)
            })
            .collect();
        let senders = sinks.iter().filter(|sink| sink.definition.mode.sink_to_hub);
        holders.extend(senders.map(|SinkTask { definition, .. }| {
            let key = DestinationKey::Sink(definition.id, Direction::SinkToHub);
            (key, definition.name.clone(), definition.is_disabled)
        }));
        let inner = self.lock();
        for member in inner.members.get(&record.topology_id).into_iter().flatten() {
            let tag = member.node_tag.as_str().to_owned();
            holders.push((DestinationKey::Member(tag.clone()), tag, false));
        }
        let mut needs = Vec::new();
        for (key, holder, is_disabled) in holders {
            let mut running = inner.running.iter().map(|running| &running.shared);
            let link = running.find(|link| link.leads_to(record.topology_id, &key));
            // What a destination has that was not reached yet is not known.
            let known = link.and_then(|link| link.statistics().accepted).unwrap_or(Etag::ZERO);
            let (process, condition) = (
                match key {
                    DestinationKey::Task(_) => "ExternalReplication",
                    DestinationKey::Sink(..) => "PullReplicationAsSink",
                    DestinationKey::Member(_) => "InternalReplication",
                },
                if is_disabled { "Disabled" } else { "Running" },
            );
            needs.extend(TombstoneKind::ALL.map(|kind| {
                let (holder, collection) = (holder.clone(), None);
                TombstoneNeed { holder, process, condition, kind, collection, known }
            }));
        }
        needs
    }

    /// What hubs need of the deletions of a database: any sink may come back that was away for a while.
    fn needs_of_hubs(
        &self,
        record: &DatabaseRecord,
        (now, last): (Duration, Etag),
    ) -> Vec<TombstoneNeed> {
        let hubs = hubs_of(&RecordBody::of_record(record)).into_iter();
        let senders = hubs.filter(|hub| hub.definition.mode.hub_to_sink);
        let needs = senders.flat_map(|hub| {
            let of_hub = (record.topology_id, RETENTION_OF_HUBS);
            let (known, _) = self.hubs.pace(of_hub, HUB_RETENTION, (now, last));
            let (holder, collection) = (hub.definition.name, None);
            let condition = if hub.definition.is_disabled { "Disabled" } else { "Running" };
            let process = "PullReplicationAsHub";
            TombstoneKind::ALL.map(|kind| {
                let (holder, collection) = (holder.clone(), collection.clone());
                TombstoneNeed { holder, process, condition, kind, collection, known }
            })
        });
        needs.collect()
    }
}

impl Drop for ReplicationLinks {
    fn drop(&mut self) {
        // The threads notice that the engine is gone.
        self.lock().running.iter().for_each(|running| running.shared.stop());
    }
}

/// What links need of the deletions of a database: everything that their destinations do not have; and what hubs keep for
/// sinks that are away.
pub(crate) fn tombstone_needs(
    links: Arc<ReplicationLinks>,
    clock: Arc<dyn Clock>,
) -> DeletionsNeeded {
    Arc::new(move |record, environment| {
        let mut needs = links.needs(record);
        // As long as it cannot be read, it seems not to grow.
        let last = documents::progress(&environment.read()).map(|progress| progress.last_etag);
        let now = (clock.monotonic(), last.unwrap_or(Etag::ZERO));
        needs.extend(links.needs_of_hubs(record, now));
        needs
    })
}

impl Engine {
    /// Sets the address under which other servers know this one. The first call counts.
    pub fn set_replication_url(&self, url: String) {
        drop(self.replication.own_url.set(url));
    }

    /// Sets the other members of the group of a database: what it had before is replaced. `database` is the id of its
    /// topology. Links to members that are no longer there end, and the others go on.
    pub fn set_internal_destinations(
        self: &Arc<Self>,
        database: DatabaseId,
        members: Vec<InternalDestination>,
    ) {
        {
            let mut inner = self.replication.lock();
            let known = match members.is_empty() {
                true => inner.members.remove(&database).unwrap_or_default(),
                false => inner.members.insert(database, members.clone()).unwrap_or_default(),
            };
            if known == members {
                return;
            }
            inner.seen_index = 0;
        }
        self.follow_replication();
    }

    /// What the links of a database have done, those of tasks and those to other members.
    pub fn outgoing_links(
        &self,
        record: &DatabaseRecord,
    ) -> BTreeMap<DestinationKey, (String, LinkStatistics)> {
        let links = self.replication.of_database(record.topology_id).into_iter();
        links
            .map(|link| {
                let statistics = link.statistics().clone();
                let database = link.destination.connection.database.clone();
                (link.destination.key.clone(), (database, statistics))
            })
            .collect()
    }

    /// Begins and ends links as the records say. To be called about once a second, and after a change of a task.
    pub fn follow_replication(self: &Arc<Self>) {
        let Some(outbound) = self.etl.outbound() else { return };
        let index = match self.cluster_state().last_index() {
            Ok(index) => index,
            Err(error) => {
                tracing::error!(%error, "tasks of external replication could not be read");
                return;
            }
        };
        self.follow_server_wide(index);
        let mut inner = self.replication.lock();
        if inner.is_closing {
            return;
        }
        let is_settled = !inner.running.iter().any(|running| running.shared.has_ended());
        if inner.seen_index != index || !is_settled {
            let do_all_run = self.follow_links(&mut inner, &outbound);
            // What could not begin is tried again.
            inner.seen_index = if do_all_run { index } else { 0 };
        }
        let shared: Vec<_> =
            inner.running.iter().map(|running| Arc::clone(&running.shared)).collect();
        drop(inner);
        // A link does not open a database that it is done with, but it follows one that was opened again.
        for link in shared {
            let done = link.done_at_opening.load(Ordering::SeqCst);
            let is_opened_again =
                done != 0 && done != self.registry.openings(link.database_name.as_str());
            if is_opened_again || link.signal.is_woken() {
                link.wake();
            }
        }
    }

    /// Returns whether all links run that are to.
    fn follow_links(self: &Arc<Self>, inner: &mut Inner, outbound: &Arc<dyn Outbound>) -> bool {
        let mut wanted: Vec<(Arc<DatabaseRecord>, LinkDestination)> = Vec::new();
        let mut known = HashMap::new();
        for record in self.catalog.records() {
            let tasks = match inner.known.remove(&record.topology_id) {
                Some((etag, tasks)) if etag == record.etag => tasks,
                _ => Arc::new(RecordTasks::of(&record)),
            };
            if !record.disabled {
                let members = inner.members.get(&record.topology_id).into_iter().flatten();
                let members =
                    members.map(|member| LinkDestination::member(record.name.as_str(), member));
                let of_tasks = tasks.destinations(&record, self.node_tag()).into_iter();
                wanted.extend(of_tasks.chain(members).map(|to| (Arc::clone(&record), to)));
            }
            known.insert(record.topology_id, (record.etag, tasks));
        }
        self.replication.hubs.retain(|database, hub| {
            let tasks = known.get(&database).map(|(_, tasks): &(u64, Arc<RecordTasks>)| tasks);
            tasks.is_some_and(|tasks| tasks.hubs.iter().any(|known| known.definition.id == hub))
        });
        inner.known = known;
        inner.members.retain(|database, _| inner.known.contains_key(database));
        for Running { shared, .. } in &inner.running {
            let is_same = |(record, to): &(Arc<DatabaseRecord>, LinkDestination)| {
                record.topology_id == shared.database && *to == shared.destination
            };
            if !wanted.iter().any(is_same) {
                shared.stop();
            }
        }
        inner.running.retain(|running| !running.shared.has_ended());
        let mut do_all_run = true;
        for (record, to) in wanted {
            let mut running = inner.running.iter();
            if let Some(other) =
                running.find(|running| running.shared.leads_to(record.topology_id, &to.key))
            {
                // One that leads elsewhere ends first.
                do_all_run &= other.shared.destination == to;
                continue;
            }
            if LINKS_MAX <= inner.running.len() {
                tracing::error!("there are too many links of replication; some do not run");
                return true;
            }
            inner.running.push(self.begin_link(&record, to, outbound));
        }
        do_all_run
    }

    fn begin_link(
        self: &Arc<Self>,
        record: &DatabaseRecord,
        destination: LinkDestination,
        outbound: &Arc<dyn Outbound>,
    ) -> Running {
        let shared = Arc::new(LinkShared {
            place: Mutex::new(Place::Ended),
            database: record.topology_id,
            database_name: record.name.clone(),
            destination,
            cancel: Cancel::default(),
            signal: Signal::default(),
            asks: AtomicBool::new(false),
            next: Mutex::default(),
            done_at_opening: AtomicU64::new(0),
            statistics: Mutex::default(),
        });
        let link = Link::new(Arc::downgrade(self), Arc::clone(&shared), Arc::clone(outbound));
        *shared.place() = Place::Parked(Box::new(link));
        shared.wake();
        Running { shared }
    }
}
