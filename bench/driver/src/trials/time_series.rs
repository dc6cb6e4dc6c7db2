//! The disk space of time series points, after a clean stop: as written, and after compaction.

use std::{path::Path, time::Duration};

use report::Better;
use serde_json::Value;
use tokio::time::sleep;

use super::{Figures, database::DATABASE};
use crate::{
    connection::{Connection, request},
    data_files::DataFiles,
    error::DriverError,
    points::fill_series,
    server::{Program, RunningServer},
    works::create_database,
};

pub(crate) const SIZE_FIGURES: &[(&str, Better)] =
    &[("bytes a point", Better::Less), ("bytes a point, compacted", Better::Less)];

const POINTS: u64 = 10_000_000;
const SERIES: u64 = 10;
/// How often the state of the compaction is polled.
const STATE_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn size(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    create_database(&mut Connection::open(server.address).await?, DATABASE).await?;
    fill_series(server.address, server.process, DATABASE, SERIES, POINTS).await?;
    let data = server.stop().await;
    let written = bytes_a_point(data.path())?;
    let server = RunningServer::start_with(program, data, &[]).await?;
    compact(&mut Connection::open(server.address).await?).await?;
    let data = server.stop().await;
    Ok(vec![written, bytes_a_point(data.path())?])
}

fn bytes_a_point(data: &Path) -> Result<f64, DriverError> {
    Ok(DataFiles::below(data)?.within("Databases").bytes() as f64 / POINTS as f64)
}

async fn compact(connection: &mut Connection) -> Result<(), DriverError> {
    let body = format!("{{\"DatabaseName\":\"{DATABASE}\",\"Documents\":true}}");
    let begin = request("POST", "/admin/compact", body.as_bytes());
    connection.succeed(&begin).await?;
    let answered = |connection: &Connection| -> Value {
        serde_json::from_slice(connection.body()).unwrap_or_default()
    };
    let id = answered(connection)["OperationId"].clone();
    let state = request("GET", &format!("/operations/state?id={id}"), b"");
    loop {
        connection.succeed(&state).await?;
        let answer = answered(connection);
        match answer["Status"].as_str() {
            Some("InProgress") => sleep(STATE_PAUSE).await,
            Some("Completed") => return Ok(()),
            _ => return Err(connection.unexpected(&state)),
        }
    }
}
