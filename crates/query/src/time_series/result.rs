//! The result of a time series query as JSON: entries, or groups of them.

use blittable::write_json_string;
use model::date;
use model::ticks::{TICKS_MAX, TICKS_PER_MILLISECOND};
use storage::WorkingMemory;
use timeseries::Entry;

use crate::error::QueryError;
use crate::time_series::aggregation::Aggregation;
use crate::time_series::groups::Group;
use crate::time_series::numbers::{Numbers, write_number};
use crate::time_series::planned::Column;

/// Maximum size of the entries or groups of one series, in bytes of JSON.
const RESULT_BYTES_MAX: usize = 1 << 28;

/// A list of entries or groups being written, with a separator between them.
pub(crate) struct SeriesResult<'r> {
    pub(crate) json: Vec<u8>,
    pub(crate) memory: &'r WorkingMemory,
    /// How many bytes of the text are charged.
    pub(crate) counted: u64,
    /// The number of entries or groups.
    pub(crate) items: u64,
    /// Precedes the members of each, after its opening brace.
    pub(crate) prefix: &'r [u8],
    pub(crate) separator: &'r [u8],
    pub(crate) numbers: Numbers,
    pub(crate) scale: f64,
    pub(crate) offset: Option<i64>,
}

impl SeriesResult<'_> {
    pub(crate) fn push_entry(
        &mut self,
        entry: Entry<'_>,
        is_rollup: bool,
    ) -> Result<(), QueryError> {
        self.begin()?;
        self.json.extend_from_slice(b"\"Tag\":");
        match entry.tag {
            Some(tag) => write_json_string(tag, &mut self.json),
            None => self.json.extend_from_slice(b"null"),
        }
        self.json.extend_from_slice(b",\"Timestamp\":");
        let moment = self.moved(entry.timestamp_ms.saturating_mul(TICKS_PER_MILLISECOND));
        self.push_moment(moment, self.offset.is_none());
        self.json.extend_from_slice(b",\"Values\":");
        let scale = self.scale;
        self.push_numbers(entry.values.iter().map(|value| value * scale));
        self.json.extend_from_slice(match is_rollup {
            true => b",\"IsRollup\":true}",
            false => b",\"IsRollup\":false}",
        });
        Ok(())
    }

    /// `range` are the ends of the requested range, used for a group that is not divided by time.
    pub(crate) fn push_group(
        &mut self,
        group: &Group,
        range: (Option<i64>, Option<i64>),
        columns: &[Column],
    ) -> Result<(), QueryError> {
        self.begin()?;
        let (from, to) = match group.stretch {
            Some(stretch) => (Some(stretch.start), Some(stretch.end)),
            None => range,
        };
        // The ends of a range were given in UTC, and stay so.
        let is_utc = self.offset.is_none() || group.stretch.is_none();
        for (name, moment) in [("\"From\":", from), (",\"To\":", to)] {
            self.json.extend_from_slice(name.as_bytes());
            match moment {
                Some(moment) => self.push_moment(moment, is_utc),
                None => self.json.extend_from_slice(b"null"),
            }
        }
        self.json.extend_from_slice(b",\"Key\":");
        self.json.extend_from_slice(&group.key);
        for (place, column) in columns.iter().enumerate() {
            self.json.push(b',');
            write_json_string(&column.name, &mut self.json);
            self.json.push(b':');
            let scale = if column.aggregation == Aggregation::Count { 1.0 } else { self.scale };
            self.push_numbers(group.results_of(place).iter().map(|result| result * scale));
        }
        self.json.push(b'}');
        Ok(())
    }

    /// Appends the whole of it.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), QueryError> {
        self.memory.take(self.json.len() as u64)?;
        out.reserve_exact(self.json.len());
        out.extend_from_slice(&self.json);
        Ok(())
    }

    /// A timestamp as the result shows it.
    pub(crate) fn moved(&self, moment: i64) -> i64 {
        moment.saturating_add(self.offset.unwrap_or(0)).clamp(0, TICKS_MAX)
    }

    fn begin(&mut self) -> Result<(), QueryError> {
        if RESULT_BYTES_MAX < self.json.len() {
            let message = format!(
                "The result of one time series has more than {RESULT_BYTES_MAX} bytes; ask for a \
                 part of the time, for longer groups, or stream the series"
            );
            return Err(QueryError::InvalidOperation { message });
        }
        self.memory.grow(&mut self.counted, self.json.capacity() as u64)?;
        if 0 < self.items {
            self.json.extend_from_slice(self.separator);
        }
        self.items += 1;
        self.json.push(b'{');
        self.json.extend_from_slice(self.prefix);
        Ok(())
    }

    fn push_moment(&mut self, moment: i64, is_utc: bool) {
        let text = date::text(moment);
        let text = if is_utc { &text[..] } else { &text[..text.len() - 1] };
        self.json.push(b'"');
        self.json.extend_from_slice(text);
        self.json.push(b'"');
    }

    fn push_numbers(&mut self, numbers: impl Iterator<Item = f64>) {
        self.json.push(b'[');
        for (place, number) in numbers.enumerate() {
            if 0 < place {
                self.json.push(b',');
            }
            write_number(number, self.numbers, &mut self.json);
        }
        self.json.push(b']');
    }
}
