//! The text of a response under construction, whose memory is charged.

use std::rc::Rc;

use crate::{
    memory_budget::{MemoryExhausted, MemoryShare},
    working_memory::{Held, WorkingMemory},
};

/// See the module.
#[derive(Debug)]
pub struct CountedOutput {
    /// The text; what is appended here directly is charged by [`CountedOutput::settle`].
    pub bytes: Vec<u8>,
    memory: Rc<WorkingMemory>,
    held: Held,
}

impl CountedOutput {
    /// Without any text yet.
    pub fn new(memory: &Rc<WorkingMemory>) -> CountedOutput {
        CountedOutput { bytes: Vec::new(), memory: Rc::clone(memory), held: memory.holding() }
    }

    /// The memory that it is charged to.
    pub fn memory(&self) -> &Rc<WorkingMemory> {
        &self.memory
    }

    /// Appends what `write` appends, which takes no more than `bytes_max`.
    ///
    /// # Errors
    /// When there is no memory for it; nothing is appended then. Those of `write`.
    pub fn append<E: From<MemoryExhausted>, R>(
        &mut self,
        bytes_max: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.reserve(bytes_max)?;
        let start = self.bytes.len();
        let written = write(&mut self.bytes);
        if written.is_err() {
            self.bytes.truncate(start);
        }
        self.settle();
        written
    }

    /// Makes room for more text: as much again as there is, or only what is needed.
    fn reserve(&mut self, more: usize) -> Result<(), MemoryExhausted> {
        let needed = self.bytes.len().saturating_add(more);
        if needed <= self.bytes.capacity() {
            return Ok(());
        }
        let generous = needed.max(self.bytes.capacity().saturating_mul(2));
        let capacity = match self.held.grow_to(generous as u64) {
            Ok(()) => generous,
            Err(_) => {
                self.held.grow_to(needed as u64)?;
                needed
            }
        };
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }

    /// Charges the text that is there, regardless of how it was appended.
    pub fn settle(&mut self) {
        self.held.set(self.bytes.capacity() as u64);
    }

    /// The text, and what was drawn for it.
    pub fn into_parts(mut self) -> (Vec<u8>, Option<MemoryShare>) {
        let share = self.held.take_share();
        (self.bytes, share)
    }
}

#[cfg(test)]
mod tests {
    use crate::MemoryBudget;

    use super::*;

    #[test]
    fn what_is_appended_is_charged_before_and_passes_on_with_the_text() {
        let budget = MemoryBudget::new(1 << 20);
        let memory = Rc::new(WorkingMemory::beyond(0, &budget));
        let mut output = CountedOutput::new(&memory);
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(&[b'x'; 100_000]);
            Ok::<_, MemoryExhausted>(())
        };
        output.append(100_000, write).unwrap();
        assert!(100_000 <= budget.held_bytes());
        assert!(output.append(1 << 20, write).is_err());
        assert_eq!(output.bytes.len(), 100_000, "nothing was appended");
        let (bytes, share) = output.into_parts();
        drop(memory);
        assert!(bytes.len() as u64 <= share.as_ref().unwrap().bytes());
        drop(share);
        assert_eq!(budget.held_bytes(), 0);
    }
}
