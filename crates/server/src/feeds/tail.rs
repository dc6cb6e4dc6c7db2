//! The document log as it grows, as server-sent events: for shells, dashboards and programs without
//! a client library.
//!
//! Every document and tombstone is reported once for its last change, in the order of etags; a
//! reader that reconnects with the id of its last event continues after it. Invariants: no snapshot
//! is held while waiting for a client, and no more than one piece of text; a tail does not keep its
//! database from being closed.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use database::{Database, DatabaseLease, LogFollowers};
use documents::{
    DocumentError, TombstoneKind,
    log::{self, EntryKinds, LogEntry, Selection},
    write_document_json,
};
use model::{CollectionName, Etag, date};
use storage::Transaction;
use tokio::{
    sync::{Notify, mpsc::Sender},
    time::timeout,
};

use crate::{
    answers::{answer::Piece, json_text::JsonObject, piece_sender::PIECE_BYTES},
    server_state::ServerState,
};

/// Maximum silence towards a reader.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a reader may take to read a piece.
const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// How many entries of the log are scanned before yielding to others.
const LOOKED_AT_MAX: usize = 4096;
/// How soon a reader that lost its connection should reconnect, in milliseconds.
const RETRY: &str = "retry: 1000\n";

/// Which entries of the log a reader wants, and in which form.
pub(crate) struct TailFilter {
    /// Those of these collections; of all if empty.
    pub(crate) collections: Vec<CollectionName>,
    /// Those whose lower-cased ids start with this.
    pub(crate) prefix: String,
    /// Whether it wants the documents themselves.
    pub(crate) with_documents: bool,
}

/// One client of the live tail, with its filter and position.
pub(crate) struct Tail {
    pub(crate) state: Arc<ServerState>,
    pub(crate) name: String,
    /// By which it finds its database again.
    pub(crate) followers: Arc<LogFollowers>,
    pub(crate) filter: TailFilter,
    pub(crate) position: TailPosition,
    /// Whether it continues when everything existing has been sent.
    pub(crate) goes_on: bool,
}

/// The position of a reader in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TailPosition {
    /// It has everything up to here, …
    pub(crate) after: Etag,
    /// … and began to read at this state of the database: it needs no older tombstones.
    pub(crate) began: Etag,
}

impl TailPosition {
    /// Up to where the reader has all deletions.
    pub(crate) fn known(self) -> Etag {
        self.after.max(self.began)
    }

    /// The line with the position. The database is a part of it: in another one, the number would
    /// mean something else. So is the beginning, while it matters.
    fn id_line(self, database: &Database) -> String {
        let (after, id) = (self.after.0, database.identity().database_id);
        match self.began {
            began if self.after < began => format!("id: {after}-{id}-{}\n", began.0),
            _ => format!("id: {after}-{id}\n"),
        }
    }
}

/// The result of one scan of the log.
struct Look {
    events: Vec<u8>,
    /// Up to where there is nothing else.
    up_to: Etag,
    has_more: bool,
    /// Whether deletions were forgotten before they were sent to the reader.
    has_gap: bool,
}

impl Tail {
    /// Sends until the reader disconnects, the database is closed, or the server stops.
    pub(crate) async fn run(mut self, pieces: Sender<Piece>) {
        let state = Arc::clone(&self.state);
        let ends_well = tokio::select! {
            ends_well = self.follow(&pieces) => ends_well,
            () = state.stopped() => true,
        };
        if ends_well {
            // A reader that has disconnected needs no end.
            drop(timeout(SEND_TIME_MAX, pieces.send(Piece::Last(Bytes::new()))).await);
        }
    }

    /// Whether the response is complete.
    async fn follow(&mut self, pieces: &Sender<Piece>) -> bool {
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        let wake = Box::new(move || wake.notify_one());
        let collections = self.filter.collections.clone();
        let follower = self.followers.follow(wake, collections, self.position.known());
        let Some(database) = self.database() else { return true };
        let first = format!("{RETRY}{}\n", self.position.id_line(&database));
        drop(database);
        if !send(pieces, first.into_bytes()).await {
            return false;
        }
        loop {
            let Some(database) = self.database() else { return true };
            let look = match look(&database, self.position, &self.filter) {
                Ok(look) => look,
                Err(error) => {
                    tracing::error!(database = self.name, %error, "the document log cannot be read");
                    return false;
                }
            };
            // When it reconnects, it is rejected with the reason.
            if look.has_gap {
                return true;
            }
            self.position.after = look.up_to;
            let position = self.position.id_line(&database);
            drop(database);
            follower.note_known(self.position.known());
            if !look.events.is_empty() && !send(pieces, look.events).await {
                return false;
            }
            if look.has_more {
                tokio::task::yield_now().await;
                continue;
            }
            if !self.goes_on {
                return true;
            }
            // A reader that reconnects need not scan again what was not for it.
            if timeout(SILENCE_MAX, woken.notified()).await.is_err()
                && !send(pieces, format!(":\n{position}\n").into_bytes()).await
            {
                return false;
            }
        }
    }

