//! The batches sent to a worker.
//!
//! A batch is sent in pieces: while one is written to the socket the next is read, on a thread that
//! may block, and no more than these two are in memory. So a slow client holds neither memory nor a
//! snapshot of the documents.

use storage::{CountedOutput, MemoryShare};
use subscriptions::{IncludesFacts, ReadError, Standing, Worker};
use wire::tcp_shapes::END_OF_BATCH;

use crate::{
    answers::{
        answer_memory::{counting_memory, wait_for_room},
        time_series_includes,
    },
    blocking::begin_blocking,
    tcp::{
        messages::send,
        session_end::End,
        worker_session::{OpenedDatabase, read_error},
        working::Working,
    },
};

/// A piece of a batch.
struct ReadPiece {
    bytes: Vec<u8>,
    /// The charge for them, until they are sent.
    share: Option<MemoryShare>,
    /// What the batch includes, if this is its last piece.
    end: Option<IncludesFacts>,
}

impl Working<'_> {
    /// Sends a batch; `false` when no document was selected, so that nothing was sent.
    pub(super) async fn send_batch(&mut self) -> Result<bool, End> {
        let began_ticks = self.now_ticks();
        if let Some(worker) = &mut self.worker {
            worker.begin_batch(began_ticks);
        }
        let (mut unsent, mut _held) = (Vec::new(), None);
        let includes = loop {
            let worker = self.worker.take().ok_or(End::Gone)?;
            let database = self.database.clone();
            let (read, sent) =
                tokio::join!(read_piece(database, worker), send(self.writing, &unsent));
            let (worker, read) = read.ok_or(End::Gone)?;
            self.worker = Some(worker);
            let ReadPiece { bytes, share, end } = read?;
            sent?;
            (unsent, _held) = (bytes, share);
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

/// Reads a piece, and after the last one the includes. `None` after a panic, which was reported;
/// the session ends, and the worker with it.
async fn read_piece(
    database: OpenedDatabase,
    mut worker: Worker,
) -> Option<(Worker, Result<ReadPiece, End>)> {
    let place = match database.place_to_read(&worker).await {
        Ok(place) => place,
        Err(end) => return Some((worker, Err(end))),
    };
    let read = begin_blocking(move || {
        let _place = place;
        let piece = read_with(&database, &mut worker);
        (worker, piece)
    });
    read.await.ok()
}

fn read_with(database: &OpenedDatabase, worker: &mut Worker) -> Result<ReadPiece, End> {
    let lease = database.lease()?;
    let memory = counting_memory(&database.state);
    let mut output = CountedOutput::new(&memory);
    let (tx, values) = (lease.read(), lease.values());
    let at = lease.environment().point_of(&tx)?;
    let scripts = database.state.engine.scripts();
    let may_wait = ReadError::may_find_memory_later;
    let piece = wait_for_room(&memory, may_wait, || {
        worker.read((&tx, at), Some(&values), scripts, &mut output)
    });
    let piece = piece.map_err(read_error)?;
    if !piece.is_last {
        let (bytes, share) = output.into_parts();
        return Ok(ReadPiece { bytes, share, end: None });
    }
    let documents_end = output.bytes.len();
    let includes = wait_for_room(&memory, may_wait, || {
        output.bytes.truncate(documents_end);
        worker.write_includes(&tx, &mut output)
    });
    let mut includes = includes.map_err(read_error)?;
    let before_series = output.bytes.len();
    time_series_includes::write_message(&tx, worker.included_series(), &mut output.bytes)?;
    output.settle();
    includes.series_bytes = (output.bytes.len() - before_series) as u64;
    let (bytes, share) = output.into_parts();
    Ok(ReadPiece { bytes, share, end: Some(includes) })
}
