//! What every request may use: settings, catalog, databases and the routing table.

use std::{
    borrow::Cow,
    cell::RefCell,
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use blittable::{Builder, ParseLimits};
use database::{MemoryLevel, QueueBudget};
use engine::{Engine, MemoryPlan};
use http::{HeaderMap, HeaderValue};
use platform::Timestamp;
use tokio::sync::{Semaphore, watch};
use wire::{
    database_shapes::NODE_TAG,
    server_shapes::{BuildVersion, DebugMetadata},
};

use crate::{
    admission::Admission, answer_coding::AnswerCompression, answer_places::AnswerPlaces,
    answer_threads::AnswerThreads, api_error::ApiError, body_share::BodyRoom, client_configuration,
    connection_limiter::ConnectionLimiter, index_turns::IndexesInMaking, log_feed::LogFeed,
    logs_configuration::LogsConfiguration, machine::Machine, node_address,
    processor_load::ProcessorLoad, traffic_watch::TrafficWatch,
};

/// Archives of log files that are sent at once.
pub(crate) const LOG_DOWNLOADS_MAX: usize = 2;
/// The commit of this build, when the build knew it.
const COMMIT: &str = match option_env!("CORVUS_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Notified of the mode that the log has from now on, by RavenDB's name.
pub(crate) type OnLogMode = Box<dyn Fn(&str) + Send + Sync>;

/// The server, as requests see it: the engine, and what HTTP needs beside it. It dereferences to the engine.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    /// Where requests wait for memory and threads.
    pub(crate) rooms: Rooms,
    pub(crate) admission: Admission,
    pub(crate) answer_threads: AnswerThreads,
    pub(crate) machine: Machine,
    pub(crate) version_header: HeaderValue,
    pub(crate) compression: AnswerCompression,
    /// When the server started, on the clock that never goes back.
    pub(crate) started: Duration,
    /// The newest index of any client configuration, the server's or a database's. A client that
    /// knows this one needs no closer look.
    pub(crate) newest_client_configuration: AtomicU64,
    pub(crate) processor_load: ProcessorLoad,
    pub(crate) traffic: TrafficWatch,
    pub(crate) indexes_in_making: IndexesInMaking,
    /// What may wait for those who watch databases.
    pub(crate) change_budget: Arc<QueueBudget>,
    pub(crate) logs: Mutex<LogsConfiguration>,
    /// The entries of the log, where the process shows them.
    pub(crate) log_feed: OnceLock<Arc<LogFeed>>,
    /// Places for archives of log files that are being sent.
    pub(crate) log_downloads: Arc<Semaphore>,
    /// Makes a mode of the log hold.
    pub(crate) on_log_mode: OnceLock<OnLogMode>,
    /// When the last request was answered, in ticks; 0 before the first.
    last_request: AtomicI64,
    public_address: Option<String>,
    address: OnceLock<String>,
    /// Who has connections; known once the server listens.
    connection_limiter: OnceLock<Arc<ConnectionLimiter>>,
    /// The port of the listener for the TCP protocol alone, where there is one.
    tcp_port: OnceLock<u16>,
    stopping: OnceLock<watch::Receiver<bool>>,
}

/// Where requests wait for memory and threads.
pub(crate) struct Rooms {
    /// The memory of request bodies.
    pub(crate) bodies: Arc<BodyRoom>,
    /// Who may have a long answer made.
    pub(crate) answers: Arc<AnswerPlaces>,
    /// Who may have a query counted.
    pub(crate) counting: Arc<AnswerPlaces>,
}

impl Rooms {
    fn new(memory: &MemoryPlan) -> Rooms {
        let (small, large) = (Arc::clone(&memory.small_bodies), Arc::clone(&memory.bodies));
        Rooms {
            bodies: BodyRoom::new(small, large),
            answers: Arc::new(AnswerPlaces::within(&memory.answers)),
            counting: Arc::new(AnswerPlaces::for_counting(&memory.work)),
        }
    }
}

impl Deref for ServerState {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

thread_local! {
    /// One parser of documents per thread: its arenas are kept between requests.
    static BUILDER: RefCell<Option<(ParseLimits, Builder)>> = const { RefCell::new(None) };
}

impl ServerState {
    /// The state of a server that does not listen yet.
    pub(crate) fn new(engine: Arc<Engine>) -> ServerState {
        let Engine { settings, memory, .. } = &*engine;
        let version = settings.protocol_version.as_str();
        let version_header = HeaderValue::from_str(version)
            .unwrap_or_else(|_| HeaderValue::from_static("5.4.207.54178"));
        let compression = AnswerCompression::new(&settings.http);
        let public = settings.public_server_url.as_ref().map(ToString::to_string);
        let public_address = public.map(|url| url.trim_end_matches('/').to_owned());
        let logs = LogsConfiguration::starting(&settings.logs);
        let changes_bytes_max = settings.changes.all_queued_bytes_max.min(memory.changes_bytes_max);
        let change_budget = QueueBudget::new(changes_bytes_max);
        let started = engine.platform.clock.monotonic();
        let newest = client_configuration::newest_index(&engine.catalog).unwrap_or(0);
        ServerState {
            rooms: Rooms::new(memory),
            admission: Admission::new(settings),
            answer_threads: AnswerThreads::new(memory.answer_threads_max),
            traffic: TrafficWatch::new(Arc::clone(&engine.platform.clock)),
            indexes_in_making: IndexesInMaking::default(),
            engine: Arc::clone(&engine),
            machine: Machine::look(),
            version_header,
            compression,
            started,
            newest_client_configuration: AtomicU64::new(newest),
            processor_load: ProcessorLoad::begin(started),
            last_request: AtomicI64::new(0),
            change_budget,
            logs: Mutex::new(logs),
            log_feed: OnceLock::new(),
            log_downloads: Arc::new(Semaphore::new(LOG_DOWNLOADS_MAX)),
            on_log_mode: OnceLock::new(),
            public_address,
            address: OnceLock::new(),
            connection_limiter: OnceLock::new(),
            tcp_port: OnceLock::new(),
            stopping: OnceLock::new(),
        }
    }

    /// The address of this node for those who do not say how they reached it: the public one, or
    /// that of the first listener, known once the server listens.
    pub(crate) fn address(&self) -> &str {
        let public = self.public_address.as_deref();
        public.or_else(|| self.address.get().map(String::as_str)).unwrap_or_default()
    }

    /// The address of this node that a client is told: the public one, or the one that it used.
    ///
    /// # Errors
    /// When the client's `Host` header is missing or unusable.
    pub(crate) fn address_for(&self, headers: &HeaderMap) -> Result<Cow<'_, str>, ApiError> {
        match &self.public_address {
            Some(public) => Ok(Cow::Borrowed(public)),
            None => node_address::of_request(headers).map(Cow::Owned),
        }
    }

    /// The address of this node that a client is told in passing: a request that asks for something
    /// else does not fail for its `Host` header.
    pub(crate) fn address_in_passing(&self, headers: &HeaderMap) -> Cow<'_, str> {
        self.address_for(headers).unwrap_or_else(|_| Cow::Borrowed(self.address()))
    }

    /// The address of this node for the TCP protocol that a client is told: the public one, or the one
    /// that it used for HTTP, with the port of the listener for TCP alone where there is one.
    ///
    /// # Errors
    /// As [`ServerState::address_for`].
    pub(crate) fn tcp_address_for(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        match &self.settings.public_tcp_url {
            Some(public) => Ok(public.to_string()),
            None => {
                Ok(node_address::for_tcp(&self.address_for(headers)?, self.tcp_port.get().copied()))
            }
        }
    }

    /// Sets the port of the listener for the TCP protocol alone. Only the first call counts.
    pub(crate) fn set_tcp_port(&self, port: u16) {
        self.tcp_port.get_or_init(|| port);
    }

    /// Sets who has connections. Only the first call counts.
    pub(crate) fn set_connection_limiter(&self, limiter: Arc<ConnectionLimiter>) {
        self.connection_limiter.get_or_init(|| limiter);
    }

    /// Connections that have a place.
    pub(crate) fn connections_count(&self) -> usize {
        self.connection_limiter.get().map_or(0, |limiter| limiter.taken_places())
    }

    /// Sets the address of the first listener. Only the first call counts.
    pub(crate) fn set_address(&self, address: String) {
        self.address.get_or_init(|| address);
    }

    /// Sets what says when the server stops. Only the first call counts.
    pub(crate) fn set_stopping(&self, stopping: watch::Receiver<bool>) {
        self.stopping.get_or_init(|| stopping);
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        if let Some(mut stopping) = self.stopping.get().cloned() {
            // It is gone when the server is.
            drop(stopping.wait_for(|stopping| *stopping).await);
        }
    }

    /// What documents may not exceed.
    pub(crate) fn parse_limits(&self) -> ParseLimits {
        let documents = &self.settings.documents;
        ParseLimits {
            depth_max: documents.nesting_depth_max as usize,
            document_bytes_max: usize::try_from(documents.document_bytes_max).unwrap_or(usize::MAX),
            ..ParseLimits::default()
        }
    }

    /// Lends this thread's parser of documents. Its arenas are kept for the next time, unless memory is
    /// low.
    pub(crate) fn with_builder<T>(&self, parse: impl FnOnce(&mut Builder) -> T) -> T {
        let limits = self.parse_limits();
        BUILDER.with_borrow_mut(|slot| {
            if slot.as_ref().is_none_or(|(of, _)| *of != limits) {
                *slot = Some((limits, Builder::new(limits)));
            }
            let (_, builder) = slot.as_mut().expect("it was just put there");
            let parsed = parse(builder);
            if self.memory.pressure.level() != MemoryLevel::Enough {
                *slot = None;
            }
            parsed
        })
    }

    /// The build that clients are told.
    pub(crate) fn build(&self) -> BuildVersion {
        BuildVersion::of(self.settings.protocol_version.as_str(), COMMIT)
    }

    /// The property that diagnostic answers begin with.
    pub(crate) fn debug_metadata(&self) -> DebugMetadata {
        DebugMetadata {
            date_time: model::date::format(self.platform.clock.now().ticks()),
            web_url: self.address().to_owned(),
            node_tag: NODE_TAG.to_owned(),
        }
    }

    /// When the server started, by the clock on the wall.
    pub(crate) fn started_at(&self) -> Timestamp {
        let up_time = self.platform.clock.monotonic().saturating_sub(self.started);
        let ticks = i64::try_from(up_time.as_nanos() / 100).unwrap_or(i64::MAX);
        Timestamp::from_ticks(self.platform.clock.now().ticks().saturating_sub(ticks))
    }

    /// A request was answered.
    pub(crate) fn note_request(&self) {
        self.last_request.store(self.platform.clock.now().ticks(), Ordering::Relaxed);
    }

    /// When the last request was answered.
    pub(crate) fn last_request(&self) -> Option<Timestamp> {
        let ticks = self.last_request.load(Ordering::Relaxed);
        (ticks != 0).then(|| Timestamp::from_ticks(ticks))
    }

    /// Remembers that a client configuration was written with this index.
    pub(crate) fn client_configuration_changed(&self, index: u64) {
        self.newest_client_configuration.fetch_max(index, Ordering::AcqRel);
    }
}
