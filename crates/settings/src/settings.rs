//! The settings as the rest of Corvus reads them: typed, in bytes and durations, checked.
//!
//! Not here: names and texts of keys, except where each is read. Invariant: every key with
//! `Status::Active` is read exactly once (test).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::effective::Effective;
use crate::key::Scope;
use crate::merge::{Merged, Values, merge_database};
use crate::problem::{SettingsError, Warning};
use crate::security_settings::SecuritySettings;
use crate::url::{Scheme, ServerUrl};
use crate::value::{CompressionLevel, ProtocolVersion, TcpAddress, UnsecuredAccess, Value};

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen for HTTP; at least one.
    pub server_urls: Vec<ServerUrl>,
    /// Where to listen only for the TCP protocol; empty when it uses the addresses for HTTP.
    pub tcp_urls: Vec<ServerUrl>,
    /// The public address, if it is not the one listened on.
    pub public_server_url: Option<ServerUrl>,
    /// The public TCP address, if it is not the one listened on.
    pub public_tcp_url: Option<ServerUrl>,
    /// The directory of all data; relative to the working directory unless absolute.
    pub data_dir: PathBuf,
    /// The directory under which each database keeps its journals, if not next to its data.
    pub journals_path: Option<PathBuf>,
    /// From where the server may be reached without certificates. Names in `server_urls` must be
    /// checked against this again once they are resolved.
    pub unsecured_access_allowed: UnsecuredAccess,
    /// Further host names that requests may be addressed to, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Web origins, other than the server's own, whose requests are accepted.
    pub allowed_origins: Vec<ServerUrl>,
    /// The directory with the files of the Studio, if not those inside the executable.
    pub studio_path: Option<PathBuf>,
    /// How the server identifies itself, and whom it trusts.
    pub security: SecuritySettings,
    /// The RavenDB version reported to clients.
    pub protocol_version: ProtocolVersion,
    /// Limits of the server as a whole.
    pub server: ServerLimits,
    /// Processes whose end is the server's end, too.
    pub parent_process_ids: Vec<u32>,
    /// How HTTP is spoken.
    pub http: HttpSettings,
    /// How the nodes of databases are watched.
    pub groups: GroupSettings,
    /// Limits of the clients that watch.
    pub changes: ChangesSettings,
    /// What is logged, and where.
    pub logs: LogSettings,
    /// Limits of the snapshots that are held for clients.
    pub snapshots: SnapshotSettings,
    /// How much memory is used.
    pub memory: MemorySettings,
    /// How databases are opened and closed.
    pub databases: DatabaseLoadSettings,
    /// Backups.
    pub backups: BackupSettings,
    /// Limits of documents.
    pub documents: DocumentLimits,
    /// Defaults for every database whose record does not override them.
    pub database: DatabaseSettings,
    effective: Vec<Effective>,
    values: Values,
}

/// Limits of the server as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections open at once.
    pub connections_max: usize,
    /// How long requests in progress may take after a request to stop the server.
    pub shutdown_timeout: Duration,
    /// How long a request waits for its database to open.
    pub database_load_wait_max: Duration,
}

/// How HTTP is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// The largest body of a request that is not streamed.
    pub request_body_bytes_max: u64,
    /// The largest request line and headers together.
    pub request_head_bytes_max: usize,
    /// The largest request line.
    pub request_line_bytes_max: usize,
    /// How long a client may take to send the headers of a request.
    pub request_head_timeout: Duration,
    /// How long a connection without a request is kept open.
    pub idle_connection_timeout: Duration,
    /// Minimum rate at which clients must read and send, in bytes per second; 0 for none.
    pub data_rate_min: u64,
    /// How long they may be slower.
    pub data_rate_grace_period: Duration,
    /// Whether responses are compressed for clients that request it.
    pub use_response_compression: bool,
    /// How hard to compress with gzip.
    pub gzip_level: CompressionLevel,
    /// How hard to compress with deflate.
    pub deflate_level: CompressionLevel,
    /// How hard to compress with zstd.
    pub zstd_level: CompressionLevel,
    /// Smaller responses are not compressed.
    pub compressed_response_bytes_min: usize,
}

