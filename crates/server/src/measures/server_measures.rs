//! Metrics of the server itself.

use database::MemoryLevel;
use model::{DatabaseRecord, ticks};
use serde_json::Value;
use wire::guid_text;

use crate::{
    measures::{
        Amount::{self, Bytes, Real, Seconds, Whole, Word},
        Measure,
    },
    server_state::ServerState,
};

/// All of them. Those without a counterpart here, such as thread pools, garbage collections,
/// licenses and backups, are omitted.
pub(crate) fn measures(state: &ServerState) -> Vec<Measure> {
    let parts =
        [general(state), cpu(state), memory(state), disk(state), network(state), rest(state)];
    parts.into_iter().flatten().collect()
}

/// The labels that identify the server, for Prometheus.
pub(crate) fn identity(state: &ServerState) -> [(&'static str, String); 6] {
    let build = state.build();
    let public =
        |url: Option<&settings::ServerUrl>| url.map(ToString::to_string).unwrap_or_default();
    [
        ("server_version", build.product_version),
        ("server_full_version", build.full_version),
        ("cluster_node_tag", state.node_tag().to_owned()),
        ("cluster_id", guid_text(state.engine.topology_id())),
        ("server_urls", urls(&state.engine.settings().server_urls).join(";")),
        ("public_server_url", public(state.engine.settings().public_server_url.as_ref())),
    ]
}

fn urls(urls: &[settings::ServerUrl]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

fn general(state: &ServerState) -> Vec<Measure> {
    let settings = state.engine.settings();
    let up_time = state.engine.clock().monotonic().saturating_sub(state.started);
    let build = state.build();
    let public = |url: Option<&settings::ServerUrl>| Value::from(url.map(ToString::to_string));
    vec![
        Measure::text("ServerVersion", build.product_version),
        Measure::text("ServerFullVersion", build.full_version),
        Measure::counter(
            ("UpTimeInSec", "ravendb_server_uptime_seconds", "How long the server has run."),
            Whole(up_time.as_secs()),
        ),
        Measure::gauge(
            ("ServerProcessId", "ravendb_server_process_id", "The number of its process."),
            Whole(u64::from(std::process::id())),
        ),
        Measure::text("Config.ServerUrls", urls(&settings.server_urls)),
        Measure::text("Config.PublicServerUrl", public(settings.public_server_url.as_ref())),
        Measure::text("Config.TcpServerUrls", urls(&settings.tcp_urls)),
        Measure::text("Config.PublicTcpServerUrls", urls(settings.public_tcp_url.as_slice())),
    ]
}

fn cpu(state: &ServerState) -> Vec<Measure> {
    let shares = state.processor_load.shares(state.engine.clock().monotonic());
    let cores = || Whole(state.machine.cores as u64);
    vec![
        Measure::gauge(
            (
                "Cpu.ProcessUsage",
                "ravendb_cpu_process_usage",
                "Processors' time of the server, in percent.",
            ),
            Real(shares.process),
        ),
        Measure::gauge(
            (
                "Cpu.MachineUsage",
                "ravendb_cpu_machine_usage",
                "Processors' time of all processes, in percent.",
            ),
            Real(shares.machine),
        ),
        Measure::gauge(
            ("Cpu.ProcessorCount", "ravendb_cpu_processor_count", "Processors of the machine."),
            cores(),
        ),
        Measure::gauge(
            (
                "Cpu.AssignedProcessorCount",
                "ravendb_cpu_assigned_processor_count",
                "Processors that the server may use.",
            ),
            cores(),
        ),
    ]
}

fn memory(state: &ServerState) -> Vec<Measure> {
    let plan = state.engine.memory();
    let measured = state.engine.platform().memory.usage().ok();
    let usage = measured.or_else(|| plan.pressure.reading().map(|reading| reading.usage));
    let of_usage = |bytes: fn(&platform::MemoryUsage) -> u64| usage.as_ref().map_or(0, bytes);
    let (taken, free) =
        (of_usage(|usage| usage.taken_bytes), of_usage(|usage| usage.machine_free_bytes));
    let limit = plan.pressure.limit().bytes;
    let installed = || Bytes((state.machine.memory_gb * (1u64 << 30) as f64) as u64);
    let severity = match plan.pressure.level() {
        MemoryLevel::Enough => Word("None", 0),
        MemoryLevel::Low => Word("Low", 1),
        MemoryLevel::Critical => Word("ExtremelyLow", 2),
    };
    vec![
        Measure::gauge(
            (
                "Memory.AllocatedMemoryInMb",
                "ravendb_memory_allocated_bytes",
                "Memory of the server alone.",
            ),
            Bytes(taken),
        ),
        Measure::gauge(
            (
                "Memory.PhysicalMemoryInMb",
                "ravendb_memory_physical_bytes",
                "Memory of the machine.",
            ),
            installed(),
        ),
        Measure::gauge(
            (
                "Memory.InstalledMemoryInMb",
                "ravendb_memory_installed_bytes",
                "Memory of the machine.",
            ),
            installed(),
        ),
        Measure::gauge(
            (
                "Memory.LowMemorySeverity",
                "ravendb_memory_low_memory_severity",
                "Whether memory is low: 0 = None, 1 = Low, 2 = ExtremelyLow.",
            ),
            severity,
        ),
        Measure::gauge(
            (
                "Memory.TotalDirtyInMb",
                "ravendb_memory_total_dirty_bytes",
                "Changes in memory that are not in data files yet.",
            ),
            Bytes(plan.unflushed.held_bytes()),
        ),
        Measure::gauge(
            (
                "",
                "ravendb_available_memory_for_processing_bytes",
                "Memory that the server could still take.",
            ),
            Bytes(limit.saturating_sub(taken).min(free)),
        ),
        Measure::gauge(
            ("", "ravendb_unmanaged_memory_bytes", "Memory of the server alone."),
            Bytes(taken),
        ),
    ]
}

fn disk(state: &ServerState) -> Vec<Measure> {
    let files = state.engine.state_statistics();
    let space = state.engine.platform().disk.space(&state.engine.settings().data_dir).ok();
    let (free, total) = space.map_or((0, 0), |space| (space.free_bytes, space.total_bytes));
    vec![
        Measure::gauge(
            (
                "Disk.SystemStoreUsedDataFileSizeInMb",
                "ravendb_server_disk_system_store_used_data_file_size_bytes",
                "Bytes in use in the data file of the server.",
            ),
            Bytes(files.used_bytes()),
        ),
        Measure::gauge(
            (
                "Disk.SystemStoreTotalDataFileSizeInMb",
                "ravendb_server_disk_system_store_total_data_file_size_bytes",
                "Bytes of the data file of the server.",
            ),
            Bytes(files.data_file_bytes),
        ),
        Measure::gauge(
            (
                "Disk.TotalFreeSpaceInMb",
                "ravendb_server_storage_total_free_space_bytes",
                "Free bytes of the disk of the server.",
            ),
            Bytes(free),
        ),
        Measure::gauge(
            (
                "Disk.RemainingStorageSpacePercentage",
                "ravendb_server_disk_remaining_storage_space_percentage",
                "Free bytes of the disk of the server, in percent.",
            ),
            Whole(free.saturating_mul(100) / total.max(1)),
        ),
    ]
}

fn network(state: &ServerState) -> Vec<Measure> {
    let activity = state.engine.activity();
    let requests = activity.requests.read(activity.now());
    let now_ticks = state.engine.clock().now().ticks();
    let last = state
        .last_request()
        .map(|moment| ticks::to_duration(now_ticks.saturating_sub(moment.ticks())).as_secs_f64());
    vec![
        Measure::gauge(
            (
                "Network.TcpActiveConnections",
                "ravendb_network_tcp_active_connections",
                "Connections of clients.",
            ),
            Whole(state.connections_count() as u64),
        ),
        Measure::gauge(
            (
                "Network.ConcurrentRequestsCount",
                "ravendb_network_concurrent_requests_count",
                "Requests that are being answered.",
            ),
            Whole(activity.requests_running()),
        ),
        Measure::counter(
            (
                "Network.TotalRequests",
                "ravendb_network_total_requests",
                "Requests since the server started.",
            ),
            Whole(requests.count),
        ),
        Measure::gauge(
            (
                "Network.RequestsPerSec",
                "ravendb_network_requests_per_second",
                "Requests per second in the last minute.",
            ),
            Real(requests.one_minute),
        ),
        Measure::gauge(
            (
                "Network.LastRequestTimeInSec",
                "ravendb_network_last_request_time_in_seconds",
                "How long ago the last request was answered.",
            ),
            Seconds(last),
        ),
    ]
}

fn rest(state: &ServerState) -> Vec<Measure> {
    let records = state.engine.records();
    let is_open = |record: &&std::sync::Arc<DatabaseRecord>| {
        state.engine.if_open(record.name.as_str()).is_some()
    };
    let open = records.iter().filter(is_open).count();
    // Read errors are reported where they are used.
    let index = state.engine.cluster_state().last_index().unwrap_or(0);
    vec![
        Measure::gauge(
            (
                "Certificate.ServerCertificateExpirationLeftInSec",
                "ravendb_certificate_server_certificate_expiration_left_seconds",
                "How long the certificate of the server is valid.",
            ),
            Amount::Seconds(None),
        ),
        Measure::text("Certificate.WellKnownAdminCertificates", Value::Null),
        Measure::text("Cluster.NodeTag", state.node_tag()),
        Measure::gauge(
            (
                "Cluster.NodeState",
                "ravendb_cluster_node_state",
                "0 = Passive, 1 = Candidate, 2 = Follower, 3 = LeaderElect, 4 = Leader.",
            ),
            Word("Leader", 4),
        ),
        Measure::counter(
            ("Cluster.Index", "ravendb_cluster_index", "The last index of the cluster's log."),
            Whole(index),
        ),
        Measure::text("Cluster.Id", guid_text(state.engine.topology_id())),
        Measure::gauge(
            ("Databases.TotalCount", "ravendb_databases_total_count", "Databases."),
            Whole(records.len() as u64),
        ),
        Measure::gauge(
            ("Databases.LoadedCount", "ravendb_databases_loaded_count", "Databases that are open."),
            Whole(open as u64),
        ),
    ]
}
