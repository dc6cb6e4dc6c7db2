//! The compared part of a response: everything except what has to differ, such as times and change
//! vectors.

use serde_json::{Value, json};

use crate::http_client::Answer;

/// Properties, anywhere in a response, that differ between two servers. `Deleted` is true in
/// RavenDB also for documents that were already deleted. `Collection` is part of the result of
/// patches under test: RavenDB returns it only if the script put or deleted another document.
const OWN_PROPERTIES: &[&str] = &[
    "@change-vector",
    "ChangeVector",
    "@last-modified",
    "LastModified",
    "@index-score",
    "RaftCommandIndex",
    "DurationInMs",
    "IndexTimestamp",
    "LastQueryTime",
    "ResultEtag",
    "NodeTag",
    "IndexName",
    "TransactionIndex",
    "ScannedResults",
    "Etag",
    "Collection",
    "Deleted",
];

/// Which part of a response is compared, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The whole response.
    All,
    /// The same, with the results in any order.
    InAnyOrder,
    /// The values of the results in any order, but not from which documents they are.
    Values,
    /// The terms of a field. An index that has failed has none.
    Terms,
    /// Whether there is an error in it.
    HasErrors,
    /// Nothing: the response is only awaited.
    Nothing,
    /// Nothing: the request is repeated until it reports that an index has counted its last batch.
    /// Failures are visible only then, and a query may be answered a little before.
    Counted,
    /// Only whether it succeeded.
    Outcome,
}

/// The compared part, as text.
pub(super) fn comparable(answer: &Answer, shown: Shown) -> String {
    if matches!(shown, Shown::Nothing | Shown::Counted) {
        return String::new();
    }
    if shown == Shown::Terms && 400 <= answer.status {
        return "no terms".to_owned();
    }
    if 400 <= answer.status {
        let error: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let kind = error["Type"].as_str().unwrap_or_default();
        return format!("{} {}", answer.status, kind.rsplit('.').next().unwrap_or_default());
    }
    let mut value: Value = match answer.body.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(&answer.body)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&answer.body))),
    };
    match shown {
        Shown::Outcome => return answer.status.to_string(),
        Shown::HasErrors => {
            let of_index =
                |index: &Value| index["Errors"].as_array().is_some_and(|found| !found.is_empty());
            let has =
                value["Results"].as_array().is_some_and(|results| results.iter().any(of_index));
            return format!("{} has errors: {has}", answer.status);
        }
        Shown::Terms if value["Terms"] == json!([]) => return "no terms".to_owned(),
        _ => {}
    }
    strip(&mut value);
    if matches!(shown, Shown::InAnyOrder | Shown::Values)
        && let Some(results) = value["Results"].as_array_mut()
    {
        if shown == Shown::Values {
            results.iter_mut().for_each(|row| row["@metadata"] = Value::Null);
        }
        results.sort_by_cached_key(Value::to_string);
    }
    format!("{} {value}", answer.status)
}

/// Whether the described index has counted its failures, and has been stopped because of them if
/// necessary.
pub(super) fn is_counted(answer: &Answer) -> bool {
    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let index = &value["Results"][0];
    let is_in_error = index["State"] == "Error";
    index["MapAttempts"].as_u64().is_some_and(|count| 0 < count)
        && index["IsInvalidIndex"] == is_in_error
}

/// Removes what differs between servers, and normalises whole numbers.
fn strip(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // A number written as a whole number keeps all of its digits.
            let real = number.as_f64().filter(|_| number.is_f64());
            if let Some(whole) = real.filter(|real| real.fract() == 0.0 && real.abs() < 1e18) {
                *value = json!(whole as i64);
            }
        }
        Value::Object(object) => {
            OWN_PROPERTIES.iter().for_each(|name| drop(object.remove(*name)));
            object.values_mut().for_each(strip);
        }
        Value::Array(array) => array.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Two texts, from shortly before their first difference.
pub(super) fn where_they_differ(ours: &str, theirs: &str) -> (String, String) {
    const BEFORE: usize = 80;
    const SHOWN: usize = 360;
    let same = ours.chars().zip(theirs.chars()).take_while(|(one, other)| one == other).count();
    let part = |text: &str| {
        let skipped = same.saturating_sub(BEFORE);
        let part: String = text.chars().skip(skipped).take(SHOWN).collect();
        if skipped == 0 { part } else { format!("…{part}") }
    };
    (part(ours), part(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn what_has_to_differ_is_not_compared() {
        let one =
            answer(200, r#"{"Results":[{"A":1,"@metadata":{"@change-vector":"A:1"}},{"B":2}]}"#);
        let other = answer(200, r#"{"Results":[{"B":2},{"A":1,"@metadata":{}}],"NodeTag":"A"}"#);
        assert_eq!(comparable(&one, Shown::InAnyOrder), comparable(&other, Shown::InAnyOrder));
        assert_ne!(comparable(&one, Shown::All), comparable(&other, Shown::All));
        let failed = answer(400, r#"{"Type":"A.B.SomeException","Message":"x"}"#);
        assert_eq!(comparable(&failed, Shown::All), "400 SomeException");
    }

    #[test]
    fn a_number_is_the_same_however_it_is_written_but_not_one_beside_it() {
        let shown = |number: &str| comparable(&answer(200, number), Shown::All);
        assert_eq!(shown("2.0"), shown("2"));
        assert_eq!(shown("9007199254740992.0"), shown("9007199254740992"));
        assert_ne!(shown("9007199254740993"), shown("9007199254740992"));
    }

    #[test]
    fn an_index_has_counted_when_its_state_says_what_its_counts_do() {
        let is = |attempts, is_invalid, state| {
            let index =
                json!({"MapAttempts": attempts, "IsInvalidIndex": is_invalid, "State": state});
            is_counted(&answer(200, &json!({"Results": [index]}).to_string()))
        };
        assert!(is(3, false, "Normal") && is(3, true, "Error"));
        assert!(!is(0, false, "Normal") && !is(3, true, "Normal"));
        assert!(!is_counted(&answer(404, "")));
    }
}
