//! A server from its start to its end.

use std::{path::Path, sync::Arc, time::Duration};

use cluster_state::DatabaseRecord;
use database::{
    DatabaseRegistry, Flusher, RegistryOptions, ResourceWatch, Retention, ServerCatalog,
};
use platform::{DirectoryLock, Disk, Exposure, Platform};
use settings::Settings;
use storage::{StorageError, environment_id_in};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, timeout},
};

use crate::{
    client_configuration,
    connection_limiter::ConnectionLimiter,
    database_deletion,
    database_files::{DatabaseFiles, SYSTEM_DIRECTORY},
    database_log, deleted_values,
    error::StartError,
    index_build_log, index_builds, index_choice,
    listener::{ListenerProtocol, accept, bind_all},
    log_feed::LogFeed,
    memory_plan::MemoryPlan,
    node_address, resource_log, retention_log,
    routes::ROUTER,
    server_state::ServerState,
    service::Service,
    unknown_directories::{self, has_databases},
};

/// Threads that bring journals to data files, for all databases together.
const FLUSHER_THREADS: usize = 2;
/// Threads that deal with documents whose time has come, for all databases together.
const RETENTION_THREADS: usize = 2;
/// How long closing a database waits for those who use it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// A server that listens. Dropping it without [`RunningServer::stop`] is like a crash: nothing that
/// was acknowledged is lost, and the next start recovers.
pub struct RunningServer {
    state: Arc<ServerState>,
    flusher: Arc<Flusher>,
    watch: ResourceWatch,
    retention: Retention,
    stopping: watch::Sender<bool>,
    limiter: Arc<ConnectionLimiter>,
    accepting: Vec<JoinHandle<()>>,
    maintenance: Vec<JoinHandle<()>>,
    urls: Vec<String>,
    /// Of the data directory.
    _lock: Box<dyn DirectoryLock>,
}

/// Opens the data directory, listens and serves.
///
/// # Errors
/// When the data directory cannot be used or an address cannot be listened on. Nothing is left
/// running then.
pub async fn start(settings: Settings, platform: Platform) -> Result<RunningServer, StartError> {
    let opened = {
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || open(settings, platform)).await
    };
    let Opened { state, flusher, watch, retention, lock } = match opened {
        Ok(opened) => opened?,
        Err(panic) => {
            return Err(StartError::Thread { source: std::io::Error::other(panic.to_string()) });
        }
    };
    let allowed = settings.unsecured_access_allowed;
    let listeners = bind_all(&settings.server_urls, allowed).await?;
    let tcp_listeners = bind_all(&settings.tcp_urls, allowed).await?;
    let urls = urls_of(&listeners)?;
    if let Some(first) = listeners.first().and_then(|listener| listener.local_addr().ok()) {
        state.set_address(node_address::of_listener(first));
    }
    if let Some(first) = tcp_listeners.first().and_then(|listener| listener.local_addr().ok()) {
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
    let maintenance = vec![
        tokio::spawn(maintain(Arc::clone(&state))),
        tokio::spawn(watch_builds(Arc::clone(&state))),
    ];
    log_start(&state, &urls);
    Ok(RunningServer {
        state,
        flusher,
        watch,
        retention,
        _lock: lock,
        stopping,
        limiter,
        accepting,
        maintenance,
        urls,
    })
}

/// How many connections there may be: as many as the setting says and there is memory for, and no more than
/// leave half of the files that may be open to databases and indexes.
fn connections_max(state: &ServerState) -> usize {
    let asked = state.settings.server.connections_max;
    let by_memory = state.memory.connections_max;
    let open_files_max = platform::descriptors::limit();
    let by_files = open_files_max.map_or(usize::MAX, connections_within);
    let connections_max = asked.min(by_memory).min(by_files);
    if by_files < asked {
        tracing::warn!(
            open_files_max,
            connections_max,
            asked,
            "fewer connections than Server.MaxConnections are accepted, for want of file descriptors: raise \
             the limit of open files of the process"
        );
    } else {
        tracing::info!(open_files_max, connections_max, by_memory, asked, "places for connections");
    }
    connections_max
}

