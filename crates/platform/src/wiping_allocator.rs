//! An allocator that zeroes memory before it is freed, for as long as the process works on secrets.
//!
//! What a program decrypts passes through many buffers: requests, parsed documents, heaps of scripts, responses. None of
//! them outlives its use, but freed memory keeps its content until it is used again. While at least one
//! [`WipesFreedMemory`] exists, nothing readable is left behind; otherwise it costs one load per call.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::moved_block::move_block;

/// How many [`WipesFreedMemory`] exist.
static WIPING: AtomicUsize = AtomicUsize::new(0);

/// Whether freed memory is zeroed now: buffers that are kept for later use should be freed, too.
pub fn is_wiping() -> bool {
    WIPING.load(Ordering::Relaxed) != 0
}

/// Freed memory is zeroed while this exists, if the process uses a [`WipingAllocator`].
pub struct WipesFreedMemory(());

impl WipesFreedMemory {
    /// Begins.
    pub fn begin() -> WipesFreedMemory {
        WIPING.fetch_add(1, Ordering::Relaxed);
        WipesFreedMemory(())
    }
}

impl Drop for WipesFreedMemory {
    fn drop(&mut self) {
        WIPING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Another allocator, whose memory is zeroed before it is freed.
pub struct WipingAllocator<A>(pub A);

// SAFETY: every call is passed on to an allocator that fulfils the contract, with the layout that it was given. Memory is
// changed only right before it is freed, within its layout, when its owner has given it up.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_wiping() {
            // SAFETY: the memory has the length of its layout, and its owner no longer uses it.
            unsafe { pointer.write_bytes(0, layout.size()) };
            zeroize::optimization_barrier(&pointer);
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !is_wiping() {
            // SAFETY: the caller's promise.
            return unsafe { self.0.realloc(pointer, layout, bytes) };
        }
        // SAFETY: the caller's promise.
        unsafe { move_block(self, pointer, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, thread_local};

    use super::*;

    thread_local! {
        /// What was in memory when it was freed.
        static FREED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }

    struct Watched;

    // SAFETY: the system's allocator, whose memory is read before it is freed.
    unsafe impl GlobalAlloc for Watched {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller's promise.
            unsafe { std::alloc::System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the tests have written all of it.
            let bytes = unsafe { std::slice::from_raw_parts(pointer, layout.size()) };
            FREED.with_borrow_mut(|freed| freed.push(bytes.to_vec()));
            // SAFETY: the caller's promise.
            unsafe { std::alloc::System.dealloc(pointer, layout) }
        }
    }

    #[test]
    fn memory_is_zeroed_when_it_is_freed_or_moved_and_only_while_asked_for() {
        let (allocator, layout) = (WipingAllocator(Watched), Layout::new::<[u8; 64]>());
        let fill_and_move = || {
            // SAFETY: the memory is used within its layout and freed once.
            unsafe {
                let old = allocator.alloc(layout);
                old.write_bytes(7, 64);
                let new = allocator.realloc(old, layout, 128);
                assert_eq!(std::slice::from_raw_parts(new, 64), [7; 64]);
                new.write_bytes(8, 128);
                allocator.dealloc(new, Layout::new::<[u8; 128]>());
            }
            FREED.with_borrow_mut(std::mem::take)
        };
        let begun = WipesFreedMemory::begin();
        assert_eq!(fill_and_move(), [vec![0; 64], vec![0; 128]]);
        drop(begun);
        if !is_wiping() {
            assert_eq!(fill_and_move(), [vec![7; 64], vec![8; 128]]);
        }
    }
}
