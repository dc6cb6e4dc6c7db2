//! Differences that are meant. Each has its reason here and in `docs/compatibility.md`.

/// Why cases are answered differently, and by what they are known: a case is one of them when its text has
/// all parts of one pattern. The first reason counts.
const LISTED: &[(&str, &[&[&str]])] = &[
    (
        "a range of null is an InvalidQueryException, not a NullReferenceException",
        &[&["> null"], &["< null"], &[">= null"], &["<= null"]],
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
            &["Q <= '"],
            &["Q >= '"],
            &["Q < '"],
            &["Q > '"],
            &["Q between '"],
        ],
    ),
    ("a property that a patch deleted is gone for the rest of the script", &[&["delete this.S;"]]),
    ("null is one group, not one for each row", &[&["i.Q", "groupBy"]]),
    ("0 has no sign", &[&["index map", "% 3"], &["index map", "-i.N"]]),
    ("JSON.stringify works on parts of documents", &[&["JSON.stringify(x"]]),
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
    ("a text is no sequence of characters in C# indexes", &[&["SelectMany(l => l.K)"]]),
    ("arithmetic with undefined is NaN, as in JavaScript", &[&["x.Missing *"]]),
];

/// Why a case of this text is answered differently, if that is meant.
pub(super) fn reason(text: &str) -> Option<&'static str> {
    let is_of = |pattern: &&[&str]| pattern.iter().all(|part| text.contains(part));
    let is_listed = |(_, patterns): &&(&str, &'static [&[&str]])| patterns.iter().any(is_of);
    LISTED.iter().find(is_listed).map(|(reason, _)| *reason)
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
