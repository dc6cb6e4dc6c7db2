//! Every analyzer splits any text into a bounded number of tokens within the text, in its order,
//! and deterministically. The first byte chooses the analyzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use search::analysis::Analyzer;

const LONGEST_PART: u8 = 6;

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let analyzer = match which % 9 {
        0 => Analyzer::LowerCaseKeyword,
        1 => Analyzer::Keyword,
        2 => Analyzer::RavenStandard,
        3 => Analyzer::Standard,
        4 => Analyzer::Whitespace,
        5 => Analyzer::LowerCaseWhitespace,
        6 => Analyzer::Simple,
        7 => Analyzer::Stop,
        _ => Analyzer::NGram { min: which % LONGEST_PART, max: LONGEST_PART },
    };
    let (mut count, mut start, mut position) = (0, 0, 0);
    analyzer.analyze(&text, &mut |token| {
        assert!(token.start <= token.end && token.end <= text.len(), "{token:?} of {text:?}");
        assert!(text.is_char_boundary(token.start) && text.is_char_boundary(token.end));
        assert!(start <= token.start && position <= token.position, "{token:?} of {text:?}");
        (start, position) = (token.start, token.position);
        count += 1;
    });
    assert!(count <= (text.chars().count() + 1) * usize::from(LONGEST_PART));
    let terms = analyzer.terms(&text);
    assert_eq!(terms.len(), count);
    assert_eq!(analyzer.terms(&text), terms);
});
