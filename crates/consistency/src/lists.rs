//! The versions of lists that grow: a list's last element names its version, and the longest list
//! that was read defines their order.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    anomaly::{Anomaly, Finding},
    history::{Outcome, Step, Transaction},
    versions::{INITIAL, KeyVersions, Versions},
};

struct Write {
    by: usize,
    is_last: bool,
    outcome: Outcome,
}

type Writes = HashMap<(u64, u64), Write>;

pub(crate) fn versions_of(history: &[Transaction], findings: &mut Vec<Finding>) -> Versions {
    let writes = writes_of(history);
    let mut longest: BTreeMap<u64, (&[u64], usize)> = BTreeMap::new();
    let mut versions = Versions::default();
    for Read { reader, key, values, outside } in reads_of(history) {
        let (longest_so_far, _) = longest.entry(key).or_insert((values, reader));
        if longest_so_far.len() < values.len() {
            longest.insert(key, (values, reader));
        }
        check_values(key, values, reader, &writes, findings);
        let version = outside.last().copied().unwrap_or(INITIAL);
        versions.key(key).readers.entry(version).or_default().push(reader);
    }
    for Read { reader, key, values, .. } in reads_of(history) {
        let (order, by) = longest[&key];
        if !order.starts_with(values) {
            let detail = format!("key {key} was read as {values:?} and as {order:?}");
            findings.push(Finding::new(Anomaly::IncompatibleOrder, vec![reader, by], detail));
        }
    }
    for ((key, value), write) in &writes {
        let is_seen = longest.get(key).is_some_and(|(order, _)| order.contains(value));
        // It is unknown whether a write that was neither seen nor acknowledged took effect.
        if write.outcome == Outcome::Committed || (is_seen && write.outcome == Outcome::Unknown) {
            versions.key(*key);
            if write.is_last {
                versions.key(*key).writers.insert(*value, write.by);
            }
        }
    }
    for (key, of_key) in &mut versions.keys {
        let order = longest.get(key).map_or(&[][..], |(order, _)| order);
        put_in_order(order, of_key);
    }
    versions
}

/// Only the final versions of a transaction count, not the intermediate ones.
fn put_in_order(order: &[u64], of_key: &mut KeyVersions) {
    let mut before = INITIAL;
    of_key.ranks.insert(INITIAL, 0);
    for value in order.iter().filter(|value| of_key.writers.contains_key(value)) {
        of_key.next.entry(before).or_default().push(*value);
        of_key.ranks.insert(*value, of_key.ranks.len());
        before = *value;
    }
    let known: HashSet<u64> = order.iter().copied().collect();
    let behind = of_key.ranks.len();
    let mut unseen: Vec<u64> =
        of_key.writers.keys().copied().filter(|value| !known.contains(value)).collect();
    unseen.sort_unstable();
    // A write that was acknowledged and never seen must come after everything that was seen.
    for value in unseen {
        of_key.next.entry(before).or_default().push(value);
        of_key.ranks.insert(value, behind);
    }
}

fn writes_of(history: &[Transaction]) -> Writes {
    let mut writes = Writes::new();
    for (by, transaction) in history.iter().enumerate() {
        let mut last: HashMap<u64, u64> = HashMap::new();
        for step in &transaction.steps {
            if let Step::Append { key, value } = *step {
                if let Some(before) = last.insert(key, value)
                    && let Some(write) = writes.get_mut(&(key, before))
                {
                    write.is_last = false;
                }
                let outcome = transaction.outcome;
                writes.insert((key, value), Write { by, is_last: true, outcome });
            }
        }
    }
    writes
}

/// A read of a list.
struct Read<'h> {
    reader: usize,
    key: u64,
    values: &'h [u64],
    /// What was there before the reader's own appends.
    outside: &'h [u64],
}

/// All reads that count and do not contradict the reader's own appends; `reads` finds the others.
fn reads_of(history: &[Transaction]) -> impl Iterator<Item = Read<'_>> {
    history.iter().enumerate().filter(|(_, transaction)| transaction.is_committed()).flat_map(
        |(reader, transaction)| {
            let mut own: HashMap<u64, Vec<u64>> = HashMap::new();
            transaction.steps.iter().filter_map(move |step| match step {
                Step::List { key, values } => {
                    let own = own.get(key).map_or(&[][..], Vec::as_slice);
                    let outside = values.strip_suffix(own)?;
                    Some(Read { reader, key: *key, values, outside })
                }
                Step::Append { key, value } => {
                    own.entry(*key).or_default().push(*value);
                    None
                }
                Step::Write { .. } | Step::Value { .. } => None,
            })
        },
    )
}

fn check_values(
    key: u64,
    values: &[u64],
    reader: usize,
    writes: &Writes,
    findings: &mut Vec<Finding>,
) {
    let mut seen = HashSet::new();
    for value in values {
        if !seen.insert(*value) {
            let detail = format!("key {key} holds {value} twice: {values:?}");
            findings.push(Finding::new(Anomaly::Duplicate, vec![reader], detail));
        }
        match writes.get(&(key, *value)) {
            None => {
                let detail = format!("{value} was never appended to key {key}");
                findings.push(Finding::new(Anomaly::Garbage, vec![reader], detail));
            }
            Some(write) if write.outcome == Outcome::Failed => {
                let detail = format!("{value} of key {key} is of a transaction that was refused");
                findings.push(Finding::new(Anomaly::G1a, vec![reader, write.by], detail));
            }
            Some(_) => {}
        }
    }
    if let Some(write) = values.last().and_then(|value| writes.get(&(key, *value)))
        && !write.is_last
        && write.by != reader
    {
        let detail = format!("key {key} was read in the midst of a transaction: {values:?}");
        findings.push(Finding::new(Anomaly::G1b, vec![reader, write.by], detail));
    }
}
