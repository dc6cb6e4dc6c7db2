//! What one piece of work holds for a moment, such as a row of an answer while it is made.
//!
//! The work counts what it is about to hold: a copy of a document, what a script returns, the text of a
//! series. A little is allowed to all; what goes beyond that is drawn from a budget, or refused where there
//! is none. What is counted within a [`WorkingScope`] is counted out at its end. It stays on one thread, and
//! counting small things costs an addition.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use crate::memory_budget::{MemoryBudget, MemoryExhausted, MemoryShare};

/// What is drawn is a multiple of this.
const STEP_BYTES: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct WorkingMemory {
    held: Cell<u64>,
    /// So much is not drawn.
    allowed: u64,
    share: Option<RefCell<MemoryShare>>,
    patience: Duration,
    refused: Cell<Option<MemoryExhausted>>,
}

impl Default for WorkingMemory {
    fn default() -> WorkingMemory {
        WorkingMemory::up_to(u64::MAX)
    }
}

impl WorkingMemory {
    /// For work that holds at most so many bytes.
    pub fn up_to(bytes: u64) -> WorkingMemory {
        let (held, refused, patience) = Default::default();
        WorkingMemory { held, allowed: bytes, share: None, patience, refused }
    }

    /// For work that draws what it holds beyond `allowed` bytes, and waits so long where there is no room. A
    /// thread on which others wait should have no patience.
    pub fn beyond(allowed: u64, budget: &Arc<MemoryBudget>, patience: Duration) -> WorkingMemory {
        let share = Some(RefCell::new(budget.share(0)));
        WorkingMemory { allowed, share, patience, ..WorkingMemory::default() }
    }

    /// Counts bytes that are about to be held.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is no room; they are not counted then, and [`Self::check`] repeats it
    /// until the scope ends.
    pub fn take(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        let held = self.held.get().saturating_add(bytes);
        if self.allowed < held {
            self.draw(held).inspect_err(|refused| self.refused.set(Some(*refused)))?;
        }
        self.held.set(held);
        Ok(())
    }

    /// The same for something that grows: it is about to have so many bytes, and `counted` of them are counted.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn grow(&self, counted: &mut u64, bytes: u64) -> Result<(), MemoryExhausted> {
        if *counted < bytes {
            self.take(bytes - *counted)?;
            *counted = bytes;
        }
        Ok(())
    }

    fn draw(&self, held: u64) -> Result<(), MemoryExhausted> {
        match &self.share {
            None => Err(MemoryExhausted { taken: held, bytes_max: self.allowed }),
            Some(share) => {
                let bytes = (held - self.allowed).checked_next_multiple_of(STEP_BYTES);
                let bytes = bytes.unwrap_or(u64::MAX);
                share.borrow_mut().grow_to_within(bytes, self.patience)
            }
        }
    }

    /// What was refused in the scope, if anything was: what was made without it must not be used.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn check(&self) -> Result<(), MemoryExhausted> {
        self.refused.get().map_or(Ok(()), Err)
    }

    /// What is counted from now on is counted out when the scope is dropped.
    pub fn scope(&self) -> WorkingScope<'_> {
        WorkingScope { memory: self, held_before: self.held.get() }
    }
}

/// A part of some work, see [`WorkingMemory::scope`].
#[derive(Debug)]
pub struct WorkingScope<'m> {
    memory: &'m WorkingMemory,
    held_before: u64,
}

impl Drop for WorkingScope<'_> {
    fn drop(&mut self) {
        let WorkingScope { memory, held_before } = *self;
        memory.held.set(held_before);
        memory.refused.set(None);
        if let Some(share) = &memory.share {
            share.borrow_mut().shrink_to(held_before.saturating_sub(memory.allowed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_beyond_the_allowance_is_drawn_until_its_scope_ends() {
        let budget = MemoryBudget::new(3 * STEP_BYTES);
        let memory = WorkingMemory::beyond(100, &budget, Duration::ZERO);
        memory.take(60).unwrap();
        let row = memory.scope();
        memory.take(40).unwrap();
        assert_eq!(budget.held_bytes(), 0);
        memory.take(1).unwrap();
        assert_eq!(budget.held_bytes(), STEP_BYTES);
        let refused = memory.take(3 * STEP_BYTES).unwrap_err();
        assert_eq!(refused.bytes_max, 3 * STEP_BYTES);
        assert_eq!(memory.check(), Err(refused), "until the scope ends");
        memory.take(2 * STEP_BYTES).unwrap();
        assert_eq!(budget.held_bytes(), 3 * STEP_BYTES);
        drop(row);
        assert_eq!((budget.held_bytes(), memory.check()), (0, Ok(())));
        memory.take(40).unwrap();
        assert_eq!(budget.held_bytes(), 0, "what was counted before is counted still");
        memory.take(1).unwrap();
        assert_eq!(budget.held_bytes(), STEP_BYTES);
        drop(memory);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn what_grows_is_counted_once() {
        let (memory, mut counted) = (WorkingMemory::up_to(10), 0);
        memory.grow(&mut counted, 8).unwrap();
        memory.grow(&mut counted, 6).unwrap();
        memory.grow(&mut counted, 10).unwrap();
        assert!(memory.grow(&mut counted, 11).is_err());
        assert!(WorkingMemory::default().take(u64::MAX).is_ok());
    }

    #[test]
    fn work_with_patience_waits_for_room() {
        let budget = MemoryBudget::new(STEP_BYTES);
        let mut other = budget.share(0);
        other.try_grow_to(STEP_BYTES).unwrap();
        std::thread::scope(|threads| {
            let waits = threads
                .spawn(|| WorkingMemory::beyond(0, &budget, Duration::from_secs(60)).take(1));
            drop(other);
            waits.join().unwrap().unwrap();
        });
    }
}
