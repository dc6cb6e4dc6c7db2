//! A worker of a subscription, from its options to its end.
//!
//! The session holds no lease of its database while it waits, so that the database can be closed;
//! it takes one for each piece of work, and ends when the database that it began with is no longer
//! open.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster_state::SubscriptionRecord;
use database::DatabaseLease;
use engine::{lost_position, position_on};
use model::DatabaseId;
use query::LogQuery;
use subscriptions::{
    ConnectionFacts, ReadError, Standing, StoredSubscription, Strategy, Worker, WorkerRequest,
};
use tokio::time::{Instant, timeout_at};
use wire::{
    ErrorKind, guid_text,
    tcp_shapes::{
        COUNTER_INCLUDES_SINCE, INCLUDES_SINCE, SubscriptionOptions, TIME_SERIES_INCLUDES_SINCE,
        TcpHeader,
    },
};

use crate::{
    answers::answer_places::Place,
    api_error::ApiError,
    database_access::open_database,
    http::web_socket::ConnectionPlace,
    server_state::ServerState,
    tcp::{
        messages::{MessageReader, ReadEnd, send},
        placement::require_here,
        received::receive,
        session_end::{End, occupied_text},
        wake::{SessionWake, look_after},
        working::Working,
    },
    transport::{Reading, Writing},
};

/// Numbers connections, for operators.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// The session of one worker, from its options to its end.
pub(super) struct Session {
    pub(super) state: Arc<ServerState>,
    place: ConnectionPlace,
    peer: SocketAddr,
    header: TcpHeader,
    deadline: Instant,
    wake: Arc<SessionWake>,
}

/// The database that a session began with.
#[derive(Clone)]
pub(super) struct OpenedDatabase {
    pub(super) state: Arc<ServerState>,
    name: String,
    opened: Duration,
    /// The stored progress belongs to this id.
    pub(super) id: DatabaseId,
}

impl OpenedDatabase {
    /// A short-term lease.
    pub(super) fn lease(&self) -> Result<DatabaseLease, End> {
        let open = self.state.engine.if_open(&self.name);
        open.filter(|database| database.opened_after() == self.opened).ok_or_else(End::canceled)
    }

    /// A place to read a piece of a batch, for as long as the database is open and the worker may
    /// continue.
    pub(super) async fn place_to_read(&self, worker: &Worker) -> Result<Place, End> {
        loop {
            if let Standing::Ended(ended) = worker.standing() {
                return Err(End::of_worker(ended, worker.subscription().name()));
            }
            let name = self.lease()?.record().name.lower_cased().to_owned();
            // An error after some seconds means that all are taken.
            if let Ok(place) = self.state.rooms.batches.take(&name).await {
                return Ok(place);
            }
        }
    }

    /// Like a request, so that a database is not closed for idleness while workers wait.
    pub(super) fn touch(&self) {
        drop(self.state.engine.access(&self.name));
    }
}

/// The protocol's form of a read error.
pub(crate) fn read_error(error: ReadError) -> ApiError {
    match error {
        ReadError::Documents(error) => ApiError::from(error),
        ReadError::Query(error) => ApiError::from(error),
    }
}

impl Session {
    pub(super) fn new(
        state: Arc<ServerState>,
        (place, peer): (ConnectionPlace, SocketAddr),
        header: TcpHeader,
        deadline: Instant,
    ) -> Session {
        Session { state, place, peer, header, deadline, wake: Arc::default() }
    }

    /// Runs to the end, and notifies the client of it.
    pub(super) async fn run(self, messages: MessageReader<Reading>, writing: &mut Writing) {
        if let Err(End::Notified(last)) = self.serve(messages, writing).await {
            // Whether or not the client receives it, the session is over.
            let _ = send(writing, &last.bytes).await;
        }
    }

