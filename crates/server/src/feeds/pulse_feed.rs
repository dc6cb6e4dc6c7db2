//! What is sent over a WebSocket each second if it is new: notifications, the load of the server.
//!
//! No reader is waited for: each pulse reports the current state, and a slow reader misses
//! intermediate ones.

use std::{future::Future, pin::Pin, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use crate::{
    feeds::{gone::Gone, pulse::Pulse},
    http::web_socket::{Session, Socket, Wake},
};

/// Maximum silence towards a reader.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Sent to a reader when there is nothing new.
const HEARTBEAT: &str = "\r\n";

/// A session that sends what a pulse returns.
pub(crate) fn begin(pulse: impl Pulse) -> Session {
    Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(run(pulse, socket))
    })
}

async fn run(pulse: impl Pulse, mut socket: Socket) {
    // However it ended, there is no one to notify any more.
    drop(serve(pulse, &mut socket).await);
    socket.close().await;
}

async fn serve(mut pulse: impl Pulse, socket: &mut Socket) -> Result<(), Gone> {
    let mut sent = Instant::now();
    loop {
        let texts: Vec<_> = pulse.messages()?.iter().map(Value::to_string).collect();
        if !texts.is_empty() {
            socket.send_all(texts).await?;
            sent = Instant::now();
        }
        if sent.elapsed() >= SILENCE_MAX {
            socket.send(HEARTBEAT.to_owned()).await?;
            sent = Instant::now();
        }
        let next = Instant::now() + pulse.interval();
        while let Wake::Text(text) = socket.wait_until(next).await? {
            pulse.hear(&text);
        }
    }
}