/// Limits of the clients that watch databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesSettings {
    /// Limit on the backlog of one client, in bytes.
    pub queued_bytes_max: usize,
    /// Limit on the backlog of all clients together, in bytes.
    pub all_queued_bytes_max: usize,
}

/// What is logged, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The mode by RavenDB's name: `None`, `Operations` or `Information`.
    pub mode: &'static str,
    /// The lowest level that is logged, if set: `Trace` to `Fatal`, or `Off`.
    pub level: Option<&'static str>,
    /// Whether entries are lines of JSON.
    pub is_json: bool,
    /// The directory of log files, if there are any.
    pub directory: Option<PathBuf>,
    /// The size at which a file is closed.
    pub file_bytes_max: u64,
    /// How long files are kept.
    pub kept_for: Duration,
    /// The size of all files together.
    pub kept_bytes_max: u64,
    /// Whether closed files are compressed.
    pub is_compressed: bool,
    /// Requests that take longer are logged; `None` logs none.
    pub slow_request_min: Option<Duration>,
}

/// Limits of the snapshots that are held for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The default time that one is held.
    pub lifetime: Duration,
    /// The maximum time that one may be held.
    pub lifetime_max: Duration,
    /// How many of a database may be held at once.
    pub open_max: usize,
}

/// How much memory is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// The memory limit of the server, in bytes, if set.
    pub limit_bytes: Option<u64>,
    /// Free memory below which the server reduces its use, in bytes, if set.
    pub low_bytes: Option<u64>,
}

/// Where backups are, and how many are made at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSettings {
    /// The directory below which backups are; `None` for one in the data directory.
    pub local_root: Option<PathBuf>,
    /// How many scheduled backups may run at the same time.
    pub concurrent_max: usize,
}

/// How databases are opened and closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseLoadSettings {
    /// Databases being opened at once.
    pub concurrent_loads_max: usize,
    /// How long a database waits for its turn to be opened.
    pub concurrent_load_timeout: Duration,
    /// How often to check for idle databases.
    pub idle_check_interval: Duration,
    /// Directories, outside of the data directory, below which records may name theirs.
    pub allowed_directories: Vec<PathBuf>,
    /// Indexes that may run at the same time, if set.
    pub running_indexes_max: Option<usize>,
}

/// Limits of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentLimits {
    /// The largest document.
    pub document_bytes_max: u64,
    /// How deeply objects and arrays may be nested.
    pub nesting_depth_max: u32,
}

/// The settings of one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// The directory of this database, if its record names one.
    pub data_dir: Option<PathBuf>,
    /// The directory of this database's journals, if its record names one.
    pub journals_path: Option<PathBuf>,
    /// Whether nothing is written to disk.
    pub run_in_memory: bool,
    /// Committed bytes that may wait to be flushed to the data file; `None` derives it from the
    /// available memory.
    pub unflushed_bytes_max: Option<u64>,
    /// Free bytes of a disk below which the server warns; 0 never.
    pub free_space_alert_bytes: u64,
    /// Hundredths of a disk that must be free, or the server warns; 0 never.
    pub free_space_alert_percent: u64,
    /// Free bytes of a disk below which writes are refused.
    pub free_space_write_bytes: u64,
    /// I/O that takes this long or longer is slow.
    pub slow_io_min: Duration,
    /// The size at which a journal file is closed.
    pub journal_bytes_max: u64,
    /// How long the database may go unused before it is closed.
    pub idle_time_max: Duration,
    /// How long an automatic index is kept when a wider one answers its queries.
    pub superseded_index_kept: Duration,
    /// An automatic index is idle when others were queried this much later than it.
    pub index_idle_after: Duration,
    /// An idle automatic index is deleted when it was not queried for this long.
    pub idle_index_kept: Duration,
    /// How often tombstones that are no longer needed are removed.
    pub tombstones_interval: Duration,
    /// How many statements the script of a patch may execute.
    pub script_steps_max: u64,
    /// Whether no index follows the documents.
    pub indexing_disabled: bool,
    /// Documents of more bytes are noted when they are used.
    pub huge_document_bytes: u64,
    /// The maximum number of them kept.
    pub huge_documents_kept: usize,
}

