//! A worker of a subscription, from its options to its end.
//!
//! The session holds no lease of its database while it waits, so that the database can be closed; it
//! takes one for each piece of work, and ends when the database that it began with is no longer open.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cluster::{Command, SubscriptionCommand, SubscriptionPosition, SubscriptionRecord};
use database::DatabaseLease;
use model::DatabaseId;
use query::LogQuery;
use subscriptions::{
    ConnectionFacts, Ended, Occupied, Position, ReadError, Standing, StoredSubscription, Strategy,
    Worker, WorkerRequest,
};
use tokio::{
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};
use wire::{
    ErrorKind, ProtocolError, REVISIONS_PROPERTY,
    database_shapes::NODE_TAG,
    tcp_shapes::{
        CONFIRM, COUNTER_INCLUDES_SINCE, ConnectionStatus, HEARTBEAT, INCLUDES_SINCE,
        SubscriptionOptions, TIME_SERIES_INCLUDES_SINCE, TcpHeader, WorkerMessage, accepted,
        header_error, refused, session_error,
    },
};

use crate::{
    database_access::open_database,
    error_mapping::{cluster_error, document_error},
    handlers::queries::query_error,
    server_state::ServerState,
    stored_record::body_of,
    tcp::{
        Gone,
        messages::{MessageReader, ReadEnd, send},
        wake::{SessionWake, look_after},
    },
    web_socket::ConnectionPlace,
};

/// How long a worker hears nothing at most when there is nothing to send.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(3);
/// The same while it has a batch, or waits for its turn.
const BUSY_HEARTBEAT: Duration = Duration::from_secs(5);
/// Messages of a worker that wait to be dealt with.
const RECEIVED_MAX: usize = 64;

/// Numbers connections, for whoever operates the server.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Why a session ends.
pub(super) enum End {
    /// There is nobody to tell.
    Gone,
    /// The client is told this first.
    Told(Vec<u8>),
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> End {
        End::Told(session_error(&error))
    }
}

/// The texts of a client, read by a task of its own.
struct Received {
    messages: mpsc::Receiver<Result<WorkerMessage, ReadEnd>>,
    reading: JoinHandle<()>,
    /// Acknowledgements that came before they were waited for.
    early: usize,
}

impl Drop for Received {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// See the module.
pub(super) struct Session {
    pub(super) state: Arc<ServerState>,
    place: ConnectionPlace,
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
    /// What is stored of it belongs to this number.
    pub(super) id: DatabaseId,
}

impl OpenedDatabase {
    /// The right to use it, for a moment.
    pub(super) fn lease(&self) -> Result<DatabaseLease, End> {
        let open = self.state.registry.if_open(&self.name);
        open.filter(|database| database.opened_after() == self.opened)
            .ok_or_else(|| End::from(canceled()))
    }

    /// As a request would, so that a database is not closed for idleness while workers wait.
    fn touch(&self) {
        drop(self.state.registry.access(&self.name));
    }
}

/// A session whose worker was let in.
pub(super) struct Working<'w> {
    pub(super) database: OpenedDatabase,
    pub(super) writing: &'w mut OwnedWriteHalf,
    /// Absent while a piece is read on another thread.
    pub(super) worker: Option<Worker>,
    received: Received,
    wake: Arc<SessionWake>,
    place: ConnectionPlace,
    subscription: SubscriptionRecord,
    closes_when_done: bool,
}

fn canceled() -> ProtocolError {
    ProtocolError::new(ErrorKind::OperationCanceled, "The operation was canceled.")
}

/// What the protocol calls a failure of reading.
pub(crate) fn read_error(error: ReadError) -> ProtocolError {
    match error {
        ReadError::Documents(error) => document_error(&error),
        ReadError::Query(error) => query_error(error),
    }
}

/// Checks the text of a subscription's query as far as it can be checked without documents. Blocks.
pub(crate) fn check_query(state: &ServerState, text: &str) -> Result<LogQuery, ProtocolError> {
    let query = LogQuery::parse(text).map_err(query_error)?;
    if let Some(scripts) = query.scripts(state.scripts()).map_err(query_error)? {
        query.bind(&scripts).map_err(query_error)?;
    }
    Ok(query)
}

impl Session {
    pub(super) fn new(
        state: Arc<ServerState>,
        place: ConnectionPlace,
        header: TcpHeader,
        deadline: Instant,
    ) -> Session {
        Session { state, place, header, deadline, wake: Arc::default() }
    }

    /// Runs to the end, and tells the client of it.
    pub(super) async fn run(
        self,
        messages: MessageReader<OwnedReadHalf>,
        writing: &mut OwnedWriteHalf,
    ) {
        if let Err(End::Told(last)) = self.serve(messages, writing).await {
            // Whether the client takes it or not, the session is over.
            let _ = send(writing, &last).await;
        }
    }

