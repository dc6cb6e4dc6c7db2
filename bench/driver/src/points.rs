//! Points of time series made up by number: measurements of temperatures, one every ten seconds, with
//! two decimals. The same series and number are the same point in every run.

use std::{f64::consts::TAU, io::Write as _, net::SocketAddr};

use report::UtcTime;

use crate::{
    bulk_insert::{Amount, bulk_insert_elements},
    error::DriverError,
    generated::mixed,
    process::Process,
};

/// Points that are sent together, as clients do.
pub(crate) const POINTS_PER_BATCH: u64 = 1_000;
/// Of every series.
pub(crate) const SERIES: &str = "Temperature";
const SECONDS_BETWEEN: u64 = 10;
const POINTS_PER_DAY: u64 = 86_400 / SECONDS_BETWEEN;
/// 2024-01-01, in seconds since 1970.
const BEGAN: u64 = 1_704_067_200;

/// Appends the body of a request that adds the points of one batch, as the Node.js client writes it.
pub(crate) fn write_append_body(out: &mut Vec<u8>, series: u64, batch: u64) {
    write_all(out, format_args!("{{\"Name\":\"{SERIES}\",\"Appends\":["));
    let first = batch * POINTS_PER_BATCH;
    let mut day = (u64::MAX, String::new());
    for number in first..first + POINTS_PER_BATCH {
        if day.0 != number / POINTS_PER_DAY {
            // The moments of a day begin alike.
            let moment = UtcTime::from_seconds(seconds(number)).readable();
            day = (number / POINTS_PER_DAY, moment[.."2024-01-01T".len()].to_owned());
        }
        if number != first {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"Timestamp\":\"");
        out.extend_from_slice(day.1.as_bytes());
        let second = number % POINTS_PER_DAY * SECONDS_BETWEEN;
        write_two_digits(out, second / 3_600);
        out.push(b':');
        write_two_digits(out, second / 60 % 60);
        out.push(b':');
        write_two_digits(out, second % 60);
        out.extend_from_slice(b".0000000Z\",\"Values\":[");
        write_value(out, series, number);
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"],\"Deletes\":null,\"Increments\":null}");
}

/// Appends the element of a bulk insert that adds the points of one batch, as the clients write it.
fn write_bulk_element(out: &mut Vec<u8>, id: &str, series: u64, batch: u64) {
    write_all(
        out,
        format_args!(
            "{{\"Id\":\"{id}\",\"Type\":\"TimeSeriesBulkInsert\",\"TimeSeries\":{{\"Name\":\
             \"{SERIES}\",\"TimeFormat\":\"UnixTimeInMs\",\"Appends\":["
        ),
    );
    let first = batch * POINTS_PER_BATCH;
    for number in first..first + POINTS_PER_BATCH {
        let separator = if number == first { "" } else { "," };
        write_all(out, format_args!("{separator}[{},1,", seconds(number) * 1_000));
        write_value(out, series, number);
        out.push(b']');
    }
    out.extend_from_slice(b"]}}");
}

/// Makes a document for each series, and their points in turns: a batch of each, then the next of each.
pub(crate) async fn fill_series(
    address: SocketAddr,
    server: Process,
    database: &str,
    series: u64,
    points: u64,
) -> Result<(), DriverError> {
    let batches = points / POINTS_PER_BATCH;
    let write = |out: &mut Vec<u8>, number: u64| {
        if number <= series {
            write_all(
                out,
                format_args!(
                    "{{\"Id\":\"stations/{number}\",\"Type\":\"PUT\",\"Document\":{{\"Name\":\
                     \"Station\",\"@metadata\":{{\"@collection\":\"Stations\"}}}}}}"
                ),
            );
            return;
        }
        let batch = number - series - 1;
        let (of, batch) = (batch % series + 1, batch / series);
        write_bulk_element(out, &format!("stations/{of}"), of, batch);
    };
    let amount = Amount::Documents(series + batches);
    bulk_insert_elements(address, server, database, amount, write).await?;
    Ok(())
}

fn seconds(number: u64) -> u64 {
    BEGAN + number * SECONDS_BETWEEN
}

/// A temperature that rises and falls with the day, and trembles by a tenth of a degree.
fn write_value(out: &mut Vec<u8>, series: u64, number: u64) {
    let day = (number % POINTS_PER_DAY) as f64 / POINTS_PER_DAY as f64;
    let trembling = mixed(series << 32 | number) % 21;
    let hundredths = 2_000.0 + (series % 10 * 100) as f64 + 800.0 * (TAU * day).sin();
    let hundredths = hundredths as u64 + trembling;
    write_two_digits(out, hundredths / 100);
    out.push(b'.');
    write_two_digits(out, hundredths % 100);
}

/// Of a number below 100. The driver must not cost what the server does.
fn write_two_digits(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

fn write_all(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a Vec cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn both_ways_of_writing_a_batch_give_the_same_points() {
        let (mut append, mut element) = (Vec::new(), Vec::new());
        write_append_body(&mut append, 3, 9);
        write_bulk_element(&mut element, "stations/3", 3, 9);
        let append: Value = serde_json::from_slice(&append).unwrap();
        let element: Value = serde_json::from_slice(&element).unwrap();
        let appends = append["Appends"].as_array().unwrap();
        let packed = element["TimeSeries"]["Appends"].as_array().unwrap();
        assert_eq!((appends.len(), packed.len()), (1_000, 1_000));
        assert_eq!(appends[0]["Timestamp"], "2024-01-02T01:00:00.0000000Z");
        assert_eq!(packed[0][0], 1_704_157_200_000_u64);
        for (append, packed) in appends.iter().zip(packed) {
            assert_eq!(append["Values"][0], packed[2]);
            let value = packed[2].as_f64().unwrap();
            assert!((12.0..=40.0).contains(&value), "{value}");
        }
    }
}
