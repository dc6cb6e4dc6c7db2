//! The versions of registers: a transaction that read one value and wrote another reveals their
//! order.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    anomaly::{Anomaly, Finding},
    history::{Outcome, Step, Transaction},
    versions::{INITIAL, KeyVersions, Versions},
};

pub(crate) fn versions_of(history: &[Transaction], findings: &mut Vec<Finding>) -> Versions {
    let mut written: HashMap<(u64, u64), (usize, bool)> = HashMap::new();
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    for (by, transaction) in history.iter().enumerate() {
        let mut last = HashMap::new();
        for step in &transaction.steps {
            match *step {
                Step::Write { key, value } => {
                    if let Some(before) = last.insert(key, value) {
                        written.insert((key, before), (by, false));
                    }
                    written.insert((key, value), (by, true));
                }
                Step::Value { key, value } if transaction.is_committed() => {
                    seen.insert((key, value));
                }
                Step::Value { .. } | Step::Append { .. } | Step::List { .. } => {}
            }
        }
    }
    let mut versions = Versions::default();
    for (&(key, value), &(by, is_last)) in &written {
        let outcome = history[by].outcome;
        let is_there = outcome == Outcome::Committed
            || (outcome == Outcome::Unknown && seen.contains(&(key, value)));
        if is_last && is_there {
            versions.key(key).writers.insert(value, by);
        }
    }
    for (by, transaction) in history.iter().enumerate() {
        note_reads(by, transaction, history, &written, &mut versions, findings);
    }
    for (key, of_key) in &mut versions.keys {
        rank(*key, of_key, findings);
    }
    versions
}

/// The external values that a transaction read, and what it replaced them with.
fn note_reads(
    by: usize,
    transaction: &Transaction,
    history: &[Transaction],
    written: &HashMap<(u64, u64), (usize, bool)>,
    versions: &mut Versions,
    findings: &mut Vec<Finding>,
) {
    let mut read: BTreeMap<u64, u64> = BTreeMap::new();
    let mut replaced: BTreeMap<u64, u64> = BTreeMap::new();
    for step in &transaction.steps {
        match *step {
            Step::Value { key, value } if !replaced.contains_key(&key) => {
                read.entry(key).or_insert(value);
                if !transaction.is_committed() {
                    continue;
                }
                versions.key(key).readers.entry(value).or_default().push(by);
                match written.get(&(key, value)) {
                    _ if value == INITIAL => {}
                    None => {
                        let detail = format!("{value} was never written to key {key}");
                        findings.push(Finding::new(Anomaly::Garbage, vec![by], detail));
                    }
                    Some((writer, _)) if history[*writer].outcome == Outcome::Failed => {
                        let detail =
                            format!("{value} of key {key} is of a transaction that was refused");
                        findings.push(Finding::new(Anomaly::G1a, vec![by, *writer], detail));
                    }
                    Some((writer, false)) if *writer != by => {
                        let detail = format!("{value} of key {key} was written over at once");
                        findings.push(Finding::new(Anomaly::G1b, vec![by, *writer], detail));
                    }
                    Some(_) => {}
                }
            }
            Step::Write { key, value } => {
                replaced.insert(key, value);
            }
            Step::Value { .. } | Step::Append { .. } | Step::List { .. } => {}
        }
    }
    for (key, value) in replaced {
        let of_key = versions.key(key);
        if of_key.writers.get(&value) == Some(&by) {
            // A blind write came after the initial value, and nothing more is known.
            let before = read.get(&key).copied().unwrap_or(INITIAL);
            of_key.next.entry(before).or_default().push(value);
        }
    }
}

/// Finds how far each version is from the initial one, when they are a line.
fn rank(key: u64, of_key: &mut KeyVersions, findings: &mut Vec<Finding>) {
    let is_line = of_key.next.values().all(|next| next.len() == 1);
    let (mut version, mut rank) = (INITIAL, 0);
    let mut ranks = HashMap::from([(INITIAL, 0)]);
    while let Some(next) = of_key.next.get(&version) {
        version = next[0];
        rank += 1;
        if ranks.insert(version, rank).is_some() {
            break;
        }
    }
    if is_line {
        let unreached = of_key.writers.keys().filter(|value| !ranks.contains_key(value)).count();
        if 0 < unreached {
            let detail = format!("{unreached} versions of key {key} follow only each other");
            let writers = of_key.writers.values().copied().collect();
            findings.push(Finding::new(Anomaly::CyclicVersions, writers, detail));
            return;
        }
        of_key.ranks = ranks;
    }
}
