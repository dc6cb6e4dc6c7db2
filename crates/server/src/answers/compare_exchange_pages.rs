//! Lists of compare exchange values of any length: `GET /cmpxchg` without keys.
//!
//! A short list is written in one go, from one snapshot of the cluster's state; a long one in pieces,
//! at the client's pace. One that takes longer than some seconds continues from a newer snapshot, after
//! its last key: it contains every value that exists throughout, each in the version of its moment.
//! Invariant: memory holds a few pieces of the list, not the list, and no list blocks the cluster's
//! writes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cluster_state::{ClusterState, CompareExchangeEntry};
use model::DatabaseId;
use storage::pass_over;

use crate::{
    answers::{
        answer::Answer,
        compare_exchange_text::{entry_bytes, write_entry, write_large_entry},
        json_text::Commas,
        long_answer::{INLINE_BYTES_MAX, LongAnswer, Sink, at_once, reason_after_results},
        piece_sender::{PIECE_BYTES, PieceSender, Sent},
    },
    api_error::ApiError,
    call::Call,
};

/// Pages that end at most this many values after the first are tried inline, on the thread that reads
/// the connection.
const INLINE_VALUES_MAX: usize = 256;
/// The text of a larger value is not in memory as a whole.
const LARGE_BYTES: usize = 32 << 10;
/// How long a list waits for its client before it releases its snapshot.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a list reads from one snapshot.
const SNAPSHOT_AGE_MAX: Duration = Duration::from_secs(10);

/// A requested list, as far as it was not written.
struct Listing {
    database: DatabaseId,
    prefix: String,
    /// The last key that was written.
    after: Option<String>,
    skip: usize,
    take: usize,
    commas: Commas,
}

/// Responds with the list.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (start, page_size) = (query.start()?, query.page_size()?);
    let database = call.database()?;
    // No page starts before the first value, and one without a size contains all.
    let take = usize::try_from(page_size).ok().filter(|size| *size > 0).unwrap_or(usize::MAX);
    let (skip, take) = match usize::try_from(start) {
        Ok(start) => (start, take),
        Err(_) => (0, 0),
    };
    let new_listing = {
        let database = database.record().topology_id;
        let prefix = query.get("startsWith").unwrap_or_default().to_owned();
        move || Listing {
            database,
            prefix: prefix.clone(),
            after: None,
            skip,
            take,
            commas: Commas::default(),
        }
    };
    let engine = Arc::clone(&call.state.engine);
    if skip.saturating_add(take) <= INLINE_VALUES_MAX {
        let (mut listing, mut out) = (new_listing(), begun());
        let (state, sink) = (engine.cluster_state(), Sink::Whole { bytes_max: INLINE_BYTES_MAX });
        // What fails is tried again in pieces, which show how far it comes.
        if let Some(Ok(Next::End)) = at_once(listing.write_from(&state, sink, &mut out)) {
            return Ok(Answer::json(ended(out)));
        }
    }
    let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
        *out = begun();
        sender.also_holds(engine.cluster_environment());
        let mut listing = new_listing();
        loop {
            let state = engine.cluster_state();
            sender.snapshot_renewed();
            match listing.write_from(&state, Sink::Pieces(sender), out).await? {
                Next::End => {
                    out.extend_from_slice(b"]}");
                    return Ok(true);
                }
                Next::Cut => return Ok(false),
                Next::Later(piece) => {
                    drop(state);
                    if !piece.is_empty() && !sender.send_without_snapshot(piece).await {
                        return Ok(false);
                    }
                }
            }
        }
    };
    let what = "a list of compare exchange values";
    Ok(Answer::long(LongAnswer::new(database, what, reason_after_results, write)))
}

fn begun() -> Vec<u8> {
    b"{\"Results\":[".to_vec()
}

fn ended(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(b"]}");
    out
}

/// How a list continues.
enum Next {
    /// The list is complete.
    End,
    /// From a new snapshot, once the client has read this piece, if it is not empty.
    Later(Bytes),
    /// The response must be aborted.
    Cut,
}

impl Listing {
    /// Writes from one snapshot for as long as that may be held.
    async fn write_from(
        &mut self,
        state: &ClusterState,
        sink: Sink<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Next, ApiError> {
        let after = self.after.take();
        let found =
            state.compare_exchange_with_prefix(self.database, &self.prefix, after.as_deref())?;
        let page = found.skip_while(pass_over(self.skip)).take(self.take);
        for entry in page {
            let entry = entry?;
            if !self.write(&entry, sink, out).await? {
                return Ok(Next::Cut);
            }
            (self.skip, self.take) = (0, self.take - 1);
            let next = match sink {
                Sink::Whole { bytes_max } if out.len() <= bytes_max => continue,
                Sink::Whole { .. } => Next::Cut,
                Sink::Pieces(_) if out.len() < PIECE_BYTES => continue,
                Sink::Pieces(sender) => {
                    let piece = sender.counted(std::mem::take(out));
                    match sender.send_patiently(piece, SNAPSHOT_PATIENCE).await {
                        Sent::Taken if sender.snapshot_age() < SNAPSHOT_AGE_MAX => continue,
                        Sent::Taken => Next::Later(Bytes::new()),
                        Sent::Waiting(piece) => Next::Later(piece),
                        Sent::Cut => Next::Cut,
                    }
                }
            };
            self.after = Some(entry.key);
            return Ok(next);
        }
        Ok(Next::End)
    }

    /// Writes a value, a large one in pieces; `false` when the sink requests to stop.
    async fn write(
        &mut self,
        entry: &CompareExchangeEntry<'_>,
        sink: Sink<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, ApiError> {
        let (begin, memory) = (out.len(), sink.working_memory());
        let value = Some((entry.index, &entry.value));
        self.commas.before_next(out);
        if LARGE_BYTES < entry.value.as_bytes().len() {
            return write_large_entry(&entry.key, (entry.index, &entry.value), sink, out).await;
        }
        let written = sink.with_room(|| {
            let scope = memory.scope();
            let written = entry_bytes(&entry.key, value)
                .and_then(|bytes| memory.take(bytes as u64).map_err(ApiError::from))
                .and_then(|()| write_entry(&entry.key, value, out));
            sink.end_row(scope, out);
            written
        });
        if let Err(error) = written.await {
            // Only whole values were written.
            out.truncate(begin);
            return Err(error);
        }
        Ok(true)
    }
}
