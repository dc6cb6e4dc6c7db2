//! One link: messages to one destination, one after the other.
//!
//! Nothing of the database is held while a message is on its way. When one is not answered the link pauses, each time
//! longer, and begins from the start again.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use database::DatabaseLease;
use model::{Etag, ticks};
use platform::Clock;
use replication::{Asking, LinkKind, Refusal, RefusalKind, Reply, ReplyError, Terms};
use wire::percent_encode;

use super::{
    destinations::Direction,
    links::LinkShared,
    pulling::Pulling,
    sending::Sending,
    statistics::{LinkRun, LinkState},
};
use crate::{
    engine::Engine,
    etl::{
        Outbound,
        destination::{Destination, DestinationOptions, Post, SendError},
    },
};

/// How long a destination may take for one message.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Terms are short.
const TERMS_BYTES_MAX: usize = 1 << 20;
/// The first pause after a failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// The longest before another member of the group: one that comes back is to be reached before it is set aside.
const MEMBER_PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long an idle link sleeps: it is woken by changes.
pub(super) const IDLE_TIME: Duration = Duration::MAX;
/// How long an idle link keeps its thread.
const PARKING_TIME: Duration = Duration::from_secs(2);
/// The path of messages behind that of the database.
const MESSAGES: &str = "/replication/messages";
/// The same of a sink to its hub.
const HUB_MESSAGES: &str = "/replication/hub";

/// A link, on its thread or parked.
pub(super) struct Link {
    core: LinkCore,
    flow: Flow,
}

/// What moves over a link.
enum Flow {
    /// Changes of this database.
    Sending(Box<Sending>),
    /// Changes of a hub, which this database asks for.
    Pulling(Box<Pulling>),
}

/// What every link has.
pub(super) struct LinkCore {
    pub(super) engine: Weak<Engine>,
    pub(super) shared: Arc<LinkShared>,
    destination: Destination,
    path: String,
    pause: Duration,
}

/// The outcome of a step.
pub(super) enum Step {
    /// There may be more to do.
    Again,
    /// There is nothing to do for so long, unless the log grows.
    Idle(Duration),
    /// The link is to end.
    End,
}

/// Why a link does not go on.
pub(super) enum Failure {
    /// The link is to end.
    Canceled,
    /// There is no answer, or nothing can be done now.
    Unavailable(String),
    /// The destination has answered that it takes nothing.
    Refused(String),
    /// So it has, because it has changes of this database that are no longer here.
    Lost(String),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        match error {
            SendError::Canceled => Failure::Canceled,
            error => Failure::Unavailable(error.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal.kind {
            RefusalKind::NotNow => Failure::Unavailable(refusal.reason),
            RefusalKind::Lost => Failure::Lost(refusal.reason),
            RefusalKind::Damaged | RefusalKind::Never => Failure::Refused(refusal.reason),
        }
    }
}

impl From<ReplyError> for Failure {
    fn from(error: ReplyError) -> Failure {
        match error {
            ReplyError::Refused(refusal) => refusal.into(),
            error @ (ReplyError::Invalid(_) | ReplyError::Unexpected) => {
                Failure::Refused(error.to_string())
            }
        }
    }
}

impl Failure {
    pub(super) fn message(&self) -> Option<&str> {
        match self {
            Failure::Canceled => None,
            Failure::Unavailable(message) | Failure::Refused(message) | Failure::Lost(message) => {
                Some(message)
            }
        }
    }
}

/// Runs a link until it has had nothing to do for a while, or is stopped; returns whether it may be run again when it is
/// woken.
pub(super) fn run(link: &mut Link) -> bool {
    let shared = Arc::clone(&link.core.shared);
    while !shared.cancel.is_canceled() {
        shared.signal.clear();
        shared.done_at_opening.store(0, Ordering::SeqCst);
        let step = match &mut link.flow {
            Flow::Sending(sending) => sending.step(&mut link.core),
            Flow::Pulling(pulling) => pulling.step(&mut link.core),
        };
        match step {
            Step::Again => {}
            Step::Idle(IDLE_TIME) => {
                shared.signal.wait(PARKING_TIME);
                if !shared.signal.is_woken() {
                    return true;
                }
            }
            Step::Idle(time) => shared.signal.wait(time),
            Step::End => return false,
        }
    }
    false
}

impl Link {
    pub(super) fn new(
        engine: Weak<Engine>,
        shared: Arc<LinkShared>,
        outbound: Arc<dyn Outbound>,
    ) -> Link {
        let to = &shared.destination;
        let options = DestinationOptions {
            connection: to.connection.clone(),
            requires_encryption: to.requires_encryption,
            time_max: ANSWER_TIME_MAX,
            identity: to.sink.as_ref().and_then(|sink| sink.identity.clone()),
        };
        let destination = match to.kind() {
            LinkKind::External => Destination::new(outbound, options),
            // A hub names its nodes itself.
            LinkKind::Internal | LinkKind::HubToSink | LinkKind::SinkToHub => {
                Destination::of_nodes(outbound, options)
            }
        };
        let url = engine
            .upgrade()
            .map_or_else(String::new, |engine| engine.replication.own_url().to_owned());
        let flow = match &to.sink {
            Some(sink) if sink.direction == Direction::HubToSink => {
                Flow::Pulling(Box::new(Pulling::new(sink.paths.clone())))
            }
            _ => Flow::Sending(Box::new(Sending::new(&shared, url))),
        };
        let path = path_to(&shared);
        let core = LinkCore { engine, shared, destination, path, pause: PAUSE_MIN };
        Link { core, flow }
    }
}

fn path_to(shared: &LinkShared) -> String {
    let Some(sink) = &shared.destination.sink else { return MESSAGES.to_owned() };
    let (hub, id) = (percent_encode(&sink.hub), percent_encode(&shared.database.to_string()));
    let mut path =
        format!("{HUB_MESSAGES}?hub={hub}&sink={id}&direction={}", sink.direction.word());
    if let Some(access) = &sink.access {
        path.push_str("&access=");
        path.push_str(&percent_encode(access));
    }
    path
}

impl LinkCore {
    /// Whether this is the database of the link: another one may have its name by now.
    pub(super) fn is_database(&self, database: &DatabaseLease) -> bool {
        database.record().topology_id == self.shared.database
    }

