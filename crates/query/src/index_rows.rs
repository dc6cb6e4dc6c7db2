//! The rows of a query on an index: entries found a page at a time or walked through, each with its
//! document.

use std::rc::Rc;

use blittable::Document;
use model::DocumentId;
use search::{
    DistanceFrom, EntryId, FieldId, Hit, Hits, IndexReader, Scoring, SearchError, SortBy, SortKey,
};
use storage::{Transaction, pass_over};
use xxhash_rust::xxh3::xxh3_128;

use crate::entry_rows::FirstOfDocument;
use crate::error::QueryError;
use crate::plan::ShownRows;
use crate::row::{Row, RowSource, Rows};
use crate::row_document::RowDocument;
use crate::row_notes::{NotesOfRow, RowNotes};
use crate::row_told::RowLocation;
use crate::stored_projection::is_value;

/// Pages of at most so many rows are found at once; longer ones are walked through.
const PAGE_ROWS_MAX: usize = 4096;
/// With so many rows the page is found as a whole, with more the rows are taken as they come.
const SORTED_ROWS_MAX: usize = 1 << 16;

/// The rows of a query on an index.
pub(crate) struct IndexRows<'t, D, I> {
    pub(crate) documents: &'t D,
    pub(crate) reader: Rc<IndexReader<'t, I>>,
    pub(crate) condition: search::Query,
    pub(crate) order: Vec<SortKey>,
    /// The stored fields behind the projected ones; empty when none is taken from the index.
    pub(crate) stored: Vec<Option<FieldId>>,
    /// Where results are kept, when entries are of those.
    pub(crate) result: Option<FieldId>,
    /// What rows tell of their distance.
    pub(crate) distances: Option<Distances>,
    /// Whether further entries of a document are left out.
    pub(crate) shows_each_once: bool,
    /// What is told of the rows beside them.
    pub(crate) notes: RowNotes,
    /// The page that is wanted, once it is found.
    pub(crate) page: Option<Page>,
}

/// Where an order measures distances from, and in which field; none when the index lacks it.
#[derive(Clone, Copy)]
pub(crate) struct Distances {
    field: Option<FieldId>,
    from: DistanceFrom,
}

/// Rows that are found already.
pub(crate) struct Page {
    first: usize,
    count: usize,
    hits: Vec<Hit>,
    repeated: u64,
}

/// Entries one after the other.
type HitStream<'t> = Box<dyn Iterator<Item = Result<Hit, QueryError>> + 't>;

impl<'t, D: Transaction, I: Transaction> IndexRows<'t, D, I> {
    /// How many entries the query chooses; finds the page on the way when it is a short one.
    pub(crate) fn prepare(&mut self, shown: &ShownRows) -> Result<u64, QueryError> {
        let first = usize::try_from(shown.window.start).unwrap_or(usize::MAX);
        let count = usize::try_from(shown.window.page_size).unwrap_or(usize::MAX);
        if PAGE_ROWS_MAX < count || shown.walks_rows() {
            return Ok(self.reader.count(&self.condition)?);
        }
        let (total, hits, repeated) = match self.shows_each_once {
            true => self.find_once(first, count)?,
            false => {
                let Hits { total, rows } = self.find(first, count)?;
                (total, rows, 0)
            }
        };
        self.page = Some(Page { first, count, hits, repeated });
        Ok(total)
    }

    fn find(&self, first: usize, count: usize) -> Result<Hits, QueryError> {
        let (first, count) = (first as u64, count as u64);
        Ok(self.reader.search(&self.condition, &self.order, first, count, Scoring::On)?)
    }

    /// A page of different documents. Looks at more entries until it is full.
    fn find_once(&self, first: usize, count: usize) -> Result<(u64, Vec<Hit>, u64), QueryError> {
        let mut wanted = first.saturating_add(count);
        loop {
            let Hits { total, rows } = self.find(0, wanted)?;
            let is_all = rows.len() < wanted || total <= wanted as u64;
            let mut once = self.once(rows.into_iter().map(Ok), first);
            let hits = once.by_ref().take(count).collect::<Result<Vec<_>, _>>()?;
            if is_all || hits.len() == count {
                return Ok((total, hits, once.repeated()));
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn once<E>(&self, hits: E, first: usize) -> FirstOfDocument<'t, Hit, E>
    where
        E: Iterator<Item = Result<Hit, QueryError>>,
    {
        let reader = Rc::clone(&self.reader);
        let document_of =
            move |hit: &Hit| Ok(reader.document_id(hit.entry)?.map(|id| xxh3_128(id.as_bytes())));
        FirstOfDocument::new(hits, first, Box::new(document_of))
    }

    /// All entries from the one at `first`, `count` of them.
    fn hits(&self, first: usize, count: usize) -> Result<HitStream<'t>, QueryError> {
        if self.order.is_empty() {
            let hits = self.reader.stream(&self.condition, Scoring::On)?;
            return Ok(Box::new(hits.skip_while(pass_over(first)).take(count).map(|hit| Ok(hit?))));
        }
        if count <= SORTED_ROWS_MAX {
            return Ok(Box::new(self.find(first, count)?.rows.into_iter().map(Ok)));
        }
        let hits = self.reader.stream_sorted(&self.condition, &self.order, Scoring::On)?;
        Ok(Box::new(hits.skip_while(pass_over(first)).take(count).map(|hit| Ok(hit?))))
    }
}

impl<'t, D: Transaction, I: Transaction> RowSource<'t> for IndexRows<'t, D, I> {
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError> {
        let page = self.page.as_ref().filter(|page| (page.first, page.count) == (first, count));
        let hits: HitStream<'t> = match page {
            Some(page) => Box::new(page.hits.clone().into_iter().map(Ok)),
            None if self.shows_each_once => {
                Box::new(self.once(self.hits(0, usize::MAX)?, first).take(count))
            }
            None => self.hits(first, count)?,
        };
        let (documents, reader) = (self.documents, Rc::clone(&self.reader));
        let (stored, result, distances) = (self.stored.clone(), self.result, self.distances);
        Ok(Box::new(hits.filter_map(move |hit| {
            let row = match result {
                Some(result) => row_of_result(&reader, &stored, result, hit),
                None => row_of(documents, &reader, &stored, distances, hit),
            };
            row.transpose()
        })))
    }