    async fn serve(
        self,
        mut messages: MessageReader<OwnedReadHalf>,
        writing: &mut OwnedWriteHalf,
    ) -> Result<(), End> {
        let name = self.header.database.clone().unwrap_or_default();
        let lease = open_database(&self.state, &name).await;
        let lease = lease.map_err(|error| End::Told(header_error(&error)))?;
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
        let record = self.stored(&database, &options)?;
        let worker = self.connect(&lease, &record, &options, writing)?;
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
        if let (Err(End::Told(last)), Some(worker)) = (&ended, &working.worker) {
            worker.activity().step(String::from_utf8_lossy(last).into_owned());
        }
        ended
    }

    /// The subscription that the client names.
    fn stored(
        &self,
        database: &OpenedDatabase,
        options: &SubscriptionOptions,
    ) -> Result<SubscriptionRecord, End> {
        let not_found = |message: String| {
            let error = ProtocolError::new(ErrorKind::SubscriptionDoesNotExist, message);
            End::Told(refused(ConnectionStatus::NotFound, &error))
        };
        let Some(name) = options.name.as_deref() else {
            let message = "Subscription with name '' was not found in server store";
            return Err(not_found(message.to_owned()));
        };
        let found = self.state.cluster.read().subscription(database.id, name);
        let found = found.map_err(|error| cluster_error(&error))?;
        let record = found.ok_or_else(|| {
            not_found(format!("Cannot find any Subscription Task with name: {name}"))
        })?;
        if record.settings.is_disabled {
            let (id, name) = (record.id, &record.name);
            let message = format!(
                "The subscription with id '{id}' and name '{name}' is disabled and cannot be used \
                 until enabled"
            );
            return Err(closed(message, false));
        }
        Ok(record)
    }

    fn connect(
        &self,
        lease: &DatabaseLease,
        record: &SubscriptionRecord,
        options: &SubscriptionOptions,
        writing: &OwnedWriteHalf,
    ) -> Result<Worker, End> {
        let Some(strategy) = Strategy::of_name(&options.strategy) else {
            let message = format!(
                "Could not convert System.String ('{}') to \
                 Raven.Client.Documents.Subscriptions.SubscriptionOpeningStrategy",
                options.strategy
            );
            return Err(ProtocolError::new(ErrorKind::Format, message).into());
        };
        let query = LogQuery::parse(&record.settings.query).map_err(query_error)?;
        let needed = [
            (query.has_includes(), INCLUDES_SINCE, "Includes"),
            (query.has_counters(), COUNTER_INCLUDES_SINCE, "Counter Includes"),
            (query.has_series(), TIME_SERIES_INCLUDES_SINCE, "TimeSeries Includes"),
        ];
        for (is_needed, since, what) in needed {
            if is_needed && self.header.version < since {
                let id = record.id;
                return Err(invalid(format!(
                    "A connection to Subscription Task with ID '{id}' cannot be opened because it \
                     requires the protocol to support {what}."
                )));
            }
        }
        let peer = writing.peer_addr().map(|peer: SocketAddr| peer.to_string());
        let facts = ConnectionFacts {
            connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            client_address: peer.unwrap_or_default(),
            worker_id: options.worker_id.clone().unwrap_or_default(),
            connected_ticks: self.state.platform.clock.now().ticks(),
        };
        let position = Position {
            cursor: record.position.cursor,
            change_vector: record.position.change_vector.clone(),
            unsettled: record.position.unsettled.clone(),
        };
        let stored = StoredSubscription {
            id: record.id,
            name: &record.name,
            query_text: &record.settings.query,
            query: Arc::new(query),
            version: record.version,
            position: &position,
        };
        let request =
            WorkerRequest { strategy, facts: facts.clone(), wake: Arc::clone(&self.wake) as _ };
        let documents_max = usize::try_from(options.documents_max).unwrap_or(1);
        lease.subscriptions().connect(&stored, documents_max, request).map_err(|occupied| {
            let message = occupied_text(occupied, &record.name);
            lease.subscriptions().rejected(record.id, facts, strategy, &message);
            let error = ProtocolError::new(ErrorKind::SubscriptionInUse, message);
            End::Told(refused(ConnectionStatus::InUse, &error))
        })
    }
}

/// Reads a client's messages until it goes, at most a few ahead of what is dealt with.
fn receive(mut messages: MessageReader<OwnedReadHalf>) -> Received {
    let (sender, receiver) = mpsc::channel(RECEIVED_MAX);
    let reading = tokio::spawn(async move {
        loop {
            let read = messages
                .next()
                .await
                .and_then(|message| WorkerMessage::read(&message).map_err(ReadEnd::Broken));
            let is_last = read.is_err();
            if sender.send(read).await.is_err() || is_last {
                return;
            }
        }
    });
    Received { messages: receiver, reading, early: 0 }
}

