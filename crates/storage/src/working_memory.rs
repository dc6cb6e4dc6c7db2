//! Temporary memory of one piece of work, such as the rows of a response while they are produced.
//!
//! The work charges what it is about to allocate: a copy of a document, what a script returns, the
//! text of a series. A small allowance is free; anything beyond it is drawn from a budget, or
//! refused if there is none. All of it stays on one thread, and charging a small amount costs an
//! addition.
//!
//! Every charged byte has one owner. What is charged within a [`WorkingScope`] belongs to the scope
//! and is released at its end. What outlives the scope passes to a [`Held`] before that
//! ([`Held::end`]), and what leaves the thread to a [`MemoryShare`] ([`Held::take_share`]), so that
//! it is always charged to some budget.
//! Invariant: after a refusal everything in the same scope is refused, and nothing outside of it:
//! work that catches errors, such as a script, ends soon, and a later attempt starts afresh.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use crate::memory_budget::{MemoryBudget, MemoryExhausted, MemoryShare};

/// Granularity of draws from the budget.
const STEP_BYTES: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct WorkingMemory {
    held: Cell<u64>,
    /// The allowance, which is not drawn.
    allowed: u64,
    share: Option<RefCell<MemoryShare>>,
    /// What the innermost scope owns of `held`; `None` outside of scopes.
    in_scope: Cell<Option<u64>>,
    /// The first refusal in that scope.
    refused: Cell<Option<MemoryExhausted>>,
    /// What the share should have held at the last refusal.
    wanted: Cell<u64>,
}

impl Default for WorkingMemory {
    fn default() -> WorkingMemory {
        WorkingMemory::up_to(u64::MAX)
    }
}

impl WorkingMemory {
    /// For work that holds at most this many bytes.
    pub fn up_to(bytes: u64) -> WorkingMemory {
        WorkingMemory::of(bytes, None)
    }

    /// For work that draws from `budget` what it holds beyond `allowed` bytes. It never waits for
    /// memory by itself.
    pub fn beyond(allowed: u64, budget: &Arc<MemoryBudget>) -> WorkingMemory {
        WorkingMemory::of(allowed, Some(RefCell::new(budget.share(0))))
    }

    fn of(allowed: u64, share: Option<RefCell<MemoryShare>>) -> WorkingMemory {
        let (held, in_scope, refused, wanted) = Default::default();
        WorkingMemory { held, allowed, share, in_scope, refused, wanted }
    }

    /// Charges bytes that are about to be allocated; they belong to the innermost scope.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is not enough memory, or after an earlier refusal in this
    /// scope; nothing is charged then.
    pub fn take(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        self.check()?;
        let Some(in_scope) = self.in_scope.get() else { return self.count(bytes) };
        self.count(bytes).inspect_err(|refused| self.refused.set(Some(*refused)))?;
        self.in_scope.set(Some(in_scope.saturating_add(bytes)));
        Ok(())
    }

    /// The same for something that grows: it is about to have `bytes`, of which `counted` are
    /// charged already.
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

    /// Charges bytes, regardless of the owner.
    fn count(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        let held = self.held.get().saturating_add(bytes);
        if self.allowed < held {
            let Some(share) = &self.share else {
                // An allowance is no budget: the caller may try again with more.
                return Err(MemoryExhausted { own: 0, taken: held, bytes_max: self.allowed });
            };
            let drawn = self.drawn_for(held);
            let grown = share.borrow_mut().try_grow_to(drawn);
            grown.inspect_err(|_| self.wanted.set(drawn))?;
        }
        self.held.set(held);
        Ok(())
    }

    /// Sets what is charged from now on, unconditionally.
    fn set_held(&self, held: u64) {
        self.held.set(held);
        let Some(share) = &self.share else { return };
        let (mut share, drawn) = (share.borrow_mut(), self.drawn_for(held));
        share.shrink_to(drawn);
        if share.bytes() < drawn {
            share.grow_to(drawn);
        }
    }

    /// The share to draw when this much is held.
    fn drawn_for(&self, held: u64) -> u64 {
        let beyond = held.saturating_sub(self.allowed);
        beyond.checked_next_multiple_of(STEP_BYTES).unwrap_or(u64::MAX)
    }

