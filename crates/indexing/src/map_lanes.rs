//! Mapping on several threads while one gathers the batch: an index that is far behind uses idle
//! cores.
//!
//! The log is cut into pieces. Lanes map them in any order; the gathering thread takes them in the
//! order of the log, and maps one itself whenever the next is not ready and another waits. The
//! result of a batch is the same as with one thread: a piece in which a map creates a field is
//! mapped again in log order, because numbers and options of fields depend on the order of their
//! creation.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use search::FieldSet;

use crate::{map_context::MapContext, mapped::Mapped, mapper::Mapper, source::SourceChange};

/// The maximum number of lanes of one index.
pub(crate) const LANES_MAX: usize = 7;
/// The maximum number of changes in a piece.
pub(crate) const PIECE_CHANGES_MAX: usize = 64;
/// A piece ends when its documents have this many bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;
/// The maximum memory of the output for a piece. One with more is mapped again, document by document.
const PIECE_OUTPUT_BYTES_MAX: u64 = 3 << 20;

/// Some changes in log order, and the output of the maps for each.
#[derive(Default)]
pub(crate) struct Piece<'t> {
    pub(crate) changes: Vec<SourceChange<'t>>,
    /// At least as many as there are changes; the rest is left from earlier uses.
    pub(crate) mapped: Vec<Mapped>,
    /// Whether `mapped` is what a single thread would have produced.
    pub(crate) is_mapped: bool,
    fields: Arc<FieldSet>,
}

/// The state that the lanes and the gathering thread share.
pub(crate) struct MapLanes<'t> {
    mapper: &'t dyn Mapper,
    context: MapContext<'t>,
    is_closing: &'t (dyn Fn() -> bool + Sync),
    pieces: Mutex<Pieces<'t>>,
    changed: Condvar,
    /// The maximum number of pieces at once.
    pieces_max: u64,
}

#[derive(Default)]
struct Pieces<'t> {
    waiting: VecDeque<(u64, Piece<'t>)>,
    /// By position in the log.
    done: BTreeMap<u64, Piece<'t>>,
    /// The position of the next piece to gather.
    next: u64,
    /// The position of the next piece to cut.
    cut: u64,
    is_over: bool,
    /// Gathered pieces, whose memory is reused.
    spare: Vec<Piece<'t>>,
}

/// A thread's own view of the fields.
#[derive(Default)]
struct LaneFields {
    /// The set that `own` was copied from.
    of: Option<Arc<FieldSet>>,
    own: FieldSet,
}

