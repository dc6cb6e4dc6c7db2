//! Reads a piece of a batch from a snapshot of the documents, as messages of the protocol.
//!
//! A piece is read from one snapshot under the lock of its subscription, so that every change goes
//! to exactly one worker; batches of many pieces see several snapshots. A batch ends at its size,
//! at the end of the log, or before a document that it already contains, so that it contains each
//! document once.

use std::rc::Rc;

use cluster_state::DatabaseValues;
use documents::{
    DocumentError, DocumentRow, RevisionRow,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
};
use model::{ChangeVector, DocumentFlags, DocumentId, Etag};
use query::{
    BoundScripts, CountersOfDocument, Includes, LogQuery, LogSources, QueryError, SourceDocuments,
    Tried,
};
use script::ScriptPool;
use storage::{CountedOutput, HistoryPoint, MemoryExhausted, Transaction};
use wire::ErrorKind;

use crate::{
    activity::IncludesFacts,
    progress::{Offer, document_hash},
    subscription::Work,
    worker::{Piece, Standing, Worker},
};

/// A batch ends at this size, whatever its worker accepts.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
/// The approximate size of a piece.
const PIECE_BYTES: usize = 256 << 10;
/// The number of changes that are read for one piece.
const PIECE_CHANGES_MAX: usize = 4096;
/// The same, if a script is run on each.
const PIECE_SCRIPTS_MAX: usize = 512;

/// Why a batch could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The documents could not be read.
    Documents(DocumentError),
    /// The query cannot be executed.
    Query(QueryError),
}

impl From<DocumentError> for ReadError {
    fn from(error: DocumentError) -> ReadError {
        ReadError::Documents(error)
    }
}

impl ReadError {
    /// As [`QueryError::is_out_of_memory`].
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, ReadError::Query(error) if error.is_out_of_memory())
    }

    /// As [`QueryError::may_find_memory_later`].
    pub fn may_find_memory_later(&self) -> bool {
        matches!(self, ReadError::Query(error) if error.may_find_memory_later())
    }
}

impl From<MemoryExhausted> for ReadError {
    fn from(error: MemoryExhausted) -> ReadError {
        ReadError::Query(error.into())
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::Documents(error) => error.fmt(formatter),
            ReadError::Query(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Documents(error) => Some(error),
            ReadError::Query(error) => Some(error),
        }
    }
}

/// The log's change at an etag.
pub(crate) enum Change<'t> {
    Document(DocumentRow<'t>),
    Revision(RevisionRow<'t>),
    /// A change that no subscription sends, such as the tombstone of a document: it only advances
    /// the position.
    Other(Etag),
}

impl<'t> Change<'t> {
    fn of(entry: LogEntry<'t>) -> Self {
        match entry {
            LogEntry::Document(row) => Change::Document(row),
            LogEntry::Revision(row) => Change::Revision(row),
            // Of these, queries select the tombstones of documents.
            other @ (LogEntry::DocumentTombstone(_)
            | LogEntry::Attachment(_)
            | LogEntry::AttachmentTombstone(_)
            | LogEntry::Counter(_)
            | LogEntry::CounterTombstone(_)
            | LogEntry::Segment(_)
            | LogEntry::DeletedRange(_)
            | LogEntry::Conflict(_)) => Change::Other(other.etag()),
        }
    }

    fn etag(&self) -> Etag {
        match self {
            Change::Document(row) => row.etag(),
            Change::Revision(row) => row.etag(),
            Change::Other(etag) => *etag,
        }
    }

    pub(crate) fn id(&self) -> &'t str {
        match self {
            Change::Document(row) => row.id(),
            Change::Revision(row) => row.id(),
            Change::Other(_) => "",
        }
    }

    pub(crate) fn change_vector(&self) -> &'t str {
        match self {
            Change::Document(row) => row.change_vector(),
            Change::Revision(row) => row.change_vector(),
            Change::Other(_) => "",
        }
    }

    /// Whether it is passed wherever everything was passed that its change vector names. Some revisions are made later than
    /// their versions; and what has won a conflict may have a change vector that is nothing but those of both versions.
    fn is_named_by_its_version(&self) -> bool {
        match self {
            Change::Revision(row) => !documents::is_made_later(row.flags()),
            Change::Document(row) => !row.flags().contains(DocumentFlags::RESOLVED),
            Change::Other(_) => true,
        }
    }

    fn document(&self) -> Option<u64> {
        match self {
            Change::Document(row) => Some(document_hash(row.lower_id())),
            Change::Revision(row) => Some(document_hash(row.lower_id())),
            Change::Other(_) => None,
        }
    }

    /// Runs a query on it.
    pub(crate) fn try_query(
        &self,
        sources: LogSources<'_, impl Transaction>,
        query: &LogQuery,
        scripts: Option<&BoundScripts<'_>>,
        included: &mut Includes,
        out: &mut Vec<u8>,
    ) -> Result<Tried, QueryError> {
        match self {
            Change::Document(row) => query.try_document(sources, row, scripts, included, out),
            Change::Revision(row) => {
                let previous = documents::previous_revision(sources.documents, row)?;
                query.try_revision(sources, row, previous.as_ref(), scripts, included, out)
            }
            Change::Other(_) => Ok(Tried::LeftOut),
        }
    }

    fn write_metadata(&self, out: &mut Vec<u8>) -> Result<(), DocumentError> {
        match self {
            Change::Document(row) => documents::write_metadata_json(row, out),
            Change::Revision(row) => documents::write_revision_metadata_json(row, out),
            Change::Other(_) => Ok(()),
        }
    }
}

