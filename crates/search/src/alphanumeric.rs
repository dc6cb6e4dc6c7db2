//! The alphanumeric order: runs of digits compare as numbers, everything else by character.

use std::cmp::Ordering;

/// Compares two texts; digits sort before everything else, and texts that differ only in leading
/// zeros compare by length.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (mut rest_left, mut rest_right) = (left, right);
    loop {
        let (run_left, after_left) = first_run(rest_left);
        let (run_right, after_right) = first_run(rest_right);
        let order = match (is_number(run_left), is_number(run_right)) {
            (true, true) => compare_digits(run_left, run_right),
            (true, false) if !run_right.is_empty() => Ordering::Less,
            (false, true) if !run_left.is_empty() => Ordering::Greater,
            _ => run_left.cmp(run_right),
        };
        if order.is_ne() {
            return order;
        }
        if after_left.is_empty() && after_right.is_empty() {
            return left.len().cmp(&right.len()).then_with(|| left.cmp(right));
        }
        (rest_left, rest_right) = (after_left, after_right);
    }
}

fn is_number(run: &str) -> bool {
    run.starts_with(|character: char| character.is_ascii_digit())
}

/// The digits, or the other characters, that the text begins with.
fn first_run(text: &str) -> (&str, &str) {
    let digits = is_number(text);
    let end = text.find(|character: char| character.is_ascii_digit() != digits);
    text.split_at(end.unwrap_or(text.len()))
}

fn compare_digits(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.trim_start_matches('0'), right.trim_start_matches('0'));
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_compare_as_numbers() {
        let ordered = ["", "9", "10", "a", "a1b9", "a1b10", "a2", "b", "x 1", "x9", "x09", "x10"];
        let mut sorted = ordered;
        sorted.reverse();
        sorted.sort_by(|left, right| compare(left, right));
        assert_eq!(
            sorted,
            ["", "9", "10", "a", "a1b9", "a1b10", "a2", "b", "x9", "x09", "x10", "x 1"]
        );
    }

    proptest! {
        #[test]
        fn it_is_an_order(texts in prop::collection::vec("[a0-2 ]{0,6}", 3)) {
            let [a, b, c] = [&texts[0], &texts[1], &texts[2]];
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, b).is_eq(), a == b);
            if compare(a, b).is_lt() && compare(b, c).is_lt() {
                prop_assert!(compare(a, c).is_lt());
            }
        }
    }
}
