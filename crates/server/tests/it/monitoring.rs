//! What monitoring programs read: the properties that Telegraf's plugin for RavenDB reads, and the
//! names that Datadog's plugin reads from the Prometheus text format.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn filled() -> TestServer {
    let server = TestServer::with_database();
    server.create("other");
    server.put("a/1", r#"{"x":1,"@metadata":{"@collection":"As"}}"#);
    server.put("a/2", r#"{"x":2,"@metadata":{"@collection":"As"}}"#);
    let indexes =
        json!({"Indexes": [{"Name": "I", "Maps": ["from a in docs.As select new { a.x }"]}]});
    let reply = server.send("PUT", "/databases/db/admin/indexes", indexes.to_string().as_bytes());
    assert_eq!(reply.status, 201);
    let query = json!({"Query": "from index 'I'", "WaitForNonStaleResults": true}).to_string();
    assert_eq!(server.send("POST", "/databases/db/queries", query.as_bytes()).status, 200);
    server
}

fn has_all(value: &Value, properties: &[&str]) {
    for path in properties {
        let pointer = format!("/{}", path.replace('.', "/"));
        assert!(value.pointer(&pointer).is_some(), "{path}: {value}");
    }
}

#[test]
fn server_metrics_are_reported() {
    let server = filled();
    let measured = server.get("/admin/monitoring/v1/server").json();
    has_all(
        &measured,
        &[
            "ServerVersion",
            "ServerFullVersion",
            "UpTimeInSec",
            "ServerProcessId",
            "Config.ServerUrls",
            "Config.PublicServerUrl",
            "Config.TcpServerUrls",
            "Config.PublicTcpServerUrls",
            "Cpu.ProcessUsage",
            "Cpu.MachineUsage",
            "Cpu.ProcessorCount",
            "Cpu.AssignedProcessorCount",
            "Memory.AllocatedMemoryInMb",
            "Memory.PhysicalMemoryInMb",
            "Memory.InstalledMemoryInMb",
            "Memory.LowMemorySeverity",
            "Memory.TotalDirtyInMb",
            "Disk.SystemStoreUsedDataFileSizeInMb",
            "Disk.SystemStoreTotalDataFileSizeInMb",
            "Disk.TotalFreeSpaceInMb",
            "Disk.RemainingStorageSpacePercentage",
            "Network.TcpActiveConnections",
            "Network.ConcurrentRequestsCount",
            "Network.TotalRequests",
            "Network.RequestsPerSec",
            "Network.LastRequestTimeInSec",
            "Certificate.ServerCertificateExpirationLeftInSec",
            "Certificate.WellKnownAdminCertificates",
            "Cluster.NodeTag",
            "Cluster.NodeState",
            "Cluster.Index",
            "Cluster.Id",
            "Databases.TotalCount",
            "Databases.LoadedCount",
        ],
    );
    assert_eq!(measured["Databases"], json!({"TotalCount": 2, "LoadedCount": 1}));
    assert_eq!(measured["ServerProcessId"], std::process::id());
    assert_eq!(measured["Cluster"]["NodeState"], "Leader");
    assert!(measured["Cpu"]["ProcessorCount"].as_u64().unwrap() != 0);
    let network = &measured["Network"];
    assert!(6 <= network["TotalRequests"].as_u64().unwrap(), "{network}");
    assert_eq!(network["ConcurrentRequestsCount"], 1, "this one: {network}");
    assert!(1 <= network["TcpActiveConnections"].as_u64().unwrap(), "{network}");
    assert!(network["LastRequestTimeInSec"].as_f64().unwrap() < 60.0, "{network}");
    let info = server.get("/cluster/node-info").json();
    assert_eq!(measured["Cluster"]["Id"], info["TopologyId"]);
}

#[test]
fn metrics_of_open_databases_are_reported() {
    let server = filled();
    let all = server.get("/admin/monitoring/v1/databases").json();
    assert_eq!((&all["PublicServerUrl"], &all["NodeTag"]), (&Value::Null, &json!("A")));
    let results = all["Results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "a closed database is not opened: {all}");
    let database = &results[0];
    let id = server.get("/databases/db/stats").json()["DatabaseId"].clone();
    assert_eq!((&database["DatabaseName"], &database["DatabaseId"]), (&json!("db"), &id));
    assert_eq!(
        database["Counts"],
        json!({
            "Documents": 2, "Revisions": 0, "Attachments": 0, "UniqueAttachments": 0, "Alerts": 0,
            "PerformanceHints": 0, "ReplicationFactor": 1
        })
    );
    assert_eq!(
        database["Indexes"],
        json!({
            "Count": 1, "StaleCount": 0, "ErrorsCount": 0, "StaticCount": 1, "AutoCount": 0,
            "IdleCount": 0, "DisabledCount": 0, "ErroredCount": 0
        })
    );
    has_all(
        database,
        &[
            "UptimeInSec",
            "TimeSinceLastBackupInSec",
            "Statistics.DocPutsPerSec",
            "Statistics.MapIndexIndexesPerSec",
            "Statistics.MapReduceIndexMappedPerSec",
            "Statistics.MapReduceIndexReducedPerSec",
            "Statistics.RequestsPerSec",
            "Statistics.RequestsCount",
            "Statistics.RequestAverageDurationInMs",
            "Storage.DocumentsAllocatedDataFileInMb",
            "Storage.DocumentsUsedDataFileInMb",
            "Storage.IndexesAllocatedDataFileInMb",
            "Storage.IndexesUsedDataFileInMb",
            "Storage.TotalAllocatedStorageFileInMb",
            "Storage.TotalFreeSpaceInMb",
        ],
    );
    let named = |name: &str| {
        let target = format!("/admin/monitoring/v1/databases?name={name}");
        server.get(&target).json()["Results"].as_array().unwrap().len()
    };
    assert_eq!((named("DB"), named("other"), named("none&name=db")), (1, 0, 1));
}

#[test]
fn metrics_of_indexes_and_collections_are_reported_by_database() {
    let server = filled();
    let indexes = server.get("/admin/monitoring/v1/indexes").json();
    let result = &indexes["Results"][0];
    assert_eq!(result["DatabaseName"], "db");
    let index = &result["Indexes"][0];
    let values = ["IndexName", "Priority", "State", "LockMode", "Status", "Type"];
    let values = values.map(|name| index[name].as_str().unwrap());
    assert_eq!(values, ["I", "Normal", "Normal", "Unlock", "Running", "Map"]);
    assert_eq!((&index["Errors"], &index["IsInvalid"]), (&json!(0), &json!(false)));
    assert_eq!(index["EntriesCount"], 2);
    for since in ["TimeSinceLastQueryInSec", "TimeSinceLastIndexingInSec"] {
        assert!(index[since].as_f64().unwrap() < 60.0, "{index}");
    }
    has_all(index, &["MappedPerSec", "ReducedPerSec"]);
    let collections = server.get("/admin/monitoring/v1/collections?name=db").json();
    let collection = &collections["Results"][0]["Collections"][0];
    assert_eq!(
        (&collection["CollectionName"], &collection["DocumentsCount"]),
        (&json!("As"), &json!(2))
    );
    let bytes = |name: &str| collection[name].as_u64().unwrap();
    assert!(0 < bytes("DocumentsSizeInBytes"));
    let parts = ["DocumentsSizeInBytes", "TombstonesSizeInBytes", "RevisionsSizeInBytes"];
    assert_eq!(bytes("TotalSizeInBytes"), parts.map(bytes).iter().sum::<u64>());
}

/// The value of each sample by its name with labels; checks that the lines describing the name
/// precede it.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let mut described = "";
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            described = kind.split(' ').next().unwrap();
            assert!(text.contains(&format!("# HELP {described} ")), "{line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(name.split('{').next(), Some(described), "{line}");
            assert!(samples.insert(name, value.parse().unwrap()).is_none(), "{line} twice");
        }
    }
    samples
}

#[test]
fn prometheus_reads_the_same_metrics() {
    let server = filled();
    let reply = server.get("/admin/monitoring/v1/prometheus");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    let all = samples(&text);
    let expected = [
        ("ravendb_databases_total_count", 2.0),
        ("ravendb_cluster_node_state", 4.0),
        ("ravendb_database_documents_count{database_name=\"db\"}", 2.0),
        ("ravendb_database_indexes_count{database_name=\"db\"}", 1.0),
        ("ravendb_index_entries_count{database_name=\"db\", index_name=\"I\"}", 2.0),
        ("ravendb_index_type{database_name=\"db\", index_name=\"I\"}", 3.0),
        ("ravendb_collection_documents_count{database_name=\"db\", collection_name=\"As\"}", 2.0),
    ];
    for (name, value) in expected {
        assert_eq!(all.get(name), Some(&value), "{name}: {text}");
    }
    assert!(all["ravendb_database_time_since_last_backup_seconds{database_name=\"db\"}"].is_nan());
    assert!(all.keys().any(|name| name.starts_with("ravendb_server_info{server_version=\"5.4\"")));
}
