use super::*;

/// What a text means: clauses as the printer writes them, without its backslashes.
fn meaning(text: &str) -> String {
    match parse(text) {
        Ok(group) => {
            let printed = group.to_string();
            assert_eq!(parse(&printed).as_ref(), Ok(&group), "{text} is printed as {printed}");
            printed.replace('\\', "")
        }
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn clauses_are_joined_as_lucene_joins_them() {
    for (text, expected) in [
        ("quick", "quick"),
        ("quick fox", "quick fox"),
        ("quick AND fox", "+quick +fox"),
        ("quick && fox", "+quick +fox"),
        ("quick OR fox || dog", "quick fox dog"),
        ("quick OR fox AND dog", "quick +fox +dog"),
        ("quick AND fox OR dog", "+quick +fox dog"),
        ("quick and fox", "quick and fox"),
        ("+quick -red !blue", "+quick -red -blue"),
        ("quick NOT red", "quick -red"),
        ("quick AND NOT red", "+quick -red"),
        ("NOT quick AND red", "-quick +red"),
        ("-quick AND red", "-quick +red"),
        ("quick AND (red OR brown)", "+quick +(red brown)"),
        ("a&&b", "a&&b"),
        ("bear TO", "bear TO"),
    ] {
        assert_eq!(meaning(text), expected, "{text}");
    }
}

#[test]
fn a_clause_is_a_text_or_a_pattern_or_a_range() {
    for (text, expected) in [
        ("\"quick fox\"", "\"quick fox\""),
        ("\"quick fox\"~2", "\"quick fox\"~2"),
        ("\"quick \\\"fox\\\"\"", "\"quick \"fox\"\""),
        ("\"quick fox\"~2^3", "\"quick fox\"~2^3"),
        ("quick*", "quick*"),
        ("*ick", "*ick"),
        ("qu?ck*", "qu?ck*"),
        ("quick~", "quick~0.5"),
        ("quick~0.9", "quick~0.9"),
        ("[bear TO fox]", "[\"bear\" TO \"fox\"]"),
        ("{bear TO \"red fox\"}", "{\"bear\" TO \"red fox\"}"),
        ("[* TO fox]", "[* TO \"fox\"]"),
        ("N:[1 TO *]", "N:[\"1\" TO *]"),
        ("[-5 TO 10]", "[\"-5\" TO \"10\"]"),
        ("N:\\-3", "N:-3"),
        ("quick^2 bear", "quick^2 bear"),
        ("(quick fox)^3.5", "(quick fox)^3.5"),
        ("B:(quick T:fox)", "B:(quick T:fox)"),
        ("*", "*"),
        ("B:*", "B:*"),
        ("*:*", "*:*"),
        (r"\*:*", "*:*"),
        ("e-mail john@x.com 10,000 c# c++", "e-mail john@x.com 10,000 c# c++"),
        ("日本語\u{3000}x", "日本語 x"),
    ] {
        assert_eq!(meaning(text), expected, "{text}");
    }
    let escaped = parse(r"qu\*k a\?b* \AND").unwrap();
    let sought: Vec<_> = escaped.clauses.into_iter().map(|clause| clause.sought).collect();
    let text = |text: &str| Sought::Text(text.to_owned());
    assert_eq!(sought, [text("qu*k"), Sought::Prefix("a?b".to_owned()), text("AND")]);
}

#[test]
fn what_is_no_query_is_refused_with_its_place() {
    let at =
        |shown: &str, column: usize| format!("Encountered \"{shown}\" at line 1, column {column}.");
    for (text, problem) in [
        ("", at("<EOF>", 0)),
        ("  ", at("<EOF>", 2)),
        ("()", at(")", 1)),
        ("(quick", at("<EOF>", 6)),
        ("quick)", at(")", 5)),
        ("quick AND", at("<EOF>", 9)),
        ("AND quick", at("AND", 0)),
        ("quick AND AND fox", at("AND", 10)),
        ("OR", at("OR", 0)),
        ("a:b:c", at(":", 3)),
        ("B:", at("<EOF>", 2)),
        ("N:-3", at("-", 2)),
        ("quick^", at("<EOF>", 6)),
        ("quick^a", at("a", 6)),
        ("[bear TO fox", at("<EOF>", 12)),
        ("[bear TO fox}", at("<EOF>", 13)),
        ("[bear TO", at("<EOF>", 8)),
        ("\"quick", "Lexical error at line 1, column 6: the closing quote is missing".to_owned()),
        ("quick\\", "Lexical error at line 1, column 6: nothing follows the backslash".to_owned()),
        (
            "quick~2",
            "Minimum similarity for a FuzzyQuery has to be between 0.0f and 1.0f !".to_owned(),
        ),
    ] {
        assert_eq!(meaning(text), format!("Cannot parse '{text}': {problem}"), "{text}");
    }
    let error = parse("B:").unwrap_err().to_string();
    assert!(error.contains("\nWas expecting one of:\n    NOT\n    +"), "{error}");
}

#[test]
fn a_text_is_bounded_in_length_and_depth() {
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(LUCENE_DEPTH_MAX)).is_ok());
    let refused = parse(&nested(LUCENE_DEPTH_MAX + 1)).unwrap_err().to_string();
    assert!(refused.ends_with("it is nested deeper than 64 levels"), "{refused}");
    let refused = parse(&"a ".repeat(LUCENE_BYTES_MAX)).unwrap_err().to_string();
    assert!(refused.ends_with("it has 131072 bytes, more than the 65536 allowed"), "{refused}");
    assert!(parse(&"a ".repeat(LUCENE_BYTES_MAX / 2)).is_ok());
}

#[test]
fn any_few_signs_are_a_query_or_an_error() {
    let signs = [
        "a", " ", "AND", "NOT ", "+", "-", "(", ")", ":", "^", "2", "[", "]", "{", "}", "TO", "\"",
        "~", "*", "?", "\\", "|", "é",
    ];
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(signs[(state >> 11) as usize % signs.len()]);
        }
        meaning(&text);
    }
}
