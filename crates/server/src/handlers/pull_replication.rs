//! Hubs and sinks of replication: their definitions, the certificates that may connect to hubs, and what sinks send.

use std::{sync::Arc, time::Duration};

use ::replication::Reply;
use database::Closing;
use engine::{
    ConnectedSink, DestinationKey, Direction, HubAnswer, HubTask, LinkState, RegisteredAccess,
    SinkCall, SinkTask,
};
use http::StatusCode;
use model::{DatabaseId, DatabaseRecord, TimeSpan, base64_text, date};
use security::{Authority, Caller, Certificate, ClientRequest, KeyAlgorithm};
use serde_json::{Map, Value, json};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use wire::{ErrorKind, PullReplicationSink, QueryString};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    database_access::unless_closed,
    handlers::{certificates::uploaded, ongoing_tasks::responsible_json},
    http::router::Answering,
    request_json::read_object,
};

/// How long a hub lets a sink wait for something to send: proxies close connections that are silent for longer.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// How often it is looked for changes of the hub meanwhile.
const CHANGE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a certificate for a sink is valid, in years.
const VALID_YEARS: i64 = 5;
const VALID_YEARS_MAX: i64 = 100;
const DAYS_OF_YEAR: u64 = 365;
const MISSED: &str = "The sink was away for so long that it does not learn of some deletions.";

/// `POST /databases/*/replication/hub`: a message of a sink; see the crate `replication`. The answer to one that asks for
/// changes waits until there are any.
pub(crate) fn sink_message(call: Call) -> Answering {
    Box::pin(async move {
        let sink = sink_of(&call)?;
        let database = call.database()?.clone();
        let mut closing = Closing::of(&database);
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        let _watch = database.followers().watch(Box::new(move || wake.notify_one()));
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let seen = database.record().etag;
            let (state, served) = (Arc::clone(&call.state), database.clone());
            let (sink, body) = (sink.clone(), call.body.clone());
            let answer =
                blocking(move || Ok(state.engine.serve_sink(&served, &sink, &body)?)).await?;
            let look_again = match answer {
                HubAnswer::Ready(bytes) => return Ok(message(bytes)),
                HubAnswer::Later(look_again) => look_again,
            };
            if deadline <= Instant::now() {
                return Ok(message(Reply::Nothing.to_bytes()));
            }
            let until = look_again.map_or(deadline, |time| deadline.min(Instant::now() + time));
            // What the hub allows is in the record.
            let wait = until_worth(&woken, until, || database.record().etag != seen);
            tokio::select! {
                waited = unless_closed(&mut closing, wait) => waited?,
                () = call.state.stopped() => return Ok(message(Reply::Nothing.to_bytes())),
            }
        }
    })
}

/// Waits until it is woken, something has changed, or that moment has come.
async fn until_worth(woken: &Notify, until: Instant, has_changed: impl Fn() -> bool) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || has_changed() {
            return;
        }
        if timeout(left.min(CHANGE_CHECK_INTERVAL), woken.notified()).await.is_ok() {
            return;
        }
    }
}

fn message(bytes: Vec<u8>) -> Answer {
    Answer::json(bytes).with_content_type("application/octet-stream")
}

fn sink_of(call: &Call) -> Result<SinkCall, ApiError> {
    let query = call.query();
    let sink = DatabaseId::parse(query.single_non_empty("sink")?);
    let direction = Direction::named(query.single_non_empty("direction")?);
    let certificate = match &call.caller {
        Caller::Unsecured => None,
        caller => caller.certificate().cloned(),
    };
    Ok(SinkCall {
        hub: query.single_non_empty("hub")?.to_owned(),
        access: query.get("access").filter(|name| !name.is_empty()).map(str::to_owned),
        sink: sink.ok_or_else(|| ApiError::argument("'sink' is not the id of a database"))?,
        direction: direction
            .ok_or_else(|| ApiError::argument("'direction' is neither HubToSink nor SinkToHub"))?,
        certificate,
    })
}

