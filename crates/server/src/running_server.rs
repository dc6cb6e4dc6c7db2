//! A server from its start to its end.

use std::{sync::Arc, time::Duration};

use engine::{Engine, INDEX_CHECK_INTERVAL, Outbound};
use platform::Platform;
use settings::{Scheme, Settings};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, timeout},
};

use crate::{
    audit::{AuditLog, AuditSink},
    error::StartError,
    feeds::log_feed::LogFeed,
    handlers::operations::show_failure,
    http::{
        cloud_storage::HttpCloudStorage,
        connection_limiter::ConnectionLimiter,
        listener::{AllowedAccess, ListenerProtocol, accept, bind_all},
        outbound::HttpOutbound,
        peers::HttpPeers,
        service::Service,
    },
    node_address,
    routes::ROUTER,
    server_state::ServerState,
    tls::ServerTls,
    transport::Listener,
};

/// How often to look for scheduled backups that are due: their times are whole minutes.
const BACKUP_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is looked which ETL tasks are to run.
const ETL_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the files of the certificate are checked for changes.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How often the program that writes the certificate is run.
const CERTIFICATE_PROGRAM_INTERVAL: Duration = Duration::from_secs(3600);

/// A listening server. Dropping it without [`RunningServer::stop`] is like a crash: nothing that
/// was acknowledged is lost, and the next start recovers.
pub struct RunningServer {
    state: Arc<ServerState>,
    stopping: watch::Sender<bool>,
    limiter: Arc<ConnectionLimiter>,
    accepting: Vec<JoinHandle<()>>,
    maintenance: Vec<JoinHandle<()>>,
    urls: Vec<String>,
    _operations: OperationsEnd,
}

/// Stops long operations when the server is dropped, since their threads are not the runtime's.
struct OperationsEnd(Arc<Engine>);

impl Drop for OperationsEnd {
    fn drop(&mut self) {
        self.0.stop_operations();
    }
}

/// Opens the data directory, listens and serves.
///
/// # Errors
/// When the data directory cannot be used or an address cannot be listened on. Nothing is left
/// running then.
pub async fn start(settings: Settings, platform: Platform) -> Result<RunningServer, StartError> {
    start_audited(settings, platform, None).await
}

/// The same with an audit log.
///
/// # Errors
/// As [`start`].
pub async fn start_audited(
    settings: Settings,
    platform: Platform,
    audit: Option<AuditSink>,
) -> Result<RunningServer, StartError> {
    let peers = Arc::new(HttpPeers::default());
    let opened = {
        let (settings, peers) = (settings.clone(), Arc::clone(&peers));
        tokio::task::spawn_blocking(move || Engine::open_with_peers(settings, platform, peers))
            .await
    };
    let engine = match opened {
        Ok(opened) => opened.map_err(StartError::Engine)?,
        Err(panic) => {
            return Err(StartError::Thread { source: std::io::Error::other(panic.to_string()) });
        }
    };
    let audit = AuditLog::new(audit).map_err(|source| StartError::Thread { source })?;
    let state = Arc::new(ServerState::new(Arc::new(engine), audit));
    let tls = load_certificate(&state)?;
    state.engine.trust_api_keys().map_err(|error| StartError::Registered(Box::new(error)))?;
    let allowed = AllowedAccess::of(&settings);
    let listeners = bind_all(&settings.server_urls, allowed, tls.as_ref()).await?;
    let tcp_listeners = bind_all(&settings.tcp_urls, allowed, tls.as_ref()).await?;
    let scheme = state.scheme();
    let urls = urls_of(&listeners, scheme)?;
    if let Some(first) = listeners.first().and_then(|listener| listener.address().ok()) {
        state.set_address(node_address::of_listener(scheme, first));
    }
    if let Some(first) = tcp_listeners.first().and_then(|listener| listener.address().ok()) {
        state.set_tcp_port(first.port());
    }
    let limiter = Arc::new(ConnectionLimiter::new(connections_max(&state)));
    state.set_connection_limiter(Arc::clone(&limiter));
    let (stopping, stopped) = watch::channel(false);
    let tcp_listeners = tcp_listeners.into_iter().map(|listener| (listener, ListenerProtocol::Tcp));
    state.set_stopping(stopped.clone());
    let accepting = listeners
        .into_iter()
        .map(|listener| (listener, ListenerProtocol::Both))
        .chain(tcp_listeners)
        .map(|listener| {
            let service = Service { state: Arc::clone(&state), router: &ROUTER };
            let (limiter, stopped) = (Arc::clone(&limiter), stopped.clone());
            tokio::spawn(accept(service, listener, limiter, stopped))
        })
        .collect();
    state.engine.set_replication_url(state.address().to_owned());
    let outbound = Arc::new(HttpOutbound::new(&state));
    state.engine.set_outbound(Arc::clone(&outbound) as Arc<dyn Outbound>);
    state.engine.set_cloud_storage(Arc::new(HttpCloudStorage::new(Arc::clone(&outbound))));
    state.engine.set_cluster_url(state.address().to_owned());
    peers.begin(outbound);
    let mut maintenance = vec![
        tokio::spawn(maintain(Arc::clone(&state))),
        tokio::spawn(run_backups(Arc::clone(&state))),
        tokio::spawn(follow_etl(Arc::clone(&state))),
        tokio::spawn(follow_cluster(Arc::clone(&state))),
        tokio::spawn(watch_builds(Arc::clone(&state))),
    ];
    if let Some(tls) = tls {
        maintenance.push(tokio::spawn(watch_certificate(Arc::clone(&state), tls)));
    }
    log_start(&state, &urls);
    let _operations = OperationsEnd(Arc::clone(&state.engine));
    Ok(RunningServer { state, stopping, limiter, accepting, maintenance, urls, _operations })
}

