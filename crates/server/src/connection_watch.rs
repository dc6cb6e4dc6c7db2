//! What a connection is doing, seen from its bytes: idle, sending a request's head, or at work.
//!
//! Clients keep idle connections for minutes and may use one at any moment, so idleness and a slow
//! head have limits of their own. Invariant: a connection on which a request is being answered is
//! never cut for its slowness here.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};

/// What has been seen of one connection. Times are milliseconds since it was accepted.
pub(crate) struct ConnectionWatch {
    accepted: Instant,
    last_byte: AtomicU64,
    /// When the head that is arriving began; 0 when none is.
    head_began: AtomicU64,
    is_answering: AtomicBool,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Keep,
    /// Idle for too long: close it the polite way.
    CloseIdle,
    /// Its head takes too long: cut it.
    Cut,
}

impl ConnectionWatch {
    pub(crate) fn new() -> Arc<ConnectionWatch> {
        Arc::new(ConnectionWatch {
            accepted: Instant::now(),
            last_byte: AtomicU64::new(0),
            head_began: AtomicU64::new(0),
            is_answering: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.accepted.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A request has arrived and is being answered.
    pub(crate) fn answering(&self) {
        self.is_answering.store(true, Ordering::Relaxed);
        self.head_began.store(0, Ordering::Relaxed);
    }

    /// The answer is made; its bytes may still be on their way.
    pub(crate) fn answered(&self) {
        self.last_byte.store(self.now(), Ordering::Relaxed);
        self.is_answering.store(false, Ordering::Relaxed);
    }

    /// What to do about the connection now.
    pub(crate) fn judge(&self, idle_max: Duration, head_max: Duration) -> Verdict {
        if self.is_answering.load(Ordering::Relaxed) {
            return Verdict::Keep;
        }
        let now = self.now();
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        let head_began = self.head_began.load(Ordering::Relaxed);
        if head_began != 0 {
            return if since(head_began) > head_max { Verdict::Cut } else { Verdict::Keep };
        }
        let is_idle = since(self.last_byte.load(Ordering::Relaxed)) > idle_max;
        if is_idle { Verdict::CloseIdle } else { Verdict::Keep }
    }

    fn saw_read(&self) {
        let now = self.now().max(1);
        self.last_byte.store(now, Ordering::Relaxed);
        if !self.is_answering.load(Ordering::Relaxed)
            && self.head_began.load(Ordering::Relaxed) == 0
        {
            self.head_began.store(now, Ordering::Relaxed);
        }
    }

    fn saw_write(&self) {
        self.last_byte.store(self.now(), Ordering::Relaxed);
    }
}

/// A connection whose bytes are seen.
pub(crate) struct WatchedStream {
    stream: TcpStream,
    watch: Arc<ConnectionWatch>,
}

impl WatchedStream {
    pub(crate) fn new(stream: TcpStream, watch: Arc<ConnectionWatch>) -> WatchedStream {
        WatchedStream { stream, watch }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.saw_read();
        }
        polled
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watch.saw_write();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watch.saw_write();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_connection_is_judged_by_what_it_is_doing() {
        let watch = ConnectionWatch::new();
        assert_eq!(watch.judge(LONG, LONG), Verdict::Keep);
        watch.saw_read();
        // The head began in the past as seen from an hour later.
        watch.head_began.store(1, Ordering::Relaxed);
        assert_eq!(watch.judge(ZERO, LONG), Verdict::Keep);
        watch.answering();
        assert_eq!(watch.judge(ZERO, ZERO), Verdict::Keep);
        watch.answered();
        assert_eq!(watch.judge(LONG, ZERO), Verdict::Keep);
    }
}
