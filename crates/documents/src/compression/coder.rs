//! Zstandard, with the state that each thread keeps: a context for each direction, and prepared
//! dictionaries, because preparing one costs far more than a small document.
//!
//! Prepared dictionaries are identified by the hash of their bytes, so one that was rolled back, or
//! that is of another database, is never taken for another.

use std::cell::RefCell;

use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound, get_frame_content_size};

use super::dictionary::{Dictionary, DictionaryHash};

/// The library's default level.
const LEVEL: i32 = 3;
/// The number of dictionaries that a thread keeps prepared in each direction, some 100 KB each.
const READY_MAX: usize = 16;

thread_local! {
    static WRITING: RefCell<Writing> = RefCell::default();
    static READING: RefCell<Reading> = RefCell::default();
}

#[derive(Default)]
struct Writing {
    context: Option<CCtx<'static>>,
    ready: Ready<CDict<'static>>,
}

#[derive(Default)]
struct Reading {
    context: Option<DCtx<'static>>,
    ready: Ready<DDict<'static>>,
}

/// Prepared dictionaries, most recently used last.
struct Ready<D>(Vec<(DictionaryHash, D)>);

impl<D> Default for Ready<D> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<D> Ready<D> {
    fn get(
        &mut self,
        dictionary: Dictionary<'_>,
        prepare: impl FnOnce(&[u8]) -> Option<D>,
    ) -> Option<&D> {
        match self.0.iter().rposition(|(hash, _)| *hash == dictionary.hash) {
            Some(at) if at + 1 == self.0.len() => {}
            Some(at) => {
                let known = self.0.remove(at);
                self.0.push(known);
            }
            None => {
                let prepared = prepare(dictionary.bytes)?;
                if self.0.len() == READY_MAX {
                    self.0.remove(0);
                }
                self.0.push((dictionary.hash, prepared));
            }
        }
        self.0.last().map(|(_, prepared)| prepared)
    }
}

/// Replaces `out` with the frame of a document; `false` on failure.
pub(super) fn compress(
    dictionary: Option<Dictionary<'_>>,
    document: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    out.reserve(compress_bound(document.len()));
    WRITING.with_borrow_mut(|Writing { context, ready }| {
        let context = context.get_or_insert_with(CCtx::create);
        let written = match dictionary {
            None => context.compress(out, document, LEVEL),
            Some(dictionary) => {
                let prepared = ready.get(dictionary, |bytes| CDict::try_create(bytes, LEVEL));
                let Some(prepared) = prepared else { return false };
                context.compress_using_cdict(out, document, prepared)
            }
        };
        written.is_ok()
    })
}

/// The document in a frame, of that length; `None` when the frame is damaged.
pub(super) fn decompress(
    dictionary: Option<Dictionary<'_>>,
    frame: &[u8],
    document_bytes: usize,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.try_reserve_exact(document_bytes).ok()?;
    READING.with_borrow_mut(|Reading { context, ready }| {
        let context = context.get_or_insert_with(DCtx::create);
        let read = match dictionary {
            None => context.decompress(&mut out, frame),
            Some(dictionary) => {
                let prepared = ready.get(dictionary, DDict::try_create)?;
                context.decompress_using_ddict(&mut out, frame, prepared)
            }
        };
        (read == Ok(document_bytes)).then_some(out)
    })
}

/// The document's length according to the frame's header.
pub(super) fn document_bytes(frame: &[u8]) -> Option<u64> {
    get_frame_content_size(frame).ok().flatten()
}
