//! The log of a server's life.

use std::{fs, path::Path};

use crate::process::{Server, corvus, directory, run, text};

/// Creates a database, fills it, creates an index by a query, and deletes another database.
fn live(server: &Server) {
    let created = server.ask("PUT", "/admin/databases?name=shop", "", r#"{"DatabaseName":"shop"}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let document = r#"{"Commands":[{"Type":"PUT","Id":"orders/1","Document":{"secret":"hush",
        "@metadata":{"@collection":"Orders"}}}]}"#;
    let stored = server.ask("POST", "/databases/shop/bulk_docs", "", document);
    assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    let query = r#"{"Query":"from Orders where secret = 'hush'","WaitForNonStaleResults":true}"#;
    let found = server.ask("POST", "/databases/shop/queries", "", query);
    assert!(found.contains("orders/1"), "{found}");
    server.ask("PUT", "/admin/databases?name=gone", "", r#"{"DatabaseName":"gone"}"#);
    server.ask("DELETE", "/admin/databases", "", r#"{"DatabaseNames":["gone"],"HardDelete":true}"#);
}

fn check_parts(log: &str, parts: &[&str]) {
    for part in parts {
        assert!(log.contains(part), "the log lacks {part}:\n{log}");
    }
}

#[test]
fn the_log_has_start_databases_indexes_and_end() {
    let place = directory("log_of_a_life");
    let words = ["--DataDir=here", "--Logs.SlowRequestThresholdInMs=1"];
    let server = Server::start(&place, &words);
    live(&server);
    server.wait_for_log("an index was built");
    let log = server.stop();
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    check_parts(
        &log,
        &[
            &version,
            "addresses=\"http://127.0.0.1:",
            "/log_of_a_life/here\"",
            "memory_mb=",
            "cores=",
            "a database was created database=\"shop\"",
            "a database was opened database=\"shop\" documents=0",
            "index=\"Auto/Orders/Bysecret\" documents=1",
            "a request was slow",
            "path=\"/databases/*/queries\"",
            "a database was deleted with its files database=\"gone\"",
            "stopping reason=\"the console\"",
            "a database was closed database=\"shop\"",
            " stopped",
        ],
    );
    assert!(!log.contains("hush") && !log.contains("orders/1"), "data is in the log:\n{log}");
}

#[test]
fn a_server_that_was_killed_logs_what_it_recovers() {
    let place = directory("log_of_recovery");
    let killed = Server::start(&place, &[]);
    live(&killed);
    drop(killed);
    let server = Server::start(&place, &[]);
    let all = server.ask("GET", "/databases/shop/docs?id=orders/1", "", "");
    assert!(all.contains("hush"), "{all}");
    let log = server.stop();
    check_parts(
        &log,
        &["a database was opened and recovered", "recovered_transactions=", "documents=1"],
    );
    assert!(!log.contains("an index was built"), "it was there before:\n{log}");
}

#[test]
fn levels_come_from_settings_the_environment_and_clients() {
    let place = directory("log_levels");
    let log = Server::start(&place, &["--Logs.Mode=None"]).stop();
    assert_eq!(log, "");
    let log = Server::start(&place, &["--Logs.MinLevel=Error", "--Logs.Mode=Information"]).stop();
    assert_eq!(log, "");
    let mut command = corvus(&place, &["--ServerUrl=http://127.0.0.1:0", "--Logs.Mode=None"]);
    let log = Server::of(command.env("CORVUS_LOG", "info")).stop();
    check_parts(&log, &["started", "stopped"]);
    let server = Server::start(&place, &["--Logs.Mode=None"]);
    let set = server.ask("POST", "/admin/logs/configuration", "", r#"{"Mode":"Operations"}"#);
    assert!(set.starts_with("HTTP/1.1 204"), "{set}");
    let log = server.stop();
    check_parts(&log, &["stopped"]);
    assert!(!log.contains("started"), "{log}");
}

#[test]
fn files_hold_the_same_as_lines_of_json_on_request() {
    let place = directory("log_files");
    let words = ["--Logs.Path=logs", "--Logs.Format=Json"];
    let server = Server::start(&place, &words);
    live(&server);
    let shown = server.ask("GET", "/admin/logs/configuration", "", "");
    assert!(shown.contains("\"Path\":\"logs\""), "{shown}");
    let log = server.stop();
    let kept = files_of(&place.join("logs"));
    assert_eq!(kept, log);
    assert!(log.lines().count() > 5, "{log}");
    for line in log.lines() {
        assert!(line.starts_with("{\"timestamp\":\"") && line.ends_with('}'), "{line}");
        assert!(line.contains("\"level\":\"") && line.contains("\"message\":\""), "{line}");
    }
    fs::write(place.join("file"), "").unwrap();
    let refused = run(&place, &["--ServerUrl=http://127.0.0.1:0", "--Logs.Path=file/logs"]);
    assert_eq!(refused.status.code(), Some(78));
    check_parts(text(&refused.stderr), &["file/logs", "set Logs.Path to another directory"]);
}

fn files_of(directory: &Path) -> String {
    let mut paths: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}
