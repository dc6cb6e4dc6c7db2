//! The commands of a batch, in groups: each from its properties.

use blittable::BlittableBuf;

use crate::command_properties::{CommandKind, CommandProperties};
use crate::counters_body::DocumentCounters;
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::patch_body::{MissingDocument, PatchBody, PatchTarget};
use crate::time_series_body::{TimeSeriesBody, TimeSeriesCopyBody};

/// One command.
#[derive(Debug)]
pub enum BatchCommand {
    /// Stores or deletes documents.
    Document(DocumentCommand),
    /// Changes documents in part.
    Patch(PatchCommand),
    /// Stores, deletes, copies or moves an attachment.
    Attachment(AttachmentCommand),
    /// Changes or reads counters of a document.
    Counters {
        /// Repeated in the result.
        id: Option<String>,
        /// The document and the operations.
        counters: DocumentCounters,
        /// Whether an ETL task sends it: it sets counters, and ignores documents that do not exist.
        is_from_etl: bool,
    },
    /// Changes a time series.
    TimeSeries(TimeSeriesCommand),
    /// Sets or deletes a compare exchange value; only in a cluster-wide transaction.
    CompareExchange {
        /// The key.
        key: Option<String>,
        /// The expected version; 0 if the value must not exist.
        index: i64,
        /// The change.
        change: CompareExchangeChange,
    },
}

/// A command that stores or deletes documents.
#[derive(Debug)]
pub enum DocumentCommand {
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
    /// Delete every document whose id has this prefix.
    DeletePrefix {
        /// The prefix; empty for all documents.
        prefix: String,
    },
    /// Create a revision of the current document.
    ForceRevision {
        /// The document.
        id: String,
    },
}