impl<'t> MapLanes<'t> {
    /// Maps pieces on `lanes` threads besides the calling one while `gather` runs.
    pub(crate) fn run<R>(
        lanes: usize,
        mapper: &'t dyn Mapper,
        context: MapContext<'t>,
        is_closing: &'t (dyn Fn() -> bool + Sync),
        gather: impl FnOnce(&mut Gathering<'_, 't>) -> R,
    ) -> R {
        let shared = Self {
            mapper,
            context,
            is_closing,
            pieces: Mutex::default(),
            changed: Condvar::new(),
            pieces_max: 2 * (lanes as u64 + 1),
        };
        thread::scope(|scope| {
            for number in 1..=lanes {
                let name = format!("map lane {number}");
                // The batch also works without those that do not start.
                let _lane = thread::Builder::new().name(name).spawn_scoped(scope, || shared.lane());
            }
            gather(&mut Gathering { lanes: &shared, fields: LaneFields::default() })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Pieces<'t>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'p>(&self, pieces: MutexGuard<'p, Pieces<'t>>) -> MutexGuard<'p, Pieces<'t>> {
        self.changed.wait(pieces).unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps pieces until the end.
    fn lane(&self) {
        let mut fields = LaneFields::default();
        let mut pieces = self.lock();
        while !pieces.is_over {
            pieces = match pieces.waiting.pop_front() {
                None => self.wait(pieces),
                Some((place, mut piece)) => {
                    drop(pieces);
                    self.map(&mut piece, &mut fields);
                    let mut pieces = self.lock();
                    pieces.done.insert(place, piece);
                    self.changed.notify_all();
                    pieces
                }
            };
        }
    }

    /// Maps a piece; leaves it to the gathering thread when anything unusual happens.
    fn map(&self, piece: &mut Piece<'t>, fields: &mut LaneFields) {
        let known = fields.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &piece.fields));
        if !known {
            fields.own = FieldSet::clone(&piece.fields);
            fields.of = Some(Arc::clone(&piece.fields));
        }
        let defined = fields.own.defined_count();
        let all = catch_unwind(AssertUnwindSafe(|| self.map_all(piece, &mut fields.own)));
        let is_as_before = fields.own.defined_count() == defined;
        if !is_as_before {
            fields.of = None;
        }
        piece.is_mapped = all.unwrap_or(false) && is_as_before;
        if !piece.is_mapped {
            piece.mapped = Vec::new();
        }
    }

    /// Maps all items of a piece; `false` when the index is closing, or the output takes too much memory.
    fn map_all(&self, piece: &mut Piece<'t>, fields: &mut FieldSet) -> bool {
        let Piece { changes, mapped, .. } = piece;
        mapped.resize_with(mapped.len().max(changes.len()), Mapped::default);
        let mut left = PIECE_OUTPUT_BYTES_MAX;
        for (change, mapped) in changes.iter().zip(mapped) {
            if (self.is_closing)() {
                return false;
            }
            if let SourceChange::There(item) = change {
                mapped.set_bytes_max(left);
                mapped.map(self.mapper, fields, item, self.context);
                if mapped.is_too_large() {
                    return false;
                }
                left = left.saturating_sub(mapped.bytes());
            }
        }
        true
    }
}

/// The gathering thread's handle. The lanes end when it is dropped.
pub(crate) struct Gathering<'l, 't> {
    lanes: &'l MapLanes<'t>,
    fields: LaneFields,
}

impl<'t> Gathering<'_, 't> {
    /// Whether another piece may be cut now.
    pub(crate) fn has_room(&self) -> bool {
        let pieces = self.lanes.lock();
        pieces.cut - pieces.next < self.lanes.pieces_max
    }

    /// An empty piece.
    pub(crate) fn piece(&self) -> Piece<'t> {
        let mut piece = self.lanes.lock().spare.pop().unwrap_or_default();
        piece.changes.clear();
        piece
    }

    /// Queues a piece for mapping with these fields.
    pub(crate) fn cut(&self, mut piece: Piece<'t>, fields: &Arc<FieldSet>) {
        piece.fields = Arc::clone(fields);
        piece.is_mapped = false;
        let mut pieces = self.lanes.lock();
        let place = pieces.cut;
        pieces.cut += 1;
        pieces.waiting.push_back((place, piece));
        self.lanes.changed.notify_one();
    }

    /// The next piece in log order; `None` when all cut pieces are gathered.
    pub(crate) fn next(&mut self) -> Option<Piece<'t>> {
        let mut pieces = self.lanes.lock();
        loop {
            let next = pieces.next;
            if let Some(piece) = pieces.done.remove(&next) {
                pieces.next += 1;
                return Some(piece);
            }
            if next == pieces.cut {
                return None;
            }
            pieces = match pieces.waiting.pop_front() {
                None => self.lanes.wait(pieces),
                Some((place, mut piece)) => {
                    drop(pieces);
                    self.lanes.map(&mut piece, &mut self.fields);
                    let mut pieces = self.lanes.lock();
                    pieces.done.insert(place, piece);
                    pieces
                }
            };
        }
    }

    /// Returns a gathered piece for reuse.
    pub(crate) fn recycle(&self, piece: Piece<'t>) {
        self.lanes.lock().spare.push(piece);
    }
}

impl Drop for Gathering<'_, '_> {
    fn drop(&mut self) {
        self.lanes.lock().is_over = true;
        self.lanes.changed.notify_all();
    }
}
