//! Lists of documents of any length: `/docs` without ids, `/collections/docs` and `/streams/docs`.
//!
//! A short page is written in one go, from one snapshot; a long one is written in pieces, at the
//! client's pace. A list ordered by id or etag that takes longer than some seconds continues from a
//! newer snapshot, after its last document: it contains every document that exists throughout, each
//! in the version of its moment (by etag, one that is changed in the meantime occurs again). The
//! other lists keep one snapshot and are cut off when that fills the memory. Invariant: memory
//! holds a few pieces of the list, not the list, and no list blocks writes.

use std::time::Duration;

use blittable::{Value, prints_within};
use bytes::Bytes;
use database::DatabaseLease;
use documents::{
    DetachedDocument, DocumentError, DocumentPrinter, DocumentRow,
    log::{self, EntryKind, Selection},
};
use model::{CollectionName, Etag};
use storage::{Held, ReadTransaction, pass_over};
use wire::QueryString;

use crate::{
    answers::{
        answer::Answer,
        json_text::{Commas, is_large, write_row},
        long_answer::{INLINE_BYTES_MAX, LongAnswer, Sink, reason_after_results, reason_in_a_line},
        piece_sender::{PIECE_BYTES, PieceSender, Sent, WriteReason},
    },
    api_error::ApiError,
    id_pattern::IdPatterns,
};

/// Pages of at most this many documents are tried inline, on the thread that reads the connection.
const INLINE_DOCUMENTS_MAX: usize = 256;
/// The text of a smaller document is not measured before it is written inline: it is gone at once if it is too long.
const MEASURED_ROW_BYTES: usize = 4 << 10;
/// How long a resumable list waits for its client before it releases its snapshot.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(1);
/// After so many rows its transaction is renewed, so that what it decrypts does not stay in memory.
const ROWS_A_TRANSACTION: usize = 128;
/// How long a resumable list reads from one snapshot.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(10);

/// Which documents, in which order.
#[derive(Debug)]
enum Order {
    NewestFirst,
    OfCollection(CollectionName),
    After(Etag),
    ByPrefix { prefix: String, start_after: Option<String>, patterns: IdPatterns },
}

/// The format of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// One JSON object, `{"Results":[..]}`.
    Envelope,
    /// One document per line.
    Lines,
}

/// The documents that a client has listed, as requested.
#[derive(Debug)]
pub(crate) struct Listing {
    order: Order,
    skip: usize,
    take: usize,
    metadata_only: bool,
    form: Form,
    is_pinned: bool,
}

impl Listing {
    /// From the parameters that all lists share.
    pub(crate) fn of(query: &QueryString<'_>) -> Result<Listing, ApiError> {
        let (start, page_size) = (query.start()?, query.page_size()?);
        // A negative start or size selects nothing, as in RavenDB.
        let take = if start < 0 { 0 } else { usize::try_from(page_size).unwrap_or(0) };
        let order = match query.get("startsWith") {
            Some(prefix) => Order::ByPrefix {
                prefix: prefix.to_owned(),
                start_after: query.get("startAfter").filter(|id| !id.is_empty()).map(str::to_owned),
                patterns: IdPatterns::new(query.get("matches"), query.get("exclude")),
            },
            None => Order::NewestFirst,
        };
        Ok(Listing {
            order,
            skip: usize::try_from(start).unwrap_or(0),
            take,
            metadata_only: query.bool("metadataOnly")?.unwrap_or(false),
            form: Form::Envelope,
            is_pinned: false,
        })
    }

    /// The same list in the order of etags, after this one.
    pub(crate) fn after(self, etag: Etag) -> Listing {
        Listing { order: Order::After(etag), ..self }
    }

    /// The same list, of one collection only.
    pub(crate) fn of_collection(self, name: CollectionName) -> Listing {
        Listing { order: Order::OfCollection(name), ..self }
    }

    /// The same list in another format.
    pub(crate) fn in_form(self, form: Form) -> Listing {
        Listing { form, ..self }
    }

