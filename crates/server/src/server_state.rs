//! The state shared by all requests: settings, catalog, databases and the routing table.

use std::{
    borrow::Cow,
    cell::RefCell,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use blittable::{Builder, ParseLimits};
use database::{ListenerBudget, MemoryLevel};
use engine::{Engine, MemoryPlan, SharedByName};
use http::{HeaderMap, HeaderValue};
use model::ticks;
use platform::{Timestamp, wiping_allocator::is_wiping};
use settings::Scheme;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch};
use wire::server_shapes::{BuildVersion, DebugMetadata};

use crate::{
    answers::{answer_places::AnswerPlaces, answer_threads::AnswerThreads},
    api_error::ApiError,
    audit::AuditLog,
    feeds::{log_feed::LogFeed, traffic_watch::TrafficWatch},
    http::{
        admission::Admission, answer_coding::AnswerCompression, body_share::BodyRoom,
        connection_limiter::ConnectionLimiter,
    },
    logs_configuration::LogsConfiguration,
    measures::{machine::Machine, processor_load::ProcessorLoad},
    node_address,
    studio::Studio,
    tls::ServerTls,
};

/// Maximum number of concurrent downloads of log archives.
pub(crate) const LOG_DOWNLOADS_MAX: usize = 2;
/// The commit of this build, when the build knew it.
const COMMIT: &str = match option_env!("CORVUS_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Called with the new mode of the log, by RavenDB's name.
pub(crate) type OnLogMode = Box<dyn Fn(&str) + Send + Sync>;

/// The server, as requests see it: the engine, and what HTTP needs in addition.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    /// Where requests wait for memory and threads.
    pub(crate) rooms: Rooms,
    pub(crate) admission: Admission,
    pub(crate) answer_threads: AnswerThreads,
    pub(crate) machine: Machine,
    pub(crate) version_header: HeaderValue,
    pub(crate) compression: AnswerCompression,
    pub(crate) studio: Studio,
    /// When the server started, on the monotonic clock.
    pub(crate) started: Duration,
    pub(crate) processor_load: ProcessorLoad,
    pub(crate) traffic: TrafficWatch,
    /// By database: queries that need the same new index wait here, without a thread each.
    pub(crate) index_creation: SharedByName<AsyncMutex<()>>,
    /// Memory of what is queued for watchers of databases.
    pub(crate) change_budget: Arc<ListenerBudget>,
    /// Memory of what they watch.
    pub(crate) watch_budget: Arc<ListenerBudget>,
    pub(crate) logs: Mutex<LogsConfiguration>,
    /// The entries of the log, if the process exposes them.
    pub(crate) log_feed: OnceLock<Arc<LogFeed>>,
    /// Permits for log archives that are being sent.
    pub(crate) log_downloads: Arc<Semaphore>,
    /// Applies a mode of the log.
    pub(crate) on_log_mode: OnceLock<OnLogMode>,
    /// When the last request was answered, in ticks; 0 before the first.
    last_request: AtomicI64,
    public_address: Option<String>,
    address: OnceLock<String>,
    /// Limits the connections; set once the server listens.
    connection_limiter: OnceLock<Arc<ConnectionLimiter>>,
    /// The port of the listener for the TCP protocol alone, where there is one.
    tcp_port: OnceLock<u16>,
    stopping: OnceLock<watch::Receiver<bool>>,
    /// Whether a client has requested that the server stops.
    stop_requested: watch::Sender<bool>,
    /// The TLS of its listeners, if they encrypt.
    tls: OnceLock<Arc<ServerTls>>,
    pub(crate) audit: AuditLog,
}

/// Where requests wait for memory and threads.
pub(crate) struct Rooms {
    /// The memory of request bodies.
    pub(crate) bodies: Arc<BodyRoom>,
    /// Limits the long responses.
    pub(crate) answers: Arc<AnswerPlaces>,
    /// Limits the counting queries.
    pub(crate) counting: Arc<AnswerPlaces>,
    /// Limits the subscriptions whose documents are being read: their scripts have heaps.
    pub(crate) batches: Arc<AnswerPlaces>,
}