    fn repeated(&self, first: usize, count: usize) -> Result<u64, QueryError> {
        if !self.shows_each_once {
            return Ok(0);
        }
        if let Some(page) = &self.page {
            return Ok(page.repeated);
        }
        let mut once = self.once(self.hits(0, usize::MAX)?, first);
        let mut wanted = count;
        while 0 < wanted && once.next().transpose()?.is_some() {
            wanted -= 1;
        }
        Ok(once.repeated())
    }

    fn notes(&self, row: &Row<'t>) -> Result<NotesOfRow, QueryError> {
        match row.entry {
            Some(entry) if !self.notes.is_empty() => {
                // A result has no id; its entry is called by the hash of its key.
                let id = match row.document.id() {
                    Some(id) => id,
                    None => self.reader.document_id(entry)?.unwrap_or_default(),
                };
                self.notes.of_entry(&self.reader, &self.condition, entry, id)
            }
            Some(_) | None => Ok(NotesOfRow::default()),
        }
    }
}

/// What the first key of an order that is a distance measures.
pub(crate) fn distances_of<I: Transaction>(
    reader: &IndexReader<'_, I>,
    order: &[SortKey],
) -> Result<Option<Distances>, QueryError> {
    let distance = order.iter().find_map(|key| match &key.by {
        SortBy::Distance(field, from) => Some((field, *from)),
        _ => None,
    });
    let Some((field, from)) = distance else { return Ok(None) };
    Ok(Some(Distances { field: reader.field(field)?, from }))
}

/// The document behind an entry; `None` when it was deleted after the entry was made.
fn row_of<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    reader: &IndexReader<'t, I>,
    stored: &[Option<FieldId>],
    distances: Option<Distances>,
    hit: Result<Hit, QueryError>,
) -> Result<Option<Row<'t>>, QueryError> {
    let Hit { entry, score } = hit?;
    let Some(id) = reader.document_id(entry)? else { return Ok(None) };
    let Ok(id) = DocumentId::new(id) else { return Ok(None) };
    let Some(document) = documents::get(documents, &id)? else { return Ok(None) };
    let stored = stored_of(reader, entry, stored)?;
    let document = RowDocument::Stored(document);
    let location = match distances {
        None => None,
        Some(Distances { field: None, .. }) => Some(RowLocation(None)),
        Some(Distances { field: Some(field), from }) => {
            Some(RowLocation(reader.location(entry, field, &from)?))
        }
    };
    Ok(Some(Row {
        document,
        score: Some(score),
        stored,
        entry: Some(entry),
        location,
        made: None,
        held: None,
    }))
}

/// The result behind an entry of a reduce.
fn row_of_result<'t, I: Transaction>(
    reader: &IndexReader<'t, I>,
    stored: &[Option<FieldId>],
    result: FieldId,
    hit: Result<Hit, QueryError>,
) -> Result<Option<Row<'t>>, QueryError> {
    let Hit { entry, score } = hit?;
    let gone = SearchError::Corrupt { detail: "an entry of a reduce has no result" };
    let values = reader.stored(entry)?.ok_or_else(|| gone.clone())?;
    let document = RowDocument::Result(Document::new(values.get(result)?.ok_or(gone)?)?);
    let stored = stored_of(reader, entry, stored)?;
    let (score, entry) = (Some(score), Some(entry));
    Ok(Some(Row { document, score, stored, entry, location: None, made: None, held: None }))
}

fn stored_of<'t, I: Transaction>(
    reader: &IndexReader<'t, I>,
    entry: EntryId,
    fields: &[Option<FieldId>],
) -> Result<Vec<Option<&'t [u8]>>, QueryError> {
    if fields.is_empty() {
        return Ok(Vec::new());
    }
    let Some(values) = reader.stored(entry)? else { return Ok(Vec::new()) };
    let of_one = |field: &Option<FieldId>| match field {
        None => Ok(None),
        Some(field) => Ok(values.get(*field)?.filter(|json| is_value(json))),
    };
    fields.iter().map(of_one).collect()
}
