//! The size of an index's batches: what they gather and what their transactions change is drawn
//! from a memory budget that all indexes share.
//!
//! A batch ends when it has gathered its share, or when the budget is exhausted. Its transaction
//! draws from the same budget. How many pages a change touches is known only afterwards, so the
//! number of changes of a batch is estimated from previous batches; a transaction that still
//! exceeds the budget is abandoned, and the same changes are retried in batches of half the size. A
//! reduce may split a batch into several transactions: a part ends when the next key might not fit.
//! So the size of its last transaction says nothing about how many changes a batch should have: it
//! grows until what it gathers limits it.
//!
//! Invariant: a batch of one change is always started, and is never refused up to
//! [`ALLOWED_BYTES`]; so an index makes progress as long as one change at a time fits.

use std::{sync::Arc, time::Duration};

use storage::{MemoryBudget, MemoryExhausted, MemoryShare};

use crate::output_room::OutputRoom;

/// A thread may always gather up to this much.
const ALLOWED_BYTES: u64 = 256 << 10;
/// Larger buffers of an index are released after a batch.
pub(crate) const BUFFERS_KEPT_BYTES: usize = 256 << 10;
/// A batch never gathers more, however much memory there is.
const GATHERED_BYTES_MAX: usize = 32 << 20;
/// A thread gathers at most this part of its share; the rest is for the data derived from it.
const GATHERED_PART: u64 = 4;
/// The maximum number of changes in a batch. Each batch traverses the terms of the whole index
/// once, so few large batches build an index faster than many small ones.
const CHANGES_MAX: usize = 128 * 1024;
/// The maximum growth of a batch relative to the previous one while its size is unknown.
const GROWTH_MAX: usize = 4;
/// The maximum relative growth of a batch that is split, while its parts are halved.
const GROWTH_PART_AFTER_HALVING: usize = 4;
/// The number of changes in the first batch when memory is bounded.
const CHANGES_FIRST: usize = 1024;
/// How long a batch waits for memory before it starts with what is available.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Unused memory is released whenever transactions have used this part of the budget.
const RELEASE_PART: u64 = 2;
/// The output of the maps for one document takes at most this part of the budget: the batch and the
/// transaction hold it once more each.
const OUTPUT_PART: u64 = 3;
/// Entries take at most this part of what a transaction may change before they are written to it.
const ENTRIES_PART: u64 = 4;
/// The maximum number of times that parts are halved.
const HALVINGS_MAX: u32 = 5;
/// After this many successful batches the parts are doubled again.
const BATCHES_UNTIL_DOUBLED: u32 = 16;
/// The share grows in steps, so that not every change asks the budget.
const STEP_BYTES: u64 = 64 << 10;

/// What the indexes of a pool share, and its number of threads.
#[derive(Clone, Debug)]
pub(crate) struct IndexingMemory {
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) threads: u64,
}

impl IndexingMemory {
    fn is_bounded(&self) -> bool {
        self.budget.bytes_max() < u64::MAX
    }

    /// The bytes that one thread may hold when all are busy.
    fn bytes_of_thread(&self) -> u64 {
        self.budget.bytes_max() / self.threads.max(1)
    }

    /// The bytes that a batch may gather.
    pub(crate) fn gathered_bytes_max(&self) -> usize {
        let bytes = self.bytes_of_thread() / GATHERED_PART;
        usize::try_from(bytes).unwrap_or(usize::MAX).min(GATHERED_BYTES_MAX)
    }

    /// What the output of the maps for one document may take.
    pub(crate) fn output_room(&self) -> OutputRoom {
        OutputRoom::within(&self.budget, self.output_bytes_max())
    }

    pub(crate) fn output_bytes_max(&self) -> u64 {
        self.budget.bytes_max() / OUTPUT_PART
    }

    /// The number of threads that may help with one batch: each holds pieces of the log and their
    /// output.
    pub(crate) fn lanes_max(&self, bytes_of_lane: u64) -> usize {
        usize::try_from(self.bytes_of_thread() / bytes_of_lane).unwrap_or(usize::MAX)
    }
}

