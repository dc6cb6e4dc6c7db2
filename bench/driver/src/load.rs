//! Closed loops: each connection sends its next request as soon as it has received the last
//! response.
//!
//! The driver runs on the processors of the server that it measures, so one thread waits for all
//! connections at once (epoll), a request costs one write and one read, and nothing is allocated
//! for it. Invariant: a connection has at most one request in flight.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
};

use crate::{
    answer::Answer,
    connection::{ANSWER_BYTES_MAX, check_success},
    error::DriverError,
    outcome::{Outcome, no_latencies},
    process::Process,
};

/// A server that is silent for this long on all connections has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const INPUT_BYTES: usize = 16 << 10;

/// Appends the next request to the buffer, which is empty.
pub(crate) type NextRequest<'n> = &'n mut dyn FnMut(&mut Vec<u8>);

/// The amount of load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// The number of operations that one request counts as.
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

    pub(crate) fn stop(
        self,
        operations: u64,
        latencies: Histogram<u64>,
    ) -> Result<Outcome, DriverError> {
        let elapsed = self.began.elapsed();
        let server_after = self.server.processor_time().ok_or(DriverError::ClosedEarly)?;
        let driver_after = Process::own().processor_time().unwrap_or_default();
        Ok(Outcome {
            operations,
            elapsed,
            latencies,
            server_time: server_after.saturating_sub(self.server_before),
            driver_time: driver_after.saturating_sub(self.driver_before),
            memory_growth_megabytes: 0.0,
        })
    }
}

/// Loads the server until the time is over and every request has a response. The first response
/// other than success ends it as an error. Blocks the thread.
pub(crate) fn run_load(
    address: SocketAddr,
    server: Process,
    load: Load,
    next: NextRequest<'_>,
) -> Result<Outcome, DriverError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut loops = Vec::with_capacity(load.connections);
    for index in 0..load.connections {
        loops.push(RequestLoop::open(address, &poll, index as u64)?);
    }
    let mut events = Vec::with_capacity(load.connections);
    let mut latencies = no_latencies();
    let stopwatch = Stopwatch::start(server)?;
    let began = Instant::now();
    let deadline = began + load.duration;
    for one in &mut loops {
        one.begin(began, next)?;
    }
    let mut running = loops.len();
    while running > 0 {
        wait(&poll, &mut events)?;
        for event in events.drain(..) {
            let one = &mut loops[event.data.u64() as usize];
            let Some(answered) = one.advance()? else { continue };
            // Never fails: the histogram grows by itself.
            latencies += (answered - one.began).as_nanos() as u64;
            if answered < deadline {
                one.begin(answered, next)?;
            } else {
                running -= 1;
            }
        }
    }
    stopwatch.stop(latencies.len() * load.operations_per_request, latencies)
}

/// Appends what happened to `events`, which is empty.
fn wait(poll: impl std::os::fd::AsFd, events: &mut Vec<epoll::Event>) -> Result<(), DriverError> {
    let silence = Timespec { tv_sec: SILENCE_MAX.as_secs() as i64, tv_nsec: 0 };
    match epoll::wait(poll, spare_capacity(events), Some(&silence)) {
        Ok(0) => Err(DriverError::Silent(SILENCE_MAX)),
        // Interrupted by a signal: the caller polls again.
        Err(rustix::io::Errno::INTR) => Ok(()),
        other => other.map(drop).map_err(|error| DriverError::Connection(error.into())),
    }
}

/// One connection.
pub(crate) struct RequestLoop {
    stream: TcpStream,
    request: Vec<u8>,
    /// The bytes of the request that were sent; the rest waits for the socket.
    sent_bytes: usize,
    /// As long as the longest response so far; the first `received_bytes` are filled.
    input: Vec<u8>,
    received_bytes: usize,
    pub(crate) began: Instant,
}

