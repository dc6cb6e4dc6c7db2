//! What is received.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use commands::{Batch, Command, CommandResult};
use database::DatabaseLease;
use model::{ContentHash, DatabaseId, DatabaseRecord, Etag, NodeTag};
use replication::{
    Answered, Group, LinkFilter, LinkKind, Message, Refusal, RefusalKind, Reply, accepted, answer,
    not_now,
};
use storage::MemoryShare;

use super::statistics::{LinkRun, LinkState, LinkStatistics};
use crate::{conflicts::conflict_solver, engine::Engine, error::EngineError};

/// Senders of one database that are remembered for operators.
const SENDERS_MAX: usize = 256;
/// Memory of a message that is not drawn from the budget.
const ALLOWED_BYTES: u64 = 256 << 10;

/// A database that sends its changes, for operators.
#[derive(Clone, Debug)]
pub struct IncomingLink {
    /// Its id.
    pub source: DatabaseId,
    /// What its position is kept under: its id, unless the link is filtered.
    pub stream: DatabaseId,
    /// The tag of its node.
    pub node_tag: NodeTag,
    /// Its name.
    pub database: String,
    /// The address of its server; empty if it did not say it.
    pub url: String,
    /// Who sends to whom.
    pub kind: LinkKind,
    /// When its last message arrived, in ticks of UTC.
    pub last_ticks: i64,
    /// What was received, and refused.
    pub statistics: LinkStatistics,
}

/// A message, and the memory that it takes.
pub(super) struct ReadMessage {
    pub(super) message: Message,
    pub(super) share: MemoryShare,
}

/// What other databases send, by the database that receives it.
#[derive(Default)]
pub(super) struct Incoming {
    links: Mutex<HashMap<DatabaseId, Vec<IncomingLink>>>,
}

impl Incoming {
    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseId, Vec<IncomingLink>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn greeted(&self, database: DatabaseId, link: IncomingLink) {
        let mut links = self.lock();
        let links = links.entry(database).or_default();
        match links.iter_mut().find(|known| known.stream == link.stream) {
            Some(known) => {
                let statistics = std::mem::take(&mut known.statistics);
                *known = IncomingLink { statistics, ..link };
            }
            None => {
                if SENDERS_MAX <= links.len() {
                    links.remove(0);
                }
                links.push(link);
            }
        }
    }

    /// Notes whether a sender has lost changes that this database has.
    fn note_lost(&self, database: DatabaseId, stream: DatabaseId, has_lost: bool) {
        let mut links = self.lock();
        let links = links.get_mut(&database).into_iter().flatten();
        for link in links.filter(|link| link.stream == stream) {
            link.statistics.has_lost = has_lost;
        }
    }

    fn note_run(&self, database: DatabaseId, stream: DatabaseId, now_ticks: i64, run: LinkRun) {
        let mut links = self.lock();
        let links = links.get_mut(&database).into_iter().flatten();
        for link in links.filter(|link| link.stream == stream) {
            link.last_ticks = now_ticks;
            match &run.error {
                Some(error) => {
                    let state = LinkState::Failing;
                    link.statistics.note_failure(state, error, now_ticks, now_ticks);
                }
                None => {
                    link.statistics.accepted = Some(run.last_etag);
                    link.statistics.note_success(now_ticks);
                }
            }
            link.statistics.note_run(run.clone());
        }
    }
}

impl Engine {
    /// The databases that have sent something to a database since the server was started.
    pub fn incoming_links(&self, record: &DatabaseRecord) -> Vec<IncomingLink> {
        self.replication.incoming.lock().get(&record.topology_id).cloned().unwrap_or_default()
    }

    /// Takes a message of another database; returns the answer. Blocks until what it brings is durable. `may_be_member` is
    /// whether the sender is trusted to be a node of the cluster.
    ///
    /// # Errors
    /// The database cannot be read or written. The sender sends the message again.
    pub fn receive_replication(
        &self,
        database: &DatabaseLease,
        bytes: &[u8],
        may_be_member: bool,
    ) -> Result<Vec<u8>, EngineError> {
        let ReadMessage { message, share } = match self.read_replicated(bytes) {
            Ok(read) => read,
            Err(refused) => return Ok(refused.to_bytes()),
        };
        if message.group().is_some() && !may_be_member {
            let (kind, reason) =
                (RefusalKind::Never, "The sender is no node of the cluster".to_owned());
            return Ok(Reply::Refused(Refusal { kind, reason }).to_bytes());
        }
        let reply = self.receive_message(database, (message, bytes.len()), &LinkFilter::default());
        drop(share);
        Ok(reply?.to_bytes())
    }

