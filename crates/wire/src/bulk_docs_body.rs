//! The body of `/bulk_docs`: the commands of one transaction.
//!
//! `Commands` must be the first property, as in the protocol's original reader; the properties after it may
//! only set the transaction mode. Text after the object is ignored.

use blittable::{BlittableBuf, Builder, JsonKind, JsonReader};

use crate::command_properties::{
    CommandKind, CommandProperties, expect, read_command, stream_error, unexpected,
};
use crate::counters_body::DocumentCounters;
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::token_name;
use crate::patch_body::{MissingDocument, PatchBody, PatchTarget};
use crate::time_series_body::{TimeSeriesBody, TimeSeriesCopyBody};

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

/// One command.
#[derive(Debug)]
pub enum BatchCommand {
    /// Store a document.
    Put {
        /// `None` or blank: the server generates an id.
        id: Option<String>,
        /// The expected change vector; empty if the document must not exist; `None` for any.
        change_vector: Option<String>,
        /// The change vector loaded by the client; used only in a cluster-wide transaction.
        original_change_vector: Option<String>,
        /// The document.
        document: BlittableBuf,
        /// Whether the replaced version becomes a revision.
        keeps_replaced: bool,
    },
    /// Delete a document.
    Delete {
        /// `None` and empty delete nothing.
        id: Option<String>,
        /// As for `Put`.
        change_vector: Option<String>,
        /// As for `Put`.
        original_change_vector: Option<String>,
    },
    /// Patch a document with a script.
    Patch {
        /// Required.
        id: Option<String>,
        /// The expected change vector; `None` for any.
        change_vector: Option<String>,
        /// The script.
        patch: PatchBody,
        /// What to do if the document does not exist.
        when_missing: MissingDocument,
        /// Whether the result contains the document.
        return_document: bool,
    },
    /// Patch several documents with one script.
    PatchEach {
        /// The documents.
        targets: Vec<PatchTarget>,
        /// The script.
        patch: PatchBody,
        /// What to do where a document does not exist.
        when_missing: MissingDocument,
    },
    /// Patch a document with JSON Patch operations (RFC 6902).
    JsonPatch {
        /// Required.
        id: Option<String>,
        /// The expected change vector; `None` for any.
        change_vector: Option<String>,
        /// The operations, under `Operations`.
        operations: BlittableBuf,
        /// Whether the result contains the document.
        return_document: bool,
    },
    /// Create a revision of the current document.
    ForceRevision {
        /// The document.
        id: String,
    },
    /// Set or delete a compare exchange value; only in a cluster-wide transaction.
    CompareExchange {
        /// The key.
        key: Option<String>,
        /// The expected version; 0 if the value must not exist.
        index: i64,
        /// The change.
        change: CompareExchangeChange,
    },
    /// Delete every document whose id has this prefix.
    DeletePrefix {
        /// The prefix; empty for all documents.
        prefix: String,
    },
    /// Store an attachment, whose content is another part of the request.
    AttachmentPut {
        /// The document.
        id: String,
        /// Its name.
        name: String,
        /// The content type; empty if the request has none.
        content_type: String,
        /// As for `Put`.
        change_vector: Option<String>,
    },
    /// Change or read counters of a document.
    Counters {
        /// Repeated in the result.
        id: Option<String>,
        /// The document and the operations.
        counters: DocumentCounters,
    },
    /// Change a time series of a document.
    TimeSeries {
        /// The document.
        id: String,
        /// The changes.
        changes: Box<TimeSeriesBody>,
        /// The command type repeated in the result: `TimeSeries` or `TimeSeriesWithIncrements`.
        kind: &'static str,
    },
    /// Copy entries from one time series to another.
    TimeSeriesCopy(TimeSeriesCopyBody),
    /// Delete an attachment.
    AttachmentDelete {
        /// The document.
        id: String,
        /// Its name.
        name: String,
        /// As for `Put`.
        change_vector: Option<String>,
    },
    /// Copy or move an attachment.
    AttachmentTransfer {
        /// The source document.
        id: String,
        /// Its name at the source.
        name: String,
        /// The destination document.
        destination_id: String,
        /// Its name at the destination.
        destination_name: String,
        /// For a move, as for `Put`.
        change_vector: Option<String>,
        /// Whether it is removed from the source.
        is_move: bool,
    },
}

