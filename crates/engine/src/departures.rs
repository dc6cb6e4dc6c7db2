//! Taking databases from nodes, and with them nothing that no other node has.
//!
//! The node that is to go does it itself, whichever node was asked: it refuses the writes of clients, waits until another
//! node of the database has everything, and only then leaves the record. Until it is known whether it has left, writes stay
//! refused. Only a node that does not answer is taken out by another one.

use std::{
    sync::{Arc, Weak, mpsc},
    time::Duration,
};

use cluster_state::ClusterError;
use database::{AccessError, CatalogError, DatabaseLease, LoadError, PausedWrites, WritesRefused};
use model::{DatabaseId, DatabaseRecord, NodeTag, lower_case};
use serde_json::Value;
use wire::{NodeAddress, percent_encode};

use crate::{
    deletion::FinishedDeletion,
    engine::Engine,
    error::EngineError,
    etl::{Cancel, OutboundAnswer, OutboundError, OutboundRequest, Signal, message_of},
};

/// How long a node waits until another one has everything.
const SENDING_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a node may take to leave, with what it does beside that.
const LEAVING_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a node may take to show that it is there.
const ALIVE_TIME_MAX: Duration = Duration::from_secs(3);
/// How often it is looked whether another node has everything.
const SENDING_LOOK: Duration = Duration::from_millis(20);
/// How long a node waits before it tries to leave again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A node that is to have a database no longer.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The name of the database.
    pub database: String,
    /// The id of its topology: another database of the name stays.
    pub group: DatabaseId,
    /// The node.
    pub node: NodeTag,
    /// Whether its files are removed from there.
    pub removes_files: bool,
}

impl Departure {
    /// The record, if it has the node, and others.
    fn concerned(&self, record: Option<Arc<DatabaseRecord>>) -> Option<Arc<DatabaseRecord>> {
        record.filter(|record| {
            let topology = &record.topology;
            let is_it = record.topology_id == self.group && topology.has(self.node);
            is_it && 1 < topology.nodes().count()
        })
    }

    /// Whether the node is the only one that has the database.
    fn is_last(&self, record: Option<Arc<DatabaseRecord>>) -> bool {
        record.is_some_and(|record| {
            record.topology_id == self.group && record.topology.nodes().eq([self.node])
        })
    }

    fn refused(&self, why: &str) -> EngineError {
        let Departure { database, node, .. } = self;
        EngineError::NotTaken {
            message: format!(
                "The database '{database}' cannot be taken from the node {node} now: {why}"
            ),
        }
    }
}

impl Engine {
    /// Takes databases from nodes; from the last of its nodes a database is deleted. Blocks.
    ///
    /// # Errors
    /// A database is not on one of the nodes; a node has changes that no other one has, and its files were to be removed
    /// ([`EngineError::NotTaken`]); those of [`Engine::delete_databases`].
    pub fn take_databases_from(
        self: &Arc<Self>,
        names: &[String],
        nodes: &[String],
        removes_files: bool,
    ) -> Result<Vec<FinishedDeletion>, EngineError> {
        let mut finished = Vec::new();
        for database in names {
            for node in nodes {
                let elsewhere = || EngineError::Refused {
                    message: format!(
                        "Database '{database}' doesn't reside on node '{node}' so it can't be deleted from it"
                    ),
                };
                let record = self.catalog.record(database).ok_or_else(elsewhere)?;
                let node = node.parse::<NodeTag>().ok().filter(|tag| record.topology.has(*tag));
                let node = node.ok_or_else(elsewhere)?;
                let (database, group) = (database.clone(), record.topology_id);
                let departure = Departure { database, group, node, removes_files };
                match self.take_from(&departure)? {
                    Some(index) => finished.push(FinishedDeletion { index, left: Vec::new() }),
                    None if departure.is_last(self.catalog.record(&departure.database)) => finished
                        .extend(self.delete_databases(&[departure.database], removes_files)?),
                    // It has left meanwhile.
                    None => {}
                }
            }
        }
        Ok(finished)
    }

    /// Takes a database from a node; `None` if no other one has it. Returns the index of the change.
    fn take_from(self: &Arc<Self>, departure: &Departure) -> Result<Option<u64>, EngineError> {
        if departure.node == self.node_tag() {
            return self.depart(departure);
        }
        if departure.concerned(self.catalog.record(&departure.database)).is_none() {
            return Ok(None);
        }
        let topology = self.cluster_topology()?;
        let url = topology.url_of(departure.node).and_then(|url| url.parse::<NodeAddress>().ok());
        match url {
            Some(url) if self.is_there(&url) => self.ask_to_depart(url, departure),
            Some(_) | None => self.leave_record(departure),
        }
    }

