//! One walk through a value's bytes, shared by everything that visits all of it: printing, copying.
//!
//! Uses no recursion. Invariant: positions only grow along the walk (see `format`), which is checked
//! at each step, so that a walk over corrupt bytes takes no more steps than there are bytes.

use crate::error::Corrupt;
use crate::format::Token;
use crate::view::{Block, Entry, Scalar};
use crate::writer::Container;

/// Levels for which memory is reserved at the start; few documents exceed them.
const DEPTH_USUAL: usize = 16;

/// The next item of a walk.
pub(crate) enum Step<'a> {
    /// A value that is neither object nor array.
    Scalar(Place, Scalar<'a>),
    /// The start of an object or array.
    Begin(Place, Container),
    /// The end of the innermost object or array.
    End(Container),
}

/// Where a value is in the object or array around it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The id of its name; `None` in an array.
    pub(crate) name: Option<u32>,
    pub(crate) is_first: bool,
}

struct Frame {
    block: Block,
    next: u32,
}

/// A deep walk over all entries of an object or array; the outermost one itself is not reported.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    frame: Frame,
    outer: Vec<Frame>,
    /// No later value may start before this position.
    cursor: usize,
    done: bool,
}

impl<'a> Walk<'a> {
    /// `cursor`: values before this position were visited already and must not be visited again.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], block: Block, cursor: usize) -> Walk<'a> {
        Walk { bytes, frame: Frame { block, next: 0 }, outer: Vec::new(), cursor, done: false }
    }

    /// The position after everything visited.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The next step; `None` after the end of the outermost object or array.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<Option<Step<'a>>, Corrupt> {
        let Frame { block, next } = &mut self.frame;
        if *next == block.count {
            return self.leave();
        }
        let index = *next;
        *next += 1;
        let is_object = block.is_object;
        let entry = block.entry(self.bytes, index as usize)?;
        let name = is_object.then_some(entry.name);
        let place = Place { name, is_first: index == 0 };
        match entry.token {
            Token::Object | Token::Array => {
                let holder = block.position as usize;
                let block = Block::open(self.bytes, entry.position, entry.token)?;
                check_order(entry.position, self.cursor)?;
                check_order(holder, block.end as usize)?;
                let outer = std::mem::replace(&mut self.frame, Frame { block, next: 0 });
                if self.outer.capacity() == 0 {
                    self.outer.reserve(DEPTH_USUAL);
                }
                self.outer.push(outer);
                Ok(Some(Step::Begin(place, container_of(&block))))
            }
            _ => Ok(Some(Step::Scalar(place, self.scalar(entry)?))),
        }
    }

    #[inline]
    fn scalar(&mut self, entry: Entry) -> Result<Scalar<'a>, Corrupt> {
        let (value, end) = Scalar::open(self.bytes, entry.token, entry.position)?;
        if end != 0 {
            check_order(entry.position, self.cursor)?;
            self.cursor = end;
        }
        Ok(value)
    }

    #[inline]
    fn leave(&mut self) -> Result<Option<Step<'a>>, Corrupt> {
        if self.done {
            return Ok(None);
        }
        let block = self.frame.block;
        check_order(block.position as usize, self.cursor)?;
        self.cursor = block.end as usize;
        match self.outer.pop() {
            Some(outer) => {
                self.frame = outer;
                Ok(Some(Step::End(container_of(&block))))
            }
            None => {
                self.done = true;
                Ok(None)
            }
        }
    }
}

#[inline]
pub(crate) fn container_of(block: &Block) -> Container {
    if block.is_object { Container::Object } else { Container::Array }
}

#[inline]
pub(crate) fn check_order(position: usize, cursor: usize) -> Result<(), Corrupt> {
    if position < cursor {
        return Err(Corrupt::new("values overlap", position));
    }
    Ok(())
}
