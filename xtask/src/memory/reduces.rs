//! The step of map-reduce indexes over documents with many rows each: an index is rebuilt in every
//! round, over more keys than pages fit into its memory.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Step, stage::Stage};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

const DATABASES: u64 = 4;
/// Number of rows in each document.
const DOCUMENTS: u64 = 6_000;
const TAGS: u64 = 20;
const DISTINCT: u64 = 4_000;
const BATCH: u64 = 500;
/// How long an index may take.
const INDEXING_MAX: Duration = Duration::from_secs(300);
const LOOK_PAUSE: Duration = Duration::from_millis(250);

pub(super) const REDUCES: Step = Step { name: "reduces over a fan-out", prepare, round, judge };

fn name(number: u64) -> String {
    format!("reduced{number}")
}

fn prepare(stage: &Stage) -> Result<(), Failure> {
    for number in 0..DATABASES {
        create_database(&stage.url, &name(number))?;
        for first in (0..DOCUMENTS).step_by(BATCH as usize) {
            let commands: Vec<_> = (first..first + BATCH).map(put).collect();
            let body = json!({"Commands": commands}).to_string();
            let path = format!("/databases/{}/bulk_docs", name(number));
            stage.until_taken(|_| {
                HttpClient::connect(&stage.url)?.send("POST", &path, body.as_bytes())
            })?;
        }
        let definition = json!({"Indexes": [{
            "Name": "Tags",
            "Maps": ["from p in docs.Posts from t in p.Tags select new { Tag = t, Count = 1, N = p.N }"],
            "Reduce": "from r in results group r by r.Tag into g select new { Tag = g.Key, \
                       Count = g.Sum(x => x.Count), N = g.Sum(x => x.N) }",
        }]});
        let path = format!("/databases/{}/admin/indexes", name(number));
        let body = definition.to_string();
        stage.until_taken(|_| {
            HttpClient::connect(&stage.url)?.send("PUT", &path, body.as_bytes())
        })?;
    }
    Ok(())
}

fn tag(number: u64, place: u64) -> u64 {
    (number * 7919 + place * place * 104_729) % DISTINCT
}

fn put(number: u64) -> Value {
    let tags: Vec<_> = (0..TAGS).map(|place| format!("tag{}", tag(number, place))).collect();
    json!({"Id": format!("posts/{number}"), "Type": "PUT", "ChangeVector": null, "Document": {
        "N": number, "Tags": tags, "@metadata": {"@collection": "Posts"},
    }})
}

/// Waits until the indexes have caught up, then resets them.
fn round(stage: &Stage, _: u64) -> Result<(), Failure> {
    for number in 0..DATABASES {
        wait_until_indexed(stage, &name(number))?;
    }
    for number in 0..DATABASES {
        let path = format!("/databases/{}/indexes?name=Tags", name(number));
        stage.until_taken(|_| HttpClient::connect(&stage.url)?.send("RESET", &path, b""))?;
    }
    Ok(())
}

fn wait_until_indexed(stage: &Stage, database: &str) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        let path = format!("/databases/{database}/indexes/stats?name=Tags");
        let answer = HttpClient::connect(&stage.url)?.send("GET", &path, b"")?;
        if !stage.is_refusal(&answer) {
            let found: Value = serde_json::from_slice(&answer.body)?;
            let found = &found["Results"][0];
            if found["IsStale"] == false {
                return Ok(());
            }
            // An index that waits for memory is shown as paused, and goes on by itself.
            if INDEXING_MAX < began.elapsed() {
                return Err(format!("{database}: the index makes no progress: {found}").into());
            }
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// The results count every tag of every document once.
fn judge(stage: &Stage, checks: &mut Checks) -> Result<(), Failure> {
    let mut counts = vec![0_u64; DISTINCT as usize];
    for number in 0..DOCUMENTS {
        (0..TAGS).for_each(|place| counts[tag(number, place) as usize] += 1);
    }
    let keys = counts.iter().filter(|count| 0 < **count).count();
    for number in 0..DATABASES {
        wait_until_indexed(stage, &name(number))?;
        let sample = counts.iter().position(|count| 0 < *count).unwrap_or(0);
        let query = format!("from%20index%20'Tags'%20where%20Tag%20=%20'tag{sample}'");
        let path = format!("/databases/{}/queries?query={query}", name(number));
        let found = stage.get(&path)?;
        let count = &found["Results"][0]["Count"];
        checks.that(*count == counts[sample], || {
            format!("{}: tag{sample} is counted {count} times of {}", name(number), counts[sample])
        });
        let query = "from%20index%20'Tags'%20limit%200";
        let all = stage.get(&format!("/databases/{}/queries?query={query}", name(number)))?;
        checks.that(all["TotalResults"] == keys, || {
            format!("{}: {} tags of {keys}", name(number), all["TotalResults"])
        });
    }
    Ok(())
}
