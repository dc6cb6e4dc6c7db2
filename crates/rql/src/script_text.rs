//! Where a script inside a query ends, and which words it has.
//!
//! Not a JavaScript parser: it only knows what may hide a bracket or a word — quoted texts, templates,
//! comments and regular expressions.

use std::ops::Range;

/// The offset after the bracket that closes the one at `open`, or `None` when it stays open.
///
/// `open` is the offset of `{` or `(`. Brackets of other kinds inside are not matched against each
/// other; the engine that runs the script reports them.
pub fn closing(text: &str, open: usize) -> Option<usize> {
    let mut scan =
        Scan { bytes: text.as_bytes(), at: open, nested: Vec::new(), value_before: false };
    scan.run(&mut |_| {})
}

/// The names, keywords and numbers of a script, in order, outside of quotes, comments and patterns.
/// It ends where the script is malformed.
pub fn words(script: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    // The brace that nothing closes: the end of the text ends the scan.
    let nested = vec![Bracket::Brace];
    let mut scan = Scan { bytes: script.as_bytes(), at: 0, nested, value_before: false };
    scan.run(&mut |word| words.push(word));
    words
}

/// What the scan is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Brace,
    Round,
    /// The `${ … }` of a template; after its brace the template continues.
    Template,
}

struct Scan<'q> {
    bytes: &'q [u8],
    at: usize,
    nested: Vec<Bracket>,
    /// Whether the last token was a value, so that a slash divides instead of starting a pattern.
    value_before: bool,
}

impl Scan<'_> {
    /// The offset after the bracket that closes the first one; calls `see` with every word before
    /// it.
    fn run(&mut self, see: &mut dyn FnMut(Range<usize>)) -> Option<usize> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            match byte {
                b'\'' | b'"' => self.skip_until(byte)?,
                b'`' => {
                    self.at += 1;
                    self.template()?;
                }
                b'/' => self.slash()?,
                b'{' => self.open(Bracket::Brace),
                b'(' => self.open(Bracket::Round),
                b'}' | b')' => {
                    self.close(byte)?;
                    if self.nested.is_empty() {
                        return Some(self.at);
                    }
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => {
                    if let Some(word) = self.word_or_sign() {
                        see(word);
                    }
                }
            }
        }
    }

    fn open(&mut self, bracket: Bracket) {
        self.nested.push(bracket);
        self.at += 1;
        self.value_before = false;
    }

    fn close(&mut self, byte: u8) -> Option<()> {
        self.at += 1;
        self.value_before = true;
        match (self.nested.last()?, byte) {
            (Bracket::Template, b'}') => {
                self.nested.pop();
                self.template()
            }
            (Bracket::Brace, b'}') | (Bracket::Round, b')') => {
                self.nested.pop();
                Some(())
            }
            _ => None,
        }
    }

    /// Skips the text that starts at `at` and ends with an unescaped `quote`.
    fn skip_until(&mut self, quote: u8) -> Option<()> {
        self.at += 1;
        loop {
            match *self.bytes.get(self.at)? {
                b'\\' => self.at += 2,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        self.value_before = true;
                        return Some(());
                    }
                }
            }
        }
    }

    /// Skips template text up to its end or to the next `${`.
    fn template(&mut self) -> Option<()> {
        loop {
            match *self.bytes.get(self.at)? {
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    self.value_before = true;
                    return Some(());
                }
                b'$' if self.bytes.get(self.at + 1) == Some(&b'{') => {
                    self.at += 1;
                    self.open(Bracket::Template);
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }

    fn slash(&mut self) -> Option<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'/') => self.skip_past(b"\n"),
            Some(b'*') => {
                self.at += 2;
                self.skip_past(b"*/")
            }
            _ if self.value_before => {
                self.at += 1;
                self.value_before = false;
                Some(())
            }
            _ => self.pattern(),
        }
    }

    fn skip_past(&mut self, end: &[u8]) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        let found = rest.windows(end.len()).position(|window| window == end)?;
        self.at += found + end.len();
        Some(())
    }

    /// Skips a regular expression; a slash inside `[…]` does not end it.
    fn pattern(&mut self) -> Option<()> {
        let mut in_class = false;
        self.at += 1;
        loop {
            match *self.bytes.get(self.at)? {
                b'\\' => self.at += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'\n' => return None,
                b'/' if !in_class => {
                    self.at += 1;
                    self.value_before = true;
                    return Some(());
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Skips a word, which is returned, or a symbol.
    fn word_or_sign(&mut self) -> Option<Range<usize>> {
        let in_word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| !in_word(*byte)).unwrap_or(rest.len());
        if length == 0 {
            self.value_before = rest[0] == b']';
            self.at += 1;
            return None;
        }
        // After these words an expression starts, so a slash there opens a pattern.
        self.value_before = !matches!(&rest[..length], b"return" | b"typeof" | b"case" | b"in");
        let word = self.at..self.at + length;
        self.at = word.end;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_bracket_is_found_despite_everything_that_hides_one() {
        for (text, expected) in [
            ("{ a: 1 } rest", Some(8)),
            ("{ '}' } x", Some(7)),
            ("{ \"\\\"}\" }", Some(9)),
            ("{ /* } */ }", Some(11)),
            ("{ // }\n }", Some(9)),
            ("{ a: { b: (1) } }", Some(17)),
            ("{ a: /}[/}]/ }", Some(14)),
            ("{ a: b / c, d: e / f }", Some(22)),
            ("{ return /}/ }", Some(14)),
            ("{ a: `}${ { x: `}` } }}` }", Some(26)),
            ("(from a ')')", Some(12)),
            ("{ a: 1", None),
            ("{ ( }", None),
            ("{ 'open }", None),
            ("{ /* open }", None),
        ] {
            assert_eq!(closing(text, 0), expected, "{text}");
        }
    }

    #[test]
    fn words_are_those_of_code() {
        for (script, expected) in [
            ("a.b(c => 1)", &["a", "b", "c", "1"][..]),
            ("'a' + \"b\" /* c */ + d // e\n + f", &["d", "f"]),
            ("`a${b}c${`d${e}`}`", &["b", "e"]),
            ("x / y / z, /p\\/q/.test(r)", &["x", "y", "z", "test", "r"]),
            ("ä$1(_)", &["ä$1", "_"]),
            ("a } b", &["a"]),
            ("a 'b", &["a"]),
        ] {
            let found: Vec<_> = words(script).into_iter().map(|word| &script[word]).collect();
            assert_eq!(found, expected, "{script}");
        }
    }
}
