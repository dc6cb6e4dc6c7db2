//! The server's load as shown in dashboards: one section for each widget, computed on demand.
//!
//! Rates are relative to the same reader's previous reading. Only open databases are read, and none
//! is opened for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use database::{Database, DatabaseLease, MemoryLevel};
use model::{DatabaseRecord, date};
use serde_json::{Map, Value, json};

use crate::{
    handlers::{databases::listed_overview, memory::level_name, statistics::size_on_disk},
    server_state::ServerState,
};

/// Maximum number of databases in one section.
const DATABASES_MAX: usize = 1024;

/// A part of a dashboard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Widget {
    CpuUsage,
    MemoryUsage,
    StorageUsage,
    DatabaseStorageUsage,
    Traffic,
    DatabaseTraffic,
    Indexing,
    DatabaseIndexing,
    DatabaseOverview,
    OngoingTasks,
    ClusterOverview,
    /// The machine's resources and load, for the server's own dashboard.
    MachineResources,
    /// The drive with the usage of each database, for the same.
    DriveUsage,
}

impl Widget {
    const ALL: [Widget; 13] = [
        Widget::CpuUsage,
        Widget::MemoryUsage,
        Widget::StorageUsage,
        Widget::DatabaseStorageUsage,
        Widget::Traffic,
        Widget::DatabaseTraffic,
        Widget::Indexing,
        Widget::DatabaseIndexing,
        Widget::DatabaseOverview,
        Widget::OngoingTasks,
        Widget::ClusterOverview,
        Widget::MachineResources,
        Widget::DriveUsage,
    ];

    /// The widget with this name in the protocol.
    pub(crate) fn named(name: &str) -> Option<Widget> {
        Widget::ALL.into_iter().find(|widget| widget.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Widget::CpuUsage => "CpuUsage",
            Widget::MemoryUsage => "MemoryUsage",
            Widget::StorageUsage => "StorageUsage",
            Widget::DatabaseStorageUsage => "DatabaseStorageUsage",
            Widget::Traffic => "Traffic",
            Widget::DatabaseTraffic => "DatabaseTraffic",
            Widget::Indexing => "Indexing",
            Widget::DatabaseIndexing => "DatabaseIndexing",
            Widget::DatabaseOverview => "DatabaseOverview",
            Widget::OngoingTasks => "OngoingTasks",
            Widget::ClusterOverview => "ClusterOverview",
            Widget::MachineResources => "MachineResources",
            Widget::DriveUsage => "DriveUsage",
        }
    }

    /// How often its numbers are sent.
    pub(crate) fn interval(self) -> Duration {
        Duration::from_secs(match self {
            Widget::CpuUsage
            | Widget::MemoryUsage
            | Widget::Traffic
            | Widget::DatabaseTraffic
            | Widget::Indexing
            | Widget::DatabaseIndexing
            | Widget::MachineResources => 1,
            Widget::StorageUsage
            | Widget::DatabaseStorageUsage
            | Widget::DatabaseOverview
            | Widget::OngoingTasks
            | Widget::DriveUsage => 5,
            Widget::ClusterOverview => 60,
        })
    }
}

/// The load of a server, for one reader.
pub(crate) struct Dashboard {
    state: Arc<ServerState>,
    address: String,
}

/// The counters when a widget was last shown; rates are relative to them.
pub(crate) struct Look {
    at: Duration,
    counts: BTreeMap<String, Counts>,
}

/// The counters since a database was opened.
#[derive(Clone, Copy, Default)]
struct Counts {
    requests: u64,
    changes: u64,
}

/// The same per second.
#[derive(Clone, Copy, Default)]
struct Rates {
    requests: f64,
    changes: f64,
}

impl Dashboard {
    pub(crate) fn new(state: Arc<ServerState>, address: String) -> Dashboard {
        Dashboard { state, address }
    }

