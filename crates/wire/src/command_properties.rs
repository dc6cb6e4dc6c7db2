//! The properties of one write command, read in any order.
//!
//! Batches and bulk inserts send the same objects. A document is parsed directly into its stored form.
//! Properties that no supported command needs are skipped; which ones are required is decided by the command
//! type afterwards.

use blittable::{BlittableBuf, Builder, JsonKind, JsonReader, ParseError};

use crate::counters_body::{DocumentCounters, read_command_counters};
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{json_error, not_an_object, token_name};
use crate::patch_body::{MissingDocument, PatchBody, PatchTarget, read_patch_value, read_targets};
use crate::time_series_body::{
    TimeSeriesBody, TimeSeriesCopyBody, read_moment, read_time_series_value,
};

/// The error message for a stream of commands that ends too early.
const STREAM_ENDED: &str = "Attempted to read past the end of the stream.";

/// The properties of all supported commands.
#[derive(Default)]
pub(crate) struct CommandProperties {
    pub(crate) kind: Option<CommandKind>,
    pub(crate) id: Option<String>,
    pub(crate) change_vector: Option<String>,
    pub(crate) original_change_vector: Option<String>,
    pub(crate) document: Option<BlittableBuf>,
    pub(crate) id_prefixed: bool,
    pub(crate) is_from_etl: bool,
    pub(crate) patch: Option<PatchBody>,
    pub(crate) when_missing: MissingDocument,
    pub(crate) json_patch: Option<BlittableBuf>,
    pub(crate) return_document: bool,
    pub(crate) targets: Vec<PatchTarget>,
    pub(crate) keeps_replaced: bool,
    pub(crate) name: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) content_bytes: Option<u64>,
    pub(crate) destination_id: Option<String>,
    pub(crate) destination_name: Option<String>,
    pub(crate) counters: Option<BlittableBuf>,
    pub(crate) time_series: Option<TimeSeriesBody>,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    pub(crate) index: i64,
}

/// The supported command types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommandKind {
    Put,
    Delete,
    Patch,
    PatchEach,
    ForceRevisionCreation,
    JsonPatch,
    HeartBeat,
    AttachmentPut,
    AttachmentDelete,
    AttachmentMove,
    AttachmentCopy,
    Counters,
    TimeSeries,
    TimeSeriesWithIncrements,
    TimeSeriesBulkInsert,
    TimeSeriesCopy,
    CompareExchangePut,
    CompareExchangeDelete,
}

impl CommandKind {
    /// The protocol's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CommandKind::Put => "PUT",
            CommandKind::Delete => "DELETE",
            CommandKind::Patch => "PATCH",
            CommandKind::PatchEach => "BatchPATCH",
            CommandKind::ForceRevisionCreation => "ForceRevisionCreation",
            CommandKind::JsonPatch => "JsonPatch",
            CommandKind::HeartBeat => "HeartBeat",
            CommandKind::AttachmentPut => "AttachmentPUT",
            CommandKind::AttachmentDelete => "AttachmentDELETE",
            CommandKind::AttachmentMove => "AttachmentMOVE",
            CommandKind::AttachmentCopy => "AttachmentCOPY",
            CommandKind::Counters => "Counters",
            CommandKind::TimeSeries => "TimeSeries",
            CommandKind::TimeSeriesWithIncrements => "TimeSeriesWithIncrements",
            CommandKind::TimeSeriesBulkInsert => "TimeSeriesBulkInsert",
            CommandKind::TimeSeriesCopy => "TimeSeriesCopy",
            CommandKind::CompareExchangePut => "CompareExchangePUT",
            CommandKind::CompareExchangeDelete => "CompareExchangeDELETE",
        }
    }
}