    /// Reads a message, or refuses it.
    pub(super) fn read_replicated(&self, bytes: &[u8]) -> Result<ReadMessage, Reply> {
        let mut share = self.memory().work.share(ALLOWED_BYTES);
        // As much again for what is read from it, and for what that is compressed.
        if share.try_grow_to(replication::memory_of(bytes)).is_err() {
            return Err(not_now("There is not enough memory for the message now".to_owned()));
        }
        match Message::read(bytes) {
            Ok(message) => Ok(ReadMessage { message, share }),
            Err(error) => {
                let (kind, reason) = (RefusalKind::Damaged, error.to_string());
                Err(Reply::Refused(Refusal { kind, reason }))
            }
        }
    }

    /// Takes a message of so many bytes; nothing of it is stored if the filter lets a part of it not through.
    pub(super) fn receive_message(
        &self,
        database: &DatabaseLease,
        (message, message_bytes): (Message, usize),
        filter: &LinkFilter,
    ) -> Result<Reply, EngineError> {
        if let Message::Batch(batch) = &message
            && !filter.admits(batch)
        {
            let reason = "A change is not let through by the filter of this link, or is a deletion that is not taken; or \
                          the sender says what it contains, although not all of it arrives";
            let (kind, reason) = (RefusalKind::Never, reason.to_owned());
            return Ok(Reply::Refused(Refusal { kind, reason }));
        }
        let clock = self.clock();
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let record = database.record();
        let topology = record.topology_id;
        let group = Group { id: topology, record: record.etag };
        let greets = match &message {
            Message::Greeting(greeting) => Some(greeting.stream),
            Message::Batch(_) | Message::Content(_) | Message::Pull(_) | Message::Asking(_) => None,
        };
        if let Message::Greeting(greeting) = &message {
            let link = IncomingLink {
                source: greeting.source.database_id,
                stream: greeting.stream,
                node_tag: greeting.source.node_tag,
                database: greeting.database.clone(),
                url: greeting.url.clone(),
                kind: greeting.kind,
                last_ticks: began_ticks,
                statistics: LinkStatistics::default(),
            };
            let left = self.replication.staging.take_of(database, link.stream);
            self.discard_staged(database, &left);
            self.replication.incoming.greeted(topology, link);
        }
        let staging = &self.replication.staging;
        let sender = match &message {
            Message::Batch(batch) => Some(batch.source.database_id),
            Message::Greeting(_) | Message::Content(_) | Message::Pull(_) | Message::Asking(_) => {
                None
            }
        };
        let is_staged = |hash: &ContentHash| {
            sender.is_some_and(|sender| staging.is_complete(database, sender, hash))
        };
        let answered = answer(&database.read(), group, message, is_staged)?;
        let batch = match answered {
            Answered::Reply(reply) => {
                if let Some(stream) = greets {
                    let has_lost =
                        matches!(&reply, Reply::Refused(Refusal { kind: RefusalKind::Lost, .. }));
                    self.replication.incoming.note_lost(topology, stream, has_lost);
                }
                return Ok(reply);
            }
            Answered::Stage(piece) => return self.stage_replicated(database, piece),
            Answered::Store(mut batch, contents) => {
                let sender = batch.source.database_id;
                batch.contents = staging.take(database, sender, &contents);
                batch.refuses_deletions = filter.omits_deletions();
                batch.keeps_conflicts = conflict_solver(&database.record()).keeps_conflicts();
                batch
            }
        };
        let contents = batch.contents.clone();
        let (stream, items) = (batch.source.database_id, batch.items.len() as u64);
        let stored = self.execute(database, Batch::one(Command::Receive(batch)));
        let reply = match &stored {
            Ok(outcome) => match outcome.results.first() {
                Some(CommandResult::Received(received)) => Some(accepted(received)),
                _ => None,
            },
            Err(_) => None,
        };
        let took = clock.monotonic().saturating_sub(began);
        let run = LinkRun {
            began_ticks,
            network_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            items,
            bytes: message_bytes as u64,
            last_etag: reply.as_ref().and_then(replication::accepted_by).unwrap_or(Etag::ZERO),
            error: stored.as_ref().err().map(ToString::to_string),
            ..LinkRun::default()
        };
        self.replication.incoming.note_run(topology, stream, clock.now().ticks(), run);
        if stored.is_err() {
            // They are sent again.
            self.discard_staged(database, &contents);
        }
        stored?;
        self.resolve_received(database);
        Ok(reply.unwrap_or_else(|| not_now("The batch has no outcome".to_owned())))
    }
}
