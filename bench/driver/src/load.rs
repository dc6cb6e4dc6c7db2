//! Closed loops: each connection sends its next request as soon as the last one is answered.

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{connection::Connection, error::DriverError, outcome::Outcome, process::Process};

/// Appends the next request to the buffer, which is empty.
pub(crate) type NextRequest = Rc<RefCell<dyn FnMut(&mut Vec<u8>)>>;

/// How much load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// What one request counts for.
    pub(crate) operations_per_request: u64,
}

/// Processor time of server and driver, for the difference between two moments.
pub(crate) struct Stopwatch {
    server: Process,
    began: Instant,
    server_before: Duration,
    driver_before: Duration,
}

impl Stopwatch {
    pub(crate) fn start(server: Process) -> Result<Self, DriverError> {
        let server_before = server.processor_time().ok_or(DriverError::ClosedEarly)?;
        let driver_before = Process::own().processor_time().unwrap_or_default();
        Ok(Self { server, began: Instant::now(), server_before, driver_before })
    }

    pub(crate) fn stop(self, operations: u64, latencies: Vec<u32>) -> Result<Outcome, DriverError> {
        let elapsed = self.began.elapsed();
        let server_after = self.server.processor_time().ok_or(DriverError::ClosedEarly)?;
        let driver_after = Process::own().processor_time().unwrap_or_default();
        Ok(Outcome {
            operations,
            elapsed,
            latencies,
            server_time: server_after.saturating_sub(self.server_before),
            driver_time: driver_after.saturating_sub(self.driver_before),
        })
    }
}

/// Loads the server until the time is over and every request is answered. The first answer that is
/// not a success ends it as an error.
pub(crate) async fn run_load(
    address: SocketAddr,
    server: Process,
    load: Load,
    next: NextRequest,
) -> Result<Outcome, DriverError> {
    let mut connections = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        connections.push(Connection::open(address).await?);
    }
    let stopwatch = Stopwatch::start(server)?;
    let deadline = Instant::now() + load.duration;
    let mut loops = JoinSet::new();
    for connection in connections {
        loops.spawn_local(request_loop(connection, deadline, next.clone()));
    }
    let mut latencies = Vec::new();
    while let Some(ended) = loops.join_next().await {
        let of_one = ended.expect("the loops neither panic nor are they cancelled")?;
        latencies.extend(of_one);
    }
    let operations = latencies.len() as u64 * load.operations_per_request;
    let mut outcome = stopwatch.stop(operations, latencies)?;
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

async fn request_loop(
    mut connection: Connection,
    deadline: Instant,
    next: NextRequest,
) -> Result<Vec<u32>, DriverError> {
    let mut latencies = Vec::new();
    let mut request = Vec::new();
    let mut sent = Instant::now();
    while sent < deadline {
        request.clear();
        (next.borrow_mut())(&mut request);
        connection.succeed(&request).await?;
        let answered = Instant::now();
        // Four seconds and more count as four: nobody reads such a percentile to the nanosecond.
        latencies.push(u32::try_from((answered - sent).as_nanos()).unwrap_or(u32::MAX));
        sent = answered;
    }
    Ok(latencies)
}
