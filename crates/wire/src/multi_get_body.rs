//! The body of `/multi_get`: several requests in one.

use blittable::{JsonKind, JsonReader, ParseError};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{BODY_ENDED, json_error, required_property};

/// Bodies with more requests than this are refused.
const REQUESTS_MAX: usize = 4096;

/// One request inside another.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InnerRequest {
    /// The path. If it is `None`, the request is answered with an empty object.
    pub url: Option<String>,
    /// The query string with its `?`. If it is `None`, the same holds, unless there is content.
    pub query: Option<String>,
    /// `None` for GET.
    pub method: Option<String>,
    /// Headers by name.
    pub headers: Vec<(String, String)>,
    /// The JSON of the body: an object as is, or the text of a string.
    pub content: Option<Vec<u8>>,
}

/// Reads the whole body.
pub fn read_multi_get(body: &[u8]) -> Result<Vec<InnerRequest>, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let requests = read_requests(&mut reader).map_err(|error| json_error(&error, BODY_ENDED))?;
    let requests = requests.ok_or_else(|| required_property("Requests"))?;
    if requests.len() > REQUESTS_MAX {
        let message = format!("At most {REQUESTS_MAX} requests may be sent at once");
        return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
    }
    Ok(requests)
}

fn read_requests(reader: &mut JsonReader<'_>) -> Result<Option<Vec<InnerRequest>>, ParseError> {
    let mut requests = None;
    reader.begin_object()?;
    while let Some(name) = reader.next_name()? {
        if name == "Requests" {
            requests = Some(read_array(reader)?);
        } else {
            reader.skip_value()?;
        }
    }
    Ok(requests)
}

fn read_array(reader: &mut JsonReader<'_>) -> Result<Vec<InnerRequest>, ParseError> {
    let mut requests = Vec::new();
    reader.begin_array()?;
    while reader.next_element()? {
        if requests.len() > REQUESTS_MAX {
            reader.skip_value()?;
        } else {
            requests.push(read_request(reader)?);
        }
    }
    Ok(requests)
}

fn read_request(reader: &mut JsonReader<'_>) -> Result<InnerRequest, ParseError> {
    let mut request = InnerRequest::default();
    reader.begin_object()?;
    while let Some(name) = reader.next_name()? {
        match name.as_ref() {
            "Url" => request.url = read_optional(reader)?,
            "Query" => request.query = read_optional(reader)?,
            "Method" => request.method = read_optional(reader)?,
            "Headers" => request.headers = read_headers(reader)?,
            "Content" => request.content = read_content(reader)?,
            _ => reader.skip_value()?,
        }
    }
    Ok(request)
}

fn read_optional(reader: &mut JsonReader<'_>) -> Result<Option<String>, ParseError> {
    Ok(reader.read_optional_str()?.map(|text| text.into_owned()))
}

fn read_headers(reader: &mut JsonReader<'_>) -> Result<Vec<(String, String)>, ParseError> {
    let mut headers = Vec::new();
    if reader.read_null_if_next()? {
        return Ok(headers);
    }
    reader.begin_object()?;
    while let Some(name) = reader.next_name()? {
        let name = name.into_owned();
        match reader.peek()? {
            JsonKind::String => headers.push((name, reader.read_str()?.into_owned())),
            _ => reader.skip_value()?,
        }
    }
    Ok(headers)
}

fn read_content(reader: &mut JsonReader<'_>) -> Result<Option<Vec<u8>>, ParseError> {
    Ok(match reader.peek()? {
        JsonKind::Null => {
            reader.skip_value()?;
            None
        }
        JsonKind::String => Some(reader.read_str()?.into_owned().into_bytes()),
        _ => Some(reader.read_raw()?.as_bytes().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_requests_are_read_with_content_as_object_or_as_text() {
        let requests = read_multi_get(
            br#"{"Requests":[
                {"Url":"/databases/a/docs","Query":"?id=1","Method":null,
                 "Headers":{"If-None-Match":"\"x\"","n":1}},
                {"Url":"/databases/a/queries","Query":"","Method":"POST","Content":{"Query":"q"}},
                {"Url":"/databases/a/queries","Method":"POST","Content":"{\"Query\":\"q\"}"},
                {}
            ],"x":1}"#,
        )
        .unwrap();
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[0].headers, [("If-None-Match".to_owned(), "\"x\"".to_owned())]);
        assert_eq!(requests[1].content.as_deref(), Some(&br#"{"Query":"q"}"#[..]));
        assert_eq!(requests[2].content, requests[1].content);
        assert_eq!(requests[3], InnerRequest::default());
    }

    #[test]
    fn a_body_without_requests_is_refused() {
        let error = read_multi_get(b"{}").unwrap_err();
        assert!(error.message.contains("'Requests' which is mandatory"));
    }
}