fn connections_within(open_files_max: u64) -> usize {
    usize::try_from(open_files_max / 2).unwrap_or(usize::MAX).max(1)
}

/// What runs before anybody can connect.
struct Opened {
    state: Arc<ServerState>,
    flusher: Arc<Flusher>,
    watch: ResourceWatch,
    retention: Retention,
    lock: Box<dyn DirectoryLock>,
}

fn open(settings: Settings, platform: Platform) -> Result<Opened, StartError> {
    let roots = [Some(&settings.data_dir), settings.journals_path.as_ref()];
    for root in roots.into_iter().flatten() {
        check_exposure(&*platform.disk, root)?;
    }
    let lock = lock_data_directory(&*platform.disk, &settings.data_dir)?;
    let directory = settings.data_dir.join(SYSTEM_DIRECTORY);
    let system = environment_id_in(&platform, &directory);
    if matches!(system, Ok(None)) && has_databases(&platform, &settings.data_dir) {
        let directory = settings.data_dir.display().to_string();
        return Err(StartError::SystemMissing { directory });
    }
    let failed =
        |source| StartError::Catalog { directory: settings.data_dir.display().to_string(), source };
    let catalog = Arc::new(ServerCatalog::open(&platform, directory).map_err(failed)?);
    let report = |error: &storage::StorageError| {
        tracing::error!(%error, "changes could not be brought to a data file");
    };
    let flusher = Flusher::start(FLUSHER_THREADS, Arc::clone(&platform.clock), report)
        .map_err(|source| StartError::Thread { source })?;
    let flusher = Arc::new(flusher);
    flusher.add(catalog.environment());
    let memory = Arc::new(MemoryPlan::new(&settings, &platform));
    let files = DatabaseFiles::new(settings.clone(), platform.clone(), Arc::clone(&memory));
    let options = RegistryOptions {
        concurrent_loads_max: settings.databases.concurrent_loads_max,
        close_timeout: CLOSE_TIMEOUT,
        on_event: database_log::log,
    };
    let registry = {
        let files = Arc::clone(&files);
        let options_of = move |record: &DatabaseRecord| Ok(files.options_of(record));
        DatabaseRegistry::new(Arc::clone(&catalog), Arc::clone(&flusher), options, options_of)
    };
    let newest = client_configuration::newest_index(&catalog).unwrap_or(0);
    let watch = ResourceWatch::new(
        registry.clone(),
        Arc::clone(&flusher),
        platform.clone(),
        Arc::clone(&memory.pressure),
        platform::descriptors::open_files,
        resource_log::log,
    );
    watch.start().map_err(|source| StartError::Thread { source })?;
    let retention = Retention::new(registry.clone(), platform.clone(), retention_log::log);
    retention.start(RETENTION_THREADS).map_err(|source| StartError::Thread { source })?;
    let state = ServerState::new(settings, platform, catalog, registry, files, memory, newest);
    database_deletion::finish_all(&state);
    unknown_directories::log(&state);
    Ok(Opened { state: Arc::new(state), flusher, watch, retention, lock })
}

/// Keeps other servers and offline commands out, also of databases that are not open.
fn lock_data_directory(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Box<dyn DirectoryLock>, StartError> {
    let named = || directory.display().to_string();
    let locked = disk.create_dir_all(directory).and_then(|()| disk.lock_dir(directory));
    locked.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => StartError::InUse { directory: named() },
        _ => {
            let (path, source) = (directory.to_path_buf(), Arc::new(error));
            let source = StorageError::Io { path, operation: "lock", source };
            StartError::Catalog { directory: named(), source: source.into() }
        }
    })
}

