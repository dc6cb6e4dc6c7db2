//! Indexes that an application defines, in C# and in JavaScript.

use serde_json::json;

use crate::{
    indexes::{define, found, names_of, put},
    resources::wait_until,
    test_server::TestServer,
};

#[test]
fn an_index_defined_in_c_sharp_answers_queries() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann Lee","Age":30,"Tags":["x","y"]}"#);
    put(&server, "users/2", r#"{"Name":"Bob Lee","Age":7}"#);
    let definition = json!({
        "Name": "Users/ByName",
        "Maps": ["from u in docs.Users select new { u.Name, Older = u.Age + 1, u.Tags }"],
        "Fields": {"Name": {"Indexing": "Search"}},
    });
    let reply = define(&server, &definition);
    assert_eq!(
        (reply.status, reply.json()["Results"][0]["Index"].clone()),
        (201, json!("Users/ByName"))
    );
    let queried = |rest: &str| found(&server, &format!("from index 'users/byname' {rest}"));
    let (ids, answer) = queried("where Name = 'lee'");
    assert_eq!(ids, ["users/1", "users/2"]);
    assert_eq!(answer["IndexName"], "Users/ByName");
    assert_eq!(queried("where search(Name, 'ann')").0, ["users/1"]);
    assert_eq!(queried("where Older = 8").0, ["users/2"]);
    assert_eq!(queried("where Tags in ('y')").0, ["users/1"]);
    assert_eq!(queried("order by Older as long").0, ["users/2", "users/1"]);
    put(&server, "users/3", r#"{"Name":"Cid","Age":1}"#);
    assert_eq!(queried("where Older = 2").0, ["users/3"]);
    let unknown = json!({"Query": "from index 'Users/ByName' where Age = 1"}).to_string();
    let unknown = server.send("POST", "/databases/db/queries", unknown.as_bytes()).json();
    assert_eq!(unknown["Type"], "System.ArgumentException");
    let stats = server.get("/databases/db/indexes/stats?name=Users/ByName").json();
    assert_eq!(
        (&stats["Results"][0]["Type"], &stats["Results"][0]["EntriesCount"]),
        (&json!("Map"), &json!(3))
    );
}

#[test]
fn a_change_of_a_loaded_document_updates_the_index() {
    let server = TestServer::with_database();
    let definition = json!({"Name": "ByCompany", "Maps": [
        "from u in docs.Users let c = LoadDocument(u.Company, \"Companies\") select new { c.City }"
    ]});
    assert_eq!(define(&server, &definition).status, 201);
    put(&server, "users/1", r#"{"Company":"companies/1"}"#);
    put(&server, "users/2", r#"{"Company":"companies/2"}"#);
    let company = |id: &str, city: &str| {
        let body = format!(r#"{{"City":"{city}","@metadata":{{"@collection":"Companies"}}}}"#);
        server.put(id, &body);
    };
    company("companies/1", "Oz");
    let at = |city: &str| found(&server, &format!("from index ByCompany where City = '{city}'")).0;
    assert_eq!(at("oz"), ["users/1"]);
    company("companies/2", "Oz");
    assert_eq!(at("oz"), ["users/1", "users/2"]);
    company("companies/1", "Rome");
    assert_eq!((at("oz"), at("rome")), (vec!["users/2".to_owned()], vec!["users/1".to_owned()]));
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=companies/2", b"").status, 204);
    assert_eq!(at("oz"), Vec::<String>::new());
}

#[test]
fn a_document_without_a_collection_is_loaded_under_any_collection_name() {
    let server = TestServer::with_database();
    let maps = [
        ("CSharp", "from u in docs.Users select new { LoadDocument(u.Town, \"Towns\").Name }"),
        ("Script", "map('Users', u => ({ Name: load(u.Town, 'Towns').Name }))"),
    ];
    for (name, map) in maps {
        assert_eq!(define(&server, &json!({"Name": name, "Maps": [map]})).status, 201);
    }
    put(&server, "users/1", r#"{"Town":"towns/1"}"#);
    let are_found = |town: &str, is_found: bool| {
        for (name, _) in maps {
            let query = format!("from index {name} where Name = '{town}'");
            let expected = if is_found { vec!["users/1"] } else { Vec::new() };
            assert_eq!(found(&server, &query).0, expected, "{query}");
        }
    };
    server.put("towns/1", r#"{"Name":"Oz"}"#);
    are_found("oz", true);
    server.put("towns/1", r#"{"Name":"Rome"}"#);
    are_found("oz", false);
    are_found("rome", true);
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=towns/1", b"").status, 204);
    are_found("rome", false);
    server.put("towns/1", r#"{"Name":"Oz","@metadata":{"@collection":"Others"}}"#);
    are_found("oz", false);
}

#[test]
fn map_errors_are_reported_and_too_many_stop_the_index() {
    let server = TestServer::with_database();
    let definition =
        json!({"Name": "Div", "Maps": ["from u in docs.Users select new { X = 10 / u.Age }"]});
    assert_eq!(define(&server, &definition).status, 201);
    for number in 0..12 {
        put(&server, &format!("users/{number}"), r#"{"Age":5}"#);
    }
    put(&server, "users/zero", r#"{"Age":0}"#);
    assert_eq!(found(&server, "from index Div where X = 2").0.len(), 12);
    let errors = server.get("/databases/db/indexes/errors?name=Div").json();
    let error = &errors["Results"][0]["Errors"][0];
    assert_eq!((&error["Document"], &error["Action"]), (&json!("users/zero"), &json!("Map")));
    assert!(error["Error"].as_str().unwrap().contains("division by zero"), "{error}");
    for number in 0..9 {
        put(&server, &format!("zeros/{number}"), r#"{"Age":0}"#);
    }
    let body = json!({"Query": "from index Div", "WaitForNonStaleResults": true}).to_string();
    let refused = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(refused.status, 500);
    let message = refused.json()["Message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Index 'Div' is marked as errored."), "{message}");
}

#[test]
fn a_map_that_does_not_compile_is_rejected_with_the_position_of_the_error() {
    let server = TestServer::with_database();
    for map in ["from u in docs.Users select new { u.Name", "docs.Users.OrderBy(u => u.Id)"] {
        let reply = define(&server, &json!({"Name": "Bad", "Maps": [map]}));
        let kind = "Raven.Client.Exceptions.Documents.Compilation.IndexCompilationException";
        assert_eq!((reply.status, &reply.json()["Type"]), (500, &json!(kind)), "{map}");
        let message = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("Failed to compile index Bad") && message.contains("line 1"));
    }
    assert_eq!(server.get("/databases/db/indexes").json()["Results"], json!([]));
}

#[test]
fn a_changed_definition_rebuilds_the_index_and_a_changed_lock_does_not() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Age":30}"#);
    let definition = |field: &str| json!({"Name": "I", "Maps": [format!("from u in docs.Users select new {{ u.{field} }}")]});
    assert_eq!(define(&server, &definition("Name")).status, 201);
    assert_eq!(found(&server, "from index I where Name = 'ann'").0, ["users/1"]);
    assert_eq!(define(&server, &definition("Age")).status, 201);
    wait_until(|| names_of(&server) == ["I"]);
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1"]);
    let lock = |mode: &str| {
        let body = json!({"IndexNames": ["I"], "Mode": mode}).to_string();
        server.send("POST", "/databases/db/indexes/set-lock", body.as_bytes()).status
    };
    let created = || {
        let stats = server.get("/databases/db/indexes/stats?name=I").json();
        stats["Results"][0]["CreatedTimestamp"].clone()
    };
    let before = created();
    assert_eq!(lock("LockedIgnore"), 204);
    assert_eq!(created(), before, "entries are kept");
    assert_eq!(define(&server, &definition("Name")).status, 201);
    assert_eq!(found(&server, "from index I where Age = 30").0, ["users/1"], "nothing changed");
    assert_eq!(lock("LockedError"), 204);
    assert_eq!(define(&server, &definition("Name")).status, 500);
}

#[test]
fn an_index_defined_in_javascript_answers_queries() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Tags":["x","y"],"Boss":"users/2"}"#);
    put(&server, "users/2", r#"{"Name":"Bob"}"#);
    let definition = json!({"Name": "Tags", "Maps": [
        "map('Users', u => (u.Tags || []).map(t => ({ Tag: t, Boss: load(u.Boss, 'Users').Name })))"
    ]});
    let body = json!({"Indexes": [definition]}).to_string();
    let reply = server.send("PUT", "/databases/db/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let queried = |condition: &str| found(&server, &format!("from index Tags where {condition}")).0;
    assert_eq!(queried("Tag = 'y'"), ["users/1"]);
    assert_eq!(queried("Boss = 'bob' and Tag = 'x'"), ["users/1"]);
    put(&server, "users/2", r#"{"Name":"Cid"}"#);
    assert_eq!(queried("Boss = 'bob'"), Vec::<String>::new());
    assert_eq!(queried("Boss = 'cid' and Tag = 'x'"), ["users/1"]);
    let refused = json!({"Indexes": [{"Name": "Bad", "Maps": ["map('Users', u =>"]}]}).to_string();
    let refused = server.send("PUT", "/databases/db/indexes", refused.as_bytes());
    assert_eq!(refused.status, 500);
    assert!(refused.json()["Message"].as_str().unwrap().starts_with("Failed to compile index Bad"));
}