/// The maximum number of connections: as many as the settings and the memory allow, and no more
/// than leave half of the file descriptors to databases and indexes.
fn connections_max(state: &ServerState) -> usize {
    let asked = state.engine.settings().server.connections_max;
    let by_memory = state.engine.memory().connections_max;
    let open_files_max = platform::descriptors::limit();
    let by_files = open_files_max.map_or(usize::MAX, connections_within);
    let connections_max = asked.min(by_memory).min(by_files);
    if by_files < asked {
        tracing::warn!(
            open_files_max,
            connections_max,
            asked,
            "fewer connections than Server.MaxConnections are accepted, because there are too few file \
             descriptors: raise the limit of open files of the process"
        );
    } else {
        tracing::info!(open_files_max, connections_max, by_memory, asked, "places for connections");
    }
    connections_max
}

fn connections_within(open_files_max: u64) -> usize {
    usize::try_from(open_files_max / 2).unwrap_or(usize::MAX).max(1)
}

/// The certificate in the settings, which is trusted from now on.
fn load_certificate(state: &ServerState) -> Result<Option<Arc<ServerTls>>, StartError> {
    let engine = &state.engine;
    let Some(source) = &engine.settings().security.certificate else { return Ok(None) };
    let tls = ServerTls::load(source, engine.clock().now().ticks());
    let tls = tls.map_err(|error| StartError::Certificate(Box::new(error)))?;
    let trusted = engine.set_server_certificate(tls.key_pair().certificate());
    trusted.map_err(|error| StartError::Registered(Box::new(error)))?;
    let tls = Arc::new(tls);
    state.set_tls(Arc::clone(&tls));
    Ok(Some(tls))
}

/// Uses a newer certificate soon after it is in the file, or the program writes it.
async fn watch_certificate(state: Arc<ServerState>, tls: Arc<ServerTls>) {
    let interval = match tls.is_from_program() {
        true => CERTIFICATE_PROGRAM_INTERVAL,
        false => CERTIFICATE_CHECK_INTERVAL,
    };
    let mut looks = tokio::time::interval_at(Instant::now() + interval, interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let (state, tls) = (Arc::clone(&state), Arc::clone(&tls));
        // What fails is in the log.
        drop(tokio::task::spawn_blocking(move || state.reload_certificate(&tls)).await);
    }
}

fn urls_of(listeners: &[Listener], scheme: Scheme) -> Result<Vec<String>, StartError> {
    let url = |listener: &Listener| {
        let address = listener.address().map_err(|source| StartError::Thread { source })?;
        Ok(format!("{}://{address}", scheme.text()))
    };
    listeners.iter().map(url).collect()
}

/// Logs what an operator looks for first.
fn log_start(state: &ServerState, urls: &[String]) {
    let settings = state.engine.settings();
    let directory = match settings.database.run_in_memory {
        true => "none, everything is in memory".to_owned(),
        false => std::path::absolute(&settings.data_dir)
            .unwrap_or_else(|_| settings.data_dir.clone())
            .display()
            .to_string(),
    };
    let memory_mb = state.engine.memory().pressure.limit().bytes >> 20;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        addresses = urls.join(";"),
        directory,
        databases = state.engine.records().len(),
        memory_mb,
        memory_limited_by = state.engine.memory().limited_by,
        cores = state.machine.cores,
        process = std::process::id(),
        "started"
    );
}

