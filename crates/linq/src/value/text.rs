//! A text value: borrowed from a document or the definition, or shared.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::value::live::Counted;

/// A text.
#[derive(Clone)]
pub struct Text<'a> {
    characters: Characters<'a>,
    /// Read from a document. .NET has a separate type for these: `is string` is false for them, and
    /// sets distinguish them from equal texts created by the definition.
    from_document: bool,
}

#[derive(Clone)]
enum Characters<'a> {
    Borrowed(&'a str),
    Shared(Rc<SharedText>),
}

struct SharedText {
    text: Rc<str>,
    _counted: Counted,
}

impl<'a> Characters<'a> {
    fn shared(text: Rc<str>) -> Self {
        let _counted = Counted::elements::<u8>(text.len());
        Characters::Shared(Rc::new(SharedText { text, _counted }))
    }
}

impl<'a> Text<'a> {
    /// A text of a document, in place.
    pub(crate) fn of_document(text: &'a str) -> Text<'a> {
        Text { characters: Characters::Borrowed(text), from_document: true }
    }

    /// A text of a document that had to be unpacked.
    pub(crate) fn unpacked(text: String) -> Text<'a> {
        Text { characters: Characters::shared(text.into()), from_document: true }
    }

    /// A text that is written in the definition.
    pub(crate) fn constant(text: &'a str) -> Text<'a> {
        Text { characters: Characters::Borrowed(text), from_document: false }
    }

    /// A text created by the definition.
    pub(crate) fn shared(text: Rc<str>) -> Text<'a> {
        Text { characters: Characters::shared(text), from_document: false }
    }

    /// The same characters as a string of .NET.
    pub(crate) fn into_string(self) -> Text<'a> {
        Text { from_document: false, ..self }
    }

    pub(crate) fn is_from_document(&self) -> bool {
        self.from_document
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        match &self.characters {
            Characters::Borrowed(text) => text,
            Characters::Shared(shared) => &shared.text,
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
