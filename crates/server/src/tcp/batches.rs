//! The batches that a worker is sent.
//!
//! A batch goes out in pieces: while one is written to the socket the next is read, on a thread that
//! may block, and no more than these two are in memory. A slow client so holds neither memory nor a
//! snapshot of the documents.

use subscriptions::{IncludesFacts, Standing, Worker};
use wire::tcp_shapes::END_OF_BATCH;

use crate::{
    tcp::{
        messages::send,
        session_end::End,
        worker_session::{OpenedDatabase, read_error},
        working::Working,
    },
    time_series_includes,
};

/// A piece of a batch.
struct ReadPiece {
    bytes: Vec<u8>,
    /// What the batch gives along, when the piece is its last one.
    end: Option<IncludesFacts>,
}

impl Working<'_> {
    /// Sends a batch; `false` when no document was chosen, and so nothing was sent.
    pub(super) async fn send_batch(&mut self) -> Result<bool, End> {
        let began_ticks = self.now_ticks();
        if let Some(worker) = &mut self.worker {
            worker.begin_batch(began_ticks);
        }
        let mut unsent = Vec::new();
        let includes = loop {
            let worker = self.worker.take().ok_or(End::Gone)?;
            let database = self.database.clone();
            let (read, sent) =
                tokio::join!(read_piece(database, worker), send(self.writing, &unsent));
            let (worker, read) = read.ok_or(End::Gone)?;
            self.worker = Some(worker);
            let ReadPiece { bytes, end } = read?;
            sent?;
            unsent = bytes;
            if self.require_standing()? != Standing::Works {
                return Err(End::Gone);
            }
            if let Some(includes) = end {
                break includes;
            }
        };
        if self.worker()?.batch_documents() == 0 {
            return Ok(false);
        }
        unsent.extend_from_slice(END_OF_BATCH);
        send(self.writing, &unsent).await?;
        self.worker()?.activity().batch_sent(includes, self.now_ticks());
        Ok(true)
    }
}

/// Reads a piece, and behind the last one what is given along. `None` after a panic, which was
/// reported; the session ends, and the worker with it.
async fn read_piece(
    database: OpenedDatabase,
    mut worker: Worker,
) -> Option<(Worker, Result<ReadPiece, End>)> {
    let read = tokio::task::spawn_blocking(move || {
        let piece = read_with(&database, &mut worker);
        (worker, piece)
    });
    read.await.ok()
}

fn read_with(database: &OpenedDatabase, worker: &mut Worker) -> Result<ReadPiece, End> {
    let lease = database.lease()?;
    let mut bytes = Vec::new();
    let (tx, values) = (lease.read(), lease.values());
    let at = lease.environment().point_of(&tx)?;
    let piece = worker.read((&tx, at), Some(&values), database.state.scripts(), &mut bytes);
    let piece = piece.map_err(read_error)?;
    if !piece.is_last {
        return Ok(ReadPiece { bytes, end: None });
    }
    let mut includes = worker.write_includes(&tx, &mut bytes).map_err(read_error)?;
    let before_series = bytes.len();
    time_series_includes::write_message(&tx, worker.included_series(), &mut bytes)?;
    includes.series_bytes = (bytes.len() - before_series) as u64;
    Ok(ReadPiece { bytes, end: Some(includes) })
}
