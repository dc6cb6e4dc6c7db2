//! Differences that are meant. Each has its reason here and in `docs/compatibility.md`.

/// Parts of the text of a case, and why it is answered differently. The first one of which a case has all
/// parts counts.
const LISTED: &[(&[&str], &str)] = &[
    (&["> null"], "a range of null is an InvalidQueryException, not a NullReferenceException"),
    (&["< null"], "a range of null is an InvalidQueryException, not a NullReferenceException"),
    (&[">= null"], "a range of null is an InvalidQueryException, not a NullReferenceException"),
    (&["<= null"], "a range of null is an InvalidQueryException, not a NullReferenceException"),
    (&["<= ''"], "the empty text is the first, not at the place of the text EMPTY_STRING"),
    (&["W >"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["W <"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["W between"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["Q <= '"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["Q >= '"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["Q < '"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["Q > '"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (&["Q between '"], "null is in no range of texts, not at the place of the text NULL_VALUE"),
    (
        &[" between", "and ''"],
        "the empty text is the first, not at the place of the text EMPTY_STRING",
    ),
    (&["delete this.S;"], "a property that a patch deleted is gone for the rest of the script"),
    (&["i.Q", "groupBy"], "null is one group, not one for each row"),
    (&["index map", "% 3"], "0 has no sign"),
    (&["> ''"], "the empty text is the first, not at the place of the text EMPTY_STRING"),
    (&["< ''"], "the empty text is the first, not at the place of the text EMPTY_STRING"),
    (&[">= ''"], "the empty text is the first, not at the place of the text EMPTY_STRING"),
    (&["between '' and"], "the empty text is the first, not at the place of the text EMPTY_STRING"),
    (&["JSON.stringify(x"], "JSON.stringify works on parts of documents"),
    (&["localeCompare"], "localeCompare is -1, 0 or 1"),
    (&[".toFixed("], "toFixed rounds as JavaScript does"),
    (&["index map", "-i.N"], "0 has no sign"),
    (
        &["group by", "sum(Q)"],
        "a sum counts all values of a group, also when its first document has none",
    ),
    (&["between false and"], "ranges of booleans are ranges of their texts"),
    (&["between true and"], "ranges of booleans are ranges of their texts"),
    (&["new Map"], "scripts have the iterators of JavaScript"),
    (&["this.A.length = 1"], "an array that is made longer has as many elements"),
    (&["SelectMany(l => l.K)"], "a text is no sequence of characters in C# indexes"),
    (&["x.Missing *"], "arithmetic with undefined is NaN, as in JavaScript"),
];

/// Why a case of this text is answered differently, if that is meant.
pub(super) fn reason(text: &str) -> Option<&'static str> {
    let is_listed =
        |(parts, _): &&(&[&str], &'static str)| parts.iter().all(|part| text.contains(part));
    LISTED.iter().find(is_listed).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_listed_when_it_has_all_parts() {
        assert!(reason("index map('Items', i => ({ X0: -i.N }))").is_some());
        assert_eq!(reason("index from i in docs.Items select new { X0 = -i.N }"), None);
    }
}
