//! The bodies of requests for attachments: for a single one, or for many at once.

use blittable::{JsonReader, ParseError};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{BODY_ENDED, json_error};

/// Requests for more attachments than this are refused.
const ATTACHMENTS_MAX: usize = 1 << 14;

/// The kind of owner of the requested attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentOwner {
    /// The current document.
    Document,
    /// A revision.
    Revision,
}

/// A requested attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentRequest {
    /// The document; empty if the URL names it.
    pub document_id: String,
    /// Its name; empty if the URL names it.
    pub name: String,
    /// The change vector of the revision.
    pub change_vector: Option<String>,
}

/// Reads `{"Type": .., "ChangeVector": ..}`.
pub fn read_attachment_request(
    body: &[u8],
) -> Result<(AttachmentOwner, AttachmentRequest), ProtocolError> {
    let mut reader = JsonReader::new(body);
    let (mut owner, mut request) = (None, AttachmentRequest::default());
    let mut read = || -> Result<(), ParseError> {
        reader.begin_object()?;
        while let Some(name) = reader.next_name()? {
            match name.as_ref() {
                "Type" => owner = read_owner(&mut reader)?,
                "ChangeVector" => request.change_vector = read_text(&mut reader)?,
                _ => reader.skip_value()?,
            }
        }
        Ok(())
    };
    read().map_err(|error| json_error(&error, BODY_ENDED))?;
    let owner = owner.ok_or_else(|| mandatory("Type"))?;
    check_version(owner, &request)?;
    Ok((owner, request))
}

/// Reads `{"AttachmentType": .., "Attachments": [{"DocumentId": .., "Name": .., "ChangeVector": ..}]}`.
pub fn read_attachments_request(
    body: &[u8],
) -> Result<(AttachmentOwner, Vec<AttachmentRequest>), ProtocolError> {
    let mut reader = JsonReader::new(body);
    let (mut owner, mut requests) = (None, None);
    let mut read = || -> Result<(), ParseError> {
        reader.begin_object()?;
        while let Some(name) = reader.next_name()? {
            match name.as_ref() {
                "AttachmentType" => owner = read_owner(&mut reader)?,
                "Attachments" => requests = Some(read_requests(&mut reader)?),
                _ => reader.skip_value()?,
            }
        }
        Ok(())
    };
    read().map_err(|error| json_error(&error, BODY_ENDED))?;
    let owner = owner.ok_or_else(|| mandatory("AttachmentType"))?;
    let requests = requests.ok_or_else(|| mandatory("Attachments"))?;
    if requests.len() > ATTACHMENTS_MAX {
        let message = format!("At most {ATTACHMENTS_MAX} attachments may be asked for at once");
        return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
    }
    for request in &requests {
        for (text, name) in [(&request.document_id, "DocumentId"), (&request.name, "Name")] {
            if text.is_empty() {
                return Err(ProtocolError::argument(format!("Could not parse {name}")));
            }
        }
        check_version(owner, request)?;
    }
    Ok((owner, requests))
}

fn read_requests(reader: &mut JsonReader<'_>) -> Result<Vec<AttachmentRequest>, ParseError> {
    let mut requests = Vec::new();
    reader.begin_array()?;
    while reader.next_element()? {
        if requests.len() > ATTACHMENTS_MAX {
            reader.skip_value()?;
            continue;
        }
        let mut request = AttachmentRequest::default();
        reader.begin_object()?;
        while let Some(name) = reader.next_name()? {
            match name.as_ref() {
                "DocumentId" => request.document_id = read_text(reader)?.unwrap_or_default(),
                "Name" => request.name = read_text(reader)?.unwrap_or_default(),
                "ChangeVector" => request.change_vector = read_text(reader)?,
                _ => reader.skip_value()?,
            }
        }
        requests.push(request);
    }
    Ok(requests)
}

fn read_text(reader: &mut JsonReader<'_>) -> Result<Option<String>, ParseError> {
    Ok(reader.read_optional_str()?.map(|text| text.into_owned()))
}

fn read_owner(reader: &mut JsonReader<'_>) -> Result<Option<AttachmentOwner>, ParseError> {
    Ok(match reader.read_optional_str()?.as_deref() {
        Some("Document") => Some(AttachmentOwner::Document),
        Some("Revision") => Some(AttachmentOwner::Revision),
        Some(_) | None => None,
    })
}

fn mandatory(field: &str) -> ProtocolError {
    ProtocolError::argument(format!("The '{field}' field in the body request is mandatory"))
}

fn check_version(owner: AttachmentOwner, request: &AttachmentRequest) -> Result<(), ProtocolError> {
    if owner == AttachmentOwner::Revision && request.change_vector.is_none() {
        return Err(ProtocolError::argument(
            "Change Vector cannot be empty for attachment type Revision (Parameter 'changeVector')",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let (owner, request) =
            read_attachment_request(br#"{"ChangeVector":"v","Else":[],"Type":"Revision"}"#)
                .unwrap();
        assert_eq!(
            (owner, request.change_vector.as_deref()),
            (AttachmentOwner::Revision, Some("v"))
        );
        let body = r#"{"Attachments":[{"Name":"n","DocumentId":"d"}],"AttachmentType":"Document"}"#;
        let (owner, requests) = read_attachments_request(body.as_bytes()).unwrap();
        assert_eq!(owner, AttachmentOwner::Document);
        assert_eq!((requests[0].name.as_str(), requests[0].document_id.as_str()), ("n", "d"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (body, message) in [
            ("", "Stream ended without reaching end of json content"),
            ("{}", "The 'Type' field in the body request is mandatory"),
            (r#"{"Type":"X"}"#, "The 'Type' field in the body request is mandatory"),
        ] {
            assert_eq!(read_attachment_request(body.as_bytes()).unwrap_err().message, message);
        }
        for (body, message) in [
            ("{}", "The 'AttachmentType' field in the body request is mandatory"),
            (
                r#"{"AttachmentType":"Document"}"#,
                "The 'Attachments' field in the body request is mandatory",
            ),
            (r#"{"AttachmentType":"Document","Attachments":[{}]}"#, "Could not parse DocumentId"),
        ] {
            assert_eq!(read_attachments_request(body.as_bytes()).unwrap_err().message, message);
        }
        assert!(read_attachment_request(br#"{"Type":"Revision"}"#).is_err());
    }
}
