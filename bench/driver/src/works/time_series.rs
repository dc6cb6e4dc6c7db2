//! The works on time series: appending points, and aggregating them.

use std::time::Duration;

use serde_json::Value;

use super::{
    BATCH_CONNECTIONS, DATABASE, Target, asked, create_database, delete_database, queries_path,
};
use crate::{
    connection::{Connection, request, write_request},
    error::DriverError,
    load::{Load, Stopwatch, run_load},
    outcome::{Outcome, no_latencies},
    points::{POINTS_PER_BATCH, SERIES, fill_series, write_append_body},
};

/// The number of series to which batches are appended in turn. Concurrent requests never use the
/// same series, so that the points of each arrive in order.
const APPENDED_SERIES: u64 = 64;
const BULK_POINTS: u64 = 1_000_000;
const BULK_SERIES: u64 = 100;
/// The database with the points that are queried.
const MEASURED: &str = "measured";
const MEASURED_POINTS: u64 = 10_000_000;
const MEASURED_SERIES: u64 = 10;

impl Target {
    /// Closed loops of batches.
    pub(super) fn append_points(&self, duration: Duration) -> Result<Outcome, DriverError> {
        let mut body = Vec::new();
        let mut next = |out: &mut Vec<u8>| {
            let number = self.take(1);
            let (series, batch) = (number % APPENDED_SERIES, number / APPENDED_SERIES);
            body.clear();
            write_append_body(&mut body, series, batch);
            let path = format_args!("/databases/{DATABASE}/timeseries?docId=smalls/{}", series + 1);
            write_request(out, "POST", path, &body);
        };
        let load = Load {
            connections: BATCH_CONNECTIONS,
            duration,
            operations_per_request: POINTS_PER_BATCH,
        };
        run_load(self.address, self.process, load, &mut next)
    }

    /// In a separate database.
    pub(super) async fn bulk_insert_points(&self) -> Result<Outcome, DriverError> {
        let name = self.new_name();
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, &name).await?;
        let stopwatch = Stopwatch::start(self.process)?;
        fill_series(self.address, self.process, &name, BULK_SERIES, BULK_POINTS).await?;
        let outcome = stopwatch.stop(BULK_POINTS, no_latencies())?;
        delete_database(&mut connection, &name).await?;
        Ok(outcome)
    }

    /// Creates the points that are queried, once for all works that query them.
    pub(super) async fn fill_measurements(&self) -> Result<(), DriverError> {
        if self.has_measurements.replace(true) {
            return Ok(());
        }
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, MEASURED).await?;
        let (address, process) = (self.address, self.process);
        fill_series(address, process, MEASURED, MEASURED_SERIES, MEASURED_POINTS).await
    }

    /// One query for all points, by time or as a whole.
    pub(super) async fn aggregate(&self, group: Option<&str>) -> Result<Outcome, DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let group = group.map(|group| format!("group by '{group}' ")).unwrap_or_default();
        let text = format!(
            "from Stations as s select timeseries(from s.{SERIES} {group}select min(), max(), avg())"
        );
        let body = asked(&text, "").to_string();
        let request = request("POST", &queries_path(MEASURED), body.as_bytes());
        let stopwatch = Stopwatch::start(self.process)?;
        connection.succeed(&request).await?;
        let outcome = stopwatch.stop(MEASURED_POINTS, no_latencies())?;
        let answer: Value = serde_json::from_slice(connection.body()).unwrap_or_default();
        let counted = |result: &Value| result["Count"].as_u64();
        let results = answer["Results"].as_array();
        let counted: Option<u64> = results.and_then(|all| all.iter().map(counted).sum());
        if counted != Some(MEASURED_POINTS) {
            return Err(connection.unexpected(&request));
        }
        Ok(outcome)
    }
}
