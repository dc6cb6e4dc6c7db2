//! What the server reports about its load and its settings.

use std::{io::Read, sync::Arc};

use platform::{Platform, Timestamp};
use serde_json::{Value, json};
use server::{LogEntry, LogFeed};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    test_server::TestServer,
    web_sockets::{connect, read_json},
};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_server_reports_uptime_and_load() {
    let server = TestServer::with_database();
    let statistics = server.get("/admin/stats").json();
    assert_eq!(
        keys(&statistics),
        [
            "@metadata",
            "UpTime",
            "StartUpTime",
            "LastRequestTime",
            "LastAuthorizedNonClusterAdminRequestTime"
        ]
    );
    let times = ["StartUpTime", "LastRequestTime"].map(|name| statistics[name].as_str().unwrap());
    assert!(times[0] <= times[1], "{statistics}");
    let processor = server.get("/admin/debug/cpu/stats").json();
    assert_eq!(
        keys(&processor["CpuStats"][0]),
        [
            "ProcessName",
            "ProcessorAffinity",
            "PrivilegedProcessorTime",
            "TotalProcessorTime",
            "UserProcessorTime"
        ]
    );
    assert!(processor["CpuStats"][0]["TotalProcessorTime"].as_str().unwrap().starts_with("00:"));
    // One bit for each available processor.
    let allowed = processor["CpuStats"][0]["ProcessorAffinity"].as_u64().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cores <= allowed.count_ones() as usize, "{allowed}");
}

#[test]
fn dashboard_widgets_are_sent_to_subscribers() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let subscription = br#"{"Query":"from Orders"}"#;
    assert_eq!(server.send("PUT", "/databases/db/subscriptions", subscription).status, 201);
    let mut socket = connect(&server, "/cluster-dashboard/watch?node=A");
    let time = read_json(&mut socket);
    assert_eq!((&time["Id"], &time["Data"]["Type"]), (&json!(-1), &json!("ServerTime")));
    let mut watch = |id: i64, widget: &str| {
        let command = json!({"Command": "watch", "Id": id, "Type": widget});
        socket.send(Message::text(command.to_string())).unwrap();
        loop {
            let message = read_json(&mut socket);
            if message["Id"] == id {
                assert_eq!(message["Data"]["Type"], widget);
                let unwatch = json!({"Command": "unwatch", "Id": id});
                socket.send(Message::text(unwatch.to_string())).unwrap();
                return message["Data"].clone();
            }
        }
    };
    let overview = watch(1, "DatabaseOverview");
    let database = &overview["Items"][0];
    assert_eq!(
        keys(database),
        [
            "Database",
            "DocumentsCount",
            "IndexesCount",
            "ErroredIndexesCount",
            "IndexingErrorsCount",
            "AlertsCount",
            "PerformanceHintsCount",
            "ReplicationFactor",
            "BackupInfo",
            "Online",
            "Disabled",
            "Irrelevant",
            "OngoingTasksCount"
        ]
    );
    assert_eq!((&database["DocumentsCount"], &database["Online"]), (&json!(1), &json!(true)));
    assert_eq!(database["OngoingTasksCount"], 1, "the subscription");
    assert_eq!(
        keys(&watch(2, "CpuUsage")),
        ["Type", "Date", "ProcessCpuUsage", "MachineCpuUsage", "UtilizedCores", "NumberOfCores"]
    );
    assert!(watch(3, "MemoryUsage")["PhysicalMemory"].is_u64());
    assert_eq!(watch(4, "DatabaseStorageUsage")["Items"][0]["Database"], "db");
    assert_eq!(watch(5, "OngoingTasks")["Items"][0]["SubscriptionCount"], 1);
    assert_eq!(watch(6, "ClusterOverview")["NodeTag"], "A");
    assert!(watch(7, "StorageUsage")["Items"][0]["TotalCapacity"].is_u64());
    assert!(watch(8, "Indexing")["MappedPerSecond"].is_number());
    assert_eq!(watch(9, "DatabaseIndexing")["Items"][0]["Database"], "db");
    assert_eq!(watch(10, "Traffic")["RequestsPerSecond"], 0.0, "a rate needs two measurements");
    assert_eq!(watch(11, "DatabaseTraffic")["Items"][0]["Database"], "db");
    for refused in ["/cluster-dashboard/watch", "/cluster-dashboard/watch?node=B"] {
        assert_eq!(server.get(refused).status, 500, "{refused}");
    }
}

#[test]
fn the_log_is_streamed_live() {
    let server = TestServer::with_database();
    assert_eq!(server.get("/admin/logs/watch").status, 500, "no watcher is connected");
    let feed = LogFeed::new();
    server.running().show_log(Arc::clone(&feed));
    assert!(!feed.is_watched());
    let mut socket = connect(&server, "/admin/logs/watch");
    while !feed.is_watched() {
        std::thread::yield_now();
    }
    let entry = LogEntry {
        at: Timestamp::from_ticks(0),
        level: "WARN",
        logger: "server::part".to_owned(),
        message: "it happened".to_owned(),
        database: None,
        facts: String::new(),
    };
    feed.show(entry.clone());
    feed.show(LogEntry { database: Some("db".to_owned()), facts: "a=1".to_owned(), ..entry });
    let first = json!({
        "Date": "0001-01-01 00:00:00.0000", "Level": "WARN", "Resource": "Server",
        "Logger": "server::part", "Message": "it happened"
    });
    assert_eq!(read_json(&mut socket), first);
    let second = read_json(&mut socket);
    assert_eq!((&second["Resource"], &second["Data"]), (&json!("db"), &json!("a=1")));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "log files are on the real disk")]
