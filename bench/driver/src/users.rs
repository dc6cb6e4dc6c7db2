//! Connected users: each has its own connection, sends a request, reads the response, waits for a
//! while, and sends the next one. Unlike in a closed loop, the load does not depend on the server's
//! speed.
//!
//! Invariant: a response other than success, and a connection that breaks, count as one failed
//! request, and the user continues with a new connection.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
};

use crate::{
    error::DriverError,
    generated::mixed,
    load::{NextRequest, RequestLoop, Stopwatch},
    outcome::{Outcome, no_latencies},
    process::Process,
};

/// Users who still wait this long after the end have failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The number of users, and the duration.
#[derive(Clone, Copy)]
pub(crate) struct Users {
    pub(crate) count: usize,
    /// No request starts after this time.
    pub(crate) duration: Duration,
    /// The average time between a response and the next request of a user, from none to twice that.
    /// The first requests are spread over this time.
    pub(crate) thinking: Duration,
}

/// Runs the users. Returns their latencies and the number of failed requests. Blocks the thread.
pub(crate) fn run_users(
    address: SocketAddr,
    server: Process,
    users: Users,
    next: NextRequest<'_>,
) -> Result<(Outcome, u64), DriverError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut loops = Vec::with_capacity(users.count);
    for index in 0..users.count {
        loops.push(RequestLoop::open(address, &poll, index as u64)?);
    }
    let stopwatch = Stopwatch::start(server)?;
    let mut visit = Visit {
        address,
        thoughts: Thoughts { thinking: users.thinking, state: 0 },
        coming: BinaryHeap::new(),
        waiting: 0,
        latencies: no_latencies(),
        failed: 0,
    };
    let began = Instant::now();
    for index in 0..users.count {
        let first = began + users.thinking * index as u32 / users.count as u32;
        visit.coming.push(Reverse((first, index)));
    }
    visit.run(&poll, &mut loops, began + users.duration, next)?;
    let answered = visit.latencies.len();
    Ok((stopwatch.stop(answered, visit.latencies)?, visit.failed))
}

struct Visit {
    address: SocketAddr,
    thoughts: Thoughts,
    /// The users by the time of their next request.
    coming: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The number of users waiting for a response.
    waiting: usize,
    latencies: Histogram<u64>,
    failed: u64,
}

impl Visit {
    fn run(
        &mut self,
        poll: &impl std::os::fd::AsFd,
        loops: &mut [RequestLoop],
        end: Instant,
        next: NextRequest<'_>,
    ) -> Result<(), DriverError> {
        let mut events = Vec::with_capacity(loops.len());
        loop {
            let now = Instant::now();
            while let Some(&Reverse((time, index))) = self.coming.peek()
                && time <= now
            {
                self.coming.pop();
                if time >= end {
                    continue;
                }
                self.waiting += 1;
                // Counts from when the request was due, so that delays of the driver are included.
                if loops[index].begin(time, next).is_err() {
                    self.fail(poll, loops, index)?;
                }
            }
            let limit = match self.coming.peek() {
                Some(Reverse((time, _))) => time.saturating_duration_since(now),
                None if self.waiting == 0 => return Ok(()),
                None => (end + SILENCE_MAX).saturating_duration_since(now),
            };
            if limit.is_zero() && self.coming.is_empty() {
                self.failed += self.waiting as u64;
                return Ok(());
            }
            wait(poll, &mut events, limit)?;
            for event in events.drain(..) {
                let index = event.data.u64() as usize;
                match loops[index].advance() {
                    Ok(None) => {}
                    Ok(Some(answered)) => {
                        let latency = answered.saturating_duration_since(loops[index].began);
                        self.latencies += latency.as_nanos() as u64;
                        self.waiting -= 1;
                        self.think(index);
                    }
                    Err(_) => self.fail(poll, loops, index)?,
                }
            }
        }
    }

    fn fail(
        &mut self,
        poll: &impl std::os::fd::AsFd,
        loops: &mut [RequestLoop],
        index: usize,
    ) -> Result<(), DriverError> {
        self.failed += 1;
        self.waiting -= 1;
        loops[index] = RequestLoop::open(self.address, poll, index as u64)?;
        self.think(index);
        Ok(())
    }

    fn think(&mut self, index: usize) {
        self.coming.push(Reverse((Instant::now() + self.thoughts.next(), index)));
    }
}

/// The pauses of users: the same in every run.
struct Thoughts {
    thinking: Duration,
    state: u64,
}

impl Thoughts {
    fn next(&mut self) -> Duration {
        const STEPS: u64 = 1_000;
        self.state += 1;
        self.thinking * 2 * (mixed(self.state) % STEPS) as u32 / STEPS as u32
    }
}

/// Appends what happened within the time to `events`, which is empty.
fn wait(
    poll: &impl std::os::fd::AsFd,
    events: &mut Vec<epoll::Event>,
    limit: Duration,
) -> Result<(), DriverError> {
    let limit =
        Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match epoll::wait(poll, spare_capacity(events), Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(DriverError::Connection(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;

    /// Responds to each read with success, but to every tenth of a connection with an error, after
    /// which it closes the connection.
    fn serve() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut scratch = [0; 100];
                    for count in 1.. {
                        let Ok(1..) = stream.read(&mut scratch) else { return };
                        let status = if count % 10 == 0 { "503 Busy" } else { "200 OK" };
                        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).unwrap();
                        if count % 10 == 0 {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn failed_requests_are_counted_and_their_users_come_again() {
        let users = Users {
            count: 7,
            duration: Duration::from_millis(300),
            thinking: Duration::from_millis(5),
        };
        let mut sent = 0;
        let mut next = |out: &mut Vec<u8>| {
            sent += 1;
            out.extend_from_slice(b"x");
        };
        let (outcome, failed) = run_users(serve(), Process::own(), users, &mut next).unwrap();
        assert!(failed > 0, "of {sent}, {} answered", outcome.operations);
        assert_eq!(outcome.operations + failed, sent);
        // Every tenth request of a connection fails.
        assert!(failed <= sent / 10, "{failed} of {sent}");
    }
}