impl Rooms {
    fn new(memory: &MemoryPlan) -> Rooms {
        let (small, large) = (Arc::clone(&memory.small_bodies), Arc::clone(&memory.bodies));
        Rooms {
            bodies: BodyRoom::new(small, large),
            answers: Arc::new(AnswerPlaces::within(&memory.answers)),
            counting: Arc::new(AnswerPlaces::for_counting(&memory.work)),
            batches: Arc::new(AnswerPlaces::for_batches(&memory.work)),
        }
    }
}

thread_local! {
    /// One parser of documents per thread: its arenas are kept between requests.
    static BUILDER: RefCell<Option<(ParseLimits, Builder)>> = const { RefCell::new(None) };
}

impl ServerState {
    /// The state of a server that does not listen yet.
    pub(crate) fn new(engine: Arc<Engine>, audit: AuditLog) -> ServerState {
        let (settings, memory) = (engine.settings(), engine.memory());
        let version = settings.protocol_version.as_str();
        let version_header = HeaderValue::from_str(version)
            .unwrap_or_else(|_| HeaderValue::from_static("5.4.207.54178"));
        let compression = AnswerCompression::new(&settings.http);
        let public = settings.public_server_url.as_ref().map(ToString::to_string);
        let public_address = public.map(|url| url.trim_end_matches('/').to_owned());
        let logs = LogsConfiguration::starting(&settings.logs);
        let changes_bytes_max = settings.changes.all_queued_bytes_max.min(memory.changes_bytes_max);
        let change_budget = ListenerBudget::new(changes_bytes_max);
        let watch_budget = ListenerBudget::new(changes_bytes_max / 2);
        let started = engine.clock().monotonic();
        ServerState {
            rooms: Rooms::new(memory),
            admission: Admission::new(settings),
            answer_threads: AnswerThreads::new(memory.answer_threads_max),
            traffic: TrafficWatch::new(Arc::clone(engine.clock())),
            index_creation: SharedByName::default(),
            engine: Arc::clone(&engine),
            machine: Machine::look(),
            version_header,
            compression,
            studio: Studio::new(settings.studio_path.clone()),
            started,
            processor_load: ProcessorLoad::begin(started),
            last_request: AtomicI64::new(0),
            change_budget,
            watch_budget,
            logs: Mutex::new(logs),
            log_feed: OnceLock::new(),
            log_downloads: Arc::new(Semaphore::new(LOG_DOWNLOADS_MAX)),
            on_log_mode: OnceLock::new(),
            public_address,
            address: OnceLock::new(),
            connection_limiter: OnceLock::new(),
            tcp_port: OnceLock::new(),
            stopping: OnceLock::new(),
            stop_requested: watch::Sender::new(false),
            tls: OnceLock::new(),
            audit,
        }
    }

    /// Sets the TLS of its listeners. Only the first call counts.
    pub(crate) fn set_tls(&self, tls: Arc<ServerTls>) {
        self.tls.get_or_init(|| tls);
    }

