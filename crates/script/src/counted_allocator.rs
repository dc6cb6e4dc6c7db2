//! The allocator of a runtime: the program's own, with the bytes in use counted, so that they can be asked for
//! after every run. The library counts them, too, but tells them only after a walk over all objects.
#![expect(unsafe_code, reason = "the library asks for it; every method passes on what it gets")]

use std::{cell::Cell, rc::Rc};

use rquickjs::allocator::{Allocator, RustAllocator};

/// Allocates as [`RustAllocator`] does. It stays on the thread of its runtime.
pub(crate) struct CountedAllocator {
    inner: RustAllocator,
    used_bytes: Rc<Cell<usize>>,
}

impl CountedAllocator {
    /// An allocator, and where it counts.
    pub(crate) fn new() -> (CountedAllocator, Rc<Cell<usize>>) {
        let used_bytes = Rc::new(Cell::new(0));
        (CountedAllocator { inner: RustAllocator, used_bytes: Rc::clone(&used_bytes) }, used_bytes)
    }

    /// Counts an allocation, unless it failed.
    fn count(&self, allocated: *mut u8) -> *mut u8 {
        if !allocated.is_null() {
            // SAFETY: it was just allocated, by the inner allocator.
            let bytes = unsafe { RustAllocator::usable_size(allocated) };
            self.used_bytes.set(self.used_bytes.get().saturating_add(bytes));
        }
        allocated
    }

    /// # Safety
    /// `allocated` was allocated here, and not freed since.
    unsafe fn discount(&self, allocated: *mut u8) {
        // SAFETY: the caller promises what the inner allocator demands.
        let bytes = unsafe { RustAllocator::usable_size(allocated) };
        self.used_bytes.set(self.used_bytes.get().saturating_sub(bytes));
    }
}

// SAFETY: all memory comes from, and goes back to, `RustAllocator`, which implements the trait correctly; counting
// touches none of it.
unsafe impl Allocator for CountedAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        let allocated = self.inner.alloc(size);
        self.count(allocated)
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let allocated = self.inner.calloc(count, size);
        self.count(allocated)
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        // SAFETY: the caller promises that it was allocated here.
        unsafe {
            self.discount(ptr);
            self.inner.dealloc(ptr);
        }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that it was allocated here. A failed attempt leaves it as it is.
        let (before, moved) =
            unsafe { (RustAllocator::usable_size(ptr), self.inner.realloc(ptr, new_size)) };
        if !moved.is_null() {
            self.used_bytes.set(self.used_bytes.get().saturating_sub(before));
        }
        self.count(moved)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: the caller promises that it was allocated here.
        unsafe { RustAllocator::usable_size(ptr) }
    }
}