/// The part of the log that a query reads.
fn selection_of(query: &LogQuery) -> Selection<'_> {
    let kinds = match query.is_of_revisions() {
        true => EntryKind::Revision.into(),
        false => EntryKinds::DOCUMENTS,
    };
    match query.source() {
        SourceDocuments::All => Selection::all(kinds),
        SourceDocuments::Collection(name) => Selection::of_collection(kinds, name),
    }
}

/// The changes that a query reads after an etag.
pub(crate) fn changes<'t, T: Transaction>(
    tx: &'t T,
    query: &LogQuery,
    after: Etag,
) -> Result<impl Iterator<Item = Result<Change<'t>, DocumentError>> + use<'t, T>, DocumentError> {
    let log = log::read(tx, &[selection_of(query)], after)?;
    Ok(log.map(|entry| entry.map(Change::of)))
}

/// The change at an etag, if the log still has it.
fn change_at<'t>(
    tx: &'t impl Transaction,
    query: &LogQuery,
    etag: Etag,
) -> Result<Option<Change<'t>>, DocumentError> {
    let before = Etag(etag.0.saturating_sub(1));
    let found = changes(tx, query, before)?.next().transpose()?;
    Ok(found.filter(|change| change.etag() == etag))
}

/// The etag of the last change that a query reads, or of a later one that it does not.
pub(crate) fn last_etag(tx: &impl Transaction, query: &LogQuery) -> Result<Etag, ReadError> {
    Ok(match query.source() {
        SourceDocuments::Collection(_) if !query.is_of_revisions() => {
            log::last_etag(tx, &[selection_of(query)])?
        }
        SourceDocuments::Collection(_) | SourceDocuments::All => documents::progress(tx)?.last_etag,
    })
}

/// See [`Worker::read`].
pub(crate) fn read_piece(
    worker: &mut Worker,
    (tx, at): (&impl Transaction, Option<HistoryPoint>),
    values: Option<&DatabaseValues>,
    pool: &ScriptPool,
    out: &mut CountedOutput,
) -> Result<Piece, ReadError> {
    let subscription = std::sync::Arc::clone(&worker.subscription);
    let query = subscription.query();
    let scripts = query.scripts(pool).map_err(ReadError::Query)?;
    let bound = scripts.as_ref().map(|scripts| query.bind(scripts));
    let bound = bound.transpose().map_err(ReadError::Query)?;
    let mut work = subscription.lock();
    if worker.standing() != Standing::Works {
        return Ok(Piece { documents: 0, is_last: true });
    }
    work.note_read(at);
    let end = documents::progress(tx)?.last_etag;
    note_end(&mut work, tx, end)?;
    let before = worker.batch.documents;
    let start = out.bytes.len();
    let mut reading =
        Reading { worker, work: &mut work, tx, values, query, scripts: bound.as_ref(), out, start };
    let is_last = match reading.worker.batch.again_after {
        Some(_) => reading.read_again()?,
        None => reading.read_on()?,
    };
    let bytes = reading.out.bytes.len() - start;
    worker.batch.bytes += bytes;
    let documents = worker.batch.documents - before;
    worker.activity().documents_read(documents as u64, bytes as u64);
    Ok(Piece { documents, is_last })
}

