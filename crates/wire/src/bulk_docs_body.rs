//! The body of `/bulk_docs`: the commands of one transaction.
//!
//! `Commands` must be the first property, as in the protocol's original reader; the properties after it may
//! only set the transaction mode. Text after the object is ignored.

use blittable::{Builder, JsonKind, JsonReader};

use crate::batch_command::BatchCommand;
use crate::command_properties::{expect, read_command, stream_error, unexpected};
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::token_name;

/// The memory check runs each time this many commands have been read.
const COMMANDS_COUNTED: usize = 512;
/// Transactions with more commands than this are refused.
const COMMANDS_MAX: usize = 1 << 20;

/// The commands of one transaction.
#[derive(Debug, Default)]
pub struct BatchBody {
    /// In order of execution and of the results.
    pub commands: Vec<BatchCommand>,
    /// Whether this is a cluster-wide transaction.
    pub is_cluster_wide: bool,
}

/// Reads the whole body. `room` is called while commands are read.
///
/// # Errors
///
/// A malformed body, and errors returned by `room`.
pub fn read_bulk_docs(
    body: &[u8],
    builder: &mut Builder,
    room: &mut RoomForCommands<'_>,
) -> Result<BatchBody, ProtocolError> {
    let mut reader = JsonReader::new(body);
    expect(&mut reader, JsonKind::Object, "StartObject")?;
    reader.begin_object().map_err(stream_error)?;
    match reader.next_name().map_err(stream_error)? {
        Some(name) if name == "Commands" => {}
        Some(_) => return Err(unexpected("String", "String")),
        None => return Err(unexpected("String", "EndObject")),
    }
    let commands = read_commands(&mut reader, builder, room)?;
    let mut is_cluster_wide = false;
    while let Some(name) = reader.next_name().map_err(stream_error)? {
        if name == "TransactionMode" {
            is_cluster_wide = is_cluster_wide_next(&mut reader)?;
        } else {
            reader.skip_value().map_err(stream_error)?;
        }
    }
    Ok(BatchBody { commands, is_cluster_wide })
}

/// Called with the number of commands read so far; returns an error to refuse more.
pub(crate) type RoomForCommands<'r> = dyn FnMut(usize) -> Result<(), ProtocolError> + 'r;

fn read_commands(
    reader: &mut JsonReader<'_>,
    builder: &mut Builder,
    room: &mut RoomForCommands<'_>,
) -> Result<Vec<BatchCommand>, ProtocolError> {
    expect(reader, JsonKind::Array, "StartArray")?;
    reader.begin_array().map_err(stream_error)?;
    let mut commands = Vec::new();
    while reader.next_element().map_err(stream_error)? {
        if commands.len() == COMMANDS_MAX {
            let message = format!("A batch may not have more than {COMMANDS_MAX} commands");
            return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
        }
        let properties = read_command(reader, builder)?;
        commands.extend(BatchCommand::of(properties)?);
        if commands.len().is_multiple_of(COMMANDS_COUNTED) {
            room(commands.len())?;
        }
    }
    Ok(commands)
}

