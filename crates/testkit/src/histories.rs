//! Histories of batches, made by dice.

use commands::{Batch, Command};
use documents::HiLoRequest;
use platform::simulated::Random;

use crate::{
    Naive,
    database::{batch, delete, json, put, put_expecting},
};

/// Few ids, so that documents are replaced, deleted and made again.
const IDS: u64 = 24;
const COMMANDS_MAX: u64 = 6;

/// A batch; most succeed, some ask for what is not so.
pub fn random_batch(random: &mut Random, naive: &Naive) -> Batch {
    let count = 1 + random.below(COMMANDS_MAX);
    batch((0..count).map(|_| random_command(random, naive)).collect::<Vec<_>>())
}

fn random_command(random: &mut Random, naive: &Naive) -> Command {
    let number = random.below(IDS);
    let id = spelled(random, number);
    let body = json(collection(random, number), &value(random));
    match random.below(40) {
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

fn spelled(random: &mut Random, number: u64) -> String {
    if random.below(5) == 0 { format!("DOCS/{number}") } else { format!("docs/{number}") }
}

/// A document has its collection, and now and then somebody gets it wrong.
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

/// One document that fills most of a journal file, or one of a length of its own.
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
