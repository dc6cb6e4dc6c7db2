//! The body of a query: its text, parameters and page.

use blittable::{BlittableBuf, Builder, JsonKind, JsonReader, ParseError};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{BODY_ENDED, json_error, not_an_object, token_name};

/// A query sent by a client.
#[derive(Debug, Default)]
pub struct QueryRequest {
    /// The text; empty if it is missing or not a string.
    pub text: String,
    /// The parameters that the text refers to.
    pub parameters: Option<BlittableBuf>,
    /// Number of results to skip.
    pub start: i64,
    /// Maximum number of results.
    pub page_size: Option<i64>,
    /// Whether to wait until the index is non-stale.
    pub wait_for_non_stale_results: bool,
    /// How long to wait, as a .NET time span.
    pub wait_timeout: Option<String>,
    /// Where projected values come from, by the protocol's name.
    pub projection_behavior: Option<String>,
    /// Whether a document is returned once for each of its index entries.
    pub skip_duplicate_checking: bool,
}

/// Reads the whole body.
pub fn read_query(body: &[u8], builder: &mut Builder) -> Result<QueryRequest, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let read = |error: ParseError| json_error(&error, BODY_ENDED);
    if reader.peek().map_err(read)? != JsonKind::Object {
        return Err(not_an_object(token_name(&mut reader).map_err(read)?));
    }
    read_properties(&mut reader, builder).map_err(read)
}

/// Reads the body of a query that changes documents, `{"Query": {…}}`.
pub fn read_update_query(
    body: &[u8],
    builder: &mut Builder,
) -> Result<QueryRequest, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let read = |error: ParseError| json_error(&error, BODY_ENDED);
    if reader.peek().map_err(read)? != JsonKind::Object {
        return Err(not_an_object(token_name(&mut reader).map_err(read)?));
    }
    reader.begin_object().map_err(read)?;
    let mut request = None;
    while let Some(name) = reader.next_name().map_err(read)? {
        match (name.as_ref(), reader.peek().map_err(read)?) {
            ("Query", JsonKind::Object) => {
                request = Some(read_properties(&mut reader, builder).map_err(read)?);
            }
            ("Query", kind) if kind != JsonKind::Null => {
                return Err(not_an_object(token_name(&mut reader).map_err(read)?));
            }
            _ => reader.skip_value().map_err(read)?,
        }
    }
    let missing = || ProtocolError::new(ErrorKind::BadRequest, "Missing 'Query' property.");
    request.ok_or_else(missing)
}

fn read_properties(
    reader: &mut JsonReader<'_>,
    builder: &mut Builder,
) -> Result<QueryRequest, ParseError> {
    let mut request = QueryRequest::default();
    reader.begin_object()?;
    while let Some(name) = reader.next_name()? {
        match (name.as_ref(), reader.peek()?) {
            ("Query", JsonKind::String) => request.text = reader.read_str()?.into_owned(),
            ("QueryParameters", JsonKind::Object) => {
                request.parameters = Some(builder.parse(reader)?);
            }
            ("Start", JsonKind::Number) => request.start = reader.read_i64()?,
            ("PageSize", JsonKind::Number) => request.page_size = Some(reader.read_i64()?),
            ("WaitForNonStaleResults", JsonKind::Bool) => {
                request.wait_for_non_stale_results = reader.read_bool()?;
            }
            ("WaitForNonStaleResultsTimeout", JsonKind::String) => {
                request.wait_timeout = Some(reader.read_str()?.into_owned());
            }
            ("ProjectionBehavior", JsonKind::String) => {
                request.projection_behavior = Some(reader.read_str()?.into_owned());
            }
            ("SkipDuplicateChecking", JsonKind::Bool) => {
                request.skip_duplicate_checking = reader.read_bool()?;
            }
            _ => reader.skip_value()?,
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;

    fn read(body: &[u8]) -> Result<QueryRequest, ProtocolError> {
        read_query(body, &mut Builder::new(ParseLimits::default()))
    }

    #[test]
    fn a_query_is_read_with_its_parameters_and_page() {
        let request = read(
            br#"{"Query":"from Users","PageSize":2147483647,"Start":5,"QueryParameters":{"p0":1},
                "WaitForNonStaleResults":true,"WaitForNonStaleResultsTimeout":"00:00:15",
                "SkipStatistics":null,"ProjectionBehavior":"FromIndex",
                "SkipDuplicateChecking":true}"#,
        )
        .unwrap();
        assert_eq!(request.projection_behavior.as_deref(), Some("FromIndex"));
        assert!(request.skip_duplicate_checking);
        assert!(request.wait_for_non_stale_results);
        assert_eq!(request.wait_timeout.as_deref(), Some("00:00:15"));
        assert_eq!(request.text, "from Users");
        assert_eq!((request.start, request.page_size), (5, Some(i64::from(i32::MAX))));
        let parameters = request.parameters.unwrap();
        assert_eq!(parameters.as_view().root().get_i64("p0"), Ok(Some(1)));
    }

    #[test]
    fn what_is_missing_or_null_is_left_out() {
        let request = read(br#"{"Query":5,"QueryParameters":null,"PageSize":null}"#).unwrap();
        assert_eq!(request.text, "");
        assert!(request.parameters.is_none() && request.page_size.is_none());
    }

    #[test]
    fn a_query_that_changes_documents_lies_in_an_object() {
        let read = |body: &[u8]| read_update_query(body, &mut Builder::new(ParseLimits::default()));
        let request =
            read(br#"{"X":1,"Query":{"Query":"from Us","QueryParameters":{"a":1}}}"#).unwrap();
        assert_eq!(request.text, "from Us");
        assert!(request.parameters.is_some());
        for (body, message) in [
            ("{}", "Missing 'Query' property."),
            (r#"{"Query":null}"#, "Missing 'Query' property."),
            (r#"{"Query":"from Us"}"#, "Expected start of object, but got String"),
            ("", BODY_ENDED),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap_err().message, message, "{body}");
        }
    }

    #[test]
    fn other_bodies_are_refused() {
        assert_eq!(read(b"").unwrap_err().message, BODY_ENDED);
        assert_eq!(
            read(b"[]").unwrap_err().message,
            "Expected start of object, but got StartArray"
        );
    }
}
