//! Creating, listing, enabling, disabling and deleting databases; topologies and client
//! configurations.

use serde_json::{Value, json};

use crate::{
    http_client::{Connection, Reply},
    test_server::TestServer,
};

fn create(server: &TestServer, body: &str, etag: Option<&str>) -> (u16, Value) {
    let headers: Vec<(&str, &str)> = etag.map(|etag| ("ETag", etag)).into_iter().collect();
    let reply = server.send_with("PUT", "/admin/databases?name=x", &headers, body.as_bytes());
    (reply.status, reply.json())
}

fn names(server: &TestServer) -> Value {
    server.get("/databases?namesOnly=true").json()["Databases"].clone()
}

#[test]
fn a_database_is_created_read_back_and_listed() {
    let server = TestServer::with_database();
    let record = r#"{"DatabaseName":"Second","Settings":{"RunInMemory":"true"},"Foo":{"a":1}}"#;
    let (status, result) = create(&server, record, Some("\"undefined\""));
    assert_eq!(status, 201, "{result}");
    assert_eq!(result["Name"], "Second");
    assert_eq!(result["Topology"]["Members"], json!(["A"]));
    assert_eq!(result["Topology"]["DatabaseTopologyIdBase64"].as_str().unwrap().len(), 22);
    let index = result["RaftCommandIndex"].as_u64().unwrap();

    let record = server.get("/admin/databases?name=second").json();
    assert_eq!(record["DatabaseName"], "Second");
    assert_eq!(record["Settings"], json!({"RunInMemory": "true"}));
    assert_eq!(record["Foo"], json!({"a": 1}));
    assert_eq!(record["Topology"]["Stamp"]["Index"], index);
    assert_eq!(record["Etag"], index);
    assert_eq!(server.get("/databases/second/admin/record").json(), record);

    assert_eq!(names(&server), json!(["db", "Second"]));
    assert_eq!(
        server.get("/databases?start=1&pageSize=5&namesOnly=true").json()["Databases"],
        json!(["Second"])
    );
    let one = server.get("/databases?name=SECOND").json();
    assert_eq!((&one["Name"], &one["Disabled"]), (&json!("SECOND"), &json!(false)));
    let topology = server.get("/topology?name=second&first-topology-update").json();
    assert_eq!(topology["Etag"], index);
    assert_eq!(topology["Nodes"][0]["Url"], format!("http://{}", server.address));
    assert_eq!(topology["Nodes"][0]["ServerRole"], "Member");
}

