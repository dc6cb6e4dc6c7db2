//! Clients that request long responses and do not read them, while another client requests and
//! reads the same.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::{Step, stage::Stage, stores};
use crate::{
    Failure,
    checks::Checks,
    drill_database::create_database,
    http_client::{Answer, HttpClient},
};

pub(super) const STEP: Step = Step { name: "slow readers", prepare, round, judge };

const DATABASE: &str = "slow";
const DOCUMENTS: u64 = 4_000;
/// Together they are half of the memory limit.
const TEXT_BYTES: usize = 32 << 10;
/// A document whose text is stored packed, and the length of its text.
const PACKED: &str = "/databases/slow/docs?id=packed/1";
const PACKED_TEXT_BYTES: usize = 9_000_000;
/// Number of concurrent clients.
const READERS: usize = 200;
/// How much each reads before it stops, and for how long.
const READ_BYTES: u64 = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(8);
/// Their requests, one kind in each round.
const TARGETS: &[&str] = &[
    "/databases/slow/queries?query=from%20Users%20limit%20250",
    "/databases/slow/streams/docs",
    "/databases/slow/docs?pageSize=2000",
    "/databases/slow/streams/queries?query=from%20Users",
    "/databases/slow/queries?query=from%20Users%20order%20by%20Text%20limit%201000",
    PACKED,
];
/// The request of the client that reads, and its number of documents.
const READ: (&str, usize) = ("/databases/slow/docs?startsWith=users/1&pageSize=500", 500);

fn prepare(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DATABASE)?;
    let body = format!(r#"{{"Text":"{}"}}"#, "packed ".repeat(PACKED_TEXT_BYTES / 7));
    stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("PUT", PACKED, body.as_bytes()))?;
    stores::insert_documents(stage, DATABASE, 0..DOCUMENTS, TEXT_BYTES)
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    let target = TARGETS[usize::try_from(round)? % TARGETS.len()];
    let address = stage.url.trim_start_matches("http://");
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        readers.push(stream);
    }
    // A client that reads to the end receives everything, regardless of how many others do not.
    let answer =
        stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("GET", READ.0, b""))?;
    let body: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let found = body["Results"].as_array().map_or(0, Vec::len);
    if found != READ.1 {
        return Err(format!("{} documents of {} were read", found, READ.1).into());
    }
    std::thread::sleep(PATIENCE);
    readers.into_iter().try_for_each(|reader| begun(stage, reader))
}

/// Reads the beginning of the response: a 200, or a rejection.
fn begun(stage: &Stage, reader: TcpStream) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    // A response that was cut off, because others needed its place, may have nothing left to read.
    drop(reader.take(READ_BYTES).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(200) | None => Ok(()),
        Some(status) => {
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            // It may be chunked, with the lengths around the object.
            let object = body.find('{').zip(body.rfind('}'));
            let body = object.map_or(body, |(first, last)| &body[first..=last]);
            let answer = Answer { status, body: body.as_bytes().to_vec() };
            match stage.is_refusal(&answer) {
                true => Ok(()),
                false => Err(format!("a slow reader received {}", answer.described()).into()),
            }
        }
    }
}

fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let usage = stage.get("/admin/debug/memory/stats")?["Usage"].clone();
    checks.that(usage["AnswersBytes"].as_u64() < Some(1 << 20), || {
        format!("aborted responses are still accounted for: {usage}")
    });
    Ok(())
}
