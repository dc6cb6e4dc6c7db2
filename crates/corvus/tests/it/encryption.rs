//! An encrypted database in a server of its own: what others can find in its files and in its memory.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::Path,
    time::{Duration, Instant},
};

use crate::process::{Server, directory, run, text};

const MARKERS: usize = 1000;
/// A request has this many of the documents.
const BATCH: usize = 100;
/// The beginning of every marker, and something that is in no other text.
const MARKER: &str = "mArKeR-x7q-";
/// How long what was decrypted may stay in memory after the last request, on a busy machine.
const QUIET_MAX: Duration = Duration::from_secs(60);
const OVER_HTTP: &str = "--Security.AllowEncryptedDatabasesOverHttp=true";

/// The body of a short answer, which may be sent as one chunk.
fn body(answer: &str) -> &str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    if !head.contains("chunked") {
        return body;
    }
    let (length, rest) = body.split_once("\r\n").unwrap();
    &rest[..usize::from_str_radix(length, 16).unwrap()]
}

fn marker(number: usize) -> String {
    format!("{MARKER}{number:06}")
}

/// A new key from the server, stored for a database, and the database created with it.
fn create_encrypted(server: &Server, name: &str) -> String {
    let key =
        body(&server.ask("GET", "/admin/secrets/generate", "", "")).trim_matches('"').to_owned();
    let stored =
        server.ask("POST", &format!("/admin/secrets/distribute?name={name}&node=A"), "", &key);
    assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    let record = format!(r#"{{"DatabaseName":"{name}","Encrypted":true}}"#);
    let created = server.ask("PUT", &format!("/admin/databases?name={name}"), "", &record);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    key
}

/// Writes the markers as documents and attachments, and has an index read them.
fn write_markers(server: &Server, database: &str) {
    for first in (0..MARKERS).step_by(BATCH) {
        let put = |number| {
            let text = marker(number);
            format!(
                r#"{{"Type":"PUT","Id":"users/{number}","Document":{{"Name":"{text}",
                   "@metadata":{{"@collection":"Users"}}}}}}"#
            )
        };
        let commands: Vec<String> = (first..first + BATCH).map(put).collect();
        let commands = format!(r#"{{"Commands":[{}]}}"#, commands.join(","));
        let stored = server.ask("POST", &format!("/databases/{database}/bulk_docs"), "", &commands);
        assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    }
    for number in 0..20 {
        let target = format!("/databases/{database}/attachments?id=users/{number}&name=a.txt");
        let stored = server.ask("PUT", &target, "", &marker(number).repeat(500));
        assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    }
    assert!(query(server, database, 7).contains("users/7\""));
}

fn query(server: &Server, database: &str, number: usize) -> String {
    let text = marker(number);
    let query =
        format!(r#"{{"Query":"from Users where Name = '{text}'","WaitForNonStaleResults":true}}"#);
    server.ask("POST", &format!("/databases/{database}/queries"), "", &query)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(bytes, wanted).is_some()
}

/// The files below a directory in which one of these is found.
fn files_with(directory: &Path, wanted: &[&[u8]], found: &mut Vec<String>) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += files_with(&path, wanted, found);
        } else {
            let bytes = fs::read(&path).unwrap();
            files += 1;
            if wanted.iter().any(|wanted| contains(&bytes, wanted)) {
                found.push(path.display().to_string());
            }
        }
    }
    files
}

/// The parts of the memory of a process in which one of these is found, by the name of the part.
fn memory_with(process: u32, wanted: &[&[u8]]) -> BTreeMap<String, usize> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mut memory = File::open(format!("/proc/{process}/mem")).unwrap();
    let mut found = BTreeMap::new();
    let mut read_bytes = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        let name = words.nth(3).unwrap_or("anonymous").to_owned();
        let (start, end) = range.split_once('-').unwrap();
        let (start, end) =
            (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        if !rights.starts_with('r') || name.starts_with("[v") {
            continue;
        }
        // Parts that were reserved and never used read as zeroes; those of a file that is shorter cannot be read.
        let mut at = start;
        let mut bytes = vec![0; 1 << 20];
        while at < end {
            let length = bytes.len().min((end - at) as usize);
            memory.seek(SeekFrom::Start(at)).unwrap();
            let Ok(()) = memory.read_exact(&mut bytes[..length]) else { break };
            read_bytes += length;
            for wanted in wanted {
                if contains(&bytes[..length], wanted) {
                    *found.entry(format!("{name} {rights}")).or_insert(0) += 1;
                }
            }
            at += length as u64;
        }
    }
    assert!(read_bytes > 1 << 20, "the memory of the process cannot be read");
    found
}

fn bytes_of(key: &str) -> Vec<u8> {
    let mut bits = 0_u32;
    let mut bytes = Vec::new();
    for (number, character) in key.bytes().filter(|character| *character != b'=').enumerate() {
        let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digit = digits.iter().position(|digit| *digit == character).unwrap();
        bits = bits << 6 | digit as u32;
        if number % 4 != 0 {
            bytes.push((bits >> (6 - 2 * (number % 4))) as u8);
        }
    }
    bytes
}

