//! Finds where one JSON object or array ends in chunks that arrive one after the other, without parsing it.
//!
//! It only counts brackets outside strings; whether the text is valid is left to
//! [`JsonReader`](crate::JsonReader). State is a few words, whatever the length of the text.

use crate::string_scan::find_byte_to_escape;

/// Finds the end of one object or array.
///
/// ```
/// use blittable::ValueScanner;
///
/// let mut scanner = ValueScanner::default();
/// assert_eq!(scanner.scan(br#"{"a":"}""#, 0), None);
/// assert_eq!(scanner.scan(b"},", 0), Some(1));
/// ```
#[derive(Debug, Default)]
pub struct ValueScanner {
    /// Open brackets; 0 between values.
    depth: usize,
    /// The quote of the string that is open.
    quote: Option<u8>,
    /// The last byte was a backslash inside a string.
    is_escaped: bool,
}

impl ValueScanner {
    /// Whether a value has begun, and not ended yet.
    pub fn is_inside(&self) -> bool {
        self.depth != 0
    }

    /// Continues at `start`, which is the opening bracket of a value unless one has begun; returns the position
    /// after its closing bracket when that is in `chunk`.
    pub fn scan(&mut self, chunk: &[u8], start: usize) -> Option<usize> {
        let mut position = start;
        while let Some(&byte) = chunk.get(position) {
            if let Some(quote) = self.quote {
                position = self.scan_string(chunk, position, quote);
                continue;
            }
            position += 1;
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(position);
                    }
                }
                b'"' | b'\'' => self.quote = Some(byte),
                _ => {}
            }
        }
        None
    }

    /// Continues inside a string; returns the position after it or the end of `chunk`.
    fn scan_string(&mut self, chunk: &[u8], start: usize, quote: u8) -> usize {
        let mut position = start;
        if self.is_escaped {
            self.is_escaped = false;
            position += 1;
        }
        loop {
            let found = match quote {
                b'"' => find_byte_to_escape(chunk, position),
                _ => chunk[position.min(chunk.len())..]
                    .iter()
                    .position(|&byte| byte == quote || byte == b'\\')
                    .map(|found| position + found),
            };
            let Some(found) = found else { return chunk.len() };
            position = found + 1;
            if chunk[found] == quote {
                self.quote = None;
                return position;
            }
            if chunk[found] == b'\\' {
                if position == chunk.len() {
                    self.is_escaped = true;
                    return position;
                }
                position += 1;
            }
        }
    }
}
