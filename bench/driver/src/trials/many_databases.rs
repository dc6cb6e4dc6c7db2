//! Many databases in one process: the cost of each while it is open, and after it was idle for a
//! while.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use report::Better;
use tokio::time::sleep;

use super::{Figures, database::succeed_once_open};
use crate::{
    connection::{Connection, request},
    error::DriverError,
    server::{Program, RunningServer, new_data},
    works::create_database,
};

pub(crate) const FIGURES: &[(&str, Better)] = &[
    ("ms to create, each", Better::Less),
    ("ms for the first write, each", Better::Less),
    ("MB resident, all open", Better::Less),
    ("threads, all open", Better::Less),
    ("MB resident, unused for a minute", Better::Less),
    ("threads, unused for a minute", Better::Less),
    ("ms for the next read, each", Better::Less),
];

const DATABASES: usize = 200;
const SETTINGS: &[&str] =
    &["--Databases.MaxIdleTimeInSec=60", "--Databases.FrequencyToCheckForIdleInSec=5"];
/// One minute of idle time, plus the time to detect it and to close everything.
const UNUSED: Duration = Duration::from_secs(60 + 20);

pub(super) async fn run(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start_with(program, new_data(program, parent)?, SETTINGS).await?;
    let mut connection = Connection::open(server.address).await?;
    let began = Instant::now();
    for number in 0..DATABASES {
        create_database(&mut connection, &name(number)).await?;
    }
    let creating = milliseconds_each(began);
    let writing = each(&mut connection, "PUT", b"{\"Name\":\"first\"}").await?;
    let mut figures = vec![creating, writing];
    figures.extend(size(&server)?);
    sleep(UNUSED).await;
    figures.extend(size(&server)?);
    figures.push(each(&mut connection, "GET", b"").await?);
    server.stop().await;
    Ok(figures)
}

fn name(number: usize) -> String {
    format!("bench-{number}")
}

/// One request to the document of each database; milliseconds for each.
async fn each(connection: &mut Connection, method: &str, body: &[u8]) -> Result<f64, DriverError> {
    let began = Instant::now();
    for number in 0..DATABASES {
        let path = format!("/databases/{}/docs?id=docs/1", name(number));
        succeed_once_open(connection, &request(method, &path, body)).await?;
    }
    Ok(milliseconds_each(began))
}

fn milliseconds_each(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3 / DATABASES as f64
}

/// Resident MB and threads.
fn size(server: &RunningServer) -> Result<[f64; 2], DriverError> {
    let gone = || DriverError::ClosedEarly;
    let memory = server.process.memory().ok_or_else(gone)?;
    Ok([memory.resident, server.process.threads().ok_or_else(gone)? as f64])
}
