//! Memory that is reserved before an administrator's change begins, as soon as there is enough.
//!
//! A change of a record holds it several times: parsed, as it is sent to the log, in its entry, as it is applied, and
//! parsed again by the open database. Most records are small; one with many definitions has megabytes. Invariant: a
//! holder of memory for a record waits for no other memory of the kind, and for no room to compile.

use std::time::Duration;

use storage::{MemoryExhausted, MemoryShare};

use crate::{error::EngineError, memory_plan::MemoryPlan};

/// How long a change waits for its turn and for memory.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
/// A change of a smaller record needs no reservation.
const RECORD_BYTES_MIN: usize = 256 << 10;
/// How often a change of a record holds it.
pub(crate) const RECORD_COPIES: u64 = 8;

impl MemoryPlan {
    /// Memory for a change of a record of that many bytes, as soon as there is enough. Small records need none. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoRoomForRecord`] when there is not within some seconds.
    pub(crate) fn room_for_record(&self, body_bytes: usize) -> Result<MemoryShare, EngineError> {
        let mut share = self.records.share(0);
        if RECORD_BYTES_MIN <= body_bytes {
            // One from a machine with more memory is changed alone.
            let bytes = (RECORD_COPIES * body_bytes as u64).min(share.budget().bytes_max());
            grow_within(&mut share, bytes, WAIT_MAX)
                .map_err(|exhausted| EngineError::NoRoomForRecord { exhausted })?;
        }
        Ok(share)
    }
}

/// Grows as soon as there is room, unless there could never be any.
pub(crate) fn grow_within(
    share: &mut MemoryShare,
    bytes: u64,
    wait_max: Duration,
) -> Result<(), MemoryExhausted> {
    let wait_max = if bytes <= share.budget().bytes_max() { wait_max } else { Duration::ZERO };
    share.grow_to_within(bytes, wait_max)
}
