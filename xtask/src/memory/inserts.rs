//! The step of bulk inserts: many at once, of small and of large documents, alongside everything
//! else that uses memory. Each completes, or fails for lack of memory. At the end an insert of
//! small documents completes.

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "bulk inserts", prepare, round, judge };

const DATABASE: &str = "inserted";
const CLIENTS: u64 = 12;
/// Documents of each insert, and the bytes of their texts.
const SMALL: (u64, usize) = (3_000, 2 << 10);
const LARGE: (u64, usize) = (3, 3 << 20);

fn prepare(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DATABASE)
}

fn body(client: u64, (documents, bytes): (u64, usize)) -> Vec<u8> {
    // The stored form is as large as the text.
    let mut number = client + 1;
    let mut text = move || -> String {
        let mut letters = String::with_capacity(bytes);
        while letters.len() < bytes {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            letters.push_str(&format!("{number:016x}"));
        }
        letters
    };
    let element = |n| {
        let document = json!({"Text": text(), "@metadata": {"@collection": "Inserted"}});
        json!({"Id": format!("i/{client}/{n}"), "Type": "PUT", "Document": document}).to_string()
    };
    format!("[{}]", (0..documents).map(element).collect::<Vec<_>>().join(",")).into_bytes()
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    let is_small = round.is_multiple_of(2);
    at_once(CLIENTS, |client| {
        let operation = round * CLIENTS + client + 1;
        let path = format!("/databases/{DATABASE}/bulk_insert?id={operation}");
        let body = body(client, if is_small { SMALL } else { LARGE });
        let answer = match HttpClient::connect(&stage.url)?.send("POST", &path, &body) {
            Ok(answer) => answer,
            // A server that rejects a body before its end closes the connection.
            Err(_) => return Ok(()),
        };
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let refusals = ["LowMemoryException", "ServerLoadFailureException"];
        let is_for_memory = refusals.iter().any(|kind| text.contains(kind));
        match answer.status {
            200..=299 => Ok(()),
            _ if stage.is_refusal(&answer) || is_for_memory => Ok(()),
            _ => Err(format!("a bulk insert: {}", answer.described()).into()),
        }
    })
}

fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let body = body(CLIENTS, SMALL);
    // Operation ids must be unique.
    let path =
        |attempt| format!("/databases/{DATABASE}/bulk_insert?id={}", u32::MAX as u64 + attempt);
    stage.until_taken(|attempt| {
        HttpClient::connect(&stage.url)?.send("POST", &path(attempt), &body)
    })?;
    let query = "from Inserted where startsWith(id(), 'i/12/') limit 0";
    let target = format!("/databases/{DATABASE}/queries?query={}", query.replace(' ', "%20"));
    let found = stage.get(&target)?["TotalResults"].clone();
    checks.that(found == SMALL.0, || format!("{found} documents of {} were inserted", SMALL.0));
    Ok(())
}