    /// The same list; if so, all of it from one snapshot: it is cut off rather than continued from
    /// a newer one.
    pub(crate) fn pinned(self, is_pinned: bool) -> Listing {
        Listing { is_pinned, ..self }
    }

    /// The documents of the list.
    fn rows<'t>(&'t self, tx: &'t ReadTransaction) -> Result<Rows<'t>, ApiError> {
        match &self.order {
            Order::NewestFirst => Ok(self.page(documents::newest_first(tx)?)),
            Order::OfCollection(name) => {
                let rows = documents::newest_first_of_collection(tx, name)?;
                Ok(self.page(rows))
            }
            Order::After(etag) => {
                let documents = [Selection::all(EntryKind::Document)];
                let log = log::read(tx, &documents, *etag)?;
                Ok(self.page(log.filter_map(|entry| entry.map(|e| e.document()).transpose())))
            }
            Order::ByPrefix { prefix, start_after, patterns } => {
                let rows = documents::by_prefix(tx, prefix, start_after.as_deref());
                let prefix_bytes = model::lower_case(prefix).len();
                let wanted = move |row: &Result<DocumentRow<'t>, DocumentError>| match row {
                    Ok(row) => patterns.accept(&row.lower_id()[prefix_bytes..]),
                    Err(_) => true,
                };
                Ok(self.page(rows?.filter(wanted)))
            }
        }
    }

    /// Whether the list can continue from any snapshot without losing a document that exists
    /// throughout. Newest first it cannot: what is changed in the meantime moves to the beginning,
    /// which has been sent.
    fn can_go_on_later(&self) -> bool {
        match self.order {
            Order::After(_) | Order::ByPrefix { .. } => !self.is_pinned,
            Order::NewestFirst | Order::OfCollection(_) => false,
        }
    }

    /// Whether a document says where the list continues in the same snapshot.
    fn has_position(&self) -> bool {
        matches!(self.order, Order::After(_) | Order::ByPrefix { .. })
    }

    /// Skips the `taken` documents up to this one.
    fn continue_after(&mut self, etag: Etag, id: String, taken: usize) {
        match &mut self.order {
            Order::After(after) => *after = etag,
            Order::ByPrefix { start_after, .. } => *start_after = Some(id),
            Order::NewestFirst | Order::OfCollection(_) => return,
        }
        self.skip = 0;
        self.take -= taken;
    }

    fn page<'t>(
        &self,
        rows: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + 't,
    ) -> Rows<'t> {
        Box::new(rows.skip_while(pass_over(self.skip)).take(self.take))
    }
}

type Rows<'t> = Box<dyn Iterator<Item = Result<DocumentRow<'t>, DocumentError>> + 't>;

/// Responds with the list.
pub(crate) fn list_documents(
    database: DatabaseLease,
    tx: ReadTransaction,
    listing: Listing,
) -> Answer {
    if listing.take <= INLINE_DOCUMENTS_MAX
        && let Some(body) = write_at_once(&tx, &listing)
    {
        return Answer::json(body);
    }
    let form = listing.form;
    let write_reason: WriteReason = match form {
        Form::Envelope => reason_after_results,
        Form::Lines => reason_in_a_line,
    };
    let reader = database.clone();
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        write_in_pieces(&reader, tx, listing, sender, out).await
    };
    Answer::long(LongAnswer::new(&database, "a list of documents", write_reason, write))
}

/// `None` when the list is too long for that, or fails: then the streamed response shows how far it
/// gets.
fn write_at_once(tx: &ReadTransaction, listing: &Listing) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = ListWriter::new(listing, &mut out);
    for row in listing.rows(tx).ok()? {
        let row = row.ok()?;
        let root = Value::Object(row.body().ok()?.root());
        if MEASURED_ROW_BYTES < row.body_bytes()
            && !prints_within(&root, INLINE_BYTES_MAX as u64).ok()?
        {
            return None;
        }
        writer.add(&row, &mut out).ok()?;
        if out.len() > INLINE_BYTES_MAX {
            return None;
        }
    }
    writer.finish(&mut out);
    Some(out)
}

