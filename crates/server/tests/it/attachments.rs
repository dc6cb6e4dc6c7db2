//! Attachments over HTTP: single ones, in batches, in bulk inserts; truncated bodies, unusual
//! names, ranges.

use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

const AT: &str = "/databases/db/attachments";
const HELLO: &str = "Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8=";

pub(crate) fn put(server: &TestServer, id: &str, name: &str, content: &[u8]) -> Reply {
    let reply =
        server.send("PUT", &format!("{AT}?id={id}&name={name}&contentType=text/plain"), content);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply
}

fn get(server: &TestServer, id: &str, name: &str) -> Reply {
    server.get(&format!("{AT}?id={id}&name={name}"))
}

fn names(server: &TestServer, id: &str) -> Vec<String> {
    let document = server.document(id);
    let list = document["@metadata"]["@attachments"].as_array().cloned().unwrap_or_default();
    list.iter().map(|entry| entry["Name"].as_str().unwrap().to_owned()).collect()
}

/// Bytes that cannot be compressed, so that their size is visible.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.extend_from_slice(&(state >> 13).to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

fn batch_in_parts(server: &TestServer, commands: &Value, parts: &[&[u8]]) -> Reply {
    server.send_with(
        "POST",
        "/databases/db/bulk_docs",
        &[("Content-Type", "multipart/mixed; boundary=\"bb\"")],
        &in_parts(commands, parts),
    )
}

fn in_parts(commands: &Value, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = format!(
        "--bb\r\nContent-Type: application/json\r\n\r\n{}",
        json!({ "Commands": commands })
    )
    .into_bytes();
    for part in parts {
        body.extend_from_slice(b"\r\n--bb\r\nCommand-Type: AttachmentStream\r\n\r\n");
        body.extend_from_slice(part);
    }
    body.extend_from_slice(b"\r\n--bb--\r\n");
    body
}

#[test]
fn an_attachment_is_put_read_and_deleted() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"A":1}"#);
    let stored = put(&server, "u/1", "b.TXT", b"hello").json();
    assert_eq!(
        (&stored["Name"], &stored["Hash"], &stored["Size"]),
        (&json!("b.TXT"), &json!(HELLO), &json!(5))
    );
    assert_eq!(
        (&stored["DocumentId"], &stored["ContentType"]),
        (&json!("u/1"), &json!("text/plain"))
    );
    let reply = get(&server, "U/1", "B.txt");
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    let etag = format!("\"{}\"", stored["ChangeVector"].as_str().unwrap());
    for (name, value) in [
        ("content-type", "text/plain"),
        ("etag", etag.as_str()),
        ("content-disposition", "attachment; filename=\"b.TXT\"; filename*=UTF-8''b.TXT"),
        ("attachment-hash", HELLO),
        ("attachment-size", "5"),
    ] {
        assert_eq!(reply.header(name), Some(value));
    }
    let target = format!("{AT}?id=u/1&name=b.txt");
    let known = [("If-None-Match", etag.as_str())];
    assert_eq!(server.send_with("GET", &target, &known, b"").status, 304);
    assert_eq!(server.send_with("HEAD", &target, &known, b"").status, 304);
    let head = server.send("HEAD", &target, b"");
    assert_eq!((head.status, head.header("etag")), (200, Some(etag.as_str())));
    let requested = server.send("POST", &target, br#"{"Type":"Document","ChangeVector":null}"#);
    assert_eq!(requested.text(), "hello");
    assert_eq!(names(&server, "u/1"), ["b.TXT"]);
    assert_eq!(server.document("u/1")["@metadata"]["@flags"], "HasAttachments");
    let statistics = server.get("/databases/db/stats").json();
    assert_eq!(statistics["CountOfAttachments"], 1);
    assert_eq!(statistics["CountOfUniqueAttachments"], 1);
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
    assert_eq!(server.send("GET", &target, b"").status, 404);
    assert_eq!(server.send("HEAD", &target, b"").status, 404);
    assert!(server.document("u/1")["@metadata"].get("@attachments").is_none());
    assert_eq!(server.get("/databases/db/stats").json()["CountOfUniqueAttachments"], 0);
}

