//! The live tail of the document log: events, filters, reconnecting, and the end of the response.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::test_server::TestServer;

const USER: &str = r#"{"n":1,"@metadata":{"@collection":"Users"}}"#;
/// Longer than the interval between comments.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A reader of server-sent events.
struct Reader {
    body: BufReader<Chunks>,
    /// The id of the last event, kept as in a browser.
    last_id: Option<String>,
}

struct Event {
    name: String,
    data: Value,
}

/// The body of a response in chunks.
struct Chunks {
    stream: BufReader<TcpStream>,
    left: usize,
    has_ended: bool,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 && !self.has_ended {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let size = line.trim();
            let size = usize::from_str_radix(size, 16).map_err(std::io::Error::other)?;
            (self.left, self.has_ended) = (size, size == 0);
        }
        if self.has_ended {
            return Ok(0);
        }
        let wanted = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..wanted])?;
        self.left -= read;
        if self.left == 0 {
            self.stream.read_exact(&mut [0; 2])?;
        }
        Ok(read)
    }
}

impl Reader {
    fn open(server: &TestServer, query: &str, last_id: Option<&str>) -> Reader {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        let id = last_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /databases/db/tail?{query} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n{id}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(!head.contains("content-encoding"), "{head}");
        let body = BufReader::new(Chunks { stream, left: 0, has_ended: false });
        Reader { body, last_id: None }
    }

    /// The lines up to the next empty one; `None` at the proper end, an error when it is aborted.
    fn block(&mut self) -> std::io::Result<Option<Vec<String>>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line)? == 0 {
                assert!(lines.is_empty(), "the response ends between events");
                return Ok(None);
            }
            match line.trim_end_matches('\n') {
                "" => return Ok(Some(lines)),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The next event.
    fn try_next(&mut self) -> std::io::Result<Option<Event>> {
        while let Some(lines) = self.block()? {
            let (mut name, mut data) = (None, None);
            for line in lines {
                if let Some(id) = line.strip_prefix("id: ") {
                    self.last_id = Some(id.to_owned());
                } else if let Some(text) = line.strip_prefix("event: ") {
                    name = Some(text.to_owned());
                } else if let Some(text) = line.strip_prefix("data: ") {
                    data = Some(serde_json::from_str(text).unwrap());
                }
            }
            if let (Some(name), Some(data)) = (name, data) {
                return Ok(Some(Event { name, data }));
            }
        }
        Ok(None)
    }

    fn next(&mut self) -> Option<Event> {
        self.try_next().unwrap()
    }

    /// The next events as `put users/1 Users`.
    fn summaries(&mut self, count: usize) -> Vec<String> {
        let mut one = || {
            let Event { name, data } = self.next().unwrap();
            let text = |name: &str| data[name].as_str().unwrap().to_owned();
            assert_eq!(name, text("Type").to_lowercase());
            format!("{name} {} {}", text("Id"), text("CollectionName"))
        };
        (0..count).map(|_| one()).collect()
    }

    /// All events up to the proper end.
    fn rest(&mut self) -> Vec<Event> {
        let mut rest = Vec::new();
        while let Some(event) = self.next() {
            rest.push(event);
        }
        rest
    }
}

fn delete(server: &TestServer, id: &str) {
    let target = format!("/databases/db/docs?id={id}");
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
}

#[test]
fn a_tail_reports_changes_from_now_on() {
    let server = TestServer::with_database();
    server.put("before", USER);
    let mut reader = Reader::open(&server, "", None);
    // The first block contains only the position.
    assert!(reader.block().unwrap().unwrap()[1].starts_with("id: 1-"));
    let vector = server.put("Users/1", USER);
    let event = reader.next().unwrap();
    assert_eq!(event.name, "put");
    let expected = json!({
        "Type": "Put", "Id": "Users/1", "CollectionName": "Users", "ChangeVector": vector,
        "Etag": 2, "LastModified": event.data["LastModified"]
    });
    assert_eq!(event.data, expected);
    delete(&server, "users/1");
    server.put("x", "{}");
    assert_eq!(reader.summaries(2), ["delete Users/1 Users", "put x @empty"]);
}

#[test]
fn a_tail_from_the_beginning_reports_the_last_change_of_each_document() {
    let server = TestServer::with_database();
    for id in ["a", "b", "c", "a"] {
        server.put(id, USER);
    }
    delete(&server, "b");
    let mut reader = Reader::open(&server, "etag=0&follow=false", None);
    let ids: Vec<_> = reader.rest().into_iter().map(|event| event.data["Id"].clone()).collect();
    assert_eq!(ids, ["c", "a", "b"]);
}

