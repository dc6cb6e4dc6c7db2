//! Clients of the Changes API: how soon they are notified of changes, and what they cost when
//! nothing that they watch changes.
//!
//! A listener is not a complete WebSocket client: the server sends text with a few bytes between
//! the messages, and ids are found in it without parsing those bytes.

use std::{
    cell::RefCell,
    net::SocketAddr,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use memchr::memmem::Finder;
use report::Better;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::LocalSet,
    time::{sleep, sleep_until, timeout},
};

use super::{Figures, database::DATABASE};
use crate::{
    connection::{Connection, write_request},
    error::DriverError,
    load::{Load, run_load},
    outcome::no_latencies,
    server::{Program, RunningServer, new_data},
    works::create_database,
};

pub(crate) const TOLD_FIGURES: &[(&str, Better)] = &[
    ("p50 ms, each watching its own", Better::Less),
    ("p99 ms, each watching its own", Better::Less),
    ("missed, each watching its own", Better::Less),
    ("p50 ms, each watching all", Better::Less),
    ("p99 ms, each watching all", Better::Less),
    ("missed, each watching all", Better::Less),
    ("server CPU µs each, all watching all", Better::Less),
];
pub(crate) const IDLE_FIGURES: &[(&str, Better)] = &[
    ("MB resident", Better::Less),
    ("MB added", Better::Less),
    ("ms to connect, each", Better::Less),
    ("of the puts/s before", Better::More),
];

const LISTENERS: usize = 1_000;
const WRITES_PER_SECOND: u32 = 1_000;
const WRITTEN_FOR: Duration = Duration::from_secs(10);
/// More writers than needed at the expected latency, so that a slow write does not delay the
/// others.
const WRITERS: usize = 64;
/// How long to wait for the last notification.
const PATIENCE: Duration = Duration::from_secs(20);
const IDLE: usize = 10_000;
const IDLE_ROUNDS: usize = 3;
const IDLE_SETTINGS: &[&str] = &["--Server.MaxConnections=20000"];
const PUTS: Load =
    Load { connections: 64, duration: Duration::from_secs(5), operations_per_request: 1 };
/// Memory and puts are measured once heartbeats have started.
const REST: Duration = Duration::from_secs(6);
const CONFIRMED: &[u8] = b"Confirm";
const ID: &[u8] = b"\"Id\":\"w/";

/// Latencies from each write to each listener that must be notified of it.
pub(super) async fn notified(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    let mut connection = Connection::open(server.address).await?;
    create_database(&mut connection, DATABASE).await?;
    let mut figures = Vec::new();
    for watches_all in [false, true] {
        let before = server.process.processor_time().unwrap_or_default();
        let notified = LocalSet::new().run_until(notify_all(server.address, watches_all)).await?;
        let after = server.process.processor_time().unwrap_or_default();
        let milliseconds = |quantile| notified.latencies.value_at_quantile(quantile) as f64 / 1e6;
        figures.extend([milliseconds(0.5), milliseconds(0.99), notified.missed as f64]);
        if watches_all {
            let each =
                (after - before).as_secs_f64() * 1e6 / notified.latencies.len().max(1) as f64;
            figures.push(each);
        }
    }
    server.stop().await;
    Ok(figures)
}

/// The notifications of a round.
pub(super) struct Notifications {
    pub(super) latencies: Histogram<u64>,
    pub(super) missed: u64,
}

/// When each document was due to be written, and the notifications that listeners received.
struct Received {
    began: Instant,
    latencies: Histogram<u64>,
    /// Of each document when its write was acknowledged, and when a listener was last notified of it.
    acknowledged: Vec<Duration>,
    seen: Vec<Duration>,
}

impl Received {
    fn new(writes: u64) -> Rc<RefCell<Self>> {
        let unknown = || vec![Duration::ZERO; usize::try_from(writes).unwrap_or_default()];
        Rc::new(RefCell::new(Self {
            began: Instant::now(),
            latencies: no_latencies(),
            acknowledged: unknown(),
            seen: unknown(),
        }))
    }
}

