//! Sample data: fills an empty database with a shop.

use std::sync::Arc;

use commands::{Batch, Command};
use documents::{ExpectedVersion, NewContent, PutAttachment, hash_of};
use http::StatusCode;
use model::DocumentId;
use serde_json::{Map, Value};
use wire::{read_revisions_configuration, read_time_series_configuration};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{bulk_docs::submit_body, index_changes::define_all},
    http::{body_share::BodyShare, router::Answering},
    sample_data::{self, SampleTypes},
    writes::{attachment_commands::attachment_name, submitting::submit},
};

/// `GET /studio/sample-data/classes`.
pub(crate) fn classes(_: &Call) -> Result<Answer, ApiError> {
    let answer = Answer::json(sample_data::CLASSES.as_bytes().to_vec());
    Ok(answer.with_content_type("text/plain"))
}

/// `POST /studio/sample-data`, for a database without documents.
pub(crate) fn create(call: Call) -> Answering {
    Box::pin(async move {
        let types = types_of(&call)?;
        let progress = documents::progress(&call.database()?.read());
        if progress?.documents != 0 {
            let message =
                "You cannot create sample data in a database that already contains documents";
            return Err(ApiError::invalid_operation(message));
        }
        configure(&call, types).await?;
        let mut share = BodyShare::none_of(&call.state);
        for body in sample_data::batches(types) {
            submit_body(&call.state, call.database()?, &mut share, &body).await?;
        }
        if types.documents && types.attachments {
            submit(&call.state, call.database()?, pictures()?).await?;
        }
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
}

fn types_of(call: &Call) -> Result<SampleTypes, ApiError> {
    let query = call.query();
    let mut names = query.all("operateOnTypes").peekable();
    if names.peek().is_none() {
        return Ok(SampleTypes::ALL);
    }
    SampleTypes::named(names)
        .map_err(|name| ApiError::argument(format!("Requested value '{name}' was not found.")))
}

/// Writes the settings and indexes into the record of the database, before the data.
async fn configure(call: &Call, types: SampleTypes) -> Result<(), ApiError> {
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    blocking(move || {
        let name = database.record().name.as_str().to_owned();
        let mut sections = Vec::new();
        if types.documents && types.revisions {
            sections.push(read_revisions_configuration(&sample_data::revisions_configuration())?);
        }
        if types.documents && types.time_series {
            let mut sent = Map::new();
            sent.insert("NamedValues".to_owned(), sample_data::named_values());
            sections.push(read_time_series_configuration(&sent)?);
        }
        if !sections.is_empty() {
            state.engine.configure(&name, &sections)?;
        }
        let indexes: Vec<Value> = if types.indexes { sample_data::indexes() } else { Vec::new() };
        define_all(&state, &database, indexes)
    })
    .await
}

fn pictures() -> Result<Batch, ApiError> {
    let put = |picture: sample_data::Picture| -> Result<Command, ApiError> {
        let bytes = picture.content.into_bytes();
        Ok(Command::PutAttachment(PutAttachment {
            id: DocumentId::new(picture.id)
                .map_err(|error| ApiError::argument(error.to_string()))?,
            name: attachment_name(picture.name.to_owned())?,
            content_type: sample_data::PICTURE_TYPE.to_owned(),
            expected: ExpectedVersion::Any,
            content: NewContent::Bytes { hash: hash_of(&bytes), bytes },
        }))
    };
    let commands: Result<_, _> = sample_data::pictures().into_iter().map(put).collect();
    Ok(Batch { commands: commands? })
}
