//! A case, and the random generator of cases.

use serde_json::Value;

use super::answers::Shown;
use crate::random::Random;

/// A request, and the compared part of its response.
pub(super) struct Exchange {
    pub(super) method: &'static str,
    /// The path after the database, with its query string.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    pub(super) shown: Shown,
}

/// One or several requests that are sent to both servers.
pub(super) trait Case {
    /// The kind of the case, in one word.
    fn kind(&self) -> &'static str;
    /// The case in human-readable form.
    fn text(&self) -> String;
    /// The requests, one after the other.
    fn exchanges(&self) -> Vec<Exchange>;
    /// Slightly smaller cases, the smallest first; empty if nothing can be removed.
    fn smaller(&self) -> Vec<Box<dyn Case>>;
    /// Whether it changes documents.
    fn changes_documents(&self) -> bool {
        false
    }
}

/// Random choices.
pub(super) struct Dice(Random);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(Random::new(seed))
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// `true` once in `times` calls on average.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One item of a list that is not empty.
    pub(super) fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Fills a template: each `{}` is replaced by a new result of `part`.
    pub(super) fn fill(
        &mut self,
        template: &str,
        mut part: impl FnMut(&mut Dice) -> String,
    ) -> String {
        let mut filled = String::new();
        let mut pieces = template.split("{}");
        filled.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            filled.push_str(&part(self));
            filled.push_str(piece);
        }
        filled
    }
}

/// Every list with one item removed.
pub(super) fn without_one<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..items.len()).map(|left_out| {
        let kept = items.iter().enumerate().filter(|(at, _)| *at != left_out);
        kept.map(|(_, item)| item.clone()).collect()
    })
}