impl RequestLoop {
    pub(crate) fn open(
        address: SocketAddr,
        poll: impl std::os::fd::AsFd,
        index: u64,
    ) -> Result<Self, DriverError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // Edge-triggered, so nothing has to be registered again when a request does not fit into
        // the socket.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(poll, &stream, epoll::EventData::new_u64(index), flags)
            .map_err(io::Error::from)?;
        Ok(Self {
            stream,
            request: Vec::new(),
            sent_bytes: 0,
            input: vec![0; INPUT_BYTES],
            received_bytes: 0,
            began: Instant::now(),
        })
    }

    pub(crate) fn begin(&mut self, now: Instant, next: NextRequest<'_>) -> Result<(), DriverError> {
        self.request.clear();
        next(&mut self.request);
        self.sent_bytes = 0;
        self.began = now;
        self.send()
    }

    /// Continues after the last event. Returns the time of the response if it is complete.
    pub(crate) fn advance(&mut self) -> Result<Option<Instant>, DriverError> {
        if self.sent_bytes < self.request.len() {
            self.send()?;
        }
        let Some(answer) = self.receive()? else { return Ok(None) };
        let answered = Instant::now();
        if !answer.is_success() {
            let mut body = Vec::new();
            answer.copy_body(&self.input[..self.received_bytes], &mut body)?;
            check_success(answer.status, &self.request, &body)?;
        }
        self.received_bytes = 0;
        Ok(Some(answered))
    }

    /// Sends as much as the socket accepts.
    fn send(&mut self) -> Result<(), DriverError> {
        while self.sent_bytes < self.request.len() {
            match self.stream.write(&self.request[self.sent_bytes..]) {
                Ok(sent) => self.sent_bytes += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads until the socket is empty. A read that leaves room in the buffer has emptied it.
    fn receive(&mut self) -> Result<Option<Answer>, DriverError> {
        loop {
            let room = self.input.len() - self.received_bytes;
            match self.stream.read(&mut self.input[self.received_bytes..]) {
                Ok(0) => return Err(DriverError::ClosedEarly),
                Ok(received) => {
                    self.received_bytes += received;
                    if received < room {
                        return Answer::read(&self.input[..self.received_bytes]);
                    }
                    self.grow()?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Answer::read(&self.input[..self.received_bytes]);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn grow(&mut self) -> Result<(), DriverError> {
        if self.input.len() > ANSWER_BYTES_MAX {
            return Err(DriverError::NotHttp("the answer does not end".to_owned()));
        }
        self.input.resize(2 * self.input.len(), 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    const REQUEST_END: u8 = b'\n';

    /// Responds to every line of each connection with `answer`, in two pieces.
    fn serve(connections: usize, answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().take(connections) {
                thread::spawn(move || answer_lines(stream.unwrap(), answer));
            }
        });
        address
    }

    fn answer_lines(mut stream: TcpStream, answer: &[u8]) {
        stream.set_nodelay(true).unwrap();
        let mut scratch = vec![0; 64 << 10];
        while let Ok(1..) = stream.read(&mut scratch).inspect(|&read| {
            for _ in scratch[..read].iter().filter(|&&byte| byte == REQUEST_END) {
                let (first, rest) = answer.split_at(answer.len() / 2);
                stream.write_all(first).and_then(|()| stream.write_all(rest)).unwrap();
            }
        }) {}
    }

    fn run(answer: &'static [u8], request_bytes: usize) -> Result<(Outcome, u64), DriverError> {
        let load = Load {
            connections: 3,
            duration: Duration::from_millis(20),
            operations_per_request: 10,
        };
        let mut requests = 0;
        let mut next = |out: &mut Vec<u8>| {
            requests += 1;
            out.resize(request_bytes, b'x');
            out.push(REQUEST_END);
        };
        let outcome = run_load(serve(3, answer), Process::own(), load, &mut next)?;
        Ok((outcome, requests))
    }

    #[test]
    fn every_request_is_answered_and_counted() {
        // The long ones do not fit into the socket at once.
        for request_bytes in [10, 8 << 20] {
            let (outcome, requests) = run(ANSWER, request_bytes).unwrap();
            assert!(requests >= 3, "{requests}");
            assert_eq!((outcome.operations, outcome.latencies.len()), (10 * requests, requests));
            assert!(outcome.elapsed >= Duration::from_millis(20));
        }
    }

    #[test]
    fn a_long_answer_is_read_to_its_end() {
        let long =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "y".repeat(100_000));
        let (outcome, requests) = run(long.leak().as_bytes(), 10).unwrap();
        assert_eq!(outcome.latencies.len(), requests);
    }

    #[test]
    fn a_refusal_ends_it_and_names_the_request() {
        let refusal = b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy";
        let error = run(refusal, 3).err().unwrap();
        assert_eq!(error.to_string(), "xxx\n returned 409: busy");
    }
}