/// Reads the next command.
pub(crate) fn read_command(
    reader: &mut JsonReader<'_>,
    builder: &mut Builder,
) -> Result<CommandProperties, ProtocolError> {
    expect(reader, JsonKind::Object, "StartObject")?;
    reader.begin_object().map_err(stream_error)?;
    let mut properties = CommandProperties::default();
    while let Some(name) = reader.next_name().map_err(stream_error)? {
        match name.as_ref() {
            "Type" => properties.kind = Some(read_kind(reader)?),
            "Id" => properties.id = read_optional_string(reader)?,
            "ChangeVector" => properties.change_vector = read_optional_string(reader)?,
            "OriginalChangeVector" => {
                properties.original_change_vector = read_optional_string(reader)?;
            }
            "Document" => properties.document = read_document(reader, builder)?,
            "ForceRevisionCreationStrategy" => properties.keeps_replaced = read_strategy(reader)?,
            "FromEtl" => properties.is_from_etl = read_flag(reader)?,
            "IdPrefixed" => properties.id_prefixed = read_flag(reader)?,
            "Patch" => properties.patch = read_patch_value(reader, builder)?,
            "PatchIfMissing" => properties.when_missing.patch = read_patch_value(reader, builder)?,
            "CreateIfMissing" => properties.when_missing.create = read_document(reader, builder)?,
            "JsonPatch" => properties.json_patch = read_document(reader, builder)?,
            "ReturnDocument" => properties.return_document = read_flag(reader)?,
            "Ids" => properties.targets = read_targets(reader)?,
            "Name" => properties.name = read_optional_string(reader)?,
            "ContentType" => properties.content_type = read_optional_string(reader)?,
            "ContentLength" => properties.content_bytes = Some(read_length(reader)?),
            "DestinationId" => properties.destination_id = read_optional_string(reader)?,
            "Counters" => properties.counters = read_document(reader, builder)?,
            "TimeSeries" => properties.time_series = Some(read_time_series_value(reader)?),
            "From" => properties.from = read_moment(reader)?,
            "To" => properties.to = read_moment(reader)?,
            "Index" => properties.index = read_index(reader)?,
            "DestinationName" => properties.destination_name = read_optional_string(reader)?,
            _ => reader.skip_value().map_err(stream_error)?,
        }
    }
    Ok(properties)
}

impl CommandProperties {
    /// The command type, which is required.
    pub(crate) fn required_kind(&self) -> Result<CommandKind, ProtocolError> {
        self.kind.ok_or_else(|| {
            ProtocolError::invalid_operation("Command must have a valid 'Type' property")
        })
    }

    /// The script, which a patch requires.
    pub(crate) fn required_patch(&mut self) -> Result<PatchBody, ProtocolError> {
        self.patch.take().ok_or_else(|| {
            ProtocolError::invalid_operation("PUT command must have a 'Patch' property")
        })
    }

    /// The operations, which a JSON patch requires.
    pub(crate) fn required_json_patch(&mut self) -> Result<BlittableBuf, ProtocolError> {
        self.json_patch.take().ok_or_else(|| {
            ProtocolError::invalid_operation("JsonPatch command must have a 'JsonPatch' property")
        })
    }

    /// The name of the attachment, which is required.
    pub(crate) fn attachment_name(&mut self, command: &str) -> Result<String, ProtocolError> {
        self.name.take().ok_or_else(|| {
            ProtocolError::invalid_operation(format!(
                "Attachment {command} command must have a 'Name' property"
            ))
        })
    }

    /// The operations, which a counters command requires.
    pub(crate) fn required_counters(&mut self) -> Result<DocumentCounters, ProtocolError> {
        let counters = self.counters.take().ok_or_else(|| {
            ProtocolError::invalid_operation("Counters command must have a 'Counters' property")
        })?;
        read_command_counters(&counters.as_view().root())
    }

    /// The changes, which a time series command requires.
    pub(crate) fn required_time_series(&mut self) -> Result<TimeSeriesBody, ProtocolError> {
        let kind = self.required_kind()?.name();
        self.time_series.take().ok_or_else(|| {
            let message = format!("{kind} command must have a 'TimeSeries' property");
            ProtocolError::invalid_operation(message)
        })
    }

    /// The source and destination of a command that copies a time series.
    pub(crate) fn time_series_copy(self) -> Result<TimeSeriesCopyBody, ProtocolError> {
        let required = |text: Option<String>, property: &str| {
            text.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
                let message = format!("TimeSeriesCopy command must have a '{property}' property");
                ProtocolError::invalid_operation(message)
            })
        };
        Ok(TimeSeriesCopyBody {
            id: required(self.id, "Id")?,
            name: required(self.name, "Name")?,
            destination_id: required(self.destination_id, "DestinationId")?,
            destination_name: required(self.destination_name, "DestinationName")?,
            from: self.from,
            to: self.to,
        })
    }

    /// The document, which a PUT requires.
    pub(crate) fn required_document(&mut self) -> Result<BlittableBuf, ProtocolError> {
        self.document.take().ok_or_else(|| {
            ProtocolError::invalid_operation("PUT command must have a 'Document' property")
        })
    }
}

/// The error for malformed JSON in a stream of commands.
pub(crate) fn stream_error(error: ParseError) -> ProtocolError {
    json_error(&error, STREAM_ENDED)
}

