//! Identities: ever-increasing numbers, assigned one after the other.

use cluster_state::{Command, IDENTITY_MAX, IdentityCommand, Outcome};
use model::DatabaseId;

use crate::{
    answers::{answer::Answer, json_text::JsonObject},
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::cluster_commands::submit_of,
};

/// `POST /identity/next`.
pub(crate) fn next(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        change(
            &call,
            IdentityCommand::Next { database: database_of(&call)?, names: vec![name] },
            "NewIdentityValue",
        )
        .await
    })
}

/// `POST /identity/seed`.
pub(crate) fn seed(call: Call) -> Answering {
    Box::pin(async move {
        let command = {
            let query = call.query();
            let value = query.long("value")?.ok_or_else(|| {
                ApiError::argument("Query string value is mandatory, but wasn't specified.")
            })?;
            if IDENTITY_MAX < value {
                return Err(ApiError::argument(format!(
                    "An identity cannot be set to {value}: the limit is {IDENTITY_MAX}."
                )));
            }
            let name = query.single_non_empty("name")?.to_owned();
            IdentityCommand::Seed {
                database: database_of(&call)?,
                values: vec![(name, value)],
                force: query.bool("force")?.unwrap_or(false),
            }
        };
        change(&call, command, "NewSeedValue").await
    })
}

async fn change(
    call: &Call,
    command: IdentityCommand,
    property: &'static str,
) -> Result<Answer, ApiError> {
    let applied = submit_of(call, &Command::Identity(command)).await?;
    let Outcome::Identities(values) = applied.outcome else {
        return Err(ApiError::invalid_operation("the identity's value is missing"));
    };
    let value = values.first().copied().unwrap_or_default();
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.number(property, value);
    object.end();
    Ok(Answer::json(body))
}

fn database_of(call: &Call) -> Result<DatabaseId, ApiError> {
    Ok(call.database()?.record().topology_id)
}

/// `GET /debug/identities`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let identities = call.state.engine.cluster_state().identities(database_of(call)?)?;
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    for (name, value) in &identities {
        object.key(name).extend_from_slice(value.to_string().as_bytes());
    }
    object.end();
    Ok(Answer::json(body))
}
