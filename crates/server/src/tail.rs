//! The document log as it grows, as server-sent events: for shells, dashboards and whatever has no
//! client library.
//!
//! Every document and tombstone is told once for its last change, in the order of their etags; a reader
//! that comes back with the id of the last event that it saw goes on behind it. Invariants: no snapshot
//! is held while a client is waited for, and no more than a piece of text; a tail keeps no database
//! from being closed.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use database::{Database, DatabaseLease, LogFollowers};
use documents::{DocumentError, LogEntry, write_document_json};
use model::{CollectionName, Etag, date};
use storage::Transaction;
use tokio::{
    sync::{Notify, mpsc::Sender},
    time::timeout,
};

use crate::{
    answer::Piece, json_text::JsonObject, piece_sender::PIECE_BYTES, server_state::ServerState,
};

/// How long a reader hears nothing at most.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How long a reader may take to make room.
const SEND_TIME_MAX: Duration = Duration::from_secs(60);
/// Entries of the log that are looked at before others have their turn.
const LOOKED_AT_MAX: usize = 4096;
/// How soon a reader that lost its connection should come back, in milliseconds.
const RETRY: &str = "retry: 1000\n";

/// Which entries of the log a reader wants, and how.
pub(crate) struct TailFilter {
    /// Those of these collections; of all when there are none.
    pub(crate) collections: Vec<CollectionName>,
    /// Those whose lower-cased ids begin so.
    pub(crate) prefix: String,
    /// Whether it wants the documents themselves.
    pub(crate) with_documents: bool,
}

/// One reader.
pub(crate) struct Tail {
    pub(crate) state: Arc<ServerState>,
    pub(crate) name: String,
    /// By which it knows its database again.
    pub(crate) followers: Arc<LogFollowers>,
    pub(crate) filter: TailFilter,
    /// Up to where the reader knows everything.
    pub(crate) after: Etag,
    /// Whether it goes on when everything that is there has been told.
    pub(crate) goes_on: bool,
}

/// What one look at the log brought.
struct Look {
    events: Vec<u8>,
    /// Up to where there is nothing else.
    up_to: Etag,
    has_more: bool,
}

impl Tail {
    /// Tells until the reader goes, the database is closed, or the server stops.
    pub(crate) async fn run(mut self, pieces: Sender<Piece>) {
        let state = Arc::clone(&self.state);
        let ends_well = tokio::select! {
            ends_well = self.tell(&pieces) => ends_well,
            () = state.stopped() => true,
        };
        if ends_well {
            // A reader that has gone needs no end.
            drop(timeout(SEND_TIME_MAX, pieces.send(Piece::Last(Bytes::new()))).await);
        }
    }

    /// Whether the answer is complete as it is.
    async fn tell(&mut self, pieces: &Sender<Piece>) -> bool {
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        let _follower = self.followers.follow(Box::new(move || wake.notify_one()));
        let Some(database) = self.database() else { return true };
        let first = format!("{RETRY}{}\n", id_line(&database, self.after));
        drop(database);
        if !send(pieces, first.into_bytes()).await {
            return false;
        }
        loop {
            let Some(database) = self.database() else { return true };
            let look = match look(&database, self.after, &self.filter) {
                Ok(look) => look,
                Err(error) => {
                    tracing::error!(database = self.name, %error, "the document log cannot be read");
                    return false;
                }
            };
            let position = id_line(&database, look.up_to);
            drop(database);
            self.after = look.up_to;
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
            // A reader that comes back need not look again at what is not for it.
            if timeout(SILENCE_MAX, woken.notified()).await.is_err()
                && !send(pieces, format!(":\n{position}\n").into_bytes()).await
            {
                return false;
            }
        }
    }

    /// The database, for as long as it is the one that the reader began with.
    fn database(&self) -> Option<DatabaseLease> {
        let open = self.state.registry.if_open(&self.name);
        open.filter(|database| Arc::ptr_eq(database.followers(), &self.followers))
    }
}

async fn send(pieces: &Sender<Piece>, text: Vec<u8>) -> bool {
    let piece = Piece::Part(Bytes::from(text));
    matches!(timeout(SEND_TIME_MAX, pieces.send(piece)).await, Ok(Ok(())))
}

/// The line that names a position. The database is a part of it: in another one, the number would mean
/// something else.
fn id_line(database: &Database, etag: Etag) -> String {
    format!("id: {}-{}\n", etag.0, database.identity().database_id)
}

/// Looks at some of the log.
fn look(database: &Database, after: Etag, filter: &TailFilter) -> Result<Look, DocumentError> {
    let tx = database.read();
    match filter.collections.as_slice() {
        [one] => {
            tell_entries(database, &tx, documents::log_of_collection(&tx, one, after)?, filter)
        }
        _ => tell_entries(database, &tx, documents::log(&tx, after)?, filter),
    }
}

fn tell_entries<'t>(
    database: &Database,
    tx: &'t impl Transaction,
    entries: impl Iterator<Item = Result<LogEntry<'t>, DocumentError>>,
    filter: &TailFilter,
) -> Result<Look, DocumentError> {
    let up_to = documents::progress(tx)?.last_etag;
    let mut look = Look { events: Vec::new(), up_to, has_more: false };
    let mut names = CollectionNames::default();
    for (looked_at, entry) in entries.enumerate() {
        let entry = entry?;
        if filter.takes(&entry, tx, &mut names)? {
            write_event(database, &entry, tx, &mut names, filter, &mut look.events)?;
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
    fn takes(
        &self,
        entry: &LogEntry<'_>,
        tx: &impl Transaction,
        names: &mut CollectionNames,
    ) -> Result<bool, DocumentError> {
        let (lower_id, number) = match entry {
            LogEntry::Document(document) => (document.lower_id(), document.collection_number()),
            LogEntry::Tombstone(tombstone) => (tombstone.lower_id(), tombstone.collection_number()),
        };
        if !lower_id.starts_with(&self.prefix) {
            return Ok(false);
        }
        Ok(self.collections.is_empty() || self.collections.contains(names.name_of(number, tx)?))
    }
}

fn write_event(
    database: &Database,
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
        LogEntry::Tombstone(row) => (
            "delete",
            "Delete",
            row.id(),
            row.change_vector(),
            row.collection_number(),
            row.last_modified_ticks(),
        ),
    };
    out.extend_from_slice(id_line(database, entry.etag()).as_bytes());
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