async fn notify_all(address: SocketAddr, watches_all: bool) -> Result<Notifications, DriverError> {
    let writes = u64::from(WRITES_PER_SECOND) * WRITTEN_FOR.as_secs();
    let mut listeners = Vec::with_capacity(LISTENERS);
    for number in 0..LISTENERS {
        let watch = match watches_all {
            true => ("watch-docs", "null".to_owned()),
            false => ("watch-prefix", format!("\"w/{number}-\"")),
        };
        listeners.push(Listener::connect(address, watch).await?);
    }
    let received = Received::new(writes);
    for listener in listeners {
        tokio::task::spawn_local(listener.listen(Rc::clone(&received)));
    }
    write_all(address, writes, &received).await?;
    let expected = if watches_all { writes * LISTENERS as u64 } else { writes };
    Ok(await_all(&received, expected).await)
}

/// Has all writers write their part.
async fn write_all(
    address: SocketAddr,
    writes: u64,
    received: &Rc<RefCell<Received>>,
) -> Result<(), DriverError> {
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::task::spawn_local(write(address, writer, writes, Rc::clone(received))))
        .collect();
    for writer in writers {
        writer.await.map_err(|_| DriverError::ClosedEarly)??;
    }
    Ok(())
}

/// Waits for so many notifications, but not for long.
async fn await_all(received: &RefCell<Received>, expected: u64) -> Notifications {
    let deadline = Instant::now() + PATIENCE;
    while received.borrow().latencies.len() < expected && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let latencies = received.borrow().latencies.clone();
    Notifications { missed: expected.saturating_sub(latencies.len()), latencies }
}

/// Writes to a server of a cluster, and listens for all changes at another one; the latencies are those from the
/// acknowledgement of each write.
pub(super) async fn write_and_listen(
    writer: SocketAddr,
    listener: SocketAddr,
) -> Result<Notifications, DriverError> {
    let writes = u64::from(WRITES_PER_SECOND) * WRITTEN_FOR.as_secs();
    let listener = Listener::connect(listener, ("watch-docs", "null".to_owned())).await?;
    let received = Received::new(writes);
    tokio::task::spawn_local(listener.listen(Rc::clone(&received)));
    write_all(writer, writes, &received).await?;
    let Notifications { missed, .. } = await_all(&received, writes).await;
    let (mut latencies, received) = (no_latencies(), received.borrow());
    for (seen, acknowledged) in received.seen.iter().zip(&received.acknowledged) {
        // Never fails: the histogram grows by itself.
        latencies += seen.saturating_sub(*acknowledged).as_nanos() as u64;
    }
    Ok(Notifications { latencies, missed })
}

/// When a write is due, counted from the start.
fn due_after(number: u64) -> Duration {
    Duration::from_secs(1) / WRITES_PER_SECOND * u32::try_from(number).unwrap_or(u32::MAX)
}

/// Writes every n-th document when it is due; a late writer continues at once, and the delay
/// counts.
async fn write(
    address: SocketAddr,
    writer: usize,
    writes: u64,
    received: Rc<RefCell<Received>>,
) -> Result<(), DriverError> {
    let began = received.borrow().began;
    let mut connection = Connection::open(address).await?;
    let mut put = Vec::new();
    for number in (writer as u64..writes).step_by(WRITERS) {
        sleep_until((began + due_after(number)).into()).await;
        let path =
            format!("/databases/{DATABASE}/docs?id=w/{}-{number}", number % LISTENERS as u64);
        put.clear();
        write_request(&mut put, "PUT", path, b"{\"Name\":\"written\"}");
        connection.succeed(&put).await?;
        let mut received = received.borrow_mut();
        let now = received.began.elapsed();
        received.acknowledged[number as usize] = now;
    }
    Ok(())
}

/// One connection of the Changes API that watches something.
struct Listener {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Listener {
    async fn connect(address: SocketAddr, watch: (&str, String)) -> Result<Self, DriverError> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let upgrade = format!(
            "GET /databases/{DATABASE}/changes HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await?;
        let mut listener = Self { stream, input: Vec::new() };
        listener.read_up_to(b"TopologyChange").await?;
        let (command, parameter) = watch;
        let text = format!("{{\"CommandId\":1,\"Command\":\"{command}\",\"Param\":{parameter}}}");
        listener.stream.write_all(&masked(text.as_bytes())).await?;
        listener.read_up_to(CONFIRMED).await?;
        Ok(listener)
    }

