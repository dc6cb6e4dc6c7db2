//! How the rows of a query contain time series results.

use blittable::write_json_string;
use storage::WorkingMemory;

use crate::error::QueryError;
use crate::time_series::condition::TagDocuments;
use crate::time_series::evaluation::{RowDocuments, Surroundings};
use crate::time_series::numbers::Numbers;
use crate::time_series::planned::PlannedSeries;
use crate::time_series::reader::SeriesReader;
use crate::time_series::result::SeriesResult;
use crate::time_series::settings::SeriesSettings;

/// The format of the response, which determines that of its time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeriesForm {
    /// An object with the number of entries and the results.
    #[default]
    Page,
    /// An array of the results.
    Stream,
    /// A row for each result.
    Table,
}

/// What rows need to write time series results.
pub(crate) struct SeriesShown<'s> {
    pub(crate) reader: &'s dyn SeriesReader,
    pub(crate) tags: &'s dyn TagDocuments,
    pub(crate) settings: &'s dyn SeriesSettings,
    /// Whether the names of values are reported.
    pub(crate) reports_value_names: bool,
    pub(crate) form: SeriesForm,
    /// Where the results are charged while they are produced.
    pub(crate) memory: &'s WorkingMemory,
}

impl SeriesShown<'_> {
    /// The entries or groups of `series` for a row, and how many entries were read. `prefix`
    /// precedes the members of each, `separator` separates them.
    fn results<'r>(
        &'r self,
        series: &PlannedSeries,
        row: RowDocuments<'_, '_>,
        prefix: &'r [u8],
        separator: &'r [u8],
    ) -> Result<(u64, SeriesResult<'r>), QueryError> {
        let mut result = SeriesResult {
            json: Vec::new(),
            memory: self.memory,
            counted: 0,
            items: 0,
            prefix,
            separator,
            numbers: match self.form {
                SeriesForm::Page | SeriesForm::Stream => Numbers::Doubles,
                SeriesForm::Table => Numbers::Short,
            },
            scale: series.scale.unwrap_or(1.0),
            offset: series.offset,
        };
        let surroundings =
            Surroundings { reader: self.reader, tags: self.tags, settings: self.settings };
        let count = series.evaluate(row, &surroundings, &mut result)?;
        Ok((count, result))
    }

    /// Appends `"Count":…,"Results":[…]`.
    pub(crate) fn write_members(
        &self,
        series: &PlannedSeries,
        row: RowDocuments<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let (count, result) = self.results(series, row, b"", b",")?;
        out.extend_from_slice(format!("\"Count\":{count},\"Results\":[").as_bytes());
        result.append_to(out)?;
        out.push(b']');
        Ok(())
    }

    /// Appends the value of a field.
    pub(crate) fn write_value(
        &self,
        series: &PlannedSeries,
        row: RowDocuments<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if self.form == SeriesForm::Page {
            out.push(b'{');
            self.write_members(series, row, out)?;
            if self.reports_value_names {
                out.extend_from_slice(b",\"@metadata\":{");
                self.write_names(series, row, out)?;
                if out.last() == Some(&b',') {
                    out.pop();
                }
                out.push(b'}');
            }
            out.push(b'}');
            return Ok(());
        }
        let (_, result) = self.results(series, row, b"", b",")?;
        out.push(b'[');
        result.append_to(out)?;
        out.push(b']');
        Ok(())
    }

    /// Appends a row for each result, `prefix` before its members and `between` after it.
    pub(crate) fn write_rows(
        &self,
        series: &PlannedSeries,
        row: RowDocuments<'_, '_>,
        prefix: &[u8],
        between: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        let (_, result) = self.results(series, row, prefix, between)?;
        result.append_to(out)?;
        Ok(())
    }

    /// Appends the names of the values as a metadata property, followed by a comma; nothing when
    /// they have none or are not requested.
    pub(crate) fn write_names(
        &self,
        series: &PlannedSeries,
        row: RowDocuments<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), QueryError> {
        if !self.reports_value_names {
            return Ok(());
        }
        let Some(names) = series.value_names(row, self.settings)? else { return Ok(()) };
        out.extend_from_slice(b"\"@timeseries-named-values\":[");
        for (place, name) in names.iter().enumerate() {
            if 0 < place {
                out.push(b',');
            }
            write_json_string(name, out);
        }
        out.extend_from_slice(b"],");
        Ok(())
    }
}
