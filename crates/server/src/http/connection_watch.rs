//! What a connection is doing, inferred from its bytes: idle, sending a request's head, or busy.
//!
//! Clients keep idle connections for minutes and may use one at any moment, so idleness and a slow
//! head have separate limits, and so has a client that does not read its response. Invariant: a
//! connection on which a response is being produced is never cut for its slowness here.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::{
    http::{
        connection_limiter::{ConnectionLimiter, Departure, UNUSED_AFTER},
        data_rate::MinDataRate,
    },
    transport::Connection,
};

/// The state of one connection. Times are milliseconds since it was accepted.
pub(crate) struct ConnectionWatch {
    accepted: Instant,
    last_byte: AtomicU64,
    /// When the head that is arriving began; 0 if none is.
    head_began: AtomicU64,
    is_answering: AtomicBool,
    /// Responses that are being produced or sent.
    answers: AtomicU64,
    /// How many bodies are being discarded; they have separate limits.
    draining: AtomicU64,
    /// Whether bytes wait for the client to read others.
    is_write_blocked: AtomicBool,
    /// When that first happened in this response; 0 if it has not.
    blocked_first: AtomicU64,
    /// How many bytes the client has taken since then, or are queued since.
    bytes_since: AtomicU64,
    limiter: Arc<ConnectionLimiter>,
    /// Present once it gives up its place.
    departure: Mutex<Option<Departure>>,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Keep,
    /// Idle for too long: close it gracefully.
    CloseIdle,
    /// Its head takes too long, or its client does not read the response: cut it.
    Cut,
}

