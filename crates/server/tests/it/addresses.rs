//! The address of the node in responses to clients.

use platform::Platform;
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

fn ask(server: &TestServer, target: &str, host: &str) -> Reply {
    server.send_from(host, "GET", target, &[], b"")
}

/// Every address of the node in the responses that contain one.
fn named(server: &TestServer, host: &str) -> Vec<Value> {
    let topology = ask(server, "/topology?name=db", host).json();
    let cluster = ask(server, "/cluster/topology", host).json();
    let listed = ask(server, "/databases", host).json();
    let one = ask(server, "/databases?name=db", host).json();
    let name = format!("n{}", ask(server, "/databases?namesOnly=true", host).body.len());
    let record = json!({"DatabaseName": name}).to_string();
    let created = server.send_from(host, "PUT", "/admin/databases", &[], record.as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    vec![
        topology["Nodes"][0]["Url"].clone(),
        cluster["Topology"]["Members"]["A"].clone(),
        cluster["Topology"]["AllNodes"]["A"].clone(),
        listed["Databases"][0]["NodesTopology"]["Members"][0]["NodeUrl"].clone(),
        one["NodesTopology"]["Members"][0]["NodeUrl"].clone(),
        created.json()["NodesAddedTo"][0].clone(),
    ]
}

#[test]
fn a_client_receives_the_address_that_it_used() {
    let settings = ["--Security.AllowedHosts=foo;db.example"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    for (host, expected) in
        [("foo:1234", "http://foo:1234"), ("DB.example:80", "http://db.example")]
    {
        assert_eq!(named(&server, host), [expected; 6], "{host}");
    }
}

#[test]
fn a_configured_public_address_is_returned_to_all_clients() {
    let settings = ["--PublicServerUrl=http://db.example:9000", "--Security.AllowedHosts=foo"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    assert_eq!(named(&server, "foo:1234"), ["http://db.example:9000"; 6]);
    assert_eq!(named(&server, "db.example:1"), ["http://db.example:9000"; 6]);
}

#[test]
fn no_client_receives_the_wildcard_address() {
    let settings =
        ["--ServerUrl=http://0.0.0.0:0", "--Security.UnsecuredAccessAllowed=PublicNetwork"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    let texts = [
        ask(&server, "/topology?name=db", "0.0.0.0:8080").text(),
        ask(&server, "/cluster/topology", "10.1.2.3:1").text(),
        ask(&server, "/databases", "10.1.2.3:1").text(),
        ask(&server, "/databases", "").text(),
        ask(&server, "/debug/server-id", "10.1.2.3:1").text(),
        ask(&server, "/cluster/node-info", "10.1.2.3:1").text(),
    ];
    for text in texts {
        assert!(!text.contains("0.0.0.0"), "{text}");
    }
}

#[test]
fn an_invalid_host_is_rejected_where_the_address_is_returned() {
    let server = TestServer::with_database();
    for target in ["/topology?name=db", "/cluster/topology"] {
        let reply = ask(&server, target, "");
        assert_eq!(reply.status, 500, "{target}");
        assert_eq!(reply.json()["Type"], "System.InvalidOperationException");
        assert_eq!(reply.json()["Message"], "Could not parse server web url: http:");
        assert_eq!(ask(&server, target, "a b").status, 400, "{target}");
        assert_eq!(ask(&server, target, "foo:bar").status, 400, "{target}");
    }
    assert_eq!(ask(&server, "/databases/db/stats", "").status, 200);
    assert_eq!(ask(&server, "/databases/db/stats", "a b").status, 400);
}

#[test]
fn the_root_and_the_license_describe_the_server() {
    let server = TestServer::with_database();
    let page = server.get("/").json();
    assert_eq!(page["Product"], "Corvus");
    assert!(page["Documentation"].as_str().unwrap().contains("docs"));
    let license = server.get("/license/status").json();
    assert_eq!(license["Type"], "None");
    assert_eq!(license["HasDocumentsCompression"], true);
    assert_eq!((&license["HasSqlEtl"], &license["MaxClusterSize"]), (&false.into(), &1.into()));
}

#[test]
fn a_browser_gets_a_page_that_lists_databases_and_loads_nothing_external() {
    let no_studio = "--Studio.Path=/nowhere/studio";
    let server = TestServer::start(platform::Platform::memory(), &[no_studio]);
    let accept = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let open = || server.send_with("GET", "/", &[accept], b"");
    let empty = open();
    assert_eq!(empty.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(empty.text().contains("admin/databases?name=shop"), "{}", empty.text());
    server.create("Café-1");
    let page = open();
    let text = page.text();
    for part in ["<td>Café-1</td>", "/databases/Caf%C3%A9-1/docs?pageSize=25", "docs/tutorial.md"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let link = "/databases/Caf%C3%A9-1/docs?pageSize=25";
    assert_eq!(server.get(link).status, 200);
    assert!(!text.contains("<script") && !text.contains("src=") && !text.contains("https:"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(text.contains("studio/run build") && text.contains("/nowhere/studio"), "{text}");
    let programs = server.send_with("GET", "/", &[("Accept", "application/json")], b"");
    assert_eq!(programs.json()["Product"], "Corvus");
    assert!(programs.json()["Studio"].as_str().unwrap().contains("studio/run build"));
    let studio = server.get("/studio/index.html");
    assert_eq!(studio.status, 404);
    assert!(studio.text().contains("studio/run build"));
}