impl Settings {
    /// Every key that Corvus reads, and every other one that was set, with the source of its value
    /// and what it overrides.
    pub fn effective(&self) -> &[Effective] {
        &self.effective
    }

    /// From where a server without a certificate may be reached: API keys identify its clients, but must not be
    /// sent in the clear through a network.
    pub fn access_without_certificate(&self) -> UnsecuredAccess {
        match (&self.security.api_keys, self.security.tls_ends_elsewhere) {
            (None, _) => self.unsecured_access_allowed,
            (Some(_), true) => UnsecuredAccess::PublicNetwork,
            (Some(_), false) => UnsecuredAccess::Local,
        }
    }

    pub(crate) fn from_merged(merged: Merged) -> Settings {
        let mut values = Picker(merged.values.clone());
        let settings = Settings::pick(&mut values, merged);
        assert!(values.0.is_empty(), "active keys that are never read: {:?}", values.0);
        settings
    }

    fn pick(values: &mut Picker, merged: Merged) -> Settings {
        // Its only available value has no effect.
        values.choice("Setup.Mode");
        let server_urls = values.urls("ServerUrl");
        Settings {
            tcp_urls: tcp_urls(values.take("ServerUrl.Tcp"), &server_urls),
            server_urls,
            public_server_url: values.urls("PublicServerUrl").pop(),
            public_tcp_url: values.urls("PublicServerUrl.Tcp").pop(),
            data_dir: values.path("DataDir").expect("DataDir has a default"),
            journals_path: values.path("Storage.JournalsPath"),
            unsecured_access_allowed: values.access("Security.UnsecuredAccessAllowed"),
            allowed_hosts: values.names("Security.AllowedHosts"),
            allowed_origins: values.urls("Security.AllowedOrigins"),
            studio_path: values.path("Studio.Path"),
            security: SecuritySettings::pick(values),
            protocol_version: values.version("Server.ProtocolVersion"),
            server: ServerLimits::pick(values),
            parent_process_ids: parent_process_ids(values),
            http: HttpSettings::pick(values),
            groups: GroupSettings::pick(values),
            changes: ChangesSettings::pick(values),
            logs: LogSettings::pick(values),
            snapshots: SnapshotSettings::pick(values),
            memory: MemorySettings::pick(values),
            databases: DatabaseLoadSettings::pick(values),
            backups: BackupSettings::pick(values),
            documents: DocumentLimits::pick(values),
            database: DatabaseSettings::pick(values),
            effective: merged.effective,
            values: merged.values,
        }
    }
}

impl ServerLimits {
    fn pick(values: &mut Picker) -> ServerLimits {
        ServerLimits {
            connections_max: values.count("Server.MaxConnections"),
            shutdown_timeout: values.duration("Server.ShutdownTimeoutInSec"),
            database_load_wait_max: values
                .duration("Server.MaxTimeForTaskToWaitForDatabaseToLoadInSec"),
        }
    }
}

/// How the nodes of databases are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// A member that has not answered for so long is set aside.
    pub silence_max: Duration,
    /// A node that has not answered for so long is replaced.
    pub absence_max: Duration,
    /// Whether a node that was replaced removes its files.
    pub removes_replaced: bool,
}

impl GroupSettings {
    fn pick(values: &mut Picker) -> GroupSettings {
        GroupSettings {
            silence_max: values.duration("Cluster.TimeBeforeMovingToRehabInSec"),
            absence_max: values.duration("Cluster.TimeBeforeAddingReplicaInSec"),
            removes_replaced: values.bool("Cluster.HardDeleteOnReplacement"),
        }
    }
}

