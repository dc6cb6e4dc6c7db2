//! One element of a bulk insert's stream.

use blittable::{BlittableBuf, Builder, JsonReader};

use crate::command_properties::{CommandKind, read_command};
use crate::counters_body::DocumentCounters;
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::time_series_body::TimeSeriesBody;

/// The request of one element.
#[derive(Debug)]
pub enum BulkInsertCommand {
    /// Store a document, whatever its current version.
    Put {
        /// `None` or blank: the server generates an id.
        id: Option<String>,
        /// The document.
        document: BlittableBuf,
    },
    /// Store an attachment, whose content follows the element.
    AttachmentPut {
        /// The document.
        id: String,
        /// Its name.
        name: String,
        /// The content type; may be empty.
        content_type: String,
        /// Length of the content in bytes.
        content_bytes: u64,
    },
    /// Change counters of a document.
    Counters(DocumentCounters),
    /// Change a time series of a document.
    TimeSeries {
        /// The document.
        id: String,
        /// The changes.
        changes: Box<TimeSeriesBody>,
    },
    /// No effect: the client signals that it is alive.
    HeartBeat,
}

/// Reads one element: a complete JSON object.
pub fn read_bulk_insert_element(
    element: &[u8],
    builder: &mut Builder,
) -> Result<BulkInsertCommand, ProtocolError> {
    let mut reader = JsonReader::new(element);
    let mut properties = read_command(&mut reader, builder)?;
    match properties.required_kind()? {
        CommandKind::Put => Ok(BulkInsertCommand::Put {
            document: properties.required_document()?,
            id: properties.id,
        }),
        CommandKind::HeartBeat => Ok(BulkInsertCommand::HeartBeat),
        CommandKind::TimeSeriesBulkInsert => Ok(BulkInsertCommand::TimeSeries {
            changes: Box::new(properties.required_time_series()?),
            id: properties.id.unwrap_or_default(),
        }),
        CommandKind::Counters => Ok(BulkInsertCommand::Counters(properties.required_counters()?)),
        CommandKind::AttachmentPut => Ok(BulkInsertCommand::AttachmentPut {
            name: properties.attachment_name("PUT")?,
            content_bytes: properties.content_bytes.ok_or_else(|| {
                ProtocolError::invalid_operation(
                    "Attachment PUT command must have a 'ContentLength' property",
                )
            })?,
            id: properties.id.unwrap_or_default(),
            content_type: properties.content_type.unwrap_or_default(),
        }),
        kind @ (CommandKind::Delete
        | CommandKind::Patch
        | CommandKind::PatchEach
        | CommandKind::JsonPatch
        | CommandKind::ForceRevisionCreation
        | CommandKind::AttachmentDelete
        | CommandKind::TimeSeries
        | CommandKind::TimeSeriesWithIncrements
        | CommandKind::TimeSeriesCopy
        | CommandKind::AttachmentMove
        | CommandKind::AttachmentCopy
        | CommandKind::CompareExchangePut
        | CommandKind::CompareExchangeDelete) => {
            let message =
                format!("Commands of type '{}' are not supported in a bulk insert", kind.name());
            Err(ProtocolError::new(ErrorKind::NotSupported, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;

    fn read(element: &str) -> Result<BulkInsertCommand, ProtocolError> {
        read_bulk_insert_element(element.as_bytes(), &mut Builder::new(ParseLimits::default()))
    }

    #[test]
    fn puts_and_heart_beats_are_read() {
        let put = read(r#"{"Id":"a/1","Type":"PUT","Document":{"x":1}}"#).unwrap();
        assert!(matches!(put, BulkInsertCommand::Put { id: Some(id), .. } if id == "a/1"));
        let put = r#"{"Id":"a","Type":"AttachmentPUT","Name":"b","ContentLength":7}"#;
        let BulkInsertCommand::AttachmentPut { content_bytes: 7, .. } = read(put).unwrap() else {
            panic!("another command")
        };
        assert!(matches!(read(r#"{"Type":"HeartBeat"}"#), Ok(BulkInsertCommand::HeartBeat)));
    }

    #[test]
    fn other_commands_are_refused_by_name() {
        for kind in ["DELETE", "PATCH", "BatchPATCH", "TimeSeriesCopy", "AttachmentCOPY"] {
            let error = read(&format!("{{\"Type\":\"{kind}\"}}")).unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotSupported);
            assert!(error.message.contains(kind));
        }
    }
}
