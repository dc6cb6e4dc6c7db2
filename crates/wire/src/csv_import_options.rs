//! How the fields of a CSV file are separated, as clients send it with an import.

use serde_json::{Map, Value};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// What is said of a CSV file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvImportOptions {
    /// Between two fields.
    pub delimiter: u8,
    /// Around a field that has delimiters, quotes or line ends.
    pub quote: u8,
    /// Begins a line that is passed over.
    pub comment: Option<u8>,
    /// Whether blanks around a field are left out.
    pub trims: bool,
}

impl Default for CsvImportOptions {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', comment: None, trims: false }
    }
}

impl CsvImportOptions {
    /// Reads the options of a request. Names of properties are read in any case; unknown ones are ignored.
    ///
    /// # Errors
    /// A property of another type than it should have; a character that is not ASCII, or more than one; the same character
    /// with two meanings.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let mut options = Self::default();
        let (mut comment, mut allows_comments) = (b'#', false);
        for (name, value) in sent.iter().filter(|(_, value)| !value.is_null()) {
            match name.to_ascii_lowercase().as_str() {
                "delimiter" => options.delimiter = character_in(name, value)?,
                "quote" => options.quote = character_in(name, value)?,
                "comment" => comment = character_in(name, value)?,
                "allowcomments" => {
                    allows_comments = value.as_bool().ok_or_else(|| unfit(name, value))?;
                }
                "trimoptions" => options.trims = trims_in(name, value)?,
                _ => {}
            }
        }
        options.comment = allows_comments.then_some(comment);
        let used = [Some(options.delimiter), Some(options.quote), options.comment];
        let is_ambiguous =
            used[0] == used[1] || used[2].is_some_and(|_| used[..2].contains(&used[2]));
        if is_ambiguous {
            let message = "'Delimiter', 'Quote' and 'Comment' must be different characters.";
            return Err(ProtocolError::new(ErrorKind::InvalidOperation, message));
        }
        Ok(options)
    }
}

fn character_in(name: &str, value: &Value) -> Result<u8, ProtocolError> {
    let text = value.as_str().ok_or_else(|| unfit(name, value))?;
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\r' | b'\n') => Ok(*byte),
        _ => {
            let message = format!("'{name}' must be one ASCII character, but it is '{text}'.");
            Err(ProtocolError::new(ErrorKind::InvalidOperation, message))
        }
    }
}

/// Blanks inside of quotes are left out, too, if any are.
fn trims_in(name: &str, value: &Value) -> Result<bool, ProtocolError> {
    let text = value.as_str().ok_or_else(|| unfit(name, value))?;
    let mut trims = false;
    for word in text.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "none" => {}
            "trim" | "insidequotes" => trims = true,
            _ => return Err(unfit(name, value)),
        }
    }
    Ok(trims)
}

fn unfit(name: &str, value: &Value) -> ProtocolError {
    let message = format!("The option '{name}' cannot have the value {value}");
    ProtocolError::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<CsvImportOptions, String> {
        CsvImportOptions::read(sent.as_object().unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn options_are_read_in_any_case_and_have_defaults() {
        assert_eq!(read(json!({"Quote": null, "new": 1})), Ok(CsvImportOptions::default()));
        let sent = json!({"delimiter": ";", "Quote": "'", "Comment": "%", "AllowComments": true,
            "TrimOptions": "Trim, InsideQuotes"});
        let expected =
            CsvImportOptions { delimiter: b';', quote: b'\'', comment: Some(b'%'), trims: true };
        assert_eq!(read(sent), Ok(expected));
        assert_eq!(read(json!({"Comment": "%"})).unwrap().comment, None);
        assert_eq!(read(json!({"AllowComments": true})).unwrap().comment, Some(b'#'));
    }

    #[test]
    fn characters_that_cannot_be_used_are_refused() {
        for (sent, named) in [
            (json!({"Delimiter": "||"}), "'Delimiter' must be one"),
            (json!({"Quote": ""}), "'Quote' must be one"),
            (json!({"Quote": "»"}), "'Quote' must be one"),
            (json!({"Delimiter": "\n"}), "'Delimiter' must be one"),
            (json!({"Delimiter": "\""}), "different"),
            (json!({"AllowComments": true, "Comment": ","}), "different"),
            (json!({"AllowComments": 1}), "AllowComments"),
            (json!({"TrimOptions": "Left"}), "TrimOptions"),
        ] {
            let message = read(sent.clone()).unwrap_err();
            assert!(message.contains(named), "{sent}: {message}");
        }
    }
}