    /// Has this node leave a database; `None` if no other one has it. Returns the index of the change. Blocks.
    ///
    /// # Errors
    /// This node has changes that no other one has, and its files were to be removed; the record cannot be written.
    pub fn depart(self: &Arc<Self>, departure: &Departure) -> Result<Option<u64>, EngineError> {
        if departure.concerned(self.catalog.record(&departure.database)).is_none() {
            return Ok(None);
        }
        let Some(database) = self.opened_to_leave(departure)? else {
            return self.leave_record(departure);
        };
        let paused = match database.pause_writes() {
            Ok(paused) => paused,
            Err(WritesRefused::Leaving) => {
                return Err(departure.refused("it is leaving it already"));
            }
            // Its files are an older copy: what was written to them reaches nobody.
            Err(WritesRefused::Lost(_)) => {
                drop(database);
                return self.leave_record(departure);
            }
        };
        match self.leave_when_sent(departure, &database) {
            Ok(left) => {
                drop(database);
                self.follow_record(&lower_case(&departure.database));
                Ok(left)
            }
            Err(error @ EngineError::NotTaken { .. }) => Err(error),
            Err(error) => {
                self.leave_later(departure.clone(), database, paused);
                Err(error)
            }
        }
    }

    /// The database, opened to send what others lack; `None` if nothing of it can be sent, now or later, or its files remain.
    fn opened_to_leave(&self, departure: &Departure) -> Result<Option<DatabaseLease>, EngineError> {
        match self.open_if_usable(&departure.database, departure.group) {
            Ok(Some(database)) => Ok(Some(database)),
            _ if !departure.removes_files => Ok(None),
            Err(EngineError::NotOpened { error: AccessError::Load(error), .. })
                if matches!(
                    *error,
                    LoadError::FilesMissing { .. } | LoadError::OtherFiles { .. }
                ) =>
            {
                Ok(None)
            }
            Ok(None) => Err(departure.refused(
                "it cannot be opened there, so what no other node has cannot be sent. Take it without HardDelete, which keeps \
                 the files",
            )),
            Err(error) => Err(departure.refused(&error.to_string())),
        }
    }

    /// Leaves the record once another node has everything, if it is still the record with which that was seen: a node may
    /// have left it that had sent its last changes here alone. The database must take no writes of clients.
    fn leave_when_sent(
        &self,
        departure: &Departure,
        database: &DatabaseLease,
    ) -> Result<Option<u64>, EngineError> {
        self.leave_if(departure, |record| {
            if self.is_sent(record, database)? || !departure.removes_files {
                return Ok(());
            }
            Err(departure.refused(
                "no other node has everything that was written there, and none has received it in time. Try again when the \
                 nodes reach each other, or take it without HardDelete, which keeps the files",
            ))
        })
    }

    /// Waits until another node has everything that is in a database; returns whether it has. The database must take no
    /// writes of clients meanwhile.
    fn is_sent(
        &self,
        record: &DatabaseRecord,
        database: &DatabaseLease,
    ) -> Result<bool, EngineError> {
        // Everything that was submitted before is stored then, or has failed.
        let (stored, is_stored) = mpsc::channel();
        database.queue().after_all_before(Box::new(move || stored.send(()).unwrap_or_default()));
        is_stored.recv().unwrap_or_default();
        let progress = documents::progress(&database.read()).map_err(EngineError::Document)?;
        let clock = self.clock();
        let others: Vec<NodeTag> =
            record.topology.nodes().filter(|node| *node != self.node_tag()).collect();
        // An idle link says nothing of its destination.
        others.iter().for_each(|node| self.replication.ask_member(record.topology_id, *node));
        let (began, pause) = (clock.monotonic(), Signal::default());
        loop {
            let complete =
                self.replication.members_with(record.topology_id, progress.last_etag).into_iter();
            let mut complete = complete.filter_map(|node| node.parse::<NodeTag>().ok());
            if complete.any(|node| others.contains(&node)) {
                return Ok(true);
            }
            let elapsed = clock.monotonic().saturating_sub(began);
            if database.is_closing() || SENDING_TIME_MAX <= elapsed {
                return Ok(false);
            }
            pause.wait(SENDING_LOOK);
        }
    }

    /// Takes a node out of the record of a database, and follows that.
    pub(crate) fn leave_record(&self, departure: &Departure) -> Result<Option<u64>, EngineError> {
        let left = self.leave_if(departure, |_| Ok(()))?;
        self.follow_record(&lower_case(&departure.database));
        Ok(left)
    }

    /// Takes a node out of the record of a database, if each version of that which is tried passes the check; `None` if no
    /// other node has it.
    fn leave_if(
        &self,
        departure: &Departure,
        check: impl Fn(&DatabaseRecord) -> Result<(), EngineError>,
    ) -> Result<Option<u64>, EngineError> {
        let Departure { database, node, removes_files, .. } = departure;
        while let Some(record) = departure.concerned(self.catalog.record(database)) {
            check(&record)?;
            let Some(index) = self.catalog.take_from(&record, *node, *removes_files)? else {
                continue;
            };
            // Where nodes are replaced, one that has left on request is not to be.
            if let Err(error) = self.lower_replication_factor(database) {
                tracing::warn!(database, %error, "the replication factor stays as it was");
            }
            return Ok(Some(index));
        }
        Ok(None)
    }

