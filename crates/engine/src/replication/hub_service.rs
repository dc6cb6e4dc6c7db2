//! What a hub does for its sinks: each asks for the next message, or sends one.
//!
//! Invariant: what a sink may send and ask for is decided anew for each message, by what the record of the database says
//! then.

use std::{sync::Arc, time::Duration};

use database::DatabaseLease;
use documents::{DocumentError, TombstoneKind};
use model::{DatabaseId, DatabaseRecord, Etag};
use replication::{
    Asking, LinkFilter, LinkKind, Message, Outgoing, Pull, ReadError, Refusal, RefusalKind, Reply,
    Sender, Terms,
};
use security::Certificate;
use storage::Transaction;
use wire::{ErrorKind, ProtocolError, RecordBody};

use super::{
    destinations::Direction,
    hub_sessions::{ConnectedSink, SessionKey},
    hubs::{HubTask, RegisteredAccess, accesses_of, hub_named},
    receiving::ReadMessage,
    sending::{ALLOWED_BYTES, BATCH_BYTES_MAX, limits_of},
    statistics::{LinkRun, LinkStatistics},
};
use crate::{engine::Engine, error::EngineError};

/// A message of a sink, besides its bytes.
#[derive(Clone, Debug)]
pub struct SinkCall {
    /// The name of the hub.
    pub hub: String,
    /// The name of the access that the sink believes to have.
    pub access: Option<String>,
    /// The id of its database.
    pub sink: DatabaseId,
    /// What the link is for that the message belongs to.
    pub direction: Direction,
    /// What it has proven to be; `None` if the server identifies nobody.
    pub certificate: Option<Arc<Certificate>>,
}

/// What a hub has for a sink.
#[derive(Debug)]
pub enum HubAnswer {
    /// The answer.
    Ready(Vec<u8>),
    /// Nothing until the log has grown, or this time has passed. The same message may be asked again.
    Later(Option<Duration>),
}

/// A hub as one sink sees it.
struct Served {
    task: HubTask,
    access: Option<RegisteredAccess>,
    terms: Terms,
    key: SessionKey,
}

impl Engine {
    /// Takes a message of a sink. Blocks until what it brings is durable.
    ///
    /// # Errors
    /// There is no such hub, or the sink may not connect to it; the database cannot be read or written.
    pub fn serve_sink(
        &self,
        database: &DatabaseLease,
        call: &SinkCall,
        bytes: &[u8],
    ) -> Result<HubAnswer, EngineError> {
        let served = self.served_hub(&database.record(), call)?;
        let ReadMessage { message, share } = match self.read_replicated(bytes) {
            Ok(read) => read,
            Err(refused) => return Ok(HubAnswer::Ready(refused.to_bytes())),
        };
        let now = self.clock().now().ticks();
        if let Message::Asking(asking) = message {
            return Ok(HubAnswer::Ready(self.agree(served, asking, now).to_bytes()));
        }
        if !self.replication.hubs.has_agreed(&served.key, &served.terms, now) {
            let reason = "The sink has to ask what the hub allows".to_owned();
            return Ok(HubAnswer::Ready(refused(RefusalKind::NotNow, reason).to_bytes()));
        }
        if message.group().is_some() {
            let reason = "A sink is no member of the hub's group".to_owned();
            return Ok(HubAnswer::Ready(refused(RefusalKind::Never, reason).to_bytes()));
        }
        match message {
            Message::Pull(pull) => self.pulled(database, &served, &pull),
            message => {
                let filter = LinkFilter::new(
                    [served.terms.paths_to_hub.clone()],
                    served.terms.refuses_deletions,
                );
                let reply = match served.terms.takes {
                    true => self.receive_message(database, (message, bytes.len()), &filter)?,
                    false => {
                        let reason = format!(
                            "The hub '{}' does not replicate SinkToHub",
                            served.task.definition.name
                        );
                        refused(RefusalKind::Never, reason)
                    }
                };
                drop(share);
                Ok(HubAnswer::Ready(reply.to_bytes()))
            }
        }
    }

    /// The sinks that have connected to the hubs of a database since the server was started.
    pub fn connected_sinks(&self, record: &DatabaseRecord) -> Vec<ConnectedSink> {
        self.replication.hubs.of_database(record.topology_id, self.clock().now().ticks())
    }

    fn agree(&self, served: Served, asking: Asking, now: i64) -> Reply {
        let Served { task, access, terms, key } = served;
        let sink = ConnectedSink {
            hub: task.definition.id,
            database: asking.database,
            url: asking.url,
            access: access.map(|access| access.access.name),
            is_connected: true,
            has_missed_deletions: false,
            statistics: LinkStatistics::default(),
        };
        self.replication.hubs.agreed(key, sink, terms.clone(), now);
        Reply::Terms(terms)
    }