#[test]
fn an_attachment_is_replaced_only_at_the_expected_version() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let target = format!("{AT}?id=u/1&name=a");
    let wrong = [("If-Match", "\"A:1-wrong\"")];
    let refused = server.send_with("PUT", &target, &wrong, b"x");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(refused.json()["Id"], "u/1");
    let new = [("If-Match", "\"\"")];
    assert_eq!(server.send_with("PUT", &target, &new, b"x").status, 201);
    let refused = server.send_with("PUT", &target, &new, b"y").json();
    let message = refused["Message"].as_str().unwrap();
    assert!(message.contains("but Put was called with expecting new document"), "{message}");
    assert_eq!(server.send_with("DELETE", &target, &wrong, b"").status, 409);
    assert_eq!(get(&server, "u/1", "a").text(), "x");
}

#[test]
fn invalid_requests_are_rejected() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let long = "n".repeat(513);
    for (target, message) in [
        (format!("{AT}?id=u/1"), "Query string value 'name' must have a non empty value"),
        (format!("{AT}?id=u/1&name=%20"), "Query string value 'name' must have a non empty value"),
        (format!("{AT}?name=a"), "Query string value 'id' must have a non empty value"),
        (format!("{AT}?id=u/1&name={long}"), "Document ID cannot exceed 512 bytes"),
        (
            format!("{AT}?id=zz&name=a"),
            "Document 'Cannot put attachment a on a non existent document 'zz'.' does not exist.",
        ),
        (
            format!("{AT}?id=u/1&name=a&contentType={}", "t".repeat(4097)),
            "The content type of an attachment may have 4096 bytes",
        ),
    ] {
        let reply = server.send("PUT", &target, b"x");
        assert_eq!(reply.status, 500, "{target}");
        let found = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(found.starts_with(message), "{found}");
    }
    for body in ["", "{}", r#"{"Type":"X"}"#, r#"{"Type":"Revision"}"#] {
        let reply = server.send("POST", &format!("{AT}?id=u/1&name=a"), body.as_bytes());
        assert_eq!(reply.status, 500, "{body}");
    }
}

#[test]
fn any_name_and_content_type_is_accepted() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let name = "%C3%A9/%22%5C%0A%25%1E%3B%C3%9F.txt";
    put(&server, "u/1", name, b"x");
    let reply = get(&server, "u/1", "%C3%89/%22%5C%0A%25%1E%3B%C3%9F.TXT");
    let file = "%22%5C%0A%25%1E%3B%C3%9F.txt";
    let disposition = format!("attachment; filename=\"{file}\"; filename*=UTF-8''{file}");
    assert_eq!(reply.header("content-disposition"), Some(disposition.as_str()));
    assert_eq!(names(&server, "u/1"), ["é/\"\\\n%\u{1e};ß.txt"]);
    let odd = server.send("PUT", &format!("{AT}?id=u/1&name=t&contentType=a%0D%0AX:%201"), b"x");
    assert_eq!(odd.json()["ContentType"], "a\r\nX: 1");
    let reply = get(&server, "u/1", "t");
    assert_eq!((reply.header("content-type"), reply.header("x")), (Some(""), None));
}

#[test]
fn ranges_of_a_content_are_read() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let content = noise(3 << 20);
    put(&server, "u/1", "a", &content);
    let target = format!("{AT}?id=u/1&name=a");
    let last = content.len() - 1;
    for (from, to) in [(0, 0), (1, 2), (1 << 20, (1 << 20) + 5), (1_048_490, 2_500_000), (0, last)]
    {
        let range = format!("bytes={from}-{to}");
        let reply = server.send_with("GET", &target, &[("Range", &range)], b"");
        assert_eq!(reply.status, 206);
        assert!(reply.body == content[from..=to], "{range}");
        let expected = format!("bytes {from}-{to}/{}", content.len());
        assert_eq!(reply.header("content-range"), Some(expected.as_str()));
    }
    let behind = format!("bytes={}-", content.len());
    let reply = server.send_with("GET", &target, &[("Range", &behind)], b"");
    assert_eq!((reply.status, reply.header("content-range").unwrap()), (416, "bytes */3145728"));
    let other = [("Range", "bytes=0-1"), ("If-Range", "\"A:1-other\"")];
    let whole = server.send_with("GET", &target, &other, b"");
    assert!(whole.status == 200 && whole.body == content);
    let gzip = [("Accept-Encoding", "gzip")];
    let plain = server.send_with("GET", &target, &gzip, b"");
    assert!(plain.header("content-encoding").is_none() && plain.body == content);
}

