//! What clients asked for and what they were answered, and whether one order explains all of it.
//!
//! The cluster numbers all commands, and every answer has the number of its command; a read has that of the state it saw.
//! So the order is known, and it is checked that (1) it agrees with real time: a command that had ended before another
//! began has a smaller number; (2) on each key, every answer follows from those before it. Commands whose outcome is
//! unknown may have been carried out at any place after they began, each at most once; those that were refused never.

use std::{collections::BTreeMap, time::Duration};

/// A version of a key: its index, which is unknown if no answer has shown it, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The index.
    pub(crate) index: Option<u64>,
    /// The value. Values are written once.
    pub(crate) value: u64,
}

/// The state of a key.
pub(crate) type Register = Option<Version>;

/// When a change takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// There is no value, or it has this index.
    AbsentOr(u64),
    /// There is no value if this is 0; otherwise it has this index.
    Exactly(u64),
    /// The value has this index, even if it is 0.
    Present(u64),
    /// Always.
    Always,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The state of the key.
    Read,
    /// To put a value.
    Put(Condition, u64),
    /// To remove the value.
    Delete(Condition),
}

/// What an answer says about the state of the key before the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing but that the condition was fulfilled, or was not.
    Nothing,
    /// The state.
    State(Register),
    /// Its index; `None` for a key without a value.
    Index(Option<u64>),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was answered.
    Answered {
        /// Its number.
        position: u64,
        /// Whether its condition was fulfilled.
        is_done: bool,
        /// What else the answer says.
        shown: Shown,
    },
    /// The client knows that nothing was done.
    Refused,
    /// The client does not know.
    Unknown,
}

/// One request on one key. A transaction is several with the same number.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Who asked, for messages.
    pub(crate) name: String,
    /// The key.
    pub(crate) key: String,
    /// What was asked for.
    pub(crate) request: Request,
    /// When.
    pub(crate) began: Duration,
    /// When the client knew what became of it.
    pub(crate) ended: Duration,
    /// What became of it.
    pub(crate) outcome: Ended,
}

/// What is wrong with a history.
pub(crate) fn check(history: &[Operation]) -> Vec<String> {
    let mut findings = check_real_time(history);
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    for (key, operations) in keys {
        if let Err(finding) = Key::of(&operations).check() {
            findings.push(format!("key {key}: {finding}"));
        }
    }
    findings
}

/// Answered operations, with their numbers.
fn positions<'h>(history: impl IntoIterator<Item = &'h Operation>) -> Vec<(u64, &'h Operation)> {
    let answered = history.into_iter().filter_map(|operation| match operation.outcome {
        Ended::Answered { position, .. } => Some((position, operation)),
        Ended::Refused | Ended::Unknown => None,
    });
    answered.collect()
}

fn check_real_time(history: &[Operation]) -> Vec<String> {
    let mut by_beginning = positions(history);
    let mut by_end = by_beginning.clone();
    by_beginning.sort_by_key(|(_, operation)| operation.began);
    by_end.sort_by_key(|(_, operation)| operation.ended);
    let (mut ended, mut newest) = (by_end.into_iter().peekable(), None::<(u64, &Operation)>);
    for (position, operation) in by_beginning {
        while let Some(earlier) = ended.next_if(|(_, earlier)| earlier.ended < operation.began) {
            if newest.is_none_or(|(newest, _)| newest < earlier.0) {
                newest = Some(earlier);
            }
        }
        if let Some((before, earlier)) = newest
            && position < before
        {
            return vec![format!(
                "{} ({position}) began after {} ({before}) had ended, and does not see it",
                operation.name, earlier.name
            )];
        }
    }
    Vec::new()
}

/// States of a key that are followed at the same time.
const POSSIBLE_MAX: usize = 64;

/// A state, and which of the unknown operations have led to it.
type Possible = (Register, Vec<bool>);

struct Key<'h> {
    /// In their order.
    answered: Vec<(u64, &'h Operation)>,
    unknown: Vec<&'h Operation>,
}