impl HttpSettings {
    fn pick(values: &mut Picker) -> HttpSettings {
        HttpSettings {
            request_body_bytes_max: values.bytes("Http.MaxRequestBodySizeInMb"),
            request_head_bytes_max: values.small_bytes("Http.MaxRequestHeadSizeInKb"),
            request_line_bytes_max: values.small_bytes("Http.MaxRequestLineSizeInKb"),
            request_head_timeout: values.duration("Http.RequestHeadTimeoutInSec"),
            idle_connection_timeout: values.duration("Http.IdleConnectionTimeoutInSec"),
            data_rate_min: values.count("Http.MinDataRateBytesPerSec") as u64,
            data_rate_grace_period: values.duration("Http.MinDataRateGracePeriodInSec"),
            use_response_compression: values.bool("Http.UseResponseCompression"),
            gzip_level: values.compression_level("Http.GzipResponseCompressionLevel"),
            deflate_level: values.compression_level("Http.DeflateResponseCompressionLevel"),
            zstd_level: values.compression_level("Http.ZstdResponseCompressionLevel"),
            compressed_response_bytes_min: values.count("Http.CompressedResponseSizeMinInBytes"),
        }
    }
}

impl ChangesSettings {
    fn pick(values: &mut Picker) -> ChangesSettings {
        ChangesSettings {
            queued_bytes_max: values.small_bytes("Changes.MaxQueuedSizePerConnectionInKb"),
            all_queued_bytes_max: values.small_bytes("Changes.MaxQueuedSizeInMb"),
        }
    }
}

impl LogSettings {
    fn pick(values: &mut Picker) -> LogSettings {
        // Its only available value is how it is.
        values.choice("Logs.UseUtcTime");
        let slow_request_min = values.duration("Logs.SlowRequestThresholdInMs");
        LogSettings {
            mode: values.choice("Logs.Mode"),
            level: values.choice_if_set("Logs.MinLevel"),
            is_json: values.choice("Logs.Format") == "Json",
            directory: values.path("Logs.Path"),
            file_bytes_max: values.bytes("Logs.MaxFileSizeInMb"),
            kept_for: values.duration("Logs.RetentionTimeInHrs"),
            kept_bytes_max: values.bytes("Logs.RetentionSizeInMb"),
            is_compressed: values.bool("Logs.Compress"),
            slow_request_min: (!slow_request_min.is_zero()).then_some(slow_request_min),
        }
    }
}

impl SnapshotSettings {
    fn pick(values: &mut Picker) -> SnapshotSettings {
        SnapshotSettings {
            lifetime: values.duration("Snapshots.LifetimeInSec"),
            lifetime_max: values.duration("Snapshots.MaxLifetimeInSec"),
            open_max: values.count("Snapshots.MaxOpenPerDatabase"),
        }
    }
}

impl MemorySettings {
    fn pick(values: &mut Picker) -> MemorySettings {
        MemorySettings {
            limit_bytes: values.bytes_if_set("Memory.LimitInMb"),
            low_bytes: values.bytes_if_set("Memory.LowMemoryLimitInMb"),
        }
    }
}

impl DatabaseLoadSettings {
    fn pick(values: &mut Picker) -> DatabaseLoadSettings {
        DatabaseLoadSettings {
            concurrent_loads_max: values.count("Databases.MaxConcurrentLoads"),
            concurrent_load_timeout: values.duration("Databases.ConcurrentLoadTimeoutInSec"),
            idle_check_interval: values.duration("Databases.FrequencyToCheckForIdleInSec"),
            allowed_directories: values.paths("Databases.AllowedDirectories"),
            running_indexes_max: values
                .count_if_set("Indexing.MaxNumberOfConcurrentlyRunningIndexes"),
        }
    }
}

impl BackupSettings {
    fn pick(values: &mut Picker) -> BackupSettings {
        BackupSettings {
            local_root: values.path("Backup.LocalRootPath"),
            concurrent_max: values.count("Backup.MaxNumberOfConcurrentBackups"),
        }
    }
}

impl DocumentLimits {
    fn pick(values: &mut Picker) -> DocumentLimits {
        let depth = values.count("Documents.MaxNestingDepth");
        DocumentLimits {
            document_bytes_max: values.bytes("Documents.MaxDocumentSizeInMb"),
            nesting_depth_max: u32::try_from(depth).expect("the row's maximum fits in 32 bits"),
        }
    }
}