fn closed(message: String, can_reconnect: bool) -> End {
    let error = ProtocolError::new(ErrorKind::SubscriptionClosed, message);
    End::Told(refused(ConnectionStatus::Closed { can_reconnect }, &error))
}

fn invalid(message: String) -> End {
    let error = ProtocolError::new(ErrorKind::SubscriptionInvalidState, message);
    End::Told(refused(ConnectionStatus::Invalid, &error))
}

fn occupied_text(occupied: Occupied, name: &str) -> String {
    match occupied {
        Occupied::ByAnother => {
            format!("Subscription {name} is occupied, connection cannot be opened")
        }
        Occupied::ByTakeOver => format!(
            "Subscription {name} is already occupied by a TakeOver connection, connection cannot \
             be opened"
        ),
        Occupied::ByConcurrent => format!(
            "Subscription {name} is shared by concurrent workers, connection cannot be opened"
        ),
        Occupied::Full => {
            let workers_max = subscriptions::WORKERS_MAX;
            format!("Subscription {name} has {workers_max} workers already and takes no more")
        }
    }
}

/// What a session woke up for.
enum Woken {
    /// To send something, lest the client thinks that nobody is here.
    Silence,
    /// Something may have changed.
    Change,
    /// The worker has dealt with its batch.
    Acknowledged,
}