#[test]
fn a_truncated_body_stores_nothing() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let content = noise(5 << 20);
    let mut connection = server.open();
    let head = format!(
        "PUT {AT}?id=u/1&name=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        content.len() + 1
    );
    connection.send(head.as_bytes());
    connection.send(&content);
    drop(connection);
    let commands = json!([{"Type": "AttachmentPUT", "Id": "u/1", "Name": "b", "ContentType": ""}]);
    let body = in_parts(&commands, &[&content]);
    let cut = &body[..body.len() - 8];
    let kind = [("Content-Type", "multipart/mixed; boundary=bb")];
    let reply = server.send_with("POST", "/databases/db/bulk_docs", &kind, cut);
    assert_eq!(reply.json()["Type"], "System.IO.IOException");
    assert_eq!(get(&server, "u/1", "a").status, 404);
    assert_eq!(names(&server, "u/1"), [""; 0]);
    // The next upload is not affected by the failed ones.
    put(&server, "u/1", "c", &content);
    assert!(get(&server, "u/1", "c").body == content);
    assert_eq!(server.get("/databases/db/stats").json()["CountOfUniqueAttachments"], 1);
}

#[test]
fn batches_put_attachments_from_multipart_bodies() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"A":1}"#);
    let large = noise(5 << 20);
    let put = |id: &str, name: &str| json!({"Type": "AttachmentPUT", "Id": id, "Name": name, "ContentType": "x/y"});
    let commands = json!([
        put("u/1", "a"),
        {"Type": "PUT", "Id": "u/2", "Document": {"B": 1}},
        put("u/2", "large"),
        put("u/2", "empty"),
    ]);
    let reply = batch_in_parts(&server, &commands, &[b"hello", &large, b"", b"ignored"]);
    assert_eq!(reply.status, 201, "{}", reply.text());
    let results = &reply.json()["Results"];
    assert_eq!(results[0]["Type"], "AttachmentPUT");
    assert_eq!((&results[0]["Hash"], &results[0]["Size"]), (&json!(HELLO), &json!(5)));
    let version = |id: &str| server.document(id)["@metadata"]["@change-vector"].clone();
    assert_eq!(results[0]["DocumentChangeVector"], version("u/1"));
    assert_eq!(results[2]["DocumentChangeVector"], version("u/2"));
    assert_eq!(names(&server, "u/2"), ["empty", "large"]);
    assert!(get(&server, "u/2", "large").body == large);
    let missing = batch_in_parts(&server, &json!([put("u/1", "b"), put("u/1", "c")]), &[b"b"]);
    assert_eq!(missing.status, 500);
    assert!(missing.text().contains("no part with the content of the attachment 'c'"));
    let none = server.batch(&put("u/1", "b").to_string());
    assert!(none.text().contains("no part with the content"), "{}", none.text());
    assert_eq!(names(&server, "u/1"), ["a"]);
    let refused = batch_in_parts(&server, &json!([put("nope", "b")]), &[&large]);
    assert_eq!(
        refused.json()["Type"],
        "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException"
    );
}

#[test]
fn batches_copy_move_and_delete_attachments() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    server.put("u/2", "{}");
    put(&server, "u/1", "a", b"hello");
    let transfer = |kind: &str, name: &str, to: &str, to_name: &str| {
        json!({"Type": kind, "Id": "u/1", "Name": name, "DestinationId": to,
            "DestinationName": to_name, "ContentType": "ignored"})
        .to_string()
    };
    let reply = server.batch(&format!(
        r#"{},{},{{"Type":"AttachmentDELETE","Id":"u/2","Name":"c"}},{{"Type":"AttachmentDELETE","Id":"nope","Name":"c"}}"#,
        transfer("AttachmentCOPY", "a", "u/2", "c"),
        transfer("AttachmentMOVE", "A", "u/2", "d"),
    ));
    assert_eq!(reply.status, 201, "{}", reply.text());
    let reply = reply.json();
    let results = reply["Results"].as_array().unwrap();
    let keys = |result: &Value| {
        result.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(&results[0]),
        "Id Type Name ChangeVector Hash ContentType Size DocumentChangeVector"
    );
    assert_eq!(
        (&results[0]["Id"], &results[0]["ContentType"]),
        (&json!("u/2"), &json!("text/plain"))
    );
    assert_eq!(
        keys(&results[1]),
        "Id Type Name DestinationId DestinationName ChangeVector Hash ContentType Size \
         DocumentChangeVector DestinationDocumentChangeVector"
    );
    assert_eq!(keys(&results[2]), "Type @id Name DocumentChangeVector");
    assert_eq!(keys(&results[3]), "Type @id Name");
    assert_eq!((names(&server, "u/1").len(), names(&server, "u/2")), (0, vec!["d".to_owned()]));
    let gone = server.batch(&transfer("AttachmentMOVE", "a", "u/2", "e"));
    assert_eq!(
        gone.json()["Type"],
        "Raven.Client.Exceptions.Documents.Indexes.AttachmentDoesNotExistException"
    );
    assert_eq!(gone.json()["Message"], "There is no attachment with 'a' name for document 'u/1'.");
    put(&server, "u/1", "a", b"other");
    let taken = server.batch(&transfer("AttachmentCOPY", "a", "u/2", "D"));
    assert_eq!(taken.status, 409);
}

