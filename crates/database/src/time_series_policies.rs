//! The policies of time series: rollups are brought up to date, and old entries deleted.
//!
//! Everything is read from snapshots and written by commands, like that of anybody. A rollup comes
//! before the deletion of what it is made of, and knows itself how far it is; so a look that ends in the
//! middle is gone on with by the next.

use commands::{Batch, Command};
use documents::{
    DocumentError, ErrorKind,
    time_series::{
        Entries, Frame, MomentRange, Rollup, RollupRight, TICKS_PER_MILLISECOND, TimeSeriesChange,
        moment_before, series, series_page,
    },
};
use model::{CollectionName, DocumentId, TimeSeriesName};
use wire::{CollectionPolicies, TimeSeriesConfiguration, TimeValue};

use crate::open_database::Database;

/// Series that are looked up at once.
const SERIES_PAGE: usize = 256;
/// Entries of one step of a rollup, and of one batch of it.
const ENTRIES_PER_STEP: usize = 1 << 16;
const ENTRIES_PER_BATCH: usize = 1 << 12;

/// Does what the policies of a database say of all that is older than now; gives how many entries were
/// made.
pub(crate) fn apply(
    database: &Database,
    configuration: &TimeSeriesConfiguration,
    now_ticks: i64,
) -> Result<u64, String> {
    let look = Look { database, now: now_ticks / TICKS_PER_MILLISECOND };
    let text = |error: DocumentError| error.to_string();
    let collections = look.numbered(configuration).map_err(text)?;
    let mut made = 0;
    let mut next = (!collections.is_empty()).then(Vec::new);
    while let Some(from) = next {
        let (page, behind) = series_page(&database.read(), &from, SERIES_PAGE).map_err(text)?;
        next = behind;
        for (id, name, number) in page {
            let of_number = collections.iter().find(|(known, _)| *known == number);
            let Some((_, policies)) = of_number.filter(|_| !name.is_rollup()) else { continue };
            if database.is_closing() {
                return Ok(made);
            }
            made += look.apply_to_series(&id, &name, policies)?;
        }
    }
    Ok(made)
}

struct Look<'a> {
    database: &'a Database,
    /// In milliseconds since the year 1.
    now: i64,
}

impl Look<'_> {
    /// The collections that there are, by their numbers.
    fn numbered<'c>(
        &self,
        configuration: &'c TimeSeriesConfiguration,
    ) -> Result<Vec<(u32, &'c CollectionPolicies)>, DocumentError> {
        let tx = self.database.read();
        let mut numbered = Vec::new();
        for policies in &configuration.collections {
            let name = CollectionName::new(policies.collection.as_str())?;
            let found = documents::collection(&tx, &name)?;
            numbered.extend(found.map(|found| (found.number, policies)));
        }
        Ok(numbered)
    }

    fn apply_to_series(
        &self,
        id: &DocumentId,
        raw: &TimeSeriesName,
        policies: &CollectionPolicies,
    ) -> Result<u64, String> {
        let mut made = 0;
        let mut sources = vec![(raw.clone(), policies.raw_retention)];
        for policy in &policies.policies {
            // A name that becomes too long has no rollup.
            let Ok(target) = raw.rollup(&policy.name) else { break };
            let Some(frame) = frame_of(policy.aggregation) else { break };
            let Some((source, retention)) = sources.last() else { break };
            let (id, source) = (id.clone(), source.clone());
            let rollup =
                Rollup { id, source, target, frame, kept_from: self.kept_from(*retention) };
            made += self.bring_up_to_date(&rollup)?;
            sources.push((rollup.target, policy.retention));
        }
        for (name, retention) in &sources {
            self.delete_old(id, name, self.kept_from(*retention))?;
        }
        Ok(made)
    }

    /// The first moment whose entries are kept.
    fn kept_from(&self, retention: TimeValue) -> i64 {
        frame_of(retention).map_or(0, |span| moment_before(self.now, span).max(0))
    }

    fn bring_up_to_date(&self, rollup: &Rollup) -> Result<u64, String> {
        let mut made = 0;
        loop {
            let step = rollup.step(&self.database.read(), self.now, ENTRIES_PER_STEP);
            let Some(step) = step.map_err(|error| error.to_string())? else { return Ok(made) };
            made += step.entries.len() as u64;
            let mut batches = in_batches(&step.entries);
            let last = batches.pop().unwrap_or_default();
            for entries in batches {
                self.write(rollup, |change| change.appends = entries)?;
            }
            let is_written = self.write(rollup, |change| {
                change.appends = last;
                change.rolled_up = Some(step.rolled_up);
            })?;
            if !step.has_more || !is_written || self.database.is_closing() {
                return Ok(made);
            }
        }
    }

    /// Whether the document was still there.
    fn write(
        &self,
        rollup: &Rollup,
        fill: impl FnOnce(&mut TimeSeriesChange),
    ) -> Result<bool, String> {
        let mut change = TimeSeriesChange::new(rollup.id.clone(), rollup.target.clone());
        change.rollup_right = RollupRight::OfPolicy;
        fill(&mut change);
        self.submit(change)
    }

    fn delete_old(
        &self,
        id: &DocumentId,
        name: &TimeSeriesName,
        kept_from: i64,
    ) -> Result<(), String> {
        let found = series(&self.database.read(), id, name);
        let found = found.map_err(|error| error.to_string())?;
        if found.is_none_or(|found| kept_from <= found.start_ms) {
            return Ok(());
        }
        let mut change = TimeSeriesChange::new(id.clone(), name.clone());
        change.rollup_right = RollupRight::OfPolicy;
        change.deletes.push(MomentRange { from: 0, to: kept_from - 1 });
        self.submit(change).map(|_| ())
    }

    /// Whether it was done; a document that is gone by now needs nothing.
    fn submit(&self, change: TimeSeriesChange) -> Result<bool, String> {
        let batch = Batch::one(Command::ChangeTimeSeries(Box::new(change)));
        match self.database.queue().submit_and_wait(batch).map_err(|error| error.to_string())? {
            Ok(_) => Ok(true),
            Err(commands::CommandError::Document(error)) if error.kind() == ErrorKind::Caller => {
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The frames of a span of time; `None` when it has no end.
pub fn frame_of(span: TimeValue) -> Option<Frame> {
    match span {
        TimeValue::ForEver => None,
        TimeValue::Seconds(seconds) => Some(Frame::Seconds(seconds)),
        TimeValue::Months(months) => Some(Frame::Months(months)),
    }
}

fn in_batches(entries: &Entries) -> Vec<Entries> {
    let mut batches = Vec::new();
    let mut batch = Entries::default();
    for entry in entries.iter() {
        batch.push(entry);
        if batch.len() == ENTRIES_PER_BATCH {
            batches.push(std::mem::take(&mut batch));
        }
    }
    batches.push(batch);
    batches
}
