//! The steps of changes that are far larger than their requests: patches that grow, and very many
//! deletes in one batch. Each is applied completely, or rejected with a reason and not applied at
//! all.

use serde_json::{Value, json};

use super::{Step, stage::Stage};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

const GROWING: &str = "growing";
const DELETED: &str = "deleted";
/// Number of documents that are deleted in one batch.
const DELETES: u64 = 100_000;
/// Number of documents stored in one request.
const BATCH: u64 = 2_000;
/// Each creates a document whose JSON text exceeds the maximum size, although its stored form is
/// small.
const SCRIPTS: &[&str] = &[
    "const s = 'x'.repeat(1 << 20); this.Many = new Array(4000).fill(s);",
    "const s = 'x'.repeat(1 << 20); put('growing/', { Many: new Array(4000).fill(s) });",
    "let o = { Text: 'x'.repeat(1000) }; for (let i = 0; i < 24; i++) o = { a: o, b: o }; this.Many = o;",
];
/// Creates a document of 16 MB.
const FITTING: &str = "const s = 'x'.repeat(1 << 20); this.Many = new Array(16).fill(s);";

pub(super) const PATCHES: Step = Step {
    name: "patches that grow",
    prepare: prepare_patches,
    round: patch,
    judge: judge_patches,
};

pub(super) const DELETES_AT_ONCE: Step = Step {
    name: "deletes in one batch",
    prepare: prepare_deletes,
    round: delete,
    judge: judge_deletes,
};

fn prepare_patches(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, GROWING)?;
    let put = json!({"Id": "growing/1", "Type": "PUT", "ChangeVector": null, "Document": {"N": 1}});
    send_commands(stage, GROWING, &[put])
}

fn send_commands(stage: &Stage, database: &str, commands: &[Value]) -> Result<(), Failure> {
    let body = json!({"Commands": commands}).to_string();
    let path = format!("/databases/{database}/bulk_docs");
    stage
        .until_taken(|_| HttpClient::connect(&stage.url)?.send("POST", &path, body.as_bytes()))
        .map(drop)
}

fn patch(stage: &Stage, _: u64) -> Result<(), Failure> {
    for script in SCRIPTS {
        let answer = send_patch(stage, script)?;
        let is_too_large = matches!(answer.status, 400..=500) && !answer.body.is_empty();
        if !is_too_large && !stage.is_refusal(&answer) {
            return Err(format!("a patch that grows: {}", answer.described()).into());
        }
    }
    let fitting = send_patch(stage, FITTING)?;
    if !matches!(fitting.status, 200..=299) && !stage.is_refusal(&fitting) {
        return Err(format!("a patch that fits: {}", fitting.described()).into());
    }
    let answer = HttpClient::connect(&stage.url)?.send(
        "GET",
        "/databases/growing/docs?id=growing/1",
        b"",
    )?;
    if answer.status != 200 && !stage.is_refusal(&answer) {
        return Err(format!("reading a document that grew: {}", answer.status).into());
    }
    Ok(())
}

fn send_patch(stage: &Stage, script: &str) -> Result<crate::http_client::Answer, Failure> {
    let body = json!({"Patch": {"Script": script, "Values": {}}}).to_string();
    let path = "/databases/growing/docs?id=growing/1";
    Ok(HttpClient::connect(&stage.url)?.send("PATCH", path, body.as_bytes())?)
}

fn judge_patches(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let found = stage.get("/databases/growing/stats")?["CountOfDocuments"].clone();
    checks.that(found == 1, || format!("patches that were refused left {found} documents"));
    Ok(())
}

fn prepare_deletes(stage: &Stage) -> Result<(), Failure> {
    create_database(&stage.url, DELETED)?;
    store(stage)
}

fn store(stage: &Stage) -> Result<(), Failure> {
    for first in (0..DELETES).step_by(BATCH as usize) {
        let put = |number| {
            json!({"Id": format!("deleted/{number}"), "Type": "PUT", "ChangeVector": null,
                   "Document": {"N": number}})
        };
        let commands: Vec<_> = (first..first + BATCH).map(put).collect();
        send_commands(stage, DELETED, &commands)?;
    }
    Ok(())
}

/// Deletes everything in one batch; if that is rejected, nothing may be deleted, and smaller
/// batches follow.
fn delete(stage: &Stage, _: u64) -> Result<(), Failure> {
    let path = format!("/databases/{DELETED}/bulk_docs");
    let mut at_once = DELETES;
    let mut done = 0;
    while done < DELETES {
        let end = (done + at_once).min(DELETES);
        let delete = |number| json!({"Id": format!("deleted/{number}"), "Type": "DELETE", "ChangeVector": null});
        let commands: Vec<_> = (done..end).map(delete).collect();
        let body = json!({"Commands": commands}).to_string();
        let answer = HttpClient::connect(&stage.url)?.send("POST", &path, body.as_bytes())?;
        match answer.status {
            200..=299 => done = end,
            _ if stage.is_refusal(&answer) => {
                let count = count(stage)?;
                if count != DELETES - done {
                    return Err(format!("after a refusal there are {count} documents").into());
                }
                at_once = (at_once / 2).max(1);
            }
            _ => return Err(format!("deleting: {}", answer.described()).into()),
        }
    }
    let left = count(stage)?;
    if left != 0 {
        return Err(format!("{left} documents are left").into());
    }
    store(stage)
}

fn count(stage: &Stage) -> Result<u64, Failure> {
    let found = stage.get(&format!("/databases/{DELETED}/stats"))?["CountOfDocuments"].clone();
    found.as_u64().ok_or_else(|| format!("{found} documents").into())
}

fn judge_deletes(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let count = count(stage)?;
    checks.that(count == DELETES, || format!("{count} documents of {DELETES} are there"));
    Ok(())
}
