//! Indexes that read attachments and other data that belongs to their documents: they find what
//! RavenDB 5.4 finds, and are updated when that data changes.

use crate::{
    attachments::put,
    exchange_indexes::{define, errors, terms},
    test_server::TestServer,
};

const HELLO: &str = "hellö wörld";
const HASH: &str = "GE8r22UrfWn9Sq3PH1pOzNRKY4vdqsF4d5ZaD7rVfWc=";

fn server() -> TestServer {
    let server = TestServer::with_database();
    for id in ["u/1", "u/2"] {
        server.put(id, r#"{"Ref":"u/1","@metadata":{"@collection":"Users"}}"#);
    }
    put(&server, "u/1", "a.txt", HELLO.as_bytes());
    put(&server, "u/1", "B.bin", &[b'x'; 256]);
    server
}

#[test]
fn maps_read_attachments() {
    let server = server();
    let lower_hash = HASH.to_lowercase();
    for (name, map, expected) in [
        (
            "script",
            "map('Users', u => ({ X: loadAttachment(u, 'A.TXT').Name }))",
            ["a.txt"].as_slice(),
        ),
        ("hash", "map('Users', u => ({ X: loadAttachment(u, 'a.txt').Hash }))", &[&lower_hash]),
        ("size", "map('Users', u => ({ X: loadAttachment(u, 'a.txt').Size }))", &["13"]),
        (
            "type",
            "map('Users', u => ({ X: loadAttachment(u, 'a.txt').ContentType }))",
            &["text/plain"],
        ),
        (
            "text",
            "map('Users', u => ({ X: loadAttachment(u, 'a.txt').getContentAsString() }))",
            &[HELLO],
        ),
        (
            "is",
            "map('Users', u => ({ X: loadAttachment(u, 'a.txt') === null }))",
            &["false", "true"],
        ),
        (
            "all",
            "map('Users', u => ({ X: loadAttachments(u).map(a => a.Name) }))",
            &["a.txt", "b.bin"],
        ),
        (
            "other",
            "map('Users', u => ({ X: loadAttachments(load(u.Ref, 'Users')).length }))",
            &["2"],
        ),
        (
            "listed",
            "map('Users', u => ({ X: attachmentsFor(u).map(a => a.Size) }))",
            &["13", "256"],
        ),
        (
            "c",
            "from u in docs.Users let a = LoadAttachment(u, \"A.txt\") select new { X = a.Name + a.Size }",
            &["a.txt13"],
        ),
        (
            "c-text",
            "docs.Users.Select(u => new { X = this.LoadAttachment(u, \"a.txt\").GetContentAsString() })",
            &[HELLO],
        ),
        (
            "c-all",
            "from u in docs.Users from a in LoadAttachments(u) select new { X = a.Size }",
            &["13", "256"],
        ),
        (
            "c-listed",
            "from u in docs.Users select new { X = AttachmentsFor(u).Select(a => a.Name) }",
            &["a.txt", "b.bin"],
        ),
    ] {
        define(&server, name, map, None);
        assert_eq!(terms(&server, name, "X"), expected, "{map}");
        assert_eq!(errors(&server, name), Vec::<String>::new(), "{map}");
    }
}

#[test]
fn an_index_is_updated_when_attachments_change() {
    let server = server();
    let script =
        "map('Users', u => ({ X: loadAttachments(u).map(a => a.getContentAsString()[0]) }))";
    define(&server, "script", script, None);
    let other = "from u in docs.Users let o = LoadDocument(u.Ref, \"Users\") \
                 select new { X = u.Id + LoadAttachments(o).Count() }";
    define(&server, "other", other, None);
    assert_eq!(terms(&server, "script", "X"), ["h", "x"]);
    assert_eq!(terms(&server, "other", "X"), ["u/12", "u/22"]);
    put(&server, "u/1", "b.bin", b"new");
    put(&server, "u/2", "c", b"c");
    assert_eq!(terms(&server, "script", "X"), ["c", "h", "n"]);
    let gone = "/databases/db/attachments?id=u/1&name=a.txt";
    assert_eq!(server.send("DELETE", gone, b"").status, 204);
    assert_eq!(terms(&server, "script", "X"), ["c", "n"]);
    assert_eq!(terms(&server, "other", "X"), ["u/11", "u/21"]);
}

#[test]
fn changes_of_untracked_loads_do_not_update_the_index() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"Ref":"r/1","@metadata":{"@collection":"Users"}}"#);
    server.put("r/1", r#"{"Name":"old","@metadata":{"@collection":"Refs"}}"#);
    let indexes = [
        ("script", "map('Users', u => ({ X: noTracking.load(u.Ref, 'Refs').Name }))", "old"),
        (
            "c",
            "from u in docs.Users select new { X = NoTracking.LoadDocument(u.Ref, \"Refs\").Name }",
            "old",
        ),
        ("tracked", "map('Users', u => ({ X: load(u.Ref, 'Refs').Name }))", "new"),
    ];
    for (name, map, _) in indexes {
        define(&server, name, map, None);
        assert_eq!(terms(&server, name, "X"), ["old"], "{map}");
    }
    server.put("r/1", r#"{"Name":"new","@metadata":{"@collection":"Refs"}}"#);
    for (name, map, expected) in indexes {
        assert_eq!(terms(&server, name, "X"), [expected], "{map}");
    }
}

#[test]
fn attachment_bytes_read_by_a_map_are_limited() {
    let server = server();
    put(&server, "u/2", "large", &vec![b'x'; 1 << 20]);
    let script = "map('Users', u => { let n = 0; for (let i = 0; i < 100; i++) \
                  n += (loadAttachment(u, 'large').getContentAsString() || '').length; return { X: n }; })";
    define(&server, "script", script, None);
    let linq = "from u in docs.Users let a = LoadAttachment(u, \"large\") \
                select new { X = Enumerable.Range(0, 100).Count(i => a != null && a.GetContentAsString() != null) }";
    define(&server, "linq", linq, None);
    for name in ["script", "linq"] {
        assert_eq!(terms(&server, name, "X"), ["0"], "{name}");
        let errors = errors(&server, name);
        assert!(
            errors.len() == 1 && errors[0].contains("bytes of attachments than allowed"),
            "{errors:?}"
        );
    }
}
