//! The progress of the time series policies: what a run need not read again.
//!
//! Invariant: a series that a run skips has not changed since it was last looked at, and nothing in it is
//! due. Whatever is unknown leads to a run over all series, so losing this costs time and nothing else.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use documents::{
    DocumentError,
    log::{self, EntryKinds, Selection},
    time_series::{series, series_page},
};
use model::{DocumentId, Etag, TimeSeriesConfiguration, TimeSeriesName};
use storage::ReadTransaction;

use crate::open_database::Database;

/// Series looked up at once.
const SERIES_PAGE: usize = 256;
/// Limit on series that are remembered with their due time, and on changed series handled one by one.
const SERIES_MAX: usize = 1 << 16;

/// A series written by clients, and the number of its document's collection.
pub(crate) type PolicySeries = (DocumentId, TimeSeriesName, u32);

/// What is remembered between runs over a database.
#[derive(Default)]
pub(crate) struct PolicyPosition {
    /// When the database was opened, and its policies at that time.
    of: Option<(Duration, Arc<TimeSeriesConfiguration>)>,
    /// Changes up to this one have been looked at.
    seen: Etag,
    /// When series that have not changed become due.
    due: HashMap<(DocumentId, TimeSeriesName), (i64, u32)>,
    /// When the first of the series that are not remembered becomes due.
    due_of_others: Option<i64>,
}

/// The series that a run has to handle.
pub(crate) enum Wanted {
    /// All series of the database.
    All,
    /// Only the listed series.
    Some(Vec<PolicySeries>),
}

impl PolicyPosition {
    /// The series to handle at `now`. The results are recorded by [`Self::note`].
    pub(crate) fn begin(
        &mut self,
        database: &Database,
        tx: &ReadTransaction,
        configuration: &Arc<TimeSeriesConfiguration>,
        now: i64,
    ) -> Result<Wanted, DocumentError> {
        let seen = documents::progress(tx)?.last_etag;
        let opened = database.opened_after();
        let is_same = self.of.as_ref().is_some_and(|(known_opened, known)| {
            *known_opened == opened && Arc::ptr_eq(known, configuration)
        });
        let is_due = self.due_of_others.is_some_and(|due| due <= now);
        let some = if is_same && !is_due { self.some(tx, now)? } else { None };
        if some.is_none() {
            *self = Self { of: Some((opened, Arc::clone(configuration))), ..Self::default() };
        }
        self.seen = seen;
        database.tombstone_holders().policies_looked(seen);
        Ok(some.map_or(Wanted::All, Wanted::Some))
    }

    /// The series that have changed or are due; `None` if there are too many.
    fn some(
        &mut self,
        tx: &ReadTransaction,
        now: i64,
    ) -> Result<Option<Vec<PolicySeries>>, DocumentError> {
        let mut met = HashSet::new();
        let mut wanted = Vec::new();
        for entry in log::read(tx, &[Selection::all(EntryKinds::TIME_SERIES)], self.seen)? {
            let entry = entry?;
            let (Some(id), Some(full_name), Some(number)) =
                (entry.lower_document_id(), entry.lower_name(), entry.collection_number())
            else {
                continue;
            };
            let name = full_name.split_once('@').map_or(full_name, |(raw, _)| raw);
            if met.contains(&(id, name)) {
                continue;
            }
            if met.len() == SERIES_MAX {
                return Ok(None);
            }
            met.insert((id, name));
            let id = DocumentId::new(id)?;
            let raw = spelled(tx, &id, full_name)?;
            wanted.push((id, raw, number));
        }
        let is_met = |id: &DocumentId, name: &TimeSeriesName| {
            met.contains(&(id.lower_cased(), name.lower_cased()))
        };
        let due = self.due.iter().filter(|((id, name), (at, _))| *at <= now && !is_met(id, name));
        wanted.extend(due.map(|((id, name), (_, number))| (id.clone(), name.clone(), *number)));
        for (id, name, _) in &wanted {
            self.due.remove(&(id.clone(), name.clone()));
        }
        Ok(Some(wanted))
    }

    /// Records when a series becomes due.
    pub(crate) fn note(&mut self, (id, name, number): PolicySeries, due: Option<i64>) {
        let Some(due) = due else { return };
        if self.due.len() < SERIES_MAX {
            self.due.insert((id, name), (due, number));
        } else {
            self.due_of_others = Some(self.due_of_others.map_or(due, |known| known.min(due)));
        }
    }
}

/// The name of a client-written series as spelled by its first entry, for the series or one of its rollups.
fn spelled(
    tx: &ReadTransaction,
    id: &DocumentId,
    name: &str,
) -> Result<TimeSeriesName, DocumentError> {
    let raw_of = |name: &str| {
        let raw = name.split_once('@').map_or(name, |(raw, _)| raw);
        TimeSeriesName::new(raw).map_err(DocumentError::from)
    };
    let raw = raw_of(name)?;
    if let Some(found) = series(tx, id, &raw)? {
        return raw_of(&found.name);
    }
    match series(tx, id, &TimeSeriesName::new(name)?)? {
        Some(rollup) => raw_of(&rollup.name),
        None => Ok(raw),
    }
}

/// One page of all series, and the key after it.
pub(crate) fn page_of_all(
    tx: &ReadTransaction,
    from: &[u8],
) -> Result<(Vec<PolicySeries>, Option<Vec<u8>>), DocumentError> {
    let (found, after) = series_page(tx, from, SERIES_PAGE)?;
    let mut page: Vec<PolicySeries> = Vec::with_capacity(found.len());
    for (id, name, number) in found {
        let raw = spelled(tx, &id, name.as_str())?;
        // A rollup is handled with its series if that exists; otherwise it is handled once.
        let is_met = name.is_rollup()
            && (series(tx, &id, &raw)?.is_some()
                || page.iter().any(|(known, known_raw, _)| *known == id && *known_raw == raw));
        if !is_met {
            page.push((id, raw, number));
        }
    }
    Ok((page, after))
}
