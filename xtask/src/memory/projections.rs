//! The step of rows that use much memory while they are produced: many clients at once request
//! projections of large documents that small ones load, long time series, and tables of large
//! documents.

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "projections", prepare, round, judge };

const DATABASE: &str = "projected";
const LARGE: u64 = 10;
const LARGE_BYTES: usize = 2 << 20;
const SMALL: u64 = 60;
/// Rows of the first target.
const ROWS: usize = 4;
const ENTRIES: u64 = 100_000;
const ENTRIES_OF_REQUEST: u64 = 10_000;
/// The requests, with their number of concurrent clients; one kind in each round.
const TARGETS: &[(u64, &str)] = &[
    (
        30,
        "queries?query=from%20Smalls%20as%20s%20load%20s.Ref%20as%20l%20select%20{a:l.W,b:l.W}%20limit%204",
    ),
    (
        12,
        "queries?query=from%20Smalls%20as%20s%20where%20id()='smalls/0'%20select%20timeseries(from%20s.S)",
    ),
    (60, "timeseries?docId=smalls/0&name=S"),
    (60, "streams/queries?format=csv&query=from%20Larges"),
    (30, "queries?query=from%20Smalls%20as%20s%20load%20s.Ref%20as%20l%20filter%20l.W%20%3E%20'm'"),
    (30, "queries?query=from%20Larges"),
];

fn prepare(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DATABASE)?;
    let send = |method: &str, path: String, body: String| {
        let path = format!("/databases/{DATABASE}/{path}");
        stage.until_taken(|_| HttpClient::connect(&stage.url)?.send(method, &path, body.as_bytes()))
    };
    for number in 0..LARGE {
        let text = "lorem ipsum ".repeat(LARGE_BYTES / 12);
        let body = json!({"W": text, "@metadata": {"@collection": "Larges"}});
        send("PUT", format!("docs?id=larges/{number}"), body.to_string())?;
    }
    for number in 0..SMALL {
        let reference = format!("larges/{}", number % LARGE);
        let body = json!({"Ref": reference, "@metadata": {"@collection": "Smalls"}});
        send("PUT", format!("docs?id=smalls/{number}"), body.to_string())?;
    }
    for first in (0..ENTRIES).step_by(usize::try_from(ENTRIES_OF_REQUEST)?) {
        let entry = |number: u64| {
            let (days, seconds) = (number / 86_400, number % 86_400);
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            let moment =
                format!("2020-01-{:02}T{hours:02}:{minutes:02}:{seconds:02}.0000000Z", days + 1);
            json!({"Timestamp": moment, "Values": [number, 1, 2]})
        };
        let entries: Vec<_> = (first..first + ENTRIES_OF_REQUEST).map(entry).collect();
        let body = json!({"Name": "S", "Appends": entries});
        send("POST", "timeseries?docId=smalls/0".to_owned(), body.to_string())?;
    }
    Ok(())
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    let (clients, target) = TARGETS[usize::try_from(round)? % TARGETS.len()];
    let path = format!("/databases/{DATABASE}/{target}");
    at_once(clients, |_| {
        let mut client = HttpClient::connect(&stage.url)?;
        match client.send("GET", &path, b"") {
            Ok(answer) if answer.status == 200 || stage.is_refusal(&answer) => Ok(()),
            Ok(answer) => Err(format!("{path}: {}", answer.described()).into()),
            // A started response may be cut off: it is too late to reject it with a status.
            Err(_) => Ok(()),
        }
    })
}

/// A single client gets a complete response.
fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let path = format!("/databases/{DATABASE}/{}", TARGETS[0].1);
    let answer = stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("GET", &path, b""))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let rows = answer["Results"].as_array().map_or(0, Vec::len);
    checks.that(rows == ROWS, || format!("{rows} rows of {ROWS} were projected"));
    let usage = stage.get("/admin/debug/memory/stats")?["Usage"].clone();
    checks.that(usage["AnswersBytes"].as_u64() < Some(1 << 20), || {
        format!("aborted responses are still accounted for: {usage}")
    });
    Ok(())
}
