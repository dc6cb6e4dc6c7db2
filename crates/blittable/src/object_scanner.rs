//! Finds where the elements of a streamed sequence of JSON objects end, without parsing them.
//!
//! The sequence is a JSON array of objects, or objects separated by white space or single commas. State is
//! a few words, whatever the size of the stream. It only counts brackets outside strings; whether
//! an element is valid is left to [`JsonReader`](crate::JsonReader).

use std::error::Error;
use std::fmt;

use crate::value_scanner::ValueScanner;

/// How far [`ObjectScanner::scan`] got in a chunk. Offsets count from the start of that chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scanned {
    /// An element ends: its bytes in this chunk are `start..end` (its earlier bytes, if any, were
    /// in earlier chunks, and then `start` is 0). Scan again from `end`.
    Element {
        /// First byte of the element in this chunk.
        start: usize,
        /// The byte after the element.
        end: usize,
    },
    /// The chunk ends inside an element, whose bytes here begin at `start`.
    Partial {
        /// First byte of the element in this chunk.
        start: usize,
    },
    /// The chunk ends between elements or after the last.
    Between,
}

/// Why a stream was refused. Positions count from the start of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanError {
    /// Something other than an object, a separator or a bracket of the array appears between
    /// elements.
    UnexpectedByte {
        /// The byte.
        found: u8,
        /// Its offset in the stream.
        position: u64,
    },
    /// An element is longer than the scanner allows.
    ElementTooLarge {
        /// The limit.
        bytes_max: usize,
        /// Offset of the element's first byte in the stream.
        position: u64,
    },
    /// The stream ended inside an element or before the array's closing bracket.
    UnexpectedEnd {
        /// The length of the stream.
        position: u64,
    },
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::UnexpectedByte { found, position } => {
                let found = found.escape_ascii();
                write!(f, "unexpected '{found}' between objects at byte {position}")
            }
            ScanError::ElementTooLarge { bytes_max, position } => {
                write!(f, "the object at byte {position} exceeds {bytes_max} bytes")
            }
            ScanError::UnexpectedEnd { position } => {
                write!(f, "the stream of objects ends unexpectedly at byte {position}")
            }
        }
    }
}

impl Error for ScanError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing but white space yet.
    Start,
    /// Between the elements of an array.
    InArray,
    /// Between bare elements.
    InSequence,
    /// After the closing bracket of the array.
    AfterArray,
}

/// Finds element boundaries in chunks that arrive one after the other.
///
/// ```
/// use blittable::{ObjectScanner, Scanned};
///
/// let mut scanner = ObjectScanner::new(1024);
/// assert_eq!(scanner.scan(br#"[{"a":1},{"b""#)?, Scanned::Element { start: 1, end: 8 });
/// assert_eq!(scanner.scan(br#",{"b""#)?, Scanned::Partial { start: 1 });
/// assert_eq!(scanner.scan(br#":2}]"#)?, Scanned::Element { start: 0, end: 3 });
/// assert_eq!(scanner.scan(b"]")?, Scanned::Between);
/// scanner.finish()?;
/// # Ok::<(), blittable::ScanError>(())
/// ```
#[derive(Debug)]
pub struct ObjectScanner {
    phase: Phase,
    /// An element ended, and no comma has followed it.
    may_separate: bool,
    element: ValueScanner,
    element_bytes: usize,
    element_bytes_max: usize,
    position: u64,
}

impl ObjectScanner {
    /// A scanner that refuses elements longer than `element_bytes_max`.
    pub fn new(element_bytes_max: usize) -> ObjectScanner {
        ObjectScanner {
            phase: Phase::Start,
            may_separate: false,
            element: ValueScanner::default(),
            element_bytes: 0,
            element_bytes_max,
            position: 0,
        }
    }

    /// Reads `chunk` up to the end of the first element in it.
    ///
    /// The bytes reported as part of an element, and those before them, are consumed; do not pass
    /// them again.
    pub fn scan(&mut self, chunk: &[u8]) -> Result<Scanned, ScanError> {
        let mut start = 0;
        if !self.element.is_inside() {
            match self.scan_between(chunk)? {
                Some(first) => start = first,
                None => {
                    self.position += chunk.len() as u64;
                    return Ok(Scanned::Between);
                }
            }
        }
        let end = self.element.scan(chunk, start);
        let read = end.unwrap_or(chunk.len());
        self.element_bytes += read - start;
        self.position += read as u64;
        if self.element_bytes > self.element_bytes_max {
            return Err(ScanError::ElementTooLarge {
                bytes_max: self.element_bytes_max,
                position: self.position - self.element_bytes as u64,
            });
        }
        match end {
            Some(end) => {
                self.element_bytes = 0;
                self.may_separate = true;
                Ok(Scanned::Element { start, end })
            }
            None => Ok(Scanned::Partial { start }),
        }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Checks that the stream may end here.
    pub fn finish(&self) -> Result<(), ScanError> {
        if self.element.is_inside() || self.phase == Phase::InArray {
            return Err(ScanError::UnexpectedEnd { position: self.position });
        }
        Ok(())
    }

    /// Finds the first byte of the next element.
    fn scan_between(&mut self, chunk: &[u8]) -> Result<Option<usize>, ScanError> {
        for (index, &byte) in chunk.iter().enumerate() {
            match (byte, self.phase) {
                (b' ' | b'\n' | b'\r' | b'\t', _) => {}
                (b'[', Phase::Start) => self.phase = Phase::InArray,
                (b']', Phase::InArray) => self.phase = Phase::AfterArray,
                (b',', Phase::InArray | Phase::InSequence) if self.may_separate => {
                    self.may_separate = false;
                }
                (b'{', Phase::Start | Phase::InArray | Phase::InSequence) => {
                    if self.phase == Phase::Start {
                        self.phase = Phase::InSequence;
                    }
                    return Ok(Some(index));
                }
                (found, _) => {
                    let position = self.position + index as u64;
                    return Err(ScanError::UnexpectedByte { found, position });
                }
            }
        }
        Ok(None)
    }
}
