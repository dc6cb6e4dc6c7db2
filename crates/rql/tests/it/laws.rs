//! What holds for every text: parsing never panics, and a printed tree parses to itself.

use proptest::prelude::*;
use rql::{parse, parse_update};

/// Pieces of the language; glued together they reach far more of the parser than random letters.
const PIECES: [&str; 82] = [
    "from",
    "from C",
    "from index 'I'",
    "as",
    "c",
    "where",
    "and",
    "or",
    "not",
    "in",
    "all in",
    "between",
    "=",
    "!=",
    "<",
    ">=",
    "(",
    ")",
    "[",
    "]",
    "[]",
    "{",
    "}",
    ",",
    ".",
    "'x'",
    "\"y\"",
    "'",
    "\\",
    "1",
    "-2.5",
    "1_0",
    "$p",
    "$",
    "null",
    "true",
    "a",
    "a.b",
    "Lines[].P",
    "id()",
    "f(",
    "timeseries(from x",
    "timeseries(from c.'x y'",
    "first 1h",
    "last '2 days'",
    "load Tag as w",
    "group by 1 h, tag",
    "with interpolation(linear)",
    "scale 2",
    "offset '01:00'",
    "group by",
    "order by",
    "desc",
    "as long",
    "load",
    "filter",
    "select",
    "select distinct",
    "*",
    "select { a: 1 }",
    "include",
    "limit",
    "offset",
    "filter_limit",
    "declare function f(x) { return x }",
    "declare timeseries",
    "update { }",
    "match",
    "//",
    "/*",
    "*/",
    "\n",
    "é",
    "😀",
    "/",
    "`",
    "${",
    "@all_docs",
    "'it''s'",
    ";",
    "exact(a = 'x')",
    "in ($p, 1)",
];

/// Parses `text` both ways and checks the law for texts that parse.
fn check_law(text: &str) {
    if let Ok(query) = parse(text) {
        let printed = query.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{text} -> {printed}: {error}"));
        assert_eq!(query, again, "{text} -> {printed}");
    }
    if let Ok(query) = parse_update(text) {
        let printed = query.to_string();
        let again = parse_update(&printed);
        let again = again.unwrap_or_else(|error| panic!("{text} -> {printed}: {error}"));
        assert_eq!(query, again, "{text} -> {printed}");
    }
}

fn condition() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a = 1",
        "'b c' != $p",
        "Lines[].P in ('x', $q)",
        "a.b between -1 and 2.5",
        "exists(a)",
        "true",
        "search(a, 'x', or)",
        "k = cmpxchg('v')",
        "t all in ()",
        "not.x = 1",
        "not in (1)",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(6, 40, 4, |inner| {
        let parts = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            parts.clone().prop_map(|parts| parts.join(" and ")),
            parts.prop_map(|parts| parts.join(" or ")),
            inner.clone().prop_map(|inner| format!("({inner})")),
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            inner.prop_map(|inner| format!("boost({inner}, 2)")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
        check_law(&text);
    }

    #[test]
    fn any_text_after_from_is_parsed_or_refused(text in "[ -~\\n]{0,40}") {
        check_law(&format!("from C where {text}"));
        check_law(&format!("from C as c select {text}"));
    }

    #[test]
    fn any_mixture_of_pieces_is_parsed_or_refused(
        pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24),
        spaced in any::<bool>(),
    ) {
        let text = pieces.join(if spaced { " " } else { "" });
        check_law(&text);
        check_law(&format!("from C {text}"));
        check_law(&format!("from C where {text}"));
    }

    #[test]
    fn a_printed_condition_parses_to_itself(condition in condition()) {
        check_law(&format!("from C as c where {condition} filter {condition} limit 1"));
    }
}
