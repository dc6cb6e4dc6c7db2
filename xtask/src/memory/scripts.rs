//! The step of scripts that fill their heaps, in as many databases as there are threads that commit: some leave garbage
//! behind, some keep what they made, some are busy until they are stopped.

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "scripts", prepare, round, judge };

const DATABASES: u64 = 24;
/// One in each round. All stay below the 16 MB of a heap.
const SCRIPTS: &[&str] = &[
    "var a = []; for (var i = 0; i < 140; i++) a.push('x'.padEnd(100000, String(i))); a.push(a); this.N = a.length;",
    "function f() {} f.kept = []; for (var i = 0; i < 140; i++) f.kept.push('x'.padEnd(100000, String(i))); this.N = f.kept.length;",
    "var a = []; for (var i = 0; i < 14; i++) a.push('x'.repeat(1000000) + i); for (var j = 0; j < 200; j++) a[j % 14].lastIndexOf('y'); this.N = a.length;",
];

fn database(number: u64) -> String {
    format!("scripts-{number}")
}

fn prepare(stage: &Stage) -> Result<(), Failure> {
    for number in 0..DATABASES {
        create_database(&stage.url, &database(number))?;
        let path = format!("/databases/{}/docs?id=a", database(number));
        stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("PUT", &path, b"{}"))?;
    }
    Ok(())
}

fn round(stage: &Stage, round: u64) -> Result<(), Failure> {
    let script = SCRIPTS[usize::try_from(round)? % SCRIPTS.len()];
    let body = json!({"Patch": {"Script": script, "Values": {}}}).to_string();
    at_once(DATABASES, |number| {
        let path = format!("/databases/{}/docs?id=a", database(number));
        let answer = HttpClient::connect(&stage.url)?.send("PATCH", &path, body.as_bytes())?;
        // A script may run out of its time: all others run beside it.
        let is_out_of_time = String::from_utf8_lossy(&answer.body).contains("JavaScriptException");
        match matches!(answer.status, 200..=299) || is_out_of_time || stage.is_refusal(&answer) {
            true => Ok(()),
            false => Err(format!("{script}: {}", answer.described()).into()),
        }
    })
}

fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    for number in 0..DATABASES {
        let found = stage.get(&format!("/databases/{}/stats", database(number)))?;
        let found = &found["CountOfDocuments"];
        checks.that(*found == 1, || format!("{found} documents where scripts ran"));
    }
    Ok(())
}
