//! The configurable separator between the parts of ids that the server generates.

use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

fn configured(server: &TestServer, target: &str, configuration: &Value) -> Reply {
    server.send("PUT", target, configuration.to_string().as_bytes())
}

fn set_separator(server: &TestServer, separator: &Value) {
    let configuration = json!({"IdentityPartsSeparator": separator});
    let reply = configured(server, "/databases/db/admin/configuration/client", &configuration);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Stores a document and returns its id.
fn stored(server: &TestServer, id: &str) -> String {
    let command = json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": {}});
    let reply = server.batch(&command.to_string());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["Results"][0]["@id"].as_str().unwrap().to_owned()
}

fn ids_with(server: &TestServer, prefix: &str) -> Vec<String> {
    let reply = server.get(&format!("/databases/db/docs?startsWith={prefix}&metadataOnly=true"));
    let results = reply.json()["Results"].as_array().unwrap().clone();
    results.iter().map(|one| one["@metadata"]["@id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_database_generates_ids_with_its_own_separator() {
    let server = TestServer::with_database();
    assert_eq!(stored(&server, "u/"), "u/0000000000000000001-A");
    assert_eq!(stored(&server, "u:"), "u:");
    assert_eq!(stored(&server, "u|"), "u/1");
    set_separator(&server, &json!(":"));
    assert_eq!(stored(&server, "u/"), "u/");
    assert_eq!(stored(&server, "u:"), "u:0000000000000000005-A");
    assert_eq!(stored(&server, "u|"), "u:2");
    assert_eq!(stored(&server, "u:|"), "u::1");
    let reply = server.send("PUT", "/databases/db/docs?id=v:", b"{}");
    assert_eq!(reply.json()["Id"], "v:0000000000000000008-A");
    let reply = server.send("PUT", "/databases/db/docs?id=v%7C", b"{}");
    assert_eq!(reply.json()["Id"], "v:1");
    set_separator(&server, &Value::Null);
    assert_eq!(stored(&server, "u/"), "u/0000000000000000010-A");
    assert_eq!(stored(&server, "u|"), "u/3");
}

#[test]
fn bulk_inserts_scripts_and_hilo_ranges_use_the_separator() {
    let server = TestServer::with_database();
    set_separator(&server, &json!("€"));
    let elements =
        r#"[{"Id":"w€","Type":"PUT","Document":{}},{"Id":"w/","Type":"PUT","Document":{}}]"#;
    let reply = server.send("POST", "/databases/db/bulk_insert?id=7", elements.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(ids_with(&server, "w"), ["w/", "w€0000000000000000001-A"]);
    let script = "put('y€', {}); put('y/', {});";
    let patch = json!({"Type": "PATCH", "Id": "w/", "Patch": {"Script": script}});
    let reply = server.batch(&patch.to_string());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let incomplete = json!({"Type": "PATCH", "Id": "w€", "Patch": {"Script": script}});
    let refused = server.batch(&incomplete.to_string()).json();
    assert_eq!(refused["Message"], "The ID argument has invalid value: 'w€' (Parameter 'id')");
    let put = ids_with(&server, "y");
    assert_eq!(put[0], "y/");
    assert!(put[1].starts_with("y€000000000000000000"), "{put:?}");
    let range = |separator: &str| {
        let target = format!("/databases/db/hilo/next?tag=users{separator}");
        server.get(&target)
    };
    assert_eq!(range("").json()["Prefix"], "users€");
    assert_eq!(range("&identityPartsSeparator=").json()["Prefix"], "users€");
    assert_eq!(range("&identityPartsSeparator=-").json()["Prefix"], "users-");
    let refused = range("&identityPartsSeparator=ab");
    assert_eq!(refused.status, 500);
    let message =
        "Query string identityPartsSeparator is expecting single character, but got 'ab'.";
    assert_eq!(refused.json()["Message"], message);
}

#[test]
fn ids_of_cluster_wide_transactions_end_with_no_separator() {
    let server = TestServer::with_database();
    set_separator(&server, &json!(":"));
    let send = |command: Value| {
        let body = json!({"Commands": [command], "TransactionMode": "ClusterWide"}).to_string();
        server.send("POST", "/databases/db/bulk_docs", body.as_bytes())
    };
    let put = |id: &str| json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": {}});
    let delete = |id: &str| json!({"Type": "DELETE", "Id": id, "ChangeVector": null});
    let value = |key: &str| json!({"Type": "CompareExchangePUT", "Id": key, "Index": 0, "Document": {"Object": 1}});
    for command in [put("x:"), delete("x:"), delete("x|"), value("x:"), value("x|")] {
        let id = command["Id"].as_str().unwrap().to_owned();
        let reply = send(command);
        assert_eq!(reply.status, 500, "{}", reply.text());
        let message =
            format!("Document id {id} cannot end with '|' or ':' as part of cluster transaction");
        assert_eq!(reply.json()["Message"], message.as_str());
    }
    for (command, expected) in [(put("x/"), "x/"), (put("x|"), "x:1")] {
        assert_eq!(send(command).json()["Results"][0]["@id"], expected);
    }
    for command in [delete("x/"), value("x/")] {
        assert_eq!(send(command).status, 201);
    }
}

#[test]
fn a_disabled_or_server_wide_separator_applies_to_clients_only() {
    let server = TestServer::with_database();
    let of_server = "/admin/configuration/client";
    assert_eq!(configured(&server, of_server, &json!({"IdentityPartsSeparator": "."})).status, 201);
    assert_eq!(stored(&server, "u."), "u.");
    assert_eq!(stored(&server, "u/"), "u/0000000000000000002-A");
    let of_database = "/databases/db/admin/configuration/client";
    let disabled = json!({"IdentityPartsSeparator": ":", "Disabled": true});
    assert_eq!(configured(&server, of_database, &disabled).status, 201);
    assert_eq!(stored(&server, "u:"), "u:");
    for target in [of_server, of_database] {
        for separator in [json!("|"), json!("ab"), json!(5)] {
            let refused =
                configured(&server, target, &json!({"IdentityPartsSeparator": separator}));
            assert_eq!(refused.status, 500, "{}", refused.text());
        }
    }
}
