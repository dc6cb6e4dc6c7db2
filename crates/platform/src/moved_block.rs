//! How the allocators of this crate change the size of a block that must not be extended in place.

use std::alloc::{GlobalAlloc, Layout};

/// Moves a block into a new one of that many bytes; null, with the old one left as it is, if there is no memory.
///
/// # Safety
/// As for [`GlobalAlloc::realloc`].
pub(crate) unsafe fn move_block<A: GlobalAlloc>(
    allocator: &A,
    pointer: *mut u8,
    layout: Layout,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the caller promises that `bytes` is not zero and does not overflow with the alignment.
    let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
    // SAFETY: as above.
    let moved = unsafe { allocator.alloc(new) };
    if !moved.is_null() {
        // SAFETY: both have at least so many bytes, and the new ones are nobody else's; the old ones are freed once.
        unsafe {
            moved.copy_from_nonoverlapping(pointer, layout.size().min(bytes));
            allocator.dealloc(pointer, layout);
        }
    }
    moved
}
