//! Changing documents by scripts: `PATCH /docs`, and patches in batches. The responses are those of
//! RavenDB, without versions and times.

use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

const USER: &str = r#"{"Name":"n","Age":2,"@metadata":{"@collection":"Users"}}"#;
const NO_DEBUG: &str = r#""LoadDocument":[],"PutDocument":[],"DeleteDocument":[]"#;
const OTHER: &str = r#""GetCounter":[],"IncrementCounter":[],"DeleteCounter":[],"GetTimeSeries":[],"AppendTimeSeries":[],"IncrementTimeSeries":[],"DeleteTimeSeries":[]"#;

/// The body of a response, with `CV` and `TS` in place of versions and times.
fn masked(reply: &Reply) -> String {
    let mut text = reply.text();
    for (name, mask) in [("ChangeVector", "CV"), ("LastModified", "TS")] {
        let begin = format!("\"{name}\":\"");
        let mut from = 0;
        while let Some(at) = text[from..].find(&begin) {
            let start = from + at + begin.len();
            let end = start + text[start..].find('"').unwrap();
            if !text[start..end].starts_with("0001") {
                text.replace_range(start..end, mask);
            }
            from = start;
        }
    }
    text
}

fn patch_with(server: &TestServer, target: &str, if_match: Option<&str>, body: &Value) -> Reply {
    let target = format!("/databases/db/docs?id={target}");
    let headers: Vec<_> = if_match.map(|tag| ("If-Match", tag)).into_iter().collect();
    server.send_with("PATCH", &target, &headers, body.to_string().as_bytes())
}

fn patch(server: &TestServer, target: &str, script: &str) -> Reply {
    patch_with(server, target, None, &json!({"Patch": {"Script": script}}))
}

fn error(reply: &Reply) -> (u16, String, String) {
    let error = reply.json();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("Type").rsplit('.').next().unwrap().to_owned(), text("Message"))
}

#[test]
fn a_script_changes_its_document_and_nothing_is_written_when_it_does_not() {
    let server = TestServer::with_database();
    let version = server.put("u/1", USER);
    for (script, status, answer) in [
        (
            "this.X=1",
            200,
            r#"{"Status":"Patched","ModifiedDocument":{"Name":"n","Age":2,"@metadata":{"@collection":"Users"},"X":1},"LastModified":"TS","ChangeVector":"CV","Collection":"Users"}"#,
        ),
        (
            "var n = this.Name; delete this.Name; this.Name = n; this.X = 1; return 5",
            200,
            r#"{"Status":"NotModified","ModifiedDocument":{"Name":"n","Age":2,"@metadata":{"@collection":"Users"},"X":1}}"#,
        ),
        (
            "",
            200,
            r#"{"Status":"NotModified","ModifiedDocument":{"Name":"n","Age":2,"@metadata":{"@collection":"Users"},"X":1}}"#,
        ),
        (
            "del(id(this))",
            200,
            r#"{"Status":"NotModified","ModifiedDocument":{"Name":"n","Age":2,"@metadata":{"@collection":"Users"},"X":1}}"#,
        ),
        ("this.X = 2", 404, ""),
    ] {
        let before = server.document("u/1");
        let reply = patch(&server, "u/1", script);
        assert_eq!((reply.status, masked(&reply).as_str()), (status, answer), "{script}");
        if answer.contains("NotModified") && !script.starts_with("del") {
            assert_eq!(server.document("u/1"), before, "{script}");
        }
    }
    assert_ne!(server.put("u/1", USER), version);
    let values = json!({"Patch": {"Script": "this.a = args.v[0]; this.b = $v.length", "Values": {"v": [7, 8]}}});
    assert_eq!(patch_with(&server, "u/1", None, &values).status, 200);
    let user = server.document("u/1");
    assert_eq!((&user["a"], &user["b"]), (&json!(7), &json!(2)));
}

