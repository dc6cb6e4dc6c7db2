//! Values without their doubles: `Distinct`, sets, groups and dictionaries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::run::Evaluated;
use crate::run::compare::{Strictness, hash, same};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::value::Value;
use crate::value::live::Counted;

/// The places of values that were seen, by their hash. The hasher has no secret: results must be
/// the same in every run, and the budget of steps bounds what colliding values can cost.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    places: HashMap<u64, Vec<usize>, BuildHasherDefault<DefaultHasher>>,
}

impl Seen {
    /// The place of `value` among `values`, which are all that were added.
    pub(crate) fn find<'v, 'a: 'v>(
        &self,
        value: &Value<'a>,
        strictness: Strictness,
        at: impl Fn(usize) -> &'v Value<'a>,
    ) -> Option<usize> {
        let places = self.places.get(&hash(value))?;
        places.iter().copied().find(|place| same(at(*place), value, strictness))
    }

    /// Records that `value` is at `place`.
    pub(crate) fn add(&mut self, value: &Value<'_>, place: usize) {
        match self.places.entry(hash(value)) {
            Entry::Occupied(mut entry) => entry.get_mut().push(place),
            Entry::Vacant(entry) => {
                entry.insert(vec![place]);
            }
        }
    }
}

/// A set that keeps the order in which its values came.
#[derive(Debug, Default)]
pub(crate) struct ValueSet<'a> {
    values: Vec<Value<'a>>,
    seen: Seen,
}

impl<'a> ValueSet<'a> {
    pub(crate) fn contains(&self, value: &Value<'a>) -> bool {
        self.seen.find(value, Strictness::Origin, |place| &self.values[place]).is_some()
    }

    /// Adds a value; `false` when it was there.
    pub(crate) fn insert(&mut self, value: Value<'a>) -> bool {
        if self.contains(&value) {
            return false;
        }
        self.seen.add(&value, self.values.len());
        self.values.push(value);
        true
    }

    pub(crate) fn into_values(self) -> Vec<Value<'a>> {
        self.values
    }
}

/// The values without doubles, in the order of their first appearance.
pub(crate) fn distinct(values: Vec<Value<'_>>) -> Vec<Value<'_>> {
    let mut set = ValueSet::default();
    for value in values {
        set.insert(value);
    }
    set.into_values()
}

/// Values gathered by key, in the order of the keys' first appearance.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    groups: Vec<(Value<'a>, Vec<Value<'a>>)>,
    seen: Seen,
    counted: Counted,
}

impl Default for Groups<'_> {
    fn default() -> Self {
        Groups { groups: Vec::new(), seen: Seen::default(), counted: Counted::bytes(0) }
    }
}

impl<'a> Groups<'a> {
    pub(crate) fn add(&mut self, key: Value<'a>, value: Value<'a>) {
        self.counted.add::<Value<'_>>();
        let place = self.seen.find(&key, Strictness::Characters, |place| &self.groups[place].0);
        match place {
            Some(place) => self.groups[place].1.push(value),
            None => {
                self.counted.add::<(Value<'_>, Vec<Value<'_>>, [usize; 8])>();
                self.seen.add(&key, self.groups.len());
                self.groups.push((key, vec![value]));
            }
        }
    }

    pub(crate) fn into_groups(self) -> Vec<(Value<'a>, Vec<Value<'a>>)> {
        self.groups
    }
}

/// A dictionary of these entries.
pub(crate) fn dictionary<'a>(entries: Vec<(Value<'a>, Value<'a>)>) -> Evaluated<'a> {
    let mut seen = Seen::default();
    for (place, (key, _)) in entries.iter().enumerate() {
        if key.is_null() {
            let message = "the key of a dictionary is null";
            return Err(Fault::new(EvaluationErrorKind::ArgumentNull, message));
        }
        if seen.find(key, Strictness::Origin, |place| &entries[place].0).is_some() {
            let message = "a dictionary got the same key twice";
            return Err(Fault::new(EvaluationErrorKind::DuplicateKey, message));
        }
        seen.add(key, place);
    }
    Ok(Value::dictionary(entries))
}