#[test]
fn a_tail_filters_by_collection_and_prefix() {
    let server = TestServer::with_database();
    server.put("Users/1", USER);
    server.put("users/2", "{}");
    server.put("others/1", USER);
    server.put("things/1", r#"{"@metadata":{"@collection":"Things"}}"#);
    delete(&server, "others/1");
    let ids = |query: &str| {
        let mut reader = Reader::open(&server, &format!("etag=0&follow=false&{query}"), None);
        let ids =
            reader.rest().into_iter().map(|event| event.data["Id"].as_str().unwrap().to_owned());
        let ids = ids.collect::<Vec<_>>().join(" ");
        let last = reader.last_id.unwrap();
        assert!(last.starts_with("5-") || !ids.ends_with("others/1"), "{last}");
        ids
    };
    assert_eq!(ids(""), "Users/1 users/2 things/1 others/1");
    assert_eq!(ids("collection=users"), "Users/1 others/1");
    assert_eq!(ids("collection=users&prefix=USERS/"), "Users/1");
    assert_eq!(ids("collection=Users&collection=things"), "Users/1 things/1 others/1");
    assert_eq!(ids("prefix=users/"), "Users/1 users/2");
    assert_eq!(ids("collection=none"), "");
}

#[test]
fn documents_are_included_on_one_line_each() {
    let server = TestServer::with_database();
    server
        .put("a", r#"{"text":"one\ntwo\r\nthree\u2028four","@metadata":{"@collection":"Users"}}"#);
    let mut reader = Reader::open(&server, "etag=0&documents=true", None);
    let document = reader.next().unwrap().data["Document"].clone();
    assert_eq!(document["text"], "one\ntwo\r\nthree\u{2028}four");
    assert_eq!(document["@metadata"]["@id"], "a");
}

#[test]
fn an_invalid_position_is_rejected() {
    let server = TestServer::with_database();
    server.put("a", USER);
    let refused = |etag: &str| {
        let reply = server.get(&format!("/databases/db/tail?etag={etag}"));
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert_eq!(reply.json()["Type"], "Raven.Client.Exceptions.BadRequestException");
    };
    refused("x");
    refused("-1");
    refused("2");
    refused("1-AAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(server.get("/databases/nope/tail").status, 500);
    // It is endless, so it cannot be part of a multi-get.
    let body = br#"{"Requests":[{"Url":"/databases/db/tail"}]}"#;
    let inner = server.send("POST", "/databases/db/multi_get", body);
    assert!(!inner.text().contains("event:"), "{}", inner.text());
}

#[test]
fn a_tail_ends_when_its_database_is_deleted_or_the_server_stops() {
    let server = TestServer::with_database();
    let mut reader = Reader::open(&server, "", None);
    let body = br#"{"DatabaseNames":["db"]}"#;
    assert_eq!(server.send("POST", "/admin/databases/disable", body).status, 200);
    assert!(reader.next().is_none(), "the response ends properly");
    assert_eq!(server.send("POST", "/admin/databases/enable", body).status, 200);
    let mut reader = Reader::open(&server, "", None);
    server.put("a", USER);
    assert_eq!(reader.summaries(1), ["put a Users"]);
    server.stop();
    assert!(reader.next().is_none(), "the response ends properly");
}

#[test]
fn an_idle_tail_sends_comments_with_the_position() {
    let server = TestServer::with_database();
    let mut reader = Reader::open(&server, "collection=Users", None);
    reader.block().unwrap();
    // The filter excludes this change, but the position still advances past it.
    server.put("a", "{}");
    loop {
        let lines = reader.block().unwrap().unwrap();
        if lines[0] == ":" {
            assert!(lines[1].starts_with("id: 1-"), "{lines:?}");
            break;
        }
    }
}

/// What a reader of the whole tail learns: the version of each document that exists.
#[derive(Default)]
struct Known {
    versions: BTreeMap<String, Option<String>>,
    last_etag: u64,
}

impl Known {
    fn learn(&mut self, event: &Event) {
        let data = &event.data;
        let etag = data["Etag"].as_u64().unwrap();
        assert!(self.last_etag < etag, "{etag} comes after {}", self.last_etag);
        self.last_etag = etag;
        let id = data["Id"].as_str().unwrap().to_lowercase();
        let version = data["ChangeVector"].as_str().unwrap().to_owned();
        self.versions.insert(id, (event.name == "put").then_some(version));
    }
}

#[test]
fn readers_that_lose_their_connections_miss_no_change() {
    const WRITERS: u64 = 3;
    const CHANGES: u64 = 300;
    const READERS: u64 = 3;
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    // No more readers wait, and everything is written.
    let (ends, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (server, ends, ended) = (&server, &ends, &ended);
    let known: Vec<Known> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..CHANGES {
                        let id = format!("d/{}", random.next_u64() % 40);
                        match random.next_u64() % 4 {
                            0 => delete(server, &id),
                            _ => drop(server.put(&id, USER)),
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|seed| {
                scope.spawn(move || {
                    let mut random = Random::new(100 + seed);
                    let (mut known, mut last_id) = (Known::default(), None::<String>);
                    let mut is_last = false;
                    while !is_last {
                        is_last = ended.load(Ordering::SeqCst);
                        let query = match is_last {
                            true => "etag=0&follow=false",
                            false => "etag=0",
                        };
                        let mut reader = Reader::open(server, query, last_id.as_deref());
                        // It disconnects after some events, or reads all of them at the end.
                        let events = if is_last { u64::MAX } else { 1 + random.next_u64() % 30 };
                        for _ in 0..events {
                            if !is_last && ends.load(Ordering::SeqCst) {
                                break;
                            }
                            let Some(event) = reader.next() else { break };
                            known.learn(&event);
                        }
                        last_id = reader.last_id.or(last_id);
                    }
                    known
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        ends.store(true, Ordering::SeqCst);
        // Every client that waits for an event receives one.
        server.put("end", USER);
        ended.store(true, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let all = server.get("/databases/db/docs?start=0&pageSize=1000&metadataOnly=true").json();
    let living: BTreeMap<_, _> = all["Results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|document| {
            let text = |name: &str| document["@metadata"][name].as_str().unwrap().to_owned();
            (text("@id"), text("@change-vector"))
        })
        .collect();
    for known in known {
        let living_known: BTreeMap<_, _> =
            known.versions.into_iter().filter_map(|(id, version)| Some((id, version?))).collect();
        assert_eq!(living_known, living);
    }
}