/// The memory of one index while it runs.
pub(crate) struct BatchMemory {
    memory: IndexingMemory,
    share: MemoryShare,
    gathered_bytes_max: usize,
    changes_max: usize,
    /// Bytes held by transactions since unused memory was last released.
    written_bytes: u64,
    /// How often parts were halved, and how many batches were written since.
    halvings: u32,
    batches_since: u32,
}

impl BatchMemory {
    pub(crate) fn of(memory: &IndexingMemory) -> Self {
        Self {
            share: memory.budget.share(ALLOWED_BYTES),
            gathered_bytes_max: memory.gathered_bytes_max(),
            written_bytes: 0,
            halvings: 0,
            batches_since: 0,
            changes_max: if memory.is_bounded() { CHANGES_FIRST } else { CHANGES_MAX },
            memory: memory.clone(),
        }
    }

    /// Whether others hold no more than half of the memory.
    pub(crate) fn is_half_free(&self) -> bool {
        !self.memory.budget.is_half_taken()
    }

    /// Room for what the maps return for one document.
    pub(crate) fn output_room(&self) -> OutputRoom {
        self.memory.output_room()
    }

    /// The bytes that it may take.
    pub(crate) fn output_bytes_max(&self) -> u64 {
        self.memory.output_bytes_max()
    }

    /// Whether memory is bounded.
    pub(crate) fn is_bounded(&self) -> bool {
        self.memory.is_bounded()
    }

    /// Begins a batch: waits a little for memory, and continues with less when there is none.
    pub(crate) fn begin(&mut self) {
        let wanted = self.gathered_bytes_max as u64 / 4;
        // What is not available in time is requested again while the batch gathers.
        let _is_there = self.share.grow_to_within(wanted, WAIT_MAX).is_ok();
    }

    /// Ends a batch, whose buffers are nearly empty.
    pub(crate) fn end(&mut self) {
        self.share.shrink_to(0);
    }

    /// The maximum number of changes in a batch.
    pub(crate) fn changes_max(&self) -> usize {
        self.changes_max
    }