    /// The hub that a sink names, and what it may do there.
    fn served_hub(&self, record: &DatabaseRecord, call: &SinkCall) -> Result<Served, EngineError> {
        let body = RecordBody::of_record(record);
        let task = hub_named(&body, &call.hub).ok_or_else(|| {
            refusal(
                ErrorKind::ReplicationHubNotFound,
                format!(
                    "There is no replication hub with the name '{}' in the database '{}'.",
                    call.hub,
                    record.name.as_str()
                ),
            )
        })?;
        let access = match &call.certificate {
            None if self.settings().security.certificate.is_some() => {
                return Err(denied(format!("The hub '{}' asks for a certificate.", call.hub)));
            }
            // Such as in a record that was restored here: filters belong to certificates.
            None if task.definition.is_filtered => {
                let message = format!(
                    "The hub '{}' has filters, which need a server with a certificate.",
                    call.hub
                );
                return Err(refusal(ErrorKind::InvalidOperation, message));
            }
            None => None,
            Some(certificate) => Some(self.access_of(&body, call, certificate)?),
        };
        if task.definition.is_disabled {
            let message = format!("The hub '{}' is disabled.", call.hub);
            return Err(refusal(ErrorKind::InvalidOperation, message));
        }
        let terms = self.terms_of(record, &task, access.as_ref());
        let key = SessionKey {
            database: record.topology_id,
            hub: task.definition.id,
            sink: call.sink,
            direction: call.direction,
            certificate: access.as_ref().map(|access| access.thumbprint.clone()),
        };
        Ok(Served { task, access, terms, key })
    }

    fn access_of(
        &self,
        body: &RecordBody,
        call: &SinkCall,
        certificate: &Certificate,
    ) -> Result<RegisteredAccess, EngineError> {
        let name = certificate.in_words();
        let mut accesses = accesses_of(body, &call.hub).into_iter();
        // Two certificates with one SHA-1 can be made; only the registered one is a sink.
        let is_its = |access: &RegisteredAccess| {
            access.thumbprint == certificate.thumbprint()
                && model::base64_bytes(&access.access.certificate).as_deref()
                    == Some(certificate.der())
        };
        let found = accesses.find(is_its);
        let access = found.ok_or_else(|| {
            denied(format!(
                "The certificate '{name}' is not registered with the hub '{}'.",
                call.hub
            ))
        })?;
        if let Some(wanted) = &call.access
            && !wanted.eq_ignore_ascii_case(&access.access.name)
        {
            return Err(denied(format!(
                "The certificate '{name}' is registered with the hub '{}' under another name than '{wanted}'.",
                call.hub
            )));
        }
        let now = self.clock().now().ticks();
        if now < certificate.not_before() || certificate.not_after() < now {
            return Err(denied(format!(
                "The certificate '{name}' has expired, or is not valid yet."
            )));
        }
        Ok(access)
    }

    fn terms_of(
        &self,
        record: &DatabaseRecord,
        task: &HubTask,
        access: Option<&RegisteredAccess>,
    ) -> Terms {
        let definition = &task.definition;
        let access = access.filter(|_| definition.is_filtered).map(|access| &access.access);
        // What was said of one direction only is meant for both.
        let (to_sink, to_hub) = match access {
            Some(access) => (
                access.paths_to_sink.as_ref().or(access.paths_to_hub.as_ref()),
                access.paths_to_hub.as_ref().or(access.paths_to_sink.as_ref()),
            ),
            None => (None, None),
        };
        Terms {
            sends: definition.mode.hub_to_sink,
            takes: definition.mode.sink_to_hub,
            nodes: self.urls_of(record, task),
            paths_to_sink: to_sink.cloned(),
            paths_to_hub: to_hub.cloned(),
            refuses_deletions: definition.refuses_deletions,
        }
    }

    /// The addresses of the nodes that have the database, that of the responsible one first; none without a cluster.
    fn urls_of(&self, record: &DatabaseRecord, task: &HubTask) -> Vec<String> {
        let Ok(cluster) = self.cluster_topology() else { return Vec::new() };
        if cluster.nodes.len() < 2 {
            return Vec::new();
        }
        let responsible = task.node(&record.topology);
        let members = record.topology.members.iter().copied();
        let others = members.filter(|node| Some(*node) != responsible);
        let nodes = responsible.into_iter().chain(others);
        nodes.filter_map(|node| cluster.url_of(node).map(str::to_owned)).collect()
    }

