//! Randomly generated histories of batches.

use std::sync::Arc;

use commands::{Batch, Command, PatchCommand, WhenMissing};
use documents::{
    AttachmentTransfer, ChangeCounters, CounterStep, DeleteAttachment, ExpectedVersion,
    HiLoRequest, NewContent, PutAttachment,
    time_series::{Entry, MomentRange, TimeSeriesChange},
};
use model::{AttachmentName, CounterName, DocumentId, TimeSeriesName};
use platform::simulated::Random;

use crate::{
    Naive,
    database::{batch, delete, json, parsed, put, put_expecting},
    patches::{CREATE, SCRIPTS, patch_request},
};

/// Few ids, so that documents are replaced, deleted and recreated.
const IDS: u64 = 24;
const COMMANDS_MAX: u64 = 6;

/// A batch; most succeed, some have wrong expectations.
pub fn random_batch(random: &mut Random, naive: &Naive) -> Batch {
    let count = 1 + random.below(COMMANDS_MAX);
    batch((0..count).map(|_| random_command(random, naive)).collect::<Vec<_>>())
}

fn random_command(random: &mut Random, naive: &Naive) -> Command {
    let number = random.below(IDS);
    let id = spelled(random, number);
    let body = json(collection(random, number), &value(random));
    match random.below(64) {
        40..50 => random_attachment_command(random, naive, &id),
        50..54 => random_counters_command(random, &id),
        54..58 => random_time_series_command(random, &id),
        58.. => random_patch(random, naive, &id),
        0..16 => put(&id, &body),
        16 => put_expecting(&id, Some(""), &body),
        17..20 => put_expecting(&id, naive.version_of(&id).as_deref(), &body),
        20 => put_expecting(&id, Some("A:1-wrong"), &body),
        21..24 => put("numbered/", &body),
        24 => put("ident|", &body),
        25..33 => delete(&id, None),
        33 => delete(&id, naive.version_of(&id).as_deref()),
        34 => delete(&id, Some("A:1-wrong")),
        35 => Command::DeletePrefix {
            prefix: ["DOCS/1", "numbered/", "x"][random.below(3) as usize].to_owned(),
        },
        36 => Command::HiLoNext(HiLoRequest {
            tag: "docs".to_owned(),
            last_batch_size: 0,
            last_range_at_ticks: None,
            last_max: random.below(100).cast_signed(),
            separator: "/".to_owned(),
        }),
        37 => Command::HiLoReturn { tag: "docs".to_owned(), end: 32, last: 7 },
        38 => Command::IdentityNext { name: "Ident".to_owned() },
        _ => Command::IdentitySeed {
            name: "other".to_owned(),
            value: random.below(50).cast_signed(),
            force: random.below(2) == 0,
        },
    }
}

/// Few names and few contents, so that attachments are replaced and contents shared.
fn random_attachment_command(random: &mut Random, naive: &Naive, id: &str) -> Command {
    let mut any_name = || ["a.txt", "A.TXT", "b/é.bin", "long name"][random.below(4) as usize];
    let (name, other_name) = (any_name(), any_name());
    let other = spelled_any(random);
    let version = naive.attachment_version_of(id, name);
    let expected = match random.below(12) {
        0 => Some("".to_owned()),
        1 => Some("A:1-wrong".to_owned()),
        2..5 => version,
        _ => None,
    };
    let expected = ExpectedVersion::parse(expected.as_deref());
    let id = DocumentId::new(id).expect("a history's ids are short");
    let name = AttachmentName::new(name).expect("a history's names are short");
    let transfer = AttachmentTransfer {
        id: id.clone(),
        name: name.clone(),
        destination_id: DocumentId::new(other).expect("a history's ids are short"),
        destination_name: AttachmentName::new(other_name).expect("a history's names are short"),
        expected: expected.clone(),
    };
    match random.below(16) {
        0..9 => {
            let content_type = ["", "text/plain"][random.below(2) as usize].to_owned();
            let content = small_content(random);
            Command::PutAttachment(PutAttachment { id, name, content_type, expected, content })
        }
        9..12 => Command::DeleteAttachment(DeleteAttachment { id, name, expected }),
        12 => Command::CopyAttachment(transfer),
        13 => Command::MoveAttachment(transfer),
        14 => Command::StageContent {
            number: None,
            index: 0,
            bytes: Arc::new(noise(random, 5_000).into_bytes()),
        },
        _ => match random.below(4) {
            0 => Command::DiscardAllContents,
            _ => Command::RemoveLeftoverContents,
        },
    }
}

