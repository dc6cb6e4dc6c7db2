//! ETL tasks between two servers in this process.

use std::collections::BTreeMap;

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{http_client::Reply, resources::wait_until, test_server::TestServer};

/// Leads from `db` of one server to a database of another one.
fn connect(source: &TestServer, destination: &str, database: &str) {
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": database, "TopologyDiscoveryUrls": [destination]
    });
    let body = string.to_string();
    let reply = source.send("PUT", "/databases/db/admin/connection-strings", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn url(server: &TestServer) -> String {
    format!("http://{}", server.address)
}

fn task(name: &str, transforms: Value) -> Value {
    json!({
        "EtlType": "Raven", "Name": name, "ConnectionStringName": "to", "Transforms": transforms
    })
}

fn put_task(source: &TestServer, task: &Value) -> Reply {
    source.send("PUT", "/databases/db/admin/etl", task.to_string().as_bytes())
}

fn added(source: &TestServer, task: &Value) -> u64 {
    let reply = put_task(source, task);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

fn details(source: &TestServer, id: u64) -> Value {
    source.get(&format!("/databases/db/task?key={id}&type=RavenEtl")).json()
}

fn statistics(source: &TestServer) -> Value {
    source.get("/databases/db/etl/stats").json()["Results"][0]["Stats"][0]["Statistics"].clone()
}

/// The documents of `db`, by id, without what the server says of them.
fn documents(server: &TestServer) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for start in (0..).step_by(1000) {
        let reply = server.get(&format!("/databases/db/docs?start={start}&pageSize=1000")).json();
        let results = reply["Results"].as_array().unwrap();
        for document in results {
            let mut document = document.clone();
            let metadata = document["@metadata"].as_object_mut().unwrap();
            let id = metadata["@id"].as_str().unwrap().to_owned();
            metadata.retain(|name, _| name == "@collection" || name == "@attachments");
            found.insert(id, document);
        }
        if results.len() < 1000 {
            break;
        }
    }
    found
}

#[test]
fn a_document_arrives_and_goes_with_its_deletion() {
    let (source, destination) = (TestServer::with_database(), TestServer::with_database());
    source.put("users/1", r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#);
    connect(&source, &url(&destination), "db");
    let id = added(&source, &task("t", json!([{"Name": "all", "ApplyToAllDocuments": true}])));
    wait_until(|| destination.document("users/1")["Name"] == "a");
    source.put("users/1", r#"{"Name":"b","@metadata":{"@collection":"Users"}}"#);
    wait_until(|| destination.document("users/1")["Name"] == "b");
    source.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    wait_until(|| destination.document("users/1").is_null());
    let shown = details(&source, id);
    assert_eq!(shown["TaskState"], "Enabled");
    assert_eq!(shown["TaskConnectionStatus"], "Active");
    assert_eq!(shown["DestinationUrl"], url(&destination));
    assert_eq!(shown["Configuration"]["Transforms"][0]["Name"], "all");
    assert_eq!(shown["Configuration"]["EtlType"], Value::Null, "Node's client fails on it");
    wait_until(|| statistics(&source)["LoadSuccesses"] == 3);
    let listed = source.get("/databases/db/tasks").json();
    assert_eq!(listed["OngoingTasksList"][0]["TaskType"], "RavenEtl");
}

/// What the destination should have of the source, by the scripts of the history below, computed naively.
fn expected(source: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut expected = BTreeMap::new();
    for (id, document) in source {
        let number = document["N"].as_i64().unwrap_or(0);
        match document["@metadata"]["@collection"].as_str().unwrap() {
            "Users" => {
                if number % 3 != 0 {
                    let loaded = json!({"N": number, "@metadata": {"@collection": "Users"}});
                    expected.insert(id.clone(), loaded);
                }
                for part in 1..=number % 3 {
                    let loaded =
                        json!({"Of": id, "Part": part, "@metadata": {"@collection": "Parts"}});
                    expected.insert(format!("{id}/parts/{part:019}-A"), loaded);
                }
            }
            "Orders" => drop(expected.insert(id.clone(), document.clone())),
            _ => {}
        }
    }
    expected
}

const USERS: &str = "if (this.N % 3 != 0) loadToUsers({ N: this.N });
    for (let part = 1; part <= this.N % 3; part++) loadToParts({ Of: id(this), Part: part });";

/// A few random changes of `db`.
fn change(source: &TestServer, random: &mut Random) -> u64 {
    let mut commands = Vec::new();
    for _ in 0..=random.below(8) {
        let number = random.below(40);
        let collection = ["Users", "Orders", "Others"][random.below(3) as usize];
        let id = format!("d/{number}");
        // A document keeps its collection, unless it is deleted in between.
        commands.push(match random.below(5) {
            0 => json!({"Type": "DELETE", "Id": id}),
            _ => json!({
                "Type": "PUT", "Id": format!("{id}-{collection}"),
                "Document": {"N": random.below(100), "@metadata": {"@collection": collection}}
            }),
        });
        if random.below(4) == 0 {
            let id = format!("{id}-{collection}");
            commands.push(json!({"Type": "DELETE", "Id": id}));
        }
    }
    let count = commands.len() as u64;
    let body = json!({"Commands": commands}).to_string();
    let reply = source.send("POST", "/databases/db/bulk_docs", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    count
}

/// Attaches, detaches and counts at an order.
fn change_parts(source: &TestServer, random: &mut Random) {
    let id = format!("d/{}-Orders", random.below(40));
    if source.document(&id).is_null() {
        return;
    }
    let name = ["a", "b"][random.below(2) as usize];
    let target = format!("/databases/db/attachments?id={id}&name={name}");
    let reply = match random.below(3) {
        0 => source.send("DELETE", &target, b""),
        _ => source.send("PUT", &target, format!("content {}", random.below(5)).as_bytes()),
    };
    assert!(reply.status < 300, "{}", reply.text());
    let operation = match random.below(5) {
        0 => json!({"Type": "Delete", "CounterName": "c"}),
        _ => json!({"Type": "Increment", "CounterName": "c", "Delta": random.below(9)}),
    };
    let body = json!({"Documents": [{"DocumentId": id, "Operations": [operation]}]}).to_string();
    let reply = source.send("POST", "/databases/db/counters", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// The counter of each order, as far as it has one.
fn counters(server: &TestServer, ids: impl Iterator<Item = String>) -> BTreeMap<String, Value> {
    let values = ids.map(|id| {
        let reply = server.get(&format!("/databases/db/counters?docId={id}&counter=c")).json();
        let total = reply["Counters"][0]["TotalValue"].clone();
        (id, total)
    });
    values.collect()
}

/// A server that can be started again where it was.
struct Place {
    platform: Platform,
    port: u16,
    server: Option<TestServer>,
}

impl Place {
    fn new() -> Place {
        let platform = Platform::memory();
        let server = TestServer::start(platform.clone(), &[]);
        server.create("db");
        Place { platform, port: server.address.port(), server: Some(server) }
    }

    fn server(&self) -> &TestServer {
        self.server.as_ref().unwrap()
    }

    /// Ends it, with or without closing its files, and begins again.
    fn restart(&mut self, is_killed: bool) {
        let server = self.server.take().unwrap();
        match is_killed {
            true => drop(server),
            false => server.stop(),
        }
        let argument = format!("--ServerUrl=http://127.0.0.1:{}", self.port);
        let mut started = None;
        // What still runs holds the data directory for a moment.
        wait_until(|| {
            started = TestServer::try_start(self.platform.clone(), &[&argument]).ok();
            started.is_some()
        });
        self.server = started;
    }
}

#[test]
fn the_destination_has_exactly_what_the_scripts_say_after_restarts_of_both_sides() {
    let mut random = Random::new(21);
    let (mut source, mut destination) = (Place::new(), Place::new());
    connect(source.server(), &url(destination.server()), "db");
    let transforms = json!([
        {"Name": "users", "Collections": ["Users"], "Script": USERS},
        {"Name": "orders", "Collections": ["Orders"]},
    ]);
    added(source.server(), &task("t", transforms));
    let mut changes = 0;
    while changes < 2000 {
        changes += change(source.server(), &mut random);
        change_parts(source.server(), &mut random);
        match random.below(150) {
            0 => source.restart(true),
            1 => source.restart(false),
            2 => destination.restart(true),
            3 => destination.restart(false),
            _ => {}
        }
    }
    let at_source = documents(source.server());
    let wanted = expected(&at_source);
    assert!(30 < wanted.len(), "the history is too poor: {}", wanted.len());
    let mut found = BTreeMap::new();
    wait_until(|| {
        found = documents(destination.server());
        found == wanted
    });
    let orders = || wanted.keys().filter(|id| id.ends_with("-Orders")).cloned();
    let counted = counters(source.server(), orders());
    assert!(counted.values().any(|total| total.is_number()));
    wait_until(|| counters(destination.server(), orders()) == counted);
}

#[test]
fn a_destination_that_fails_is_tried_again_and_shown() {
    let source = TestServer::with_database();
    let mut destination = Place::new();
    let address = url(destination.server());
    connect(&source, &address, "nope");
    source.put("users/1", r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#);
    let id = added(&source, &task("t", json!([{"Name": "all", "ApplyToAllDocuments": true}])));
    wait_until(|| statistics(&source)["LoadErrors"].as_u64() >= Some(1));
    let shown = details(&source, id);
    assert_eq!(shown["TaskConnectionStatus"], "Reconnect");
    assert!(shown["Error"].as_str().unwrap().contains("nope"), "{}", shown["Error"]);
    let notices = source.get("/databases/db/notifications").json();
    let notice = &notices["Results"][0];
    assert_eq!(notice["AlertType"], "Etl_LoadError", "{notices}");
    assert!(notice["Message"].as_str().unwrap().contains("t/all"), "{notice}");
    destination.server().create("nope");
    wait_until(|| {
        let reply = destination.server().get("/databases/nope/docs?id=users/1");
        reply.status == 200
    });
    wait_until(|| source.get("/databases/db/notifications").json()["TotalResults"] == 0);
    // What changes while it is down is sent once it is there again.
    let server = destination.server.take().unwrap();
    server.stop();
    source.put("users/2", r#"{"@metadata":{"@collection":"Users"}}"#);
    wait_until(|| statistics(&source)["WasLatestLoadSuccessful"] == false);
    let argument = format!("--ServerUrl=http://127.0.0.1:{}", destination.port);
    let server = TestServer::start(destination.platform.clone(), &[&argument]);
    wait_until(|| server.get("/databases/nope/docs?id=users/2").status == 200);
}

#[test]
fn a_document_whose_script_fails_is_shown_and_the_others_arrive() {
    let (source, destination) = (TestServer::with_database(), TestServer::with_database());
    connect(&source, &url(&destination), "db");
    for number in 0..5 {
        let document = format!(r#"{{"N":{number},"@metadata":{{"@collection":"Users"}}}}"#);
        source.put(&format!("users/{number}"), &document);
    }
    let script = "if (this.N == 3) throw new Error('not three'); loadToUsers(this)";
    added(&source, &task("t", json!([{"Name": "s", "Collections": ["Users"], "Script": script}])));
    wait_until(|| !destination.document("users/4").is_null());
    assert!(destination.document("users/3").is_null());
    wait_until(|| statistics(&source)["TransformationErrors"] == 1);
    assert_eq!(statistics(&source)["LoadSuccesses"], 4);
    let debug = source.get("/databases/db/etl/debug/stats").json();
    let errors = &debug["Results"][0]["Stats"][0]["Statistics"]["TransformationErrorsInCurrentBatch"]
        ["Errors"];
    assert_eq!(errors[0]["DocumentId"], "users/3");
    assert!(errors[0]["Error"].as_str().unwrap().contains("not three"), "{errors}");
    let progress = source.get("/databases/db/etl/progress").json();
    let process = &progress["Results"][0]["ProcessesProgress"][0];
    assert_eq!(
        (&process["TotalNumberOfDocuments"], &process["Completed"]),
        (&json!(5), &json!(true))
    );
    let performance = source.get("/databases/db/etl/performance").json();
    assert_eq!(performance["Results"][0]["Stats"][0]["Performance"][0]["SuccessfullyLoaded"], true);
}

#[test]
fn a_changed_script_and_a_reset_begin_with_the_first_change() {
    let (source, destination) = (TestServer::with_database(), TestServer::with_database());
    connect(&source, &url(&destination), "db");
    source.put("users/1", r#"{"N":1,"@metadata":{"@collection":"Users"}}"#);
    let with = |script: &str| {
        task("t", json!([{"Name": "s", "Collections": ["Users"], "Script": script}]))
    };
    let id = added(&source, &with("loadToUsers({A: 1})"));
    wait_until(|| destination.document("users/1")["A"] == 1);
    let target = format!("/databases/db/admin/etl?id={id}");
    let changed = with("loadToUsers({A: 2})").to_string();
    let reply = source.send("PUT", &target, changed.as_bytes());
    let newer = reply.json()["TaskId"].as_u64().unwrap();
    assert!(id < newer, "a changed task has another number");
    wait_until(|| destination.document("users/1")["A"] == 2);
    destination.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    let target = "/databases/db/admin/etl?configurationName=t&transformationName=s";
    assert_eq!(source.send("RESET", target, b"{}").status, 200);
    wait_until(|| destination.document("users/1")["A"] == 2);
    // A disabled task sends nothing, and goes on where it was.
    let toggle = |disable: bool| {
        let target =
            format!("/databases/db/admin/tasks/state?key={newer}&type=RavenEtl&disable={disable}");
        let reply = source.send("POST", &target, b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    toggle(true);
    assert_eq!(details(&source, newer)["TaskState"], "Disabled");
    source.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    source.send("POST", "/databases/db/admin/tombstones/cleanup", b"");
    toggle(false);
    wait_until(|| destination.document("users/1").is_null());
    let target = format!("/databases/db/admin/tasks?id={newer}&type=RavenEtl");
    assert_eq!(source.send("DELETE", &target, b"").status, 200);
    assert_eq!(source.get("/databases/db/tasks").json()["OngoingTasksList"], json!([]));
}

#[test]
fn connection_strings_are_kept_shown_and_not_removed_while_they_are_used() {
    let server = TestServer::with_database();
    let target = "/databases/db/admin/connection-strings";
    for string in [
        json!({"Type": "Raven", "Name": "r1", "Database": "d", "TopologyDiscoveryUrls": ["http://127.0.0.1:1"]}),
        json!({"Type": "Sql", "Name": "s1", "FactoryName": "MySql.Data.MySqlClient", "ConnectionString": "test"}),
        json!({"Type": "Olap", "Name": "o1"}),
        json!({"Type": "ElasticSearch", "Name": "e1", "Nodes": ["http://127.0.0.1:8080"]}),
        json!({"Type": "Queue", "Name": "k1", "BrokerType": "Kafka", "KafkaConnectionSettings": {"BootstrapServers": "l:1"}}),
    ] {
        let reply = server.send("PUT", target, string.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.json()["RaftCommandIndex"].as_u64() > Some(0));
    }
    let all = server.get(target).json();
    let names: Vec<_> = all
        .as_object()
        .unwrap()
        .values()
        .flat_map(|kind| kind.as_object().unwrap().keys())
        .collect();
    assert_eq!(names, ["r1", "s1", "o1", "e1", "k1"]);
    let one = server.get(&format!("{target}?connectionStringName=r1&type=Raven")).json();
    assert_eq!(one["RavenConnectionStrings"]["r1"]["Database"], "d");
    assert_eq!(one["SqlConnectionStrings"], json!({}));
    let mut etl = task("t", json!([{"Name": "a", "ApplyToAllDocuments": true}]));
    etl["ConnectionStringName"] = json!("r1");
    let id = added(&server, &etl);
    let delete = format!("{target}?connectionString=r1&type=Raven");
    let refused = server.send("DELETE", &delete, b"");
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("It is used by the tasks: 't'"), "{}", refused.text());
    server.send("DELETE", &format!("/databases/db/admin/tasks?id={id}&type=RavenEtl"), b"");
    assert_eq!(server.send("DELETE", &delete, b"").status, 200);
    assert_eq!(server.get(target).json()["RavenConnectionStrings"], json!({}));
    for (sent, expected) in [
        (json!({}), "must have ConnectionStringType field"),
        (json!({"Type": "Raven", "Name": "n"}), "Database cannot be empty\\nTopologyDiscoveryUrls"),
    ] {
        let reply = server.send("PUT", target, sent.to_string().as_bytes());
        assert!(reply.status >= 400 && reply.text().contains(expected), "{}", reply.text());
    }
}

#[test]
fn tasks_that_cannot_be_followed_are_refused_with_their_reason() {
    let server = TestServer::with_database();
    connect(&server, "http://127.0.0.1:1", "d");
    let all = json!([{"Name": "a", "ApplyToAllDocuments": true}]);
    let scripted =
        |script: &str| json!([{"Name": "s", "Collections": ["Users"], "Script": script}]);
    let mut unknown = task("t", all.clone());
    unknown["ConnectionStringName"] = json!("nope");
    for (sent, expected) in [
        (json!({}), "ETL configuration must have EtlType field"),
        (json!({"EtlType": "Sql"}), "'Sql' are not supported by this server yet"),
        (unknown, "Could not find connection string named 'nope'"),
        (
            task("t", scripted("var a = 1")),
            "No `loadTo<CollectionName>()` method call found in 's' script.",
        ),
        (task("t", scripted("loadToUsers(")), "Could not parse 's' script"),
        (task("t", json!([{"Name": "s"}])), "Collections need be specified"),
    ] {
        let reply = put_task(&server, &sent);
        assert!(reply.status >= 400 && reply.text().contains(expected), "{sent}: {}", reply.text());
    }
    added(&server, &task("t", all.clone()));
    let again = put_task(&server, &task("T", all));
    assert!(
        again.text().contains("there is already an ETL task with that name"),
        "{}",
        again.text()
    );
    let missing = server.send(
        "PUT",
        "/databases/db/admin/etl?id=999",
        task("u", scripted("loadToA(this)")).to_string().as_bytes(),
    );
    assert!(missing.text().contains("ETL task ID: 999 doesn't exist"), "{}", missing.text());
    assert_eq!(server.get("/databases/db/task?key=5&type=RavenEtl").status, 404);
}

#[test]
fn a_script_is_tried_before_it_is_stored() {
    let server = TestServer::with_database();
    server.put("users/1", r#"{"Name":"x","@metadata":{"@collection":"Users"}}"#);
    let test = |script: &str, is_delete: bool| {
        let body = json!({
            "DocumentId": "users/1", "IsDelete": is_delete,
            "Configuration": task("t", json!([{"Name": "s", "Collections": ["Users"], "Script": script}])),
        });
        server
            .send("POST", "/databases/db/admin/etl/raven/test", body.to_string().as_bytes())
            .json()
    };
    let tried = test("output('hi'); loadToUsers({N: this.Name})", false);
    assert_eq!(tried["Commands"][0]["Document"]["N"], "x");
    assert_eq!(tried["DebugOutput"], json!(["hi"]));
    let failed = test("loadToUsers(5)", false);
    assert_eq!(failed["Commands"], json!([]));
    let error = failed["TransformationErrors"][0]["Error"].as_str().unwrap();
    assert!(error.contains("argument must be an object"), "{error}");
    assert_eq!(test("loadToUsers(this)", true)["Commands"][0]["Type"], "DELETE");
    let reply = server.send("POST", "/admin/test-connection?url=http://127.0.0.1:1", b"").json();
    assert_eq!(reply["Success"], false);
    let own = format!("/admin/test-connection?url={}&database=db", url(&server));
    assert_eq!(server.send("POST", &own, b"").json()["Success"], true);
}

#[test]
fn what_an_etl_task_sends_for_missing_documents_is_ignored_and_counters_are_set() {
    let server = TestServer::with_database();
    server.put("a", r#"{"@metadata":{"@collection":"As"}}"#);
    let commands = |id: &str| {
        format!(
            r#"{{"Type":"Counters","Id":"{id}","Counters":{{"DocumentId":"{id}","Operations":[
                {{"Type":"Put","CounterName":"c","Delta":7}}]}},"FromEtl":true}},
            {{"Type":"TimeSeries","Id":"{id}","TimeSeries":{{"Name":"s","Appends":[
                {{"Timestamp":"2020-01-01T00:00:00.0000000Z","Values":[1]}}]}},"FromEtl":true}},
            {{"Type":"AttachmentDELETE","Id":"{id}","Name":"x","FromEtl":true}}"#
        )
    };
    for id in ["a", "missing", "a"] {
        let reply = server.batch(&commands(id));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    let total = server.get("/databases/db/counters?docId=a&counter=c").json();
    assert_eq!(total["Counters"][0]["TotalValue"], 7);
    assert_eq!(server.document("missing"), Value::Null);
    // Only an ETL task sets counters.
    let put = commands("a").replace("\"Delta\":7}]},\"FromEtl\":true", "\"Delta\":9}]}");
    assert_eq!(server.batch(&put).status, 201);
    let total = server.get("/databases/db/counters?docId=a&counter=c").json();
    assert_eq!(total["Counters"][0]["TotalValue"], 7);
}

#[test]
fn a_document_that_the_destination_refuses_is_found_and_holds_back_only_what_follows() {
    let source = TestServer::with_database();
    let limit = "--Documents.MaxDocumentSizeInMb=1";
    let destination = TestServer::start(Platform::memory(), &[limit]);
    destination.create("db");
    let mut commands = Vec::new();
    for number in 0..40 {
        let filling = if number == 25 { "x".repeat(2 << 20) } else { String::new() };
        commands.push(json!({
            "Type": "PUT", "Id": format!("a/{number}"),
            "Document": {"F": filling, "@metadata": {"@collection": "As"}}
        }));
    }
    let body = json!({"Commands": commands}).to_string();
    let reply = source.send("POST", "/databases/db/bulk_docs", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    connect(&source, &url(&destination), "db");
    added(&source, &task("t", json!([{"Name": "all", "Collections": ["As"]}])));
    wait_until(|| statistics(&source)["LoadErrors"] == 1);
    let error = statistics(&source)["LastAlert"].as_str().unwrap().to_owned();
    assert!(error.contains("It is the change with the etag 26"), "{error}");
    let arrived = documents(&destination);
    assert_eq!(arrived.len(), 25, "{:?}", arrived.keys());
    source.put("a/25", r#"{"@metadata":{"@collection":"As"}}"#);
    wait_until(|| documents(&destination).len() == 40);
}

#[test]
fn deletions_are_kept_until_they_are_sent() {
    let source = TestServer::with_database();
    connect(&source, "http://127.0.0.1:1", "nowhere");
    added(
        &source,
        &task("t", json!([{"Name": "s", "Collections": ["As"], "Script": "loadToAs(this)"}])),
    );
    source.put("a", r#"{"@metadata":{"@collection":"As"}}"#);
    source.put("b", r#"{"@metadata":{"@collection":"Bs"}}"#);
    source.batch(r#"{"Type":"DELETE","Id":"a"},{"Type":"DELETE","Id":"b"}"#);
    let removed = source.send("POST", "/databases/db/admin/tombstones/cleanup", b"").json();
    assert_eq!(removed["Value"], 1, "that of a collection that the task does not read");
    let state = source.get("/databases/db/admin/tombstones/state").json();
    let info = &state["PerSubscriptionInfo"][0];
    assert_eq!(info["Identifier"], "RavenEtl 't/s'", "{state}");
    assert_eq!(info["Collection"], "As");
}

/// Clients that may only write reach them.
#[test]
fn the_routes_for_subscriptions_change_no_other_tasks() {
    let server = TestServer::with_database();
    connect(&server, "http://127.0.0.1:1", "d");
    let etl = added(&server, &task("t", json!([{"Name": "a", "ApplyToAllDocuments": true}])));
    let backup = json!({
        "Name": "b", "FullBackupFrequency": "0 2 * * 0", "Disabled": true,
        "LocalSettings": {"FolderPath": "b"}
    });
    let target = "/databases/db/admin/periodic-backup";
    let reply = server.send("POST", target, backup.to_string().as_bytes());
    let backup = reply.json()["TaskId"].as_u64().unwrap();
    let state = |id: u64, kind: &str| {
        server.get(&format!("/databases/db/task?key={id}&type={kind}")).json()["TaskState"].clone()
    };
    for (id, kind, expected) in [(etl, "RavenEtl", "Enabled"), (backup, "Backup", "Disabled")] {
        let tasks = "/databases/db/subscription-tasks";
        for disable in ["true", "false"] {
            let set = format!("{tasks}/state?key={id}&type={kind}&disable={disable}");
            let reply = server.send("POST", &set, b"");
            assert!(reply.text().contains("for subscriptions alone"), "{}", reply.text());
        }
        let reply = server.send("DELETE", &format!("{tasks}?id={id}&type={kind}"), b"");
        assert!(reply.text().contains("for subscriptions alone"), "{}", reply.text());
        assert_eq!(state(id, kind), expected);
    }
}

/// Only requests that define them check them: a record may have anything.
#[test]
fn tasks_of_a_record_are_followed_as_far_as_they_can_be_and_show_no_passwords() {
    let server = TestServer::start(platform::Platform::memory(), &[]);
    let transforms = json!([{"name": "a", "applyToAllDocuments": true}]);
    let one = |name: &str, connection: &str| json!({"name": name, "connectionStringName": connection, "transforms": transforms});
    let record = json!({
        "DatabaseName": "db",
        "RavenConnectionStrings": {
            "to": {"Database": "d", "TopologyDiscoveryUrls": ["http://user:hush@127.0.0.1:1"]},
            "fine": {"Database": "d", "TopologyDiscoveryUrls": ["http://127.0.0.1:1"]}
        },
        "RavenEtls": [one("low", "to"), one("LOW", "fine")]
    });
    let created = server.send("PUT", "/admin/databases", record.to_string().as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    let listed = server.get("/databases/db/tasks").json();
    let tasks = listed["OngoingTasksList"].as_array().unwrap();
    let names: Vec<_> = tasks.iter().map(|task| task["TaskName"].as_str().unwrap()).collect();
    assert_eq!(names, ["low", "LOW (2)"]);
    assert!(!listed.to_string().contains("hush"), "{listed}");
    assert!(tasks[0]["Error"].as_str().unwrap().contains("no path, query or credentials"));
    let delete = "/databases/db/admin/connection-strings?connectionString=to&type=Raven";
    assert!(server.send("DELETE", delete, b"").text().contains("used by the tasks: 'low'"));
    let ids: Vec<_> = tasks.iter().map(|task| task["TaskId"].as_u64().unwrap()).collect();
    assert!(ids[0] != 0 && ids[0] != ids[1], "{ids:?}");
    for id in ids {
        let target = format!("/databases/db/admin/tasks/state?key={id}&type=RavenEtl&disable=true");
        assert_eq!(server.send("POST", &target, b"").status, 200);
        let target = format!("/databases/db/admin/tasks?id={id}&type=RavenEtl");
        assert_eq!(server.send("DELETE", &target, b"").status, 200);
    }
    assert_eq!(server.get("/databases/db/tasks").json()["OngoingTasksList"], json!([]));
}

#[test]
fn a_connection_is_tried_to_a_server_alone() {
    let server = TestServer::with_database();
    let tried = |address: &str| {
        let address = address.replace(':', "%3A").replace('/', "%2F").replace('?', "%3F");
        let target = format!("/admin/test-connection?url={address}&database=db");
        server.send("POST", &target, b"").json()
    };
    assert_eq!(tried(&url(&server))["Success"], true);
    let refused = tried(&format!("{}/admin/anything?x=", url(&server)));
    assert_eq!(refused["Success"], false);
    assert!(refused["Error"].as_str().unwrap().contains("no path, query"), "{refused}");
}