    /// The database, for as long as it is the one that the reader began with.
    fn database(&self) -> Option<DatabaseLease> {
        let open = self.state.engine.if_open(&self.name);
        open.filter(|database| Arc::ptr_eq(database.followers(), &self.followers))
    }
}

async fn send(pieces: &Sender<Piece>, text: Vec<u8>) -> bool {
    let piece = Piece::Part(Bytes::from(text));
    matches!(timeout(SEND_TIME_MAX, pieces.send(piece)).await, Ok(Ok(())))
}

/// Scans a part of the log.
fn look(
    database: &Database,
    position: TailPosition,
    filter: &TailFilter,
) -> Result<Look, DocumentError> {
    let tx = database.read();
    if position.known() < filter.last_removed(&tx)? {
        let (events, up_to) = (Vec::new(), position.after);
        return Ok(Look { events, up_to, has_more: false, has_gap: true });
    }
    let wanted = Selection::of_collections(EntryKinds::DOCUMENTS, &filter.collections);
    let entries = log::read(&tx, &[wanted], position.after)?;
    let up_to = documents::progress(&tx)?.last_etag;
    let mut look = Look { events: Vec::new(), up_to, has_more: false, has_gap: false };
    let mut names = CollectionNames::default();
    for (looked_at, entry) in entries.enumerate() {
        let entry = entry?;
        if entry.lower_document_id().is_some_and(|id| id.starts_with(&filter.prefix)) {
            let at = TailPosition { after: entry.etag(), ..position };
            look.events.extend_from_slice(at.id_line(database).as_bytes());
            write_event(&entry, &tx, &mut names, filter, &mut look.events)?;
        }
        if PIECE_BYTES <= look.events.len() || LOOKED_AT_MAX <= looked_at {
            (look.up_to, look.has_more) = (entry.etag(), true);
            break;
        }
    }
    Ok(look)
}

/// The names of the collections of tombstones, which only have their numbers.
#[derive(Default)]
struct CollectionNames(HashMap<u32, CollectionName>);

impl CollectionNames {
    fn name_of(
        &mut self,
        number: u32,
        tx: &impl Transaction,
    ) -> Result<&CollectionName, DocumentError> {
        Ok(match self.0.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(documents::collection_numbered(tx, number)?.name)
            }
        })
    }
}

impl TailFilter {
    /// The etag of the last relevant tombstone that was removed.
    pub(crate) fn last_removed(&self, tx: &impl Transaction) -> Result<Etag, DocumentError> {
        let last = |name| documents::last_removed_tombstone(tx, TombstoneKind::Documents, name);
        match self.collections.as_slice() {
            [] => last(None),
            names => {
                names.iter().try_fold(Etag::ZERO, |etag, name| Ok(etag.max(last(Some(name))?)))
            }
        }
    }
}

fn write_event(
    entry: &LogEntry<'_>,
    tx: &impl Transaction,
    names: &mut CollectionNames,
    filter: &TailFilter,
    out: &mut Vec<u8>,
) -> Result<(), DocumentError> {
    let (event, kind, id, change_vector, number, ticks) = match entry {
        LogEntry::Document(row) => (
            "put",
            "Put",
            row.id(),
            row.change_vector(),
            row.collection_number(),
            row.last_modified_ticks(),
        ),
        LogEntry::DocumentTombstone(row) => (
            "delete",
            "Delete",
            row.id(),
            row.change_vector(),
            row.collection_number(),
            row.last_modified_ticks(),
        ),
        // Nothing else was selected.
        _ => return Ok(()),
    };
    out.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
    let mut data = JsonObject::begin(out);
    data.text("Type", kind);
    data.text("Id", id);
    data.text("CollectionName", names.name_of(number, tx)?.as_str());
    data.text("ChangeVector", change_vector);
    data.number("Etag", entry.etag().0);
    data.text("LastModified", &date::format(ticks));
    if let LogEntry::Document(row) = entry
        && filter.with_documents
    {
        // Documents are printed without line breaks, which would end the event.
        write_document_json(row, data.name("Document"))?;
    }
    data.end();
    out.extend_from_slice(b"\n\n");
    Ok(())
}
