//! The memory that large bodies of requests take together, and what happens when there is no more.
//!
//! Small bodies are not counted: their number is bounded by that of the connections. Invariant: what
//! a body was counted for is given back when its request has been answered.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use database::MemoryLevel;
use wire::{ErrorKind, ProtocolError};

use crate::memory_plan::MemoryPlan;

/// Larger bodies are counted.
pub(crate) const SMALL_BODY_BYTES: u64 = 256 << 10;

/// A number of bytes that large bodies may take together.
pub(crate) struct BodyBudget {
    taken: AtomicU64,
    bytes_max: u64,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<BodyBudget> {
        Arc::new(BodyBudget { taken: AtomicU64::new(0), bytes_max })
    }

    /// Bytes that may be taken.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes that are taken now.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

/// What one body takes. Dropping it gives that back.
pub(crate) struct BodyShare {
    budget: Arc<BodyBudget>,
    bytes: u64,
}

impl BodyShare {
    pub(crate) fn none_of(plan: &MemoryPlan) -> BodyShare {
        BodyShare { budget: Arc::clone(&plan.bodies), bytes: 0 }
    }

    /// Counts the body as one of that many bytes.
    ///
    /// # Errors
    /// 503 when large bodies take all that they may.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        if bytes <= SMALL_BODY_BYTES || bytes <= self.bytes {
            return Ok(());
        }
        let more = bytes - self.bytes;
        let taken = self.budget.taken.fetch_add(more, Ordering::Relaxed) + more;
        self.bytes = bytes;
        // On refusal this is dropped, and gives back what it took.
        if taken <= self.budget.bytes_max {
            return Ok(());
        }
        let message = format!(
            "Large requests in progress take {taken} bytes with this one, and may take {}. Nothing of \
             it was done; try again later, or send less at once.",
            self.budget.bytes_max
        );
        Err(ProtocolError::new(ErrorKind::LowMemory, message))
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Refuses a large body before it has arrived, if it would be refused anyway.
pub(crate) fn refuse_announced(bytes: u64, plan: &MemoryPlan) -> Result<(), ProtocolError> {
    if bytes <= SMALL_BODY_BYTES {
        return Ok(());
    }
    refuse_when_critical(plan)?;
    BodyShare::none_of(plan).grow_to(bytes)
}

/// Refuses what takes much memory while there is hardly any.
pub(crate) fn refuse_when_critical(plan: &MemoryPlan) -> Result<(), ProtocolError> {
    if plan.pressure.level() < MemoryLevel::Critical {
        return Ok(());
    }
    let left = plan.pressure.reading().map_or(0, |reading| reading.left_bytes);
    let message = format!(
        "The server is short of memory: {left} bytes are left of the {} that {} allows. Large \
         requests are refused until there is more; nothing of this one was done. Try again later.",
        plan.pressure.limit().bytes,
        plan.limited_by
    );
    Err(ProtocolError::new(ErrorKind::LowMemory, message))
}
