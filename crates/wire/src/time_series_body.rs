//! The changes of one time series, as encoded in requests and batches.

use blittable::{JsonKind, JsonReader, ParseError};
use model::date;
use model::ticks::{TICKS_MAX, TICKS_PER_MILLISECOND, UNIX_EPOCH_TICKS};
use timeseries::{Entries, Entry, VALUES_MAX};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{BODY_ENDED, json_error, token_name};

/// 1 January 1970, in milliseconds since the year 1.
const UNIX_EPOCH_MS: i64 = UNIX_EPOCH_TICKS / TICKS_PER_MILLISECOND;
/// Requests with more deletions than this are refused.
const DELETES_MAX: usize = 1 << 16;
/// Values after this one are counted but not kept: the entry has too many in any case.
const VALUES_KEPT: usize = VALUES_MAX + 1;

/// First and last moment of a range to delete; `None` leaves the range open.
pub type DeletedRange = (Option<i64>, Option<i64>);

/// Changes of one time series. Times are milliseconds since the year 1.
#[derive(Debug, Default)]
pub struct TimeSeriesBody {
    /// The series.
    pub name: String,
    /// Entries to write.
    pub appends: Entries,
    /// Ranges to delete.
    pub deletes: Vec<DeletedRange>,
    /// Values to add.
    pub increments: Entries,
}

/// Entries to copy from one series to another.
#[derive(Debug, Default)]
pub struct TimeSeriesCopyBody {
    /// The source document.
    pub id: String,
    /// The series at the source.
    pub name: String,
    /// The destination document.
    pub destination_id: String,
    /// The series at the destination.
    pub destination_name: String,
    /// First moment; `None` for an open range.
    pub from: Option<i64>,
    /// Last moment; `None` for an open range.
    pub to: Option<i64>,
}

/// Reads a body with the changes of one series.
pub fn read_time_series(body: &[u8]) -> Result<TimeSeriesBody, ProtocolError> {
    let mut reader = JsonReader::new(body);
    read_time_series_value(&mut reader)
}

/// Reads the next value: the changes of one series.
pub(crate) fn read_time_series_value(
    reader: &mut JsonReader<'_>,
) -> Result<TimeSeriesBody, ProtocolError> {
    if reader.peek().map_err(broken)? != JsonKind::Object {
        let found = token_name(reader).map_err(broken)?;
        let message = format!("Expected start of object, but got {found}");
        return Err(ProtocolError::new(ErrorKind::InvalidStartOfObject, message));
    }
    reader.begin_object().map_err(broken)?;
    let (mut name, mut body) = (None, TimeSeriesBody::default());
    let mut unit = MomentUnit::DotNetTicks;
    while let Some(property) = reader.next_name().map_err(broken)? {
        match property.as_ref() {
            "Name" => name = read_text(reader)?,
            "Appends" => read_entries(reader, unit, &mut body.appends)?,
            "Increments" => read_entries(reader, unit, &mut body.increments)?,
            "Deletes" => body.deletes = read_deletes(reader)?,
            "TimeFormat" => {
                let read_so_far =
                    std::mem::replace(&mut unit, MomentUnit::of(read_text(reader)?.as_deref())?);
                if read_so_far != unit && !body.appends.is_empty() {
                    let message = "'TimeFormat' must come before 'Appends'";
                    return Err(invalid_data(message.to_owned()));
                }
            }
            _ => reader.skip_value().map_err(broken)?,
        }
    }
    let missing = || {
        invalid_data("Missing 'Name' property on TimeSeriesOperation 'TimeSeriesOperation'".into())
    };
    body.name = name.ok_or_else(missing)?;
    Ok(body)
}

/// The unit of timestamps in a bulk insert: .NET ticks unless the body says otherwise, because the .NET
/// client writes ticks without saying so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MomentUnit {
    DotNetTicks,
    UnixMilliseconds,
}

impl MomentUnit {
    fn of(name: Option<&str>) -> Result<Self, ProtocolError> {
        match name {
            None | Some("DotNetTicks") => Ok(Self::DotNetTicks),
            Some("UnixTimeInMs") => Ok(Self::UnixMilliseconds),
            Some(other) => {
                let message = format!("Requested value '{other}' was not found.");
                Err(ProtocolError::argument(message))
            }
        }
    }

    /// Milliseconds since the year 1, if the time is in the years 1 to 9999.
    fn moment(self, number: i64) -> Option<i64> {
        let milliseconds = match self {
            Self::DotNetTicks => number.div_euclid(TICKS_PER_MILLISECOND),
            Self::UnixMilliseconds => number.checked_add(UNIX_EPOCH_MS)?,
        };
        let last = TICKS_MAX / TICKS_PER_MILLISECOND;
        (0..=last).contains(&milliseconds).then_some(milliseconds)
    }
}

