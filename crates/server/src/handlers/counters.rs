//! `/counters`: changing and reading counters.

use commands::{Batch, Command, CommandResult};
use documents::{ChangeCounters, CounterDetail, CountersChanged};
use model::{CounterName, DocumentId};
use storage::ReadTransaction;
use wire::CounterOperationKind;

use crate::{
    answers::{
        answer::Answer,
        counter_answer::{ShownValues, detail_of, write_details},
        json_text::{JsonArray, JsonObject},
    },
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::{counter_commands::change_counters, submitting::submit},
};

/// `GET /counters`: some counters of a document, or all.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.required("docId")?.to_owned())?;
    let shown = match query.bool("full")?.unwrap_or(false) {
        true => ShownValues::Each,
        false => ShownValues::Null,
    };
    let tx = call.read()?;
    let details = match query.has("counter") {
        true => {
            query.all("counter").map(|name| look_up(&tx, &id, name)).collect::<Result<_, _>>()?
        }
        false => all_of(&tx, &id)?.into_iter().map(Some).collect::<Vec<_>>(),
    };
    Ok(answer(&[(id, details)], shown))
}

fn answer(outcomes: &[Outcome], shown: ShownValues) -> Answer {
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    let mut listed = JsonArray::begin(object.name("Counters"));
    for (id, counters) in outcomes {
        write_details(id.as_str(), counters.iter().map(Option::as_ref), shown, &mut listed);
    }
    listed.end();
    object.end();
    Answer::json(body)
}

/// `POST /counters`: changes and reads of counters of several documents in one transaction.
pub(crate) fn post(call: Call) -> Answering {
    Box::pin(async move {
        let read = |builder: &mut _| wire::read_counters(&call.body, builder);
        let mut requested = call.state.with_builder(read)?;
        let shown = match requested.shows_values {
            true => ShownValues::Each,
            false => ShownValues::Null,
        };
        let is_look = |kind| {
            use CounterOperationKind::{Get, Nothing, Put};
            matches!(kind, Get | Nothing | Put)
        };
        let operations = requested.documents.iter().flat_map(|document| &document.operations);
        let outcomes = if operations.clone().all(|operation| is_look(operation.kind)) {
            // Reading a name that no counter can have is not an error.
            let tx = call.database()?.read();
            let mut outcomes = Vec::new();
            for document in &requested.documents {
                let id = DocumentId::new(document.document_id.clone())?;
                let looks = document
                    .operations
                    .iter()
                    .filter(|operation| operation.kind == CounterOperationKind::Get);
                let counters = looks.map(|look| look_up(&tx, &id, &look.name));
                outcomes.push((id.clone(), counters.collect::<Result<Vec<_>, _>>()?));
            }
            outcomes
        } else {
            let changes = requested.documents.drain(..).map(change_counters);
            let changes = changes
                .filter(|change| change.as_ref().map_or(true, |change| !change.steps.is_empty()));
            change(&call, changes.collect::<Result<_, _>>()?).await?
        };
        Ok(answer(&outcomes, shown))
    })
}

/// The counters of a document after a request; `None` for a missing one.
type Outcome = (DocumentId, Vec<Option<CounterDetail>>);

async fn change(call: &Call, changes: Vec<ChangeCounters>) -> Result<Vec<Outcome>, ApiError> {
    let commands = changes.into_iter().map(Command::ChangeCounters).collect();
    let outcome = submit(&call.state, call.database()?, Batch { commands }).await?;
    let results = outcome.results.into_iter().filter_map(|result| match result {
        CommandResult::CountersChanged(changed) => {
            let CountersChanged { id, counters, .. } = *changed;
            Some((id, counters))
        }
        _ => None,
    });
    Ok(results.collect())
}

fn look_up(
    tx: &ReadTransaction,
    id: &DocumentId,
    name: &str,
) -> Result<Option<CounterDetail>, ApiError> {
    let Ok(name) = CounterName::new(name) else { return Ok(None) };
    let row = documents::counter(tx, id, &name)?;
    row.map(|row| detail_of(&row, name)).transpose()
}

/// All counters of a document, ordered by the bytes of their names.
fn all_of(tx: &ReadTransaction, id: &DocumentId) -> Result<Vec<CounterDetail>, ApiError> {
    let mut details = Vec::new();
    for row in documents::counters_of(tx, id)? {
        let row = row?;
        let name = CounterName::new(row.name());
        let name = name.map_err(|error| ApiError::argument(error.to_string()))?;
        details.push(detail_of(&row, name)?);
    }
    details.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    Ok(details)
}