#[test]
fn a_patch_at_another_version_is_rejected_or_skipped() {
    let server = TestServer::with_database();
    let version = server.put("u/1", USER);
    let script = json!({"Patch": {"Script": "this.N = 1"}, "PatchIfMissing": {"Script": ""}});
    let skip = "&skipPatchIfChangeVectorMismatch=true";
    for id in ["u/1", "nope"] {
        for tag in ["\"A:1-x\"", "\"\""] {
            let reply = patch_with(&server, id, Some(tag), &script);
            let message = format!(
                "Could not patch document '{id}' because non current change vector was used"
            );
            assert_eq!(error(&reply), (409, "ConcurrencyException".to_owned(), message));
            let fields = reply.json();
            assert_eq!(
                (&fields["Id"], &fields["ExpectedChangeVector"]),
                (&json!(id), &json!(tag.trim_matches('"')))
            );
            let actual = if id == "nope" { Value::Null } else { json!(version) };
            assert_eq!(fields["ActualChangeVector"], actual);
            let skipped = patch_with(&server, &format!("{id}{skip}"), Some(tag), &script);
            assert_eq!((skipped.status, skipped.text().as_str()), (304, ""));
        }
    }
    let tag = format!("\"{version}\"");
    assert_eq!(patch_with(&server, "u/1", Some(&tag), &script).status, 200);
    assert_eq!(patch_with(&server, "u/1", Some(&tag), &script).status, 409);
}

#[test]
fn a_missing_document_can_be_created() {
    let server = TestServer::with_database();
    let made = |id: &str, script: &str| {
        let body = json!({"Patch": {"Script": "this.X = 1"}, "PatchIfMissing": {"Script": script, "Values": {"a": 5}}});
        let reply = patch_with(&server, id, None, &body);
        (reply.status, masked(&reply))
    };
    let script = "this.i = id(this); this.Y = args.a; this['@metadata'] = { '@collection': 'Ns' }";
    let answer = r#"{"Status":"Created","ModifiedDocument":{"i":null,"Y":5,"@metadata":{"@collection":"Ns"}},"LastModified":"TS","ChangeVector":"CV","Collection":"Ns"}"#;
    assert_eq!(made("n/1", script), (201, answer.to_owned()));
    let answer = r#"{"Status":"Created","ModifiedDocument":{},"LastModified":"TS","ChangeVector":"CV","Collection":"@empty"}"#;
    assert_eq!(made("n/2", ""), (201, answer.to_owned()));
    let answer = r#"{"Status":"Patched","ModifiedDocument":{"X":1},"LastModified":"TS","ChangeVector":"CV","Collection":"@empty"}"#;
    assert_eq!(made("n/2", ""), (200, answer.to_owned()));
    let answer = r#"{"Status":"Patched","ModifiedDocument":{},"LastModified":"TS","ChangeVector":"CV","Collection":"@empty"}"#;
    assert_eq!(made("n/3", "put('n/3', { A: 1 })"), (200, answer.to_owned()));
    for id in ["n/", "n|"] {
        let message = format!("The ID argument has invalid value: '{id}' (Parameter 'id')");
        let reply = patch(&server, id, "");
        assert_eq!(error(&reply), (500, "ArgumentException".to_owned(), message));
    }
}