/// Notes what the database has when the log is read, for other nodes.
fn note_end(work: &mut Work, tx: &impl Transaction, end: Etag) -> Result<(), ReadError> {
    let identity = documents::database_identity(tx)?;
    if work.marks.needs_mark((identity.database_id, identity.node_tag), end) {
        work.marks.mark(end, documents::contained_with_transactions(tx)?);
    }
    Ok(())
}

struct Reading<'r, T> {
    worker: &'r mut Worker,
    work: &'r mut Work,
    tx: &'r T,
    values: Option<&'r DatabaseValues>,
    query: &'r LogQuery,
    scripts: Option<&'r BoundScripts<'r>>,
    out: &'r mut CountedOutput,
    start: usize,
}

impl<T: Transaction> Reading<'_, T> {
    /// Continues in the log; returns whether the batch is complete.
    fn read_on(&mut self) -> Result<bool, ReadError> {
        let mut last = String::new();
        let ended = self.read_log(&mut last);
        if !last.is_empty() {
            self.work.change_vector = merged(&self.work.change_vector, &last);
        }
        ended
    }

    fn read_log(&mut self, last_vector: &mut String) -> Result<bool, ReadError> {
        let number = self.worker.shared.number;
        let is_of_documents = !self.query.is_of_revisions();
        let changes_max = match self.scripts {
            Some(_) => PIECE_SCRIPTS_MAX,
            None => PIECE_CHANGES_MAX,
        };
        let tx = self.tx;
        for (count, change) in changes(tx, self.query, self.work.progress.cursor())?.enumerate() {
            if self.is_batch_full() {
                return Ok(true);
            }
            if count == changes_max || self.out.bytes.len() - self.start >= PIECE_BYTES {
                return Ok(false);
            }
            let change = change?;
            let etag = change.etag();
            let document = change.document();
            let is_passed = change.is_named_by_its_version()
                && self.work.marks.is_passed_elsewhere(change.change_vector());
            let Some(document) = document.filter(|_| !is_passed) else {
                self.work.progress.advance(etag);
                continue;
            };
            match self.work.progress.offer(document, number, is_of_documents) {
                Offer::NextBatch => return Ok(true),
                Offer::Later => {
                    self.forget_replaced(document)?;
                    self.work.progress.postpone(etag, document);
                }
                Offer::Take => match self.try_change(&change, document) {
                    Err(error) if error.is_out_of_memory() && self.has_read() => {
                        return Ok(false);
                    }
                    tried => tried?,
                },
            }
            self.work.progress.advance(etag);
            last_vector.clear();
            last_vector.push_str(change.change_vector());
        }
        self.work.looked_until = last_etag(tx, self.query)?;
        self.work.passed_until = documents::progress(tx)?.last_etag;
        Ok(true)
    }

    /// Whether the piece has anything: it then ends where there is no memory for more.
    fn has_read(&self) -> bool {
        self.start < self.out.bytes.len()
    }

    /// Sends released changes again; returns whether the batch is complete.
    fn read_again(&mut self) -> Result<bool, ReadError> {
        let number = self.worker.shared.number;
        loop {
            if self.is_batch_full() {
                return Ok(true);
            }
            if self.out.bytes.len() - self.start >= PIECE_BYTES {
                return Ok(false);
            }
            let after = self.worker.batch.again_after.unwrap_or_default();
            let Some(etag) = self.work.progress.next_free(after, number) else { return Ok(true) };
            self.worker.batch.again_after = Some(etag);
            let found = change_at(self.tx, self.query, etag)?;
            // A document that was changed meanwhile is further on in the log; a deleted one is
            // gone.
            let Some((change, document)) =
                found.and_then(|change| change.document().map(|document| (change, document)))
            else {
                self.work.progress.remove(etag);
                continue;
            };
            match self.work.progress.offer_again(document, number) {
                Offer::Take => match self.try_change(&change, document) {
                    Err(error) if error.is_out_of_memory() => {
                        self.worker.batch.again_after = Some(after);
                        return if self.has_read() { Ok(false) } else { Err(error) };
                    }
                    tried => tried?,
                },
                Offer::Later | Offer::NextBatch => self.work.progress.postpone(etag, document),
            }
        }
    }

    /// Removes the pending change of a document if the log no longer has it: while a worker holds a
    /// document that changes all the time, only its newest version is pending.
    fn forget_replaced(&mut self, document: u64) -> Result<(), ReadError> {
        if let Some(waiting) = self.work.progress.waiting_of(document)
            && change_at(self.tx, self.query, waiting)?.is_none()
        {
            self.work.progress.remove(waiting);
        }
        Ok(())
    }

    fn is_batch_full(&self) -> bool {
        let batch = &self.worker.batch;
        let bytes = batch.bytes + self.out.bytes.len() - self.start;
        self.worker.documents_max <= batch.documents || BATCH_BYTES_MAX <= bytes
    }

    /// Sends a change, or settles it when the query does not match it.
    fn try_change(&mut self, change: &Change<'_>, document: u64) -> Result<(), ReadError> {
        let etag = change.etag();
        match self.write_message(change)? {
            Tried::LeftOut => self.work.progress.remove(etag),
            Tried::Shown => {
                self.work.progress.take(etag, document, self.worker.shared.number);
                self.worker.shared.held().insert(etag);
                self.worker.batch.documents += 1;
            }
        }
        Ok(())
    }

    /// Appends the message of a change: the result of the query, or its error.
    fn write_message(&mut self, change: &Change<'_>) -> Result<Tried, ReadError> {
        let start = self.out.bytes.len();
        self.out.bytes.extend_from_slice(b"{\"Type\":\"Data\",\"Data\":");
        let memory = Rc::clone(self.out.memory());
        let sources = LogSources { documents: self.tx, values: self.values, memory: &memory };
        let included = &mut self.worker.batch.included;
        let out = &mut self.out.bytes;
        let tried = change.try_query(sources, self.query, self.scripts, included, out);
        match tried {
            Ok(Tried::Shown) => self.out.bytes.push(b'}'),
            Ok(Tried::LeftOut) => self.out.bytes.truncate(start),
            Err(QueryError::Documents(error)) => return Err(error.into()),
            Err(error @ QueryError::Memory(_)) => {
                self.out.bytes.truncate(start);
                return Err(ReadError::Query(error));
            }
            Err(error) => {
                self.out.bytes.truncate(start);
                self.out.bytes.extend_from_slice(b"{\"Type\":\"Data\",\"Data\":");
                change.write_metadata(&mut self.out.bytes)?;
                self.out.bytes.extend_from_slice(b",\"Exception\":");
                let text = exception_text(&error);
                blittable::write_json_string(&text, &mut self.out.bytes);
                self.worker.activity().document_failed(change.id(), &text);
                self.out.bytes.push(b'}');
                return Ok(Tried::Shown);
            }
        }
        self.out.settle();
        Ok(tried.unwrap_or(Tried::LeftOut))
    }
}