fn log_files_are_downloaded_as_an_archive() {
    let refused = TestServer::with_database().get("/admin/logs/download");
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("'Logs.Path' names no directory"), "{}", refused.text());

    let directory =
        std::env::temp_dir().join(format!("corvus-log-download-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let large: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, content) in [
        ("corvus-2026-11-22.000.log.gz", b"compressed".as_slice()),
        ("corvus-2026-11-23.000.log", b"the first entry\n"),
        ("corvus-2026-11-23.001.log", &large),
        ("something else.log", b""),
    ] {
        std::fs::write(directory.join(name), content).unwrap();
    }
    let path = format!("--Logs.Path={}", directory.display());
    let server = TestServer::start(Platform::memory(), &[&path]);
    let contents = |query: &str| {
        let reply = server.get(&format!("/admin/logs/download{query}"));
        assert_eq!(reply.header("content-type"), Some("application/zip"));
        let disposition = reply.header("content-disposition").unwrap();
        assert!(disposition.ends_with("- Node [A] - Logs.zip\""), "{disposition}");
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(reply.body.clone())).unwrap();
        let read = |at: usize| {
            let mut file = archive.by_index(at).unwrap();
            let (name, mut content) = (file.name().unwrap().into_owned(), Vec::new());
            file.read_to_end(&mut content).unwrap();
            (name, content)
        };
        (0..archive_length(&reply.body)).map(read).collect::<Vec<_>>()
    };
    let all = contents("");
    let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
    let expected =
        ["corvus-2026-11-22.000.log.gz", "corvus-2026-11-23.000.log", "corvus-2026-11-23.001.log"];
    assert_eq!(names, expected);
    assert_eq!((all[0].1.as_slice(), &all[2].1), (b"compressed".as_slice(), &large));
    let days = "?from=2026-11-21T00:00:00Z&to=2026-11-22T12:00:00Z";
    assert_eq!(
        contents(days),
        [("corvus-2026-11-22.000.log.gz".to_owned(), b"compressed".to_vec())]
    );
    let none = contents("?from=2030-01-01T00:00:00Z");
    assert_eq!(none[0].0, "No logs matched the date range.txt");
    for (query, message) in [
        ("?from=x", "Could not parse query string 'from' as date, val 'x'"),
        ("?from=2031-01-01T00:00:00Z&to=2030-01-01T00:00:00Z", "must be greater than Start Date"),
    ] {
        let refused = server.get(&format!("/admin/logs/download{query}"));
        assert_eq!(refused.status, 500);
        assert!(refused.text().contains(message), "{}", refused.text());
    }
    drop(server);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn archive_length(archive: &[u8]) -> usize {
    zip::ZipArchive::new(std::io::Cursor::new(archive)).unwrap().len()
}

#[test]
fn request_logging_is_configurable() {
    let server = TestServer::with_database();
    let path = "/admin/traffic-watch/configuration";
    let begin = json!({
        "TrafficWatchMode": "Off", "Databases": null, "StatusCodes": null,
        "MinimumResponseSizeInBytes": 0, "MinimumRequestSizeInBytes": 0, "MinimumDurationInMs": 0,
        "HttpMethods": null, "ChangeTypes": null, "CertificateThumbprints": null
    });
    assert_eq!(server.get(path).json(), begin);
    let set = |body: &Value| server.send("POST", path, body.to_string().as_bytes());
    let mut wanted = json!({
        "TrafficWatchMode": "ToLogFile", "Databases": ["db"], "StatusCodes": [200],
        "MinimumResponseSizeInBytes": 5, "HttpMethods": ["GET"], "ChangeTypes": ["Documents"]
    });
    assert_eq!(set(&wanted).status, 204);
    wanted["MinimumRequestSizeInBytes"] = 0.into();
    wanted["MinimumDurationInMs"] = 0.into();
    wanted["CertificateThumbprints"] = json!([]);
    assert_eq!(server.get(path).json(), wanted);
    for (refused, kind) in [
        (json!({"TrafficWatchMode": "Bad"}), "System.FormatException"),
        (json!({"HttpMethods": "GET"}), "System.FormatException"),
        (json!({"ChangeTypes": ["Bad"]}), "System.ArgumentException"),
    ] {
        assert_eq!(set(&refused).json()["Type"], kind, "{refused}");
        assert_eq!(server.get(path).json(), wanted, "nothing has changed");
    }
}

