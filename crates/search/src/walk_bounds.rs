//! Where a walk in the order of a field can begin: the least and the greatest term that the matches
//! of a query have in the field, as far as the query itself implies them.
//!
//! Invariant: every match has a term of the order's kind between the bounds. Its other terms may be
//! anywhere, so only matches with one term each are certain to sort between them.

use std::ops::{Bound, RangeBounds as _};

use crate::{
    query::{Query, TermRange},
    sort::FieldOrder,
    term,
};

/// The ends of the terms that matter, in the bytes of the order's kind of term.
#[derive(Debug, PartialEq)]
pub(crate) struct WalkBounds {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
    /// Whether no other clause chooses among the entries between them.
    pub(crate) is_whole_query: bool,
    /// Whether only matches of the clause are between them.
    pub(crate) is_exact: bool,
}

impl WalkBounds {
    /// `None` when the query implies nothing about the field.
    pub(crate) fn of(query: &Query, field: &str, order: FieldOrder) -> Option<Self> {
        match query {
            Query::Range { field: own, range } if own == field => Self::of_range(range, order),
            Query::Prefix { field: own, text } if own == field => Self::of_prefix(text, order),
            Query::Boost(inner, _) => Self::of(inner, field, order),
            Query::And(clauses) => {
                // Each of them is valid; the first is as good as any.
                let bounds = clauses.iter().find_map(|clause| Self::of(clause, field, order))?;
                Some(Self { is_whole_query: false, ..bounds })
            }
            _ => None,
        }
    }

    fn new(low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Option<Self> {
        Some(Self { low, high, is_whole_query: true, is_exact: true })
    }

    fn of_range(range: &TermRange, order: FieldOrder) -> Option<Self> {
        match (range, order) {
            (TermRange::Text(low, high), FieldOrder::Text) => {
                let bytes = |text: &String| term::shortened(text).into_owned().into_bytes();
                Self::new(low.as_ref().map(bytes), high.as_ref().map(bytes))
            }
            (TermRange::Long(low, high), FieldOrder::Long) => {
                let bytes = |value: i64| term::long_bytes(value).to_vec();
                Self::new(low.map(bytes), high.map(bytes))
            }
            (TermRange::Double(low, high), FieldOrder::Double) => {
                let bytes = |value: f64| term::double_bytes(value).to_vec();
                Self::new(low.map(bytes), high.map(bytes))
            }
            (TermRange::Long(low, high), FieldOrder::Double) => {
                let bytes = |value| term::double_bytes(value as f64).to_vec();
                // NaN is cut to 0, and is above all numbers.
                let may_have_nan = (*low, *high).contains(&0);
                let high = if may_have_nan { Bound::Unbounded } else { widened(high, 1) };
                let bounds = Self::new(widened(low, -1).map(bytes), high.map(bytes))?;
                Some(Self { is_exact: false, ..bounds })
            }
            _ => None,
        }
    }

    fn of_prefix(text: &str, order: FieldOrder) -> Option<Self> {
        if order != FieldOrder::Text || text.is_empty() || text.len() > term::TERM_BYTES_MAX {
            return None;
        }
        // No byte of UTF-8 is that high.
        let after = [text.as_bytes(), &[0xFF]].concat();
        Self::new(Bound::Included(text.as_bytes().to_vec()), Bound::Excluded(after))
    }
}

/// A bound that also holds for the numbers that longs were truncated from, which are less than one
/// away. Unbounded where doubles are further apart than that.
fn widened(bound: &Bound<i64>, by: i64) -> Bound<i64> {
    const EXACT_MAX: u64 = 1 << 52;
    match bound {
        Bound::Included(value) | Bound::Excluded(value) if value.unsigned_abs() < EXACT_MAX => {
            Bound::Included(value + by)
        }
        _ => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-40i32..40).prop_map(|tenths| f64::from(tenths) / 10.0),
            any::<f64>(),
            Just(f64::NAN),
        ]
    }

    fn bound<V: Clone + std::fmt::Debug>(
        value: impl Strategy<Value = V>,
    ) -> impl Strategy<Value = Bound<V>> {
        (value, 0..3).prop_map(|(value, kind)| match kind {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        })
    }

    /// Whether an entry with that number, if it is in the range, is between the bounds.
    fn holds(number: f64, range: &TermRange, order: FieldOrder) -> bool {
        let long = term::long_bytes(number as i64).to_vec();
        let double = term::double_bytes(number).to_vec();
        let long_of = |value: i64| term::long_bytes(value).to_vec();
        let double_of = |value: f64| term::double_bytes(value).to_vec();
        let matches = match range {
            TermRange::Long(low, high) => (low.map(long_of), high.map(long_of)).contains(&long),
            TermRange::Double(low, high) => {
                (low.map(double_of), high.map(double_of)).contains(&double)
            }
            TermRange::Text(..) => false,
        };
        let query = Query::range("Age", range.clone());
        let bounds = WalkBounds::of(&query, "Age", order).unwrap();
        let own = if order == FieldOrder::Long { long } else { double };
        !matches || (bounds.low, bounds.high).contains(&own)
    }

    proptest! {
        #[test]
        fn matches_of_a_range_lie_between_the_bounds(
            number in number(),
            low in bound(number()),
            high in bound(number()),
        ) {
            let cut = |value: f64| value as i64;
            let longs = TermRange::Long(low.map(cut), high.map(cut));
            let doubles = TermRange::Double(low, high);
            prop_assert!(holds(number, &longs, FieldOrder::Long));
            prop_assert!(holds(number, &longs, FieldOrder::Double));
            prop_assert!(holds(number, &doubles, FieldOrder::Double));
        }
    }

    #[test]
    fn only_what_the_query_says_of_the_field_counts() {
        let of = |query: &Query| WalkBounds::of(query, "Name", FieldOrder::Text);
        let prefix = Query::Prefix { field: "Name".to_owned(), text: "ab".to_owned() };
        let bounds = of(&prefix).unwrap();
        assert!(bounds.is_whole_query);
        assert_eq!(bounds.low, Bound::Included(b"ab".to_vec()));
        assert_eq!(bounds.high, Bound::Excluded(b"ab\xFF".to_vec()));
        let both = Query::And(vec![Query::All, prefix.clone()]);
        assert!(!of(&both).unwrap().is_whole_query);
        assert_eq!(of(&Query::Or(vec![prefix.clone()])), None);
        assert_eq!(of(&prefix.clone().not()), None);
        assert_eq!(WalkBounds::of(&prefix, "Name", FieldOrder::Long), None);
        assert_eq!(WalkBounds::of(&prefix, "Other", FieldOrder::Text), None);
    }
}
