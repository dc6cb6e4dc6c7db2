//! What large bodies of requests take of the memory for work.
//!
//! Small bodies are not counted: their number is bounded by that of the connections. Invariant: what
//! a body was counted for is given back when its request has been answered.

use storage::MemoryShare;
use wire::ProtocolError;

use crate::memory_plan::{MemoryPlan, no_room};

/// Larger bodies are counted.
pub(crate) const SMALL_BODY_BYTES: u64 = 256 << 10;

/// What one body takes. Dropping it gives that back.
pub(crate) struct BodyShare(MemoryShare);

impl BodyShare {
    pub(crate) fn none_of(plan: &MemoryPlan) -> BodyShare {
        BodyShare(plan.bodies.share(0))
    }

    /// Counts the body as one of that many bytes.
    ///
    /// # Errors
    /// 503 when large bodies take all that they may.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        if bytes <= SMALL_BODY_BYTES {
            return Ok(());
        }
        self.0.try_grow_to(bytes).map_err(|exhausted| no_room("Large requests", exhausted))
    }
}

/// Refuses a large body before it has arrived, if it would be refused anyway.
pub(crate) fn refuse_announced(bytes: u64, plan: &MemoryPlan) -> Result<(), ProtocolError> {
    if bytes <= SMALL_BODY_BYTES {
        return Ok(());
    }
    plan.refuse_when_critical()?;
    BodyShare::none_of(plan).grow_to(bytes)
}