fn read_entries(
    reader: &mut JsonReader<'_>,
    unit: MomentUnit,
    entries: &mut Entries,
) -> Result<(), ProtocolError> {
    if reader.read_null_if_next().map_err(broken)? {
        return Ok(());
    }
    expect(reader, JsonKind::Array, "Sparrow.Json.BlittableJsonReaderArray")?;
    reader.begin_array().map_err(broken)?;
    let mut values = Vec::new();
    while reader.next_element().map_err(broken)? {
        values.clear();
        match reader.peek().map_err(broken)? {
            JsonKind::Array => read_packed_entry(reader, unit, &mut values, entries)?,
            _ => read_entry(reader, &mut values, entries)?,
        }
    }
    Ok(())
}

/// `{"Timestamp": .., "Values": [..], "Tag": ..}`.
fn read_entry(
    reader: &mut JsonReader<'_>,
    values: &mut Vec<f64>,
    entries: &mut Entries,
) -> Result<(), ProtocolError> {
    expect(reader, JsonKind::Object, "Sparrow.Json.BlittableJsonReaderObject")?;
    reader.begin_object().map_err(broken)?;
    let (mut timestamp_ms, mut has_values, mut tag) = (None, false, None);
    while let Some(property) = reader.next_name().map_err(broken)? {
        match property.as_ref() {
            "Timestamp" => timestamp_ms = read_moment(reader)?,
            "Values" => {
                values.clear();
                has_values = read_values(reader, values)?;
            }
            "Tag" => tag = read_text(reader)?,
            _ => reader.skip_value().map_err(broken)?,
        }
    }
    let missing = |name: &str| invalid_data(format!("Missing '{name}' property"));
    let timestamp_ms = timestamp_ms.ok_or_else(|| missing("Timestamp"))?;
    if !has_values {
        return Err(missing("Values"));
    }
    entries.push(Entry { timestamp_ms, values, tag: tag.as_deref() });
    Ok(())
}

/// `[timestamp, number of values, values.., tag]`; the tag is optional. The form used by bulk inserts.
fn read_packed_entry(
    reader: &mut JsonReader<'_>,
    unit: MomentUnit,
    values: &mut Vec<f64>,
    entries: &mut Entries,
) -> Result<(), ProtocolError> {
    let short = || invalid_data("An entry of a time series has too few elements".to_owned());
    reader.begin_array().map_err(broken)?;
    let number = |reader: &mut JsonReader<'_>| match reader.next_element().map_err(broken)? {
        true => reader.read_i64().map_err(broken),
        false => Err(short()),
    };
    let moment = number(reader)?;
    let outside = || {
        let message = format!("{moment} is not a timestamp of the years 1 to 9999");
        ProtocolError::new(ErrorKind::ArgumentOutOfRange, message)
    };
    let timestamp_ms = unit.moment(moment).ok_or_else(outside)?;
    let count = number(reader)?;
    for _ in 0..count {
        if !reader.next_element().map_err(broken)? {
            return Err(short());
        }
        let value = read_value(reader)?;
        if values.len() < VALUES_KEPT {
            values.push(value);
        }
    }
    let mut tag = None;
    while reader.next_element().map_err(broken)? {
        tag = read_text(reader)?;
    }
    entries.push(Entry { timestamp_ms, values, tag: tag.as_deref() });
    Ok(())
}

/// Returns whether there are values.
fn read_values(reader: &mut JsonReader<'_>, values: &mut Vec<f64>) -> Result<bool, ProtocolError> {
    if reader.read_null_if_next().map_err(broken)? {
        return Ok(false);
    }
    expect(reader, JsonKind::Array, "Sparrow.Json.BlittableJsonReaderArray")?;
    reader.begin_array().map_err(broken)?;
    while reader.next_element().map_err(broken)? {
        let value = read_value(reader)?;
        if values.len() < VALUES_KEPT {
            values.push(value);
        }
    }
    Ok(true)
}

/// A number, or a value that the protocol accepts as one.
fn read_value(reader: &mut JsonReader<'_>) -> Result<f64, ProtocolError> {
    match reader.peek().map_err(broken)? {
        JsonKind::Null => reader.read_null_if_next().map(|_| 0.0).map_err(broken),
        JsonKind::Bool => reader.read_bool().map(|is| if is { 1.0 } else { 0.0 }).map_err(broken),
        JsonKind::Number => {
            let text = reader.read_number().map_err(broken)?;
            text.parse().map_err(|_| not_convertible("Sparrow.Json.LazyNumberValue", text, DOUBLE))
        }
        JsonKind::String => {
            let text = reader.read_str().map_err(broken)?;
            let found = text.trim().parse();
            found.map_err(|_| not_convertible("Sparrow.Json.LazyStringValue", &text, DOUBLE))
        }
        JsonKind::Array | JsonKind::Object => Err(mismatch(reader, DOUBLE)?),
    }
}

