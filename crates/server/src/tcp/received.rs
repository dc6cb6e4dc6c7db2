//! Messages of a worker's client, read by a separate task.

use tokio::{sync::mpsc, task::JoinHandle};
use wire::tcp_shapes::WorkerMessage;

use crate::{
    tcp::messages::{MessageReader, ReadEnd},
    transport::Reading,
};

/// Maximum number of messages of a worker that wait to be processed.
const RECEIVED_MAX: usize = 64;

/// The messages of a worker's client, read by a separate task.
pub(super) struct Received {
    pub(super) messages: mpsc::Receiver<Result<WorkerMessage, ReadEnd>>,
    reading: JoinHandle<()>,
    /// Acknowledgements that arrived before they were awaited.
    pub(super) early: usize,
}

impl Drop for Received {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Reads a client's messages until it disconnects, at most a few ahead of processing.
pub(super) fn receive(mut messages: MessageReader<Reading>) -> Received {
    let (sender, receiver) = mpsc::channel(RECEIVED_MAX);
    let reading = tokio::spawn(async move {
        loop {
            let read = messages.next().await.and_then(|message| {
                WorkerMessage::read(&message).map_err(|error| ReadEnd::Broken(error.into()))
            });
            let is_last = read.is_err();
            if sender.send(read).await.is_err() || is_last {
                return;
            }
        }
    });
    Received { messages: receiver, reading, early: 0 }
}
