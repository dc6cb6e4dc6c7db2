//! The query string of a request, parsed as leniently as the official clients require.
//!
//! They send `?&id=`, a bare `?`, parameter names that begin with `?`, flags without `=`, and the same name
//! several times. Names ignore ASCII case. Values are parsed in their .NET spellings, and the error messages
//! are those that users of the clients already know.

use std::borrow::Cow;
use std::time::Duration;

use model::TimeSpan;

use crate::error_body::ProtocolError;

/// More parameters than this are ignored. The longest query strings are `GET`s of many ids, and clients move
/// those to a body at 1,024 characters.
const PARAMETERS_MAX: usize = 8 * 1024;

/// The parsed parameters, in their original order.
#[derive(Debug, Default)]
pub struct QueryString<'a> {
    parameters: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> QueryString<'a> {
    /// Parses what follows the first `?` of a request target. Never fails: malformed escapes are taken
    /// literally, and bytes that are not UTF-8 become replacement characters.
    pub fn parse(query: &'a str) -> QueryString<'a> {
        let parameters = query
            .split('&')
            .map(|parameter| parameter.strip_prefix('?').unwrap_or(parameter))
            .filter(|parameter| !parameter.is_empty())
            .take(PARAMETERS_MAX)
            .map(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                (percent_decode(name), percent_decode(value))
            })
            .collect();
        QueryString { parameters }
    }

    /// All values of a name, in order.
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> + 's {
        self.parameters
            .iter()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_ref())
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_ref())
    }

    /// Whether the name occurs, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The value of a parameter that must occur exactly once and not be empty.
    pub fn single_non_empty(&self, name: &str) -> Result<&str, ProtocolError> {
        if self.all(name).nth(1).is_some() {
            return Err(ProtocolError::argument(format!(
                "Query string value '{name}' must appear exactly once"
            )));
        }
        let first = self.get(name).unwrap_or("");
        if first.is_empty() {
            return Err(ProtocolError::argument(format!(
                "Query string value '{name}' must have a non empty value"
            )));
        }
        Ok(first)
    }

    /// The value of a required parameter; may be empty.
    pub fn required(&self, name: &str) -> Result<&str, ProtocolError> {
        self.get(name).ok_or_else(|| {
            ProtocolError::argument(format!(
                "Query string {name} is mandatory, but wasn't specified."
            ))
        })
    }

    /// A 32-bit integer, if the name occurs with a value; an empty value counts as absent.
    pub fn int(&self, name: &str) -> Result<Option<i32>, ProtocolError> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| not_a_number(name, text, "int"))
    }

    /// A 64-bit integer, if the name occurs.
    pub fn long(&self, name: &str) -> Result<Option<i64>, ProtocolError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| not_a_number(name, text, "long"))
    }

    /// A 64-bit integer that must occur.
    pub fn required_long(&self, name: &str) -> Result<i64, ProtocolError> {
        let text = self.required(name)?;
        text.trim().parse().map_err(|_| not_a_number(name, text, "long"))
    }

    /// A .NET `bool`, if the name occurs with a value; an empty value counts as absent.
    pub fn bool(&self, name: &str) -> Result<Option<bool>, ProtocolError> {
        let text = match self.get(name) {
            None | Some("") => return Ok(None),
            Some(text) => text,
        };
        match text.trim() {
            word if word.eq_ignore_ascii_case("true") => Ok(Some(true)),
            word if word.eq_ignore_ascii_case("false") => Ok(Some(false)),
            _ => Err(ProtocolError::argument(format!(
                "Could not parse query string '{name}' as bool, val {text}"
            ))),
        }
    }

    /// A .NET `TimeSpan`, if the name occurs. Negative spans count as zero.
    pub fn time_span(&self, name: &str) -> Result<Option<Duration>, ProtocolError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let span: TimeSpan = text.parse().map_err(|_| {
            ProtocolError::argument(format!(
                "Could not parse query string '{name}' as timespan val {text}"
            ))
        })?;
        Ok(Some(span.to_duration()))
    }

    /// `start`: the number of results to skip. Absent means 0; a negative value is kept, it skips nothing.
    pub fn start(&self) -> Result<i32, ProtocolError> {
        Ok(self.int("start")?.unwrap_or(0))
    }

    /// `pageSize`: the maximum number of results. Absent means no limit.
    pub fn page_size(&self) -> Result<i32, ProtocolError> {
        Ok(self.int("pageSize")?.unwrap_or(i32::MAX))
    }
}

fn not_a_number(name: &str, text: &str, type_name: &str) -> ProtocolError {
    ProtocolError::argument(format!(
        "Could not parse header '{name}' header as {type_name}, value was: {text}"
    ))
}

/// Encodes a text as a part of a path, a query or a header: only letters, digits and `-._~` stay as they are.
pub fn percent_encode(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
            encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    encoded
}

