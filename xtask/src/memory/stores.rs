//! Storing many documents at once.
//!
//! First into one database by several bulk inserts, then into many databases at once, so that
//! shared limits apply.

use std::time::Instant;

use serde_json::{Value, json};

use super::stage::{Stage, at_once};
use crate::{Failure, checks::Checks, drill_database::create_database, http_client::HttpClient};

/// Number of documents in the large database.
const DOCUMENTS: u64 = 500_000;
const INSERTS: u64 = 4;
/// Number of documents in each of many databases.
const DATABASES: u64 = 60;
const DOCUMENTS_EACH: u64 = 2_000;
const THREADS: u64 = 4;
const TEXT_BYTES: usize = 300;
const PIECE_BYTES: usize = 64 << 10;

/// The database with the most documents, `users/0` and so on.
pub(super) const ONE: &str = "one";

/// One of the many databases, by number modulo their count. Each has documents from `users/0` on.
pub(super) fn name_of_many(number: u64) -> String {
    format!("many{}", number % DATABASES)
}

/// Stores everything.
pub(super) fn store(stage: &Stage) -> Result<(), Failure> {
    let began = Instant::now();
    create_database(&stage.url, ONE)?;
    at_once(INSERTS, |insert| {
        let each = DOCUMENTS / INSERTS;
        insert_documents(stage, ONE, insert * each..(insert + 1) * each, TEXT_BYTES)
    })?;
    at_once(THREADS, |thread| {
        for number in (thread..DATABASES).step_by(THREADS as usize) {
            let name = name_of_many(number);
            create_database(&stage.url, &name)?;
            insert_documents(stage, &name, 0..DOCUMENTS_EACH, TEXT_BYTES)?;
        }
        Ok(())
    })?;
    println!(
        "memory: {DOCUMENTS} documents in one database and {DOCUMENTS_EACH} in each of {DATABASES} in {} s",
        began.elapsed().as_secs()
    );
    Ok(())
}

/// Checks that everything exists, and that the server knows its memory limit.
pub(super) fn judge(stage: &Stage, limit_bytes: u64, checks: &mut Checks) -> Result<(), Failure> {
    let statistics = stage.get("/admin/debug/memory/stats")?;
    let limit = &statistics["Limit"];
    checks
        .that(limit["Bytes"] == limit_bytes, || format!("the server reports {limit} as its limit"));
    checks.that(limit["LimitedBy"] == "the control group", || limit.to_string());
    println!("memory: {} {}", statistics["State"], statistics["Usage"]);
    let names = (0..DATABASES).map(|number| (name_of_many(number), DOCUMENTS_EACH));
    for (name, expected) in std::iter::once((ONE.to_owned(), DOCUMENTS)).chain(names) {
        let found = stage.get(&format!("/databases/{name}/stats"))?["CountOfDocuments"].clone();
        checks.that(found == expected, || format!("{name}: {found} documents of {expected}"));
    }
    let last = format!("/databases/one/docs?id=users/{}", DOCUMENTS - 1);
    let document = stage.get(&last)?["Results"][0]["Number"].clone();
    checks.that(document == DOCUMENTS - 1, || format!("the last document is {document}"));
    Ok(())
}

/// Stores `users/N` for these numbers by a bulk insert, each with a text of that length; retries
/// when it is rejected for lack of memory: the same documents under the same ids.
pub(super) fn insert_documents(
    stage: &Stage,
    database: &str,
    numbers: std::ops::Range<u64>,
    text_bytes: usize,
) -> Result<(), Failure> {
    let inserted = stage.until_taken(|attempt| {
        let id = numbers.start + attempt + 1;
        let path = format!("/databases/{database}/bulk_insert?id={id}");
        HttpClient::connect(&stage.url)?.stream("POST", &path, pieces(numbers.clone(), text_bytes))
    });
    inserted.map(drop).map_err(|error| format!("{database}: {error}").into())
}

/// A bulk insert's body.
fn pieces(numbers: std::ops::Range<u64>, text_bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let (first, end) = (numbers.start, numbers.end);
    let mut numbers = numbers;
    let mut is_done = false;
    std::iter::from_fn(move || {
        let mut piece = Vec::with_capacity(PIECE_BYTES + text_bytes + 1024);
        while piece.len() < PIECE_BYTES && !is_done {
            let Some(number) = numbers.next() else {
                piece.push(b']');
                is_done = true;
                break;
            };
            piece.push(if number == first { b'[' } else { b',' });
            piece.extend_from_slice(element(number, end, text_bytes).to_string().as_bytes());
        }
        (!piece.is_empty()).then_some(piece)
    })
}

/// Documents of different content, so that compression does not make them small.
fn element(number: u64, salt: u64, text_bytes: usize) -> Value {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state % 26) as u8)
    };
    let text: String = (0..text_bytes).map(|_| letter()).collect();
    json!({
        "Id": format!("users/{number}"), "ChangeVector": null, "Type": "PUT",
        "Document": {"Number": number, "Text": text, "@metadata": {"@collection": "Users"}},
    })
}
