//! Prints an object as compact JSON a piece at a time, so that its text is never in memory as a
//! whole: it may be far longer than the stored document, where names are stored once and long
//! strings are packed.

use crate::error::Corrupt;
use crate::format::{HEADER_BYTES, Token};
use crate::name_table::NameTable;
use crate::print::{closing, opening, print_escaped, print_place, print_scalar};
use crate::text::TextParts;
use crate::view::{Block, Object, Scalar};
use crate::walk::{Place, Step, Walk, check_order, container_of};
use crate::writer::Container;

/// Longer strings are printed in parts of this many bytes.
const TEXT_PART_BYTES: usize = 32 << 10;

/// Prints the properties of an object, without its braces, as [`crate::write_members_with`] does.
pub struct MemberPrinter<'a> {
    object: Object<'a>,
    names: NameTable<'a>,
    /// The next property.
    index: usize,
    cursor: usize,
    is_first: bool,
    /// The object or array being printed.
    inside: Option<(Walk<'a>, Container)>,
    /// The rest of the string being printed.
    text: Option<TextParts<'a>>,
}

impl<'a> MemberPrinter<'a> {
    /// A printer of all properties of `object`.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn new(object: &Object<'a>) -> Result<Self, Corrupt> {
        Ok(Self {
            object: *object,
            names: NameTable::open(object.bytes)?,
            index: 0,
            cursor: HEADER_BYTES,
            is_first: true,
            inside: None,
            text: None,
        })
    }

    /// Whether any property was printed.
    pub fn has_printed(&self) -> bool {
        !self.is_first
    }

    /// Appends to `out` until it has `length` bytes, exceeding that by at most 32 KB and a name;
    /// `true` when all is printed. Apart from that, some 100 KB are in memory for a packed string.
    /// Properties for which `is_omitted` returns true are left out.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn print_to(
        &mut self,
        out: &mut Vec<u8>,
        length: usize,
        is_omitted: impl Fn(&str) -> bool,
    ) -> Result<bool, Corrupt> {
        while out.len() < length {
            if self.text.is_some() {
                self.print_text_part(out)?;
            } else if self.inside.is_some() {
                self.print_step(out)?;
            } else if !self.begin_member(out, &is_omitted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn print_text_part(&mut self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let Some(text) = &mut self.text else { return Ok(()) };
        let part = text.next_part(TEXT_PART_BYTES)?;
        print_escaped(part, out);
        if part.is_empty() {
            out.push(b'"');
            self.text = None;
        }
        Ok(())
    }

    fn print_step(&mut self, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let Some((walk, outermost)) = &mut self.inside else { return Ok(()) };
        match walk.step()? {
            Some(Step::Scalar(place, value)) => {
                print_place(place, &self.names, out)?;
                self.begin_scalar(&value, out)?;
            }
            Some(Step::Begin(place, container)) => {
                print_place(place, &self.names, out)?;
                out.push(opening(container));
            }
            Some(Step::End(container)) => out.push(closing(container)),
            None => {
                out.push(closing(*outermost));
                self.cursor = walk.cursor();
                self.inside = None;
            }
        }
        Ok(())
    }

    /// Prints the next name and begins with its value; `false` when there is none.
    fn begin_member(
        &mut self,
        out: &mut Vec<u8>,
        is_omitted: &impl Fn(&str) -> bool,
    ) -> Result<bool, Corrupt> {
        let Object { bytes, block } = self.object;
        let Some((name, _)) = self.object.at(self.index)? else { return Ok(false) };
        let entry = block.entry(bytes, self.index)?;
        self.index += 1;
        if is_omitted(name) {
            return Ok(true);
        }
        print_place(Place { name: Some(entry.name), is_first: self.is_first }, &self.names, out)?;
        self.is_first = false;
        if matches!(entry.token, Token::Object | Token::Array) {
            check_order(entry.position, self.cursor)?;
            let block = Block::open(bytes, entry.position, entry.token)?;
            let container = container_of(&block);
            out.push(opening(container));
            self.inside = Some((Walk::new(bytes, block, self.cursor), container));
            return Ok(true);
        }
        let (value, end) = Scalar::open(bytes, entry.token, entry.position)?;
        if end != 0 {
            check_order(entry.position, self.cursor)?;
        }
        self.begin_scalar(&value, out)?;
        self.cursor = self.cursor.max(end);
        Ok(true)
    }

    fn begin_scalar(&mut self, value: &Scalar<'a>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        match value {
            Scalar::String(text) if TEXT_PART_BYTES < text.len() => {
                out.push(b'"');
                self.text = Some(text.parts());
                Ok(())
            }
            value => print_scalar(value, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseLimits, parse_document};

    /// Prints in pieces of that many bytes; returns the text and the longest piece.
    fn in_pieces(json: &str, length: usize) -> (String, usize) {
        let document = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let mut printer = MemberPrinter::new(&document.as_view().root()).unwrap();
        let (mut printed, mut longest) = (Vec::new(), 0);
        loop {
            let mut out = Vec::new();
            let is_done = printer.print_to(&mut out, length, |name| name == "omitted").unwrap();
            longest = longest.max(out.len());
            printed.extend(out);
            if is_done {
                return (String::from_utf8(printed).unwrap(), longest);
            }
        }
    }

    #[test]
    fn pieces_of_any_length_are_the_same_text() {
        let members = r#""a":1,"b":{"c":[1,2.50,{"d":null}],"e\n":"x\ty"},"f":[],"g":"ü","h":true"#;
        let json = format!(r#"{{"omitted":{{"x":[1]}},{members},"omitted":1}}"#);
        for length in [1, 2, 7, 64, 1 << 20] {
            assert_eq!(in_pieces(&json, length).0, members);
        }
        assert_eq!(in_pieces("{}", 10).0, "");
    }

    #[test]
    fn no_piece_is_much_longer_than_it_should_be() {
        let long = "a\"ü".repeat(50_000).replace('"', "\\\"");
        let values: Vec<_> = (0..2000).map(|number| format!(r#""{number:050}""#)).collect();
        let members = format!(r#""long":"{long}","values":[{}]"#, values.join(","));
        let (printed, longest) = in_pieces(&format!("{{{members}}}"), 1000);
        assert!(printed == members);
        assert!(longest <= 1000 + 2 * TEXT_PART_BYTES + 10, "{longest}");
    }
}
