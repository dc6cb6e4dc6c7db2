//! The rules for the name of a database.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::lower_case::lower_case;

/// Longest name, in UTF-16 units.
pub const DATABASE_NAME_CHARACTERS_MAX: usize = 128;

/// Names that some file systems reserve for devices, without their digits.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// A database's name: letters, digits, `_`, `-`, and `.` between other characters. Compares without
/// case and keeps its spelling.
#[derive(Clone, Debug)]
pub struct DatabaseName {
    text: Box<str>,
    lowered: Box<str>,
}

/// Why a name is refused. The messages are part of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidDatabaseName {
    /// Only blanks.
    Empty,
    /// It contains a path separator.
    ForbiddenCharacter(String),
    /// More than [`DATABASE_NAME_CHARACTERS_MAX`].
    TooLong(String),
    /// It names a device.
    Device(String),
    /// It contains something else than letters, digits, `_`, `-`, `.`.
    NotPermitted(String),
    /// A `.` at the start, at the end or next to another.
    Dots(String),
}

impl DatabaseName {
    /// Trims the text and checks it.
    ///
    /// # Errors
    /// The first rule that the name breaks.
    pub fn new(text: &str) -> Result<Self, InvalidDatabaseName> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidDatabaseName::Empty);
        }
        let owned = || text.to_owned();
        if text.contains('/') {
            return Err(InvalidDatabaseName::ForbiddenCharacter(owned()));
        }
        if DATABASE_NAME_CHARACTERS_MAX < text.encode_utf16().count() {
            return Err(InvalidDatabaseName::TooLong(owned()));
        }
        if !text.chars().all(is_permitted) {
            return Err(InvalidDatabaseName::NotPermitted(owned()));
        }
        if text.split('.').any(str::is_empty) {
            return Err(InvalidDatabaseName::Dots(owned()));
        }
        let lowered = lower_case(text);
        if is_device(&lowered) {
            return Err(InvalidDatabaseName::Device(owned()));
        }
        Ok(Self { text: text.into(), lowered: lowered.into() })
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The lower-cased form by which names are compared.
    pub fn lower_cased(&self) -> &str {
        &self.lowered
    }
}

fn is_permitted(character: char) -> bool {
    let is_in_basic_plane = character as u32 <= 0xffff;
    matches!(character, '_' | '-' | '.') || (is_in_basic_plane && character.is_alphanumeric())
}

fn is_device(lowered: &str) -> bool {
    if DEVICES.contains(&lowered) {
        return true;
    }
    NUMBERED_DEVICES.iter().any(|device| match lowered.strip_prefix(device) {
        Some(number) => matches!(number.as_bytes(), [b'1'..=b'9']),
        None => false,
    })
}

impl fmt::Display for InvalidDatabaseName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Name cannot be null or empty."),
            Self::ForbiddenCharacter(name) => {
                write!(
                    formatter,
                    "The name '{name}' contains characters that are forbidden for use!"
                )
            }
            Self::TooLong(name) => {
                write!(
                    formatter,
                    "The name '{name}' exceeds '{DATABASE_NAME_CHARACTERS_MAX}' characters!"
                )
            }
            Self::Device(name) => write!(formatter, "The name '{name}' is forbidden for use!"),
            Self::NotPermitted(name) => write!(
                formatter,
                "The name '{name}' is not permitted. Only letters, digits and characters \
                 ('_', '-', '.') are allowed."
            ),
            Self::Dots(name) => write!(
                formatter,
                "The name '{name}' is not permitted. If a name contains '.' character then it must \
                 be surrounded by other allowed characters."
            ),
        }
    }
}

impl std::error::Error for InvalidDatabaseName {}

impl fmt::Display for DatabaseName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.text)
    }
}

impl PartialEq for DatabaseName {
    fn eq(&self, other: &Self) -> bool {
        self.lowered == other.lowered
    }
}

impl Eq for DatabaseName {}

impl Hash for DatabaseName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lowered.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_kept_as_written() {
        for name in ["a", "a.b.c", "a_b-c", "-a", "_a", "é", "é.é", "日本", "1", "System", "a._b"]
        {
            assert_eq!(DatabaseName::new(name).unwrap().as_str(), name);
        }
        assert!(DatabaseName::new(&"x".repeat(128)).is_ok());
        assert_eq!(DatabaseName::new(" ab ").unwrap().as_str(), "ab");
        assert_eq!(DatabaseName::new("Sales").unwrap(), DatabaseName::new("sALES").unwrap());
    }

    #[test]
    fn bad_names_are_refused_with_the_message_of_the_protocol() {
        let not_permitted = |name: &str| {
            format!(
                "The name '{name}' is not permitted. Only letters, digits and characters \
                 ('_', '-', '.') are allowed."
            )
        };
        let dots = |name: &str| {
            format!(
                "The name '{name}' is not permitted. If a name contains '.' character then it must \
                 be surrounded by other allowed characters."
            )
        };
        for name in
            ["a*b", "a b", "a\\b", "a:b", "a|b", "a\0b", "a\u{301}", "a+b", "a'b", "\u{10400}"]
        {
            assert_eq!(DatabaseName::new(name).unwrap_err().to_string(), not_permitted(name));
        }
        for name in ["a..b", ".a", "a.", ".", "..", "a.b..c"] {
            assert_eq!(DatabaseName::new(name).unwrap_err().to_string(), dots(name));
        }
        for name in ["con", "CON", "nul", "aux", "com1", "lpt9", "prn"] {
            let expected = format!("The name '{name}' is forbidden for use!");
            assert_eq!(DatabaseName::new(name).unwrap_err().to_string(), expected);
        }
        let long = "x".repeat(129);
        let cases = [
            ("", "Name cannot be null or empty.".to_owned()),
            ("a/b", "The name 'a/b' contains characters that are forbidden for use!".to_owned()),
            (&long, format!("The name '{long}' exceeds '128' characters!")),
        ];
        for (name, expected) in cases {
            assert_eq!(DatabaseName::new(name).unwrap_err().to_string(), expected);
        }
    }
}