impl<'h> Key<'h> {
    fn of(operations: &[&'h Operation]) -> Self {
        let mut answered = positions(operations.iter().copied());
        // A read sees the command with its number.
        answered.sort_by_key(|(position, operation)| (*position, is_read(operation)));
        let unknown = operations.iter().copied();
        let unknown = unknown.filter(|operation| operation.outcome == Ended::Unknown).collect();
        Self { answered, unknown }
    }

    /// Follows every state that the answers so far allow: an unknown operation that explains one answer may be the wrong one.
    fn check(&self) -> Result<(), String> {
        let mut possible: Vec<Possible> = vec![(None, vec![false; self.unknown.len()])];
        for (position, operation) in &self.answered {
            let mut next = Vec::new();
            for (state, used) in &possible {
                self.explain(*state, used.clone(), (*position, operation), &mut next);
            }
            if next.is_empty() {
                return Err(format!(
                    "{} ({position}) {:?} was answered {:?}, but the state is {:?}",
                    operation.name, operation.request, operation.outcome, possible[0].0
                ));
            }
            for (state, _) in &mut next {
                *state = after(*state, *position, operation);
            }
            possible = next;
        }
        Ok(())
    }

    /// The states before an operation that follow from a state, by unknown operations if it takes any.
    fn explain(
        &self,
        state: Register,
        used: Vec<bool>,
        (position, operation): (u64, &Operation),
        found: &mut Vec<Possible>,
    ) {
        if found.len() == POSSIBLE_MAX {
            return;
        }
        if let Some(state) = agrees(state, position, operation) {
            if !found.contains(&(state, used.clone())) {
                found.push((state, used));
            }
            return;
        }
        for (number, unknown) in self.unknown.iter().enumerate() {
            if used[number] || operation.ended < unknown.began || !allows(unknown.request, state) {
                continue;
            }
            let changed = match unknown.request {
                Request::Put(_, value) => Some(Version { index: None, value }),
                Request::Delete(_) => None,
                Request::Read => state,
            };
            if changed != state {
                let mut used = used.clone();
                used[number] = true;
                self.explain(changed, used, (position, operation), found);
            }
        }
    }
}

fn is_read(operation: &Operation) -> bool {
    operation.request == Request::Read
}

/// Whether a change may take place in a state.
fn allows(request: Request, state: Register) -> bool {
    let is_at = |expected: u64| match state {
        Some(Version { index: Some(index), .. }) => index == expected,
        // An index that no answer has shown may be any.
        Some(Version { index: None, .. }) => true,
        None => false,
    };
    let condition = match request {
        Request::Read => Condition::Always,
        Request::Put(condition, _) | Request::Delete(condition) => condition,
    };
    match condition {
        Condition::Always => true,
        Condition::AbsentOr(expected) => state.is_none() || is_at(expected),
        Condition::Exactly(0) => state.is_none(),
        Condition::Exactly(expected) | Condition::Present(expected) => is_at(expected),
    }
}

/// The state, with an index that the answer shows, if the answer agrees with it.
fn agrees(state: Register, position: u64, operation: &Operation) -> Option<Register> {
    let Ended::Answered { is_done, shown, .. } = operation.outcome else { return None };
    let has_unknown_index = state.is_some_and(|state| state.index.is_none());
    // A condition on an index that is not known may have failed.
    let may_have_failed = has_unknown_index && !is_done;
    if !may_have_failed && allows(operation.request, state) != is_done {
        return None;
    }
    match (shown, state) {
        (Shown::Nothing, state) => Some(state),
        (Shown::State(None) | Shown::Index(None), None) => Some(None),
        (Shown::State(Some(shown)), Some(known)) => {
            let is_same = shown.value == known.value
                && known.index.is_none_or(|index| shown.index == Some(index))
                && shown.index.is_some_and(|index| index <= position);
            is_same.then_some(Some(shown))
        }
        (Shown::Index(Some(shown)), Some(known)) => {
            let is_same = known.index.is_none_or(|index| index == shown);
            is_same.then_some(Some(Version { index: Some(shown), ..known }))
        }
        (Shown::State(_) | Shown::Index(_), _) => None,
    }
}

fn after(before: Register, position: u64, operation: &Operation) -> Register {
    match (operation.request, operation.outcome) {
        (Request::Put(_, value), Ended::Answered { is_done: true, .. }) => {
            Some(Version { index: Some(position), value })
        }
        (Request::Delete(_), Ended::Answered { is_done: true, .. }) => None,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(request: Request, times: (u64, u64), outcome: Ended) -> Operation {
        let (began, ended) = (Duration::from_secs(times.0), Duration::from_secs(times.1));
        let name = format!("{request:?} at {}", times.0);
        Operation { name, key: "k".to_owned(), request, began, ended, outcome }
    }

    fn done(position: u64, shown: Shown) -> Ended {
        Ended::Answered { position, is_done: true, shown }
    }

    fn put(expected: u64, value: u64) -> Request {
        Request::Put(Condition::AbsentOr(expected), value)
    }

    fn version(index: u64, value: u64) -> Register {
        Some(Version { index: Some(index), value })
    }

    #[test]
    fn what_one_order_explains_is_accepted() {
        let history = [
            operation(put(0, 10), (0, 2), done(1, Shown::Nothing)),
            operation(Request::Read, (3, 4), done(1, Shown::State(version(1, 10)))),
            operation(put(1, 20), (3, 9), Ended::Unknown),
            operation(
                put(1, 30),
                (5, 6),
                Ended::Answered {
                    position: 4,
                    is_done: false,
                    shown: Shown::State(version(3, 20)),
                },
            ),
            operation(
                Request::Delete(Condition::Present(3)),
                (7, 8),
                done(5, Shown::State(version(3, 20))),
            ),
            operation(Request::Read, (9, 10), done(5, Shown::State(None))),
        ];
        assert_eq!(check(&history), Vec::<String>::new());
    }

    #[test]
    fn what_no_order_explains_is_found() {
        let first = operation(put(0, 10), (0, 2), done(1, Shown::Nothing));
        let histories = [
            // A read that does not see what was acknowledged before it began.
            vec![first.clone(), operation(Request::Read, (3, 4), done(0, Shown::State(None)))],
            // An acknowledged value is gone.
            vec![first.clone(), operation(Request::Read, (3, 4), done(2, Shown::State(None)))],
            // A condition that was not fulfilled.
            vec![first.clone(), operation(put(7, 20), (3, 4), done(2, Shown::Nothing))],
            // What was refused was done all the same.
            vec![
                first.clone(),
                operation(put(1, 20), (3, 4), Ended::Refused),
                operation(Request::Read, (5, 6), done(2, Shown::State(version(2, 20)))),
            ],
            // An unknown command was carried out twice.
            vec![
                first,
                operation(put(1, 20), (3, 4), Ended::Unknown),
                operation(Request::Read, (5, 6), done(2, Shown::State(version(2, 20)))),
                operation(put(2, 30), (7, 8), done(3, Shown::Nothing)),
                operation(Request::Read, (9, 9), done(4, Shown::State(version(4, 20)))),
            ],
        ];
        for (number, history) in histories.iter().enumerate() {
            assert_eq!(check(history).len(), 1, "history {number}: {:?}", check(history));
        }
    }
}