impl ConnectionWatch {
    pub(crate) fn new(limiter: Arc<ConnectionLimiter>) -> Arc<ConnectionWatch> {
        Arc::new(ConnectionWatch {
            accepted: Instant::now(),
            last_byte: AtomicU64::new(0),
            head_began: AtomicU64::new(0),
            is_answering: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            draining: AtomicU64::new(0),
            is_write_blocked: AtomicBool::new(false),
            blocked_first: AtomicU64::new(0),
            bytes_since: AtomicU64::new(0),
            limiter,
            departure: Mutex::default(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.accepted.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A request has arrived and is being answered.
    pub(crate) fn answering(&self) {
        self.is_answering.store(true, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.head_began.store(0, Ordering::Relaxed);
    }

    /// The response is complete; its bytes may still be in flight.
    pub(crate) fn answered(&self) {
        self.last_byte.store(self.now(), Ordering::Relaxed);
        self.is_answering.store(false, Ordering::Relaxed);
    }

    /// All of the response was sent, or it is no longer wanted.
    fn answer_ended(&self) {
        self.last_byte.store(self.now(), Ordering::Relaxed);
        self.blocked_first.store(0, Ordering::Relaxed);
        self.answers.fetch_sub(1, Ordering::Relaxed);
    }

    /// The rest of a request's body is being discarded.
    pub(crate) fn draining(&self) {
        self.draining.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it has been read, or the attempt is abandoned.
    pub(crate) fn drained(&self) {
        self.last_byte.store(self.now(), Ordering::Relaxed);
        self.draining.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed) > 0
    }

    /// Gives up the place of this connection if another one waits for it. A caller that gets `true` ends
    /// its request soon.
    pub(crate) fn try_give_up_place(&self) -> bool {
        let mut departure = self.departure.lock().unwrap_or_else(PoisonError::into_inner);
        if departure.is_none() {
            *departure = self.limiter.begin_departure();
        }
        departure.is_some()
    }

    /// Whether this connection gives up its place.
    pub(crate) fn is_departing(&self) -> bool {
        self.departure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether there has been no complete request for a while: it is idle, or its client sends a
    /// head little by little.
    pub(crate) fn is_unused(&self) -> bool {
        let is_at_work = 0 < self.answers.load(Ordering::Relaxed) || self.is_draining();
        if is_at_work || self.is_write_blocked.load(Ordering::Relaxed) {
            return false;
        }
        let since = match self.head_began.load(Ordering::Relaxed) {
            0 => self.last_byte.load(Ordering::Relaxed),
            head_began => head_began,
        };
        UNUSED_AFTER <= Duration::from_millis(self.now().saturating_sub(since))
    }

    /// What to do about the connection now.
    pub(crate) fn judge(
        &self,
        idle_max: Duration,
        head_max: Duration,
        rate: MinDataRate,
    ) -> Verdict {
        if self.is_answering.load(Ordering::Relaxed) || self.is_draining() {
            return Verdict::Keep;
        }
        if self.is_too_slow(rate) {
            return Verdict::Cut;
        }
        let now = self.now();
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        let head_began = self.head_began.load(Ordering::Relaxed);
        if head_began != 0 {
            return if since(head_began) > head_max { Verdict::Cut } else { Verdict::Keep };
        }
        if since(self.last_byte.load(Ordering::Relaxed)) <= idle_max {
            return Verdict::Keep;
        }
        // A graceful close waits for the response, which such a client does not read.
        let is_blocked = self.is_write_blocked.load(Ordering::Relaxed);
        if is_blocked { Verdict::Cut } else { Verdict::CloseIdle }
    }

    /// Whether the client reads a response more slowly than allowed.
    fn is_too_slow(&self, rate: MinDataRate) -> bool {
        let first = self.blocked_first.load(Ordering::Relaxed);
        if first == 0 || !self.is_write_blocked.load(Ordering::Relaxed) {
            return false;
        }
        let taken = Duration::from_millis(self.now().saturating_sub(first));
        rate.time_for(self.bytes_since.load(Ordering::Relaxed)) < taken
    }

    fn saw_read(&self) {
        let now = self.now().max(1);
        self.last_byte.store(now, Ordering::Relaxed);
        if !self.is_answering.load(Ordering::Relaxed)
            && !self.is_draining()
            && self.head_began.load(Ordering::Relaxed) == 0
        {
            self.head_began.store(now, Ordering::Relaxed);
        }
    }

    /// Records the result of sending some bytes.
    fn saw_write(&self, bytes: usize, written: &Poll<io::Result<usize>>) {
        self.is_write_blocked.store(written.is_pending(), Ordering::Relaxed);
        let now = self.now();
        match written {
            Poll::Ready(written) => {
                self.last_byte.store(now, Ordering::Relaxed);
                let written = written.as_ref().map_or(0, |written| *written as u64);
                if self.blocked_first.load(Ordering::Relaxed) != 0 {
                    self.bytes_since.fetch_add(written, Ordering::Relaxed);
                }
            }
            Poll::Pending if self.blocked_first.load(Ordering::Relaxed) == 0 => {
                self.bytes_since.store(bytes as u64, Ordering::Relaxed);
                self.blocked_first.store(now.max(1), Ordering::Relaxed);
            }
            Poll::Pending => {}
        }
    }
}

/// How often an aborted body checks whether its client has read what came before, and the maximum
/// number of checks.
const BREAK_INTERVAL: Duration = Duration::from_millis(10);
const BREAK_LOOKS_MAX: u32 = 500;

/// The body of a response, which counts as busy until it was sent. An aborted one ends only after
/// what came before was read, which contains the reason: the connection would discard unsent bytes.
pub(crate) struct WatchedBody<B: Body> {
    body: B,
    watch: Arc<ConnectionWatch>,
    breaking: Option<Breaking<B::Error>>,
}

/// A body that is about to be aborted.
struct Breaking<E> {
    error: E,
    pause: Pin<Box<Sleep>>,
    looks: u32,
}

impl<B: Body> WatchedBody<B> {
    pub(crate) fn new(body: B, watch: Arc<ConnectionWatch>) -> WatchedBody<B> {
        WatchedBody { body, watch, breaking: None }
    }
}

impl<B: Body> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        self.watch.answer_ended();
    }
}

impl<B: Body<Error: Unpin> + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = &mut *self;
        if this.breaking.is_none() {
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Err(error))) => {
                    let pause = Box::pin(sleep(BREAK_INTERVAL));
                    this.breaking = Some(Breaking { error, pause, looks: 0 });
                }
                other => return other,
            }
        }
        let Some(mut breaking) = this.breaking.take() else { return Poll::Ready(None) };
        while breaking.pause.as_mut().poll(context).is_ready() {
            breaking.looks += 1;
            let is_blocked = this.watch.is_write_blocked.load(Ordering::Relaxed);
            if !is_blocked || breaking.looks >= BREAK_LOOKS_MAX {
                return Poll::Ready(Some(Err(breaking.error)));
            }
            breaking.pause.as_mut().reset(Instant::now() + BREAK_INTERVAL);
        }
        this.breaking = Some(breaking);
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose traffic is observed.
pub(crate) struct WatchedConnection {
    connection: Connection,
    watch: Arc<ConnectionWatch>,
}

impl WatchedConnection {
    pub(crate) fn new(connection: Connection, watch: Arc<ConnectionWatch>) -> WatchedConnection {
        WatchedConnection { connection, watch }
    }
}

impl AsyncRead for WatchedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.connection).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.saw_read();
        }
        polled
    }
}