#[test]
fn many_attachments_are_read_at_once() {
    let server = TestServer::with_database();
    server.put("u/1", "{}");
    let large = noise(300_000);
    put(&server, "u/1", "a", b"hello");
    put(&server, "u/1", "b", &large);
    let body = json!({"AttachmentType": "Document", "Attachments": [
        {"DocumentId": "u/1", "Name": "B"}, {"DocumentId": "u/1", "Name": "nope"},
        {"DocumentId": "u/1", "Name": "a"}]});
    let reply = server.send("POST", &format!("{AT}/bulk"), body.to_string().as_bytes());
    assert_eq!(reply.status, 200);
    let contents = [large.as_slice(), b"hello"].concat();
    let json = &reply.body[..reply.body.len() - contents.len()];
    assert!(reply.body[json.len()..] == contents);
    let json: Value = serde_json::from_slice(json).unwrap();
    let list = json["AttachmentsMetadata"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!((&list[1]["Name"], &list[1]["Hash"]), (&json!("a"), &json!(HELLO)));
    let none = server.send(
        "POST",
        &format!("{AT}/bulk"),
        br#"{"AttachmentType":"Document","Attachments":[]}"#,
    );
    assert_eq!(none.text(), r#"{"AttachmentsMetadata":[]}"#);
    let count = server
        .get(&format!("/databases/db/debug/attachments/hash?hash={}", HELLO.replace('+', "%2B")));
    assert_eq!(count.text(), format!(r#"{{"Hash":"{HELLO}","Count":1}}"#));
    let metadata = server.get("/databases/db/debug/attachments/metadata?id=u/1").json();
    assert_eq!(metadata["Attachments"][0]["Count"], 1);
}

#[test]
fn bulk_inserts_can_contain_attachments() {
    let server = TestServer::with_database();
    let large = noise(6 << 20);
    let mut body = br#"[{"Id":"u/1","Type":"PUT","Document":{"A":1}},"#.to_vec();
    for (name, content) in [("]}\\\"", b"],{\"".as_slice()), ("empty", b""), ("large", &large)] {
        let element = format!(
            r#"{{"Id":"u/1","Type":"AttachmentPUT","Name":"{name}","ContentType":"","ContentLength":{}}}"#,
            content.len()
        );
        body.extend_from_slice(element.as_bytes());
        body.extend_from_slice(content);
        body.push(b',');
    }
    body.extend_from_slice(br#"{"Id":"u/2","Type":"PUT","Document":{"B":1}}]"#);
    let reply = server.send("POST", "/databases/db/bulk_insert?id=1", &body);
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(names(&server, "u/1"), ["]}\"", "empty", "large"]);
    assert_eq!(get(&server, "u/1", "]}%22").text(), "],{\"");
    assert!(get(&server, "u/1", "large").body == large);
    assert_eq!(server.document("u/2")["B"], 1);
    let state = server.get("/databases/db/operations/state?id=1").json();
    let result = &state["Result"];
    assert_eq!((&result["Total"], &result["DocumentsProcessed"]), (&json!(5), &json!(2)));
    assert_eq!(result["AttachmentsProcessed"], 3);
    // Truncated within a content: earlier elements are kept, the attachment is not stored.
    let cut = br#"[{"Id":"u/3","Type":"PUT","Document":{}},{"Id":"u/3","Type":"AttachmentPUT","Name":"a","ContentType":"","ContentLength":9}abc"#;
    assert_eq!(server.send("POST", "/databases/db/bulk_insert?id=2", cut).status, 500);
    assert_eq!(names(&server, "u/3"), [""; 0]);
}