#[test]
fn a_record_is_replaced_only_at_the_expected_version() {
    let server = TestServer::with_database();
    let db = r#"{"DatabaseName":"DB","Settings":{}}"#;
    let (status, error) = create(&server, db, None);
    assert_eq!(status, 409);
    assert_eq!(error["Message"], "Database 'DB' already exists!");
    let etag = server.get("/admin/databases?name=db").json()["Etag"].to_string();
    let (status, error) = create(&server, db, Some("\"999\""));
    assert_eq!(
        (status, &error["Type"]),
        (409, &json!("Raven.Server.Rachis.RachisConcurrencyException"))
    );
    let (status, result) = create(&server, db, Some(&etag));
    assert_eq!((status, &result["Name"]), (201, &json!("db")));
    let (status, _) = create(&server, r#"{"DatabaseName":"none"}"#, Some("7"));
    assert_eq!(status, 400);
}

#[test]
fn invalid_records_are_rejected() {
    let server = TestServer::with_database();
    let long = format!("{{\"DatabaseName\":\"{}\"}}", "x".repeat(129));
    let table = [
        ("", 500),
        ("{\"DatabaseName\":", 500),
        ("[]", 500),
        ("{}", 400),
        (r#"{"DatabaseName":""}"#, 400),
        (r#"{"DatabaseName":5}"#, 400),
        (r#"{"DatabaseName":"a/b"}"#, 400),
        (r#"{"DatabaseName":"a b"}"#, 400),
        (r#"{"DatabaseName":"a..b"}"#, 400),
        (r#"{"DatabaseName":"x","Settings":{"RunInMemory":"maybe"}}"#, 500),
        (long.as_str(), 400),
    ];
    for (body, status) in table {
        assert_eq!(create(&server, body, None).0, status, "{body}");
    }
    assert_eq!(names(&server), json!(["db"]));
}

#[test]
fn a_deleted_database_is_removed_and_its_name_can_be_reused() {
    let server = TestServer::with_database();
    server.put("a", "{}");
    let delete = |body: &str| server.send("DELETE", "/admin/databases", body.as_bytes());
    let reply = delete(r#"{"DatabaseNames":["nope"],"HardDelete":true}"#);
    assert_eq!(reply.json(), json!({"RaftCommandIndex": -1, "PendingDeletes": []}));
    let reply = delete(r#"{"DatabaseNames":["db"],"FromNodes":["Z"]}"#);
    assert_eq!(reply.status, 500);
    let reply = delete(r#"{"DatabaseNames":["db"],"HardDelete":false}"#);
    assert_eq!(reply.status, 200);
    let gone = server.get("/databases/db/docs?id=a");
    assert_eq!(gone.status, 500);
    assert_eq!(
        gone.json()["Type"],
        "Raven.Client.Exceptions.Database.DatabaseDoesNotExistException"
    );
    server.create("db");
    assert!(!server.document("a").is_null(), "a soft delete keeps the files");
    assert_eq!(delete(r#"{"DatabaseNames":["DB"],"HardDelete":true}"#).status, 200);
    server.create("db");
    assert!(server.document("a").is_null(), "a hard delete does not");
}

#[test]
fn each_route_reports_unknown_databases_in_its_own_way() {
    let server = TestServer::with_database();
    let table = [
        ("/topology?name=nope", 503, Some("nope")),
        ("/admin/databases?name=nope", 404, Some("nope")),
        ("/databases?name=nope", 404, Some("nope")),
        ("/databases/nope/docs?id=a", 500, None),
        ("/databases/a%2Ab/stats", 500, None),
    ];
    for (target, status, missing) in table {
        let reply = server.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert_eq!(reply.header("Database-Missing"), missing, "{target}");
    }
}

#[test]
fn a_disabled_database_answers_503_until_it_is_enabled() {
    let server = TestServer::with_database();
    server.put("a", "{}");
    let toggle = |how: &str| {
        let target = format!("/admin/databases/{how}");
        server.send("POST", &target, br#"{"DatabaseNames":["db","nope"]}"#).json()["Status"].clone()
    };
    let status = toggle("disable");
    assert_eq!((&status[0]["Success"], &status[0]["Disabled"]), (&json!(true), &json!(true)));
    assert_eq!(status[1]["Success"], false);
    let refused = server.get("/databases/db/docs?id=a");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["Message"], "db has been disabled");
    assert_eq!(server.get("/databases?name=db").json()["Disabled"], true);
    assert_eq!(server.get("/debug/is-loaded?name=db").json()["IsLoaded"], false);
    assert_eq!(toggle("enable")[0]["Disabled"], false);
    assert!(!server.document("a").is_null());
}

/// Disables `db` while requests wait, and returns their responses.
fn disable_while<const N: usize>(server: &TestServer, waiting: [Connection; N]) -> [Reply; N] {
    let disabled = server.send("POST", "/admin/databases/disable", br#"{"DatabaseNames":["db"]}"#);
    assert_eq!(disabled.json()["Status"][0]["Disabled"], true);
    waiting.map(|mut connection| connection.read_reply(false))
}

/// A request whose body does not arrive after its first bytes, although the server reads it.
fn slow(server: &TestServer, request: &str, first: &str) -> Connection {
    let mut connection = server.open();
    let headers = "Host: 127.0.0.1\r\nContent-Length: 1000\r\nExpect: 100-continue";
    connection.send(format!("{request} HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes());
    let permission = "HTTP/1.1 100 Continue\r\n\r\n";
    connection.expect(permission.as_bytes());
    connection.send(first.as_bytes());
    connection
}

#[test]
fn a_database_is_closed_without_waiting_for_bodies_that_are_slow() {
    let server = TestServer::with_database();
    server.put("a", "{}");
    let attachment = slow(&server, "PUT /databases/db/attachments?id=a&name=n", "first");
    let batch = slow(&server, "POST /databases/db/bulk_docs", "{\"Commands\":[");
    for reply in disable_while(&server, [attachment, batch]) {
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert_eq!(reply.json()["Message"], "The database is being closed.");
    }
}

#[test]
fn a_database_is_closed_without_waiting_for_what_follows_a_write() {
    let server = TestServer::with_database();
    assert_eq!(server.get("/databases/db/queries?query=from%20Users%20where%20N=1").status, 200);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    let document = r#"{"N":1,"@metadata":{"@collection":"Users"}}"#;
    let begun = |id: &str, query: &str| {
        let body =
            format!(r#"{{"Commands":[{{"Type":"PUT","Id":"{id}","Document":{document}}}]}}"#);
        let mut connection = server.open();
        let target = format!("/databases/db/bulk_docs?{query}");
        let length = body.len();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.send(format!("{head}{body}").as_bytes());
        while server.document(id).is_null() {
            std::thread::yield_now();
        }
        connection
    };
    let waiting = [
        begun("a", "waitForIndexesTimeout=00:10:00"),
        begun("b", "waitForReplicasTimeout=00:10:00"),
        begun("c", "waitForIndexesTimeout=00:10:00&waitForIndexThrow=false"),
    ];
    let [indexes, replicas, indifferent] = disable_while(&server, waiting);
    for reply in [indexes, replicas] {
        assert_eq!(reply.status, 503, "{}", reply.text());
        let message = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(message.contains("being closed") && message.contains("complete"), "{message}");
    }
    assert_eq!(indifferent.status, 201, "{}", indifferent.text());
}

#[test]
fn listing_does_not_open_a_database() {
    let server = TestServer::with_database();
    assert_eq!(server.get("/databases").json()["Databases"][0]["UpTime"], Value::Null);
    assert_eq!(server.get("/debug/is-loaded?name=db").json()["IsLoaded"], false);
    server.put("a", "{}");
    let listed = server.get("/databases").json()["Databases"][0].clone();
    assert_eq!(listed["DocumentsCount"], 1);
    assert!(listed["UpTime"].is_string());
}

#[test]
fn clients_with_old_etags_are_asked_to_refresh() {
    let server = TestServer::with_database();
    let ask = |name: &str, value: &str| {
        let reply = server.send_with("GET", "/databases/db/docs?id=a", &[(name, value)], b"");
        (
            reply.header("Refresh-Topology").is_some(),
            reply.header("Refresh-Client-Configuration").is_some(),
        )
    };
    let current = server.get("/topology?name=db").json()["Etag"].to_string();
    assert_eq!(ask("Topology-Etag", "\"-5\""), (true, false));
    assert_eq!(ask("Topology-Etag", &format!("\"{current}\"")), (false, false));
    assert_eq!(ask("Topology-Etag", "abc"), (false, false));
    assert_eq!(ask("Client-Configuration-Etag", "0"), (false, false));
    assert_eq!(ask("Client-Configuration-Etag", "\"-5\""), (false, true));
    let put = server.send(
        "PUT",
        "/databases/db/admin/configuration/client",
        br#"{"Etag":123,"MaxNumberOfRequestsPerSession":80}"#,
    );
    assert_eq!(put.status, 201);
    assert_eq!(ask("Client-Configuration-Etag", "0"), (false, true));
    let configuration = server.get("/databases/db/configuration/client").json();
    assert_eq!(configuration["Configuration"]["MaxNumberOfRequestsPerSession"], 80);
    let etag = configuration["Etag"].to_string();
    assert_eq!(ask("Client-Configuration-Etag", &etag), (false, false));
    // A record that is replaced as a whole may contain another configuration.
    let version = server.get("/admin/databases?name=db").json()["Etag"].to_string();
    let record = r#"{"DatabaseName":"db","Client":{"MaxNumberOfRequestsPerSession":90}}"#;
    assert_eq!(create(&server, record, Some(&version)).0, 201);
    assert_eq!(ask("Client-Configuration-Etag", &etag), (false, true));
    let configuration = server.get("/databases/db/configuration/client").json();
    assert_eq!(configuration["Configuration"]["MaxNumberOfRequestsPerSession"], 90);
    // Or none: clients return to their own configuration when they receive a disabled one with a
    // higher etag.
    let etag = configuration["Etag"].to_string();
    let version = server.get("/admin/databases?name=db").json()["Etag"].to_string();
    assert_eq!(create(&server, r#"{"DatabaseName":"db"}"#, Some(&version)).0, 201);
    assert_eq!(ask("Client-Configuration-Etag", &etag), (false, true));
    let removed = server.get("/databases/db/configuration/client").json();
    assert_eq!(removed["Configuration"]["Disabled"], true, "{removed}");
    assert!(configuration["Etag"].as_u64() < removed["Etag"].as_u64(), "{removed}");
    assert_eq!(ask("Client-Configuration-Etag", &removed["Etag"].to_string()), (false, false));
    assert!(server.get("/admin/databases?name=db").json()["Client"].is_null());
}

#[test]
fn the_servers_client_configuration_applies_when_the_database_has_none() {
    let server = TestServer::with_database();
    assert_eq!(server.get("/configuration/client").status, 404);
    let none = json!({"Etag": -2, "Configuration": null});
    assert_eq!(server.get("/databases/db/configuration/client").json(), none);
    let body = br#"{"MaxNumberOfRequestsPerSession":50}"#;
    assert_eq!(server.send("PUT", "/admin/configuration/client", body).status, 201);
    let of_server = server.get("/configuration/client").json();
    assert_eq!(of_server["MaxNumberOfRequestsPerSession"], 50);
    let of_database = server.get("/databases/db/configuration/client").json();
    assert_eq!(of_database["Configuration"], of_server);
    assert_eq!(of_database["Etag"], of_server["Etag"]);
}

#[test]
fn the_cluster_has_one_node_which_is_the_leader() {
    let server = TestServer::with_database();
    let build = server.get("/Build/Version").json();
    assert_eq!((&build["BuildVersion"], &build["ProductVersion"]), (&json!(54178), &json!("5.4")));
    let node = server.get("/cluster/node-info").json();
    assert_eq!((&node["NodeTag"], &node["CurrentState"]), (&json!("A"), &json!("Leader")));
    let topology = server.get("/cluster/topology").json();
    let url = format!("http://{}", server.address);
    assert_eq!(topology["Topology"]["Members"], json!({"A": url}));
    assert_eq!(topology["Topology"]["TopologyId"], node["TopologyId"]);
    assert_eq!(topology["Leader"], "A");
    assert_eq!(server.get("/setup/alive").status, 204);
    assert_eq!(server.get("/admin/test/delay?value=1").status, 200);
    assert_eq!(server.get("/admin/test/delay").status, 500);
    assert_eq!(server.get("/databases/db/healthcheck").status, 204);
    let tcp = server.get("/info/tcp?tag=x").json();
    assert!(tcp["Url"].as_str().unwrap().starts_with("tcp://"), "{tcp}");
}