    /// Whether a batch that has gathered this many bytes may gather more.
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        bytes < self.gathered_bytes_max && self.hold(bytes).is_ok()
    }

    /// Sets the number of bytes that the batch holds.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        let bytes = bytes as u64;
        if bytes <= self.share.bytes() {
            return Ok(());
        }
        self.share.try_grow_to(bytes.next_multiple_of(STEP_BYTES))
    }

    /// Whether a change of that many bytes of pages fits in one transaction.
    pub(crate) fn fits_one_part(&self, bytes: u64) -> bool {
        !self.is_bounded() || bytes <= self.part_bytes(0)
    }

    /// Whether a transaction that holds this many bytes is full.
    pub(crate) fn ends_part(&self, held_bytes: u64) -> bool {
        self.is_bounded() && self.part_bytes(held_bytes) < held_bytes
    }

    /// The bytes of entries that may wait to be written to the transaction.
    pub(crate) fn entries_bytes_max(&self) -> usize {
        let bytes = usize::try_from(self.part_bytes(0) / ENTRIES_PART).unwrap_or(usize::MAX);
        bytes.min(self.gathered_bytes_max)
    }

    /// Records that part of a batch was written.
    pub(crate) fn part_was_written(&mut self, held_bytes: u64) {
        self.written_bytes = self.written_bytes.saturating_add(held_bytes);
    }

    fn part_bytes(&self, own_bytes: u64) -> u64 {
        self.transaction_bytes(own_bytes) >> self.halvings
    }

    /// Records that a batch was written in one transaction. The next one takes as many similar
    /// changes as fit into half of the free memory.
    pub(crate) fn was_written(&mut self, changes: usize, held_bytes: u64) {
        if self.notes_batch(changes, held_bytes) {
            let fitting = self.fitting(changes, held_bytes, held_bytes);
            // A small batch is a poor estimate for a large one.
            self.changes_max = fitting.min(grown(changes)).clamp(1, CHANGES_MAX);
        }
    }

    /// Records that a batch was written in several transactions. The last one held `held_bytes`, of
    /// which `whole_bytes` cannot be split.
    pub(crate) fn was_written_in_parts(
        &mut self,
        changes: usize,
        held_bytes: u64,
        whole_bytes: u64,
    ) {
        if self.notes_batch(changes, held_bytes) {
            let next = match self.halvings {
                0 => grown(changes),
                _ => changes + changes / GROWTH_PART_AFTER_HALVING + 1,
            };
            let fitting = self.fitting(changes, whole_bytes, held_bytes);
            self.changes_max = next.max(self.changes_max).min(fitting).clamp(1, CHANGES_MAX);
        }
    }

    /// The number of changes that fit in one transaction, if this many take `bytes`.
    fn fitting(&self, changes: usize, bytes: u64, own_bytes: u64) -> usize {
        let wanted = changes as u128 * u128::from(self.transaction_bytes(own_bytes));
        usize::try_from(wanted / u128::from(bytes.max(1))).unwrap_or(usize::MAX)
    }

    /// Records a batch; `false` when it is no estimate for the next one.
    fn notes_batch(&mut self, changes: usize, held_bytes: u64) -> bool {
        self.part_was_written(held_bytes);
        if !self.is_bounded() || changes == 0 {
            return false;
        }
        self.batches_since += 1;
        if BATCHES_UNTIL_DOUBLED <= self.batches_since {
            (self.halvings, self.batches_since) = (self.halvings.saturating_sub(1), 0);
        }
        true
    }

    /// Whether so much was written that the allocator should release what this thread allocated and
    /// others freed since: memory kept by the allocator is in no budget.
    pub(crate) fn is_release_due(&mut self) -> bool {
        let is_due = self.memory.budget.bytes_max() / RELEASE_PART < self.written_bytes;
        if is_due {
            self.written_bytes = 0;
        }
        is_due
    }

    /// The bytes that a transaction may change: a thread's share, or more when the others do not
    /// use theirs. A transaction that exceeds the estimate may take as much again.
    fn transaction_bytes(&self, own_bytes: u64) -> u64 {
        let own_bytes = own_bytes + self.share.bytes();
        let others = self.memory.budget.held_bytes().saturating_sub(own_bytes);
        let left = self.memory.budget.bytes_max().saturating_sub(others);
        self.memory.bytes_of_thread().max(left) / 2
    }

    /// Records that a batch of that many changes did not fit: they are retried, half as many at
    /// once, and in smaller parts. `false` when they cannot be halved.
    pub(crate) fn halve(&mut self, changes: usize) -> bool {
        self.end();
        (self.halvings, self.batches_since) = ((self.halvings + 1).min(HALVINGS_MAX), 0);
        self.changes_max = (changes / 2).clamp(1, CHANGES_MAX);
        1 < changes
    }
}

