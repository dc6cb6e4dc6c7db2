//! What one piece of work holds for a moment, such as the rows of an answer while they are made.
//!
//! The work counts what it is about to hold: a copy of a document, what a script returns, the text of a
//! series. A little is allowed to all; what goes beyond that is drawn from a budget, or refused where there
//! is none. It stays on one thread, and counting small things costs an addition.
//!
//! Every counted byte has one owner. What is taken within a [`WorkingScope`] belongs to the scope and is
//! counted out at its end. What outlives the scope passes to a [`Held`] before that ([`Held::end`]), and what
//! leaves the thread to a [`MemoryShare`] ([`Held::leave`]), so that at no moment it is in no budget.
//! Invariant: after a refusal everything in the same scope is refused, and nothing outside of it: work that
//! catches errors, such as a script, ends soon, and what is tried again later begins without a past.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
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
    /// What the innermost scope owns of `held`; `None` outside of scopes.
    in_scope: Cell<Option<u64>>,
    /// What was refused in that scope.
    refused: Cell<Option<MemoryExhausted>>,
    /// What the share was to hold when it was refused last.
    wanted: Cell<u64>,
}

impl Default for WorkingMemory {
    fn default() -> WorkingMemory {
        WorkingMemory::up_to(u64::MAX)
    }
}

impl WorkingMemory {
    /// For work that holds at most so many bytes.
    pub fn up_to(bytes: u64) -> WorkingMemory {
        WorkingMemory::of(bytes, None)
    }

    /// For work that draws what it holds beyond `allowed` bytes. It never waits for room by itself.
    pub fn beyond(allowed: u64, budget: &Arc<MemoryBudget>) -> WorkingMemory {
        WorkingMemory::of(allowed, Some(RefCell::new(budget.share(0))))
    }

    fn of(allowed: u64, share: Option<RefCell<MemoryShare>>) -> WorkingMemory {
        let (held, in_scope, refused, wanted) = Default::default();
        WorkingMemory { held, allowed, share, in_scope, refused, wanted }
    }

    /// Counts bytes that are about to be held; they belong to the innermost scope.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is no room, or something was refused in this scope before; they are not
    /// counted then.
    pub fn take(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        self.check()?;
        let Some(in_scope) = self.in_scope.get() else { return self.count(bytes) };
        self.count(bytes).inspect_err(|refused| self.refused.set(Some(*refused)))?;
        self.in_scope.set(Some(in_scope.saturating_add(bytes)));
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

    /// Counts bytes in, whoever owns them.
    fn count(&self, bytes: u64) -> Result<(), MemoryExhausted> {
        let held = self.held.get().saturating_add(bytes);
        if self.allowed < held {
            let Some(share) = &self.share else {
                return Err(MemoryExhausted { taken: held, bytes_max: self.allowed });
            };
            let drawn = self.drawn_for(held);
            let grown = share.borrow_mut().try_grow_to(drawn);
            grown.inspect_err(|_| self.wanted.set(drawn))?;
        }
        self.held.set(held);
        Ok(())
    }

    /// Counts what is held from now on, whether there is room for it or not.
    fn set_held(&self, held: u64) {
        self.held.set(held);
        let Some(share) = &self.share else { return };
        let (mut share, drawn) = (share.borrow_mut(), self.drawn_for(held));
        share.shrink_to(drawn);
        if share.bytes() < drawn {
            share.grow_to(drawn);
        }
    }

    /// What the share holds when so much is held.
    fn drawn_for(&self, held: u64) -> u64 {
        let beyond = held.saturating_sub(self.allowed);
        beyond.checked_next_multiple_of(STEP_BYTES).unwrap_or(u64::MAX)
    }

    /// What was refused in the scope, if anything was: what was made without it must not be used.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn check(&self) -> Result<(), MemoryExhausted> {
        self.refused.get().map_or(Ok(()), Err)
    }

    /// What is taken from now on is counted out when the scope is dropped. Scopes end in the reverse of the
    /// order in which they began.
    pub fn scope(&self) -> WorkingScope<'_> {
        let outer = self.in_scope.replace(Some(0));
        WorkingScope { memory: self, outer, refused_before: self.refused.take() }
    }

    /// An owner that holds nothing yet.
    pub fn holding(self: &Rc<Self>) -> Held {
        Held { memory: Rc::clone(self), bytes: 0 }
    }

    /// Waits for at most that time until there seems to be room for what was refused last, and says whether
    /// there does. For threads on which nobody waits.
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

/// A part of some work, see [`WorkingMemory::scope`].
#[derive(Debug)]
pub struct WorkingScope<'m> {
    memory: &'m WorkingMemory,
    /// What the scope around this one owns.
    outer: Option<u64>,
    refused_before: Option<MemoryExhausted>,
}

impl WorkingScope<'_> {
    /// Leaves `kept` bytes counted instead of what the scope owns. The caller owns them from now on.
    fn leave(&self, kept: u64) {
        let memory = self.memory;
        let own = memory.in_scope.replace(Some(0)).unwrap_or_default();
        if own != kept {
            memory.set_held(memory.held.get().saturating_sub(own).saturating_add(kept));
        }
    }
}

impl Drop for WorkingScope<'_> {
    fn drop(&mut self) {
        self.leave(0);
        self.memory.in_scope.set(self.outer);
        self.memory.refused.set(self.refused_before);
    }
}

/// Bytes of a [`WorkingMemory`] that belong to one value beyond the scope in which it was made. They are counted
/// out when this is dropped.
#[derive(Debug)]
pub struct Held {
    memory: Rc<WorkingMemory>,
    bytes: u64,
}

impl Held {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so many bytes, if it does not hold more already.
    ///
    /// # Errors
    ///
    /// [`MemoryExhausted`] when there is no room; it may be tried again.
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), MemoryExhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if 0 < more {
            self.memory.count(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Holds exactly so many bytes, which are in memory already, whether there is room or not.
    pub fn set(&mut self, bytes: u64) {
        if self.bytes != bytes {
            let memory = &self.memory;
            memory.set_held(memory.held.get().saturating_sub(self.bytes).saturating_add(bytes));
            self.bytes = bytes;
        }
    }

    /// Ends a scope: of what it owns so much passes to this one as makes it hold exactly `bytes`, and the rest
    /// is counted out.
    pub fn end(&mut self, scope: WorkingScope<'_>, bytes: u64) {
        scope.leave(bytes.saturating_sub(self.bytes));
        if self.bytes <= bytes {
            self.bytes = bytes;
        } else {
            self.set(bytes);
        }
    }

    /// Takes over what another one holds of the same memory.
    pub fn absorb(&mut self, mut other: Held) {
        debug_assert!(Rc::ptr_eq(&self.memory, &other.memory), "both of one memory");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// What was drawn for these bytes passes to a share that may go to another thread; what was allowed is
    /// counted out. `None` where nothing was drawn for them.
    pub fn leave(&mut self) -> Option<MemoryShare> {
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
            assert_eq!(memory.take(1), Ok(()), "it begins without a past");
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
        // What was not counted before is counted when it is there, whatever room there is.
        let (mut text, mut other) = (memory.holding(), budget.share(0));
        other.try_grow_to(6 * STEP_BYTES).unwrap();
        text.end(memory.scope(), STEP_BYTES);
        assert_eq!(budget.held_bytes(), 9 * STEP_BYTES);
        assert!(memory.take(1).is_err());
        drop(other);
        row.absorb(text);
        let piece = row.leave().unwrap();
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
        assert!(memory.holding().leave().is_none());
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