impl AsyncWrite for WatchedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.watch.saw_write(bytes.len(), &written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write_vectored(context, slices);
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.watch.saw_write(bytes, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_watch() -> Arc<ConnectionWatch> {
        ConnectionWatch::new(Arc::new(ConnectionLimiter::new(1)))
    }

    const ZERO: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);
    const NO_RATE: MinDataRate = MinDataRate { bytes_per_second: 0, grace: ZERO };

    #[test]
    fn a_client_is_too_slow_when_it_took_too_little_for_its_time() {
        let watch = new_watch();
        let rate = |bytes_per_second| MinDataRate { bytes_per_second, grace: ZERO };
        watch.saw_write(1000, &Poll::Ready(Ok(1000)));
        assert_eq!(watch.judge(LONG, LONG, rate(u64::MAX)), Verdict::Keep);
        // An hour ago.
        watch.saw_write(1000, &Poll::Pending);
        let accepted = Instant::now().checked_sub(LONG).unwrap();
        let watch = ConnectionWatch { accepted, ..Arc::into_inner(watch).unwrap() };
        assert_eq!(watch.judge(2 * LONG, LONG, rate(1)), Verdict::Cut);
        assert_eq!(watch.judge(2 * LONG, LONG, NO_RATE), Verdict::Keep);
        watch.saw_write(1000, &Poll::Ready(Ok(4000)));
        watch.saw_write(1000, &Poll::Pending);
        assert_eq!(watch.judge(2 * LONG, LONG, rate(1)), Verdict::Keep);
        assert_eq!(watch.judge(2 * LONG, LONG, rate(2)), Verdict::Cut);
        watch.answering();
        watch.answered();
        watch.answer_ended();
        assert_eq!(watch.judge(2 * LONG, LONG, rate(2)), Verdict::Keep);
    }

    #[test]
    fn a_connection_is_judged_by_what_it_is_doing() {
        let watch = new_watch();
        assert_eq!(watch.judge(LONG, LONG, NO_RATE), Verdict::Keep);
        watch.saw_read();
        // The head began in the past as seen from an hour later.
        watch.head_began.store(1, Ordering::Relaxed);
        assert_eq!(watch.judge(ZERO, LONG, NO_RATE), Verdict::Keep);
        watch.answering();
        assert_eq!(watch.judge(ZERO, ZERO, NO_RATE), Verdict::Keep);
        watch.answered();
        assert_eq!(watch.judge(LONG, ZERO, NO_RATE), Verdict::Keep);
    }

    #[test]
    fn only_a_client_that_does_not_take_its_answer_is_cut_instead_of_closed() {
        let accepted = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        let watch = ConnectionWatch { accepted, ..Arc::into_inner(new_watch()).unwrap() };
        assert_eq!(watch.judge(ZERO, LONG, NO_RATE), Verdict::CloseIdle);
        watch.saw_write(1, &Poll::Pending);
        assert_eq!(watch.judge(ZERO, LONG, NO_RATE), Verdict::Cut);
        watch.draining();
        assert_eq!(watch.judge(ZERO, ZERO, NO_RATE), Verdict::Keep);
        watch.drained();
        watch.saw_write(1, &Poll::Ready(Ok(1)));
        assert_eq!(watch.judge(LONG, LONG, NO_RATE), Verdict::Keep);
        watch.last_byte.store(0, Ordering::Relaxed);
        assert_eq!(watch.judge(ZERO, LONG, NO_RATE), Verdict::CloseIdle);
    }

    #[test]
    fn a_connection_is_unused_when_no_request_is_underway_on_it() {
        let watch = new_watch();
        let long_ago = |watch: &ConnectionWatch| {
            watch.last_byte.store(0, Ordering::Relaxed);
            if watch.head_began.load(Ordering::Relaxed) != 0 {
                watch.head_began.store(1, Ordering::Relaxed);
            }
        };
        let mut later = new_watch();
        let past = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        Arc::get_mut(&mut later).unwrap().accepted = past;
        assert!(!watch.is_unused(), "it has just come");
        assert!(later.is_unused());
        later.saw_read();
        assert!(!later.is_unused(), "a head has just begun");
        long_ago(&later);
        assert!(later.is_unused(), "a head that does not end");
        later.answering();
        let body = WatchedBody::new(crate::answers::answer::AnswerBody::Empty, Arc::clone(&later));
        later.answered();
        long_ago(&later);
        assert!(!later.is_unused(), "its answer is on the way");
        drop(body);
        assert!(!later.is_unused(), "it was sent just now");
        long_ago(&later);
        later.saw_write(1, &Poll::Pending);
        assert!(!later.is_unused(), "its client takes the answer slowly");
    }
}