const DOUBLE: &str = "System.Double";
const DATE_TIME: &str = "System.DateTime";

/// Reads a date as milliseconds since the year 1, or null.
pub(crate) fn read_moment(reader: &mut JsonReader<'_>) -> Result<Option<i64>, ProtocolError> {
    if reader.read_null_if_next().map_err(broken)? {
        return Ok(None);
    }
    if reader.peek().map_err(broken)? != JsonKind::String {
        return Err(mismatch(reader, DATE_TIME)?);
    }
    let text = reader.read_str().map_err(broken)?;
    match date::parse(&text) {
        Some(date) => Ok(Some(date.utc_ticks().div_euclid(TICKS_PER_MILLISECOND))),
        None => Err(not_convertible("Sparrow.Json.LazyStringValue", &text, DATE_TIME)),
    }
}

fn read_deletes(reader: &mut JsonReader<'_>) -> Result<Vec<DeletedRange>, ProtocolError> {
    let mut deletes = Vec::new();
    if reader.read_null_if_next().map_err(broken)? {
        return Ok(deletes);
    }
    expect(reader, JsonKind::Array, "Sparrow.Json.BlittableJsonReaderArray")?;
    reader.begin_array().map_err(broken)?;
    while reader.next_element().map_err(broken)? {
        if deletes.len() == DELETES_MAX {
            let message = format!("At most {DELETES_MAX} ranges may be deleted at once");
            return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
        }
        expect(reader, JsonKind::Object, "Sparrow.Json.BlittableJsonReaderObject")?;
        reader.begin_object().map_err(broken)?;
        let (mut from, mut to) = (None, None);
        while let Some(property) = reader.next_name().map_err(broken)? {
            match property.as_ref() {
                "From" => from = read_moment(reader)?,
                "To" => to = read_moment(reader)?,
                _ => reader.skip_value().map_err(broken)?,
            }
        }
        deletes.push((from, to));
    }
    Ok(deletes)
}

/// A string as is, a number as its text.
fn read_text(reader: &mut JsonReader<'_>) -> Result<Option<String>, ProtocolError> {
    match reader.peek().map_err(broken)? {
        JsonKind::Null => reader.read_null_if_next().map(|_| None).map_err(broken),
        JsonKind::Number => reader.read_number().map(|text| Some(text.to_owned())).map_err(broken),
        JsonKind::String => reader.read_str().map(|text| Some(text.into_owned())).map_err(broken),
        JsonKind::Bool | JsonKind::Array | JsonKind::Object => {
            Err(mismatch(reader, "System.String")?)
        }
    }
}

fn expect(reader: &mut JsonReader<'_>, kind: JsonKind, wanted: &str) -> Result<(), ProtocolError> {
    if reader.peek().map_err(broken)? == kind { Ok(()) } else { Err(mismatch(reader, wanted)?) }
}

/// The error for a next value of the wrong type.
fn mismatch(reader: &mut JsonReader<'_>, wanted: &str) -> Result<ProtocolError, ProtocolError> {
    let kind = match reader.peek().map_err(broken)? {
        JsonKind::Null => "null",
        JsonKind::Bool => "System.Boolean",
        JsonKind::Number => "System.Int64",
        JsonKind::String => "Sparrow.Json.LazyStringValue",
        JsonKind::Array => "Sparrow.Json.BlittableJsonReaderArray",
        JsonKind::Object => "Sparrow.Json.BlittableJsonReaderObject",
    };
    let raw = reader.read_raw().map_err(broken)?;
    Ok(not_convertible(kind, raw.trim_matches('"'), wanted))
}

fn not_convertible(kind: &str, text: &str, wanted: &str) -> ProtocolError {
    let shown: String = text.chars().take(256).collect();
    let message = format!("Could not convert {kind} ('{shown}') to {wanted}");
    ProtocolError::new(ErrorKind::Format, message)
}

fn invalid_data(message: String) -> ProtocolError {
    ProtocolError::new(ErrorKind::InvalidData, message)
}

