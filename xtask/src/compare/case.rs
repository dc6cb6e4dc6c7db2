//! A case, and the random generator of cases.

use serde_json::Value;

use super::answers::Shown;
use crate::random::Random;

/// A request, and what of its answer is compared.
pub(super) struct Exchange {
    pub(super) method: &'static str,
    /// Behind the database, with its query.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    pub(super) shown: Shown,
}

/// Something that both are asked, in one or several requests.
pub(super) trait Case {
    /// In a word.
    fn kind(&self) -> &'static str;
    /// For a person.
    fn text(&self) -> String;
    /// The requests, one after the other.
    fn exchanges(&self) -> Vec<Exchange>;
    /// Cases that are a little smaller, the smallest first; none when nothing can be left out.
    fn smaller(&self) -> Vec<Box<dyn Case>>;
    /// Whether it leaves other documents behind.
    fn changes_documents(&self) -> bool {
        false
    }
}

/// Chooses.
pub(super) struct Dice(Random);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(Random::new(seed))
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several, of which there is at least one.
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

/// Every list with one item less.
pub(super) fn without_one<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..items.len()).map(|left_out| {
        let kept = items.iter().enumerate().filter(|(at, _)| *at != left_out);
        kept.map(|(_, item)| item.clone()).collect()
    })
}
