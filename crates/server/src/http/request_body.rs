//! The body of a request, which may be answered before all of it was read.
//!
//! A client that is still sending when the connection is closed loses the response: its system
//! discards what arrived. So a body that is dropped before its end passes the rest to a task that
//! reads and discards it, while the response is being sent. Invariant: that task ends, after a
//! limited number of bytes or time; then the connection is closed whatever the client does.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};

use crate::http::connection_watch::ConnectionWatch;

/// Maximum number of bytes discarded after a response.
const DRAIN_BYTES_MAX: u64 = 256 << 20;
/// How long that may take in total.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);
/// How long the client may be silent in the meantime.
const DRAIN_SILENCE_MAX: Duration = Duration::from_secs(5);
/// The same where the connection gives up its place to another client.
const DEPARTING_SILENCE_MAX: Duration = Duration::from_millis(500);

/// A body as it arrives. The rest is drained on drop.
pub(crate) struct RequestBody {
    incoming: Option<Incoming>,
    /// The client sends nothing before it has permission, which the first read grants.
    awaits_permission: bool,
    watch: Arc<ConnectionWatch>,
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        headers: &HeaderMap,
        watch: Arc<ConnectionWatch>,
    ) -> RequestBody {
        let awaits_permission = headers.contains_key(header::EXPECT);
        RequestBody { incoming: Some(incoming), awaits_permission, watch }
    }

    /// The connection on which it arrives.
    pub(crate) fn connection(&self) -> &Arc<ConnectionWatch> {
        &self.watch
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.awaits_permission = false;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(incoming).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.incoming = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(rest) = self.incoming.take() else { return };
        if self.awaits_permission || rest.is_end_stream() {
            return;
        }
        // Without a runtime the server is gone, and its connections with it.
        if let Ok(runtime) = Handle::try_current() {
            self.watch.draining();
            runtime.spawn(drain(rest, Arc::clone(&self.watch)));
        }
    }
}

/// Reads and discards, within the limits.
async fn drain(mut rest: Incoming, watch: Arc<ConnectionWatch>) {
    let deadline = Instant::now() + DRAIN_TIME_MAX;
    let silence_max = if watch.is_departing() { DEPARTING_SILENCE_MAX } else { DRAIN_SILENCE_MAX };
    let mut bytes: u64 = 0;
    while bytes < DRAIN_BYTES_MAX {
        let piece = timeout_at(deadline, timeout(silence_max, rest.frame())).await;
        let Ok(Ok(Some(Ok(frame)))) = piece else { break };
        bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
    }
    watch.drained();
}