impl DatabaseSettings {
    /// The settings of a database whose record has `overrides` (names of keys and their values;
    /// empty values mean not set), for checking them before they are stored.
    ///
    /// # Errors
    /// All problems at once: unknown or refused keys, keys of the server, invalid values.
    pub fn from_overrides(
        server: &Settings,
        overrides: &BTreeMap<String, String>,
    ) -> Result<DatabaseSettings, SettingsError> {
        let mut problems = Vec::new();
        let (values, overridden) = merge_database(&server.values, overrides, &mut problems);
        if !problems.is_empty() {
            return Err(SettingsError { scope: Scope::Database, problems });
        }
        Ok(DatabaseSettings::overlay(values, &overridden))
    }

    /// As [`DatabaseSettings::from_overrides`], for a record that was stored earlier: invalid
    /// values are left out and returned as warnings, because a database must not become unreachable
    /// when another version of Corvus understands fewer of its settings.
    pub fn from_stored(
        server: &Settings,
        overrides: &BTreeMap<String, String>,
    ) -> (DatabaseSettings, Vec<Warning>) {
        let mut problems = Vec::new();
        let (values, overridden) = merge_database(&server.values, overrides, &mut problems);
        let warnings = problems
            .iter()
            .map(|problem| Warning::IgnoredInDatabase { problem: problem.to_string() })
            .collect();
        (DatabaseSettings::overlay(values, &overridden), warnings)
    }

    fn overlay(values: Values, overridden: &[&'static str]) -> DatabaseSettings {
        let mut values = Picker(values);
        let mut own_path = |name| {
            let path = values.path(name);
            // The server's path is the root for all databases, not the directory of this one.
            path.filter(|_| overridden.contains(&name))
        };
        let (data_dir, journals_path) = (own_path("DataDir"), own_path("Storage.JournalsPath"));
        DatabaseSettings { data_dir, journals_path, ..DatabaseSettings::pick(&mut values) }
    }

    fn pick(values: &mut Picker) -> DatabaseSettings {
        DatabaseSettings {
            data_dir: None,
            journals_path: None,
            run_in_memory: values.bool("RunInMemory"),
            unflushed_bytes_max: values.bytes_if_set("Storage.MaxUnflushedInMb"),
            free_space_alert_bytes: values.bytes("Storage.FreeSpaceAlertThresholdInMb"),
            free_space_alert_percent: values.count("Storage.FreeSpaceAlertThresholdInPercentages")
                as u64,
            free_space_write_bytes: values.bytes("Storage.FreeSpaceWriteThresholdInMb"),
            slow_io_min: values.duration("Storage.SlowIoThresholdInMs"),
            journal_bytes_max: values.bytes("Storage.JournalSizeMaxInMb"),
            idle_time_max: values.duration("Databases.MaxIdleTimeInSec"),
            superseded_index_kept: values
                .duration("Indexing.TimeBeforeDeletionOfSupersededAutoIndexInSec"),
            index_idle_after: values
                .duration("Indexing.TimeToWaitBeforeMarkingAutoIndexAsIdleInMin"),
            idle_index_kept: values
                .duration("Indexing.TimeToWaitBeforeDeletingAutoIndexMarkedAsIdleInHrs"),
            tombstones_interval: values.duration("Tombstones.CleanupIntervalInMin"),
            indexing_disabled: values.bool("Indexing.Disable"),
            script_steps_max: values.count("Patching.MaxStepsForScript") as u64,
            huge_document_bytes: values.bytes("PerformanceHints.Documents.HugeDocumentSizeInMb"),
            huge_documents_kept: values
                .count("PerformanceHints.Documents.HugeDocumentsCollectionSize"),
        }
    }
}

fn parent_process_ids(values: &mut Picker) -> Vec<u32> {
    let ids = ["Embedded.ParentProcessId", "Testing.ParentProcessId"];
    let ids = ids.map(|name| values.count_if_set(name)).into_iter().flatten();
    ids.map(|id| u32::try_from(id).expect("the rows' maximum fits in 32 bits")).collect()
}

/// Where to listen for TCP alone: a bare port means the hosts of `server_urls`.
fn tcp_urls(value: Value, server_urls: &[ServerUrl]) -> Vec<ServerUrl> {
    let on_each_host = |port| {
        let on_host = move |url: &ServerUrl| {
            let (scheme, host) = (Scheme::Tcp, url.host.clone());
            ServerUrl { scheme, host, port }
        };
        server_urls.iter().map(on_host).collect()
    };
    let addresses = match value {
        Value::Unset => return Vec::new(),
        Value::TcpAddresses(addresses) => addresses,
        other => panic!("the table says addresses, not {other:?}"),
    };
    let resolve = |address| match address {
        TcpAddress::Port(port) => on_each_host(port),
        TcpAddress::Url(url) => vec![url],
    };
    addresses.into_iter().flat_map(resolve).collect()
}

/// Takes values by name and type. A mismatch is a bug in this file or the table, which building any
/// `Settings` reveals.
pub(crate) struct Picker(Values);

impl Picker {
    pub(crate) fn take(&mut self, name: &'static str) -> Value {
        self.0.remove(name).unwrap_or_else(|| panic!("no active row is left named {name}"))
    }