    /// Whether anything was refused in the scope: then what was produced must not be used.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub fn check(&self) -> Result<(), MemoryExhausted> {
        self.refused.get().map_or(Ok(()), Err)
    }

    /// What is charged from now on is released when the scope is dropped. Scopes end in the reverse
    /// of the order in which they began.
    pub fn scope(&self) -> WorkingScope<'_> {
        let outer = self.in_scope.replace(Some(0));
        WorkingScope { memory: self, outer, refused_before: self.refused.take() }
    }

    /// An owner that holds nothing yet.
    pub fn holding(self: &Rc<Self>) -> Held {
        Held { memory: Rc::clone(self), bytes: 0 }
    }

    /// Waits until there seems to be enough memory for what was last refused, but at most
    /// `time_max`; returns whether there is. For threads that may block.
    pub fn wait_for_room(&self, time_max: Duration) -> bool {
        let Some(share) = &self.share else { return false };
        let (budget, drawn) = {
            let share = share.borrow();
            (Arc::clone(share.budget()), share.bytes())
        };
        let missing = self.wanted.get().saturating_sub(drawn);
        budget.share(0).grow_to_within(missing, time_max).is_ok()
    }
}

/// A scope, see [`WorkingMemory::scope`].
#[derive(Debug)]
pub struct WorkingScope<'m> {
    memory: &'m WorkingMemory,
    /// What the enclosing scope owns.
    outer: Option<u64>,
    refused_before: Option<MemoryExhausted>,
}

impl WorkingScope<'_> {
    /// Leaves `kept` bytes charged instead of what the scope owns. The caller owns them from now
    /// on.
    fn end_with(&self, kept: u64) {
        let memory = self.memory;
        let own = memory.in_scope.replace(Some(0)).unwrap_or_default();
        if own != kept {
            memory.set_held(memory.held.get().saturating_sub(own).saturating_add(kept));
        }
    }
}

impl Drop for WorkingScope<'_> {
    fn drop(&mut self) {
        self.end_with(0);
        self.memory.in_scope.set(self.outer);
        self.memory.refused.set(self.refused_before);
    }
}

/// Bytes of a [`WorkingMemory`] that outlive the scope in which they were charged. They are
/// released on drop.
#[derive(Debug)]
pub struct Held {
    memory: Rc<WorkingMemory>,
    bytes: u64,
}