/// The message to the client about a document on which the query fails.
pub(crate) fn exception_text(error: &QueryError) -> String {
    let kind = match error {
        QueryError::Script(_) => ErrorKind::JavaScript,
        QueryError::Argument { .. } => ErrorKind::Argument,
        _ => ErrorKind::InvalidOperation,
    };
    format!("{}: {error}", kind.type_name())
}

/// A change vector that covers both.
fn merged(vector: &str, of_change: &str) -> String {
    match (vector.parse::<ChangeVector>(), of_change.parse::<ChangeVector>()) {
        (Ok(vector), Ok(of_change)) => vector.merge(&of_change).as_str().to_owned(),
        (_, Ok(of_change)) => of_change.as_str().to_owned(),
        (_, Err(_)) => vector.to_owned(),
    }
}

/// See [`Worker::write_includes`].
pub(crate) fn write_includes(
    given: &Includes,
    tx: &impl Transaction,
    output: &mut CountedOutput,
) -> Result<IncludesFacts, ReadError> {
    let start = output.bytes.len();
    output.bytes.extend_from_slice(b"{\"Type\":\"Includes\",\"Includes\":{");
    let documents = write_documents(given.ids(), tx, output)?;
    let out = &mut output.bytes;
    match documents {
        0 => out.truncate(start),
        _ => out.extend_from_slice(b"}}"),
    }
    let behind_documents = out.len();
    let of_counters = given.counters().documents();
    if !of_counters.is_empty() {
        write_counters(of_counters, out);
    }
    let counters = of_counters.iter().map(|document| document.counters.iter().flatten().count());
    Ok(IncludesFacts {
        documents: documents as u64,
        document_bytes: (behind_documents - start) as u64,
        counters: counters.sum::<usize>() as u64,
        counter_bytes: (out.len() - behind_documents) as u64,
        series_bytes: 0,
    })
}