#[test]
fn traffic_is_measured_between_two_reports() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let mut socket = connect(&server, "/server-dashboard/watch");
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(read_json(&mut socket)["Type"].clone());
    }
    assert_eq!(
        kinds,
        ["MachineResources", "DatabasesInfo", "IndexingSpeed", "TrafficWatch", "DriveUsage"]
    );
    let busy = loop {
        server.put("a/1", "{}");
        let message = read_json(&mut socket);
        if message["Type"] == "TrafficWatch" {
            break message["Items"][0].clone();
        }
    };
    for name in ["RequestsPerSecond", "DocumentWritesPerSecond"] {
        assert!(0.0 < busy[name].as_f64().unwrap(), "{busy}");
    }
}

#[test]
fn two_watchers_of_a_widget_receive_the_same_rates() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let mut socket = connect(&server, "/cluster-dashboard/watch?node=A");
    for id in [1, 2] {
        let command = json!({"Command": "watch", "Id": id, "Type": "Traffic"});
        socket.send(Message::text(command.to_string())).unwrap();
    }
    let mut next_rate = |id: i64| loop {
        server.put("a/1", "{}");
        let message = read_json(&mut socket);
        if message["Id"] == id {
            return message["Data"]["DocumentWritesPerSecond"].as_f64().unwrap();
        }
    };
    for id in [1, 2] {
        assert!((0..5).any(|_| 0.0 < next_rate(id)), "{id}");
    }
}

#[test]
fn settings_are_listed_with_their_sources() {
    let platform = Platform::memory();
    let server = TestServer::start(platform, &["--Documents.MaxNestingDepth=200"]);
    let record =
        br#"{"DatabaseName":"db","Settings":{"Storage.MaxUnflushedInMb":"64","License":"secret"}}"#;
    assert_eq!(server.send("PUT", "/admin/databases", record).status, 201);
    let settings = |target: &str| server.get(target).json()["Settings"].as_array().unwrap().clone();
    let find = |all: &[Value], name: &str| {
        all.iter().find(|one| one["Metadata"]["Keys"] == json!([name])).unwrap().clone()
    };
    let of_server = settings("/admin/configuration/settings");
    let depth = find(&of_server, "Documents.MaxNestingDepth");
    assert_eq!(
        keys(&depth["Metadata"]),
        [
            "Category",
            "Keys",
            "Scope",
            "DefaultValue",
            "IsDefaultValueDynamic",
            "Description",
            "Type",
            "SizeUnit",
            "TimeUnit",
            "MinValue",
            "IsArray",
            "IsNullable",
            "IsSecured",
            "AvailableValues"
        ]
    );
    assert_eq!(
        depth["ServerValues"]["Documents.MaxNestingDepth"],
        json!({"Value": "200", "HasValue": true, "HasAccess": true, "PendingValue": null})
    );
    let unflushed = find(&of_server, "Storage.MaxUnflushedInMb");
    assert_eq!(unflushed["ServerValues"], json!({}));
    assert_eq!(
        (&unflushed["Metadata"]["Type"], &unflushed["Metadata"]["SizeUnit"]),
        (&json!("Size"), &json!("Megabytes"))
    );

    let of_database = settings("/databases/db/admin/configuration/settings");
    let unflushed = find(&of_database, "Storage.MaxUnflushedInMb");
    assert_eq!(unflushed["DatabaseValues"]["Storage.MaxUnflushedInMb"]["Value"], "64");
    assert_eq!(find(&of_database, "Documents.MaxNestingDepth")["DatabaseValues"], Value::Null);
    let text = server.get("/databases/db/admin/configuration/settings").text();
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn requests_are_reported_to_traffic_watchers() {
    let server = TestServer::with_database();
    server.create("other");
    let mut of_one = connect(&server, "/admin/traffic-watch?resourceName=DB");
    let mut all = connect(&server, "/admin/traffic-watch");
    let body = br#"{"Query":"from Nope"}"#;
    server.send("POST", "/databases/other/queries", body);
    server.get("/build/version");
    server.get("/databases/db/docs?id=a/1");
    let expected = [
        ("other", "POST", "Queries", 200, "N/A"),
        ("N/A", "GET", "None", 200, "N/A"),
        ("db", "GET", "Documents", 404, "a/1"),
    ];
    for (index, (database, method, kind, status, about)) in expected.into_iter().enumerate() {
        let sent = read_json(&mut all);
        for (name, expected) in [
            ("TrafficWatchType", json!("Http")),
            ("RequestId", json!(index + 1)),
            ("DatabaseName", json!(database)),
            ("HttpMethod", json!(method)),
            ("Type", json!(kind)),
            ("ResponseStatusCode", json!(status)),
            ("CustomInfo", json!(about)),
        ] {
            assert_eq!(sent[name], expected, "{name}: {sent}");
        }
        if index == 0 {
            assert_eq!(sent["RequestSizeInBytes"], body.len());
            assert!(0 < sent["ResponseSizeInBytes"].as_u64().unwrap());
            assert!(sent["RequestUri"].as_str().unwrap().ends_with("/databases/other/queries"));
        }
    }
    assert_eq!(read_json(&mut of_one)["DatabaseName"], "db");
}