/// Refuses a value of another type, with the protocol's message.
pub(crate) fn expect(
    reader: &mut JsonReader<'_>,
    kind: JsonKind,
    expected: &str,
) -> Result<(), ProtocolError> {
    if reader.peek().map_err(stream_error)? == kind {
        return Ok(());
    }
    let found = token_name(reader).map_err(stream_error)?;
    Err(unexpected(expected, found))
}

/// `Expected String , but got Integer`; the protocol has the space before the comma.
pub(crate) fn unexpected(expected: &str, found: &str) -> ProtocolError {
    ProtocolError::invalid_operation(format!("Expected {expected} , but got {found}"))
}

fn read_kind(reader: &mut JsonReader<'_>) -> Result<CommandKind, ProtocolError> {
    expect(reader, JsonKind::String, "String")?;
    let name = reader.read_str().map_err(stream_error)?;
    match name.as_ref() {
        "PUT" => Ok(CommandKind::Put),
        "DELETE" => Ok(CommandKind::Delete),
        "PATCH" => Ok(CommandKind::Patch),
        "BatchPATCH" => Ok(CommandKind::PatchEach),
        "ForceRevisionCreation" => Ok(CommandKind::ForceRevisionCreation),
        "JsonPatch" => Ok(CommandKind::JsonPatch),
        "HeartBeat" => Ok(CommandKind::HeartBeat),
        "AttachmentPUT" => Ok(CommandKind::AttachmentPut),
        "AttachmentDELETE" => Ok(CommandKind::AttachmentDelete),
        "AttachmentMOVE" => Ok(CommandKind::AttachmentMove),
        "AttachmentCOPY" => Ok(CommandKind::AttachmentCopy),
        "Counters" => Ok(CommandKind::Counters),
        "TimeSeries" => Ok(CommandKind::TimeSeries),
        "TimeSeriesWithIncrements" => Ok(CommandKind::TimeSeriesWithIncrements),
        "TimeSeriesBulkInsert" => Ok(CommandKind::TimeSeriesBulkInsert),
        "TimeSeriesCopy" => Ok(CommandKind::TimeSeriesCopy),
        "CompareExchangePUT" => Ok(CommandKind::CompareExchangePut),
        "CompareExchangeDELETE" => Ok(CommandKind::CompareExchangeDelete),
        unknown => Err(ProtocolError::new(
            ErrorKind::InvalidCommandType,
            format!("Invalid command type: {unknown}"),
        )),
    }
}

pub(crate) fn read_optional_string(
    reader: &mut JsonReader<'_>,
) -> Result<Option<String>, ProtocolError> {
    if reader.read_null_if_next().map_err(stream_error)? {
        return Ok(None);
    }
    expect(reader, JsonKind::String, "String")?;
    reader.read_str().map(|text| Some(text.into_owned())).map_err(stream_error)
}

fn read_flag(reader: &mut JsonReader<'_>) -> Result<bool, ProtocolError> {
    expect(reader, JsonKind::Bool, "True")?;
    reader.read_bool().map_err(stream_error)
}

/// Whether the replaced version is kept. The protocol has only one strategy, which keeps it.
fn read_strategy(reader: &mut JsonReader<'_>) -> Result<bool, ProtocolError> {
    match read_optional_string(reader)?.as_deref() {
        None => Ok(false),
        Some("Before") => Ok(true),
        Some(other) => {
            Err(ProtocolError::invalid_operation(format!("Invalid property name: {other}")))
        }
    }
}

fn read_index(reader: &mut JsonReader<'_>) -> Result<i64, ProtocolError> {
    expect(reader, JsonKind::Number, "Integer")?;
    let text = reader.read_number().map_err(stream_error)?;
    text.parse().map_err(|_| {
        ProtocolError::invalid_operation(format!("'{text}' is not a valid index of a value"))
    })
}

fn read_length(reader: &mut JsonReader<'_>) -> Result<u64, ProtocolError> {
    expect(reader, JsonKind::Number, "Integer")?;
    let text = reader.read_number().map_err(stream_error)?;
    text.parse().map_err(|_| {
        ProtocolError::invalid_operation(format!("'{text}' is not a valid content length"))
    })
}

pub(crate) fn read_document(
    reader: &mut JsonReader<'_>,
    builder: &mut Builder,
) -> Result<Option<BlittableBuf>, ProtocolError> {
    match reader.peek().map_err(stream_error)? {
        JsonKind::Null => reader.read_null_if_next().map(|_| None).map_err(stream_error),
        JsonKind::Object => builder.parse(reader).map(Some).map_err(stream_error),
        _ => Err(not_an_object(token_name(reader).map_err(stream_error)?)),
    }
}