fn is_cluster_wide_next(reader: &mut JsonReader<'_>) -> Result<bool, ProtocolError> {
    if token_name(reader).map_err(stream_error)? != "String" {
        return reader.skip_value().map(|()| false).map_err(stream_error);
    }
    let mode = reader.read_str().map_err(stream_error)?;
    Ok(mode.eq_ignore_ascii_case("ClusterWide"))
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;
    use crate::batch_command::{
        AttachmentCommand, DocumentCommand, PatchCommand, TimeSeriesCommand,
    };

    fn read(body: &str) -> Result<BatchBody, ProtocolError> {
        read_bulk_docs(body.as_bytes(), &mut Builder::new(ParseLimits::default()), &mut |_| Ok(()))
    }

    fn shape_of(command: &BatchCommand) -> String {
        match command {
            BatchCommand::Document(command) => shape_of_document(command),
            BatchCommand::Patch(PatchCommand::Script { id, patch, return_document, .. }) => {
                format!("~{id:?} {} {return_document}", patch.script)
            }
            BatchCommand::Patch(PatchCommand::Operations { id, .. }) => format!("~{id:?}"),
            BatchCommand::Patch(PatchCommand::Each { targets, patch, .. }) => {
                format!("~{targets:?} {}", patch.script)
            }
            BatchCommand::Attachment(command) => shape_of_attachment(command),
            BatchCommand::TimeSeries(TimeSeriesCommand::Change { id, changes, kind, .. }) => {
                format!("{kind} {id} {}", changes.name)
            }
            BatchCommand::TimeSeries(TimeSeriesCommand::Copy(copy)) => format!("{copy:?}"),
            BatchCommand::CompareExchange { key, index, .. } => {
                format!("compare exchange {key:?} {index}")
            }
            BatchCommand::Counters { id, counters, .. } => {
                format!("{id:?} {}", counters.document_id)
            }
        }
    }

    fn shape_of_document(command: &DocumentCommand) -> String {
        match command {
            DocumentCommand::Put { id, change_vector, .. } => format!("{id:?} {change_vector:?}"),
            DocumentCommand::ForceRevision { id } => format!("revision of {id}"),
            DocumentCommand::Delete { id, change_vector, .. } => {
                format!("-{id:?} {change_vector:?}")
            }
            DocumentCommand::DeletePrefix { prefix } => format!("-{prefix}*"),
        }
    }

    fn shape_of_attachment(command: &AttachmentCommand) -> String {
        match command {
            AttachmentCommand::Put { id, name, content_type, change_vector } => {
                format!("{id} {name} {content_type} {change_vector:?}")
            }
            AttachmentCommand::Delete { id, name, .. } => format!("-{id} {name}"),
            AttachmentCommand::Transfer {
                id,
                name,
                destination_id,
                destination_name,
                is_move,
                ..
            } => format!("{id} {name} {destination_id} {destination_name} {is_move}"),
        }
    }

    #[test]
    fn commands_are_read_whatever_the_order_of_their_properties() {
        let body = read(
            r#"{"Commands":[
                {"Document":{"a":1},"ChangeVector":"","Foo":{"b":[1]},"Id":"u/1","Type":"PUT"},
                {"Type":"PUT","Document":{}},
                {"Type":"DELETE","Id":"u/2","ChangeVector":null},
                {"Type":"DELETE","Id":"u/","IdPrefixed":true},
                {"Type":"HeartBeat"},
                {"ReturnDocument":true,"Patch":{"Script":"x"},"Id":"u/3","Type":"PATCH"},
                {"Type":"BatchPATCH","Ids":[{"Id":"u/4"}],"Patch":{"Script":"y"}},
                {"Type":"AttachmentPUT","Id":"u/1","Name":"a","ContentType":"t/x","ChangeVector":"v"},
                {"Type":"AttachmentDELETE","Id":"u/1","Name":"a"},
                {"Type":"Counters","Id":"u/1","Counters":{"DocumentId":"u/2","Operations":[]}},
                {"Type":"AttachmentCOPY","Id":"u/1","Name":"a","DestinationId":"u/2","DestinationName":"b"},
                {"Type":"TimeSeries","Id":"u/1","TimeSeries":{"Name":"HR"}}
            ],"TransactionMode":"SingleNode","Else":5} trailing"#,
        )
        .unwrap();
        let shape: Vec<String> = body.commands.iter().map(shape_of).collect();
        let expected = [
            "Some(\"u/1\") Some(\"\")",
            "None None",
            "-Some(\"u/2\") None",
            "-u/*",
            "~Some(\"u/3\") x true",
            "~[PatchTarget { id: \"u/4\", change_vector: None }] y",
            "u/1 a t/x Some(\"v\")",
            "-u/1 a",
            "Some(\"u/1\") u/2",
            "u/1 a u/2 b false",
            "TimeSeries u/1 HR",
        ];
        assert_eq!(shape, expected);
    }

    #[test]
    fn bad_bodies_are_answered_in_the_protocols_words() {
        let table = [
            ("", "Attempted to read past the end of the stream."),
            (
                "{\"Commands\":[{\"Type\":\"PUT\",\"Id\":\"q\"",
                "Attempted to read past the end of the stream.",
            ),
            ("[]", "Expected StartObject , but got StartArray"),
            ("{}", "Expected String , but got EndObject"),
            ("{\"Foo\":[]}", "Expected String , but got String"),
            ("{\"Commands\":null}", "Expected StartArray , but got Null"),
            ("{\"Commands\":[5]}", "Expected StartObject , but got Integer"),
            ("{\"Commands\":[{}]}", "Command must have a valid 'Type' property"),
            ("{\"Commands\":[{\"Type\":5}]}", "Expected String , but got Integer"),
            ("{\"Commands\":[{\"Type\":null}]}", "Expected String , but got Null"),
            ("{\"Commands\":[{\"Type\":\"put\"}]}", "Invalid command type: put"),
            ("{\"Commands\":[{\"Type\":\"PUT\"}]}", "PUT command must have a 'Document' property"),
            (
                "{\"Commands\":[{\"Type\":\"PUT\",\"Document\":null}]}",
                "PUT command must have a 'Document' property",
            ),
            (
                "{\"Commands\":[{\"Type\":\"PUT\",\"Document\":[1]}]}",
                "Expected start of object, but got StartArray",
            ),
            ("{\"Commands\":[{\"Type\":\"PUT\",\"Id\":1.5}]}", "Expected String , but got Float"),
            (
                "{\"Commands\":[{\"Type\":\"DELETE\",\"IdPrefixed\":5}]}",
                "Expected True , but got Integer",
            ),
            (
                "{\"Commands\":[{\"Type\":\"Counters\"}]}",
                "Counters command must have a 'Counters' property",
            ),
            (
                "{\"Commands\":[{\"Type\":\"TimeSeriesCopy\"}]}",
                "TimeSeriesCopy command must have a 'Id' property",
            ),
            ("{\"Commands\":[{\"Type\":\"PATCH\"}]}", "PUT command must have a 'Patch' property"),
            (
                "{\"Commands\":[{\"Type\":\"PATCH\",\"Patch\":{}}]}",
                "Missing 'Script' property on 'Patch'",
            ),
            (
                "{\"Commands\":[{\"Type\":\"BatchPATCH\",\"Ids\":[\"u/1\"]}]}",
                "Expected StartObject , but got String",
            ),
            (
                "{\"Commands\":[{\"Type\":\"BatchPATCH\",\"Ids\":[{}]}]}",
                "Each of the 'Ids' must have an 'Id'",
            ),
            (
                "{\"Commands\":[{\"Type\":\"AttachmentPUT\",\"Id\":\"a\"}]}",
                "Attachment PUT command must have a 'Name' property",
            ),
            (
                "{\"Commands\":[{\"Type\":\"AttachmentMOVE\",\"Id\":\"a\",\"Name\":\"b\"}]}",
                "Argument cannot be null or whitespace. (Parameter 'destinationId')",
            ),
        ];
        for (body, message) in table {
            assert_eq!(read(body).unwrap_err().message, message, "{body}");
        }
    }
}