/// How a list continues.
enum Next {
    /// The list is complete.
    End,
    /// From the same snapshot, in another transaction.
    Renewed,
    /// From a new snapshot, once the client has read this piece, if it is not empty.
    Later(Bytes),
    /// The same, once the client has read the rest of this row.
    Inside(Box<BegunRow>),
    /// The response must be aborted.
    Cut,
}

/// Whether all of it was written.
async fn write_in_pieces(
    database: &DatabaseLease,
    tx: ReadTransaction,
    mut listing: Listing,
    sender: &PieceSender,
    out: &mut Vec<u8>,
) -> Result<bool, ApiError> {
    let mut writer = ListWriter::new(&listing, out);
    let mut tx = tx;
    loop {
        match write_from(&tx, &mut listing, &mut writer, sender, out).await? {
            Next::End => {
                writer.finish(out);
                return Ok(true);
            }
            Next::Cut => return Ok(false),
            Next::Renewed => {
                tx = tx.renewed();
                continue;
            }
            Next::Later(piece) => {
                drop(tx);
                if !piece.is_empty() && !sender.send_without_snapshot(piece).await {
                    return Ok(false);
                }
            }
            Next::Inside(begun) => {
                drop(tx);
                if !begun.send_rest(sender, out).await? {
                    return Ok(false);
                }
                writer.end_row(out);
            }
        }
        tx = database.read();
        sender.snapshot_renewed();
    }
}

/// Writes from one snapshot for as long as that may be held, and moves the start of `listing` past
/// what was written.
async fn write_from(
    tx: &ReadTransaction,
    listing: &mut Listing,
    writer: &mut ListWriter,
    sender: &PieceSender,
    out: &mut Vec<u8>,
) -> Result<Next, ApiError> {
    let (can_go_on_later, is_renewable) = (listing.can_go_on_later(), listing.has_position());
    let mut taken = 0;
    let (next, etag, id) = 'rows: {
        for row in listing.rows(tx)? {
            let row = row?;
            taken += 1;
            if listing.metadata_only || !is_large(&row) {
                writer.add(&row, out)?;
            } else {
                match writer.add_large(&row, can_go_on_later, sender, out).await? {
                    Large::Written => {}
                    Large::Cut => return Ok(Next::Cut),
                    Large::Begun(begun) => {
                        let next = Next::Inside(Box::new(begun));
                        break 'rows (next, row.etag(), row.id().to_owned());
                    }
                }
            }
            if out.len() < PIECE_BYTES {
                continue;
            }
            let piece = Bytes::from(std::mem::take(out));
            let is_long = is_renewable && ROWS_A_TRANSACTION <= taken;
            if !can_go_on_later {
                if !sender.send(piece).await {
                    return Ok(Next::Cut);
                }
                if !is_long {
                    continue;
                }
                break 'rows (Next::Renewed, row.etag(), row.id().to_owned());
            }
            let next = match sender.send_patiently(piece, SNAPSHOT_PATIENCE).await {
                Sent::Taken if sender.snapshot_age() < SNAPSHOT_AGE_MAX && !is_long => continue,
                Sent::Taken if sender.snapshot_age() < SNAPSHOT_AGE_MAX => Next::Renewed,
                Sent::Taken => Next::Later(Bytes::new()),
                Sent::Waiting(piece) => Next::Later(piece),
                Sent::Cut => return Ok(Next::Cut),
            };
            break 'rows (next, row.etag(), row.id().to_owned());
        }
        return Ok(Next::End);
    };
    listing.continue_after(etag, id, taken);
    Ok(next)
}

/// The outcome of writing a large row.
enum Large {
    /// The row was written completely.
    Written,
    /// A part of it was written, and its snapshot has been held for too long.
    Begun(BegunRow),
    /// The response must be aborted.
    Cut,
}

/// A large row that was sent in part, without a snapshot.
struct BegunRow {
    document: DetachedDocument,
    /// The charge for the copy.
    _copy: Held,
    /// How many bytes of it were printed.
    printed: usize,
    /// Those of them that were not sent.
    unsent: Bytes,
}

