//! The memory of what the maps return for one document, counted while it is made.
//!
//! A document has no bound on its outputs, and all of them are in memory until they are gathered into a
//! batch. Invariant: beyond [`ALLOWED_BYTES`] nothing is kept of a document that was not counted first;
//! what a single value takes may be counted right after it was added.

use storage::{MemoryBudget, MemoryShare, StorageError};

use crate::mapper::MapError;

/// What the outputs of one document may always take.
pub(crate) const ALLOWED_BYTES: u64 = 256 << 10;
/// The share grows in steps, so that not every output asks the budget.
const STEP_BYTES: u64 = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct OutputRoom {
    bytes: u64,
    bytes_max: u64,
    /// Where they are counted; `None` where the bound alone is enough.
    share: Option<MemoryShare>,
    is_exceeded: bool,
}

impl Default for OutputRoom {
    fn default() -> Self {
        Self::up_to(u64::MAX)
    }
}

impl OutputRoom {
    /// A room of `bytes_max`.
    pub(crate) fn up_to(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max, share: None, is_exceeded: false }
    }

    /// A room of `bytes_max`, which are drawn from a budget.
    pub(crate) fn within(budget: &std::sync::Arc<MemoryBudget>, bytes_max: u64) -> Self {
        Self { share: Some(budget.share(ALLOWED_BYTES)), ..Self::up_to(bytes_max) }
    }

    /// Begins the next document: nothing is made of it yet.
    pub(crate) fn begin(&mut self) {
        (self.bytes, self.is_exceeded) = (0, false);
    }

    /// Ends the document, of whose outputs nothing is left but buffers.
    pub(crate) fn end(&mut self) {
        self.begin();
        self.share.iter_mut().for_each(|share| share.shrink_to(0));
    }

    /// Changes the bound for the next document.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Bytes that are counted of this document.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that may be counted yet.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Whether the document has more outputs than fit, so that no more are of use.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Counts bytes that are about to be added, or that were just added.
    ///
    /// # Errors
    ///
    /// [`MapError::Document`] when the document has more than fits, [`StorageError::NoMemory`] when others
    /// have taken the memory.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), MapError> {
        self.grow_to(self.bytes.saturating_add(bytes))
    }

    /// As [`Self::take`], when `bytes` are to be counted in all.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), MapError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        if self.bytes_max < bytes {
            return Err(self.exceed());
        }
        if let Some(share) = &mut self.share
            && share.bytes() < bytes
            && ALLOWED_BYTES < bytes
        {
            let wanted = bytes.next_multiple_of(STEP_BYTES);
            share.try_grow_to(wanted).map_err(StorageError::from)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The failure of a document with more outputs than fit.
    pub(crate) fn exceed(&mut self) -> MapError {
        self.is_exceeded = true;
        too_many_outputs(self.bytes_max)
    }
}

/// The failure of a document whose outputs may not take more than `bytes_max`.
pub(crate) fn too_many_outputs(bytes_max: u64) -> MapError {
    let message = format!(
        "The maps return more for this document than fits in memory: its results may take at most \
         {bytes_max} bytes there"
    );
    MapError::Document { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_document_takes_is_drawn_until_it_ends_and_bounded() {
        let budget = MemoryBudget::new(2 << 20);
        let mut room = OutputRoom::within(&budget, 1 << 20);
        room.take(ALLOWED_BYTES).unwrap();
        assert_eq!(budget.held_bytes(), 0, "always allowed");
        room.take(1).unwrap();
        assert_eq!(budget.held_bytes(), 2 * STEP_BYTES);
        assert!(matches!(room.take(1 << 20), Err(MapError::Document { .. })));
        assert!(room.is_exceeded());
        room.end();
        assert_eq!((budget.held_bytes(), room.bytes(), room.is_exceeded()), (0, 0, false));
        let mut others = budget.share(0);
        others.try_grow_to(2 << 20).unwrap();
        room.take(ALLOWED_BYTES).unwrap();
        assert!(matches!(room.take(1), Err(MapError::Index(_))), "it may be tried again");
        assert!(!room.is_exceeded());
    }
}
