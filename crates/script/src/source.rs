//! A document that scripts read, with the server's metadata of it.
//!
//! Owns the bytes, so that JavaScript objects may point into it for as long as they live.

use std::rc::Rc;

use blittable::{BlittableBuf, BuildError, Document, Item, ObjectBuilder};

use model::ticks::{TICKS_PER_MILLISECOND, UNIX_EPOCH_TICKS};

use crate::date::date_text;

const METADATA: &str = "@metadata";
/// Names that the server adds to a document's metadata when it shows them.
pub(crate) const ADDED_NAMES: [&str; 3] = ["@id", "@change-vector", "@last-modified"];

/// The server's metadata of a stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentInfo {
    /// The id, as it is stored.
    pub id: Rc<str>,
    /// The change vector; empty when there is none yet.
    pub change_vector: Rc<str>,
    /// The last change, in 100 ns units since 0001-01-01 UTC; 0 when there was none yet.
    pub last_modified_ticks: i64,
}

impl DocumentInfo {
    /// The last change in milliseconds since 1970, with fractions.
    pub(crate) fn last_modified_millis(&self) -> Option<f64> {
        let ticks = self.last_modified_ticks;
        (ticks != 0).then(|| (ticks - UNIX_EPOCH_TICKS) as f64 / TICKS_PER_MILLISECOND as f64)
    }

    fn last_modified_text(&self) -> String {
        let since = self.last_modified_ticks - UNIX_EPOCH_TICKS;
        let mut text = date_text(since.div_euclid(TICKS_PER_MILLISECOND) as f64);
        let rest = since.rem_euclid(TICKS_PER_MILLISECOND);
        text.truncate(text.len() - "0000Z".len());
        text.push_str(&format!("{rest:04}Z"));
        text
    }
}

/// A document as scripts get it.
#[derive(Clone, Debug)]
pub struct ScriptDocument {
    pub(crate) source: Rc<Source>,
}

impl ScriptDocument {
    /// A document with its metadata. Nothing is parsed: properties are read when the script
    /// accesses them.
    pub fn new(document: BlittableBuf, info: DocumentInfo) -> ScriptDocument {
        ScriptDocument { source: Rc::new(Source { buf: document, info: Some(info) }) }
    }

    /// A document that is not stored: arguments, results of a map, entries of a time series.
    pub fn unstored(document: BlittableBuf) -> ScriptDocument {
        ScriptDocument { source: Rc::new(Source { buf: document, info: None }) }
    }

    /// Size of the document, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.source.buf.as_bytes().len()
    }

    /// The original document, without changes by a script.
    pub fn document(&self) -> Document<'_> {
        self.source.document()
    }
}

#[derive(Debug)]
pub(crate) struct Source {
    buf: BlittableBuf,
    info: Option<DocumentInfo>,
}

impl Source {
    #[inline]
    pub(crate) fn document(&self) -> Document<'_> {
        self.buf.as_view()
    }

    pub(crate) fn info(&self) -> Option<&DocumentInfo> {
        self.info.as_ref()
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.info.as_ref().map(|info| &*info.id)
    }

    /// The metadata with the names that the server adds; `None` when the document has neither.
    pub(crate) fn metadata(&self) -> Result<Option<Rc<Source>>, BuildError> {
        let stored = self.document().root().get_object(METADATA)?;
        if stored.is_none() && self.info.is_none() {
            return Ok(None);
        }
        let mut builder = ObjectBuilder::new();
        if let Some(stored) = stored {
            for property in stored.iter() {
                let (name, value) = property?;
                builder.put(name, Item::Copy(value));
            }
        }
        if let Some(info) = &self.info {
            builder.put("@id", &*info.id);
            if !info.change_vector.is_empty() {
                builder.put("@change-vector", &*info.change_vector);
            }
            if info.last_modified_ticks != 0 {
                builder.put("@last-modified", info.last_modified_text().as_str());
            }
        }
        let buf = builder.finish()?;
        Ok(Some(Rc::new(Source { buf, info: None })))
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn metadata_shows_what_the_server_adds() {
        let json = br#"{"a":1,"@metadata":{"@collection":"Docs","Foo":"bar"}}"#;
        let document = parse_document(json, &ParseLimits::default()).unwrap();
        let info = DocumentInfo {
            id: Rc::from("d/1"),
            change_vector: Rc::from("A:3-x"),
            last_modified_ticks: 638_992_362_513_225_393,
        };
        let document = ScriptDocument::new(document, info.clone());
        let metadata = document.source.metadata().unwrap().unwrap();
        assert_eq!(
            String::from_utf8(metadata.document().to_json().unwrap()).unwrap(),
            concat!(
                r#"{"@collection":"Docs","Foo":"bar","@id":"d/1","@change-vector":"A:3-x","#,
                r#""@last-modified":"2025-11-20T11:50:51.3225393Z"}"#
            )
        );
        assert_eq!(info.last_modified_millis(), Some(1_763_639_451_322.539_3));
        let empty = parse_document(b"{}", &ParseLimits::default()).unwrap();
        assert!(ScriptDocument::unstored(empty).source.metadata().unwrap().is_none());
    }
}
