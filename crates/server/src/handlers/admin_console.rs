//! The administrators' console: scripts that reach the server itself.
//!
//! What scripts of RavenDB's operators and of the clients' own tests use of it is there, see docs/compatibility/scripts.md.

use std::{sync::Arc, time::Duration};

use cluster::MembershipChange;
use database::AccessError;
use engine::EngineError;
use script::{
    Budget, ConsoleScript, Exhausted, Host, HostError, Refusal, ScriptError, ScriptValue,
};
use serde_json::Value;
use tokio::{runtime::Handle, time::sleep};
use wire::{ErrorKind, ProtocolError};

use crate::{
    answers::{answer::Answer, json_text::JsonObject},
    api_error::{ApiError, access_error},
    blocking::blocking,
    call::Call,
    handlers::cluster_nodes,
    http::router::Answering,
    request_json::read_object,
    server_state::ServerState,
};

/// How long a script may run: it may add a node, which waits for the other server.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How long a script may wait for a leader.
const LEADER_WAIT_MAX: Duration = Duration::from_secs(15);
const LEADER_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// `POST /admin/console`.
pub(crate) fn run(call: Call) -> Answering {
    Box::pin(async move {
        let database = database_of(&call)?;
        let body = read_object(&call.body)?;
        let Some(text) = body.get("Script").and_then(Value::as_str) else {
            let message = "Field Script was not found.";
            return Err(ApiError::new(ErrorKind::InvalidData, message));
        };
        let script = ConsoleScript::new(text);
        tracing::info!(database, "a script of the administrators' console runs");
        let state = Arc::clone(&call.state);
        // Its heap is limited as that of a trial.
        let place = state.rooms.counting.take(database.as_deref().unwrap_or_default()).await?;
        let runtime = Handle::current();
        blocking(move || {
            let _place = place;
            let engine = state.engine.scripts().engine();
            let budget = Budget { time_max: TIME_MAX, ..Budget::default() };
            let mut host = ConsoleHost { state: &state, runtime };
            let result = script.run(&engine, database.as_deref(), budget, &mut host);
            answer(&result.map_err(script_error)?)
        })
        .await
    })
}

/// The database that the script is for; `None` for the server itself.
fn database_of(call: &Call) -> Result<Option<String>, ApiError> {
    let query = call.query();
    if let Some(name) = query.get("database").filter(|name| !name.is_empty()) {
        return match call.state.engine.record(name) {
            Some(record) => Ok(Some(record.name.as_str().to_owned())),
            None => Err(access_error(&AccessError::Missing, name)),
        };
    }
    match query.bool("serverScript")?.unwrap_or(false) {
        true => Ok(None),
        false => Err(ApiError::invalid_operation(
            "'database' query string parameter not found, and 'serverScript' query string is not found. \
             Don't know what to apply this script on",
        )),
    }
}

fn answer(result: &ScriptValue) -> Result<Answer, ApiError> {
    let mut out = Vec::new();
    let mut shape = JsonObject::begin(&mut out);
    let written = result.write_json(shape.name("Result"));
    written.map_err(|error| ApiError::new(ErrorKind::JavaScript, error.to_string()))?;
    shape.end();
    Ok(Answer::json(out))
}

fn script_error(error: ScriptError) -> ApiError {
    let message = error.to_string();
    let kind = match error {
        ScriptError::Host(source) => {
            return match source.downcast::<ProtocolError>() {
                Ok(error) => (*error).into(),
                Err(_) => ApiError::new(ErrorKind::JavaScript, message),
            };
        }
        ScriptError::Parse { .. } => ErrorKind::JavaScriptParse,
        ScriptError::Exhausted(Exhausted::Recursion) => ErrorKind::JavaScriptRecursion,
        ScriptError::Refused { kind: Refusal::Value, .. } => ErrorKind::Argument,
        ScriptError::Refused { kind: Refusal::NotHere, .. } => ErrorKind::NotSupported,
        ScriptError::Engine(_) => ErrorKind::LowMemory,
        _ => ErrorKind::JavaScript,
    };
    ApiError::new(kind, message)
}

/// Executes the operations of a script, one after another.
struct ConsoleHost<'a> {
    state: &'a ServerState,
    runtime: Handle,
}

impl Host for ConsoleHost<'_> {
    fn operate(
        &mut self,
        operation: &str,
        arguments: Vec<ScriptValue>,
    ) -> Result<ScriptValue, HostError> {
        Ok(self.perform(operation, &arguments).map_err(ProtocolError::from)?)
    }
}

impl ConsoleHost<'_> {
    fn perform(&self, operation: &str, arguments: &[ScriptValue]) -> Result<ScriptValue, ApiError> {
        let engine = &self.state.engine;
        let text = |at: usize| arguments.get(at).and_then(ScriptValue::as_str).unwrap_or_default();
        match operation {
            "tag" => return Ok(ScriptValue::String(self.state.node_tag().to_string().into())),
            "url" => return Ok(ScriptValue::String(self.state.address().into())),
            "term" => {
                let term = i64::try_from(engine.cluster_topology()?.term).unwrap_or(i64::MAX);
                return Ok(ScriptValue::Integer(term));
            }
            "leads" => {
                let topology = engine.cluster_topology()?;
                return Ok(ScriptValue::Bool(topology.leader == Some(topology.this)));
            }
            "bootstrap" => self.check_tag(text(0))?,
            "add" => {
                let is_watcher = matches!(arguments.get(2), Some(ScriptValue::Bool(true)));
                self.change_nodes(cluster_nodes::addition(text(0), Some(text(1)), is_watcher)?)?;
            }
            "remove" => {
                let tag = cluster_nodes::parse_tag(text(0))?;
                self.change_nodes(MembershipChange::Remove { tag })?;
            }
            "waitForLeader" => self.runtime.block_on(self.leader_is_known())?,
            // What was acknowledged before includes the change with the index.
            "waitForIndex" => self.runtime.block_on(engine.catch_up_with_cluster())?,
            "stop" => self.state.request_stop(),
            unknown => {
                let message = format!("the console has no operation '{unknown}'");
                return Err(ApiError::new(ErrorKind::NotSupported, message));
            }
        }
        Ok(ScriptValue::Undefined)
    }

    /// A server is a node of a cluster from its start, and keeps its tag.
    fn check_tag(&self, tag: &str) -> Result<(), ApiError> {
        let own = self.state.node_tag().to_string();
        match tag.is_empty() || tag == own {
            true => Ok(()),
            false => Err(ApiError::invalid_operation(format!(
                "This node is {own} of its cluster already, and cannot become {tag}"
            ))),
        }
    }

    fn change_nodes(&self, change: MembershipChange) -> Result<(), EngineError> {
        cluster_nodes::change_nodes_blocking(&self.state.engine, &self.runtime, change)
    }

    async fn leader_is_known(&self) -> Result<(), ApiError> {
        let clock = self.state.engine.clock();
        let began = clock.monotonic();
        while self.state.engine.cluster_topology()?.leader.is_none() {
            if LEADER_WAIT_MAX <= clock.monotonic().saturating_sub(began) {
                return Err(ApiError::new(
                    ErrorKind::Timeout,
                    format!("No node leads the cluster after {} s", LEADER_WAIT_MAX.as_secs()),
                ));
            }
            sleep(LEADER_CHECK_INTERVAL).await;
        }
        Ok(())
    }
}