/// A change of a compare exchange value.
#[derive(Debug)]
pub enum CompareExchangeChange {
    /// Set to this value; `None` if the command has none.
    Put(Option<BlittableBuf>),
    /// Deleted.
    Delete,
}

impl BatchCommand {
    /// The protocol's name for the command type.
    pub fn type_name(&self) -> &'static str {
        let kind = match self {
            Self::Put { .. } => CommandKind::Put,
            Self::Delete { .. } | Self::DeletePrefix { .. } => CommandKind::Delete,
            Self::Patch { .. } => CommandKind::Patch,
            Self::PatchEach { .. } => CommandKind::PatchEach,
            Self::JsonPatch { .. } => CommandKind::JsonPatch,
            Self::ForceRevision { .. } => CommandKind::ForceRevisionCreation,
            Self::AttachmentPut { .. } => CommandKind::AttachmentPut,
            Self::AttachmentDelete { .. } => CommandKind::AttachmentDelete,
            Self::AttachmentTransfer { is_move: true, .. } => CommandKind::AttachmentMove,
            Self::AttachmentTransfer { is_move: false, .. } => CommandKind::AttachmentCopy,
            Self::Counters { .. } => CommandKind::Counters,
            Self::TimeSeries { kind, .. } => return kind,
            Self::TimeSeriesCopy(_) => CommandKind::TimeSeriesCopy,
            Self::CompareExchange { change: CompareExchangeChange::Put(_), .. } => {
                CommandKind::CompareExchangePut
            }
            Self::CompareExchange { change: CompareExchangeChange::Delete, .. } => {
                CommandKind::CompareExchangeDelete
            }
        };
        kind.name()
    }
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
pub type RoomForCommands<'r> = dyn FnMut(usize) -> Result<(), ProtocolError> + 'r;

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
        commands.extend(to_batch_command(properties)?);
        if commands.len().is_multiple_of(COMMANDS_COUNTED) {
            room(commands.len())?;
        }
    }
    Ok(commands)
}

