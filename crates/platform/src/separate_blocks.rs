//! An allocator whose large blocks have mappings of their own where memory is scarce.
//!
//! mimalloc divides 4 MB into blocks of similar sizes up to 512 KB, for each thread and each of a dozen ranges of sizes. A
//! thread that sleeps keeps such a page although all its blocks were freed by others, and one block in use keeps the
//! rest: 27 threads that had compiled definitions of 300 KB kept 140 MB. A block that requests a larger
//! alignment than the allocator's pages have gets a mapping of its own, which is returned to the system as soon as it is
//! freed. That costs some system calls and the faults of its pages, so it is only for processes with little memory.

use std::{
    alloc::{GlobalAlloc, Layout},
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::moved_block::move_block;

/// The blocks that mimalloc takes out of pages of 4 MB; larger ones have mappings of their own in any case.
const SEPARATED_BYTES: RangeInclusive<usize> = (64 << 10)..=(512 << 10);
/// Twice what mimalloc aligns its pages to: no page can have a block with it next to others.
const ALIGNMENT: usize = 128 << 10;

static SEPARATING: AtomicBool = AtomicBool::new(false);

/// From now on large blocks have mappings of their own, if the process uses [`SeparateBlocks`].
pub(crate) fn separate_large_blocks() {
    SEPARATING.store(true, Ordering::Relaxed);
}

fn is_separate(bytes: usize) -> bool {
    SEPARATED_BYTES.contains(&bytes) && SEPARATING.load(Ordering::Relaxed)
}

/// Another allocator, of which large blocks request a larger alignment on processes with little memory. It must find
/// out about the alignment of a block by itself when that is freed, as mimalloc does.
pub struct SeparateBlocks<A>(pub A);

impl<A: GlobalAlloc> SeparateBlocks<A> {
    /// The layout to request for one of this size and alignment.
    fn requested(layout: Layout) -> Layout {
        match is_separate(layout.size()) {
            true => layout.align_to(ALIGNMENT).unwrap_or(layout),
            false => layout,
        }
    }
}

// SAFETY: every call is passed on to an allocator that fulfils the contract, with the layout that it was given or one of
// a larger alignment, which meets the smaller one, too. That the layout has another alignment when a block is freed is
// allowed by the allocator that is used, see the type.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SeparateBlocks<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(Self::requested(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(Self::requested(layout)) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !is_separate(bytes) {
            // SAFETY: the caller's promise.
            return unsafe { self.0.realloc(pointer, layout, bytes) };
        }
        // SAFETY: the caller's promise.
        unsafe { move_block(self, pointer, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use std::{alloc::System, cell::Cell, thread_local};

    use super::*;

    thread_local! {
        /// What was requested last.
        static REQUESTED: Cell<Layout> = const { Cell::new(Layout::new::<()>()) };
    }

    struct Watched;

    // SAFETY: the system's allocator, which finds out about the alignment of a block by itself.
    unsafe impl GlobalAlloc for Watched {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            REQUESTED.set(layout);
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    #[test]
    fn blocks_that_would_share_large_pages_get_their_own_and_keep_their_content() {
        separate_large_blocks();
        let allocator = SeparateBlocks(Watched);
        let of = |bytes| Layout::from_size_align(bytes, 8).unwrap();
        let requested = || (REQUESTED.get().size(), REQUESTED.get().align());
        // SAFETY: the memory is used within its layout and freed once.
        unsafe {
            let small = allocator.alloc(of(1000));
            assert_eq!(requested(), (1000, 8));
            small.write_bytes(7, 1000);
            let large = allocator.realloc(small, of(1000), 100_000);
            assert_eq!(requested(), (100_000, ALIGNMENT));
            assert_eq!(std::slice::from_raw_parts(large, 1000), [7; 1000]);
            large.write_bytes(8, 100_000);
            let larger = allocator.realloc(large, of(100_000), 300_000);
            assert_eq!(requested(), (300_000, ALIGNMENT));
            assert_eq!(std::slice::from_raw_parts(larger, 100_000), [8; 100_000]);
            let largest = allocator.realloc(larger, of(300_000), 1 << 20);
            assert_eq!(requested(), (1 << 20, 8));
            assert_eq!(std::slice::from_raw_parts(largest, 100_000), [8; 100_000]);
            allocator.dealloc(largest, of(1 << 20));
        }
    }
}
