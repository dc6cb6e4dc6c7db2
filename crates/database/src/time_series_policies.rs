//! Applies the policies of time series: updates rollups and deletes old entries.
//!
//! Everything is read from snapshots and written by ordinary commands. A rollup is updated before its source
//! entries are deleted, and stores its own progress, so an interrupted run is continued by the next one.

use std::sync::Arc;

use commands::{Batch, Command};
use documents::{
    DocumentError, ErrorKind,
    time_series::{
        Entries, Frame, MOMENT_MAX, MomentRange, Rollup, RollupRight, SeriesReader,
        TimeSeriesChange, moment_before, moment_behind, series,
    },
};
use model::{
    CollectionName, CollectionPolicies, DocumentId, TimeSeriesConfiguration, TimeSeriesName,
    TimeValue, ticks::TICKS_PER_MILLISECOND,
};

use crate::{
    open_database::Database,
    policy_position::{PolicyPosition, PolicySeries, Wanted, page_of_all},
};

/// Entries read in one step of a rollup, and written in one batch.
const ENTRIES_PER_STEP: usize = 1 << 16;
const ENTRIES_PER_BATCH: usize = 1 << 12;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Applied {
    /// Number of series processed.
    pub(crate) series: u64,
    /// Number of rollup entries written.
    pub(crate) entries: u64,
}

/// Applies the policies of a database to everything that is due and was not handled by earlier runs.
pub(crate) fn apply(
    database: &Database,
    configuration: &Arc<TimeSeriesConfiguration>,
    position: &mut PolicyPosition,
    now_ticks: i64,
) -> Result<Applied, String> {
    // The new position is stored only if the run succeeds.
    let mut new = std::mem::take(position);
    let mut look = Look {
        database,
        now: now_ticks / TICKS_PER_MILLISECOND,
        applied: Applied::default(),
        position: &mut new,
    };
    let is_done = look.run(configuration)?;
    let applied = look.applied;
    if is_done {
        *position = new;
    }
    Ok(applied)
}

struct Look<'a> {
    database: &'a Database,
    /// Milliseconds since the year 1.
    now: i64,
    applied: Applied,
    position: &'a mut PolicyPosition,
}

impl Look<'_> {
    /// `false` if the database is being closed.
    fn run(&mut self, configuration: &Arc<TimeSeriesConfiguration>) -> Result<bool, String> {
        let text = |error: DocumentError| error.to_string();
        self.database.tombstone_holders().policies_look();
        let tx = self.database.read();
        let collections = self.numbered(configuration).map_err(text)?;
        let wanted = self.position.begin(self.database, &tx, configuration, self.now);
        let wanted = wanted.map_err(text)?;
        drop(tx);
        match wanted {
            Wanted::Some(series) => self.apply_to(series, &collections),
            Wanted::All => {
                let mut next = (!collections.is_empty()).then(Vec::new);
                while let Some(from) = next {
                    let (page, after) = page_of_all(&self.database.read(), &from).map_err(text)?;
                    next = after;
                    if !self.apply_to(page, &collections)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn apply_to(
        &mut self,
        series: Vec<PolicySeries>,
        collections: &[(u32, &CollectionPolicies)],
    ) -> Result<bool, String> {
        for (id, name, number) in series {
            let of_number = collections.iter().find(|(known, _)| *known == number);
            let Some((_, policies)) = of_number else { continue };
            if self.database.is_closing() {
                return Ok(false);
            }
            self.applied.series += 1;
            let due = self.apply_to_series(&id, &name, policies)?;
            self.position.note((id, name, number), due);
        }
        Ok(true)
    }

    /// The existing collections, by number.
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

    /// Returns when the series is next due, provided it does not change.
    fn apply_to_series(
        &mut self,
        id: &DocumentId,
        raw: &TimeSeriesName,
        policies: &CollectionPolicies,
    ) -> Result<Option<i64>, String> {
        let mut frames = Vec::new();
        let mut sources =
            vec![Kept { name: raw.clone(), retention: policies.raw_retention, frame: None }];
        for policy in &policies.policies {
            // If the name of the rollup would be too long, there is no rollup.
            let Ok(target) = raw.rollup(&policy.name) else { break };
            let Some(frame) = frame_of(policy.aggregation) else { break };
            let Some(kept) = sources.last() else { break };
            let (id, source, kept_from) = (id.clone(), kept.name.clone(), kept.from(self.now));
            let rollup = Rollup { id, source, target, frame, kept_from };
            self.applied.entries += self.bring_up_to_date(&rollup)?;
            frames.push((rollup.source, frame));
            let (name, retention) = (rollup.target, policy.retention);
            sources.push(Kept { name, retention, frame: Some(frame) });
        }
        for kept in &sources {
            self.delete_old(id, &kept.name, kept.from(self.now))?;
        }
        self.next_due(id, &frames, &sources).map_err(|error| error.to_string())
    }

    /// When the next frame with entries ends, or the first entry becomes too old.
    fn next_due(
        &self,
        id: &DocumentId,
        frames: &[(TimeSeriesName, Frame)],
        all_kept: &[Kept],
    ) -> Result<Option<i64>, DocumentError> {
        let tx = self.database.read();
        let mut due = Vec::new();
        for (source, frame) in frames {
            let open = MomentRange { from: frame.start(self.now), to: MOMENT_MAX };
            let mut reader = SeriesReader::new(&tx, id, source, open)?;
            due.extend(reader.next_entry()?.map(|entry| frame.next(entry.timestamp_ms)));
        }
        for Kept { name, retention, frame } in all_kept {
            if let (Some(span), Some(found)) = (frame_of(*retention), series(&tx, id, name)?) {
                let first = found.start_ms;
                let end = frame.map_or(first, |frame| frame.next(first));
                due.push(moment_behind(end, span));
            }
        }
        Ok(due.into_iter().min())
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

    /// Returns whether the document still existed.
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

    /// Returns whether it was applied; if the document is gone, nothing is needed.
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

/// How long the entries of a series are kept.
struct Kept {
    name: TimeSeriesName,
    retention: TimeValue,
    /// The frame of the entries; `None` for entries written by clients.
    frame: Option<Frame>,
}

impl Kept {
    /// The first moment whose entries are still kept at `now`. A frame is kept until all of it is too old.
    fn from(&self, now: i64) -> i64 {
        let Some(span) = frame_of(self.retention) else { return 0 };
        let first = moment_before(now, span).max(0);
        self.frame.map_or(first, |frame| frame.start(first))
    }
}

/// The frame of a time span; `None` if the span is unlimited.
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