fn database_name(call: &Call) -> Result<String, ApiError> {
    Ok(call.database()?.record().name.as_str().to_owned())
}

/// `PUT /databases/*/admin/tasks/pull-replication/hub`: adds a hub, or replaces the one with its number or name.
pub(crate) fn put_hub(call: Call) -> Answering {
    Box::pin(async move {
        let (sent, database) = (read_object(&call.body)?, database_name(&call)?);
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.put_hub(&database, &sent)?;
            let answer = json!({
                "RaftCommandIndex": changed.index, "TaskId": changed.id,
                "ResponsibleNode": state.node_tag(),
            });
            Ok(Answer::shape(StatusCode::CREATED, &answer))
        })
        .await
    })
}

/// `POST /databases/*/admin/tasks/sink-pull-replication`: adds a sink, or replaces the one with its number.
pub(crate) fn put_sink(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let (sent, database) =
            (PullReplicationSink::sent_in(&body)?.clone(), database_name(&call)?);
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.put_sink(&database, &sent)?;
            let answer = json!({
                "RaftCommandIndex": changed.index, "TaskId": changed.id,
                "ResponsibleNode": state.node_tag(),
            });
            Ok(Answer::shape(StatusCode::CREATED, &answer))
        })
        .await
    })
}

/// `PUT /databases/*/admin/tasks/pull-replication/hub/access`: lets a certificate connect to a hub.
pub(crate) fn register_access(call: Call) -> Answering {
    Box::pin(async move {
        let (sent, database) = (read_object(&call.body)?, database_name(&call)?);
        let hub = call.query().single_non_empty("name")?.to_owned();
        let state = Arc::clone(&call.state);
        blocking(move || {
            let text = sent.iter().find(|(name, _)| name.eq_ignore_ascii_case("CertificateBase64"));
            let text = text.and_then(|(_, value)| value.as_str()).ok_or_else(|| {
                ApiError::argument("An access to a hub needs a certificate: CertificateBase64")
            })?;
            let certificate = uploaded(text, "")?;
            let access = (&sent, &certificate);
            let index = state.engine.register_hub_access(&database, &hub, access)?;
            Ok(Answer::shape(StatusCode::CREATED, &json!({ "RaftCommandIndex": index })))
        })
        .await
    })
}

/// `DELETE /databases/*/admin/tasks/pull-replication/hub/access`: no longer lets a certificate connect to a hub.
pub(crate) fn unregister_access(call: &Call) -> Result<Answer, ApiError> {
    let (query, database) = (call.query(), database_name(call)?);
    let (hub, thumbprint) =
        (query.single_non_empty("name")?, query.single_non_empty("thumbprint")?);
    let index = call.state.engine.unregister_hub_access(&database, hub, thumbprint)?;
    Ok(Answer::shape(StatusCode::OK, &json!({ "RaftCommandIndex": index })))
}

/// `GET /databases/*/admin/tasks/pull-replication/hub/access`: the certificates that may connect to a hub.
pub(crate) fn accesses(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (start, take) = page_of(&query)?;
    let hub = query.single_non_empty("name")?;
    let accesses = call.state.engine.hub_accesses(&call.database()?.record(), hub);
    let filter = query.get("filter").unwrap_or_default().to_lowercase();
    let matching = accesses.iter().filter(|one| one.access.name.to_lowercase().contains(&filter));
    let shown: Vec<Value> = matching.skip(start).take(take).map(access_json).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({ "Results": shown })))
}

fn page_of(query: &QueryString<'_>) -> Result<(usize, usize), ApiError> {
    let size = |number: i32| usize::try_from(number).unwrap_or(0);
    Ok((size(query.start()?), size(query.page_size()?)))
}

