//! What is sent over a WebSocket each second, as far as it is new: notifications, the load of the server.
//!
//! Nobody is kept waiting for a reader: at each pulse it is looked what there is then, and a reader that is
//! slow misses what has passed.

use std::{future::Future, pin::Pin, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use crate::{
    gone::Gone,
    pulse::Pulse,
    web_socket::{Session, Socket, Wake},
};

/// How long a reader hears nothing at most.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// What a reader is sent when there is nothing new.
const HEARTBEAT: &str = "\r\n";

/// A session that sends what a pulse has to send.
pub(crate) fn begin(pulse: impl Pulse) -> Session {
    Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(run(pulse, socket))
    })
}

async fn run(pulse: impl Pulse, mut socket: Socket) {
    // However it ended, nobody is left to hear of it.
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
