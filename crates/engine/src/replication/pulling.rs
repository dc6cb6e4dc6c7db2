//! A link over which this database asks a hub for its changes: it waits for the answer of the hub, which has one at the
//! latest after a while, and receives what it brings as from any sender.
//!
//! Its thread is never parked: while there is nothing to do it waits for the hub.

use std::sync::Arc;

use documents::Source;
use model::AllowedPaths;
use platform::Clock;
use replication::{Arrived, LinkFilter, MESSAGE_BYTES_MAX, PullError, Puller, Reply};

use super::{
    link::{Failure, LinkCore, Step},
    receiving::ReadMessage,
    sending::CLOSED_PAUSE,
    statistics::LinkRun,
};

/// A message, with its header.
const ANSWER_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 64;

/// See the module.
pub(super) struct Pulling {
    /// What this database lets through.
    paths: Option<AllowedPaths>,
    /// `None` until the hub has said what it allows.
    puller: Option<Puller>,
}

impl Pulling {
    pub(super) fn new(paths: Option<AllowedPaths>) -> Pulling {
        Pulling { paths, puller: None }
    }

    /// Asks, and receives the answer.
    pub(super) fn step(&mut self, core: &mut LinkCore) -> Step {
        let Some(engine) = core.engine.upgrade() else { return Step::End };
        let clock = Arc::clone(engine.clock());
        // A hub that does not answer must not keep the engine alive.
        drop(engine);
        let Some(puller) = &self.puller else { return self.begin(core, &*clock) };
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let answer = match core.post(puller.next_pull().to_bytes(), ANSWER_BYTES_MAX) {
            Ok(answer) => answer,
            Err(error) => return self.fail(core, &error.into(), &*clock),
        };
        if Reply::is_reply(&answer) {
            return self.take_reply(core, &answer, &*clock);
        }
        match self.receive(core, &answer) {
            Ok(Some(items)) => {
                let took = clock.monotonic().saturating_sub(began).as_millis();
                let accepted = self.puller.as_ref().and_then(Puller::accepted);
                core.note_run(LinkRun {
                    began_ticks,
                    network_ms: u64::try_from(took).unwrap_or(u64::MAX),
                    items,
                    bytes: answer.len() as u64,
                    last_etag: accepted.unwrap_or_default(),
                    ..LinkRun::default()
                });
                core.succeed(accepted, &*clock);
                Step::Again
            }
            // What was asked is asked again then.
            Ok(None) => Step::Idle(CLOSED_PAUSE),
            Err(failure) => self.fail(core, &failure, &*clock),
        }
    }

    /// Asks the hub what it allows.
    fn begin(&mut self, core: &mut LinkCore, clock: &dyn Clock) -> Step {
        let Some(engine) = core.engine.upgrade() else { return Step::End };
        let url = engine.replication.own_url().to_owned();
        drop(engine);
        match core.agree(&url) {
            Ok(_) => {}
            Err(failure) => return self.fail(core, &failure, clock),
        }
        match sink_of(core) {
            Ok(Some(sink)) => self.puller = Some(Puller::new(sink, self.paths.clone())),
            Ok(None) => return Step::Idle(CLOSED_PAUSE),
            Err(message) => return self.fail(core, &Failure::Unavailable(message), clock),
        }
        core.succeed(None, clock);
        Step::Again
    }

    fn take_reply(&mut self, core: &mut LinkCore, answer: &[u8], clock: &dyn Clock) -> Step {
        match Reply::read(answer) {
            Ok(Reply::Nothing) => {
                core.succeed(self.puller.as_ref().and_then(Puller::accepted), clock);
                Step::Again
            }
            Ok(Reply::Refused(refusal)) => self.fail(core, &refusal.into(), clock),
            Ok(_) => {
                let message = "The hub has answered something that was not asked".to_owned();
                self.fail(core, &Failure::Refused(message), clock)
            }
            Err(error) => self.fail(core, &Failure::Refused(error.to_string()), clock),
        }
    }

    /// Receives a message of the hub; returns how many changes it brought, or `None` if the database cannot be used now.
    fn receive(&mut self, core: &LinkCore, bytes: &[u8]) -> Result<Option<u64>, Failure> {
        let unavailable = |message: String| Failure::Unavailable(message);
        let Some(engine) = core.engine.upgrade() else { return Ok(None) };
        let (name, id) = (core.shared.database_name.as_str(), core.shared.database);
        let opened = engine.open_if_usable(name, id);
        let opened = opened.map_err(|error| unavailable(error.to_string()))?;
        let Some(database) = opened else { return Ok(None) };
        let refused = |reply: Reply| match reply {
            Reply::Refused(refusal) => refusal.into(),
            _ => Failure::Refused("A message of the hub cannot be read".to_owned()),
        };
        let ReadMessage { message, share } = engine.read_replicated(bytes).map_err(refused)?;
        if message.group().is_some() {
            let reason = "A hub is no member of the sink's group".to_owned();
            return Err(Failure::Refused(reason));
        }
        let (arrived, items) = (Arrived::of(&message), message.items() as u64);
        let filter = LinkFilter::new([self.paths.clone()], false);
        let reply = engine.receive_message(&database, (message, bytes.len()), &filter);
        drop(share);
        let reply = reply.map_err(|error| unavailable(error.to_string()))?;
        match &mut self.puller {
            Some(puller) => puller.take(arrived, reply).map_err(failure_of)?,
            None => return Err(unavailable("The hub has not said what it allows".to_owned())),
        }
        Ok(Some(items))
    }

    fn fail(&mut self, core: &mut LinkCore, failure: &Failure, clock: &dyn Clock) -> Step {
        self.puller = None;
        core.fail_with(failure, clock)
    }
}

fn failure_of(error: PullError) -> Failure {
    match error {
        PullError::Refused(refusal) => refusal.into(),
        PullError::Unexpected => Failure::Refused(error.to_string()),
    }
}

/// This database, as it is known to others; `None` if it cannot be used now.
fn sink_of(core: &LinkCore) -> Result<Option<Source>, String> {
    let Some(engine) = core.engine.upgrade() else { return Ok(None) };
    let (name, id) = (core.shared.database_name.as_str(), core.shared.database);
    let opened = engine.open_if_usable(name, id).map_err(|error| error.to_string())?;
    let Some(database) = opened else { return Ok(None) };
    let identity = documents::database_identity(&database.read());
    let identity = identity.map_err(|error| error.to_string())?;
    Ok(Some(Source { database_id: identity.database_id, node_tag: identity.node_tag }))
}