impl Held {
    /// The number of bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows to `bytes`; does nothing if it already holds more.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is not enough memory; the call may be repeated.
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if 0 < more {
            self.memory.count(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Holds exactly `bytes`, which are allocated already, unconditionally.
    pub fn set(&mut self, bytes: u64) {
        if self.bytes != bytes {
            let memory = &self.memory;
            memory.set_held(memory.held.get().saturating_sub(self.bytes).saturating_add(bytes));
            self.bytes = bytes;
        }
    }

    /// Ends a scope: this owner ends up holding exactly `bytes`, taken from what the scope owns,
    /// and the rest is released.
    pub fn end(&mut self, scope: WorkingScope<'_>, bytes: u64) {
        scope.end_with(bytes.saturating_sub(self.bytes));
        if self.bytes <= bytes {
            self.bytes = bytes;
        } else {
            self.set(bytes);
        }
    }

    /// Takes over what another owner of the same memory holds.
    pub fn absorb(&mut self, mut other: Held) {
        debug_assert!(Rc::ptr_eq(&self.memory, &other.memory), "both of one memory");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Converts what was drawn for these bytes into a share that may go to another thread; the part
    /// within the allowance is released. `None` when nothing was drawn for them.
    pub fn take_share(&mut self) -> Option<MemoryShare> {
        let bytes = std::mem::take(&mut self.bytes);
        let held = self.memory.held.get().saturating_sub(bytes);
        self.memory.held.set(held);
        let mut share = self.memory.share.as_ref()?.borrow_mut();
        let left = share.bytes().saturating_sub(self.memory.drawn_for(held));
        (0 < left).then(|| share.split(left))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_beyond_the_allowance_is_drawn_until_its_scope_ends() {
        let budget = MemoryBudget::new(3 * STEP_BYTES);
        let memory = WorkingMemory::beyond(100, &budget);
        memory.take(60).unwrap();
        let row = memory.scope();
        memory.take(40).unwrap();
        assert_eq!(budget.held_bytes(), 0);
        memory.take(1).unwrap();
        assert_eq!(budget.held_bytes(), STEP_BYTES);
        let refused = memory.take(3 * STEP_BYTES).unwrap_err();
        assert_eq!(refused.bytes_max, 3 * STEP_BYTES);
        drop(row);
        assert_eq!(budget.held_bytes(), 0);
        memory.take(40).unwrap();
        assert_eq!(budget.held_bytes(), 0, "what was counted before is counted still");
        memory.take(1).unwrap();
        assert_eq!(budget.held_bytes(), STEP_BYTES);
        drop(memory);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn a_refusal_ends_its_scope_and_is_forgotten_with_it() {
        let memory = WorkingMemory::up_to(10);
        assert!(memory.take(11).is_err());
        assert_eq!(memory.check(), Ok(()), "nothing is in a scope");
        let row = memory.scope();
        let refused = memory.take(11).unwrap_err();
        assert_eq!((memory.check(), memory.take(1)), (Err(refused), Err(refused)));
        {
            let _inner = memory.scope();
            assert_eq!(memory.take(1), Ok(()), "it starts afresh");
        }
        assert_eq!(memory.check(), Err(refused));
        drop(row);
        assert_eq!((memory.check(), memory.take(10)), (Ok(()), Ok(())));
    }

    #[test]
    fn what_outlives_its_scope_is_counted_at_every_moment() {
        let budget = MemoryBudget::new(8 * STEP_BYTES);
        let memory = Rc::new(WorkingMemory::beyond(0, &budget));
        let mut row = memory.holding();
        let scope = memory.scope();
        memory.take(5 * STEP_BYTES).unwrap();
        row.end(scope, 2 * STEP_BYTES);
        assert_eq!((row.bytes(), budget.held_bytes()), (2 * STEP_BYTES, 2 * STEP_BYTES));
        // What was not charged before is charged once it exists, unconditionally.
        let (mut text, mut other) = (memory.holding(), budget.share(0));
        other.try_grow_to(6 * STEP_BYTES).unwrap();
        text.end(memory.scope(), STEP_BYTES);
        assert_eq!(budget.held_bytes(), 9 * STEP_BYTES);
        assert!(memory.take(1).is_err());
        drop(other);
        row.absorb(text);
        let piece = row.take_share().unwrap();
        assert_eq!((piece.bytes(), row.bytes(), budget.held_bytes()), (3 << 16, 0, 3 << 16));
        drop((row, memory));
        assert_eq!(budget.held_bytes(), 3 * STEP_BYTES);
        drop(piece);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn what_is_held_may_be_dropped_within_a_scope() {
        let budget = MemoryBudget::new(8 * STEP_BYTES);
        let memory = Rc::new(WorkingMemory::beyond(0, &budget));
        let mut row = memory.holding();
        row.grow_to(3 * STEP_BYTES).unwrap();
        let scope = memory.scope();
        memory.take(STEP_BYTES).unwrap();
        drop(row);
        assert_eq!(budget.held_bytes(), STEP_BYTES);
        drop(scope);
        assert_eq!(budget.held_bytes(), 0);
        assert!(memory.holding().take_share().is_none());
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
    fn work_may_wait_until_there_is_room_for_what_was_refused() {
        let budget = MemoryBudget::new(STEP_BYTES);
        let mut other = budget.share(0);
        other.try_grow_to(STEP_BYTES).unwrap();
        let memory = WorkingMemory::beyond(0, &budget);
        assert!(memory.take(1).is_err() && !memory.wait_for_room(Duration::ZERO));
        std::thread::scope(|threads| {
            let waits = threads
                .spawn(move || (memory.wait_for_room(Duration::from_secs(60)), memory.take(1)));
            drop(other);
            assert_eq!(waits.join().unwrap(), (true, Ok(())));
        });
    }
}