#[test]
fn neither_files_nor_memory_show_an_encrypted_database() {
    let place = directory("encrypted_database");
    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    let key = create_encrypted(&server, "vault");
    let key_bytes = bytes_of(&key);
    assert_eq!(key_bytes.len(), 32);
    write_markers(&server, "vault");

    let wanted: [&[u8]; 3] = [MARKER.as_bytes(), key.trim_end_matches('=').as_bytes(), &key_bytes];
    let mut found = Vec::new();
    assert!(files_with(&place, &wanted, &mut found) > 4);
    assert_eq!(found, [""; 0], "files with something readable");

    let began = Instant::now();
    loop {
        let readable = memory_with(server.process(), &wanted);
        if readable.is_empty() {
            break;
        }
        assert!(began.elapsed() < QUIET_MAX, "memory with something readable: {readable:?}");
    }
    assert!(query(&server, "vault", 999).contains("users/999\""), "it goes on");
    server.stop();

    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    assert!(query(&server, "vault", 500).contains("users/500\""), "it opens again");
    let mut found = Vec::new();
    files_with(&place, &wanted, &mut found);
    assert_eq!(found, [""; 0], "files with something readable");
    let listed = server.ask("GET", "/databases?name=vault", "", "");
    assert!(listed.contains(r#""IsEncrypted":true"#), "{listed}");
    let deleted = r#"{"DatabaseNames":["vault"],"HardDelete":true}"#;
    server.ask("DELETE", "/admin/databases", "", deleted);
    let keys = server.ask("GET", "/admin/secrets", "", "");
    assert_eq!(body(&keys), r#"{"Keys":[]}"#, "the key is deleted with the database");
}

/// Otherwise the test above could not fail.
#[test]
fn files_and_memory_show_a_database_that_is_not_encrypted() {
    let place = directory("readable_database");
    let server = Server::start(&place, &["--DataDir=here"]);
    server.ask("PUT", "/admin/databases?name=shop", "", r#"{"DatabaseName":"shop"}"#);
    write_markers(&server, "shop");
    let mut found = Vec::new();
    files_with(&place, &[MARKER.as_bytes()], &mut found);
    assert!(found.iter().any(|file| file.contains("shop")), "{found:?}");
    assert!(!memory_with(server.process(), &[MARKER.as_bytes()]).is_empty());
}

#[test]
fn a_database_is_encrypted_only_with_a_key_and_over_a_safe_connection() {
    let place = directory("refused_encryption");
    let server = Server::start(&place, &["--DataDir=here"]);
    let record = r#"{"DatabaseName":"vault","Encrypted":true}"#;
    let refused = server.ask("PUT", "/admin/databases?name=vault", "", record);
    assert!(refused.starts_with("HTTP/1.1 500") && refused.contains("no certificate"), "{refused}");
    server.stop();
    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    let refused = server.ask("PUT", "/admin/databases?name=vault", "", record);
    assert!(
        refused.starts_with("HTTP/1.1 500") && refused.contains("There is no key"),
        "{refused}"
    );
    let invalid = server.ask("POST", "/admin/secrets?name=vault", "", "c2hvcnQ=");
    assert!(invalid.contains("ArgumentException"), "{invalid}");
    let key = create_encrypted(&server, "vault");
    let overwritten = server.ask("POST", "/admin/secrets?name=vault&overwrite=true", "", &key);
    assert!(overwritten.starts_with("HTTP/1.1 500"), "{overwritten}");
    assert!(overwritten.contains("must stay"), "{overwritten}");
    server.stop();
    fs::remove_file(place.join("here/master.key")).unwrap();
    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    let refused = server.ask("GET", "/databases/vault/stats", "", "");
    assert!(refused.starts_with("HTTP/1.1 5") && refused.contains("master.key"), "{refused}");
}

/// The state of an operation of the server, once it is over.
fn outcome_of(server: &Server, begun: &str) -> String {
    assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
    let id = begun.split(r#""OperationId":"#).nth(1).unwrap();
    let id: String = id.chars().take_while(char::is_ascii_digit).collect();
    let began = Instant::now();
    loop {
        let state = server.ask("GET", &format!("/operations/state?id={id}"), "", "");
        if !state.contains("InProgress") {
            return state;
        }
        assert!(began.elapsed() < QUIET_MAX, "{state}");
    }
}

#[test]
fn the_key_of_a_database_is_replaced_while_the_server_runs() {
    let place = directory("replaced_key");
    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    let first = create_encrypted(&server, "vault");
    write_markers(&server, "vault");
    server.ask("PUT", "/admin/databases?name=shop", "", r#"{"DatabaseName":"shop"}"#);

    let rotate = |server: &Server, name: &str, key: &str| {
        server.ask("POST", &format!("/admin/secrets/rotate?name={name}"), "", key)
    };
    assert!(rotate(&server, "shop", "").contains("is not encrypted"));
    assert!(rotate(&server, "missing", "").contains("There is no database"));
    assert!(rotate(&server, "vault", "c2hvcnQ=").contains("ArgumentException"));
    let same = outcome_of(&server, &rotate(&server, "vault", &first));
    assert!(same.contains("Faulted") && same.contains("is the same one"), "{same}");
    assert!(query(&server, "vault", 1).contains("users/1\""));

    let made = outcome_of(&server, &rotate(&server, "vault", ""));
    assert!(made.contains("Completed") && made.contains("Replaced the key of vault"), "{made}");
    assert!(query(&server, "vault", 2).contains("users/2\""));
    let second = body(&server.ask("GET", "/admin/secrets/generate", "", "")).to_owned();
    let given = outcome_of(&server, &rotate(&server, "vault", &second));
    assert!(given.contains("Completed"), "{given}");
    assert!(query(&server, "vault", 3).contains("users/3\""));
    server.stop();

    let key = run(&place, &["offline", "get-key", "here", "vault"]);
    assert_eq!(text(&key.stdout).trim(), second.trim_matches('"'));
    let server = Server::start(&place, &["--DataDir=here", OVER_HTTP]);
    assert!(query(&server, "vault", 4).contains("users/4\""), "it opens again");
    let mut found = Vec::new();
    files_with(&place, &[MARKER.as_bytes(), &bytes_of(&first)], &mut found);
    assert_eq!(found, [""; 0], "files with something readable");
}