/// Appends the values of counters, and which were requested, as a message of the protocol.
fn write_counters(documents: &[CountersOfDocument], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"Type\":\"CounterIncludes\",\"CounterIncludes\":{");
    for (number, document) in documents.iter().enumerate() {
        begin_property(number, &document.id, out);
        let mut separator = b"[".as_slice();
        for counter in document.counters.iter().flatten() {
            out.extend_from_slice(separator);
            separator = b",";
            out.extend_from_slice(b"{\"DocumentId\":");
            blittable::write_json_string(&document.id, out);
            out.extend_from_slice(b",\"CounterName\":");
            blittable::write_json_string(&counter.name, out);
            out.extend_from_slice(format!(",\"TotalValue\":{}}}", counter.total).as_bytes());
        }
        out.extend_from_slice(if separator == b"[" { b"[]" } else { b"]" });
    }
    out.extend_from_slice(b"},\"IncludedCounterNames\":{");
    for (number, document) in documents.iter().enumerate() {
        begin_property(number, &document.id, out);
        out.push(b'[');
        for (number, name) in document.names.iter().enumerate() {
            if 0 < number {
                out.push(b',');
            }
            blittable::write_json_string(name, out);
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}}");
}

fn begin_property(number: usize, name: &str, out: &mut Vec<u8>) {
    if 0 < number {
        out.push(b',');
    }
    blittable::write_json_string(name, out);
    out.push(b':');
}

/// Appends the existing documents as properties of an object, and counts them.
pub(crate) fn write_documents(
    ids: &[DocumentId],
    tx: &impl Transaction,
    output: &mut CountedOutput,
) -> Result<usize, ReadError> {
    let mut count = 0;
    for id in ids {
        let Some(document) = documents::get(tx, id)? else { continue };
        let body = blittable::Value::Object(document.body()?.root());
        let bytes = blittable::printed_bytes(&body).map_err(DocumentError::from)?;
        output.append(usize::try_from(bytes).unwrap_or(usize::MAX), |out| {
            if 0 < count {
                out.push(b',');
            }
            blittable::write_json_string(document.id(), out);
            out.push(b':');
            documents::write_document_json(&document, out).map_err(ReadError::from)
        })?;
        count += 1;
    }
    Ok(count)
}

/// The number of changes that a query has not read after an etag; counting ends at `at_most`.
///
/// # Errors
/// When the documents cannot be read.
pub fn changes_behind(
    tx: &impl Transaction,
    query: &LogQuery,
    after: Etag,
    at_most: u64,
) -> Result<u64, ReadError> {
    Ok(log::count_after(tx, &[selection_of(query)], after, at_most)?)
}
