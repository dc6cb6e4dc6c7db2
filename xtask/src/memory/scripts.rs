//! The step of scripts that fill their heaps, in more databases than there are places for scripts: some leave garbage
//! behind, some keep what they made, some are busy for long.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{
    Step,
    stage::{Stage, at_once},
};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

pub(super) const STEP: Step = Step { name: "scripts", prepare, round, judge };

const DATABASES: u64 = 24;
/// One in each round, and the `N` that it leaves in the document. All stay below the 16 MB of a heap.
const SCRIPTS: [(&str, u64); 3] = [
    (
        "var a = []; for (var i = 0; i < 140; i++) a.push('x'.padEnd(100000, String(i))); a.push(a); \
         this.N = a.length;",
        141,
    ),
    (
        "function f() {} f.kept = []; for (var i = 0; i < 140; i++) f.kept.push('x'.padEnd(100000, String(i))); \
         this.N = f.kept.length;",
        140,
    ),
    (
        "var a = []; for (var i = 0; i < 14; i++) a.push('x'.repeat(1000000) + i); \
         for (var j = 0; j < 40; j++) a[j % 14].lastIndexOf('y'); this.N = a.length;",
        14,
    ),
];
/// How often each of them succeeded.
static SUCCEEDED: [AtomicU64; SCRIPTS.len()] = [const { AtomicU64::new(0) }; SCRIPTS.len()];

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
    let which = usize::try_from(round)? % SCRIPTS.len();
    let (script, left) = SCRIPTS[which];
    let body = json!({"Patch": {"Script": script, "Values": {}}}).to_string();
    at_once(DATABASES, |number| {
        let path = format!("/databases/{}/docs?id=a", database(number));
        let answer = HttpClient::connect(&stage.url)?.send("PATCH", &path, body.as_bytes())?;
        if matches!(answer.status, 200..=299) {
            let found = stage.get(&path)?["Results"][0]["N"].clone();
            if found != left {
                return Err(format!("{script}: it left N = {found}").into());
            }
            SUCCEEDED[which].fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // A script may run out of its time: all others run beside it.
        let is_out_of_time = String::from_utf8_lossy(&answer.body).contains("JavaScriptException");
        match is_out_of_time || stage.is_refusal(&answer) {
            true => Ok(()),
            false => Err(format!("{script}: {}", answer.described()).into()),
        }
    })
}

fn judge(_stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    for ((script, _), succeeded) in SCRIPTS.iter().zip(&SUCCEEDED) {
        checks.that(0 < succeeded.load(Ordering::Relaxed), || {
            format!("it never succeeded: {script}")
        });
    }
    Ok(())
}
