//! The workload of compare exchange: each value replaces the one that was read last.

use std::collections::HashMap;

use consistency::{Exchange, ExchangeKind, NEVER, Outcome, Seen};
use serde_json::{Value, json};

use crate::{
    consistency::{
        Round,
        client::{Client, Played, Trouble},
    },
    random::Random,
};

/// Runs one process, until there are enough operations or the server is gone.
pub(crate) fn play(url: &str, round: &Round, mut random: Random) -> Played<Exchange> {
    let mut played = Played::default();
    let Some(mut client) = Client::connect(url, round.answer_time_max) else { return played };
    let mut known: HashMap<u64, Seen> = HashMap::new();
    while let Some(count) = round.begin() {
        let key = round.key(count, &mut random);
        let last = known.get(&key).map_or(0, |seen| seen.index);
        let kind = match random.below(3) {
            0 => ExchangeKind::Get,
            // Sometimes with an index that is not that of any version.
            _ => {
                let expected = if random.below(20) == 0 { last + 1 } else { last };
                ExchangeKind::Put { expected, value: round.value() }
            }
        };
        let began = round.now();
        let (outcome, seen) = match call(&mut client, key, kind) {
            Ok(answer) => answer,
            Err(Trouble::Broken(answer)) => {
                played.broken = Some(answer);
                return played;
            }
            Err(_) => {
                let seen = Seen { index: 0, value: 0 };
                let outcome = Outcome::Unknown;
                played.history.push(Exchange { key, kind, began, ended: NEVER, outcome, seen });
                return played;
            }
        };
        let ended = round.now();
        known.insert(key, seen);
        played.committed += 1;
        played.history.push(Exchange { key, kind, began, ended, outcome, seen });
    }
    played
}

/// Reads every key once.
pub(crate) fn read_all(url: &str, round: &Round) -> Played<Exchange> {
    let mut played = Played::default();
    let Some(mut client) = Client::connect(url, round.answer_time_max) else { return played };
    for key in round.keys() {
        let (kind, began) = (ExchangeKind::Get, round.now());
        match call(&mut client, key, kind) {
            Ok((outcome, seen)) => {
                let ended = round.now();
                played.history.push(Exchange { key, kind, began, ended, outcome, seen });
            }
            Err(_) => played.broken = Some(format!("the key {key} could not be read at the end")),
        }
    }
    played
}

fn call(client: &mut Client, key: u64, kind: ExchangeKind) -> Result<(Outcome, Seen), Trouble> {
    match kind {
        ExchangeKind::Get => {
            let answer = client.send("GET", &format!("/cmpxchg?key=x{key}"), &[], b"")?;
            let entry = &answer["Results"][0];
            Ok((Outcome::Committed, seen(entry)))
        }
        ExchangeKind::Put { expected, value } => {
            let target = format!("/cmpxchg?key=x{key}&index={expected}");
            let body = json!({"Object": value}).to_string();
            let answer = client.send("PUT", &target, &[], body.as_bytes())?;
            let outcome = match answer["Successful"] == true {
                true => Outcome::Committed,
                false => Outcome::Failed,
            };
            Ok((outcome, seen(&answer)))
        }
    }
}

fn seen(answer: &Value) -> Seen {
    Seen {
        index: answer["Index"].as_u64().unwrap_or(0),
        value: answer["Value"]["Object"].as_u64().unwrap_or(0),
    }
}