    async fn serve(
        self,
        mut messages: MessageReader<Reading>,
        writing: &mut Writing,
    ) -> Result<(), End> {
        let name = self.header.database.clone().unwrap_or_default();
        let lease = open_database(&self.state, &name).await;
        let lease = lease.map_err(|error| End::unusable(&error))?;
        let options = match timeout_at(self.deadline, messages.next()).await {
            Err(_) | Ok(Err(ReadEnd::Gone)) => return Err(End::Gone),
            Ok(Err(ReadEnd::Broken(error))) => return Err(error.into()),
            Ok(Ok(message)) => SubscriptionOptions::read(&message)?,
        };
        let database = OpenedDatabase {
            state: Arc::clone(&self.state),
            name: lease.record().name.as_str().to_owned(),
            opened: lease.opened_after(),
            id: lease.record().topology_id,
        };
        look_after(&self.state, &lease);
        let mut record = self.stored(&database, &options)?;
        require_here(&self.state.engine, &lease.record(), &record)?;
        record.position = position_on(&lease, &record);
        if let Some(lost) = lost_position(&lease, &record)? {
            return Err(End::invalid(lost.to_string()));
        }
        let worker = self.connect(&lease, &record, &options)?;
        drop(lease);
        let mut working = Working {
            database,
            writing,
            worker: Some(worker),
            received: receive(messages),
            wake: self.wake,
            place: self.place,
            subscription: record,
            closes_when_done: options.closes_when_done,
        };
        let ended = working.run().await;
        if let (Err(end), Some(worker)) = (&ended, &working.worker) {
            worker.activity().ended(end.why(), working.now_ticks());
        }
        ended
    }

    /// The subscription that the client names.
    fn stored(
        &self,
        database: &OpenedDatabase,
        options: &SubscriptionOptions,
    ) -> Result<SubscriptionRecord, End> {
        let Some(name) = options.name.as_deref() else {
            let message = "Subscription with name '' was not found in server store";
            return Err(End::not_found(message.to_owned()));
        };
        let found = self.state.engine.cluster_state().subscription(database.id, name)?;
        let record = found.ok_or_else(|| {
            End::not_found(format!("Cannot find any Subscription Task with name: {name}"))
        })?;
        if record.settings.is_disabled {
            let (id, name) = (record.id, &record.name);
            let message = format!(
                "The subscription with id '{id}' and name '{name}' is disabled and cannot be used \
                 until enabled"
            );
            return Err(End::closed(message, false));
        }
        Ok(record)
    }

    fn connect(
        &self,
        lease: &DatabaseLease,
        record: &SubscriptionRecord,
        options: &SubscriptionOptions,
    ) -> Result<Worker, End> {
        let Some(strategy) = Strategy::of_name(&options.strategy) else {
            let message = format!(
                "Could not convert System.String ('{}') to \
                 Raven.Client.Documents.Subscriptions.SubscriptionOpeningStrategy",
                options.strategy
            );
            return Err(ApiError::new(ErrorKind::Format, message).into());
        };
        let query = LogQuery::parse(&record.settings.query)?;
        let needed = [
            (query.has_includes(), INCLUDES_SINCE, "Includes"),
            (query.has_counters(), COUNTER_INCLUDES_SINCE, "Counter Includes"),
            (query.has_series(), TIME_SERIES_INCLUDES_SINCE, "TimeSeries Includes"),
        ];
        for (is_needed, since, what) in needed {
            if is_needed && self.header.version < since {
                let id = record.id;
                return Err(End::invalid(format!(
                    "A connection to Subscription Task with ID '{id}' cannot be opened because it \
                     requires the protocol to support {what}."
                )));
            }
        }
        let now_ticks = self.state.engine.clock().now().ticks();
        let facts = ConnectionFacts {
            connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            client_address: self.peer.to_string(),
            worker_id: options.worker_id.clone().unwrap_or_else(|| self.any_worker_id()),
            connected_ticks: now_ticks,
        };
        let own = self.state.engine.node_tag();
        let stored = StoredSubscription {
            id: record.id,
            name: &record.name,
            query_text: &record.settings.query,
            query: Arc::new(query),
            version: record.version,
            position: &record.position,
            is_taken_over: record.node_tag.as_deref().is_some_and(|tag| tag != own.as_str()),
        };
        let request =
            WorkerRequest { strategy, facts: facts.clone(), wake: Arc::clone(&self.wake) as _ };
        let documents_max = usize::try_from(options.documents_max).unwrap_or(1);
        lease.subscriptions().connect(&stored, documents_max, request).map_err(|occupied| {
            let message = occupied_text(occupied, &record.name);
            let rejected = (facts, strategy);
            lease.subscriptions().rejected(record.id, rejected, &message, now_ticks);
            End::in_use(message)
        })
    }

    /// A name for a worker whose client sent none, so that it can be dropped by name.
    fn any_worker_id(&self) -> String {
        let mut bytes = [0; 16];
        self.state.engine.platform().entropy.fill(&mut bytes);
        guid_text(bytes)
    }
}
