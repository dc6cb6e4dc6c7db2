//! What the I/O of a database costs: all that is remembered, and live over a WebSocket.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use database::{Database, DatabaseLease};
use http::StatusCode;
use model::date;
use serde_json::{Value, json};
use storage::{FileIo, IoKind, IoOperation, IoPosition, IoSummary};
use tokio::time::Instant;
use wire::{ProtocolError, humane_size};

use crate::{
    answer::Answer,
    call::Call,
    server_state::ServerState,
    web_socket::{Gone, Session, Socket, Wake},
};

/// How often a live reader is told what is new.
const NEWS_INTERVAL: Duration = Duration::from_secs(3);
/// How long a live reader hears nothing at most.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// How often a live reader is looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What a live reader is sent when there is nothing new.
const HEARTBEAT: &str = "\r\n";
const TICKS_PER_MILLISECOND: f64 = 10_000.0;

/// `GET /debug/io-metrics`.
pub(crate) fn all(call: &Call) -> Result<Answer, ProtocolError> {
    let (environment, _) = io_of(call.database()?, IoPosition::default());
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "Environments": [environment],
        "Performances": [],
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/io-metrics/live`: first everything that is remembered, then every few seconds what is
/// new. A reader that is late misses what has been summed up meanwhile.
pub(crate) fn live(call: &Call) -> Result<Session, ProtocolError> {
    let database = call.database()?;
    let live = Live {
        state: Arc::clone(&call.state),
        name: database.record().name.as_str().to_owned(),
        opened: database.opened_after(),
        position: IoPosition::default(),
    };
    Ok(Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(live.run(socket))
    }))
}

/// One live reader. It does not keep the database from being closed; when that happens, it ends.
struct Live {
    state: Arc<ServerState>,
    name: String,
    opened: Duration,
    position: IoPosition,
}

impl Live {
    async fn run(mut self, mut socket: Socket) {
        // However it ended, nobody is left to be told.
        drop(self.serve(&mut socket).await);
        socket.close().await;
    }

    async fn serve(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        let (everything, _) = self.news()?;
        socket.send(everything).await?;
        let (mut asked, mut sent) = (Instant::now(), Instant::now());
        loop {
            let next_look = Instant::now() + LOOK_INTERVAL;
            // What the client says is of no interest, only whether it is there.
            while socket.wait_until(next_look).await? != Wake::Time {}
            if asked.elapsed() >= NEWS_INTERVAL {
                asked = Instant::now();
                let (news, is_new) = self.news()?;
                if is_new {
                    socket.send(news).await?;
                    sent = asked;
                    continue;
                }
            }
            self.database()?;
            if sent.elapsed() >= SILENCE_MAX {
                socket.send(HEARTBEAT.to_owned()).await?;
                sent = Instant::now();
            }
        }
    }

    /// The database, for as long as it is the one that the reader began with.
    fn database(&self) -> Result<DatabaseLease, Gone> {
        let open = self.state.registry.if_open(&self.name);
        open.filter(|database| database.opened_after() == self.opened).ok_or(Gone)
    }

    /// The operations since the last call, and whether there are any.
    fn news(&mut self) -> Result<(String, bool), Gone> {
        let (environment, position) = io_of(&*self.database()?, self.position);
        let is_new = position != self.position;
        self.position = position;
        let news = json!({"Environments": [environment], "Performances": []});
        Ok((news.to_string(), is_new))
    }
}

fn io_of(database: &Database, since: IoPosition) -> (Value, IoPosition) {
    let environment = database.environment();
    let (files, position) = environment.io(since);
    let files: Vec<Value> = files.iter().map(file_item).collect();
    let path = environment.options().directory.display().to_string();
    (json!({"Path": path, "Type": "Documents", "Files": files}), position)
}

fn file_item(file: &FileIo) -> Value {
    json!({
        "File": &*file.file,
        "Status": if file.is_in_use { "InUse" } else { "Closed" },
        "Recent": file.recent.iter().map(operation_item).collect::<Vec<_>>(),
        "History": file.history.iter().map(summary_item).collect::<Vec<_>>(),
    })
}

/// The word for a kind of operation.
pub(crate) fn kind_name(kind: IoKind) -> &'static str {
    match kind {
        IoKind::JournalWrite => "JournalWrite",
        IoKind::DataFlush => "DataFlush",
        IoKind::DataSync => "DataSync",
        IoKind::Compression => "Compression",
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn operation_item(operation: &IoOperation) -> Value {
    let start = date::format(operation.start.ticks());
    let (bytes, before) = (operation.bytes, operation.bytes_before);
    if operation.kind == IoKind::Compression {
        return json!({
            "Start": start,
            "OriginalSize": before, "HumaneOriginalSize": humane_size(before),
            "CompressedSize": bytes, "HumaneCompressedSize": humane_size(bytes),
            "Acceleration": 1, "CompressionRatio": bytes as f64 / before.max(1) as f64,
            "Duration": milliseconds(operation.duration), "Type": kind_name(operation.kind)
        });
    }
    json!({
        "Start": start,
        "Size": bytes, "HumaneSize": humane_size(bytes),
        "FileSize": operation.file_bytes, "HumaneFileSize": humane_size(operation.file_bytes),
        "Duration": milliseconds(operation.duration), "Type": kind_name(operation.kind)
    })
}

fn summary_item(summary: &IoSummary) -> Value {
    let compressed = if summary.kind == IoKind::Compression { summary.bytes } else { 0 };
    let whole = summary.end.ticks() - summary.start.ticks();
    json!({
        "Start": date::format(summary.start.ticks()),
        "End": date::format(summary.end.ticks()),
        "Size": summary.bytes_before, "HumaneSize": humane_size(summary.bytes_before),
        "FileSize": summary.file_bytes, "HumaneFileSize": humane_size(summary.file_bytes),
        "Duration": whole as f64 / TICKS_PER_MILLISECOND,
        "ActiveDuration": milliseconds(summary.active),
        "MaxDuration": milliseconds(summary.longest),
        "MinDuration": milliseconds(summary.shortest),
        "MaxAcceleration": 1, "MinAcceleration": 1,
        "CompressedSize": compressed, "HumaneCompressedSize": humane_size(compressed),
        "Type": kind_name(summary.kind)
    })
}
