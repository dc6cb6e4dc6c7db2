//! The step of definitions: large indexes in JavaScript are defined and deleted all the time. Each change writes the record
//! of the database, with all of them, to the server's own environment.

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "large definitions", prepare, round, judge };

const DATABASE: &str = "defined";
const INDEXES: u64 = 12;
/// Numbers in the map of the smallest index, about six bytes each; the others are multiples of it.
const NUMBERS: u64 = 4_000;

fn prepare(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DATABASE)?;
    let body = json!({"N": 1, "@metadata": {"@collection": "Items"}}).to_string();
    let path = format!("/databases/{DATABASE}/docs?id=items/1");
    stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("PUT", &path, body.as_bytes()))?;
    Ok(())
}

fn definition(name: &str, numbers: u64) -> String {
    let numbers: Vec<String> = (0..numbers).map(|number| number.to_string()).collect();
    let map = format!("map('Items', i => ({{ N: [{}] }}))", numbers.join(","));
    json!({"Indexes": [{"Name": name, "Maps": [map]}]}).to_string()
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    at_once(INDEXES, |number| {
        let name = format!("Numbers{number}");
        let mut client = HttpClient::connect(&stage.url)?;
        let answer = if round.is_multiple_of(4) {
            client.send("DELETE", &format!("/databases/{DATABASE}/indexes?name={name}"), b"")?
        } else {
            let body = definition(&name, NUMBERS * (1 + number) + round);
            client.send("PUT", &format!("/databases/{DATABASE}/admin/indexes"), body.as_bytes())?
        };
        // It may not have been defined, or be deleted already.
        match matches!(answer.status, 201 | 204 | 404) || stage.is_refusal(&answer) {
            true => Ok(()),
            false => Err(format!("a large definition: {}", answer.described()).into()),
        }
    })
}

/// An index can still be defined.
fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let body = definition("Small", 1);
    let path = format!("/databases/{DATABASE}/admin/indexes");
    let answer = stage
        .until_taken(|_| HttpClient::connect(&stage.url)?.send("PUT", &path, body.as_bytes()))?;
    checks.that(answer.status == 201, || {
        format!("an index after large ones: {}", answer.described())
    });
    Ok(())
}
