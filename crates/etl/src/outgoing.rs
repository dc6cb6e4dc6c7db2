//! The commands of a batch while they are made, within its limits.
//!
//! Invariant: memory is taken before what is large is read, so a document with much attached is refused, or waits, before
//! it can harm the server.

use std::ops::{Deref, DerefMut};

use storage::MemoryShare;

use crate::{
    batch::Pace,
    command_list::{CommandList, Mark},
    document::TransformError,
};

/// See the module. Commands are added to it as to a [`CommandList`].
pub(crate) struct Outgoing<'b> {
    list: CommandList,
    /// Holds the memory of the commands.
    share: &'b mut MemoryShare,
    pace: &'b dyn Fn() -> Pace,
    /// The most that the commands for one change may take.
    change_bytes_max: usize,
    /// Where the present change began.
    began: Mark,
}

impl<'b> Outgoing<'b> {
    pub(crate) fn new(
        share: &'b mut MemoryShare,
        pace: &'b dyn Fn() -> Pace,
        change_bytes_max: usize,
    ) -> Outgoing<'b> {
        let list = CommandList::default();
        let began = list.mark();
        Outgoing { list, share, pace, change_bytes_max, began }
    }

    /// Begins with the next change.
    pub(crate) fn begin_change(&mut self) {
        self.began = self.list.mark();
    }

    /// Removes the commands of the present change.
    pub(crate) fn undo_change(&mut self) {
        self.list.cut(self.began);
    }

    /// Takes memory for what was added, and for so many more bytes of JSON and of contents.
    ///
    /// # Errors
    /// The change is too large; there is no memory now; the work is to end.
    pub(crate) fn reserve(
        &mut self,
        json_bytes: usize,
        content_bytes: usize,
    ) -> Result<(), TransformError> {
        self.check_wanted()?;
        let more = CommandList::memory_of(json_bytes, content_bytes);
        let bytes = self.list.size_bytes().saturating_add(more);
        let of_change = bytes.saturating_sub(self.began.size_bytes());
        if self.change_bytes_max < of_change {
            return Err(TransformError::Problem(format!(
                "the document with what belongs to it needs more than the {} bytes of memory that may be used for one",
                self.change_bytes_max
            )));
        }
        self.share.try_grow_to(bytes as u64).map_err(TransformError::NoMemory)
    }

    /// # Errors
    /// The work is to end.
    pub(crate) fn check_wanted(&self) -> Result<(), TransformError> {
        if (self.pace)() == Pace::Stop { Err(TransformError::Stopped) } else { Ok(()) }
    }

    pub(crate) fn into_list(self) -> CommandList {
        self.list
    }
}

impl Deref for Outgoing<'_> {
    type Target = CommandList;

    fn deref(&self) -> &CommandList {
        &self.list
    }
}

impl DerefMut for Outgoing<'_> {
    fn deref_mut(&mut self) -> &mut CommandList {
        &mut self.list
    }
}