    /// The TLS of its listeners, if they encrypt.
    pub(crate) fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.get()
    }

    /// Uses the certificate in the files if it is another one. Blocks.
    ///
    /// # Errors
    /// It cannot be used; the former one stays in use.
    pub(crate) fn reload_certificate(&self, tls: &ServerTls) -> Result<(), ApiError> {
        let reloaded = tls.reload(self.engine.clock().now().ticks());
        let reloaded = reloaded.map_err(|error| {
            tracing::error!(%error, "the new certificate is not used");
            ApiError::invalid_operation(error.to_string())
        })?;
        if let Some(certificate) = reloaded {
            self.engine.set_server_certificate(&certificate)?;
            let thumbprint = certificate.thumbprint();
            tracing::info!(thumbprint, "the server uses a new certificate");
        }
        Ok(())
    }

    /// The scheme of its addresses, as clients see them.
    pub(crate) fn scheme(&self) -> Scheme {
        let security = &self.engine.settings().security;
        match security.certificate.is_some() || security.tls_ends_elsewhere {
            true => Scheme::Https,
            false => Scheme::Http,
        }
    }

    /// The address of this node for clients that do not say how they reached it: the public one, or
    /// that of the first listener, known once the server listens.
    pub(crate) fn address(&self) -> &str {
        let public = self.public_address.as_deref();
        public.or_else(|| self.address.get().map(String::as_str)).unwrap_or_default()
    }

    /// The address of this node for a client: the public one, or the one that the client used.
    ///
    /// # Errors
    /// When the client's `Host` header is missing or unusable.
    pub(crate) fn address_for(&self, headers: &HeaderMap) -> Result<Cow<'_, str>, ApiError> {
        match &self.public_address {
            Some(public) => Ok(Cow::Borrowed(public)),
            None => node_address::of_request(self.scheme(), headers).map(Cow::Owned),
        }
    }

    /// The same where it is incidental: a request for something else does not fail because of its
    /// `Host` header.
    pub(crate) fn address_in_passing(&self, headers: &HeaderMap) -> Cow<'_, str> {
        self.address_for(headers).unwrap_or_else(|_| Cow::Borrowed(self.address()))
    }

    /// The address of this node for the TCP protocol, for a client: the public one, or the one that
    /// it used for HTTP, with the port of the TCP listener if there is one.
    ///
    /// # Errors
    /// As [`ServerState::address_for`].
    pub(crate) fn tcp_address_for(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        match &self.engine.settings().public_tcp_url {
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

    /// Sets the connection limiter. Only the first call counts.
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

    /// Sets the signal that the server is stopping. Only the first call counts.
    pub(crate) fn set_stopping(&self, stopping: watch::Receiver<bool>) {
        self.stopping.get_or_init(|| stopping);
    }

    /// Has the process stop the server, in its own time.
    pub(crate) fn request_stop(&self) {
        self.stop_requested.send_replace(true);
    }

    /// Waits until a client requests that the server stops.
    pub(crate) async fn stop_requested(&self) {
        // The sender is part of the state itself.
        drop(self.stop_requested.subscribe().wait_for(|requested| *requested).await);
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        if let Some(mut stopping) = self.stopping.get().cloned() {
            // It is gone when the server is.
            drop(stopping.wait_for(|stopping| *stopping).await);
        }
    }

    /// The limits of documents.
    pub(crate) fn parse_limits(&self) -> ParseLimits {
        let documents = &self.engine.settings().documents;
        ParseLimits {
            depth_max: documents.nesting_depth_max as usize,
            document_bytes_max: usize::try_from(documents.document_bytes_max).unwrap_or(usize::MAX),
            ..ParseLimits::default()
        }
    }

    /// Lends this thread's parser of documents. Its arenas are kept for reuse, unless memory is
    /// low, or must not show what it was used for.
    pub(crate) fn with_builder<T>(&self, parse: impl FnOnce(&mut Builder) -> T) -> T {
        let limits = self.parse_limits();
        BUILDER.with_borrow_mut(|slot| {
            if slot.as_ref().is_none_or(|(of, _)| *of != limits) {
                *slot = Some((limits, Builder::new(limits)));
            }
            let (_, builder) = slot.as_mut().expect("it was just put there");
            let parsed = parse(builder);
            let is_memory_short = self.engine.memory().pressure.level() != MemoryLevel::Enough;
            if is_memory_short || is_wiping() {
                *slot = None;
            }
            parsed
        })
    }

    /// The build number that clients see.
    pub(crate) fn build(&self) -> BuildVersion {
        BuildVersion::of(self.engine.settings().protocol_version.as_str(), COMMIT)
    }

    /// The tag of this node.
    pub(crate) fn node_tag(&self) -> String {
        self.engine.node_tag().to_string()
    }

    /// The property that diagnostic answers begin with.
    pub(crate) fn debug_metadata(&self) -> DebugMetadata {
        DebugMetadata {
            date_time: model::date::format(self.engine.clock().now().ticks()),
            web_url: self.address().to_owned(),
            node_tag: self.node_tag(),
        }
    }

    /// When the server started, in wall-clock time.
    pub(crate) fn started_at(&self) -> Timestamp {
        let up_time = self.engine.clock().monotonic().saturating_sub(self.started);
        let now = self.engine.clock().now().ticks();
        Timestamp::from_ticks(now.saturating_sub(ticks::of_duration(up_time)))
    }

    /// Records that a request was answered.
    pub(crate) fn note_request(&self) {
        self.last_request.store(self.engine.clock().now().ticks(), Ordering::Relaxed);
    }

    /// When the last request was answered.
    pub(crate) fn last_request(&self) -> Option<Timestamp> {
        let ticks = self.last_request.load(Ordering::Relaxed);
        (ticks != 0).then(|| Timestamp::from_ticks(ticks))
    }
}
