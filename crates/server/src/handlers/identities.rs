//! Identities: numbers that only ever grow, one after the other.

use commands::{Batch, Command, CommandResult};
use wire::ProtocolError;

use crate::{
    answer::Answer, call::Call, error_mapping::document_error, json_text::JsonObject,
    router::Answering, submitting::submit,
};

/// `POST /identity/next`.
pub(crate) fn next(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        change(&call, Command::IdentityNext { name }, "NewIdentityValue").await
    })
}

/// `POST /identity/seed`.
pub(crate) fn seed(call: Call) -> Answering {
    Box::pin(async move {
        let command = {
            let query = call.query();
            let value = query.long("value")?.ok_or_else(|| {
                ProtocolError::argument("Query string value is mandatory, but wasn't specified.")
            })?;
            Command::IdentitySeed {
                name: query.single_non_empty("name")?.to_owned(),
                value,
                force: query.bool("force")?.unwrap_or(false),
            }
        };
        change(&call, command, "NewSeedValue").await
    })
}

async fn change(
    call: &Call,
    command: Command,
    property: &'static str,
) -> Result<Answer, ProtocolError> {
    let outcome = submit(&call.state, call.database()?, Batch::one(command)).await?;
    let Some(CommandResult::Identity(value)) = outcome.results.into_iter().next() else {
        return Err(ProtocolError::invalid_operation("the identity's value is missing"));
    };
    let mut body = Vec::new();
    let mut object = JsonObject::begin(&mut body);
    object.number(property, value);
    object.end();
    Ok(Answer::json(body))
}

/// `GET /debug/identities`.
pub(crate) fn list(call: &Call) -> Result<Answer, ProtocolError> {
    let tx = call.database()?.read();
    let identities = documents::identities(&tx).map_err(|error| document_error(&error))?;
    let mut body = vec![b'{'];
    for (index, (name, value)) in identities.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        blittable::write_json_string(name, &mut body);
        body.extend_from_slice(format!(":{value}").as_bytes());
    }
    body.push(b'}');
    Ok(Answer::json(body))
}
