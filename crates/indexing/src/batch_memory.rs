//! How large the batches of an index may be: what they gather and what their transactions change is
//! drawn from the memory that all indexes share.
//!
//! A batch ends when it has gathered its part, or when there is no room for more. Its transaction draws
//! from the same budget. How many pages a change leads to is known only when they are changed, so the
//! number of changes of a batch follows what those before took; a transaction that still finds no room
//! is given up, and the same changes come again in batches of half as many. A reduce may take several
//! transactions for a batch: a part ends when it has changed so much that the next key may be too much. So
//! what its last transaction took says nothing about how many changes a batch should have: it grows until
//! what it gathers bounds it.
//!
//! Invariant: a batch of one change is always begun, and what it gathers up to [`ALLOWED_BYTES`] never
//! refused; so an index goes on as long as one change at a time has room.

use std::{sync::Arc, time::Duration};

use storage::{MemoryBudget, MemoryExhausted, MemoryShare};

/// What one thread may gather is never refused up to here.
const ALLOWED_BYTES: u64 = 256 << 10;
/// Buffers of an index that are larger are given back after a batch.
pub(crate) const BUFFERS_KEPT_BYTES: usize = 256 << 10;
/// A batch gathers no more, however much memory there is.
const GATHERED_BYTES_MAX: usize = 32 << 20;
/// A thread gathers at most this part of what it may hold; the rest is for what it makes of that.
const GATHERED_PART: u64 = 4;
/// A batch ends after that many changes. Each batch goes once through the terms of the whole index, so
/// few large ones make an index sooner than many small ones.
const CHANGES_MAX: usize = 128 * 1024;
/// A batch has at most so many times the changes of the one before when its size is not known yet.
const GROWTH_MAX: usize = 4;
/// A batch that comes in parts has at most this part more changes than the one before, while its parts are
/// smaller than they were.
const GROWTH_PART_AFTER_HALVING: usize = 4;
/// The first batch has that many changes when memory is bounded.
const CHANGES_FIRST: usize = 1024;
/// How long a batch waits for room before it begins with what there is.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Unused memory is released whenever transactions have taken this part of what there is.
const RELEASE_PART: u64 = 2;
/// Entries take at most this part of what a transaction may change before they are written to it.
const ENTRIES_PART: u64 = 4;
/// After parts that found no room they are halved so often at most.
const HALVINGS_MAX: u32 = 5;
/// After so many batches that found room the parts are doubled again.
const BATCHES_UNTIL_DOUBLED: u32 = 16;
/// The share grows by steps, so that not every change asks.
const STEP_BYTES: u64 = 64 << 10;

/// What the indexes of a pool share, and how many threads it is for.
#[derive(Clone, Debug)]
pub(crate) struct IndexingMemory {
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) threads: u64,
}

impl IndexingMemory {
    fn is_bounded(&self) -> bool {
        self.budget.bytes_max() < u64::MAX
    }

    /// Bytes that one thread may hold when all are at work.
    fn bytes_of_thread(&self) -> u64 {
        self.budget.bytes_max() / self.threads.max(1)
    }

    /// Bytes that a batch may gather.
    pub(crate) fn gathered_bytes_max(&self) -> usize {
        let bytes = self.bytes_of_thread() / GATHERED_PART;
        usize::try_from(bytes).unwrap_or(usize::MAX).min(GATHERED_BYTES_MAX)
    }

    /// Threads that may help with one batch: each holds pieces of the log and what was made of them.
    pub(crate) fn lanes_max(&self, bytes_of_lane: u64) -> usize {
        usize::try_from(self.bytes_of_thread() / bytes_of_lane).unwrap_or(usize::MAX)
    }
}

/// The memory of one index at work.
pub(crate) struct BatchMemory {
    memory: IndexingMemory,
    share: MemoryShare,
    gathered_bytes_max: usize,
    changes_max: usize,
    /// Bytes that transactions held since unused memory was last released.
    written_bytes: u64,
    /// How often parts of batches were halved, and how many batches were written since.
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

    /// Whether there is a bound at all.
    pub(crate) fn is_bounded(&self) -> bool {
        self.memory.is_bounded()
    }

    /// A batch begins: waits a little for room, and makes do with less when there is none.
    pub(crate) fn begin(&mut self) {
        let wanted = self.gathered_bytes_max as u64 / 4;
        // What is not there in time is asked for again while the batch gathers.
        let _is_there = self.share.grow_to_within(wanted, WAIT_MAX).is_ok();
    }

    /// A batch has ended, and its buffers are as good as empty.
    pub(crate) fn end(&mut self) {
        self.share.shrink_to(0);
    }