    pub(crate) fn bool(&mut self, name: &'static str) -> bool {
        match self.take(name) {
            Value::Bool(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn count(&mut self, name: &'static str) -> usize {
        match self.take(name) {
            Value::Integer(value) => {
                usize::try_from(value).expect("the row's maximum fits in 32 bits")
            }
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn count_if_set(&mut self, name: &'static str) -> Option<usize> {
        match self.take(name) {
            Value::Unset => None,
            Value::Integer(value) => {
                Some(usize::try_from(value).expect("the row's maximum fits in 32 bits"))
            }
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn text_if_set(&mut self, name: &'static str) -> Option<String> {
        match self.take(name) {
            Value::Unset => None,
            Value::Text(value) => Some(value),
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn bytes(&mut self, name: &'static str) -> u64 {
        match self.take(name) {
            Value::Bytes(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn bytes_if_set(&mut self, name: &'static str) -> Option<u64> {
        match self.take(name) {
            Value::Unset => None,
            Value::Bytes(value) => Some(value),
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn small_bytes(&mut self, name: &'static str) -> usize {
        usize::try_from(self.bytes(name)).expect("the row's maximum fits in 32 bits")
    }

    pub(crate) fn duration(&mut self, name: &'static str) -> Duration {
        match self.take(name) {
            Value::Duration(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn choice(&mut self, name: &'static str) -> &'static str {
        match self.take(name) {
            Value::Choice(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn choice_if_set(&mut self, name: &'static str) -> Option<&'static str> {
        match self.take(name) {
            Value::Unset => None,
            Value::Choice(value) => Some(value),
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    fn compression_level(&mut self, name: &'static str) -> CompressionLevel {
        CompressionLevel::from_name(self.choice(name))
            .expect("the rows list exactly the levels: every_compression_level_in_the_table_exists")
    }

    fn access(&mut self, name: &'static str) -> UnsecuredAccess {
        match self.take(name) {
            Value::Access(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    fn version(&mut self, name: &'static str) -> ProtocolVersion {
        match self.take(name) {
            Value::Version(value) => value,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn names(&mut self, name: &'static str) -> Vec<String> {
        match self.take(name) {
            Value::Names(value) => value,
            Value::Unset => Vec::new(),
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    fn paths(&mut self, name: &'static str) -> Vec<PathBuf> {
        match self.take(name) {
            Value::Paths(value) => value,
            Value::Unset => Vec::new(),
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    pub(crate) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        match self.take(name) {
            Value::Path(value) => Some(value),
            Value::Unset => None,
            other => panic!("{name} is {other:?} by the table"),
        }
    }

    fn urls(&mut self, name: &'static str) -> Vec<ServerUrl> {
        match self.take(name) {
            Value::Urls(value) => value,
            Value::Unset => Vec::new(),
            other => panic!("{name} is {other:?} by the table"),
        }
    }
}
