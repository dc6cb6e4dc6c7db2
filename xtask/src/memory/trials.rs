//! The step of trial indexes: an index is built in memory over a few documents, and its output is
//! far larger than they are. It is rejected with a reason, and its memory is released.

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "trials of indexes", prepare, round, judge };

const DATABASE: &str = "tried";
const DOCUMENTS: u64 = 200;
const TAGS: u64 = 200;
const CLIENTS: u64 = 8;
/// Text in each result of a reduce.
const LITERAL_BYTES: usize = 200_000;
const SMALL: &str = "from i in docs.Items select new { i.N }";
/// One entry per tag, each with a long stored text. The results of the map for one document are
/// small.
const FAN_OUT: &str = "from i in docs.Items from t in i.Tags \
     select new { t, Text = t + t + t + t + t + t + t + t + t + t + i.N, More = t + i.N + t + t + t + t + t + t }";

fn prepare(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DATABASE)?;
    let tags: Vec<_> = (0..TAGS).map(|n| format!("a tag of many letters, number {n}")).collect();
    for number in 0..DOCUMENTS {
        let body =
            json!({"N": number, "Tags": tags, "@metadata": {"@collection": "Items"}}).to_string();
        let path = format!("/databases/{DATABASE}/docs?id=items/{number}");
        stage.until_taken(|_| {
            HttpClient::connect(&stage.url)?.send("PUT", &path, body.as_bytes())
        })?;
    }
    Ok(())
}

fn definition(round: u64) -> serde_json::Value {
    if round.is_multiple_of(2) {
        return json!({"Maps": [FAN_OUT], "Fields": {"Text": {"Storage": "Yes"}}});
    }
    let literal = "x".repeat(LITERAL_BYTES);
    let reduce = format!(
        "from r in results group r by r.N into g select new {{ N = g.Key, Text = \"{literal}\" }}"
    );
    json!({"Maps": ["from i in docs.Items select new { i.N, Text = \"\" }"], "Reduce": reduce})
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    let body = json!({"IndexDefinition": definition(round), "MaxDocumentsToProcess": DOCUMENTS});
    let body = body.to_string();
    at_once(CLIENTS, |_| {
        let path = format!("/databases/{DATABASE}/indexes/test");
        let answer = HttpClient::connect(&stage.url)?.send("POST", &path, body.as_bytes())?;
        // Too many entries for a trial, or more memory than it may ever have.
        let is_too_large = answer.status == 413 || {
            let text = String::from_utf8_lossy(&answer.body);
            answer.status == 500 && text.contains("more than")
        };
        match is_too_large || stage.is_refusal(&answer) {
            true => Ok(()),
            false => {
                Err(format!("a definition with too much output: {}", answer.described()).into())
            }
        }
    })
}

/// A trial with a small output succeeds.
fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let body =
        json!({"IndexDefinition": {"Maps": [SMALL]}, "MaxDocumentsToProcess": 10}).to_string();
    let path = format!("/databases/{DATABASE}/indexes/test");
    let answer = stage
        .until_taken(|_| HttpClient::connect(&stage.url)?.send("POST", &path, body.as_bytes()))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let mapped = answer["MapResults"].as_array().map_or(0, Vec::len);
    checks.that(mapped == 10, || format!("{mapped} results of 10 documents in an index test"));
    Ok(())
}
