//! Ids of outputs: `Sums/7/340282366920938463463374607431768211455`.
//!
//! The collection, the number of the definition, the reduce key as a number; a further output of
//! the same key appends its position.

use std::fmt::Write as _;

use model::{CollectionName, lower_case};

use crate::reduce::ReduceKey;

/// The parts of an output's id, except its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputId {
    /// The number of the definition.
    pub(super) number: u64,
    pub(super) key: ReduceKey,
    /// The position among the outputs of the key, from 0.
    pub(super) place: u32,
}

impl OutputId {
    pub(super) fn text(&self, collection: &CollectionName) -> String {
        let mut text = format!("{collection}/{}/{}", self.number, self.key.whole_number());
        if self.place != 0 {
            write!(text, "/{}", self.place).expect("writing to a String cannot fail");
        }
        text
    }

    /// Parses the id of an output of a collection; `None` when it is not one.
    pub(super) fn parse(id: &str, collection: &CollectionName) -> Option<Self> {
        let id = lower_case(id);
        let behind = id.strip_prefix(lower_case(collection.as_str()).as_ref())?;
        let mut parts = behind.strip_prefix('/')?.split('/');
        let number = digits(parts.next()?)?.parse().ok()?;
        let key = ReduceKey::of_whole_number(digits(parts.next()?)?.parse().ok()?);
        let place = match parts.next() {
            None => 0,
            Some(place) => digits(place)?.parse().ok().filter(|place| *place != 0)?,
        };
        parts.next().is_none().then_some(Self { number, key, place })
    }
}

/// The text, if it is a number in canonical form.
fn digits(text: &str) -> Option<&str> {
    let is_plain = text == "0" || !text.starts_with('0');
    (is_plain && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let collection = CollectionName::new("Sums/É").unwrap();
        for (key, place) in [(0, 0), (u128::MAX, 0), (7, 3)] {
            let id = OutputId { number: 12, key: ReduceKey::of_whole_number(key), place };
            let text = id.text(&collection);
            assert_eq!(OutputId::parse(&text, &collection), Some(id), "{text}");
            assert_eq!(OutputId::parse(&text.to_uppercase(), &collection), Some(id));
        }
        assert_eq!(
            OutputId { number: 1, key: ReduceKey::of_whole_number(5), place: 0 }.text(&collection),
            "Sums/É/1/5"
        );
        for other in [
            "Sums/É",
            "Sums/É/",
            "Sums/É/1",
            "Sums/É/1/",
            "Sums/É/1/x",
            "Sums/É/1/5/0",
            "Sums/1/5",
            "Sums/É/1/5/1/1",
            "Sums/É/01/5",
            "Sums/É/+1/5",
            "Sums/É2/1/5",
            "sums/2020-01",
        ] {
            assert_eq!(OutputId::parse(other, &collection), None, "{other}");
        }
    }
}