/// An access is listed even if its certificate cannot be read: otherwise nobody would see it to remove it.
fn access_json(registered: &RegisteredAccess) -> Value {
    let RegisteredAccess { thumbprint, access } = registered;
    let der = model::base64_bytes(&access.certificate);
    let certificate = der.and_then(|der| Certificate::from_der(&der).ok());
    let certificate = certificate.as_ref();
    let paths =
        |paths: &Option<model::AllowedPaths>| paths.as_ref().map(|paths| paths.paths().to_vec());
    json!({
        "Name": access.name,
        "Thumbprint": thumbprint,
        "Certificate": access.certificate,
        "NotBefore": certificate.map(|known| date::format(known.not_before())),
        "NotAfter": certificate.map(|known| date::format(known.not_after())),
        "Subject": certificate.map(Certificate::subject),
        "Issuer": certificate.map(Certificate::issuer),
        "AllowedHubToSinkPaths": paths(&access.paths_to_sink),
        "AllowedSinkToHubPaths": paths(&access.paths_to_hub),
    })
}

/// `POST /databases/*/admin/pull-replication/generate-certificate`: makes a certificate for a sink. It is registered with
/// nothing, and not kept.
pub(crate) fn generate_certificate(call: Call) -> Answering {
    Box::pin(async move {
        let Some(tls) = call.state.tls() else {
            let message = "This endpoint requires secured server.";
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        };
        let years = call.query().long("validYears")?.unwrap_or(VALID_YEARS);
        if !(1..=VALID_YEARS_MAX).contains(&years) {
            let message = format!("'validYears' is a number from 1 to {VALID_YEARS_MAX}");
            return Err(ApiError::argument(message));
        }
        let database = database_name(&call)?;
        let (key_pair, now) = (tls.key_pair(), call.state.engine.clock().now().ticks());
        let valid = Duration::from_secs(years.cast_unsigned() * DAYS_OF_YEAR * 24 * 60 * 60);
        blocking(move || {
            let unusable = |error: String| ApiError::invalid_operation(error);
            let name = format!("Sink of {database}");
            let not_after = now.saturating_add(model::ticks::of_duration(valid));
            let request = ClientRequest {
                name: name.clone(),
                not_after: Some(not_after),
                key: KeyAlgorithm::Ecdsa,
            };
            let made = Authority::from_key_pair(key_pair).issue_client(&request, now);
            let made = made.map_err(|error| unusable(error.to_string()))?;
            let file = made.to_pfx(&name, "").map_err(|error| unusable(error.to_string()))?;
            let answer = json!({
                "PublicKey": base64_text(made.certificate().der()),
                "Thumbprint": made.certificate().thumbprint(),
                "Certificate": base64_text(&file),
            });
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// `GET /databases/*/tasks/pull-replication/hub`: a hub, and the sinks that are connected to it.
pub(crate) fn hub(call: &Call) -> Result<Answer, ApiError> {
    let id = call.query().required_long("key")?;
    let record = call.database()?.record();
    let hubs = call.state.engine.hubs(&record).into_iter();
    let found = hubs.into_iter().find(|hub| i64::try_from(hub.definition.id) == Ok(id));
    let Some(hub) = found else { return Ok(Answer::empty(StatusCode::NOT_FOUND)) };
    let sinks = connected_to(call, &record, &hub);
    let answer = json!({"Definition": definition_json(&hub), "OngoingTasks": sinks});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// The hubs of a database, as the list of its ongoing tasks has them.
pub(crate) fn definitions_json(call: &Call, record: &DatabaseRecord) -> Vec<Value> {
    call.state.engine.hubs(record).iter().map(definition_json).collect()
}

/// The sinks that are connected to the hubs of a database: for each an ongoing task.
pub(crate) fn connected_json(call: &Call, record: &DatabaseRecord) -> Vec<Value> {
    let hubs = call.state.engine.hubs(record);
    hubs.iter().flat_map(|hub| connected_to(call, record, hub)).collect()
}

fn definition_json(hub: &HubTask) -> Value {
    let HubTask { definition, stored } = hub;
    let mode = stored.get("Mode").and_then(Value::as_str);
    json!({
        "Certificates": {},
        "TaskId": definition.id,
        "Name": definition.name,
        "Disabled": definition.is_disabled,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "DelayReplicationFor": TimeSpan::of(definition.delay).to_string(),
        "Mode": mode.unwrap_or(definition.mode.text()),
        "WithFiltering": definition.is_filtered,
        "PreventDeletionsMode": match definition.refuses_deletions {
            true => "PreventSinkToHubDeletions",
            false => "None",
        },
    })
}

fn connected_to(call: &Call, record: &DatabaseRecord, hub: &HubTask) -> Vec<Value> {
    let definition = &hub.definition;
    let sinks = call.state.engine.connected_sinks(record).into_iter();
    let sinks = sinks.filter(|sink| sink.hub == definition.id && sink.is_connected);
    let shown = |sink: ConnectedSink| {
        json!({
            "TaskId": definition.id,
            "TaskType": "PullReplicationAsHub",
            "ResponsibleNode": responsible_json(call, Some(call.state.engine.node_tag())),
            "TaskState": if definition.is_disabled { "Disabled" } else { "Enabled" },
            "TaskConnectionStatus": "Active",
            "TaskName": definition.name,
            "MentorNode": definition.mentor_node,
            "PinToMentorNode": definition.is_pinned,
            "Error": sink.has_missed_deletions.then_some(MISSED),
            "DestinationUrl": sink.url,
            "DestinationDatabase": sink.database,
            "DelayReplicationFor": TimeSpan::of(definition.delay).to_string(),
            "AccessName": sink.access,
        })
    };
    sinks.map(shown).collect()
}

/// A sink among the ongoing tasks of its database.
pub(crate) fn sink_json(
    call: &Call,
    record: &DatabaseRecord,
    task: &SinkTask,
) -> Map<String, Value> {
    let definition = &task.definition;
    let links = call.state.engine.outgoing_links(record);
    let link = |direction| {
        let key = DestinationKey::Sink(definition.id, direction);
        links.get(&key).map(|(_, statistics)| statistics)
    };
    let links: Vec<_> =
        [Direction::HubToSink, Direction::SinkToHub].into_iter().filter_map(link).collect();
    let is_here = task.node(&record.topology) == Some(call.state.engine.node_tag());
    let status = match () {
        () if !is_here => "NotOnThisNode",
        () if links.iter().any(|link| link.is_failing()) => "Reconnect",
        () if links.iter().any(|link| link.state == LinkState::Active) => "Active",
        () => "NotActive",
    };
    let mut failing = links.iter().filter(|link| link.is_failing());
    let failure = failing.find_map(|link| link.failure.as_ref());
    let error = match &task.connection {
        Err(reason) => Some(reason.clone()),
        Ok(_) => failure.map(|(_, message)| message.clone()),
    };
    let connection = task.connection.clone().unwrap_or_default();
    let addresses: Vec<String> = connection.addresses.iter().map(ToString::to_string).collect();
    let certificate =
        task.identity.as_ref().map(|identity| base64_text(identity.0.certificate().der()));
    let mode = task.shown.get("Mode").and_then(Value::as_str);
    let paths =
        |paths: &Option<model::AllowedPaths>| paths.as_ref().map(|paths| paths.paths().to_vec());
    let shown = json!({
        "TaskId": definition.id,
        "TaskType": "PullReplicationAsSink",
        "ResponsibleNode": responsible_json(call, task.node(&record.topology)),
        "TaskState": if definition.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": status,
        "TaskName": definition.name,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "Error": error,
        "HubName": definition.hub,
        "Mode": mode.unwrap_or(definition.mode.text()),
        "DestinationUrl": links.iter().find_map(|link| link.destination_url.clone()),
        "TopologyDiscoveryUrls": addresses,
        "DestinationDatabase": connection.database,
        "ConnectionStringName": definition.connection,
        "CertificatePublicKey": certificate,
        "AccessName": definition.access,
        "AllowedHubToSinkPaths": paths(&definition.paths_to_sink),
        "AllowedSinkToHubPaths": paths(&definition.paths_to_hub),
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}