/// A command that changes documents in part.
#[derive(Debug)]
pub enum PatchCommand {
    /// Patch a document with a script.
    Script {
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
    Each {
        /// The documents.
        targets: Vec<PatchTarget>,
        /// The script.
        patch: PatchBody,
        /// What to do where a document does not exist.
        when_missing: MissingDocument,
    },
    /// Patch a document with JSON Patch operations (RFC 6902).
    Operations {
        /// Required.
        id: Option<String>,
        /// The expected change vector; `None` for any.
        change_vector: Option<String>,
        /// The operations, under `Operations`.
        operations: BlittableBuf,
        /// Whether the result contains the document.
        return_document: bool,
    },
}

/// A command that stores, deletes, copies or moves an attachment.
#[derive(Debug)]
pub enum AttachmentCommand {
    /// Store an attachment, whose content is another part of the request.
    Put {
        /// The document.
        id: String,
        /// Its name.
        name: String,
        /// The content type; empty if the request has none.
        content_type: String,
        /// The expected change vector; empty if the attachment must not exist; `None` for any.
        change_vector: Option<String>,
    },
    /// Delete an attachment.
    Delete {
        /// The document.
        id: String,
        /// Its name.
        name: String,
        /// As for `Put`.
        change_vector: Option<String>,
    },
    /// Copy or move an attachment.
    Transfer {
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

/// A command that changes a time series.
#[derive(Debug)]
pub enum TimeSeriesCommand {
    /// Change a time series of a document.
    Change {
        /// The document.
        id: String,
        /// The changes.
        changes: Box<TimeSeriesBody>,
        /// The command type repeated in the result: `TimeSeries` or `TimeSeriesWithIncrements`.
        kind: &'static str,
        /// Whether an ETL task sends it: it ignores documents that do not exist.
        is_from_etl: bool,
    },
    /// Copy entries from one time series to another.
    Copy(TimeSeriesCopyBody),
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
    /// Reads a command from its properties; `None` for a heartbeat, which has no effect.
    ///
    /// # Errors
    /// A required property is missing; the command is not one of a batch.
    pub(crate) fn of(
        mut properties: CommandProperties,
    ) -> Result<Option<BatchCommand>, ProtocolError> {
        Ok(Some(match properties.required_kind()? {
            CommandKind::HeartBeat => return Ok(None),
            CommandKind::Put => Self::Document(DocumentCommand::put(properties)?),
            CommandKind::Delete => Self::Document(DocumentCommand::delete(properties)),
            CommandKind::ForceRevisionCreation => {
                Self::Document(DocumentCommand::force_revision(properties)?)
            }
            CommandKind::Patch => Self::Patch(PatchCommand::script(properties)?),
            CommandKind::PatchEach => Self::Patch(PatchCommand::each(properties)?),
            CommandKind::JsonPatch => Self::Patch(PatchCommand::operations(properties)?),
            CommandKind::AttachmentPut => Self::Attachment(AttachmentCommand::put(properties)?),
            CommandKind::AttachmentDelete => {
                Self::Attachment(AttachmentCommand::delete(properties)?)
            }
            CommandKind::AttachmentMove => {
                Self::Attachment(AttachmentCommand::transfer(properties, true)?)
            }
            CommandKind::AttachmentCopy => {
                Self::Attachment(AttachmentCommand::transfer(properties, false)?)
            }
            CommandKind::Counters => Self::Counters {
                counters: properties.required_counters()?,
                is_from_etl: properties.is_from_etl,
                id: properties.id,
            },
            kind @ (CommandKind::TimeSeries | CommandKind::TimeSeriesWithIncrements) => {
                Self::TimeSeries(TimeSeriesCommand::change(kind, properties)?)
            }
            CommandKind::TimeSeriesCopy => {
                Self::TimeSeries(TimeSeriesCommand::Copy(properties.time_series_copy()?))
            }
            kind @ CommandKind::TimeSeriesBulkInsert => return Err(only_in_bulk_insert(kind)),
            CommandKind::CompareExchangePut => {
                let change = CompareExchangeChange::Put(properties.document.take());
                Self::CompareExchange { change, key: properties.id, index: properties.index }
            }
            CommandKind::CompareExchangeDelete => {
                let change = CompareExchangeChange::Delete;
                Self::CompareExchange { change, key: properties.id, index: properties.index }
            }
        }))
    }

    /// The protocol's name for the command type.
    pub fn type_name(&self) -> &'static str {
        let kind = match self {
            Self::Document(command) => match command {
                DocumentCommand::Put { .. } => CommandKind::Put,
                DocumentCommand::Delete { .. } | DocumentCommand::DeletePrefix { .. } => {
                    CommandKind::Delete
                }
                DocumentCommand::ForceRevision { .. } => CommandKind::ForceRevisionCreation,
            },
            Self::Patch(command) => match command {
                PatchCommand::Script { .. } => CommandKind::Patch,
                PatchCommand::Each { .. } => CommandKind::PatchEach,
                PatchCommand::Operations { .. } => CommandKind::JsonPatch,
            },
            Self::Attachment(command) => match command {
                AttachmentCommand::Put { .. } => CommandKind::AttachmentPut,
                AttachmentCommand::Delete { .. } => CommandKind::AttachmentDelete,
                AttachmentCommand::Transfer { is_move: true, .. } => CommandKind::AttachmentMove,
                AttachmentCommand::Transfer { is_move: false, .. } => CommandKind::AttachmentCopy,
            },
            Self::Counters { .. } => CommandKind::Counters,
            Self::TimeSeries(TimeSeriesCommand::Change { kind, .. }) => return kind,
            Self::TimeSeries(TimeSeriesCommand::Copy(_)) => CommandKind::TimeSeriesCopy,
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

impl DocumentCommand {
    fn put(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Put {
            document: properties.required_document()?,
            keeps_replaced: properties.keeps_replaced,
            original_change_vector: properties.original_change_vector,
            id: properties.id,
            change_vector: properties.change_vector,
        })
    }

    fn delete(properties: CommandProperties) -> Self {
        let CommandProperties { id, change_vector, original_change_vector, .. } = properties;
        match properties.id_prefixed {
            true => Self::DeletePrefix { prefix: id.unwrap_or_default() },
            false => Self::Delete { id, change_vector, original_change_vector },
        }
    }

    fn force_revision(properties: CommandProperties) -> Result<Self, ProtocolError> {
        match properties.id {
            Some(id) if !id.trim().is_empty() => Ok(Self::ForceRevision { id }),
            Some(_) | None => {
                let message = "Argument is null or whitespace (Parameter 'id')";
                Err(ProtocolError::argument(message))
            }
        }
    }
}

impl PatchCommand {
    fn script(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Script {
            patch: properties.required_patch()?,
            id: properties.id,
            change_vector: properties.change_vector,
            when_missing: properties.when_missing,
            return_document: properties.return_document,
        })
    }

    fn each(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Each {
            patch: properties.required_patch()?,
            targets: properties.targets,
            when_missing: properties.when_missing,
        })
    }

    fn operations(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Operations {
            operations: properties.required_json_patch()?,
            id: properties.id,
            change_vector: properties.change_vector,
            return_document: properties.return_document,
        })
    }
}

impl AttachmentCommand {
    fn put(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Put {
            name: properties.attachment_name("PUT")?,
            id: properties.id.unwrap_or_default(),
            content_type: properties.content_type.unwrap_or_default(),
            change_vector: properties.change_vector,
        })
    }

    fn delete(mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Delete {
            name: properties.attachment_name("DELETE")?,
            id: properties.id.unwrap_or_default(),
            change_vector: properties.change_vector,
        })
    }

    fn transfer(mut properties: CommandProperties, is_move: bool) -> Result<Self, ProtocolError> {
        let name = properties.attachment_name(if is_move { "MOVE" } else { "COPY" })?;
        let required = |text: Option<String>, parameter: &str| {
            text.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
                ProtocolError::argument(format!(
                    "Argument cannot be null or whitespace. (Parameter '{parameter}')"
                ))
            })
        };
        Ok(Self::Transfer {
            destination_id: required(properties.destination_id, "destinationId")?,
            destination_name: required(properties.destination_name, "destinationName")?,
            id: properties.id.unwrap_or_default(),
            name,
            change_vector: properties.change_vector,
            is_move,
        })
    }
}

impl TimeSeriesCommand {
    fn change(kind: CommandKind, mut properties: CommandProperties) -> Result<Self, ProtocolError> {
        Ok(Self::Change {
            changes: Box::new(properties.required_time_series()?),
            id: properties.id.unwrap_or_default(),
            kind: kind.name(),
            is_from_etl: properties.is_from_etl,
        })
    }
}

fn only_in_bulk_insert(kind: CommandKind) -> ProtocolError {
    let message = format!("Commands of type '{}' are only supported in a bulk insert", kind.name());
    ProtocolError::new(ErrorKind::NotSupported, message)
}
