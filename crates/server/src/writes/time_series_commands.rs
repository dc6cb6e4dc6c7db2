//! Commands that change time series.

use commands::{Command, CommandResult};
use documents::{
    DocumentError,
    time_series::{
        CopyTimeSeries, InvalidTimeSeries, MOMENT_MAX, MomentRange, TimeSeriesChange,
        TimeSeriesWritten,
    },
};
use engine::RecordedSeries;
use model::{DocumentId, TimeSeriesName, date, ticks::TICKS_PER_MILLISECOND};
use wire::{TimeSeriesBody, TimeSeriesCommand};

use crate::{
    answers::json_text::JsonObject,
    api_error::ApiError,
    writes::answered::{Answered, CommandAnswer, foreign_result},
};

/// What is printed of a command besides its result.
pub(crate) struct TimeSeriesAnswer {
    /// The type of the command as in the request.
    kind: &'static str,
}

/// The command as the engine executes it.
pub(crate) fn answered(
    command: TimeSeriesCommand,
    series: &RecordedSeries,
) -> Result<Answered<TimeSeriesAnswer>, ApiError> {
    Ok(match command {
        TimeSeriesCommand::Change { id, changes, kind, is_from_etl } => {
            let mut change = requested_change(&id, *changes, series)?;
            change.ignores_missing = is_from_etl;
            Answered::one(Command::ChangeTimeSeries(Box::new(change)), TimeSeriesAnswer { kind })
        }
        TimeSeriesCommand::Copy(copy) => {
            Answered::one(copy_command(copy)?, TimeSeriesAnswer { kind: "TimeSeriesCopy" })
        }
    })
}

impl CommandAnswer for TimeSeriesAnswer {
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError> {
        let Some(CommandResult::TimeSeriesWritten(written)) = result else {
            return Err(foreign_result(result));
        };
        write_written(written, self.kind, body);
        Ok(())
    }
}

fn write_written(written: &TimeSeriesWritten, kind: &str, body: &mut Vec<u8>) {
    let mut object = JsonObject::begin(body);
    object.text("Id", written.id.as_str());
    let version = written.change_vector.as_ref().map(|version| version.as_str());
    object.optional_text("ChangeVector", version);
    object.text("Type", kind);
    object.end();
}

/// The name of a series.
pub(crate) fn series_name(text: &str) -> Result<TimeSeriesName, ApiError> {
    TimeSeriesName::new(text)
        .map_err(|error| ApiError::from(DocumentError::from(InvalidTimeSeries::NameTooLong(error))))
}

/// The command for the changes in a body.
pub(crate) fn change_command(
    id: &str,
    body: TimeSeriesBody,
    series: &RecordedSeries,
) -> Result<Command, ApiError> {
    Ok(Command::ChangeTimeSeries(Box::new(requested_change(id, body, series)?)))
}

/// The changes in a body.
pub(crate) fn requested_change(
    id: &str,
    body: TimeSeriesBody,
    series: &RecordedSeries,
) -> Result<TimeSeriesChange, ApiError> {
    let mut change = TimeSeriesChange::new(DocumentId::new(id)?, series_name(&body.name)?);
    change.rollup_right = series.rollup_right(&change.name);
    change.deletes = body.deletes.into_iter().map(|(from, to)| range_of(from, to)).collect();
    change.appends = body.appends;
    change.increments = body.increments;
    Ok(change)
}

fn range_of(from: Option<i64>, to: Option<i64>) -> MomentRange {
    MomentRange { from: from.unwrap_or(0), to: to.unwrap_or(MOMENT_MAX) }
}

/// The command that copies entries between two series.
fn copy_command(copy: wire::TimeSeriesCopyBody) -> Result<Command, ApiError> {
    Ok(Command::CopyTimeSeries(Box::new(CopyTimeSeries {
        id: DocumentId::new(copy.id)?,
        name: series_name(&copy.name)?,
        destination_id: DocumentId::new(copy.destination_id)?,
        destination_name: series_name(&copy.destination_name)?,
        range: range_of(copy.from, copy.to),
    })))
}

/// The moment as text.
pub(crate) fn moment_text(moment: i64) -> String {
    date::format(moment.saturating_mul(TICKS_PER_MILLISECOND))
}
