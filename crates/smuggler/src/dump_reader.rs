//! Reads a dump that arrives in pieces.
//!
//! A dump is one JSON object. Its properties are sections, most of them arrays of objects, and behind
//! some objects come raw bytes, whose number the object says: so it is not JSON as a whole, and the
//! consumer has to say how many bytes to expect. Invariant: what is held is at most one element, and
//! only when it lies in several pieces.

use blittable::ValueScanner;

use crate::error::DumpError;

/// The longest name of a section, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Files may begin with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What comes next in a dump.
#[derive(Debug, PartialEq, Eq)]
pub enum DumpEvent<'e> {
    /// The piece is used up.
    NeedMore,
    /// A property begins, of this name: a section, or a value.
    Name(&'e str),
    /// The value of a property that is no array, as JSON text: `BuildVersion`, `DatabaseRecord`.
    Value(&'e [u8]),
    /// An element of a section.
    Element {
        /// Its JSON text.
        text: &'e [u8],
        /// Where it begins.
        position: u64,
    },
    /// A part of the raw bytes behind an element.
    Bytes(&'e [u8]),
    /// The raw bytes are complete.
    BytesEnd,
    /// The section is complete.
    SectionEnd,
    /// The dump is complete.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the first byte, with that many bytes of the mark seen.
    Start(usize),
    /// Before the name of a property, or the end.
    BeforeName {
        is_first: bool,
    },
    InName,
    BehindName,
    BeforeValue,
    /// In a number, a word or a string that is the value of a property or an element.
    InScalar {
        in_array: bool,
        scalar: Scalar,
    },
    /// In an object or an array that is the value of a property or an element.
    InValue {
        in_array: bool,
    },
    BehindValue,
    /// Before an element, or the end of the section.
    BeforeElement {
        is_first: bool,
    },
    BehindElement,
    /// In raw bytes, of which so many are missing.
    InBytes(u64),
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scalar {
    Word,
    String { is_escaped: bool },
}

/// Reads a dump.
pub struct DumpReader {
    place: Place,
    scanner: ValueScanner,
    /// The begin of a name or an element that is not complete.
    partial: Vec<u8>,
    /// Whether `partial` was returned and is to be cleared.
    is_returned: bool,
    element_bytes_max: usize,
    position: u64,
    /// Where the current element begins.
    element_at: u64,
}

/// Where the text of an event is.
enum Found {
    NeedMore,
    Name,
    Value { start: usize, end: usize },
    Element { start: usize, end: usize },
    SectionEnd,
    BytesEnd,
    Bytes { start: usize, end: usize },
    End,
}

impl DumpReader {
    /// A reader that refuses elements longer than `element_bytes_max`.
    pub fn new(element_bytes_max: usize) -> DumpReader {
        DumpReader {
            place: Place::Start(0),
            scanner: ValueScanner::default(),
            partial: Vec::new(),
            is_returned: false,
            element_bytes_max,
            position: 0,
            element_at: 0,
        }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes of an unfinished element are held.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// So many raw bytes follow directly behind the element that was just returned.
    pub fn expect_bytes(&mut self, count: u64) {
        self.place = Place::InBytes(count);
    }

    /// The next event; `piece` is advanced behind it. With [`DumpEvent::NeedMore`] it is empty.
    ///
    /// # Errors
    /// The text is no dump. Nothing more can be read then.
    pub fn next<'r, 'p: 'r>(
        &'r mut self,
        piece: &mut &'p [u8],
    ) -> Result<DumpEvent<'r>, DumpError> {
        if std::mem::take(&mut self.is_returned) {
            self.partial.clear();
            // One long element must not keep its memory for the rest of the dump.
            self.partial.shrink_to(64 << 10);
        }
        let whole = *piece;
        let (found, used) = self.find(whole)?;
        *piece = &whole[used..];
        self.position += used as u64;
        Ok(match found {
            Found::NeedMore => DumpEvent::NeedMore,
            Found::Name => {
                self.is_returned = true;
                let name = std::str::from_utf8(&self.partial).unwrap_or("\u{fffd}");
                DumpEvent::Name(name)
            }
            Found::Value { start, end } => DumpEvent::Value(self.text(&whole[start..end])),
            Found::Element { start, end } => {
                let position = self.element_at;
                DumpEvent::Element { text: self.text(&whole[start..end]), position }
            }
            Found::SectionEnd => DumpEvent::SectionEnd,
            Found::BytesEnd => DumpEvent::BytesEnd,
            Found::Bytes { start, end } => DumpEvent::Bytes(&whole[start..end]),
            Found::End => DumpEvent::End,
        })
    }

    /// Checks that the dump may end here.
    ///
    /// # Errors
    /// Something is missing.
    pub fn finish(&self) -> Result<(), DumpError> {
        let expected = match self.place {
            Place::End => return Ok(()),
            Place::Start(_) => "the whole dump",
            Place::BeforeName { .. } | Place::InName => "the name of a section",
            Place::BehindName | Place::BeforeValue => "the value of a property",
            Place::InScalar { .. } | Place::InValue { .. } => "the end of an element",
            Place::BehindValue => "the end of the dump",
            Place::BeforeElement { .. } | Place::BehindElement => "the end of a section",
            Place::InBytes(_) => "the end of the bytes of an attachment or a time series",
        };
        Err(DumpError::UnexpectedEnd { position: self.position, expected })
    }

    /// The text of a value whose last part this is.
    fn text<'r, 'p: 'r>(&'r mut self, last: &'p [u8]) -> &'r [u8] {
        if self.partial.is_empty() {
            return last;
        }
        self.partial.extend_from_slice(last);
        self.is_returned = true;
        &self.partial
    }

    fn find(&mut self, piece: &[u8]) -> Result<(Found, usize), DumpError> {
        let mut at = 0;
        loop {
            if let Place::InBytes(left) = self.place {
                return Ok(self.raw_bytes(piece, at, left));
            }
            let Some(&byte) = piece.get(at) else { return Ok((Found::NeedMore, at)) };
            match self.place {
                Place::InValue { in_array } => return self.in_value(piece, at, in_array),
                Place::InScalar { .. } => {
                    if let Some(found) = self.in_scalar(byte, &mut at)? {
                        return Ok((found, at));
                    }
                }
                Place::InName => {
                    at += 1;
                    if byte == b'"' {
                        self.place = Place::BehindName;
                        return Ok((Found::Name, at));
                    }
                    self.partial.push(byte);
                    if NAME_BYTES_MAX < self.partial.len() {
                        return Err(DumpError::NameTooLong { position: self.position });
                    }
                }
                Place::Start(seen) if BYTE_ORDER_MARK.get(seen) == Some(&byte) => {
                    at += 1;
                    self.place = Place::Start(seen + 1);
                }
                _ if byte.is_ascii_whitespace() => at += 1,
                _ => match self.structure(byte, at)? {
                    Step::Over(Some(found)) => return Ok((found, at + 1)),
                    Step::Over(None) => at += 1,
                    Step::Begin => self.element_at = self.position + at as u64,
                },
            }
        }
    }

    /// Between names and values.
    fn structure(&mut self, byte: u8, at: usize) -> Result<Step, DumpError> {
        let value = |in_array: bool| match byte {
            b'{' | b'[' => Place::InValue { in_array },
            b'"' => Place::InScalar { in_array, scalar: Scalar::String { is_escaped: false } },
            _ => Place::InScalar { in_array, scalar: Scalar::Word },
        };
        let (place, step) = match (self.place, byte) {
            (Place::Start(0 | 3), b'{') => (Place::BeforeName { is_first: true }, Step::Over(None)),
            (Place::BeforeName { .. }, b'"') => (Place::InName, Step::Over(None)),
            (Place::BeforeName { is_first: true } | Place::BehindValue, b'}') => {
                (Place::End, Step::Over(Some(Found::End)))
            }
            (Place::BehindName, b':') => (Place::BeforeValue, Step::Over(None)),
            (Place::BeforeValue, b'[') => {
                (Place::BeforeElement { is_first: true }, Step::Over(None))
            }
            (Place::BeforeValue, _) if begins_value(byte) => (value(false), Step::Begin),
            (Place::BehindValue, b',') => (Place::BeforeName { is_first: false }, Step::Over(None)),
            (Place::BeforeElement { is_first: true } | Place::BehindElement, b']') => {
                (Place::BehindValue, Step::Over(Some(Found::SectionEnd)))
            }
            (Place::BeforeElement { .. }, _) if begins_value(byte) => (value(true), Step::Begin),
            (Place::BehindElement, b',') => {
                (Place::BeforeElement { is_first: false }, Step::Over(None))
            }
            (place, found) => {
                let position = self.position + at as u64;
                return Err(DumpError::UnexpectedByte {
                    found,
                    position,
                    expected: expected(place),
                });
            }
        };
        self.place = place;
        Ok(step)
    }

    fn in_value(
        &mut self,
        piece: &[u8],
        at: usize,
        in_array: bool,
    ) -> Result<(Found, usize), DumpError> {
        let end = self.scanner.scan(piece, at);
        self.check_length(end.unwrap_or(piece.len()) - at)?;
        let Some(end) = end else {
            self.partial.extend_from_slice(&piece[at..]);
            return Ok((Found::NeedMore, piece.len()));
        };
        Ok((self.complete(in_array, at, end), end))
    }

    fn complete(&mut self, in_array: bool, start: usize, end: usize) -> Found {
        match in_array {
            true => {
                self.place = Place::BehindElement;
                Found::Element { start, end }
            }
            false => {
                self.place = Place::BehindValue;
                Found::Value { start, end }
            }
        }
    }

    fn check_length(&self, more: usize) -> Result<(), DumpError> {
        let (bytes_max, position) = (self.element_bytes_max, self.element_at);
        match self.partial.len() + more <= bytes_max {
            true => Ok(()),
            false => Err(DumpError::ElementTooLong { bytes_max, position }),
        }
    }

    /// Goes on in a number, a word or a string. These are rare, so bytes are taken one by one.
    fn in_scalar(&mut self, byte: u8, at: &mut usize) -> Result<Option<Found>, DumpError> {
        let Place::InScalar { in_array, scalar } = self.place else { return Ok(None) };
        let ends_word = byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
        if scalar == Scalar::Word && ends_word {
            return Ok(Some(self.complete(in_array, *at, *at)));
        }
        self.check_length(1)?;
        self.partial.push(byte);
        *at += 1;
        let Scalar::String { is_escaped } = scalar else { return Ok(None) };
        let is_first = self.partial.len() == 1;
        if byte == b'"' && !is_first && !is_escaped {
            return Ok(Some(self.complete(in_array, *at, *at)));
        }
        let scalar = Scalar::String { is_escaped: byte == b'\\' && !is_escaped };
        self.place = Place::InScalar { in_array, scalar };
        Ok(None)
    }

    fn raw_bytes(&mut self, piece: &[u8], at: usize, left: u64) -> (Found, usize) {
        if left == 0 {
            self.place = Place::BehindElement;
            return (Found::BytesEnd, at);
        }
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len() - at);
        if here == 0 {
            return (Found::NeedMore, at);
        }
        self.place = Place::InBytes(left - here as u64);
        (Found::Bytes { start: at, end: at + here }, at + here)
    }
}

enum Step {
    /// The byte is done.
    Over(Option<Found>),
    /// The byte is the first of a value.
    Begin,
}

fn begins_value(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

fn expected(place: Place) -> &'static str {
    match place {
        Place::Start(_) => "the '{' of a dump",
        Place::BeforeName { .. } | Place::InName => "the name of a section",
        Place::BehindName => "':'",
        Place::BeforeValue => "a value",
        Place::BehindValue => "',' or '}'",
        Place::BeforeElement { .. } => "an element",
        Place::BehindElement => "',' or ']'",
        Place::InScalar { .. } | Place::InValue { .. } | Place::InBytes(_) => "more of a value",
        Place::End => "nothing behind the dump",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a dump, in pieces of this length; elements that say `"Size"` are followed by as many bytes.
    fn events(dump: &[u8], piece_bytes: usize) -> Result<Vec<String>, DumpError> {
        let mut reader = DumpReader::new(64);
        let mut events: Vec<String> = Vec::new();
        for mut piece in dump.chunks(piece_bytes) {
            loop {
                let mut expected = None;
                match reader.next(&mut piece)? {
                    DumpEvent::NeedMore => break,
                    DumpEvent::Name(name) => events.push(format!("name {name}")),
                    DumpEvent::Value(text) => {
                        events.push(format!("value {}", String::from_utf8_lossy(text)));
                    }
                    DumpEvent::Element { text, position } => {
                        assert!(dump[position as usize..].starts_with(text));
                        let text = String::from_utf8_lossy(text).into_owned();
                        if let Some((_, size)) = text.split_once("\"Size\":") {
                            expected = size.trim_end_matches('}').parse().ok();
                        }
                        events.push(format!("element {text}"));
                    }
                    DumpEvent::Bytes(bytes) => {
                        let bytes = String::from_utf8_lossy(bytes);
                        match events.last_mut().filter(|last| last.starts_with("bytes ")) {
                            Some(last) => last.push_str(&bytes),
                            None => events.push(format!("bytes {bytes}")),
                        }
                    }
                    DumpEvent::BytesEnd => events.push("bytes end".to_owned()),
                    DumpEvent::SectionEnd => events.push("end".to_owned()),
                    DumpEvent::End => events.push("over".to_owned()),
                }
                if let Some(count) = expected {
                    reader.expect_bytes(count);
                }
            }
        }
        reader.finish().map(|()| events)
    }

    const DUMP: &str = r#"{"BuildVersion":54178,"Record":{"a":[1,"}"]},"Text":"a\"b","Docs":[{"a":"{\"["},
        {"Size":5}[}",x,{"b":[]}],"None":[],"Words":[1,"x",null,[2]],"Other":null} "#;

    #[test]
    fn a_dump_is_read_the_same_in_pieces_of_any_length() {
        let expected = [
            "name BuildVersion",
            "value 54178",
            "name Record",
            r#"value {"a":[1,"}"]}"#,
            "name Text",
            r#"value "a\"b""#,
            "name Docs",
            r#"element {"a":"{\"["}"#,
            r#"element {"Size":5}"#,
            "bytes [}\",x",
            "bytes end",
            r#"element {"b":[]}"#,
            "end",
            "name None",
            "end",
            "name Words",
            "element 1",
            r#"element "x""#,
            "element null",
            "element [2]",
            "end",
            "name Other",
            "value null",
            "over",
        ];
        for piece_bytes in 1..DUMP.len() {
            assert_eq!(events(DUMP.as_bytes(), piece_bytes).unwrap(), expected, "{piece_bytes}");
        }
        assert_eq!(events(b"\xef\xbb\xbf{}", 1).unwrap(), ["over"]);
    }

    #[test]
    fn a_dump_that_is_cut_is_an_error_wherever_it_is_cut() {
        let end = DUMP.trim_end().len();
        for length in 0..end {
            let error = events(&DUMP.as_bytes()[..length], 7).unwrap_err();
            assert!(
                matches!(error, DumpError::UnexpectedEnd { position, .. } if position == length as u64),
                "{length}: {error:?}"
            );
        }
    }

    #[test]
    fn what_is_no_dump_is_refused_with_its_position() {
        let cases = [
            ("[]", 0, "the '{' of a dump"),
            ("\u{1f}\u{8b}", 0, "the '{' of a dump"),
            ("{\"a\":1,}", 7, "the name of a section"),
            ("{\"a\" 1}", 5, "':'"),
            ("{\"a\":[1 2]}", 8, "',' or ']'"),
            ("{\"a\":[1,]}", 8, "an element"),
            ("{\"a\":[{}}]}", 8, "',' or ']'"),
            ("{} x", 3, "nothing behind the dump"),
            ("{\"a\":x}", 5, "a value"),
        ];
        for (text, at, what) in cases {
            let error = events(text.as_bytes(), 3).unwrap_err();
            match error {
                DumpError::UnexpectedByte { position, expected, .. } => {
                    assert_eq!((position, expected), (at, what), "{text}");
                }
                other => panic!("{text}: {other}"),
            }
        }
        let long = format!("{{\"Docs\":[{{\"a\":\"{}\"}}]}}", "x".repeat(64));
        for piece_bytes in [1, 200] {
            let error = events(long.as_bytes(), piece_bytes).unwrap_err();
            assert_eq!(error, DumpError::ElementTooLong { bytes_max: 64, position: 9 });
        }
        let name = format!("{{\"{}\":1}}", "x".repeat(200));
        assert!(matches!(events(name.as_bytes(), 50), Err(DumpError::NameTooLong { .. })));
    }
}
