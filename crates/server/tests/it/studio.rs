//! The requests that a studio needs for its pages.

use serde_json::{Value, json};

use crate::{operations::wait, test_server::TestServer};

fn get(server: &TestServer, target: &str) -> Value {
    let reply = server.get(target);
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    reply.json()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn server_and_database_configurations_are_persisted() {
    let server = TestServer::with_database();
    for (read, write, factor) in [
        ("/configuration/studio", "/admin/configuration/studio", true),
        ("/databases/db/configuration/studio", "/databases/db/admin/configuration/studio", false),
    ] {
        assert_eq!((server.get(read).status, server.get(read).body.len()), (404, 0));
        let put = |body: &str| server.send("PUT", write, body.as_bytes());
        let reply = put(r#"{"Environment":"Production","DisableAutoIndexCreation":true}"#);
        assert_eq!((reply.status, reply.body.len()), (201, 0));
        let mut expected = json!({
            "Disabled": false, "Environment": "Production", "DisableAutoIndexCreation": true
        });
        if factor {
            expected["ReplicationFactor"] = Value::Null;
        }
        assert_eq!(get(&server, read), expected);
        for (body, kind) in [
            (r#"{"Environment":"Bad"}"#, "System.FormatException"),
            ("null", "Sparrow.Exceptions.InvalidStartOfObjectException"),
        ] {
            assert_eq!(put(body).json()["Type"], kind, "{body}");
        }
        assert_eq!(get(&server, read), expected);
    }
    assert_eq!(get(&server, "/databases?name=db")["Environment"], "Production");
}

#[test]
fn names_and_schedules_are_validated_and_keys_are_generated() {
    let server = TestServer::with_database();
    let name = |parameters: &str| {
        get(&server, &format!("/studio-tasks/is-valid-name?{parameters}"))["ErrorMessage"].clone()
    };
    assert_eq!(name("type=Database&name=abc"), Value::Null);
    assert_eq!(
        name("type=Database&name=a/b"),
        "The name 'a/b' contains characters that are forbidden for use!"
    );
    assert_eq!(
        name("type=index&name=a*b"),
        "Index name 'a*b' is not permitted. Only letters, digits and characters ('_', '-', '.', '/') \
         are allowed."
    );
    for target in ["/studio-tasks/is-valid-name", "/studio-tasks/is-valid-name?type=Foo&name=a"] {
        assert_eq!(server.get(target).json()["Type"], "System.ArgumentException");
    }

    let next = |expression: &str| {
        get(
            &server,
            &format!("/studio-tasks/next-cron-expression-occurrence?expression={expression}"),
        )
    };
    let every_day = next("0%202%20*%20*%20*");
    assert_eq!(keys(&every_day), ["IsValid", "Utc", "ServerTime"]);
    assert!(every_day["Utc"].as_str().unwrap().ends_with("T02:00:00.0000000Z"));
    assert_eq!(
        next("x"),
        json!({"IsValid": false, "ErrorMessage": "The provided cron string <x> has too few parameters"})
    );

    let (one, other) = (server.get("/secrets/generate"), server.get("/admin/secrets/generate"));
    assert_eq!((one.body.len(), one.header("content-type")), (44, Some("application/base64")));
    assert!(one.text() != other.text() && one.text().ends_with('='));
    let who = server.get("/certificates/whoami");
    assert_eq!((who.status, who.body.len()), (204, 0));
}

#[test]
fn directories_are_listed_where_databases_are_allowed() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let directory = |parameters: &str| {
        get(&server, &format!("/admin/studio-tasks/full-data-directory{parameters}"))
    };
    let of_new = directory("?name=new&path=");
    assert_eq!(
        keys(&of_new),
        [
            "NodeTag",
            "FullPath",
            "FreeSpaceInBytes",
            "FreeSpaceHumane",
            "TotalSpaceInBytes",
            "TotalSpaceHumane",
            "Error"
        ]
    );
    assert_eq!(
        (&of_new["FullPath"], &of_new["Error"]),
        (&json!("/data/Databases/new"), &Value::Null)
    );
    assert_eq!(directory("")["FullPath"], "/data");
    assert_eq!(directory("?name=a&path=mine")["FullPath"], "/data/mine");
    let outside = directory("?name=a&path=/etc");
    assert!(outside["Error"].as_str().unwrap().contains("outside the data directory"));
    assert_eq!(outside["FreeSpaceInBytes"], 0);

    let below = |path: &str| {
        let target = format!("/admin/studio-tasks/folder-path-options?path={path}");
        server.send("POST", &target, b"").json()["List"].clone()
    };
    assert_eq!(below(""), json!(["/data"]));
    assert_eq!(below("/data/Databases"), json!(["/data/Databases/db"]));
    for refused in ["/etc", "/", "/data/../etc", "/data/System", "/data/nope"] {
        assert_eq!(below(refused), json!([]), "{refused}");
    }
}

fn table(server: &TestServer, parameters: &str) -> Value {
    get(server, &format!("/databases/db/studio/collections/preview{parameters}"))
}

#[test]
fn a_table_of_documents_contains_short_values_only() {
    let server = TestServer::with_database();
    let mut wide: Value =
        (0..12).map(|n| (format!("C{n:02}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    wide["@metadata"] = json!({"@collection": "Vs", "My": "x"});
    server.put("v/1", &wide.to_string());
    let long = "é".repeat(300);
    let other = json!({
        "Long": long, "Arr": [1, 2], "Obj": {"a": 1}, "Nothing": null, "@metadata": {"@collection": "Vs"}
    });
    server.put("v/2", &other.to_string());
    server.put("w/1", r#"{"A":1,"@metadata":{"@collection":"Ws"}}"#);

    // The first ten columns of the page; the newest document comes first.
    let shown = table(&server, "?collection=Vs");
    assert_eq!(keys(&shown), ["Results", "TotalResults", "AvailableColumns"]);
    assert_eq!(shown["TotalResults"], 2);
    assert_eq!(shown["AvailableColumns"].as_array().unwrap().len(), 16);
    let (newest, oldest) = (&shown["Results"][0], &shown["Results"][1]);
    assert_eq!(keys(newest), ["Long", "Nothing", "@metadata"]);
    assert_eq!(newest["Long"], "é".repeat(255));
    let metadata = &newest["@metadata"];
    assert_eq!(
        (&metadata["$a"], &metadata["$o"], &metadata["$t"]),
        (&json!({"Arr": 2}), &json!({"Obj": 1}), &json!(["Long"]))
    );
    assert_eq!((&metadata["@id"], &metadata["@collection"]), (&json!("v/2"), &json!("Vs")));
    assert_eq!(keys(oldest), ["C00", "C01", "C02", "C03", "C04", "C05", "@metadata"]);
    assert_eq!(oldest["@metadata"]["My"], "x");

    let chosen =
        table(&server, "?collection=Vs&binding=Obj&fullBinding=Arr&fullBinding=Long&pageSize=1");
    assert_eq!(keys(&chosen["Results"][0]), ["Long", "Arr", "@metadata"]);
    assert_eq!(chosen["Results"][0]["Long"], long, "a column requested in full is not truncated");
    assert_eq!(chosen["Results"][0]["@metadata"]["$t"], json!([]));
    assert_eq!(chosen["Results"][0]["@metadata"]["$o"], json!({"Obj": 1}));
    assert_eq!(table(&server, "?collection=Vs&start=1&pageSize=1")["Results"][0]["C00"], 0);

    let all = table(&server, "?pageSize=2");
    assert_eq!((&all["TotalResults"], keys(&all["Results"][0])), (&json!(3), vec!["@metadata"]));
    assert_eq!(
        table(&server, "?collection=Nope"),
        json!({"Results": [], "TotalResults": 0, "AvailableColumns": []})
    );

    let target = "/databases/db/studio/collections/preview?collection=Vs";
    let etag = server.get(target).header("etag").unwrap().to_owned();
    assert!(etag.ends_with("/2\""), "{etag}");
    assert_eq!(server.send_with("GET", target, &[("If-None-Match", &etag)], b"").status, 304);
}

#[test]
fn fields_have_the_types_of_the_newest_documents() {
    let server = TestServer::with_database();
    server.put("v/1", r#"{"Old":1,"@metadata":{"@collection":"Vs"}}"#);
    let newest = json!({
        "N": {"a": {"b": 2}}, "A": [[1]], "M": [1, "a"], "E": [], "B": true, "Z": null, "T": "t",
        "L": [{"x": 1}], "@metadata": {"@collection": "Vs"}
    });
    server.put("v/2", &newest.to_string());
    server.put("w/1", r#"{"B":1,"@metadata":{"@collection":"Ws"}}"#);
    let fields = |parameters: &str| {
        get(&server, &format!("/databases/db/studio/collections/fields{parameters}"))
    };
    assert_eq!(
        fields("?collection=Vs"),
        json!({
            "N": "Object", "A": "ArrayArray", "M": "ArrayNumber", "E": "Array", "B": "Boolean",
            "Z": "Null", "T": "String", "L": "ArrayObject", "@metadata": "Object"
        })
    );
    assert_eq!(fields("?collection=Vs&prefix=N.a"), json!({"b": "Number"}));
    assert_eq!(fields("?collection=Vs&prefix=L"), json!({"x": "Number"}));
    assert_eq!(fields("?collection=Vs&prefix=T"), json!({}));
    assert_eq!(fields("?collection=Nope"), json!({}));
    assert_eq!(fields("")["B"], "Boolean, Number");
}

#[test]
fn a_collection_is_deleted_except_for_excluded_ids() {
    let server = TestServer::with_database();
    for n in 0..30 {
        server.put(&format!("w/{n}"), r#"{"@metadata":{"@collection":"W's"}}"#);
    }
    server.put("v/1", r#"{"@metadata":{"@collection":"Vs"}}"#);
    let delete = |name: &str, body: &str| {
        let target = format!("/databases/db/studio/collections/docs?name={name}");
        server.send("DELETE", &target, body.as_bytes())
    };
    let started = delete("W's", r#"{"ExcludeIds":["W/1","w/2"]}"#).json();
    let state = wait(&server, "/databases/db", &started);
    assert_eq!(
        (&state["Status"], &state["Result"]["Total"]),
        (&json!("Completed"), &json!(28)),
        "{state}"
    );
    let listed = get(&server, "/databases/db/operations")["Results"][0]["Description"].clone();
    assert_eq!(listed["TaskType"], "DeleteByCollection");
    assert_eq!(get(&server, "/databases/db/stats")["CountOfDocuments"], 3);
    for kept in [r#"{"ExcludeIds":"w/1"}"#, r#"{"ExcludeIds":[1]}"#] {
        assert_eq!(delete("W's", kept).json()["Type"], "System.FormatException", "{kept}");
    }
    let started = delete("@all_docs", "{}").json();
    assert_eq!(wait(&server, "/databases/db", &started)["Result"]["Total"], 3);
    assert_eq!(delete("", "{}").status, 500);
    assert_eq!(delete("Vs", "").json()["Type"], "System.IO.EndOfStreamException");
}

#[test]
fn the_studio_reports_statistics_of_databases_and_indexes() {
    let server = TestServer::with_database();
    server.put("v/1", r#"{"N":1,"@metadata":{"@collection":"Vs"}}"#);
    let index = br#"{"Indexes":[{"Name":"Bad","Maps":["from d in docs.Vs select new { X = 1 / (d.N - d.N) }"]}]}"#;
    assert_eq!(server.send("PUT", "/databases/db/admin/indexes", index).status, 201);
    let query = br#"{"Query":"from index 'Bad'","WaitForNonStaleResults":true}"#;
    server.send("POST", "/databases/db/queries", query);
    assert_eq!(
        get(&server, "/databases/db/studio/footer/stats"),
        json!({
            "CountOfDocuments": 1, "CountOfIndexes": 1, "StaleIndexes": [],
            "CountOfStaleIndexes": 0, "CountOfIndexingErrors": 1
        })
    );
    assert_eq!(
        get(&server, "/databases/db/studio/indexes/errors-count")["Results"],
        json!([{"Name": "Bad", "Errors": [{"Action": "Map", "NumberOfErrors": 1}]}])
    );
    let numbers = get(&server, "/databases/db/notification-center/stats");
    let errors = get(&server, "/databases/db/indexes/errors")["Results"][0]["Errors"].clone();
    assert_eq!(numbers["CountOfIndexingErrors"], 1);
    assert_eq!(numbers["LastIndexingErrorTime"], errors[0]["Timestamp"]);
    let defaults = get(&server, "/databases/db/studio-tasks/indexes/configuration/defaults");
    assert_eq!(
        keys(&defaults),
        ["AutoIndexDeploymentMode", "StaticIndexDeploymentMode", "StaticIndexingEngineType"]
    );
    let statistics = get(&server, "/databases/db/indexes/stats")["Results"][0].clone();
    assert_eq!(statistics["SearchEngineType"], defaults["StaticIndexingEngineType"]);

    let listed = get(&server, "/databases?name=db");
    for (name, expected) in [
        ("IndexesCount", json!(1)),
        ("IndexingErrors", json!(1)),
        ("IndexingStatus", json!("Running")),
        ("CachedDatabaseInfo", json!(false)),
        ("Environment", json!("None")),
    ] {
        assert_eq!(listed[name], expected, "{name}");
    }
    let of_record = get(&server, "/studio-tasks/databases")["Databases"][0].clone();
    assert_eq!((&of_record["Name"], &of_record["IndexesCount"]), (&json!("db"), &json!(1)));
    let state = get(&server, "/studio-tasks/databases/state?name=DB")["Databases"][0].clone();
    assert_eq!((&state["DocumentsCount"], &state["DatabaseStatus"]), (&json!(1), &json!("Online")));
    server.send("POST", "/admin/databases/disable", br#"{"DatabaseNames":["db"]}"#);
    let state = get(&server, "/studio-tasks/databases/state")["Databases"][0].clone();
    assert_eq!((&state["DatabaseStatus"], &state["UpTime"]), (&json!("None"), &Value::Null));
    assert_eq!(get(&server, "/databases?name=db")["IndexesCount"], 1);
}

#[test]
fn revisions_are_listed_in_a_table() {
    let server = TestServer::with_database();
    let configuration = br#"{"Default":{"Disabled":false}}"#;
    server.send("POST", "/databases/db/admin/revisions/config", configuration);
    for n in 0..3 {
        server.put("a/1", &json!({"N": n, "@metadata": {"@collection": "As"}}).to_string());
    }
    server.put("b/1", r#"{"@metadata":{"@collection":"Bs"}}"#);
    server.send("DELETE", "/databases/db/docs?id=b/1", b"");
    let preview = |parameters: &str| {
        get(&server, &format!("/databases/db/studio/revisions/preview{parameters}"))
    };
    let all = preview("");
    assert_eq!((&all["TotalResults"], all["Results"].as_array().unwrap().len()), (&json!(5), 5));
    assert_eq!(
        keys(&all["Results"][0]),
        ["Id", "Etag", "LastModified", "ChangeVector", "Flags", "Collection"]
    );
    assert_eq!(all["Results"][4]["Id"], "a/1");
    let deleted = preview("?type=Deleted")["Results"].clone();
    assert_eq!((deleted.as_array().unwrap().len(), &deleted[0]["Id"]), (1, &json!("b/1")));
    assert_eq!(deleted[0]["Flags"], "HasRevisions, DeleteRevision");
    assert_eq!(preview("?type=regular")["Results"].as_array().unwrap().len(), 4);
    let of_one = preview("?collection=As&start=1&pageSize=1");
    assert_eq!(
        (&of_one["TotalResults"], of_one["Results"].as_array().unwrap().len()),
        (&json!(3), 1)
    );
    assert_eq!(preview("?collection=Nope"), json!({"TotalResults": 0, "Results": []}));
    assert_eq!(server.get("/databases/db/studio/revisions/preview?type=x").status, 500);

    let ids = |parameters: &str| {
        get(&server, &format!("/databases/db/studio/revisions/ids?{parameters}"))["Results"].clone()
    };
    assert_eq!(ids("prefix=A"), json!([{"Id": "a/1"}]));
    assert_eq!(ids("prefix=b/1"), json!([{"Id": "b/1"}]));
    assert_eq!(ids("prefix=&pageSize=1"), json!([{"Id": "a/1"}]));
    assert_eq!(server.get("/databases/db/studio/revisions/ids").status, 500);
}

#[test]
fn the_supported_routes_are_listed() {
    let server = TestServer::with_database();
    let routes = get(&server, "/debug/routes");
    let of_indexes = json!({"Path": "/databases/*/indexes", "Methods": "GET, PUT, DELETE, RESET"});
    assert!(routes["Production"].as_array().unwrap().contains(&of_indexes));
    let of_queries = json!({"Path": "/databases/*/debug/queries/running", "Methods": "GET"});
    assert!(routes["Debug"].as_array().unwrap().contains(&of_queries));
}
