//! `/bulk_docs` and `/multi_get`.

use serde_json::json;

use crate::test_server::TestServer;

#[test]
fn the_commands_of_a_batch_run_in_order_and_each_returns_a_result() {
    let server = TestServer::with_database();
    let reply = server.batch(
        r#"{"Type":"PUT","Id":"users/1","Document":{"@metadata":{"@collection":"Users"}}},
           {"Type":"PUT","Id":"tmp/1","Document":{}},
           {"Type":"DELETE","Id":"nope"},
           {"Type":"DELETE","Id":"USERS/1"},
           {"Type":"DELETE","Id":"tmp/","IdPrefixed":true},
           {"Type":"DELETE"},
           {"Type":"PUT","Id":"orders/","Document":{}},
           {"Type":"PUT","Id":null,"Document":{}}"#,
    );
    assert_eq!(reply.status, 201, "{}", reply.text());
    let results = reply.json()["Results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 8);
    let put = results[0].as_object().unwrap();
    let keys: Vec<&String> = put.keys().collect();
    assert_eq!(keys, ["Type", "@id", "@collection", "@change-vector", "@last-modified"]);
    assert_eq!((&put["@id"], &put["@collection"]), (&json!("users/1"), &json!("Users")));
    assert_eq!(results[2], json!({"Id": "nope", "Type": "DELETE", "Deleted": false}));
    let deleted = json!({"Id": "USERS/1", "Type": "DELETE", "Deleted": true, "ChangeVector": null});
    assert_eq!(results[3], deleted);
    assert_eq!(results[4], json!({"Id": "tmp/", "Type": "DELETE", "Deleted": true}));
    assert_eq!(results[5], json!({"Id": null, "Type": "DELETE", "Deleted": false}));
    assert!(results[6]["@id"].as_str().unwrap().starts_with("orders/0000000000"));
    assert_eq!(results[7]["@id"].as_str().unwrap().len(), 36);
}

/// Some commands are translated to no command of the engine, or to several.
#[test]
fn each_command_is_answered_with_its_own_results() {
    let server = TestServer::with_database();
    let reply = server.batch(
        r#"{"Type":"PUT","Id":"a","Document":{"N":1}},
           {"Type":"DELETE","Id":""},
           {"Type":"PUT","Id":"a","Document":{"N":2},"ForceRevisionCreationStrategy":"Before"},
           {"Type":"BatchPATCH","Ids":[],"Patch":{"Script":"this.N++"}},
           {"Type":"PUT","Id":"b","Document":{"N":1}},
           {"Type":"BatchPATCH","Ids":[{"Id":"a"},{"Id":"b"},{"Id":"c"}],"Patch":{"Script":"this.N++"}},
           {"Type":"ForceRevisionCreation","Id":"b"},
           {"Type":"DELETE"},
           {"Type":"PATCH","Id":"b","Patch":{"Script":"this.N++"},"ReturnDocument":true},
           {"Type":"DELETE","Id":"b"}"#,
    );
    assert_eq!(reply.status, 201, "{}", reply.text());
    let results = reply.json()["Results"].as_array().unwrap().clone();
    let of = |name: &str| results.iter().map(|result| result[name].clone()).collect::<Vec<_>>();
    let kinds = [
        "PUT",
        "DELETE",
        "PUT",
        "BatchPATCH",
        "PUT",
        "BatchPATCH",
        "ForceRevisionCreation",
        "DELETE",
        "PATCH",
        "DELETE",
    ];
    assert_eq!(of("Type"), kinds);
    let ids = [Some("a"), None, Some("a"), None, Some("b"), None, Some("b"), None, None, None];
    assert_eq!(of("@id"), ids.map(|id| json!(id)));
    assert_eq!(results[8]["ModifiedDocument"]["N"], 3);
    assert_eq!([&results[7], &results[9]].map(|one| one["Deleted"].clone()), [false, true]);
    assert_eq!(server.document("a")["N"], 3);
    let revisions = server.get("/databases/db/revisions?id=a").json()["Results"].clone();
    assert_eq!(revisions[revisions.as_array().unwrap().len() - 1]["N"], 1);
}

#[test]
fn a_batch_with_one_bad_command_changes_nothing() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"@metadata":{"@collection":"Users"}}"#);
    let bad = [
        (r#"{"Type":"PUT","Id":"u/1","Document":{},"ChangeVector":""}"#, 409),
        (r#"{"Type":"DELETE","Id":"u/1","ChangeVector":"A:9-x"}"#, 409),
        (r#"{"Type":"PUT","Id":"u/1","Document":{"@metadata":{"@collection":"Z"}}}"#, 500),
        (r#"{"Type":"PATCH","Id":"u/1","Patch":{"Script":"throw 1"}}"#, 500),
        (r#"{"Type":"FOO"}"#, 500),
        (r#"{"Type":"PUT","Id":"x"}"#, 500),
    ];
    for (command, status) in bad {
        let good = r#"{"Type":"PUT","Id":"new","Document":{}}"#;
        let reply = server.batch(&format!("{good},{command}"));
        assert_eq!(reply.status, status, "{command}: {}", reply.text());
        assert!(server.document("new").is_null(), "{command}");
    }
    assert_eq!(server.document("u/1")["@metadata"]["@collection"], "Users");
}

#[test]
fn unsupported_commands_are_rejected_by_name() {
    let server = TestServer::with_database();
    let reply = server.batch(r#"{"Type":"TimeSeriesBulkInsert","Id":"a"}"#);
    assert_eq!(reply.status, 500);
    assert_eq!(reply.json()["Type"], "System.NotSupportedException");
    assert!(reply.json()["Message"].as_str().unwrap().contains("TimeSeriesBulkInsert"));
    let text = [("Content-Type", "text/plain")];
    let reply = server.send_with("POST", "/databases/db/bulk_docs", &text, b"{\"Commands\":[]}");
    assert_eq!(reply.status, 500);
}

#[test]
fn waiting_for_replicas_of_a_single_node_times_out_after_the_write() {
    let server = TestServer::with_database();
    let wait = |query: &str| {
        let target = format!("/databases/db/bulk_docs?&waitForReplicasTimeout=00:00:00.01{query}");
        let body = br#"{"Commands":[{"Type":"PUT","Id":"w","Document":{}}]}"#;
        server.send("POST", &target, body)
    };
    let late = wait("&numberOfReplicasToWaitFor=1");
    assert_eq!(late.status, 408, "{}", late.text());
    assert_eq!(late.json()["FailImmediately"], true);
    assert!(!server.document("w").is_null());
    assert_eq!(wait("&throwOnTimeoutInWaitForReplicas=false").status, 201);
    assert_eq!(wait("&numberOfReplicasToWaitFor=majority").status, 201);
    let indexes = "/databases/db/bulk_docs?waitForIndexesTimeout=00:00:15&waitForIndexThrow=true";
    assert_eq!(server.send("POST", indexes, b"{\"Commands\":[]}").status, 201);
}

#[test]
fn several_reads_go_into_one_request() {
    let server = TestServer::with_database();
    let version = server.put("a", "{}");
    let body = format!(
        r#"{{"Requests":[
            {{"Url":"/databases/db/docs","Query":"?&id=a","Method":null,"Content":null}},
            {{"Url":"/databases/db/docs","Query":"?id=nope"}},
            {{"Url":"/databases/db/docs","Query":"?id=a","Headers":{{"If-None-Match":"\"{version}\""}}}},
            {{"Url":"/databases/db/queries","Query":"","Method":"POST","Content":{{"Query":"from @all_docs"}}}},
            {{"Url":"/databases/db/docs","Query":"?start=abc"}},
            {{"Url":"/databases/db/foo","Query":"?x=1"}},
            {{}},
            {{"Url":"/docs","Query":"?id=a"}}
        ]}}"#
    );
    let reply = server.send("POST", "/databases/db/multi_get", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let results = reply.json()["Results"].clone();
    assert_eq!(results[0]["Result"]["Results"][0]["@metadata"]["@id"], "a");
    assert_eq!(results[0]["Headers"]["ETag"], format!("\"{version}\""));
    assert_eq!(results[1], json!({"Result": null, "StatusCode": 404, "Headers": {}}));
    assert_eq!((&results[2]["Result"], &results[2]["StatusCode"]), (&json!(null), &json!(304)));
    assert_eq!(results[3]["Result"]["TotalResults"], 1);
    assert_eq!(results[4]["StatusCode"], 500);
    assert_eq!(results[4]["Result"]["Type"], "System.ArgumentException");
    assert_eq!(results[5]["StatusCode"], 400);
    assert_eq!(results[6], json!({}));
    assert_eq!(results[7]["StatusCode"], 400);
}
