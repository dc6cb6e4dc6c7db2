//! Intentional differences. Each has its reason here and in `docs/compatibility/`.

/// The reasons for different responses, and the patterns of their cases: a case matches when its
/// text or one of the printed responses (`Corvus: …`, `RavenDB: …`) contains all parts of one
/// pattern. The first matching reason is used.
const LISTED: &[(&str, &[&[&str]])] = &[
    (
        "a range of null is an InvalidQueryException, not a NullReferenceException",
        &[&["> null"], &["< null"], &[">= null"], &["<= null"], &["between null and null"]],
    ),
    (
        "the empty text is the first, not at the place of the text EMPTY_STRING",
        &[
            &["> ''"],
            &["< ''"],
            &[">= ''"],
            &["<= ''"],
            &["between '' and"],
            &[" between", "and ''"],
        ],
    ),
    (
        "null is in no range of texts, not at the place of the text NULL_VALUE",
        &[
            &["W >"],
            &["W <"],
            &["W between"],
            &["Q <= true"],
            &["Q < true"],
            &["Q <= false"],
            &["Q < false"],
            &["Q <= '"],
            &["Q >= '"],
            &["Q < '"],
            &["Q > '"],
            &["Q between '"],
        ],
    ),
    ("a property that a patch deleted is gone for the rest of the script", &[&["delete this.S;"]]),
    (
        "null is one group, not one for each row",
        &[&["groupBy", "RavenDB: 200", "\"X0\":null"], &["i.Q", "groupBy"], &["i.A[0]", "groupBy"]],
    ),
    (
        "a key in JavaScript may be an array or an object",
        &[&["groupBy", "\"X0\":[", REDUCE_FAILED], &["groupBy", "\"X0\":{", REDUCE_FAILED]],
    ),
    (
        "0 has no sign",
        &[&["index map", "% 3"], &["index map", "-i.N"], &["index map", "i.N * i.F"]],
    ),
    ("what is no number is a text, and found as one", &[&["i.Q + 1", "nan"]]),
    ("a decimal as a term has no zeros behind its value", &[&["= i.N * i.F"]]),
    (
        "documents of other collections are no skipped results",
        &[&["startsWith(id(), ", "SkippedResults\":"]],
    ),
    (
        "whole numbers are in a range of numbers with a fraction",
        &[&[" between ", "RavenDB: 500 InvalidQueryException"]],
    ),
    (
        "a property that a script adds is the last",
        &[
            &["this.O.Z =", "JSON.stringify(this.O)"],
            &["this.O.Z =", "Object.keys(this.O)"],
            &["this.O.Z =", "Object.assign({}, this.O)"],
        ],
    ),
    ("JSON.stringify works on parts of documents", &[&["JSON.stringify(x"]]),
    (
        "a name is declared once, as JavaScript has it",
        &[&["const d = ", "Corvus: 500 JavaScriptParseException"]],
    ),
    ("localeCompare is -1, 0 or 1", &[&["localeCompare"]]),
    ("toFixed rounds as JavaScript does", &[&[".toFixed("]]),
    (
        "a sum counts all values of a group, also when its first document has none",
        &[&["group by", "sum(Q)"]],
    ),
    (
        "ranges of booleans are ranges of their texts",
        &[&["between false and"], &["between true and"]],
    ),
    ("scripts have the iterators of JavaScript", &[&["new Map"]]),
    ("an array that is made longer has as many elements", &[&["this.A.length = 1"]]),
    ("an array with gaps is spread with its gaps", &[&["this.A[10] =", "[...this.A]"]]),
    ("a text is no sequence of characters in C# indexes", &[&["SelectMany(l => l.K)"]]),
    (
        "arithmetic with undefined is NaN, as in JavaScript",
        &[&["x.Missing *"], &["this.F *= 3;", "\"F\":\"NaN\""]],
    ),
];

/// RavenDB's response for an index whose reduce fails on every key.
const REDUCE_FAILED: &str = "RavenDB: 500 InvalidOperationException";

/// The reason for a different response to this case, if the difference is intentional.
pub(super) fn reason(text: &str, ours: &str, theirs: &str) -> Option<&'static str> {
    if has_two_upper_ends(text) {
        return Some("F < a and F < b are two conditions");
    }
    let whole = format!("{text}\nCorvus: {ours}\nRavenDB: {theirs}");
    let is_of = |pattern: &&[&str]| pattern.iter().all(|part| whole.contains(part));
    let is_listed = |(_, patterns): &&(&str, &'static [&[&str]])| patterns.iter().any(is_of);
    LISTED.iter().find(is_listed).map(|(reason, _)| *reason)
}

/// Whether a field has to be less than two values, `(F < 1) and (F < 4)`.
fn has_two_upper_ends(text: &str) -> bool {
    let of_upper_end = |condition: &str| {
        let (field, behind) = condition.split_once(' ')?;
        behind.starts_with('<').then(|| field.to_owned())
    };
    let parts: Vec<_> = text.split(") and (").collect();
    parts.windows(2).any(|pair| {
        let first = pair[0].rsplit('(').next().and_then(of_upper_end);
        first.is_some() && first == of_upper_end(pair[1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_listed_when_it_has_all_parts() {
        let of_text = |text| reason(text, "", "");
        assert!(of_text("index map('Items', i => ({ X0: -i.N }))").is_some());
        assert_eq!(of_text("index from i in docs.Items select new { X0 = -i.N }"), None);
        assert!(of_text("where (x.A[] < 1) and (x.A[] <= 4) select").is_some());
        assert_eq!(of_text("where (A < 1) and (A > 4)"), None);
        assert_eq!(of_text("where (A < 1) and (B < 4)"), None);
    }

    #[test]
    fn a_pattern_may_name_what_one_of_both_answers() {
        let text = "from 'Items' where F between 1.25 and 2";
        let (results, refused) = ("200 {}", "500 InvalidQueryException");
        assert!(reason(text, results, refused).is_some());
        assert_eq!(reason(text, refused, results), None);
    }
}