#[test]
fn a_dry_run_changes_nothing_and_lists_the_actions_of_the_script() {
    let server = TestServer::with_database();
    server.put("u/1", USER);
    server.put("u/2", USER);
    let script = "output('hi'); output({ a: 1 }); load('U/2'); load('zz'); put('px/1', { Q: 1 }); \
                  del('nope'); del('u/2'); load('u/2'); this.X = 3; return 5";
    let actions = r#""LoadDocument":[{"Id":"U/2","Exists":true},{"Id":"zz","Exists":false},{"Id":"u/2","Exists":false}],"PutDocument":[{"Id":"px/1","Data":{"Q":1}}],"DeleteDocument":["nope","u/2"]"#;
    let notes = format!(r#"{{"Info":["hi","{{\"a\":1}}"],"Actions":{{{actions},{OTHER}}}}}"#);
    let answer = |original: &str| {
        format!(
            r#"{{"Status":"Patched","ModifiedDocument":{{"Name":"n","Age":2,"@metadata":{{"@collection":"Users"}},"X":3}},"OriginalDocument":{original},"Debug":{notes},"LastModified":"TS","ChangeVector":"CV","Collection":"Users"}}"#
        )
    };
    let before = server.get("/databases/db/docs").text();
    let tried = patch(&server, "u/1&test=true", script);
    assert_eq!((tried.status, masked(&tried)), (200, answer(USER)));
    assert_eq!(server.get("/databases/db/docs").text(), before);
    let missing = json!({"Patch": {"Script": ""}, "PatchIfMissing": {"Script": "this.Y = 1"}});
    let reply = patch_with(&server, "n/5&test=true", None, &missing);
    let expected = format!(
        r#"{{"Status":"Created","ModifiedDocument":{{"Y":1}},"OriginalDocument":null,"Debug":{{"Info":[],"Actions":{{{NO_DEBUG},{OTHER}}}}},"LastModified":"0001-01-01T00:00:00.0000000","ChangeVector":null,"Collection":null}}"#
    );
    assert_eq!((reply.status, masked(&reply)), (201, expected));
    assert!(server.document("n/5").is_null());
    let done = patch(&server, "u/1&debug=true", script);
    assert_eq!((done.status, masked(&done)), (200, answer("null")));
    assert!(server.document("u/2").is_null() && server.document("px/1")["Q"] == 1);
}

#[test]
fn scripts_can_access_other_documents_in_the_transaction() {
    let server = TestServer::with_database();
    server.put("u/1", USER);
    server.put("u/2", r#"{"Name":"two","@metadata":{"@collection":"Users"}}"#);
    let script = "output(put('zz/', { A: 1 })); output(put(null, {})); output(put('', {})); \
        output(load('u/2').Name); output(load(['u/2', 'no']).length); output(del('u/2')); \
        output(del('u/2')); output(load('u/2')); output(cmpxchg('k')); include('u/2'); \
        output(id(load('U/1'))); output(getMetadata(this)['@id']); output(loadPath(this, 'Name')); \
        var l = load(put('x/2', { A: 1 })); l.B = 1; put(id(l), l); output(load('x/2')); \
        output(load('u/1').Z); this.Z = 1; output(load('u/1').Z); output(load(''))";
    let reply = patch(&server, "u/1&debug=true", script);
    let lines = reply.json()["Debug"]["Info"].clone();
    let lines: Vec<&str> =
        lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(
        lines[0].starts_with("zz/00000000000000000") && lines[0].ends_with("-A"),
        "{}",
        lines[0]
    );
    assert_eq!((lines[1].len(), lines[2].len()), (36, 36));
    let expected = [
        "two",
        "2",
        "True",
        "False",
        "undefined",
        "null",
        "u/1",
        "u/1",
        "null",
        r#"{"A":1,"B":1}"#,
        "undefined",
        "undefined",
        "undefined",
    ];
    assert_eq!(lines[3..], expected);
    assert_eq!(server.document(lines[0])["A"], 1);
}

#[test]
fn failed_scripts_change_nothing_and_return_the_reason() {
    let server = TestServer::with_database();
    server.put("u/1", USER);
    server.put("u/2", USER);
    let before = server.get("/databases/db/docs").text();
    let failed = "Script failed for document ID 'u/1'. ";
    #[rustfmt::skip]
    let scripts = [
        ("throw new Error('e1')", 500, "JavaScriptException", format!("{failed}e1 at line 1, column 30")),
        ("throw 'text'", 500, "JavaScriptException", format!("{failed}text")),
        ("undeclared = 1", 500, "JavaScriptException", failed.to_owned()),
        ("this.x = ", 500, "JavaScriptParseException", "Failed to parse: ".to_owned()),
        ("while (true) {}", 500, "JavaScriptException", "The maximum number of statements executed have been reached - 10000. You can configure it by modifying the configuration option: 'Patching.MaxStepsForScript'.".to_owned()),
        ("try { while (true) {} } catch { this.a = 1 }", 500, "JavaScriptException", "The maximum".to_owned()),
        ("function f() { f() } f()", 500, "RecursionDepthOverflowException", "The recursion is forbidden by script host.".to_owned()),
        ("this.x = 'a'.repeat(2 ** 29)", 500, "JavaScriptException", "The script was stopped: ".to_owned()),
        ("var a = ['x'.repeat(1e6)]; for (;;) a.push(a[0] + a.length)", 500, "JavaScriptException", "The".to_owned()),
        ("/(a+)+b/.test('a'.repeat(40))", 500, "JavaScriptException", "The".to_owned()),
        ("put()", 500, "InvalidOperationException", "put(id, doc, changeVector) must be called with called with 2 or 3 arguments only".to_owned()),
        ("put('x', 5)", 500, "InvalidOperationException", "Created document must be a valid object which is not null or empty. Document ID: 'x'.".to_owned()),
        ("put('zz|', {})", 500, "NotSupportedException", "Document ids cannot end with '|', but was called with zz|.".to_owned()),
        ("getMetadata('x')", 500, "ArgumentException", "The value is not an object".to_owned()),
        ("PutDocument('x', {})", 500, "MissingMethodException", "The method PutDocument was renamed to 'put'".to_owned()),
        ("put('u/2', { A: 1 }, 'A:1-x')", 409, "ConcurrencyException", "Document u/2 has change vector ".to_owned()),
        ("try { del('u/2', 'A:1-x') } catch { this.a = 1 }", 409, "ConcurrencyException", "Document u/2 has change vector ".to_owned()),
        ("put('u/2', { '@metadata': 5 })", 500, "FormatException", "Could not convert System.Int64 ('5')".to_owned()),
        ("put('u/2', { A: 1 })", 500, "DocumentCollectionMismatchException", "Changing 'u/2' from 'Users' to '@empty'".to_owned()),
        ("this['@metadata']['@collection'] = 'Z'", 500, "DocumentCollectionMismatchException", "Changing 'u/1' from 'Users' to 'Z'".to_owned()),
        ("put('x'.repeat(600), {})", 500, "ArgumentException", "Document ID cannot exceed 512 bytes".to_owned()),
        ("this.d = new Date('bad')", 500, "InvalidOperationException", "an invalid date".to_owned()),
    ];
    for (script, status, kind, message) in scripts {
        let script = format!("put('left/1', {{}}); {script}");
        let reply = patch(&server, "u/1", &script);
        let (actual_status, actual_kind, actual) = error(&reply);
        assert_eq!((actual_status, actual_kind.as_str()), (status, kind), "{script}: {actual}");
        assert!(actual.starts_with(&message), "{script}: {actual}");
        assert_eq!(server.get("/databases/db/docs").text(), before, "{script}");
    }
    assert_eq!(patch(&server, "u/1", "this.works = 1").status, 200);
}

#[test]
fn patches_in_a_batch_see_earlier_commands_and_fail_with_them() {
    let server = TestServer::with_database();
    let reply = server.batch(
        r#"{"Type":"PUT","Id":"q/1","Document":{"A":1}},
           {"Type":"PATCH","Id":"q/1","Patch":{"Script":"this.A++; put('q/2', { B: this.A })"}},
           {"Type":"PATCH","Id":"q/2","Patch":{"Script":"this.B = load('q/1').A + args.n","Values":{"n":10}},"ReturnDocument":true},
           {"Type":"PATCH","Id":"q/2","Patch":{"Script":""},"ReturnDocument":true},
           {"Type":"DELETE","Id":"q/1"},
           {"Type":"PATCH","Id":"q/1","Patch":{"Script":"this.A = 1"},"ReturnDocument":true},
           {"Type":"BatchPATCH","Ids":[{"Id":"q/2"},{"Id":"q/3"},{"Id":"q/4"}],"Patch":{"Script":"this.E = 1"},"PatchIfMissing":{"Script":"this.N = id(this)"}},
           {"Type":"PATCH","Id":"c/1","Patch":{"Script":"this.A = 1"},"CreateIfMissing":{"Q":1,"@metadata":{"@collection":"Cs"}},"PatchIfMissing":{"Script":"this.Z = 1"},"ReturnDocument":true},
           {"Type":"PATCH","Id":"c/1","Patch":{"Script":"this.A = 1"},"CreateIfMissing":{"Q":2}}"#,
    );
    assert_eq!(reply.status, 201, "{}", reply.text());
    let expected = [
        r#"{"Id":"q/1","ChangeVector":"CV","LastModified":"TS","Type":"PATCH","PatchStatus":"Patched","Debug":null}"#,
        r#"{"Id":"q/2","ChangeVector":"CV","LastModified":"TS","Type":"PATCH","PatchStatus":"Patched","Debug":null,"ModifiedDocument":{"B":12}}"#,
        r#"{"Id":"q/2","ChangeVector":null,"LastModified":"0001-01-01T00:00:00.0000000","Type":"PATCH","PatchStatus":"NotModified","Debug":null,"ModifiedDocument":{"B":12}}"#,
        r#"{"Id":"q/1","Type":"DELETE","Deleted":true,"ChangeVector":null}"#,
        r#"{"Id":"q/1","ChangeVector":null,"LastModified":"0001-01-01T00:00:00.0000000","Type":"PATCH","PatchStatus":"DocumentDoesNotExist","Debug":null,"ModifiedDocument":null}"#,
        r#"{"Type":"BatchPATCH"}"#,
        r#"{"Id":"c/1","ChangeVector":"CV","LastModified":"TS","Type":"PATCH","PatchStatus":"Created","Debug":null,"ModifiedDocument":{"Q":1,"@metadata":{"@collection":"Cs"}}}"#,
        r#"{"Id":"c/1","ChangeVector":"CV","LastModified":"TS","Type":"PATCH","PatchStatus":"Patched","Debug":null}"#,
    ];
    let actual = masked(&reply);
    let actual = actual.split_once("},").unwrap().1;
    assert_eq!(actual, format!("{}]}}", expected.join(",")));
    assert_eq!(server.document("q/2")["E"], 1);
    assert_eq!(server.document("q/4")["N"], Value::Null);
    assert_eq!(server.document("c/1")["A"], 1);
    let before = server.get("/databases/db/docs").text();
    for (command, status, kind) in [
        (
            r#"{"Type":"PATCH","Id":"q/2","ChangeVector":"A:1-x","Patch":{"Script":"this.B = 1"}}"#,
            409,
            "ConcurrencyException",
        ),
        (
            r#"{"Type":"BatchPATCH","Ids":[{"Id":"q/2"},{"Id":"q/2","ChangeVector":"A:1-x"}],"Patch":{"Script":"this.B = 1"}}"#,
            409,
            "ConcurrencyException",
        ),
        (
            r#"{"Type":"PATCH","Id":"c/9","ChangeVector":"","Patch":{"Script":""},"CreateIfMissing":{}}"#,
            409,
            "ConcurrencyException",
        ),
        (r#"{"Type":"PATCH","Id":"q/2","Patch":{"Script":"throw 1"}}"#, 500, "JavaScriptException"),
        (r#"{"Type":"PATCH","Patch":{"Script":""}}"#, 500, "ArgumentException"),
        (r#"{"Type":"PATCH","Id":"n/","Patch":{"Script":""}}"#, 500, "ArgumentException"),
    ] {
        let reply = server.batch(&format!(
            r#"{{"Type":"PATCH","Id":"q/2","Patch":{{"Script":"this.T = 1"}}}},{command}"#
        ));
        let (actual_status, actual_kind, message) = error(&reply);
        assert_eq!((actual_status, actual_kind.as_str()), (status, kind), "{command}: {message}");
        assert_eq!(server.get("/databases/db/docs").text(), before, "{command}");
    }
}

#[test]
fn json_patch_operations_are_applied_atomically() {
    let server = TestServer::with_database();
    let user = r#"{"Name":"n","A":{"x":1,"a/b":2},"T":[1,2,3],"D":1.50,"@metadata":{"@collection":"Users"}}"#;
    let send = |id: &str, operations: &Value| {
        let body = json!({"Operations": operations}).to_string();
        server.send("PATCH", &format!("/databases/db/json-patch?id={id}"), body.as_bytes())
    };
    #[rustfmt::skip]
    let changes = [
        (json!([{"op": "add", "path": "/X", "value": 5}, {"op": "add", "path": "/T/-", "value": 9}, {"op": "add", "path": "/T/0", "value": 0}]),
            r#""A":{"x":1,"a/b":2},"T":[0,1,2,3,9],"D":1.50,"@metadata":{"@collection":"Users"},"X":5"#),
        (json!([{"op": "replace", "path": "/A/a~1b", "value": {"q": [1]}}, {"op": "remove", "path": "/A/x"}, {"op": "remove", "path": "/T/1"}]),
            r#""A":{"a/b":{"q":[1]}},"T":[1,3],"D":1.50,"@metadata":{"@collection":"Users"}"#),
        (json!([{"op": "copy", "from": "/A", "path": "/B"}, {"op": "replace", "path": "/B/x", "value": 7}, {"op": "test", "path": "/A", "value": {"a/b": 2, "x": 1}}]),
            r#""A":{"x":1,"a/b":2},"T":[1,2,3],"D":1.50,"@metadata":{"@collection":"Users"},"B":{"x":7,"a/b":2}"#),
        (json!([{"op": "move", "from": "/T/0", "path": "/A/x"}, {"op": "add", "path": "/A/n"}]),
            r#""A":{"x":1,"a/b":2,"n":null},"T":[2,3],"D":1.50,"@metadata":{"@collection":"Users"}"#),
    ];
    for (operations, expected) in changes {
        server.put("u/1", user);
        let reply = send("u/1", &operations);
        let expected = format!(
            r#"{{"Status":"Patched","ModifiedDocument":{{"Name":"n",{expected}}},"LastModified":"TS","ChangeVector":"CV","Collection":"Users"}}"#
        );
        assert_eq!((reply.status, masked(&reply)), (200, expected), "{operations}");
    }
    server.put("u/1", user);
    let failed = "An error occurred while trying to apply json patch operation to document u/1.";
    for operation in [
        json!({"op": "test", "path": "/Name", "value": "m"}),
        json!({"op": "remove", "path": "/nope"}),
        json!({"op": "replace", "path": "/nope", "value": 1}),
        json!({"op": "add", "path": "/nope/x", "value": 1}),
        json!({"op": "add", "path": "/T/4", "value": 1}),
        json!({"op": "remove", "path": "/T/3"}),
        json!({"op": "add", "path": "/T/x", "value": 1}),
        json!({"op": "copy", "from": "/nope", "path": "/x"}),
        json!({"op": "add", "value": 1}),
        json!(5),
    ] {
        let reply = send("u/1", &json!([{"op": "add", "path": "/X", "value": 1}, operation]));
        let expected = (500, "InvalidOperationException".to_owned(), failed.to_owned());
        assert_eq!(error(&reply), expected, "{operation}");
    }
    let (status, kind, message) = error(&send("u/1", &json!([{"op": "foo", "path": "/X"}])));
    assert_eq!(
        (status, kind.as_str(), message.as_str()),
        (500, "ArgumentException", "Unable to understand 'op' foo")
    );
    let missing = "Cannot apply json patch because the document nope does not exist";
    assert_eq!(
        error(&send("nope", &json!([]))),
        (500, "InvalidOperationException".to_owned(), missing.to_owned())
    );
    let reply = server.batch(r#"{"Type":"JsonPatch","Id":"u/1","JsonPatch":{"Operations":[{"op":"add","path":"/X","value":1}]}},
        {"Type":"JsonPatch","Id":"u/1","JsonPatch":{"Operations":[{"op":"remove","path":"/X"}]},"ReturnDocument":true}"#);
    let expected = format!(
        r#"{{"Results":[{{"Id":"u/1","ChangeVector":"CV","LastModified":"TS","Type":"JsonPatch","PatchStatus":"Patched"}},{{"Id":"u/1","ChangeVector":"CV","LastModified":"TS","Type":"JsonPatch","PatchStatus":"Patched","ModifiedDocument":{user}}}]}}"#
    );
    assert_eq!(masked(&reply), expected);
}
