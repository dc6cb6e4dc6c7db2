//! The batches that a worker is sent.
//!
//! A batch goes out in pieces: while one is written to the socket the next is read, on a thread that
//! may block, and no more than these two are in memory. A slow client so holds neither memory nor a
//! snapshot of the documents.

use subscriptions::{BatchTiming, Piece, Standing, Worker};
use wire::tcp_shapes::END_OF_BATCH;

use crate::{
    tcp::{
        messages::send,
        worker_session::{End, OpenedDatabase, Working, read_error},
    },
    time_series_includes,
};

impl Working<'_> {
    /// Sends a batch; `false` when no document was chosen, and so nothing was sent.
    pub(super) async fn send_batch(&mut self) -> Result<bool, End> {
        let began_ticks = self.now_ticks();
        if let Some(worker) = &mut self.worker {
            worker.begin_batch();
        }
        let mut unsent = Vec::new();
        loop {
            let worker = self.worker.take().ok_or(End::Gone)?;
            let database = self.database.clone();
            let (read, sent) =
                tokio::join!(read_piece(database, worker), send(self.writing, &unsent));
            let (worker, piece, bytes) = read?;
            self.worker = Some(worker);
            sent?;
            unsent = bytes;
            if self.require_standing()? != Standing::Works {
                return Err(End::Gone);
            }
            if piece.is_last {
                break;
            }
        }
        let worker = self.worker()?;
        let documents = worker.batch_documents();
        if documents == 0 {
            return Ok(false);
        }
        unsent.extend_from_slice(END_OF_BATCH);
        send(self.writing, &unsent).await?;
        let now_ticks = self.now_ticks();
        let timing = BatchTiming {
            began_ticks,
            documents: documents as u64,
            sending_ticks: now_ticks - began_ticks,
            acknowledging_ticks: None,
        };
        self.worker()?.activity().batch_sent(timing, now_ticks);
        Ok(true)
    }
}

/// Reads a piece, and behind the last one what is given along.
async fn read_piece(
    database: OpenedDatabase,
    mut worker: Worker,
) -> Result<(Worker, Piece, Vec<u8>), End> {
    let read = tokio::task::spawn_blocking(move || {
        let lease = database.lease()?;
        let mut bytes = Vec::new();
        let (tx, values) = (lease.read(), lease.values());
        let piece = worker.read(&tx, Some(&values), database.state.scripts(), &mut bytes);
        let piece = piece.map_err(read_error)?;
        if piece.is_last {
            worker.write_includes(&tx, &mut bytes).map_err(read_error)?;
            time_series_includes::write_message(&tx, worker.included_series(), &mut bytes)?;
        }
        Ok((worker, piece, bytes))
    });
    // A panic there was reported; the session ends, and the worker with it.
    read.await.unwrap_or(Err(End::Gone))
}