/// Few names, so that counters are incremented, deleted and recreated; some overflow.
fn random_counters_command(random: &mut Random, id: &str) -> Command {
    let step = |random: &mut Random| {
        let name = ["likes", "LIKES", "_x", "é"][random.below(4) as usize];
        let name = CounterName::new(name).expect("a history's names are short");
        match random.below(8) {
            0 | 1 => CounterStep::Delete { name },
            2 => CounterStep::Get { name },
            3 => CounterStep::Increment { name, by: i64::MAX / 4 },
            4 => CounterStep::Set { name, value: random.below(9).cast_signed() - 4 },
            _ => CounterStep::Increment { name, by: random.below(9).cast_signed() - 4 },
        }
    };
    let steps = (0..random.below(4)).map(|_| step(random)).collect();
    let id = DocumentId::new(id).expect("a history's ids are short");
    Command::ChangeCounters(ChangeCounters { id, steps, ignores_missing: false })
}

/// Few names and moments, so that entries are replaced and series deleted and recreated.
fn random_time_series_command(random: &mut Random, id: &str) -> Command {
    let name = ["HR", "hr", "b/é"][random.below(3) as usize];
    let name = TimeSeriesName::new(name).expect("a history's names are short");
    let id = DocumentId::new(id).expect("a history's ids are short");
    let mut change = TimeSeriesChange::new(id, name);
    if random.below(3) == 0 {
        let (from, length) = (random.below(60).cast_signed(), random.below(40).cast_signed());
        change.deletes.push(MomentRange { from, to: from + length });
    }
    for _ in 0..random.below(4) {
        let timestamp_ms = random.below(60).cast_signed();
        let values = [random.below(1000) as f64 / 100.0, 7.0];
        let values = &values[..1 + random.below(2) as usize];
        let tag = [None, Some("t")][random.below(2) as usize];
        change.appends.push(Entry { timestamp_ms, values, tag });
    }
    Command::ChangeTimeSeries(Box::new(change))
}

fn spelled_any(random: &mut Random) -> String {
    let number = random.below(IDS);
    spelled(random, number)
}

fn small_content(random: &mut Random) -> NewContent {
    let bytes: Vec<u8> = match random.below(8) {
        0 => Vec::new(),
        1 => vec![b'x'; 9_000],
        2 => noise(random, 20_000).into_bytes(),
        kind => vec![kind as u8; 10],
    };
    NewContent::Bytes { hash: documents::hash_of(&bytes), bytes }
}

/// A patch of a document that may be there, by a script that may name another one.
fn random_patch(random: &mut Random, naive: &Naive, id: &str) -> Command {
    let number = random.below(IDS);
    let other = spelled(random, number);
    let text = SCRIPTS[random.below(SCRIPTS.len() as u64) as usize];
    let script = patch_request(text, &other, &value(random), collection(random, number));
    let mut patch = PatchCommand::new(DocumentId::new(id).expect("ids are short"), script);
    match random.below(12) {
        0 => patch.expected = ExpectedVersion::Exactly("A:1-wrong".to_owned()),
        1 => patch.expected = ExpectedVersion::parse(naive.version_of(id).as_deref()),
        _ => {}
    }
    patch.skips_other_versions = random.below(2) == 0;
    match random.below(3) {
        0 => {
            let script = patch_request(CREATE, &other, "made", collection(random, number));
            patch.when_missing = WhenMissing::Run(script);
        }
        1 => patch.when_missing = WhenMissing::Create(Arc::new(parsed(&json("Users", "created")))),
        _ => {}
    }
    Command::Patch(Box::new(patch))
}

fn spelled(random: &mut Random, number: u64) -> String {
    if random.below(5) == 0 { format!("DOCS/{number}") } else { format!("docs/{number}") }
}

/// The collection of a document, which is occasionally wrong.
fn collection(random: &mut Random, number: u64) -> &'static str {
    const NAMES: [&str; 4] = ["Users", "Orders", "Café", "users"];
    if random.below(60) == 0 { "Wrong" } else { NAMES[(number % 4) as usize] }
}

/// Most are small; a few take pages of their own, and some of these cannot be compressed, so that the
/// journal needs its next file.
fn value(random: &mut Random) -> String {
    let length = match random.below(90) {
        0 => return noise(random, 40_000),
        1..4 => 20_000,
        4..16 => 3_000,
        _ => 20,
    };
    let seed = random.next_u64();
    let mut text = format!("{seed:x}-");
    while text.len() < length {
        text.push_str("filling ");
    }
    text
}

/// One document that fills most of a journal file, or one of random length.
pub fn large_batch(random: &mut Random) -> Batch {
    let id = format!("large/{}", random.below(3));
    let length = 100_000 + random.below(400_000) as usize;
    batch([put(&id, &json("Large", &noise(random, length)))])
}

/// Hexadecimal digits in no order; half of them is left after compression.
pub fn noise(random: &mut Random, length: usize) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        let number = random.next_u64();
        text.extend((0..16).map(|digit| char::from(DIGITS[(number >> (4 * digit)) as usize & 15])));
    }
    text
}
