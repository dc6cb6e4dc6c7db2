//! The encodings of texts that .NET names, and how it reads bytes as text.

/// How the characters of a text are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// Seven bits; every other byte is a question mark.
    Ascii,
    /// UTF-16, the lower byte first.
    Utf16,
    /// UTF-16, the higher byte first.
    Utf16BigEndian,
    /// UTF-32, the lowest byte first.
    Utf32,
    /// UTF-32, big-endian; only recognized by its byte order mark.
    Utf32BigEndian,
}

/// Byte order marks, and the encodings of the texts that begin with them. A mark that starts with
/// another one precedes it.
const MARKS: [(&[u8], TextEncoding); 5] = [
    (&[0xef, 0xbb, 0xbf], TextEncoding::Utf8),
    (&[0xff, 0xfe, 0, 0], TextEncoding::Utf32),
    (&[0, 0, 0xfe, 0xff], TextEncoding::Utf32BigEndian),
    (&[0xff, 0xfe], TextEncoding::Utf16),
    (&[0xfe, 0xff], TextEncoding::Utf16BigEndian),
];

impl TextEncoding {
    /// The encoding that .NET's class `Encoding` has under that name, whatever its case.
    pub fn named(name: &str) -> Option<TextEncoding> {
        Some(match name.to_ascii_lowercase().as_str() {
            "utf8" | "default" => TextEncoding::Utf8,
            "ascii" => TextEncoding::Ascii,
            "unicode" => TextEncoding::Utf16,
            "bigendianunicode" => TextEncoding::Utf16BigEndian,
            "utf32" => TextEncoding::Utf32,
            _ => return None,
        })
    }

    /// The text of these bytes. A byte order mark overrides this encoding and is not part of the
    /// text; invalid characters become U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> String {
        let marked = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark));
        let (bytes, encoding) =
            marked.map_or((bytes, self), |(mark, found)| (&bytes[mark.len()..], *found));
        match encoding {
            TextEncoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            TextEncoding::Ascii => {
                bytes.iter().map(|byte| if byte.is_ascii() { *byte as char } else { '?' }).collect()
            }
            TextEncoding::Utf16 => utf16(bytes, u16::from_le_bytes),
            TextEncoding::Utf16BigEndian => utf16(bytes, u16::from_be_bytes),
            TextEncoding::Utf32 => utf32(bytes, u32::from_le_bytes),
            TextEncoding::Utf32BigEndian => utf32(bytes, u32::from_be_bytes),
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let characters = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let characters = characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
    characters.chain((!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER)).collect()
}

fn utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> String {
    let (units, rest) = bytes.as_chunks::<4>();
    let characters = units.iter().map(|bytes| char::from_u32(unit(*bytes)));
    let characters = characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER));
    characters.chain((!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_dotnet_reads_them() {
        let read = |name: &str, bytes: &[u8]| TextEncoding::named(name).unwrap().decode(bytes);
        assert_eq!(read("utf8", "hellö".as_bytes()), "hellö");
        assert_eq!(read("Default", b"a\xe4\x80b\xff"), "a\u{fffd}b\u{fffd}");
        assert_eq!(read("ASCII", "hellö".as_bytes()), "hell??");
        assert_eq!(read("unicode", b"h\0e\0\xf6\0"), "heö");
        assert_eq!(read("unicode", b"h\0e"), "h\u{fffd}");
        assert_eq!(read("BigEndianUnicode", b"\0h\0\xf6"), "hö");
        assert_eq!(read("utf32", b"h\0\0\0\xf6\0\0\0"), "hö");
        assert_eq!(read("utf32", b"h\0e\0l\0l\0\xf6\0"), "\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(read("ascii", b""), "");
        for unknown in ["utf-8", "latin1", "utf7", ""] {
            assert_eq!(TextEncoding::named(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_byte_order_mark_decides() {
        for (bytes, text) in [
            (b"\xef\xbb\xbfh\xc3\xb6".as_slice(), "hö"),
            (b"\xff\xfeh\0\xf6\0", "hö"),
            (b"\xfe\xff\0h\0\xf6", "hö"),
            (b"\xff\xfe\0\0h\0\0\0\xf6\0\0\0", "hö"),
            (b"\0\0\xfe\xff\0\0\0h\0\0\0\xf6", "hö"),
        ] {
            for encoding in [TextEncoding::Utf8, TextEncoding::Ascii, TextEncoding::Utf16BigEndian]
            {
                assert_eq!(encoding.decode(bytes), text, "{bytes:?}");
            }
        }
    }
}
