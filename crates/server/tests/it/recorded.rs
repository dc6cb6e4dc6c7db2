//! Responses equal those of RavenDB 5.4, except for the differences that are listed with their
//! reasons in `tests/recorded/differences.txt`.
//!
//! `cargo xtask record` wrote the answers. A listed difference contains the answer of Corvus, and
//! must actually differ.

use std::{collections::HashMap, fmt::Write, fs, path::Path};

use testkit::recorded::{AutomaticIndexes, Exchange, Peer, Subject, is_of_series, parse, print};

use crate::test_server::TestServer;

struct Replay<'a>(&'a TestServer);

impl Peer for Replay<'_> {
    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let reply = self.0.send(method, path, body);
        (reply.status, reply.body)
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The expected answers where Corvus differs on purpose, by request.
struct Differences {
    ours: HashMap<String, String>,
    wrong: String,
}

impl Differences {
    fn compare(&mut self, topic: &str, recorded: &Exchange, answer: String) {
        let ours = self.ours.remove(&recorded.request);
        let wanted = ours.as_ref().unwrap_or(&recorded.answer);
        if ours.as_ref() == Some(&recorded.answer) {
            let _ = writeln!(self.wrong, "{topic}: no difference:\n{}", print(recorded));
        } else if *wanted != answer {
            let request = recorded.request.clone();
            let _ = writeln!(
                self.wrong,
                "{topic}: wanted\n{}got\n{}",
                print(&Exchange { request: request.clone(), answer: wanted.clone() }),
                print(&Exchange { request, answer })
            );
        }
    }
}

#[test]
fn queries_match_recorded_answers_of_ravendb() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let server = TestServer::with_database();
    let documents = read(&folder.join("documents.jsonl"));
    let indexes = read(&folder.join("indexes.jsonl"));
    let mut subject = Subject::new(Replay(&server), "recorded", &documents, &indexes);
    subject.put_values(&read(&folder.join("values.jsonl")));
    let of_series = ["series-documents.jsonl", "series.jsonl", "series-indexes.jsonl"]
        .map(|name| read(&folder.join(name)));
    let mut subject_with_series = Subject::with_series(
        Replay(&server),
        "recorded-series",
        of_series.each_ref().map(String::as_str),
    );
    let listed = parse(&read(&folder.join("differences.txt")));
    let ours = listed.into_iter().map(|one| (one.request, one.answer)).collect();
    let mut differences = Differences { ours, wrong: String::new() };
    let mut topics: Vec<_> =
        fs::read_dir(folder.join("answers")).unwrap().map(|entry| entry.unwrap().path()).collect();
    topics.sort();
    for path in topics {
        let topic = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = read(&path);
        let subject = if is_of_series(&file) { &mut subject_with_series } else { &mut subject };
        let indexes = AutomaticIndexes::of(&file);
        if indexes == AutomaticIndexes::Grow {
            subject.forget_automatic_indexes();
        }
        for recorded in parse(&file) {
            let answer = subject.ask(&recorded.request, indexes);
            differences.compare(&topic, &recorded, answer);
        }
    }
    for request in differences.ours.keys() {
        let _ = writeln!(differences.wrong, "listed, and not queried: {request}");
    }
    assert!(differences.wrong.is_empty(), "\n{}", differences.wrong);
}