    /// The next message for a sink.
    fn pulled(
        &self,
        database: &DatabaseLease,
        served: &Served,
        pull: &Pull,
    ) -> Result<HubAnswer, EngineError> {
        let definition = &served.task.definition;
        if !served.terms.sends {
            let reason = format!("The hub '{}' does not replicate HubToSink", definition.name);
            return Ok(HubAnswer::Ready(refused(RefusalKind::Never, reason).to_bytes()));
        }
        let record = database.record();
        let filter =
            LinkFilter::new([served.terms.paths_to_sink.clone(), pull.paths.clone()], false);
        let (name, url) = (record.name.as_str().to_owned(), self.replication.own_url().to_owned());
        let clock = self.clock();
        let (began, began_ticks) = (clock.monotonic(), clock.now().ticks());
        let tx = database.read();
        let source = documents::database_identity(&tx)?.database_id;
        let last = documents::progress(&tx)?.last_etag;
        let (up_to, look_again) = self.replication.hubs.pace(
            (record.topology_id, definition.id),
            definition.delay,
            (began, last),
        );
        let work = &self.memory().work;
        let mut share = work.share(ALLOWED_BYTES);
        let limits = limits_of(work, BATCH_BYTES_MAX, up_to);
        let group = record.topology_id;
        let mut sender = Sender::new(LinkKind::HubToSink, group, name, url)
            .filtered(filter)
            .resumed(source, pull);
        let history = database.environment();
        let point = history.point_of(&tx)?;
        if let Some(known) = sender.take_point()
            && history.vouches_for(&known)?.is_err()
        {
            sender.note_lost();
        }
        if sender.accepted().is_some_and(|accepted| accepted != Etag::ZERO)
            && pull.accepted < last_removed(&tx)?
        {
            self.note_missed(&record, served);
        }
        let outgoing = match sender.next_message(&tx, point, limits, &mut share) {
            Ok(None) => {
                self.note_pull(served, sender.accepted(), None);
                return Ok(HubAnswer::Later(look_again));
            }
            Ok(Some(outgoing)) => outgoing,
            Err(ReadError::Documents(error)) => return Err(error.into()),
            Err(error) => {
                let reply = refused(RefusalKind::NotNow, error.to_string());
                return Ok(HubAnswer::Ready(reply.to_bytes()));
            }
        };
        let read_ms = clock.monotonic().saturating_sub(began).as_millis();
        let run = run_of(&outgoing, began_ticks, u64::try_from(read_ms).unwrap_or(u64::MAX));
        self.note_pull(served, sender.accepted(), Some(run));
        Ok(HubAnswer::Ready(outgoing.bytes))
    }

    fn note_pull(&self, served: &Served, accepted: Option<Etag>, run: Option<LinkRun>) {
        let now = self.clock().now().ticks();
        self.replication.hubs.note(&served.key, |sink| {
            sink.statistics.accepted = accepted;
            sink.statistics.note_success(now);
            if let Some(run) = run {
                sink.statistics.note_run(run);
            }
        });
    }

    /// The sink was away for longer than deletions are kept.
    fn note_missed(&self, record: &DatabaseRecord, served: &Served) {
        self.replication.hubs.note(&served.key, |sink| {
            if !sink.has_missed_deletions {
                tracing::warn!(
                    database = record.name.as_str(),
                    sink = sink.url.as_str(),
                    "a sink was away for so long that it does not learn of some deletions"
                );
            }
            sink.has_missed_deletions = true;
        });
    }
}

/// The etag of the last deletion that is no longer there.
fn last_removed(tx: &impl Transaction) -> Result<Etag, DocumentError> {
    TombstoneKind::ALL.iter().try_fold(Etag::ZERO, |last, kind| {
        Ok(last.max(documents::last_removed_tombstone(tx, *kind, None)?))
    })
}

fn run_of(outgoing: &Outgoing, began_ticks: i64, read_ms: u64) -> LinkRun {
    LinkRun {
        began_ticks,
        read_ms,
        items: outgoing.items,
        skipped: outgoing.skipped,
        bytes: outgoing.bytes.len() as u64,
        last_etag: outgoing.last_etag,
        ..LinkRun::default()
    }
}

fn refused(kind: RefusalKind, reason: String) -> Reply {
    Reply::Refused(Refusal { kind, reason })
}

fn refusal(kind: ErrorKind, message: String) -> EngineError {
    EngineError::Section(ProtocolError::new(kind, message))
}

fn denied(message: String) -> EngineError {
    refusal(ErrorKind::InvalidAuth, message)
}
