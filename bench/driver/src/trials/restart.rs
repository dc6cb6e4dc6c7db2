//! From the start of the process to readiness, and to the first document: with empty data, with a
//! large database that was closed cleanly, and after kill -9 with much in the journal.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use report::Better;
use tempfile::TempDir;

use super::{
    Figures,
    database::{DATABASE, create_filled, fill, first_document},
};
use crate::{
    data_files::DataFiles,
    error::DriverError,
    generated::{Rendered, write_noise},
    server::{Program, RunningServer, new_data},
};

pub(crate) const LARGE_FIGURES: &[(&str, Better)] = &[
    ("GB on disk", Better::Neither),
    ("s to ready", Better::Less),
    ("s to first document", Better::Less),
];
pub(crate) const KILLED_FIGURES: &[(&str, Better)] = &[
    ("MB in journals", Better::Neither),
    ("s to ready", Better::Less),
    ("s to first document", Better::Less),
];

const ROUNDS: usize = 3;
/// Cities of 1 KB.
const LARGE_DOCUMENTS: u64 = 5_500_000;
/// Documents of 1 KB, more than socket buffers can hold.
const STREAMED_DOCUMENTS: u64 = 50_000;
/// Documents of 1 KB that hardly compress: some 340 MB of journal.
const UNFLUSHED_DOCUMENTS: u64 = 450_000;
/// The memory limit for unflushed pages, enough for all of these.
const UNFLUSHED_SETTINGS: &[&str] = &["--Storage.MaxUnflushedInMb=8192"];

pub(super) async fn start_empty(
    program: &Program,
    parent: &Path,
) -> Result<Vec<Figures>, DriverError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let server = RunningServer::start(program, parent).await?;
        rounds.push(vec![server.ready_after.as_secs_f64()]);
        server.stop().await;
    }
    Ok(rounds)
}

/// The data is not in memory when the server starts, as far as the kernel follows the advice.
pub(super) async fn start_large(
    program: &Program,
    parent: &Path,
) -> Result<Vec<Figures>, DriverError> {
    let cities = Rendered::cities();
    let write_city = |out: &mut Vec<u8>, number| out.extend_from_slice(cities.document(number));
    let server = RunningServer::start(program, parent).await?;
    create_filled(&server, LARGE_DOCUMENTS, write_city).await?;
    let mut data = server.stop().await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let files = DataFiles::below(data.path())?;
        files.drop_from_memory()?;
        let (stopped, [ready, first]) = start_and_read(program, data, "docs/1").await?;
        rounds.push(vec![files.bytes() as f64 / 1e9, ready, first]);
        data = stopped;
    }
    Ok(rounds)
}

/// A stalled reader keeps its snapshot, so that later writes cannot be flushed and stay in the
/// journal.
pub(super) async fn start_killed(
    program: &Program,
    parent: &Path,
) -> Result<Vec<Figures>, DriverError> {
    let settings = match program {
        Program::Corvus { .. } => UNFLUSHED_SETTINGS,
        Program::Raven { .. } | Program::Bare { .. } => &[],
    };
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let data = new_data(program, parent)?;
        let server = RunningServer::start_with(program, data, settings).await?;
        create_filled(&server, STREAMED_DOCUMENTS, write_noise).await?;
        let reader = standing_reader(&server)?;
        fill(&server, "late/", UNFLUSHED_DOCUMENTS, write_noise).await?;
        let data = server.kill().await?;
        drop(reader);
        let journals = DataFiles::below(data.path())?.journal_bytes()?;
        let last = format!("late/{UNFLUSHED_DOCUMENTS}");
        let (_, [ready, first]) = start_and_read(program, data, &last).await?;
        rounds.push(vec![journals as f64 / 1e6, ready, first]);
    }
    Ok(rounds)
}

/// Starts to read all documents and stops at the first byte.
fn standing_reader(server: &RunningServer) -> Result<TcpStream, DriverError> {
    let mut stream = TcpStream::connect(server.address)?;
    write!(
        stream,
        "GET /databases/{DATABASE}/streams/docs?start=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    )?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

/// Seconds to ready and to the document with this id; the server is stopped again.
async fn start_and_read(
    program: &Program,
    data: TempDir,
    id: &str,
) -> Result<(TempDir, [f64; 2]), DriverError> {
    let server = RunningServer::start_with(program, data, &[]).await?;
    let times = [server.ready_after, first_document(&server, id).await?];
    Ok((server.stop().await, times.map(|time: Duration| time.as_secs_f64())))
}