/// Logs the progress of index builds.
async fn watch_builds(state: Arc<ServerState>) {
    let mut ticks = tokio::time::interval(INDEX_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !state.engine.has_indexes_to_check() {
            continue;
        }
        let engine = Arc::clone(&state.engine);
        let looked = tokio::task::spawn_blocking(move || engine.check_indexes());
        if let Err(error) = looked.await {
            tracing::error!(%error, "looking at indexes that are built failed");
        }
    }
}

/// Begins scheduled backups when they are due.
async fn run_backups(state: Arc<ServerState>) {
    let build = u64::from(state.build().build_version);
    let mut ticks = tokio::time::interval(BACKUP_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let engine = Arc::clone(&state.engine);
        let looked =
            tokio::task::spawn_blocking(move || engine.run_due_backups(build, show_failure));
        if let Err(error) = looked.await {
            tracing::error!(%error, "looking for scheduled backups failed");
        }
    }
}

/// Begins and ends the processes of ETL tasks and the links of replication as the records say.
async fn follow_etl(state: Arc<ServerState>) {
    let mut ticks = tokio::time::interval(ETL_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let engine = Arc::clone(&state.engine);
        let looked = tokio::task::spawn_blocking(move || {
            engine.follow_etl();
            engine.follow_database_groups();
            engine.follow_replication();
            engine.resolve_conflicts();
        });
        if let Err(error) = looked.await {
            tracing::error!(%error, "looking for ETL tasks and links of replication failed");
        }
    }
}

/// Has databases follow what other nodes change.
async fn follow_cluster(state: Arc<ServerState>) {
    let changed = Arc::new(Notify::new());
    let noticed = Arc::clone(&changed);
    state.engine.on_change(move || noticed.notify_one());
    loop {
        // On its own, a node has done everything in the request that made the change.
        if state.engine.has_company() {
            let engine = Arc::clone(&state.engine);
            let followed = tokio::task::spawn_blocking(move || engine.follow_changes());
            if let Err(error) = followed.await {
                tracing::error!(%error, "following the changes of other nodes failed");
            }
        }
        changed.notified().await;
    }
}

/// Periodically closes unused databases, deletes unused automatic indexes, and forgets deletions of
/// compare exchange values.
async fn maintain(state: Arc<ServerState>) {
    let interval = state.engine.settings().databases.idle_check_interval;
    let idle_max = state.engine.settings().database.idle_time_max;
    let checks_max = idle_max.as_secs().div_ceil(interval.as_secs().max(1)).max(1);
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked = Arc::clone(&state);
        let checked = tokio::task::spawn_blocking(move || {
            looked.engine.maintain(checks_max);
        })
        .await;
        if let Err(error) = checked {
            tracing::error!(%error, "looking for unused databases and indexes failed");
        }
    }
}

impl RunningServer {
    /// The addresses it listens on, such as `http://127.0.0.1:8080`; at least one.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Has `obey` called with every log mode that a client sets: `None`, `Operations` or
    /// `Information`. The first call counts.
    pub fn on_log_mode(&self, obey: impl Fn(&str) + Send + Sync + 'static) {
        drop(self.state.on_log_mode.set(Box::new(obey)));
    }

    /// Sends the entries of this feed to clients that watch the log. The first call counts.
    pub fn show_log(&self, feed: Arc<LogFeed>) {
        self.state.log_feed.get_or_init(|| feed);
    }

    /// Waits until a client, who must be an administrator of the cluster, requests that the server stops.
    pub async fn stop_requested(&self) {
        self.state.stop_requested().await;
    }

    /// Stops: accepts no more connections, lets requests finish within the time in the settings,
    /// then closes all databases concurrently.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for accepting in self.accepting {
            drop(accepting.await);
        }
        let finished = self.limiter.all_closed();
        if timeout(self.state.engine.settings().server.shutdown_timeout, finished).await.is_err() {
            tracing::warn!("some requests did not finish in time and are cut off");
            self.limiter.cut_all();
        }
        self.maintenance.iter().for_each(JoinHandle::abort);
        let state = self.state;
        let closed = tokio::task::spawn_blocking(move || {
            state.engine.close();
            state.audit.close();
        });
        if let Err(error) = closed.await {
            tracing::error!(%error, "closing the databases failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_open_files_to_databases() {
        assert_eq!(connections_within(1024), 512);
        assert_eq!(connections_within(0), 1);
    }
}
