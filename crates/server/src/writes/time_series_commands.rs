//! Changes of time series: from requests to commands.

use commands::Command;
use documents::DocumentError;
use documents::time_series::{
    CopyTimeSeries, InvalidTimeSeries, MOMENT_MAX, MomentRange, TimeSeriesChange,
};
use model::{DocumentId, TimeSeriesName, date, ticks::TICKS_PER_MILLISECOND};
use wire::TimeSeriesBody;

use engine::RecordedSeries;

use crate::api_error::ApiError;

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
    let mut change = TimeSeriesChange::new(DocumentId::new(id)?, series_name(&body.name)?);
    change.rollup_right = series.rollup_right(&change.name);
    change.deletes = body.deletes.into_iter().map(|(from, to)| range_of(from, to)).collect();
    change.appends = body.appends;
    change.increments = body.increments;
    Ok(Command::ChangeTimeSeries(Box::new(change)))
}

fn range_of(from: Option<i64>, to: Option<i64>) -> MomentRange {
    MomentRange { from: from.unwrap_or(0), to: to.unwrap_or(MOMENT_MAX) }
}

/// The command that copies entries between two series.
pub(crate) fn copy_command(copy: wire::TimeSeriesCopyBody) -> Result<Command, ApiError> {
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