/// The maximum number of changes of the batch after one of that size.
fn grown(changes: usize) -> usize {
    changes.saturating_mul(GROWTH_MAX).max(CHANGES_FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn memory(bytes_max: u64) -> IndexingMemory {
        IndexingMemory { budget: MemoryBudget::new(bytes_max), threads: 2 }
    }

    #[test]
    fn without_a_bound_batches_are_as_large_as_they_may_be() {
        let unlimited = IndexingMemory { budget: MemoryBudget::unlimited(), threads: 2 };
        let mut batch = BatchMemory::of(&unlimited);
        batch.was_written(10, 1 << 40);
        assert_eq!(batch.changes_max(), CHANGES_MAX);
        assert_eq!(batch.gathered_bytes_max, GATHERED_BYTES_MAX);
        assert!(batch.has_room(GATHERED_BYTES_MAX - 1));
        assert!(!batch.has_room(GATHERED_BYTES_MAX));
    }

    #[test]
    fn the_number_of_changes_follows_what_they_took() {
        let memory = memory(32 * MB);
        let mut batch = BatchMemory::of(&memory);
        assert_eq!(batch.changes_max(), 1024);
        batch.was_written(1000, 16 * MB);
        assert_eq!(batch.changes_max(), 1000, "half of all");
        batch.was_written(1000, 160 * MB);
        assert_eq!(batch.changes_max(), 100);
        let mut others = memory.budget.share(0);
        others.try_grow_to(30 * MB).unwrap();
        batch.was_written(1000, 8 * MB);
        assert_eq!(batch.changes_max(), 1000, "a thread's share is guaranteed");
        drop(others);
        batch.was_written(100, 1);
        assert_eq!(batch.changes_max(), 1024);
        batch.was_written(1024, 1);
        assert_eq!(batch.changes_max(), 4096);
        assert!(batch.halve(4096));
        assert_eq!(batch.changes_max(), 2048);
        assert!(!batch.halve(1), "one change cannot be halved");
        assert_eq!(batch.changes_max(), 1);
    }

    #[test]
    fn parts_are_as_large_as_there_is_room_and_smaller_after_one_that_found_none() {
        let memory = memory(32 * MB);
        let mut batch = BatchMemory::of(&memory);
        assert!(batch.fits_one_part(16 * MB) && !batch.fits_one_part(16 * MB + 1));
        let mut others = memory.budget.share(0);
        others.try_grow_to(24 * MB).unwrap();
        assert!(!batch.ends_part(8 * MB) && batch.ends_part(8 * MB + 1), "a thread's part");
        drop(others);
        batch.halve(1000);
        assert!(batch.fits_one_part(8 * MB) && !batch.fits_one_part(8 * MB + 1));
        (0..BATCHES_UNTIL_DOUBLED).for_each(|_| batch.was_written(1, 1));
        assert!(batch.fits_one_part(16 * MB));
        let unlimited = IndexingMemory { budget: MemoryBudget::unlimited(), threads: 2 };
        assert!(!BatchMemory::of(&unlimited).ends_part(u64::MAX));
    }

    #[test]
    fn a_batch_in_parts_grows_whatever_its_last_transaction_took_and_slowly_after_a_failure() {
        let mut batch = BatchMemory::of(&memory(32 * MB));
        for held_bytes in [16 * MB, 15 * MB, 1] {
            batch.was_written_in_parts(2, held_bytes, 0);
            assert_eq!(batch.changes_max(), CHANGES_FIRST);
        }
        batch.was_written_in_parts(CHANGES_FIRST, 15 * MB, 0);
        assert_eq!(batch.changes_max(), 4 * CHANGES_FIRST);
        batch.was_written_in_parts(1000, 15 * MB, 8 * MB);
        assert_eq!(batch.changes_max(), 2000, "what cannot be split has to fit");
        assert!(batch.halve(400));
        assert_eq!(batch.changes_max(), 200);
        batch.was_written_in_parts(3, 1, 0);
        assert_eq!(batch.changes_max(), 200, "a small batch does not lower the limit");
        batch.was_written_in_parts(200, 15 * MB, 0);
        assert_eq!(batch.changes_max(), 251);
        assert!(batch.halve(2));
        batch.was_written_in_parts(1, 15 * MB, 0);
        assert_eq!(batch.changes_max(), 2, "it also grows from the minimum");
        (0..2 * BATCHES_UNTIL_DOUBLED).for_each(|_| batch.was_written_in_parts(2, 15 * MB, 0));
        assert_eq!(batch.changes_max(), CHANGES_FIRST);
    }

    #[test]
    fn a_batch_ends_where_others_left_no_room_and_the_allowed_part_is_there_for_all() {
        let memory = memory(2 * MB);
        let mut others = memory.budget.share(0);
        others.try_grow_to(2 * MB).unwrap();
        let mut batch = BatchMemory::of(&memory);
        assert!(batch.has_room(ALLOWED_BYTES as usize - 1));
        assert!(batch.hold(ALLOWED_BYTES as usize + 1).is_err());
        drop(others);
        batch.hold(ALLOWED_BYTES as usize + 1).unwrap();
        batch.end();
        assert_eq!(memory.budget.held_bytes(), 0);
        assert!(!batch.is_release_due());
        batch.was_written(1, MB);
        batch.was_written(1, 1);
        assert!(batch.is_release_due());
        assert!(!batch.is_release_due(), "once");
    }
}
