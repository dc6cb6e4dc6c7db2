//! The task `record`: sends everything in `crates/server/tests/recorded/requests` to a real RavenDB
//! and writes the essentials of its answers into `answers` next to it.
//!
//! In a line of requests `[[a | b]]` stands for one of its alternatives, and the line for all of their
//! combinations. The alternatives may contain brackets, as long as they are balanced.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::recorded::{AutomaticIndexes, Exchange, Peer, Subject, is_of_series, print};

use crate::{Failure, checks::Checks, http_client::HttpClient};

const PEER: &str = "RAVEN_PEER_URL";
const ANSWERS_BYTES_MAX: usize = 600 * 1024;
const REQUESTS_PER_LINE_MAX: usize = 1000;

/// Records the topics whose names contain one of `topics`, or all.
pub(crate) fn run(root: &Path, topics: &[&str]) -> Result<Checks, Failure> {
    let url = std::env::var(PEER).map_err(|_| format!("{PEER} must name a running RavenDB"))?;
    let folder = root.join("crates/server/tests/recorded");
    let database = format!("recorded-{}", std::process::id());
    let mut subject = Subject::new(
        Connection(HttpClient::connect(&url)?),
        &database,
        &fs::read_to_string(folder.join("documents.jsonl"))?,
        &fs::read_to_string(folder.join("indexes.jsonl"))?,
    );
    subject.put_values(&fs::read_to_string(folder.join("values.jsonl"))?);
    let mut subject_with_series = Subject::with_series(
        Connection(HttpClient::connect(&url)?),
        &format!("{database}-series"),
        [
            &fs::read_to_string(folder.join("series-documents.jsonl"))?,
            &fs::read_to_string(folder.join("series.jsonl"))?,
            &fs::read_to_string(folder.join("series-indexes.jsonl"))?,
        ],
    );
    let mut checks = Checks::default();
    for path in files(&folder.join("requests"))? {
        let name = path.file_name().ok_or("a file has a name")?.to_string_lossy().into_owned();
        if !topics.is_empty() && !topics.iter().any(|topic| name.contains(topic)) {
            continue;
        }
        let requests = fs::read_to_string(&path)?;
        let subject = if is_of_series(&requests) { &mut subject_with_series } else { &mut subject };
        let (text, count) = record(subject, &requests)?;
        println!("{name}: {count} exchanges, {} bytes", text.len());
        fs::write(folder.join("answers").join(name), text)?;
        checks.passed += count;
    }
    subject.delete();
    subject_with_series.delete();
    let mut bytes = 0;
    for path in files(&folder.join("answers"))? {
        bytes += fs::metadata(path)?.len() as usize;
    }
    checks.that(bytes <= ANSWERS_BYTES_MAX, || format!("the answers have {bytes} bytes"));
    Ok(checks)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// The text of a file of answers, and their number.
fn record<P: Peer>(subject: &mut Subject<P>, requests: &str) -> Result<(String, usize), Failure> {
    let indexes = AutomaticIndexes::of(requests);
    if indexes == AutomaticIndexes::Grow {
        subject.forget_automatic_indexes();
    }
    let (mut text, mut count) = (String::new(), 0);
    for line in requests.lines() {
        if line.is_empty() || line.starts_with(['#', '@']) {
            text.push_str(line);
            text.push('\n');
            continue;
        }
        let mut expanded = Vec::new();
        expand("", line, &mut expanded)?;
        for request in expanded {
            let answer = subject.ask(&request, indexes);
            text.push_str(&print(&Exchange { request, answer }));
            count += 1;
        }
    }
    Ok((text, count))
}

/// Adds every combination of the alternatives in `line`, each prefixed with `before`.
fn expand(before: &str, line: &str, expanded: &mut Vec<String>) -> Result<(), Failure> {
    let Some((plain, rest)) = line.split_once("[[") else {
        expanded.push(format!("{before}{line}").trim_end().to_owned());
        return Ok(());
    };
    let end = closing(rest).ok_or_else(|| format!("unclosed alternatives: {line}"))?;
    for alternative in rest[..end].split(" | ") {
        expand(&format!("{before}{plain}{alternative}"), &rest[end + 2..], expanded)?;
        if expanded.len() > REQUESTS_PER_LINE_MAX {
            return Err(format!("more than {REQUESTS_PER_LINE_MAX} requests: {line}").into());
        }
    }
    Ok(())
}

/// The position of the `]]` that closes alternatives.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth > 0 => depth -= 1,
            b']' if text[at..].starts_with("]]") => return Some(at),
            _ => {}
        }
    }
    None
}

struct Connection(HttpClient);

impl Peer for Connection {
    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let answer = self.0.send(method, path, body);
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        (answer.status, answer.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(line: &str) -> Vec<String> {
        let mut all = Vec::new();
        expand("", line, &mut all).unwrap();
        all
    }

    #[test]
    fn alternatives_are_combined() {
        assert_eq!(expanded("a [[b | c]] [[d | ]]"), ["a b d", "a b", "a c d", "a c"]);
        assert_eq!(expanded("p [[[1,[2]] | x[]]]"), ["p [1,[2]]", "p x[]"]);
        assert_eq!(expanded("p [[[[1],[2]] | x]]"), ["p [[1],[2]]", "p x"]);
        assert_eq!(expanded("a || b[0]"), ["a || b[0]"]);
        assert!(expand("", "a [[b", &mut Vec::new()).is_err());
    }
}