    /// The current content of a widget; `last` is its previous state.
    pub(crate) fn show(&self, widget: Widget, last: &mut Option<Look>) -> Value {
        let content = match widget {
            Widget::CpuUsage => self.cpu_usage(),
            Widget::MemoryUsage => self.memory_usage(),
            Widget::StorageUsage => json!({"Items": [self.drive()]}),
            Widget::DatabaseStorageUsage => json!({"Items": self.database_sizes()}),
            Widget::Traffic => traffic_shape(total(&self.traffic(last))),
            Widget::DatabaseTraffic => {
                let of_one =
                    |(name, rates): (String, Rates)| with_database(&name, traffic_shape(rates));
                json!({"Items": self.traffic(last).into_iter().map(of_one).collect::<Vec<_>>()})
            }
            Widget::Indexing => {
                let (mapped, reduced) =
                    self.open().iter().fold((0.0, 0.0), |sum, (_, database)| {
                        let (mapped, reduced) = indexing_rates(database);
                        (sum.0 + mapped, sum.1 + reduced)
                    });
                indexing_shape(mapped, reduced)
            }
            Widget::DatabaseIndexing => {
                let of_one = |(name, database): (String, DatabaseLease)| {
                    let (mapped, reduced) = indexing_rates(&database);
                    with_database(&name, indexing_shape(mapped, reduced))
                };
                json!({"Items": self.open().into_iter().map(of_one).collect::<Vec<_>>()})
            }
            Widget::DatabaseOverview => json!({"Items": self.overview()}),
            Widget::OngoingTasks => json!({"Items": self.tasks()}),
            Widget::ClusterOverview => self.cluster_overview(),
            Widget::MachineResources => self.machine_resources(),
            Widget::DriveUsage => {
                let mut drive = self.drive();
                drive["Items"] = self.database_sizes().into();
                json!({"Items": [drive]})
            }
        };
        let mut shown = json!({"Type": widget.name(), "Date": self.now()});
        if let (Some(shown), Value::Object(content)) = (shown.as_object_mut(), content) {
            shown.extend(content);
        }
        shown
    }

    /// The time in the format of dashboards.
    pub(crate) fn now(&self) -> String {
        date::format(self.state.engine.clock().now().ticks())
    }

    fn cpu_usage(&self) -> Value {
        let shares = self.state.processor_load.shares(self.state.engine.clock().monotonic());
        let cores = self.state.machine.cores;
        json!({
            "ProcessCpuUsage": shares.process.round(), "MachineCpuUsage": shares.machine.round(),
            "UtilizedCores": cores, "NumberOfCores": cores
        })
    }

    fn memory_usage(&self) -> Value {
        let plan = self.state.engine.memory();
        let usage = self.state.engine.platform().memory.usage().ok();
        let limit = plan.pressure.limit().bytes;
        let severity = match plan.pressure.level() {
            MemoryLevel::Enough => "None",
            MemoryLevel::Low => "Low",
            MemoryLevel::Critical => "ExtremelyLow",
        };
        json!({
            "Time": self.now(), "LowMemorySeverity": severity, "State": level_name(plan.pressure.level()),
            "PhysicalMemory": limit, "WorkingSet": usage.map(|usage| usage.resident_bytes),
            "ManagedAllocations": 0, "UnmanagedAllocations": usage.map(|usage| usage.taken_bytes),
            "SystemCommitLimit": limit, "EncryptionBuffersInUse": 0, "EncryptionBuffersPool": 0,
            "MemoryMapped": usage.map(|usage| usage.resident_bytes.saturating_sub(usage.taken_bytes)),
            "DirtyMemory": plan.unflushed.held_bytes(),
            "AvailableMemory": usage.map(|usage| usage.machine_free_bytes),
            "AvailableMemoryForProcessing": usage.map(|usage| {
                limit.saturating_sub(usage.taken_bytes).min(usage.machine_free_bytes)
            }),
            "LowMemoryThreshold": plan.pressure.low_bytes(), "TotalSwapUsage": 0
        })
    }

    fn machine_resources(&self) -> Value {
        let (processors, mut memory) = (self.cpu_usage(), self.memory_usage());
        let mut shape = json!({
            "MachineCpuUsage": processors["MachineCpuUsage"],
            "ProcessCpuUsage": processors["ProcessCpuUsage"], "IsWindows": false,
            "CommitChargeThreshold": 0
        });
        for (name, from) in [
            ("TotalMemory", "PhysicalMemory"),
            ("AvailableMemory", "AvailableMemory"),
            ("AvailableMemoryForProcessing", "AvailableMemoryForProcessing"),
            ("SystemCommitLimit", "SystemCommitLimit"),
            ("CommittedMemory", "UnmanagedAllocations"),
            ("ProcessMemoryUsage", "WorkingSet"),
            ("LowMemorySeverity", "LowMemorySeverity"),
            ("LowMemoryThreshold", "LowMemoryThreshold"),
            ("TotalSwapUsage", "TotalSwapUsage"),
        ] {
            shape[name] = memory[from].take();
        }
        shape
    }

    /// The open databases, by name.
    fn open(&self) -> Vec<(String, DatabaseLease)> {
        let records = self.records();
        let open = records.iter().filter_map(|record| {
            let name = record.name.as_str();
            Some((name.to_owned(), self.state.engine.if_open(name)?))
        });
        open.collect()
    }

    fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.state.engine.records().into_iter().take(DATABASES_MAX).collect()
    }

    fn database_sizes(&self) -> Vec<Value> {
        let of_one = |(name, database): &(String, DatabaseLease)| json!({"Database": name, "Size": size_on_disk(database), "TempBuffersSize": 0});
        self.open().iter().map(of_one).collect()
    }

    /// The drive of the data directory.
    fn drive(&self) -> Value {
        let directory = &self.state.engine.settings().data_dir;
        let space = self.state.engine.platform().disk.space(directory).ok();
        let (free, total) = space.map_or((0, 0), |space| (space.free_bytes, space.total_bytes));
        let open = self.open();
        let is_low = |(_, database): &(String, DatabaseLease)| {
            database.disk_space().level != database::DiskSpaceLevel::Enough
        };
        let used: u64 = open.iter().map(|(_, database)| size_on_disk(database)).sum();
        json!({
            "MountPoint": directory.to_string_lossy(), "VolumeLabel": null, "TotalCapacity": total,
            "FreeSpace": free, "IsLowSpace": open.iter().any(is_low), "IoStatsResult": null,
            "RavenSize": used, "RavenTempBuffersSize": 0
        })
    }

    fn overview(&self) -> Vec<Value> {
        let of_one = |record: &Arc<DatabaseRecord>| listed_overview(&self.state, record);
        self.records().iter().map(of_one).collect()
    }

    fn tasks(&self) -> Vec<Value> {
        let cluster = self.state.engine.cluster_state();
        let of_one = |record: &Arc<DatabaseRecord>| {
            let subscriptions =
                cluster.subscriptions(record.topology_id).map_or(0, Iterator::count);
            let mut counts = Map::new();
            for kind in [
                "ExternalReplication",
                "ReplicationHub",
                "ReplicationSink",
                "RavenEtl",
                "SqlEtl",
                "ElasticSearchEtl",
                "OlapEtl",
                "KafkaEtl",
                "RabbitMqEtl",
                "PeriodicBackup",
            ] {
                counts.insert(format!("{kind}Count"), 0.into());
            }
            counts.insert("SubscriptionCount".to_owned(), subscriptions.into());
            with_database(record.name.as_str(), Value::Object(counts))
        };
        self.records().iter().map(of_one).collect()
    }

    fn cluster_overview(&self) -> Value {
        let state = &self.state;
        json!({
            "NodeTag": state.node_tag(), "NodeUrl": self.address, "NodeType": "Member",
            "NodeState": "Leader", "StartTime": date::format(state.started_at().ticks()),
            "ServerVersion": state.engine.settings().protocol_version.as_str(),
            "OsName": state.machine.os.full_name
        })
    }

    /// The rates in each open database since the previous reading.
    fn traffic(&self, last: &mut Option<Look>) -> BTreeMap<String, Rates> {
        let at = self.state.engine.clock().monotonic();
        let open = self.open();
        let counts: BTreeMap<String, Counts> =
            open.iter().map(|(name, database)| (name.clone(), counts_of(database))).collect();
        let before = last.replace(Look { at, counts: counts.clone() });
        let seconds = before.as_ref().map_or(0.0, |look| at.saturating_sub(look.at).as_secs_f64());
        let per_second = |now: u64, before: u64| match now.saturating_sub(before) {
            _ if seconds <= 0.0 => 0.0,
            #[expect(clippy::cast_precision_loss, reason = "numbers for people")]
            new => new as f64 / seconds,
        };
        let rates = counts.into_iter().map(|(name, now)| {
            let before = before.as_ref().and_then(|look| look.counts.get(&name).copied());
            // A database that was not open before has no rate yet.
            let before = before.unwrap_or(now);
            let rates = Rates {
                requests: per_second(now.requests, before.requests),
                changes: per_second(now.changes, before.changes),
            };
            (name, rates)
        });
        rates.collect()
    }
}

/// Each change of a document takes an etag, so these count the changes.
fn counts_of(database: &Database) -> Counts {
    let changes = documents::progress(&database.read()).map_or(0, |progress| progress.last_etag.0);
    let activity = database.activity();
    Counts { requests: activity.requests.read(activity.now()).count, changes }
}

fn total(rates: &BTreeMap<String, Rates>) -> Rates {
    rates.values().fold(Rates::default(), |sum, one| Rates {
        requests: sum.requests + one.requests,
        changes: sum.changes + one.changes,
    })
}

fn traffic_shape(rates: Rates) -> Value {
    json!({"RequestsPerSecond": rates.requests.round(), "DocumentWritesPerSecond": rates.changes.round()})
}

fn indexing_rates(database: &Database) -> (f64, f64) {
    database.indexes().all().iter().fold((0.0, 0.0), |sum, index| {
        let rates = index.rates();
        (sum.0 + rates.mapped, sum.1 + rates.reduced)
    })
}

fn indexing_shape(mapped: f64, reduced: f64) -> Value {
    json!({"IndexedPerSecond": mapped, "MappedPerSecond": mapped, "ReducedPerSecond": reduced})
}

fn with_database(name: &str, content: Value) -> Value {
    let mut shape = json!({"Database": name});
    if let (Some(shape), Value::Object(content)) = (shape.as_object_mut(), content) {
        shape.extend(content);
    }
    shape
}
