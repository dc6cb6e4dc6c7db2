//! Splits a stream of JSON objects that have nothing but white space between them.
//!
//! Only braces, brackets and strings are examined; validating an object is left to its reader. Every byte is
//! examined once, however the stream is cut into pieces.

/// The stream does not continue with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnObject {
    /// The byte where an object should begin.
    pub byte: u8,
}

/// Finds the end of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectSplitter {
    /// Bytes examined so far.
    position: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl ObjectSplitter {
    /// Looks for the end of the first object in `bytes`, which must be the bytes of the last call, possibly
    /// extended. `None` if more bytes are needed. The bytes after an end need a new splitter.
    ///
    /// # Errors
    /// Something other than an object begins.
    pub fn end_of_object(&mut self, bytes: &[u8]) -> Result<Option<usize>, NotAnObject> {
        while let Some(byte) = bytes.get(self.position).copied() {
            self.position += 1;
            if self.is_in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if byte == b'{' || 0 < self.depth => self.depth += 1,
                b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {}
                byte if self.depth == 0 => return Err(NotAnObject { byte }),
                b'"' => self.is_in_string = true,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.position));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_however_the_stream_is_cut() {
        let first = br#" {"a":"}\"","b":[{},"\\"]}"#;
        let stream = [first, br#"{"c":1}"#.as_slice()].concat();
        for cut in 0..first.len() {
            let mut splitter = ObjectSplitter::default();
            assert_eq!(splitter.end_of_object(&stream[..cut]), Ok(None), "{cut}");
            assert_eq!(splitter.end_of_object(&stream), Ok(Some(first.len())), "{cut}");
        }
    }

    #[test]
    fn nothing_else_begins_a_message() {
        for (stream, byte) in [("GET /", b'G'), (" [1]", b'['), ("}", b'}'), ("\r\n\"", b'"')] {
            let found = ObjectSplitter::default().end_of_object(stream.as_bytes());
            assert_eq!(found, Err(NotAnObject { byte }), "{stream}");
        }
    }
}
