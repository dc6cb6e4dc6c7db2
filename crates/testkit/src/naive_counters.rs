//! The counters of the naive database.

use std::{collections::BTreeMap, sync::Arc};

use documents::{ChangeCounters, CounterStep};

use crate::{Naive, database::CounterEntry, naive::Refused};

#[derive(Clone, Debug)]
struct Counter {
    etag: u64,
    /// Name as written, and value; absent for a tombstone.
    what: Option<(String, i64)>,
}

/// Counters and tombstones by document and name, both lower-cased.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveCounters {
    rows: BTreeMap<(String, String), Counter>,
}

impl NaiveCounters {
    pub(crate) fn delete_all_of(&mut self, lower_id: &str, last_etag: &mut u64) {
        for ((owner, _), counter) in &mut self.rows {
            if owner == lower_id && counter.what.is_some() {
                *last_etag += 1;
                *counter = Counter { etag: *last_etag, what: None };
            }
        }
    }

    /// The body with the names of the counters in its metadata.
    pub(crate) fn listed_in(&self, lower_id: &str, body: &Arc<str>) -> Arc<str> {
        let of_document = self.rows.iter().filter(|((owner, _), _)| owner == lower_id);
        let names = of_document.filter_map(|(_, counter)| Some(counter.what.as_ref()?.0.as_str()));
        let mut names: Vec<&str> = names.collect();
        names.sort_by_key(|name| name.to_uppercase());
        if names.is_empty() {
            return body.clone();
        }
        let collection = "\"@collection\":\"";
        let start = body.find(collection).expect("a history's bodies have a collection");
        let start = start + collection.len();
        let end = start + body[start..].find('"').expect("a name ends") + 1;
        let list = format!(",\"@counters\":[\"{}\"]", names.join("\",\""));
        format!("{}{list}{}", &body[..end], &body[end..]).into()
    }

    pub(crate) fn log(&self) -> Vec<CounterEntry> {
        let entry = |((owner, name), counter): (&(String, String), &Counter)| {
            (counter.etag, owner.clone(), name.clone(), counter.what.clone())
        };
        let mut log: Vec<_> = self.rows.iter().map(entry).collect();
        log.sort();
        log
    }
}

impl Naive {
    pub(crate) fn change_counters(&mut self, request: &ChangeCounters) -> Result<(), Refused> {
        let id = request.id.as_str().to_lowercase();
        if request.ignores_missing && !self.is_live(&id) {
            return Ok(());
        }
        for step in &request.steps {
            let (name, by) = match step {
                CounterStep::Get { .. } => continue,
                CounterStep::Increment { name, by } => (name, Some(*by)),
                CounterStep::Set { name, value } => {
                    let key = (id.clone(), name.as_str().to_lowercase());
                    let known = self.counters.rows.get(&key);
                    let known = known.and_then(|counter| Some(counter.what.as_ref()?.1));
                    if known == Some(*value) {
                        continue;
                    }
                    (name, Some(value.checked_sub(known.unwrap_or(0)).ok_or(Refused)?))
                }
                CounterStep::Delete { name } => (name, None),
            };
            if !self.is_live(&id) {
                return Err(Refused);
            }
            let key = (id.clone(), name.as_str().to_lowercase());
            let known = self.counters.rows.get(&key).and_then(|counter| counter.what.clone());
            let (was_there, name) = match &known {
                Some((name, _)) => (true, name.clone()),
                None => (false, name.as_str().to_owned()),
            };
            let what = match (known, by) {
                (None, None) => continue,
                (Some(_), None) => None,
                (known, Some(by)) => {
                    let value = known.map_or(0, |(_, value)| value);
                    Some((name, value.checked_add(by).ok_or(Refused)?))
                }
            };
            if !was_there || what.is_none() {
                self.touch(&id);
            }
            self.last_etag += 1;
            self.counters.rows.insert(key, Counter { etag: self.last_etag, what });
        }
        Ok(())
    }
}
