//! Anomalies that single transactions show: contradictions within one, lost updates, fractured reads.

use std::collections::{BTreeMap, HashMap};

use crate::{
    anomaly::{Anomaly, Finding},
    history::{Step, Transaction},
    versions::{INITIAL, Versions},
};

pub(crate) fn check(history: &[Transaction], versions: &Versions, findings: &mut Vec<Finding>) {
    for (place, transaction) in history.iter().enumerate() {
        if transaction.is_committed() {
            check_itself(place, transaction, findings);
        }
    }
    let seen: Vec<BTreeMap<u64, u64>> = history.iter().map(versions_read).collect();
    find_lost_updates(history, &seen, versions, findings);
    find_fractured_reads(history, &seen, versions, findings);
}

/// A transaction sees one version of each key, and then its own writes.
fn check_itself(place: usize, transaction: &Transaction, findings: &mut Vec<Finding>) {
    let mut lists: HashMap<u64, (Option<&[u64]>, Vec<u64>)> = HashMap::new();
    let mut values: HashMap<u64, u64> = HashMap::new();
    for step in &transaction.steps {
        let wrong = match step {
            Step::Append { key, value } => {
                lists.entry(*key).or_default().1.push(*value);
                None
            }
            Step::List { key, values } => {
                let (before, own) = lists.entry(*key).or_default();
                let outside = values.strip_suffix(own.as_slice());
                let is_wrong = match (outside, *before) {
                    (None, _) => true,
                    (Some(outside), Some(before)) => outside != before,
                    (Some(outside), None) => {
                        *before = Some(outside);
                        false
                    }
                };
                is_wrong.then_some((key, format!("{values:?}")))
            }
            Step::Write { key, value } => {
                values.insert(*key, *value);
                None
            }
            Step::Value { key, value } => {
                let before = *values.entry(*key).or_insert(*value);
                (before != *value).then(|| (key, format!("{value} after {before}")))
            }
        };
        if let Some((key, shown)) = wrong {
            let detail = format!("key {key} was read as {shown}, against what was known");
            findings.push(Finding::new(Anomaly::Internal, vec![place], detail));
        }
    }
}

/// The version of each key that a transaction saw, as it was before its own writes.
fn versions_read(transaction: &Transaction) -> BTreeMap<u64, u64> {
    let mut seen = BTreeMap::new();
    let mut written: HashMap<u64, Vec<u64>> = HashMap::new();
    for step in &transaction.steps {
        match step {
            Step::List { key, values } => {
                let own = written.get(key).map_or(&[][..], Vec::as_slice);
                if let Some(outside) = values.strip_suffix(own) {
                    seen.entry(*key).or_insert(outside.last().copied().unwrap_or(INITIAL));
                }
            }
            Step::Value { key, value } if !written.contains_key(key) => {
                seen.entry(*key).or_insert(*value);
            }
            Step::Value { .. } => {}
            Step::Append { key, value } | Step::Write { key, value } => {
                written.entry(*key).or_default().push(*value);
            }
        }
    }
    seen
}

/// The keys that a transaction wrote, with their last values.
fn writes(transaction: &Transaction) -> BTreeMap<u64, u64> {
    let write = |step: &Step| match *step {
        Step::Append { key, value } | Step::Write { key, value } => Some((key, value)),
        Step::List { .. } | Step::Value { .. } => None,
    };
    transaction.steps.iter().filter_map(write).collect()
}

fn find_lost_updates(
    history: &[Transaction],
    seen: &[BTreeMap<u64, u64>],
    versions: &Versions,
    findings: &mut Vec<Finding>,
) {
    let mut replaced: HashMap<(u64, u64), usize> = HashMap::new();
    for (place, transaction) in history.iter().enumerate() {
        for (key, value) in writes(transaction) {
            let is_there = versions.keys.get(&key).and_then(|of_key| of_key.writers.get(&value));
            if is_there != Some(&place) {
                continue;
            }
            let Some(version) = seen[place].get(&key) else { continue };
            if let Some(other) = replaced.insert((key, *version), place) {
                let detail = format!("both read key {key} at {version} and replaced it");
                findings.push(Finding::new(Anomaly::LostUpdate, vec![other, place], detail));
            }
        }
    }
}

fn find_fractured_reads(
    history: &[Transaction],
    seen: &[BTreeMap<u64, u64>],
    versions: &Versions,
    findings: &mut Vec<Finding>,
) {
    for (reader, seen) in seen.iter().enumerate() {
        if !history[reader].is_committed() {
            continue;
        }
        for (key, version) in seen {
            let writer = versions.keys.get(key).and_then(|of_key| of_key.writers.get(version));
            let Some(writer) = writer.filter(|writer| **writer != reader) else { continue };
            for (other, written) in writes(&history[*writer]) {
                let Some(read) = seen.get(&other) else { continue };
                let ranks = versions.keys.get(&other).map(|of_key| &of_key.ranks);
                let rank = |version| ranks.and_then(|ranks| ranks.get(version));
                if let (Some(read_rank), Some(written_rank)) = (rank(read), rank(&written))
                    && read_rank < written_rank
                {
                    let detail = format!(
                        "key {key} is seen at {version}, and key {other} at {read}, before the \
                         same transaction's {written}"
                    );
                    let transactions = vec![reader, *writer];
                    findings.push(Finding::new(Anomaly::FracturedRead, transactions, detail));
                }
            }
        }
    }
}