    async fn read_up_to(&mut self, text: &[u8]) -> Result<(), DriverError> {
        while memchr::memmem::find(&self.input, text).is_none() {
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await;
            if read.map_err(|_| DriverError::Silent(PATIENCE))?? == 0 {
                return Err(DriverError::ClosedEarly);
            }
        }
        self.input.clear();
        Ok(())
    }

    /// Records when it is notified of which document, until the server closes the connection.
    async fn listen(mut self, received: Rc<RefCell<Received>>) {
        let finder = Finder::new(ID);
        while matches!(self.stream.read_buf(&mut self.input).await, Ok(1..)) {
            let mut received = received.borrow_mut();
            let now = received.began.elapsed();
            let mut rest = 0;
            while let Some(found) = finder.find(&self.input[rest..]) {
                let id = &self.input[rest + found + ID.len()..];
                let Some(end) = memchr::memchr(b'"', id) else { break };
                if let Some(number) = number_at_end(&id[..end]) {
                    let late = now.saturating_sub(due_after(number));
                    // Never fails: the histogram grows by itself.
                    received.latencies += u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                    received.seen[number as usize] = now;
                }
                rest += found + ID.len() + end;
            }
            // Keeps what may be the start of an id.
            let kept = rest.max(self.input.len().saturating_sub(128));
            self.input.drain(..kept);
        }
    }
}

/// The number after the dash.
fn number_at_end(id: &[u8]) -> Option<u64> {
    let dash = memchr::memrchr(b'-', id)?;
    std::str::from_utf8(&id[dash + 1..]).ok()?.parse().ok()
}

/// A text in one frame, masked with zeroes; shorter than 126 bytes.
fn masked(text: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(text);
    frame
}

/// Many listeners that watch documents that are never written; puts without them and with them, in
/// turn.
pub(super) async fn idle(program: &Program, parent: &Path) -> Result<Vec<Figures>, DriverError> {
    let settings = match program {
        Program::Corvus { .. } => IDLE_SETTINGS,
        Program::Raven { .. } | Program::Bare { .. } => &[],
    };
    let server = RunningServer::start_with(program, new_data(program, parent)?, settings).await?;
    create_database(&mut Connection::open(server.address).await?, DATABASE).await?;
    // The first round only warms up.
    puts_per_second(&server)?;
    let mut rounds = Vec::new();
    for _ in 0..IDLE_ROUNDS {
        let without = puts_per_second(&server)?;
        let resident_without = resident(&server)?;
        let began = Instant::now();
        let mut listeners = Vec::with_capacity(IDLE);
        for number in 0..IDLE {
            let watch = ("watch-doc", format!("\"idle/{number}\""));
            listeners.push(Listener::connect(server.address, watch).await?);
        }
        let connecting = began.elapsed().as_secs_f64() * 1e3 / IDLE as f64;
        sleep(REST).await;
        let resident_with = resident(&server)?;
        let with = puts_per_second(&server)?;
        drop(listeners);
        sleep(REST).await;
        let added = resident_with - resident_without;
        rounds.push(vec![resident_with, added, connecting, with / without]);
    }
    server.stop().await;
    Ok(rounds)
}

fn puts_per_second(server: &RunningServer) -> Result<f64, DriverError> {
    let mut number = 0_u64;
    let mut next = |out: &mut Vec<u8>| {
        number += 1;
        let path = format!("/databases/{DATABASE}/docs?id=p/{}", number % 10_000);
        write_request(out, "PUT", path, b"{\"Name\":\"written\"}");
    };
    let outcome = run_load(server.address, server.process, PUTS, &mut next)?;
    Ok(outcome.operations as f64 / outcome.elapsed.as_secs_f64())
}

fn resident(server: &RunningServer) -> Result<f64, DriverError> {
    Ok(server.process.memory().ok_or(DriverError::ClosedEarly)?.resident)
}
