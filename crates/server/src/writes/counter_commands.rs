//! Commands that change or read counters of a document.

use commands::{Command, CommandResult};
use documents::{ChangeCounters, CounterStep, CountersChanged};
use model::{ChangeVector, CounterName, DocumentId};
use wire::{CounterOperation, CounterOperationKind, DocumentCounters};

use crate::{
    answers::{
        counter_answer::{ShownValues, write_details},
        json_text::{JsonArray, JsonObject},
    },
    api_error::ApiError,
    writes::answered::{Answered, CommandAnswer, foreign_result},
};

/// What is printed of a command besides its result.
pub(crate) struct CountersAnswer {
    /// The id of the command, which need not be that of the document.
    id: Option<String>,
}

/// The command as the engine executes it.
pub(crate) fn answered(
    id: Option<String>,
    counters: DocumentCounters,
    is_from_etl: bool,
) -> Result<Answered<CountersAnswer>, ApiError> {
    let command = Command::ChangeCounters(changes_of(counters, is_from_etl)?);
    Ok(Answered::one(command, CountersAnswer { id }))
}

/// The changes that a request makes to one document. Operations without effect are omitted.
pub(crate) fn change_counters(requested: DocumentCounters) -> Result<ChangeCounters, ApiError> {
    changes_of(requested, false)
}

/// The same, also of an ETL task: only that sets counters, and it ignores documents that do not exist.
fn changes_of(requested: DocumentCounters, is_from_etl: bool) -> Result<ChangeCounters, ApiError> {
    let DocumentCounters { document_id: id, operations } = requested;
    let mut steps = Vec::with_capacity(operations.len());
    for CounterOperation { kind, name, delta } in operations {
        steps.push(match kind {
            CounterOperationKind::Put if is_from_etl => {
                CounterStep::Set { name: counter_name(name)?, value: delta }
            }
            CounterOperationKind::Nothing | CounterOperationKind::Put => continue,
            CounterOperationKind::Increment => {
                CounterStep::Increment { name: counter_name(name)?, by: delta }
            }
            CounterOperationKind::Delete => CounterStep::Delete { name: counter_name(name)? },
            CounterOperationKind::Get => CounterStep::Get { name: counter_name(name)? },
        });
    }
    Ok(ChangeCounters { id: DocumentId::new(id)?, steps, ignores_missing: is_from_etl })
}

/// The name of a counter.
pub(crate) fn counter_name(text: String) -> Result<CounterName, ApiError> {
    CounterName::new(text).map_err(|error| ApiError::argument(error.to_string()))
}

impl CommandAnswer for CountersAnswer {
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError> {
        let Some(CommandResult::CountersChanged(changed)) = result else {
            return Err(foreign_result(result));
        };
        write_changed(changed, self.id.as_deref(), body);
        Ok(())
    }
}

fn write_changed(changed: &CountersChanged, id: Option<&str>, body: &mut Vec<u8>) {
    let CountersChanged { change_vector, document_change_vector, .. } = changed;
    let version = |version: Option<&ChangeVector>| version.map(ToString::to_string);
    let document_version = version(document_change_vector.as_ref());
    let last = document_version.clone().or_else(|| version(change_vector.as_ref()));
    let mut object = JsonObject::begin(body);
    object.optional_text("Id", id);
    object.optional_text("ChangeVector", last.as_deref());
    object.text("Type", "Counters");
    let mut detail = JsonObject::begin(object.name("CountersDetail"));
    let mut listed = JsonArray::begin(detail.name("Counters"));
    let counters = changed.counters.iter().map(Option::as_ref);
    write_details(changed.id.as_str(), counters, ShownValues::Null, &mut listed);
    listed.end();
    detail.end();
    object.optional_text("DocumentChangeVector", document_version.as_deref());
    object.end();
}