impl Working<'_> {
    async fn run(&mut self) -> Result<(), End> {
        self.wait_for_turn().await?;
        send(self.writing, &accepted()).await?;
        self.note_connected().await?;
        if self.worker()?.subscription().query().is_of_revisions() {
            self.require_revisions()?;
        }
        loop {
            self.require_standing()?;
            let database = self.database.lease()?;
            let has_work = self.worker()?.has_work(|| database.read()).map_err(read_error)?;
            drop(database);
            if has_work {
                if self.send_batch().await? {
                    self.wait_for_acknowledgement().await?;
                    self.store_acknowledged().await?;
                    send(self.writing, CONFIRM).await?;
                }
                continue;
            }
            if self.closes_when_done {
                self.store_passed().await?;
                return Err(closed(
                    format!(
                        "Closing subscription {} because there were no documents left and client \
                         connected in 'CloseWhenNoDocsLeft' mode",
                        self.subscription.name
                    ),
                    false,
                ));
            }
            self.wait_for_change().await?;
        }
    }

    pub(super) fn worker(&self) -> Result<&Worker, End> {
        self.worker.as_ref().ok_or(End::Gone)
    }

    /// Ends the session when its worker may not go on.
    pub(super) fn require_standing(&self) -> Result<Standing, End> {
        let standing = self.worker()?.standing();
        let Standing::Ended(ended) = &standing else { return Ok(standing) };
        let name = &self.subscription.name;
        Err(match ended {
            Ended::Deleted => {
                let message = format!("The subscription {name} had been deleted");
                let error = ProtocolError::new(ErrorKind::SubscriptionDoesNotExist, message);
                End::Told(refused(ConnectionStatus::NotFound, &error))
            }
            Ended::Disabled => {
                let message =
                    format!("The subscription {name} is disabled and cannot be used until enabled");
                closed(message, false)
            }
            Ended::Dropped => closed("Dropped by API request".to_owned(), false),
            Ended::QueryChanged => closed(
                format!(
                    "The subscription {name} query has been modified, connection must be restarted"
                ),
                true,
            ),
            Ended::Moved => closed(
                format!("The subscription {name} was modified, connection must be restarted"),
                true,
            ),
            Ended::TakenOver => {
                let error = ProtocolError::new(ErrorKind::SubscriptionInUse, "Closed by TakeOver");
                End::Told(refused(ConnectionStatus::InUse, &error))
            }
            Ended::DatabaseClosed => canceled().into(),
        })
    }

    fn require_revisions(&self) -> Result<(), End> {
        let record = self.database.lease()?.record();
        let configured = body_of(&record).get(REVISIONS_PROPERTY).is_some_and(|set| !set.is_null());
        if configured {
            return Ok(());
        }
        Err(invalid(format!(
            "Cannot use a revisions subscription, database {} does not have revisions \
             configuration.",
            record.name.as_str()
        )))
    }

    async fn wait_for_turn(&mut self) -> Result<(), End> {
        let mut heartbeat = Instant::now() + BUSY_HEARTBEAT;
        while self.require_standing()? == Standing::Waits {
            match self.woken(heartbeat).await? {
                Woken::Silence => {
                    send(self.writing, HEARTBEAT).await?;
                    self.database.touch();
                    heartbeat = Instant::now() + BUSY_HEARTBEAT;
                }
                Woken::Acknowledged => self.received.early += 1,
                Woken::Change => {}
            }
        }
        Ok(())
    }

    async fn wait_for_change(&mut self) -> Result<(), End> {
        let heartbeat = Instant::now() + IDLE_HEARTBEAT;
        match self.woken(heartbeat).await? {
            Woken::Silence => {
                send(self.writing, HEARTBEAT).await?;
                self.database.touch();
                self.store_passed().await
            }
            Woken::Acknowledged => {
                self.received.early += 1;
                Ok(())
            }
            Woken::Change => Ok(()),
        }
    }

    async fn wait_for_acknowledgement(&mut self) -> Result<(), End> {
        if 0 < self.received.early {
            self.received.early -= 1;
            return Ok(());
        }
        let mut heartbeat = Instant::now() + BUSY_HEARTBEAT;
        loop {
            match self.woken(heartbeat).await? {
                Woken::Acknowledged => return Ok(()),
                Woken::Change => {
                    self.require_standing()?;
                }
                Woken::Silence => {
                    send(self.writing, HEARTBEAT).await?;
                    self.database.touch();
                    heartbeat = Instant::now() + BUSY_HEARTBEAT;
                }
            }
        }
    }

    async fn woken(&mut self, silence_until: Instant) -> Result<Woken, End> {
        loop {
            let received = tokio::select! {
                received = self.received.messages.recv() => received,
                () = self.wake.woken() => return Ok(Woken::Change),
                () = sleep_until(silence_until) => return Ok(Woken::Silence),
                _ = self.place.stopping.wait_for(|stopping| *stopping) => return Err(End::Gone),
            };
            match received {
                None | Some(Err(ReadEnd::Gone)) => return Err(End::Gone),
                Some(Err(ReadEnd::Broken(error))) => return Err(error.into()),
                Some(Ok(WorkerMessage::Acknowledge)) => return Ok(Woken::Acknowledged),
                Some(Ok(WorkerMessage::Disposed)) => return Err(canceled().into()),
                Some(Ok(WorkerMessage::Unknown)) => {}
            }
        }
    }

    async fn note_connected(&mut self) -> Result<(), End> {
        let worker = self.worker()?;
        worker.activity().step("The connection was accepted".to_owned());
        let command = SubscriptionCommand::Connect {
            database: self.database.id,
            id: self.subscription.id,
            node_tag: NODE_TAG.to_owned(),
            ticks: self.now_ticks(),
        };
        self.submit(command).await
    }

    pub(super) fn now_ticks(&self) -> i64 {
        self.database.state.platform.clock.now().ticks()
    }

    /// Stores what the worker has dealt with; only then it is told that this was understood.
    async fn store_acknowledged(&mut self) -> Result<(), End> {
        let ticks = self.now_ticks();
        let (database, id) = (self.database.clone(), self.subscription.id);
        let Some(worker) = self.worker.as_mut() else { return Err(End::Gone) };
        let version = worker.subscription().version();
        let submitted = worker.acknowledge(|position| {
            let command = advance(&database, id, version, position, Some(ticks));
            database.state.cluster.submit(&Command::Subscription(command), None)
        });
        let submitted = submitted.map_err(|error| cluster_error(&error))?;
        submitted.await.map_err(|error| cluster_error(&error))?;
        worker.activity().batch_acknowledged(ticks);
        Ok(())
    }

    /// Stores that changes were passed which the query does not choose.
    async fn store_passed(&mut self) -> Result<(), End> {
        let worker = self.worker()?;
        let version = worker.subscription().version();
        let Some(position) = worker.subscription().position_to_store() else { return Ok(()) };
        let command = advance(&self.database, self.subscription.id, version, position, None);
        self.submit(command).await
    }

    async fn submit(&self, command: SubscriptionCommand) -> Result<(), End> {
        let cluster = &self.database.state.cluster;
        let submitted = cluster.submit(&Command::Subscription(command), None);
        let submitted = submitted.map_err(|error| cluster_error(&error))?;
        submitted.await.map_err(|error| cluster_error(&error))?;
        Ok(())
    }
}

fn advance(
    database: &OpenedDatabase,
    id: u64,
    version: u64,
    position: Position,
    acknowledged_ticks: Option<i64>,
) -> SubscriptionCommand {
    let position = SubscriptionPosition {
        cursor: position.cursor,
        change_vector: position.change_vector,
        unsettled: position.unsettled,
    };
    SubscriptionCommand::Advance {
        database: database.id,
        id,
        version,
        position,
        acknowledged_ticks,
    }
}
