//! The terms of analyzers for some texts, as observed in RavenDB 5.4.

use std::collections::BTreeSet;

use super::{Analyzer, N_GRAM_DEFAULT};
use crate::{SearchError, fields::FieldOptions, fields::Indexing};

/// A text, and the terms of the analyzers named in short.
type Case = (&'static str, &'static [(&'static str, &'static [&'static str])]);

const CASES: &[Case] = &[
    (" ", &[("k lk", &[" "]), ("rs", &[])]),
    (
        "Hello World",
        &[
            ("lk", &["hello world"]),
            ("k", &["Hello World"]),
            ("lw rs s si st", &["hello", "world"]),
            ("w", &["Hello", "World"]),
            (
                "n",
                &[
                    "el", "ell", "ello", "he", "hel", "hell", "hello", "ld", "ll", "llo", "lo",
                    "or", "orl", "orld", "rl", "rld", "wo", "wor", "worl", "world",
                ],
            ),
        ],
    ),
    ("it's That's dog's no's I.T. the", &[("rs", &["dog", "it", "no", "that"]), ("s", &["dog"])]),
    ("The fig", &[("n", &["fi", "fig", "ig"])]),
    (" Hello ", &[("lk", &[" hello "]), ("k", &[" Hello "]), ("rs", &["hello"])]),
    ("5", &[("lw rs s w", &["5"]), ("n si st", &[])]),
    ("-5", &[("rs", &["5"])]),
    ("0", &[("rs", &["0"])]),
    ("1.5", &[("rs", &["1.5"])]),
    ("1", &[("rs", &["1"])]),
    ("true", &[("rs", &["true"])]),
    (
        "2020-01-02T03:04:05.1234567Z",
        &[
            ("w", &["2020-01-02T03:04:05.1234567Z"]),
            ("rs s", &["04", "05.1234567z", "2020-01-02t03"]),
            ("lw", &["2020-01-02t03:04:05.1234567z"]),
            ("si st", &["t", "z"]),
        ],
    ),
    ("2020-01-02T03:04:05.1230000Z", &[("rs", &["04", "05.1230000z", "2020-01-02t03"])]),
    ("2020-01-02T03:04:05.0000000", &[("rs", &["04", "05.0000000", "2020-01-02t03"])]),
    ("2020-01-02", &[("k lk rs", &["2020-01-02"])]),
    ("2020-01-02T01:04:05.0000000Z", &[("rs", &["04", "05.0000000z", "2020-01-02t01"])]),
    ("01:02:03", &[("k lk", &["01:02:03"]), ("rs", &["01", "02", "03"])]),
    (
        "F3A0C0DE-0000-0000-0000-000000000001",
        &[
            ("lk rs", &["f3a0c0de-0000-0000-0000-000000000001"]),
            ("k", &["F3A0C0DE-0000-0000-0000-000000000001"]),
        ],
    ),
    (
        "ÉCLAIR Straße İstanbul ǅ Σίσυφος",
        &[
            ("lk", &["éclair straße İstanbul ǆ σίσυφος"]),
            ("k", &["ÉCLAIR Straße İstanbul ǅ Σίσυφος"]),
            ("lw rs s si st", &["straße", "éclair", "İstanbul", "ǆ", "σίσυφος"]),
            ("w", &["Straße", "ÉCLAIR", "İstanbul", "ǅ", "Σίσυφος"]),
        ],
    ),
    (
        "日本語 テスト",
        &[
            ("k lk", &["日本語 テスト"]),
            ("rs s", &["ス", "テ", "ト", "日", "本", "語"]),
            ("lw si st w", &["テスト", "日本語"]),
        ],
    ),
    ("a😀b", &[("k lk", &["a😀b"]), ("rs", &["b"])]),
    (
        "John.Doe@example.com",
        &[
            ("lk lw rs s", &["john.doe@example.com"]),
            ("k w", &["John.Doe@example.com"]),
            ("si st", &["com", "doe", "example", "john"]),
        ],
    ),
    (
        "John's dogs' O'Neil",
        &[
            ("lk", &["john's dogs' o'neil"]),
            ("k", &["John's dogs' O'Neil"]),
            ("rs s", &["dogs", "john", "o'neil"]),
            ("w", &["John's", "O'Neil", "dogs'"]),
            ("lw", &["dogs'", "john's", "o'neil"]),
            ("si st", &["dogs", "john", "neil", "o", "s"]),
        ],
    ),
    (
        "U.S.A. I.B.M",
        &[
            ("lk", &["u.s.a. i.b.m"]),
            ("k", &["U.S.A. I.B.M"]),
            ("rs s", &["i.b.m", "usa"]),
            ("w", &["I.B.M", "U.S.A."]),
            ("lw", &["i.b.m", "u.s.a."]),
            ("si", &["a", "b", "i", "m", "s", "u"]),
            ("st", &["b", "i", "m", "s", "u"]),
        ],
    ),
    (
        "well-known e-mail x-1",
        &[
            ("k lk", &["well-known e-mail x-1"]),
            ("rs s", &["e", "known", "mail", "well", "x-1"]),
            ("lw w", &["e-mail", "well-known", "x-1"]),
            ("si st", &["e", "known", "mail", "well", "x"]),
            (
                "n",
                &[
                    "-1", "ai", "ail", "el", "ell", "il", "kn", "kno", "know", "known", "ll", "ma",
                    "mai", "mail", "no", "now", "nown", "ow", "own", "we", "wel", "well", "wn",
                    "x-", "x-1",
                ],
            ),
        ],
    ),
    (
        "foo_bar foo.bar a.b.c",
        &[
            ("k lk", &["foo_bar foo.bar a.b.c"]),
            ("rs s", &["a.b.c", "bar", "foo", "foo.bar"]),
            ("lw w", &["a.b.c", "foo.bar", "foo_bar"]),
            ("si", &["a", "b", "bar", "c", "foo"]),
            ("st", &["b", "bar", "c", "foo"]),
        ],
    ),
    (
        "123 1.5 1,000 3e5 v2.0 AB12",
        &[
            ("lk", &["123 1.5 1,000 3e5 v2.0 ab12"]),
            ("k", &["123 1.5 1,000 3e5 v2.0 AB12"]),
            ("lw rs s", &["1,000", "1.5", "123", "3e5", "ab12", "v2.0"]),
            ("w", &["1,000", "1.5", "123", "3e5", "AB12", "v2.0"]),
            ("si st", &["ab", "e", "v"]),
        ],
    ),
    (
        "hello, world! (foo) \"bar\" #tag $5 50% a/b c:d @x &",
        &[
            ("k lk", &["hello, world! (foo) \"bar\" #tag $5 50% a/b c:d @x &"]),
            ("rs s", &["5", "50", "b", "bar", "c", "d", "foo", "hello", "tag", "world", "x"]),
            (
                "lw w",
                &[
                    "\"bar\"", "#tag", "$5", "&", "(foo)", "50%", "@x", "a/b", "c:d", "hello,",
                    "world!",
                ],
            ),
            ("si", &["a", "b", "bar", "c", "d", "foo", "hello", "tag", "world", "x"]),
            ("st", &["b", "bar", "c", "d", "foo", "hello", "tag", "world", "x"]),
        ],
    ),
    (
        "http://www.Example.com/a?b=c",
        &[
            ("lk lw", &["http://www.example.com/a?b=c"]),
            ("k w", &["http://www.Example.com/a?b=c"]),
            ("rs s", &["b", "c", "http", "www.example.com"]),
            ("si", &["a", "b", "c", "com", "example", "http", "www"]),
            ("st", &["b", "c", "com", "example", "http", "www"]),
        ],
    ),
    (
        "The quick and the dead to be or not",
        &[
            ("lk", &["the quick and the dead to be or not"]),
            ("k", &["The quick and the dead to be or not"]),
            ("rs s st", &["dead", "quick"]),
            ("w", &["The", "and", "be", "dead", "not", "or", "quick", "the", "to"]),
            ("lw si", &["and", "be", "dead", "not", "or", "quick", "the", "to"]),
        ],
    ),
    ("a\tb\nc", &[("k lk", &["a\tb\nc"]), ("rs", &["b", "c"])]),
    (
        "AT&T R&D",
        &[
            ("lk", &["at&t r&d"]),
            ("k", &["AT&T R&D"]),
            ("lw rs s", &["at&t", "r&d"]),
            ("w", &["AT&T", "R&D"]),
            ("si", &["at", "d", "r", "t"]),
            ("st", &["d", "r", "t"]),
        ],
    ),
    ("9223372036854775807", &[("rs", &["9223372036854775807"])]),
    ("12345678901234567890", &[("rs", &["12345678901234567890"])]),
    ("1e300", &[("rs", &["1e300"])]),
    ("0.00000001", &[("rs", &["0.00000001"])]),
    ("1.1", &[("rs", &["1.1"])]),
    ("123456789.123456789123", &[("rs", &["123456789.123456789123"])]),
    ("-0", &[("rs", &["0"])]),
    ("1E5", &[("rs", &["1e5"])]),
];

fn analyzer(short: &str) -> Analyzer {
    let (min, max) = N_GRAM_DEFAULT;
    match short {
        "k" => Analyzer::Keyword,
        "lk" => Analyzer::LowerCaseKeyword,
        "rs" => Analyzer::RavenStandard,
        "s" => Analyzer::Standard,
        "w" => Analyzer::Whitespace,
        "lw" => Analyzer::LowerCaseWhitespace,
        "si" => Analyzer::Simple,
        "st" => Analyzer::Stop,
        "n" => Analyzer::NGram { min, max },
        other => panic!("{other}"),
    }
}

#[test]
fn analyzers_make_the_terms_that_clients_know() {
    for (text, expectations) in CASES {
        for (analyzers, expected) in *expectations {
            for short in analyzers.split(' ') {
                let terms: BTreeSet<String> =
                    analyzer(short).terms(text).into_iter().map(|(term, _)| term).collect();
                let expected: BTreeSet<String> =
                    expected.iter().map(|term| (*term).to_owned()).collect();
                assert_eq!(terms, expected, "{text} by {short}");
            }
        }
    }
}

#[test]
fn positions_pass_over_stop_words_or_leave_gaps_and_offsets_are_those_of_the_text() {
    let text = "To the Élan of John's U.S.A.";
    for (analyzer, positions) in
        [(Analyzer::RavenStandard, [0, 1, 2]), (Analyzer::Standard, [2, 4, 5])]
    {
        let mut tokens = Vec::new();
        analyzer.analyze(text, &mut |token| {
            let source = &text[token.start..token.end];
            tokens.push((token.text.to_owned(), token.position, source));
        });
        let [first, second, third] = positions;
        let expected =
            [("élan", first, "Élan"), ("john", second, "John's"), ("usa", third, "U.S.A.")];
        assert_eq!(tokens, expected.map(|(term, at, source)| (term.to_owned(), at, source)));
    }
}

#[test]
fn long_words_are_dropped_or_cut() {
    let text = format!("a {} b", "x".repeat(600));
    assert_eq!(Analyzer::RavenStandard.terms(&text), [("b".to_owned(), 1)]);
    let pieces: Vec<usize> =
        Analyzer::Whitespace.terms(&text).iter().map(|(term, _)| term.len()).collect();
    assert_eq!(pieces, [1, 255, 255, 90, 1]);
}

#[test]
fn names_are_found_short_and_as_types_and_others_are_refused() {
    for (name, expected) in [
        ("StandardAnalyzer", Analyzer::Standard),
        ("RavenStandardAnalyzer", Analyzer::RavenStandard),
        ("Lucene.Net.Analysis.Standard.StandardAnalyzer", Analyzer::Standard),
        ("Lucene.Net.Analysis.WhitespaceAnalyzer", Analyzer::Whitespace),
        ("Lucene.Net.Analysis.SimpleAnalyzer, Lucene.Net", Analyzer::Simple),
        ("StopAnalyzer", Analyzer::Stop),
        ("KeywordAnalyzer", Analyzer::Keyword),
        ("LowerCaseKeywordAnalyzer", Analyzer::LowerCaseKeyword),
        ("LowerCaseWhitespaceAnalyzer", Analyzer::LowerCaseWhitespace),
        (
            "Raven.Server.Documents.Indexes.Persistence.Lucene.Analyzers.NGramAnalyzer",
            Analyzer::NGram { min: 2, max: 6 },
        ),
    ] {
        assert_eq!(Analyzer::by_name(name).expect(name), expected);
    }
    for name in ["NopeAnalyzer", "", "Nope.StandardAnalyzer"] {
        let error = Analyzer::by_name(name).expect_err(name);
        assert!(matches!(error, SearchError::UnknownAnalyzer { name: named } if named == name));
    }
    for name in ["CollationAnalyzer", "Some.Cultures.SvCollationAnalyzer"] {
        let error = Analyzer::by_name(name).expect_err(name);
        assert!(matches!(error, SearchError::UnsupportedAnalyzer { name: named } if named == name));
    }
}

#[test]
fn options_choose_the_analyzer() {
    let with = |indexing, analyzer| FieldOptions { analyzer, ..FieldOptions::new(indexing) };
    let words = Some(Analyzer::Whitespace);
    for (options, expected, has_words) in [
        (with(Indexing::Default, None), Some(Analyzer::LowerCaseKeyword), false),
        (with(Indexing::Default, words.clone()), words.clone(), true),
        (with(Indexing::Exact, words.clone()), Some(Analyzer::Keyword), false),
        (with(Indexing::Search, None), Some(Analyzer::RavenStandard), true),
        (with(Indexing::Search, words.clone()), words.clone(), true),
        (with(Indexing::No, words), None, false),
    ] {
        assert_eq!(options.effective_analyzer(), expected, "{options:?}");
        assert_eq!(options.has_words(), has_words, "{options:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_an_analyzer_panic_and_tokens_are_parts_of_the_text(text in "[a-cA-C0-1 '.@&_,/é日😀ก-]{0,40}|\\PC{0,40}") {
        for short in ["k", "lk", "s", "w", "lw", "si", "st", "n"] {
            let mut last = 0;
            analyzer(short).analyze(&text, &mut |token| {
                assert!(token.start < token.end || text.is_empty());
                assert!(text.get(token.start..token.end).is_some());
                assert!(last <= token.start, "tokens come in order");
                last = token.start;
            });
        }
    }
}
