//! Reads a dump through and checks it, without a database.

use std::{
    io::{ErrorKind, Read},
    mem,
};

use documents::ContentHasher;
use serde_json::Value;
use smuggler::{BACKUP_FILE, DumpError, DumpEvent, DumpReader, Section, decode_segment};

use super::imported_items;
use crate::backup::BackupError;

/// Longer elements are refused.
const ELEMENT_BYTES_MAX: usize = 1 << 30;
/// Longer segments are refused; RavenDB's have 2 KB.
const SEGMENT_BYTES_MAX: usize = 64 << 10;
/// Read at once.
const PIECE_BYTES: usize = 256 << 10;

/// What a dump contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedDump {
    /// The build of the server that wrote it; 0 if it does not say so.
    pub build_version: u64,
    /// The sections in their order, each with the number of its elements.
    pub sections: Vec<(String, u64)>,
    /// How many contents of attachments are among them.
    pub contents: u64,
    /// The length of the text in bytes.
    pub text_bytes: u64,
}

impl VerifiedDump {
    /// The number of all elements.
    pub fn elements(&self) -> u64 {
        self.sections.iter().map(|(_, count)| count).sum()
    }
}

/// The raw bytes behind an element.
enum Raw {
    Content { hash: String, hasher: Box<ContentHasher>, position: u64 },
    Segment { bytes: Vec<u8>, position: u64 },
}

struct Verifier<'n> {
    name: &'n str,
    found: VerifiedDump,
    section: Option<Section>,
    property: String,
    raw: Option<Raw>,
}

/// Reads a dump through. `goes_on` is asked with how many bytes of text were read.
///
/// # Errors
/// As [`crate::verify_backup`].
pub(crate) fn verify_dump(
    text: &mut dyn Read,
    name: &str,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<VerifiedDump, BackupError> {
    let mut reader = DumpReader::new(ELEMENT_BYTES_MAX);
    let mut verifier = Verifier {
        name,
        found: VerifiedDump::default(),
        section: None,
        property: String::new(),
        raw: None,
    };
    let damaged = |source: DumpError| BackupError::Damaged { file: name.to_owned(), source };
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let bytes = text.read(&mut buffer).map_err(|error| BackupError::io(name, "read", error))?;
        if !goes_on(reader.position()) {
            return Err(BackupError::io(name, "verify", ErrorKind::Interrupted.into()));
        }
        let mut piece = &buffer[..bytes];
        loop {
            let event = reader.next(&mut piece).map_err(damaged)?;
            if event == DumpEvent::NeedMore {
                break;
            }
            if let Some(bytes) = verifier.take(event)? {
                reader.expect_bytes(bytes);
            }
        }
        if bytes == 0 {
            reader.finish().map_err(damaged)?;
            verifier.found.text_bytes = reader.position();
            return Ok(verifier.found);
        }
    }
}

impl Verifier<'_> {
    /// Checks an event; returns how many raw bytes follow the element.
    fn take(&mut self, event: DumpEvent<'_>) -> Result<Option<u64>, BackupError> {
        match event {
            DumpEvent::Name(name) => {
                self.section = Section::named(name);
                self.property = name.to_owned();
            }
            DumpEvent::Value(text) => {
                let checked = imported_items::check(text);
                checked.map_err(|reason| {
                    let property = &self.property;
                    self.inconsistent(format!("'{property}' cannot be read: {reason}"))
                })?;
                if self.property == "BuildVersion" {
                    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                    self.found.build_version = number.unwrap_or(0);
                }
            }
            DumpEvent::Element { text, position } if self.property == BACKUP_FILE => {
                return self.element(text, position);
            }
            DumpEvent::Element { text, position } => {
                let is_same = self.found.sections.last().is_some_and(|(n, _)| *n == self.property);
                if !is_same {
                    self.found.sections.push((self.property.clone(), 0));
                }
                if let Some((_, count)) = self.found.sections.last_mut() {
                    *count += 1;
                }
                return self.element(text, position);
            }
            DumpEvent::Bytes(bytes) => match &mut self.raw {
                Some(Raw::Content { hasher, .. }) => hasher.update(bytes),
                Some(Raw::Segment { bytes: known, .. }) => known.extend_from_slice(bytes),
                None => {}
            },
            DumpEvent::BytesEnd => self.end_raw()?,
            DumpEvent::NeedMore | DumpEvent::SectionEnd | DumpEvent::End => {}
        }
        Ok(None)
    }

    fn element(&mut self, text: &[u8], position: u64) -> Result<Option<u64>, BackupError> {
        let unreadable = |reason: String| {
            let property = &self.property;
            self.inconsistent(format!(
                "an element of '{property}' at byte {position} cannot be read: {reason}"
            ))
        };
        match self.section {
            Some(Section::TimeSeries) => {
                let head = imported_items::parse(text).map_err(unreadable)?;
                let size = head.get("@raven-blob-size").and_then(Value::as_u64);
                let size = size.filter(|size| *size <= SEGMENT_BYTES_MAX as u64);
                let size = size.ok_or_else(|| unreadable("its length is missing.".to_owned()))?;
                self.raw = Some(Raw::Segment { bytes: Vec::new(), position });
                Ok(Some(size))
            }
            // RavenDB leaves a comma behind the last property there.
            Some(Section::Indexes) => {
                imported_items::parse(text).map_err(unreadable)?;
                Ok(None)
            }
            Some(Section::Documents | Section::Revisions) if is_content(text) => {
                let head = imported_items::parse(text).map_err(unreadable)?;
                let hash = imported_items::text(&head, "Hash").map_err(unreadable)?.to_owned();
                let size = head.get("Size").and_then(Value::as_u64);
                let size = size.ok_or_else(|| unreadable("its length is missing.".to_owned()))?;
                self.found.contents += 1;
                self.raw = Some(Raw::Content { hash, hasher: Box::default(), position });
                Ok(Some(size))
            }
            _ => {
                imported_items::check(text).map_err(unreadable)?;
                Ok(None)
            }
        }
    }

    fn end_raw(&mut self) -> Result<(), BackupError> {
        match mem::take(&mut self.raw) {
            Some(Raw::Content { hash, hasher, position }) => {
                let found = hasher.finish().to_string();
                match found == hash {
                    true => Ok(()),
                    false => Err(self.inconsistent(format!(
                        "the content at byte {position} has the hash {found}, and should have {hash}"
                    ))),
                }
            }
            Some(Raw::Segment { bytes, position }) => {
                let decoded = decode_segment(&bytes, |_| ());
                decoded.map(drop).map_err(|error| {
                    self.inconsistent(format!(
                        "the segment at byte {position} cannot be read: {error}"
                    ))
                })
            }
            None => Ok(()),
        }
    }

    fn inconsistent(&self, detail: String) -> BackupError {
        BackupError::Inconsistent { file: self.name.to_owned(), detail }
    }
}

/// Whether an element is the head of a content: its metadata comes first, and say so.
fn is_content(text: &[u8]) -> bool {
    const BEGIN: &[u8] = b"{\"@metadata\":{\"@export-type\":";
    let mut compact = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    BEGIN.iter().all(|byte| compact.next() == Some(byte))
}