impl BegunRow {
    /// Sends the rest at the client's pace; `false` when the response must be aborted.
    async fn send_rest(self, sender: &PieceSender, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        let damaged = |error: DocumentError| ApiError::from(error);
        if !self.unsent.is_empty() && !sender.send_without_snapshot(self.unsent).await {
            return Ok(false);
        }
        let row = self.document.row().map_err(damaged)?;
        let mut printer = DocumentPrinter::new(&row).map_err(damaged)?;
        // The copy is printed from its beginning.
        let mut again = self.printed;
        loop {
            let before = out.len();
            let is_done = printer.print_to(out, before + PIECE_BYTES).map_err(damaged)?;
            let known = again.min(out.len() - before);
            out.drain(before..before + known);
            again -= known;
            if is_done {
                break;
            }
            let has_gathered = PIECE_BYTES <= out.len();
            if has_gathered && !sender.send_without_snapshot(Bytes::from(std::mem::take(out))).await
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

struct ListWriter {
    form: Form,
    metadata_only: bool,
    commas: Commas,
}

impl ListWriter {
    fn new(listing: &Listing, out: &mut Vec<u8>) -> ListWriter {
        if listing.form == Form::Envelope {
            out.extend_from_slice(b"{\"Results\":[");
        }
        let (form, metadata_only) = (listing.form, listing.metadata_only);
        ListWriter { form, metadata_only, commas: Commas::default() }
    }

    /// Writes a whole row or, on failure, nothing.
    fn add(&mut self, row: &DocumentRow<'_>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let end = out.len();
        self.begin_row(out);
        if let Err(error) = write_row(row, self.metadata_only, out) {
            out.truncate(end);
            return Err(error);
        }
        self.end_row(out);
        Ok(())
    }

    /// Writes a large row, and sends what has accumulated.
    async fn add_large(
        &mut self,
        row: &DocumentRow<'_>,
        can_go_on_later: bool,
        sender: &PieceSender,
        out: &mut Vec<u8>,
    ) -> Result<Large, ApiError> {
        let damaged = |error: DocumentError| ApiError::from(error);
        self.begin_row(out);
        let decompressed = row.is_compressed().then(|| row.body_bytes() as u64);
        let _held = Sink::Pieces(sender).hold(decompressed).await?;
        let mut printer = DocumentPrinter::new(row).map_err(damaged)?;
        let mut printed = 0;
        loop {
            let before = out.len();
            let is_done = printer.print_to(out, before + PIECE_BYTES).map_err(damaged)?;
            printed += out.len() - before;
            if is_done {
                self.end_row(out);
                return Ok(Large::Written);
            }
            let piece = Bytes::from(std::mem::take(out));
            if !can_go_on_later {
                if !sender.send(piece).await {
                    return Ok(Large::Cut);
                }
                continue;
            }
            let unsent = match sender.send_patiently(piece, SNAPSHOT_PATIENCE).await {
                Sent::Taken if sender.snapshot_age() < SNAPSHOT_AGE_MAX => continue,
                Sent::Taken => Bytes::new(),
                Sent::Waiting(piece) => piece,
                Sent::Cut => return Ok(Large::Cut),
            };
            let mut copy = sender.memory().holding();
            if copy.grow_to(row.uncompressed_bytes() as u64).is_err() {
                // The snapshot is held for as long as that does no harm.
                if !unsent.is_empty() && !sender.send(unsent).await {
                    return Ok(Large::Cut);
                }
                continue;
            }
            let document = row.detach().map_err(damaged)?;
            return Ok(Large::Begun(BegunRow { document, _copy: copy, printed, unsent }));
        }
    }

    fn begin_row(&mut self, out: &mut Vec<u8>) {
        if self.form == Form::Envelope {
            self.commas.before_next(out);
        }
    }

    fn end_row(&self, out: &mut Vec<u8>) {
        if self.form == Form::Lines {
            out.extend_from_slice(b"\r\n");
        }
    }

    fn finish(&self, out: &mut Vec<u8>) {
        if self.form == Form::Envelope {
            out.extend_from_slice(b"]}");
        }
    }
}