fn broken(error: ParseError) -> ProtocolError {
    json_error(&error, BODY_ENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT_2020: i64 = 63_713_433_600_000;

    fn read(body: &str) -> Result<TimeSeriesBody, ProtocolError> {
        read_time_series(body.as_bytes())
    }

    fn shown(entries: &Entries) -> Vec<(i64, Vec<f64>, Option<&str>)> {
        let shown = entries.iter();
        let shown =
            shown.map(|entry| (entry.timestamp_ms - MOMENT_2020, entry.values.to_vec(), entry.tag));
        shown.collect()
    }

    #[test]
    fn entries_and_ranges_are_read() {
        let body = read(
            r#"{"Appends":[
                {"Timestamp":"2020-01-01T00:00:00.0019999Z","Values":[60,"5",null,true],"Tag":"w/1","X":[1]},
                {"Values":["Infinity"],"Timestamp":"2020-01-01T02:00:00+02:00","Tag":null}
            ],"Increments":null,"Deletes":[{"From":null,"To":"2020-01-01T00:00:01Z"},{}],"Name":"HR","Y":1}"#,
        )
        .unwrap();
        assert_eq!(body.name, "HR");
        let expected =
            [(1, vec![60.0, 5.0, 0.0, 1.0], Some("w/1")), (0, vec![f64::INFINITY], None)];
        assert_eq!(shown(&body.appends), expected);
        assert_eq!(body.deletes, [(None, Some(MOMENT_2020 + 1000)), (None, None)]);
        assert!(body.increments.is_empty());
    }

    #[test]
    fn a_bulk_insert_packs_its_entries() {
        let body = read(
            r#"{"Name":"HR","TimeFormat":"UnixTimeInMs","Appends":[[1577836800000,1,5.5],
                [1577836800007,2,1,2,"tag"],[1577836800008,1,1,null]]}"#,
        );
        let expected =
            [(0, vec![5.5], None), (7, vec![1.0, 2.0], Some("tag")), (8, vec![1.0], None)];
        assert_eq!(shown(&body.unwrap().appends), expected);
    }

    #[test]
    fn moments_of_a_bulk_insert_are_ticks_unless_it_says_otherwise() {
        for format in ["", r#""TimeFormat":"DotNetTicks","#, r#""TimeFormat":null,"#] {
            let entries = "[[637134336000079999,1,5.5],[637134336000080000,1,1,null]]";
            let body = read(&format!(r#"{{"Name":"HR",{format}"Appends":{entries}}}"#)).unwrap();
            let expected = [(7, vec![5.5], None), (8, vec![1.0], None)];
            assert_eq!(shown(&body.appends), expected, "{format}");
        }
        let late = r#"{"Name":"A","Appends":[[5,1,1]],"TimeFormat":"UnixTimeInMs"}"#;
        assert_eq!(read(late).unwrap_err().message, "'TimeFormat' must come before 'Appends'");
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_the_protocols_words() {
        let entry = |entry: &str| format!(r#"{{"Name":"A","Appends":[{entry}]}}"#);
        let cases = [
            ("[]".to_owned(), "Expected start of object, but got StartArray"),
            (
                "{}".to_owned(),
                "Missing 'Name' property on TimeSeriesOperation 'TimeSeriesOperation'",
            ),
            (entry(r#"{"Values":[1]}"#), "Missing 'Timestamp' property"),
            (entry(r#"{"Timestamp":"2020-01-01T00:00:00Z"}"#), "Missing 'Values' property"),
            (
                entry(r#"{"Timestamp":"2020-01-01"}"#),
                "Could not convert Sparrow.Json.LazyStringValue ('2020-01-01') to System.DateTime",
            ),
            (
                entry(r#"{"Timestamp":5}"#),
                "Could not convert System.Int64 ('5') to System.DateTime",
            ),
            (
                entry(r#"{"Values":5}"#),
                "Could not convert System.Int64 ('5') to Sparrow.Json.BlittableJsonReaderArray",
            ),
            (
                entry(r#"{"Values":[{}]}"#),
                "Could not convert Sparrow.Json.BlittableJsonReaderObject ('{}') to System.Double",
            ),
            (
                entry(r#"{"Values":["abc"]}"#),
                "Could not convert Sparrow.Json.LazyStringValue ('abc') to System.Double",
            ),
            (entry("[1577836800000,2,1]"), "An entry of a time series has too few elements"),
            (
                entry("[9223372036854775807,1,1]"),
                "9223372036854775807 is not a timestamp of the years 1 to 9999",
            ),
            (entry("[-5,1,1]"), "-5 is not a timestamp of the years 1 to 9999"),
            (
                r#"{"Name":"A","TimeFormat":"Ticks","Appends":[]}"#.to_owned(),
                "Requested value 'Ticks' was not found.",
            ),
        ];
        for (body, message) in cases {
            assert_eq!(read(&body).unwrap_err().message, message, "{body}");
        }
    }
}
