//! The rows of a query on an index: entries found a page at a time or scanned, each with its
//! document.

use std::rc::Rc;
use std::sync::Arc;

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
use crate::row_metadata::RowLocation;
use crate::row_notes::{NotesOfRow, RowNotes};
use crate::stored_projection::is_value;

/// Pages of up to this many rows are found as a whole; longer ones are scanned.
const PAGE_ROWS_MAX: usize = 4096;
/// Up to this many rows a page is found as a whole; beyond it the rows are streamed.
const SORTED_ROWS_MAX: usize = 1 << 16;

/// A query on an index, as it was planned.
pub(crate) struct IndexPlan {
    pub(crate) condition: search::Query,
    pub(crate) order: Vec<SortKey>,
    /// The stored fields of the projected ones; empty when nothing is taken from the index.
    pub(crate) stored: Vec<Option<FieldId>>,
    /// Where results are stored, when entries belong to a reduce.
    pub(crate) result: Option<FieldId>,
    /// The distances that rows report.
    pub(crate) distances: Option<Distances>,
    /// Whether further entries of a document are dropped.
    pub(crate) shows_each_once: bool,
    /// The notes of the rows.
    pub(crate) notes: RowNotes,
}

/// The rows of a query on an index.
pub(crate) struct IndexRows<'t, D, I> {
    pub(crate) documents: &'t D,
    pub(crate) reader: Rc<IndexReader<'t, I>>,
    pub(crate) plan: Arc<IndexPlan>,
    /// The requested page, once it is found.
    pub(crate) page: Option<Arc<Page>>,
}

/// The center and the field of an order by distance; `None` when the index lacks the field.
#[derive(Clone, Copy)]
pub(crate) struct Distances {
    field: Option<FieldId>,
    from: DistanceFrom,
}

/// Rows that have been found already.
pub(crate) struct Page {
    first: usize,
    count: usize,
    hits: Vec<Hit>,
    repeated: u64,
}

/// A stream of entries.
type HitStream<'t> = Box<dyn Iterator<Item = Result<Hit, QueryError>> + 't>;

impl<'t, D: Transaction, I: Transaction> IndexRows<'t, D, I> {
    /// How many entries the query matches; also finds the page if it is a short one.
    pub(crate) fn prepare(&mut self, shown: &ShownRows) -> Result<u64, QueryError> {
        let first = usize::try_from(shown.window.start).unwrap_or(usize::MAX);
        let count = usize::try_from(shown.window.page_size).unwrap_or(usize::MAX);
        if PAGE_ROWS_MAX < count || shown.walks_rows() {
            return Ok(self.reader.count(&self.plan.condition)?);
        }
        let (total, hits, repeated) = match self.plan.shows_each_once {
            true => self.find_once(first, count)?,
            false => {
                let Hits { total, rows } = self.find(first, count)?;
                (total, rows, 0)
            }
        };
        self.page = Some(Arc::new(Page { first, count, hits, repeated }));
        Ok(total)
    }

    fn find(&self, first: usize, count: usize) -> Result<Hits, QueryError> {
        let (first, count) = (first as u64, count as u64);
        Ok(self.reader.search(&self.plan.condition, &self.plan.order, first, count, Scoring::On)?)
    }

    /// A page of distinct documents. Scans further entries until it is full.
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

    /// The entries from position `first` on, `count` of them.
    fn hits(&self, first: usize, count: usize) -> Result<HitStream<'t>, QueryError> {
        if self.plan.order.is_empty() {
            let hits = self.reader.stream(&self.plan.condition, Scoring::On)?;
            return Ok(Box::new(hits.skip_while(pass_over(first)).take(count).map(|hit| Ok(hit?))));
        }
        if count <= SORTED_ROWS_MAX {
            return Ok(Box::new(self.find(first, count)?.rows.into_iter().map(Ok)));
        }
        let hits =
            self.reader.stream_sorted(&self.plan.condition, &self.plan.order, Scoring::On)?;
        Ok(Box::new(hits.skip_while(pass_over(first)).take(count).map(|hit| Ok(hit?))))
    }
}

impl<'t, D: Transaction, I: Transaction> RowSource<'t> for IndexRows<'t, D, I> {
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError> {
        let page = self.page.as_ref().filter(|page| (page.first, page.count) == (first, count));
        let hits: HitStream<'t> = match page {
            Some(page) => Box::new(page.hits.clone().into_iter().map(Ok)),
            None if self.plan.shows_each_once => {
                Box::new(self.once(self.hits(0, usize::MAX)?, first).take(count))
            }
            None => self.hits(first, count)?,
        };
        let (documents, reader) = (self.documents, Rc::clone(&self.reader));
        let (stored, result, distances) =
            (self.plan.stored.clone(), self.plan.result, self.plan.distances);
        Ok(Box::new(hits.filter_map(move |hit| {
            let row = match result {
                Some(result) => row_of_result(&reader, &stored, result, hit),
                None => row_of(documents, &reader, &stored, distances, hit),
            };
            row.transpose()
        })))
    }

    fn repeated(&self, first: usize, count: usize) -> Result<u64, QueryError> {
        if !self.plan.shows_each_once {
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
            Some(entry) if !self.plan.notes.is_empty() => {
                // A result has no id; its entry is identified by the hash of its key.
                let id = match row.document.id() {
                    Some(id) => id,
                    None => self.reader.document_id(entry)?.unwrap_or_default(),
                };
                self.plan.notes.of_entry(&self.reader, &self.plan.condition, entry, id)
            }
            Some(_) | None => Ok(NotesOfRow::default()),
        }
    }
}

/// The center and field of the primary sort key, if that is a distance.
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

/// The document of an entry; `None` when it was deleted after the entry was indexed.
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

/// The result of a reduce entry.
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