/// Decodes `%XX` and `+`. A `%` that is not followed by two hexadecimal digits stands for itself, and
/// so does each `%XX` whose byte belongs to no UTF-8 character: two texts that differ stay different.
pub fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    for_each_decoded(text.as_bytes(), |byte, _| decoded.push(byte));
    Cow::Owned(match String::from_utf8(decoded) {
        Ok(decoded) => decoded,
        Err(invalid) => without_invalid(text, invalid.as_bytes()),
    })
}

/// Passes each decoded byte to `visit`, with how it was written.
fn for_each_decoded<'t>(bytes: &'t [u8], mut visit: impl FnMut(u8, &'t [u8])) {
    let mut position = 0;
    while position < bytes.len() {
        let (byte, length) = match bytes[position] {
            b'+' => (b' ', 1),
            b'%' => hex_pair(&bytes[position + 1..]).map_or((b'%', 1), |byte| (byte, 3)),
            byte => (byte, 1),
        };
        visit(byte, &bytes[position..position + length]);
        position += length;
    }
}

/// The decoded text, in which what is not UTF-8 stands as it was written.
fn without_invalid(text: &str, decoded: &[u8]) -> String {
    let mut written = Vec::with_capacity(decoded.len());
    for_each_decoded(text.as_bytes(), |_, as_written| written.push(as_written));
    let (mut result, mut position) = (String::with_capacity(text.len()), 0);
    for chunk in decoded.utf8_chunks() {
        result.push_str(chunk.valid());
        position += chunk.valid().len();
        for as_written in &written[position..position + chunk.invalid().len()] {
            result.push_str(&String::from_utf8_lossy(as_written));
        }
        position += chunk.invalid().len();
    }
    result
}

fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(bytes.first()?)?, digit(bytes.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_stay_as_they_were_written() {
        for (text, expected) in [
            ("%ff%FE", "%ff%FE"),
            ("a+%c3%a9%c0%af%e2%82", "a \u{e9}%c0%af%e2%82"),
            ("%ed%a0%80z%2b", "%ed%a0%80z+"),
            ("%zz%", "%zz%"),
        ] {
            assert_eq!(percent_decode(text), expected, "{text}");
        }
    }

    #[test]
    fn sloppy_query_strings_of_the_clients_are_understood() {
        let table: &[(&str, &str, Option<&str>)] = &[
            ("&id=users%2F1", "id", Some("users/1")),
            ("", "id", None),
            ("?&id=a+b", "id", Some("a b")),
            ("&?raft-request-id=5", "raft-request-id", Some("5")),
            ("name=db&first-topology-update&x=1", "first-topology-update", Some("")),
            ("ID=1", "id", Some("1")),
            ("a=b=c", "a", Some("b=c")),
            ("a=%zz%4", "a", Some("%zz%4")),
            ("a=%C3%A9%ff", "a", Some("é%ff")),
        ];
        for (query, name, expected) in table {
            assert_eq!(QueryString::parse(query).get(name), *expected, "{query}");
        }
    }

    #[test]
    fn repeated_names_keep_their_order() {
        let query = QueryString::parse("id=a&include=x&id=b");
        assert_eq!(query.all("id").collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn bad_values_are_named_in_the_known_words() {
        let query = QueryString::parse("start=abc&metadataOnly=yes&id=&id2=a&id2=b&wait=xx&n=1.5");
        let table = [
            (
                query.int("start").unwrap_err(),
                "Could not parse header 'start' header as int, value was: abc",
            ),
            (
                query.long("n").unwrap_err(),
                "Could not parse header 'n' header as long, value was: 1.5",
            ),
            (
                query.bool("metadataOnly").unwrap_err(),
                "Could not parse query string 'metadataOnly' as bool, val yes",
            ),
            (
                query.time_span("wait").unwrap_err(),
                "Could not parse query string 'wait' as timespan val xx",
            ),
            (
                query.single_non_empty("id").unwrap_err(),
                "Query string value 'id' must have a non empty value",
            ),
            (
                query.single_non_empty("id2").unwrap_err(),
                "Query string value 'id2' must appear exactly once",
            ),
            (
                query.required("end").unwrap_err(),
                "Query string end is mandatory, but wasn't specified.",
            ),
        ];
        for (error, expected) in table {
            assert_eq!(error.message, expected);
        }
    }

    #[test]
    fn values_are_read_in_the_dotnet_spellings() {
        let query = QueryString::parse("a=True&b=false&c=&d=00:00:15&e=-5");
        assert_eq!(query.bool("a").unwrap(), Some(true));
        assert_eq!(query.bool("b").unwrap(), Some(false));
        assert_eq!(query.bool("c").unwrap(), None);
        assert_eq!(query.time_span("d").unwrap(), Some(Duration::from_secs(15)));
        assert_eq!(query.int("e").unwrap(), Some(-5));
        assert_eq!(query.int("none").unwrap(), None);
    }
}