/// `None` for a heartbeat, which has no effect.
fn to_batch_command(
    mut properties: CommandProperties,
) -> Result<Option<BatchCommand>, ProtocolError> {
    Ok(match properties.required_kind()? {
        CommandKind::Put => Some(BatchCommand::Put {
            document: properties.required_document()?,
            keeps_replaced: properties.keeps_replaced,
            original_change_vector: properties.original_change_vector,
            id: properties.id,
            change_vector: properties.change_vector,
        }),
        CommandKind::Delete if properties.id_prefixed => {
            Some(BatchCommand::DeletePrefix { prefix: properties.id.unwrap_or_default() })
        }
        CommandKind::Delete => Some(BatchCommand::Delete {
            original_change_vector: properties.original_change_vector,
            id: properties.id,
            change_vector: properties.change_vector,
        }),
        CommandKind::Patch => Some(BatchCommand::Patch {
            patch: properties.required_patch()?,
            id: properties.id,
            change_vector: properties.change_vector,
            when_missing: properties.when_missing,
            return_document: properties.return_document,
        }),
        CommandKind::PatchEach => Some(BatchCommand::PatchEach {
            patch: properties.required_patch()?,
            targets: properties.targets,
            when_missing: properties.when_missing,
        }),
        CommandKind::JsonPatch => Some(BatchCommand::JsonPatch {
            operations: properties.required_json_patch()?,
            id: properties.id,
            change_vector: properties.change_vector,
            return_document: properties.return_document,
        }),
        CommandKind::ForceRevisionCreation => match properties.id {
            Some(id) if !id.trim().is_empty() => Some(BatchCommand::ForceRevision { id }),
            Some(_) | None => {
                let message = "Argument is null or whitespace (Parameter 'id')";
                return Err(ProtocolError::argument(message));
            }
        },
        CommandKind::HeartBeat => None,
        CommandKind::AttachmentPut => Some(BatchCommand::AttachmentPut {
            name: properties.attachment_name("PUT")?,
            id: properties.id.unwrap_or_default(),
            content_type: properties.content_type.unwrap_or_default(),
            change_vector: properties.change_vector,
        }),
        CommandKind::AttachmentDelete => Some(BatchCommand::AttachmentDelete {
            name: properties.attachment_name("DELETE")?,
            id: properties.id.unwrap_or_default(),
            change_vector: properties.change_vector,
        }),
        CommandKind::Counters => Some(BatchCommand::Counters {
            counters: properties.required_counters()?,
            id: properties.id,
        }),
        kind @ (CommandKind::TimeSeries | CommandKind::TimeSeriesWithIncrements) => {
            Some(BatchCommand::TimeSeries {
                changes: Box::new(properties.required_time_series()?),
                id: properties.id.unwrap_or_default(),
                kind: kind.name(),
            })
        }
        CommandKind::TimeSeriesCopy => {
            Some(BatchCommand::TimeSeriesCopy(properties.time_series_copy()?))
        }
        kind @ CommandKind::TimeSeriesBulkInsert => {
            let message =
                format!("Commands of type '{}' are only supported in a bulk insert", kind.name());
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
        CommandKind::CompareExchangePut => Some(BatchCommand::CompareExchange {
            change: CompareExchangeChange::Put(properties.document.take()),
            key: properties.id,
            index: properties.index,
        }),
        CommandKind::CompareExchangeDelete => Some(BatchCommand::CompareExchange {
            change: CompareExchangeChange::Delete,
            key: properties.id,
            index: properties.index,
        }),
        CommandKind::AttachmentMove => Some(transfer(properties, true)?),
        CommandKind::AttachmentCopy => Some(transfer(properties, false)?),
    })
}

fn transfer(
    mut properties: CommandProperties,
    is_move: bool,
) -> Result<BatchCommand, ProtocolError> {
    let name = properties.attachment_name(if is_move { "MOVE" } else { "COPY" })?;
    let required = |text: Option<String>, parameter: &str| {
        text.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            ProtocolError::argument(format!(
                "Argument cannot be null or whitespace. (Parameter '{parameter}')"
            ))
        })
    };
    Ok(BatchCommand::AttachmentTransfer {
        destination_id: required(properties.destination_id, "destinationId")?,
        destination_name: required(properties.destination_name, "destinationName")?,
        id: properties.id.unwrap_or_default(),
        name,
        change_vector: properties.change_vector,
        is_move,
    })
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

    fn read(body: &str) -> Result<BatchBody, ProtocolError> {
        read_bulk_docs(body.as_bytes(), &mut Builder::new(ParseLimits::default()), &mut |_| Ok(()))
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
        let shape: Vec<String> = body
            .commands
            .iter()
            .map(|command| match command {
                BatchCommand::Put { id, change_vector, .. } => format!("{id:?} {change_vector:?}"),
                BatchCommand::ForceRevision { id } => format!("revision of {id}"),
                BatchCommand::Delete { id, change_vector, .. } => {
                    format!("-{id:?} {change_vector:?}")
                }
                BatchCommand::DeletePrefix { prefix } => format!("-{prefix}*"),
                BatchCommand::Patch { id, patch, return_document, .. } => {
                    format!("~{id:?} {} {return_document}", patch.script)
                }
                BatchCommand::JsonPatch { id, .. } => format!("~{id:?}"),
                BatchCommand::PatchEach { targets, patch, .. } => {
                    format!("~{targets:?} {}", patch.script)
                }
                BatchCommand::AttachmentPut { id, name, content_type, change_vector } => {
                    format!("{id} {name} {content_type} {change_vector:?}")
                }
                BatchCommand::TimeSeries { id, changes, kind } => {
                    format!("{kind} {id} {}", changes.name)
                }
                BatchCommand::TimeSeriesCopy(copy) => format!("{copy:?}"),
                BatchCommand::CompareExchange { key, index, .. } => {
                    format!("compare exchange {key:?} {index}")
                }
                BatchCommand::Counters { id, counters } => {
                    format!("{id:?} {}", counters.document_id)
                }
                BatchCommand::AttachmentDelete { id, name, .. } => format!("-{id} {name}"),
                BatchCommand::AttachmentTransfer {
                    id,
                    name,
                    destination_id,
                    destination_name,
                    is_move,
                    ..
                } => format!("{id} {name} {destination_id} {destination_name} {is_move}"),
            })
            .collect();
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
