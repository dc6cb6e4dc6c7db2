//! Lists of documents of any length: `/docs` without ids, `/collections/docs` and `/streams/docs`.
//!
//! A short page is written at once; a long one goes to a blocking thread that writes pieces as fast
//! as the client takes them, from one snapshot. Invariant: memory holds a few pieces of the list, not
//! the list.

use bytes::Bytes;
use database::DatabaseLease;
use documents::{DocumentError, DocumentRow};
use model::{CollectionName, Etag};
use storage::ReadTransaction;
use tokio::sync::mpsc;
use wire::{ProtocolError, QueryString};

use crate::{
    answer::{Answer, StreamBroken},
    error_mapping::document_error,
    id_pattern::IdPatterns,
    json_text::write_row,
};

/// Pages of at most so many documents are tried at once, on the thread that reads the connection.
const INLINE_DOCUMENTS_MAX: usize = 256;
/// What a page written at once may grow to before the rest goes to a thread of its own.
const INLINE_BYTES_MAX: usize = 1 << 20;
/// About how large the pieces of a streamed list are.
const PIECE_BYTES: usize = 64 << 10;

/// Which documents, in which order.
#[derive(Debug)]
enum Order {
    NewestFirst,
    OfCollection(CollectionName),
    After(Etag),
    ByPrefix { prefix: String, start_after: Option<String>, patterns: IdPatterns },
}

/// How the list is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `{"Results":[..]}`
    Envelope,
    /// One document to a line.
    Lines,
}

/// A list that was asked for.
#[derive(Debug)]
pub(crate) struct Listing {
    order: Order,
    skip: usize,
    take: usize,
    metadata_only: bool,
    form: Form,
}

impl Listing {
    /// From the parameters that all lists share.
    pub(crate) fn of(query: &QueryString<'_>) -> Result<Listing, ProtocolError> {
        let (start, page_size) = (query.start()?, query.page_size()?);
        // A negative start or size selects nothing, as in the protocol's original.
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
        })
    }

    /// The same list in the order of etags, after this one.
    pub(crate) fn after(self, etag: Etag) -> Listing {
        Listing { order: Order::After(etag), ..self }
    }

    /// The same list of one collection only.
    pub(crate) fn of_collection(self, name: CollectionName) -> Listing {
        Listing { order: Order::OfCollection(name), ..self }
    }

    /// The same list in another form.
    pub(crate) fn in_form(self, form: Form) -> Listing {
        Listing { form, ..self }
    }

    /// Calls `each` for every document of the list until it says stop.
    fn visit<'t>(
        &self,
        tx: &'t ReadTransaction,
        each: &mut dyn FnMut(&DocumentRow<'t>) -> Result<bool, ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let failed = |error: DocumentError| document_error(&error);
        match &self.order {
            Order::NewestFirst => self.page(documents::newest_first(tx).map_err(failed)?, each),
            Order::OfCollection(name) => {
                let rows = documents::newest_first_of_collection(tx, name).map_err(failed)?;
                self.page(rows, each)
            }
            Order::After(etag) => {
                let log = documents::log(tx, *etag).map_err(failed)?;
                let rows = log.filter_map(|entry| entry.map(|e| e.document()).transpose());
                self.page(rows, each)
            }
            Order::ByPrefix { prefix, start_after, patterns } => {
                let rows = documents::by_prefix(tx, prefix, start_after.as_deref());
                let prefix_bytes = model::lower_case(prefix).len();
                let wanted = |row: &Result<DocumentRow<'t>, DocumentError>| match row {
                    Ok(row) => patterns.accept(&row.lower_id()[prefix_bytes..]),
                    Err(_) => true,
                };
                self.page(rows.map_err(failed)?.filter(wanted), each)
            }
        }
    }

    fn page<'t>(
        &self,
        rows: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>>,
        each: &mut dyn FnMut(&DocumentRow<'t>) -> Result<bool, ProtocolError>,
    ) -> Result<(), ProtocolError> {
        for row in rows.skip(self.skip).take(self.take) {
            if !each(&row.map_err(|error| document_error(&error))?)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Answers with the list.
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
    let (answer, sender) = Answer::stream();
    tokio::task::spawn_blocking(move || write_in_pieces(&database, &tx, &listing, &sender));
    answer
}

/// `None` when the list is too long for that, or fails: then the pieces show how far it goes.
fn write_at_once(tx: &ReadTransaction, listing: &Listing) -> Option<Vec<u8>> {
    let mut writer = ListWriter::new(listing);
    let mut is_complete = true;
    let visited = listing.visit(tx, &mut |row| {
        writer.add(row)?;
        is_complete = writer.out.len() <= INLINE_BYTES_MAX;
        Ok(is_complete)
    });
    (visited.is_ok() && is_complete).then(|| writer.finish())
}

fn write_in_pieces(
    database: &DatabaseLease,
    tx: &ReadTransaction,
    listing: &Listing,
    sender: &mpsc::Sender<Result<Bytes, StreamBroken>>,
) {
    let mut writer = ListWriter::new(listing);
    let mut is_connected = true;
    let visited = listing.visit(tx, &mut |row| {
        writer.add(row)?;
        if writer.out.len() >= PIECE_BYTES {
            let piece = Bytes::from(std::mem::take(&mut writer.out));
            is_connected = sender.blocking_send(Ok(piece)).is_ok() && !database.is_closing();
        }
        Ok(is_connected)
    });
    let last = match visited {
        Ok(()) if is_connected => Ok(Bytes::from(writer.finish())),
        Ok(()) => Err(StreamBroken),
        Err(error) => {
            tracing::error!(%error, "a list of documents could not be written to its end");
            Err(StreamBroken)
        }
    };
    // A client that has gone needs no end.
    drop(sender.blocking_send(last));
}

struct ListWriter {
    out: Vec<u8>,
    form: Form,
    metadata_only: bool,
    is_empty: bool,
}

impl ListWriter {
    fn new(listing: &Listing) -> ListWriter {
        let out = match listing.form {
            Form::Envelope => b"{\"Results\":[".to_vec(),
            Form::Lines => Vec::new(),
        };
        let (form, metadata_only) = (listing.form, listing.metadata_only);
        ListWriter { out, form, metadata_only, is_empty: true }
    }

    fn add(&mut self, row: &DocumentRow<'_>) -> Result<(), ProtocolError> {
        if self.form == Form::Envelope && !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        write_row(row, self.metadata_only, &mut self.out)?;
        if self.form == Form::Lines {
            self.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<u8> {
        if self.form == Form::Envelope {
            self.out.extend_from_slice(b"]}");
        }
        self.out
    }
}
