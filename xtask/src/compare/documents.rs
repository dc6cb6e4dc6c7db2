//! The documents in both databases, and the names and values used in cases.

use serde_json::{Value, json};

use super::case::Dice;

/// `items/0` and so on.
pub(super) const DOCUMENTS: u64 = 40;
pub(super) const COLLECTION: &str = "Items";
/// Fields that every document has, each of one type.
pub(super) const SCALARS: &[&str] = &["N", "F", "S", "D"];
/// All paths, also those that some documents or all lack.
pub(super) const PATHS: &[&str] = &[
    "N", "F", "S", "D", "B", "T", "Big", "Q", "W", "O.X", "O.Y", "A", "A[]", "L[].K", "L[].V", "R",
    "Missing",
];
const WORDS: &[&str] =
    &["red", "Red", "blue", "green fox", "the Fox", "über", "a-b", "1", "10", "2"];
const MOMENTS: &[&str] = &[
    "2020-01-01T00:00:00.0000000",
    "2020-06-15T12:30:45.1230000",
    "2021-02-28T23:59:59.9990000Z",
    "1999-12-31T00:00:00.0000000",
];

/// The documents, in the order in which they are stored.
pub(super) fn all(dice: &mut Dice) -> Vec<(String, Value)> {
    (0..DOCUMENTS).map(|number| (format!("items/{number}"), any(dice, number))).collect()
}

fn any(dice: &mut Dice, number: u64) -> Value {
    let numbers = [0.5, 1.25, 0.1, -3.0, 2.0, 1e-3, 123_456.75];
    let large = [1_i64 << 40, 9_007_199_254_740_993, -1];
    let mut document = json!({
        "N": dice.below(20) as i64 - 5,
        "F": numbers[dice.below(7) as usize],
        "S": dice.of(WORDS),
        "D": dice.of(MOMENTS),
        "B": dice.once_in(2),
        "T": dice.of(&["00:00:01", "1.02:03:04.5000000", "-00:10:00"]),
        "Big": large[dice.below(3) as usize],
        "O": {"X": dice.below(5), "Y": dice.of(WORDS)},
        "A": (0..dice.below(4)).map(|_| json!(dice.below(6))).collect::<Vec<_>>(),
        "L": (0..dice.below(3)).map(|at| json!({"K": dice.of(WORDS), "V": at})).collect::<Vec<_>>(),
        "R": format!("items/{}", (number * 7) % (DOCUMENTS + 5)),
        "@metadata": {"@collection": COLLECTION},
    });
    match dice.below(3) {
        0 => document["Q"] = Value::Null,
        1 => document["Q"] = json!(dice.below(9)),
        _ => {}
    }
    match dice.below(3) {
        0 => document["W"] = Value::Null,
        1 => document["W"] = json!(dice.of(WORDS)),
        _ => {}
    }
    document
}

/// A value that the field has in some document, or another one, in the syntax of RQL and
/// JavaScript.
pub(super) fn literal(dice: &mut Dice, path: &str) -> String {
    if dice.once_in(10) {
        return dice.of(&["null", "true", "''", "0", "'red'"]).to_owned();
    }
    match path {
        "N" | "Q" | "O.X" | "A" | "A[]" | "L[].V" => (dice.below(16) as i64 - 5).to_string(),
        "F" => dice.of(&["0.5", "1.25", "0.1", "-3.0", "2", "0.001", "123456.75"]).to_owned(),
        "B" => dice.of(&["true", "false"]).to_owned(),
        "Big" => dice.of(&["1099511627776", "9007199254740993", "-1"]).to_owned(),
        "D" => format!("'{}'", dice.of(MOMENTS)),
        "T" => "'00:00:01'".to_owned(),
        "R" => format!("'items/{}'", dice.below(DOCUMENTS)),
        _ => format!("'{}'", dice.of(WORDS)),
    }
}

/// The id of a document that usually exists.
pub(super) fn id(dice: &mut Dice) -> String {
    format!("items/{}", dice.below(DOCUMENTS + 4))
}