/// Refuses a directory in which others could replace files; one in which they could read is warned of.
/// Directories that the server makes are its user's alone.
fn check_exposure(disk: &dyn Disk, directory: &Path) -> Result<(), StartError> {
    // One that is missing will be made, and one that cannot be looked at cannot be opened, either.
    let Ok(exposure) = disk.exposure(directory) else { return Ok(()) };
    let directory = directory.display().to_string();
    match exposure {
        Exposure::Private => Ok(()),
        Exposure::OpenToOthers => {
            let advice = "take that away: chmod go=";
            tracing::warn!(directory, advice, "other users of this machine may look into the data");
            Ok(())
        }
        Exposure::WritableByAll | Exposure::OwnedByAnother { .. } => {
            Err(StartError::Exposed { directory, exposure })
        }
    }
}

fn urls_of(listeners: &[TcpListener]) -> Result<Vec<String>, StartError> {
    let url = |listener: &TcpListener| {
        let address = listener.local_addr().map_err(|source| StartError::Thread { source })?;
        Ok(format!("http://{address}"))
    };
    listeners.iter().map(url).collect()
}

/// What an operator asks first of a log.
fn log_start(state: &ServerState, urls: &[String]) {
    let settings = &state.settings;
    let directory = match settings.database.run_in_memory {
        true => "none, everything is in memory".to_owned(),
        false => std::path::absolute(&settings.data_dir)
            .unwrap_or_else(|_| settings.data_dir.clone())
            .display()
            .to_string(),
    };
    let memory_mb = state.memory.pressure.limit().bytes >> 20;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        addresses = urls.join(";"),
        directory,
        databases = state.catalog.records().len(),
        memory_mb,
        memory_limited_by = state.memory.limited_by,
        cores = state.machine.cores,
        process = std::process::id(),
        "started"
    );
}

/// Follows indexes that are built from nothing, for the log.
async fn watch_builds(state: Arc<ServerState>) {
    let mut ticks = tokio::time::interval(index_builds::LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if state.files.index_builds().is_empty() {
            continue;
        }
        let looked = Arc::clone(&state);
        if let Err(error) =
            tokio::task::spawn_blocking(move || index_build_log::look(&looked)).await
        {
            tracing::error!(%error, "looking at indexes that are built failed");
        }
    }
}

/// Closes databases that nobody uses, deletes automatic indexes that nobody asks, and forgets deletions of
/// compare exchange, now and then.
async fn maintain(state: Arc<ServerState>) {
    let interval = state.settings.databases.idle_check_interval;
    let idle_max = state.settings.database.idle_time_max;
    let checks_max = idle_max.as_secs().div_ceil(interval.as_secs().max(1)).max(1);
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked = Arc::clone(&state);
        let checked = tokio::task::spawn_blocking(move || {
            index_choice::delete_unneeded(&looked);
            deleted_values::forget_seen(&looked);
            looked.registry.close_idle(checks_max);
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

    /// Has `obey` called with every mode of the log that a client sets: `None`, `Operations` or
    /// `Information`. The first call counts.
    pub fn on_log_mode(&self, obey: impl Fn(&str) + Send + Sync + 'static) {
        drop(self.state.on_log_mode.set(Box::new(obey)));
    }

    /// Shows the entries of this feed to clients that watch the log. The first call counts.
    pub fn show_log(&self, feed: Arc<LogFeed>) {
        self.state.log_feed.get_or_init(|| feed);
    }

    /// Stops: accepts nothing more, lets requests finish within the time that the settings allow,
    /// then closes every database, all at once.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for accepting in self.accepting {
            drop(accepting.await);
        }
        let finished = self.limiter.all_closed();
        if timeout(self.state.settings.server.shutdown_timeout, finished).await.is_err() {
            tracing::warn!("some requests did not finish in time and are cut off");
        }
        self.maintenance.iter().for_each(JoinHandle::abort);
        let (state, flusher, watch) = (self.state, self.flusher, self.watch);
        let retention = self.retention;
        let closed = tokio::task::spawn_blocking(move || {
            watch.close();
            retention.close();
            state.registry.close_all();
            state.catalog.cluster().close();
            flusher.close();
            if let Err(error) = state.catalog.environment().close() {
                tracing::error!(%error, "the last flush of the server's own data failed");
            }
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
