//! Those who watch a database: how soon they hear of changes, and what they cost when nothing happens
//! that concerns them.
//!
//! A listener is not a whole WebSocket client: what the server sends is text with a few bytes between
//! the messages, and the ids in it are found without looking at those.

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
    ("p50 ms, each hears its own", Better::Less),
    ("p99 ms, each hears its own", Better::Less),
    ("missed, each hears its own", Better::Less),
    ("p50 ms, each hears all", Better::Less),
    ("p99 ms, each hears all", Better::Less),
    ("missed, each hears all", Better::Less),
    ("server CPU µs each, each hears all", Better::Less),
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
/// More than are needed while a write takes as long as it should: one that takes longer holds up no other.
const WRITERS: usize = 64;
/// How long is waited for the last notification.
const PATIENCE: Duration = Duration::from_secs(20);
const IDLE: usize = 10_000;
const IDLE_ROUNDS: usize = 3;
const IDLE_SETTINGS: &[&str] = &["--Server.MaxConnections=20000"];
const PUTS: Load =
    Load { connections: 64, duration: Duration::from_secs(5), operations_per_request: 1 };
/// Memory and puts are looked at when heartbeats have begun.
const REST: Duration = Duration::from_secs(6);
const CONFIRMED: &[u8] = b"Confirm";
const ID: &[u8] = b"\"Id\":\"w/";

/// From each write to each listener that is to hear of it.
pub(super) async fn told(program: &Program, parent: &Path) -> Result<Figures, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    let mut connection = Connection::open(server.address).await?;
    create_database(&mut connection, DATABASE).await?;
    let mut figures = Vec::new();
    for hears_all in [false, true] {
        let before = server.process.processor_time().unwrap_or_default();
        let told = LocalSet::new().run_until(tell(server.address, hears_all)).await?;
        let after = server.process.processor_time().unwrap_or_default();
        let milliseconds = |quantile| told.latencies.value_at_quantile(quantile) as f64 / 1e6;
        figures.extend([milliseconds(0.5), milliseconds(0.99), told.missed as f64]);
        if hears_all {
            let each = (after - before).as_secs_f64() * 1e6 / told.latencies.len().max(1) as f64;
            figures.push(each);
        }
    }
    server.stop().await;
    Ok(figures)
}

/// What became of all notifications of a round.
struct Told {
    latencies: Histogram<u64>,
    missed: u64,
}

/// When which document was to be written, and what listeners have heard.
struct Heard {
    began: Instant,
    latencies: Histogram<u64>,
}

async fn tell(address: SocketAddr, hears_all: bool) -> Result<Told, DriverError> {
    let writes = u64::from(WRITES_PER_SECOND) * WRITTEN_FOR.as_secs();
    let mut listeners = Vec::with_capacity(LISTENERS);
    for number in 0..LISTENERS {
        let watch = match hears_all {
            true => ("watch-docs", "null".to_owned()),
            false => ("watch-prefix", format!("\"w/{number}-\"")),
        };
        listeners.push(Listener::connect(address, watch).await?);
    }
    let heard = Rc::new(RefCell::new(Heard { began: Instant::now(), latencies: no_latencies() }));
    for listener in listeners {
        tokio::task::spawn_local(listener.listen(Rc::clone(&heard)));
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::task::spawn_local(write(address, writer, writes, Rc::clone(&heard))))
        .collect();
    for writer in writers {
        writer.await.map_err(|_| DriverError::ClosedEarly)??;
    }
    let expected = if hears_all { writes * LISTENERS as u64 } else { writes };
    let deadline = Instant::now() + PATIENCE;
    while heard.borrow().latencies.len() < expected && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let latencies = heard.borrow().latencies.clone();
    Ok(Told { missed: expected - latencies.len(), latencies })
}

/// When a write is due, counted from the beginning.
fn due_after(number: u64) -> Duration {
    Duration::from_secs(1) / WRITES_PER_SECOND * u32::try_from(number).unwrap_or(u32::MAX)
}

/// Writes every so many-th document when it is due; who is late goes on at once, and its lateness
/// counts.
async fn write(
    address: SocketAddr,
    writer: usize,
    writes: u64,
    heard: Rc<RefCell<Heard>>,
) -> Result<(), DriverError> {
    let began = heard.borrow().began;
    let mut connection = Connection::open(address).await?;
    let mut put = Vec::new();
    for number in (writer as u64..writes).step_by(WRITERS) {
        sleep_until((began + due_after(number)).into()).await;
        let path =
            format!("/databases/{DATABASE}/docs?id=w/{}-{number}", number % LISTENERS as u64);
        put.clear();
        write_request(&mut put, "PUT", path, b"{\"Name\":\"written\"}");
        connection.succeed(&put).await?;
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

    /// Notes when it hears of which document, until the server closes the connection.
    async fn listen(mut self, heard: Rc<RefCell<Heard>>) {
        let finder = Finder::new(ID);
        while matches!(self.stream.read_buf(&mut self.input).await, Ok(1..)) {
            let mut heard = heard.borrow_mut();
            let now = heard.began.elapsed();
            let mut rest = 0;
            while let Some(found) = finder.find(&self.input[rest..]) {
                let id = &self.input[rest + found + ID.len()..];
                let Some(end) = memchr::memchr(b'"', id) else { break };
                if let Some(number) = number_at_end(&id[..end]) {
                    let late = now.saturating_sub(due_after(number));
                    // Never fails: the histogram grows by itself.
                    heard.latencies += u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                }
                rest += found + ID.len() + end;
            }
            // What may be the beginning of an id stays.
            let kept = rest.max(self.input.len().saturating_sub(128));
            self.input.drain(..kept);
        }
    }
}

/// The number behind the dash.
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

/// Many who watch documents that nobody writes; puts without them and with them, in turns.
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