    /// Changes that a batch may have.
    pub(crate) fn changes_max(&self) -> usize {
        self.changes_max
    }

    /// Whether a batch that has gathered so many bytes may gather more.
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        bytes < self.gathered_bytes_max && self.hold(bytes).is_ok()
    }

    /// Counts so many bytes as held by the batch.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        let bytes = bytes as u64;
        if bytes <= self.share.bytes() {
            return Ok(());
        }
        self.share.try_grow_to(bytes.next_multiple_of(STEP_BYTES))
    }

    /// Whether what changes that many bytes of pages may be written in one transaction.
    pub(crate) fn fits_one_part(&self, bytes: u64) -> bool {
        !self.is_bounded() || bytes <= self.part_bytes(0)
    }

    /// Whether a transaction that holds so many bytes should take no more.
    pub(crate) fn ends_part(&self, held_bytes: u64) -> bool {
        self.is_bounded() && self.part_bytes(held_bytes) < held_bytes
    }

    /// Bytes of entries that may wait for being written to the transaction.
    pub(crate) fn entries_bytes_max(&self) -> usize {
        let bytes = usize::try_from(self.part_bytes(0) / ENTRIES_PART).unwrap_or(usize::MAX);
        bytes.min(self.gathered_bytes_max)
    }

    /// A part of a batch was written.
    pub(crate) fn part_was_written(&mut self, held_bytes: u64) {
        self.written_bytes = self.written_bytes.saturating_add(held_bytes);
    }

    fn part_bytes(&self, own_bytes: u64) -> u64 {
        self.transaction_bytes(own_bytes) >> self.halvings
    }

    /// A batch was written in one transaction. The next takes as many changes as fit into half of what
    /// others leave, if they are like these.
    pub(crate) fn was_written(&mut self, changes: usize, held_bytes: u64) {
        if self.notes_batch(changes, held_bytes) {
            let fitting = self.fitting(changes, held_bytes, held_bytes);
            // A small batch says little about a large one.
            self.changes_max = fitting.min(grown(changes)).clamp(1, CHANGES_MAX);
        }
    }

    /// A batch was written that takes as many transactions as it needs. The last one held `held_bytes`,
    /// and `whole_bytes` of them for what is never parted.
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

    /// How many changes may be in one transaction, if so many lead to `bytes`.
    fn fitting(&self, changes: usize, bytes: u64, own_bytes: u64) -> usize {
        let wanted = changes as u128 * u128::from(self.transaction_bytes(own_bytes));
        usize::try_from(wanted / u128::from(bytes.max(1))).unwrap_or(usize::MAX)
    }

    /// Counts a batch; `false` when it says nothing about the next.
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

    /// Whether so much was written that the allocator should release what this thread has allocated and
    /// others have freed since: what the allocator keeps is in no budget.
    pub(crate) fn is_release_due(&mut self) -> bool {
        let is_due = self.memory.budget.bytes_max() / RELEASE_PART < self.written_bytes;
        if is_due {
            self.written_bytes = 0;
        }
        is_due
    }

    /// Bytes that a transaction may change: a thread's part, or more when the others do not use theirs. One
    /// that turns out larger has as much room again.
    fn transaction_bytes(&self, own_bytes: u64) -> u64 {
        let own_bytes = own_bytes + self.share.bytes();
        let others = self.memory.budget.held_bytes().saturating_sub(own_bytes);
        let left = self.memory.budget.bytes_max().saturating_sub(others);
        self.memory.bytes_of_thread().max(left) / 2
    }

    /// There was no room for a batch of that many changes: they come again, half as many at once, and in
    /// smaller parts.
    /// `false` when that cannot be.
    pub(crate) fn halve(&mut self, changes: usize) -> bool {
        self.end();
        (self.halvings, self.batches_since) = ((self.halvings + 1).min(HALVINGS_MAX), 0);
        self.changes_max = (changes / 2).clamp(1, CHANGES_MAX);
        1 < changes
    }
}

/// Changes of the batch after one of so many, at most.
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
        assert_eq!(batch.changes_max(), 1000, "a thread's part is not taken away");
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
        assert_eq!(batch.changes_max(), 2000, "what is never parted has to fit");
        assert!(batch.halve(400));
        assert_eq!(batch.changes_max(), 200);
        batch.was_written_in_parts(3, 1, 0);
        assert_eq!(batch.changes_max(), 200, "a few changes are no reason for fewer");
        batch.was_written_in_parts(200, 15 * MB, 0);
        assert_eq!(batch.changes_max(), 251);
        assert!(batch.halve(2));
        batch.was_written_in_parts(1, 15 * MB, 0);
        assert_eq!(batch.changes_max(), 2, "it grows from the least, too");
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