    /// Goes on leaving after an error: whether the record was changed may be unknown.
    fn leave_later(
        self: &Arc<Self>,
        departure: Departure,
        database: DatabaseLease,
        paused: PausedWrites,
    ) {
        let engine = Arc::downgrade(self);
        let begun = std::thread::Builder::new().name("leave".into()).spawn(move || {
            leave_until_known(&engine, &departure, (database, paused));
        });
        if let Err(error) = begun {
            tracing::error!(%error, "a database that is to leave this node takes writes again");
        }
    }

    /// Has this node leave a database of which enough others have a copy, on a thread of its own.
    pub(crate) fn depart_in_background(self: &Arc<Self>, departure: Departure) {
        let group = departure.group;
        if !self.departures.begin(group) {
            return;
        }
        let engine = Arc::downgrade(self);
        let begun = std::thread::Builder::new().name("leave".into()).spawn(move || {
            let Some(engine) = engine.upgrade() else { return };
            let name = departure.database.as_str();
            match engine.depart(&departure) {
                Ok(Some(_)) => {
                    let message = format!(
                        "the node {} was replaced, and leaves the database with nothing that others lack",
                        departure.node
                    );
                    tracing::warn!(database = name, "{message}");
                    engine.observer_log.note(engine.clock().now().ticks(), name, message);
                }
                Ok(None) => {}
                // It is tried again in a moment.
                Err(error) => {
                    tracing::debug!(database = name, %error, "this node cannot leave yet");
                }
            }
            engine.departures.end(group);
        });
        if let Err(error) = begun {
            self.departures.end(group);
            tracing::error!(%error, "this node cannot leave a database: there is no thread");
        }
    }

    /// Whether the server at an address answers.
    fn is_there(&self, server: &NodeAddress) -> bool {
        self.request(server, ("GET", "/setup/alive".to_owned()), ALIVE_TIME_MAX).is_ok()
    }

    fn ask_to_depart(
        &self,
        server: NodeAddress,
        departure: &Departure,
    ) -> Result<Option<u64>, EngineError> {
        let Departure { database, group, node, removes_files } = departure;
        let path = format!(
            "/admin/databases/leave?name={}&group={}&node={node}&hardDelete={removes_files}",
            percent_encode(database),
            percent_encode(&group.to_string()),
        );
        let answer = self.request(&server, ("POST", path), LEAVING_TIME_MAX);
        let OutboundAnswer { status, body } =
            answer.map_err(|error| departure.refused(&error.to_string()))?;
        if !(200..300).contains(&status) {
            return Err(departure.refused(&message_of(&body)));
        }
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let index = answer["RaftCommandIndex"].as_u64();
        // It may know another version of the record.
        let index = index.ok_or_else(|| departure.refused("its nodes are changing. Try again"))?;
        Ok(Some(index))
    }

    fn request(
        &self,
        server: &NodeAddress,
        (method, path): (&'static str, String),
        time_max: Duration,
    ) -> Result<OutboundAnswer, OutboundError> {
        let outbound = self.etl.outbound().ok_or_else(|| OutboundError::Failed {
            message: "this server makes no requests to others".to_owned(),
        })?;
        let request = OutboundRequest {
            method,
            server: server.clone(),
            path,
            content_type: String::new(),
            body: Arc::default(),
            time_max,
            answer_bytes_max: ANSWER_BYTES_MAX,
            identity: None,
        };
        outbound.send(request, &Cancel::default())
    }
}

/// Tries until the node has left, or has nothing to leave; ends with the engine. The database stays open meanwhile: one that is
/// opened again takes writes.
fn leave_until_known(
    engine: &Weak<Engine>,
    departure: &Departure,
    (database, paused): (DatabaseLease, PausedWrites),
) {
    let pause = Signal::default();
    let name = departure.database.as_str();
    loop {
        pause.wait(RETRY_PAUSE);
        let Some(engine) = engine.upgrade() else { return };
        if database.is_closing() {
            drop((database, paused));
            // What is written from now on is looked at again.
            if let Err(error) = engine.depart(departure) {
                tracing::warn!(database = name, %error, "this node has not left the database");
            }
            return;
        }
        match engine.leave_when_sent(departure, &database) {
            Ok(_) => {
                drop(database);
                engine.follow_record(&lower_case(name));
                return;
            }
            Err(EngineError::Catalog(CatalogError::Cluster(ClusterError::Closed))) => return,
            Err(error) => {
                tracing::debug!(database = name, %error, "this node cannot leave yet");
            }
        }
    }
}