    pub(super) fn post(
        &mut self,
        bytes: Vec<u8>,
        answer_bytes_max: usize,
    ) -> Result<Vec<u8>, SendError> {
        let post = Post {
            path: &self.path,
            content_type: "application/octet-stream",
            body: Arc::new(bytes),
            answer_bytes_max,
        };
        self.destination.post(post, &self.shared.cancel)
    }

    /// Asks the hub of a sink what it allows, on the node that the next messages go to: a node takes messages of those
    /// sinks alone that have asked it.
    pub(super) fn agree(&mut self, url: &str) -> Result<Terms, Failure> {
        self.destination.forget_nodes();
        let mut terms = self.ask_for_terms(url)?;
        let asked = self.destination.url();
        self.destination.use_nodes(terms.nodes.iter().filter_map(|node| node.parse().ok()));
        if self.destination.url() != asked {
            terms = self.ask_for_terms(url)?;
        }
        let sink = self.shared.destination.sink.as_ref();
        let direction = sink.map_or(Direction::SinkToHub, |sink| sink.direction);
        let is_allowed = match direction {
            Direction::HubToSink => terms.sends,
            Direction::SinkToHub => terms.takes,
        };
        if !is_allowed {
            let (hub, mode) = (sink.map_or("", |sink| sink.hub.as_str()), direction.word());
            return Err(Failure::Refused(format!("The hub '{hub}' does not replicate {mode}")));
        }
        Ok(terms)
    }

    /// Asks the first node of the hub that answers.
    fn ask_for_terms(&mut self, url: &str) -> Result<Terms, Failure> {
        let asking = Asking {
            sink: self.shared.database,
            database: self.shared.database_name.as_str().to_owned(),
            url: url.to_owned(),
        };
        let answer = self.post(asking.to_bytes(), TERMS_BYTES_MAX)?;
        match Reply::read(&answer) {
            Ok(Reply::Terms(terms)) => Ok(terms),
            Ok(Reply::Refused(refusal)) => Err(refusal.into()),
            Ok(_) => Err(Failure::Refused("The hub has not said what it allows".to_owned())),
            Err(error) => Err(Failure::Refused(error.to_string())),
        }
    }

    /// Notes a run, whether or not it has succeeded.
    pub(super) fn note_run(&self, run: LinkRun) {
        self.shared.statistics().note_run(run);
    }

    /// Notes that a message was answered.
    pub(super) fn succeed(&mut self, accepted: Option<Etag>, clock: &dyn Clock) {
        self.pause = PAUSE_MIN;
        let has_failed = {
            let mut statistics = self.shared.statistics();
            statistics.destination_url = self.destination.url();
            statistics.accepted = accepted;
            statistics.note_success(clock.now().ticks())
        };
        if has_failed {
            tracing::info!(
                database = self.shared.database_name.as_str(),
                destination = self.shared.destination.name.as_str(),
                "replication works again"
            );
        }
    }

    /// Notes why the link does not go on, after which it pauses, unless it is to end.
    pub(super) fn fail_with(&mut self, failure: &Failure, clock: &dyn Clock) -> Step {
        match failure {
            Failure::Canceled => Step::End,
            Failure::Unavailable(message) => self.fail(LinkState::Failing, message, clock),
            Failure::Refused(message) | Failure::Lost(message) => {
                self.fail(LinkState::Refused, message, clock)
            }
        }
    }

    /// Notes a failure, after which the link pauses.
    pub(super) fn fail(&mut self, state: LinkState, message: &str, clock: &dyn Clock) -> Step {
        let pause = self.pause;
        let pause_max = match self.shared.destination.kind() {
            LinkKind::External | LinkKind::HubToSink | LinkKind::SinkToHub => PAUSE_MAX,
            LinkKind::Internal => MEMBER_PAUSE_MAX,
        };
        self.pause = pause.saturating_mul(2).min(pause_max);
        let now = clock.now().ticks();
        let retry = now.saturating_add(ticks::of_duration(pause));
        let is_new = {
            let mut statistics = self.shared.statistics();
            if statistics.state == LinkState::Connecting {
                statistics.destination_url = self.destination.url();
            }
            statistics.note_failure(state, message, now, retry)
        };
        if is_new {
            tracing::warn!(
                database = self.shared.database_name.as_str(),
                destination = self.shared.destination.name.as_str(),
                error = message,
                "replication fails, and is tried again"
            );
        }
        let began = clock.monotonic();
        // Changes wake the link, and do not shorten the pause.
        loop {
            let left = pause.saturating_sub(clock.monotonic().saturating_sub(began));
            if left.is_zero() || self.shared.cancel.is_canceled() {
                return Step::Again;
            }
            self.shared.signal.clear();
            if self.shared.cancel.is_canceled() {
                return Step::End;
            }
            self.shared.signal.wait(left);
        }
    }
}
