//! Mapping on several threads while one gathers the batch: an index that is far behind uses the cores
//! that nobody else needs.
//!
//! The log is cut into pieces. Lanes map them in any order; the gathering thread takes them in the order
//! of the log, and maps one itself whenever the next is not ready and another waits. What comes of a
//! batch is the same as with one thread: a piece in which a map named a field for the first time is
//! mapped again in its turn, because numbers and options of fields depend on who names them first.

use std::{
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use search::FieldSet;

use crate::{beside::Beside, mapped::Mapped, mapper::Mapper, source::SourceChange};

/// Lanes of one index, at most.
pub(crate) const LANES_MAX: usize = 7;
/// Changes of a piece, at most.
pub(crate) const PIECE_CHANGES_MAX: usize = 64;
/// A piece ends when its documents have that many bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;

/// Some changes in the order of the log, and what the maps gave for each.
#[derive(Default)]
pub(crate) struct Piece<'t> {
    pub(crate) changes: Vec<SourceChange<'t>>,
    /// As many as there are changes, and perhaps more from earlier uses.
    pub(crate) mapped: Vec<Mapped>,
    /// Whether `mapped` is what one thread would have got.
    pub(crate) is_mapped: bool,
    fields: Arc<FieldSet>,
}

/// What the lanes and the gathering thread share.
pub(crate) struct MapLanes<'t> {
    mapper: &'t dyn Mapper,
    beside: Beside<'t>,
    is_closing: &'t (dyn Fn() -> bool + Sync),
    pieces: Mutex<Pieces<'t>>,
    changed: Condvar,
    /// Pieces on their way at once, at most.
    pieces_max: u64,
}

#[derive(Default)]
struct Pieces<'t> {
    waiting: VecDeque<(u64, Piece<'t>)>,
    /// By their place in the log.
    done: BTreeMap<u64, Piece<'t>>,
    /// The place of the piece that is gathered next.
    next: u64,
    /// The place of the piece that is cut next.
    cut: u64,
    is_over: bool,
    /// Gathered already; their memory is used again.
    spare: Vec<Piece<'t>>,
}

/// A thread's own view of the fields.
#[derive(Default)]
struct LaneFields {
    /// Whose copy `own` is.
    of: Option<Arc<FieldSet>>,
    own: FieldSet,
}

impl<'t> MapLanes<'t> {
    /// Has pieces mapped on `lanes` threads beside the calling one while `gather` runs.
    pub(crate) fn run<R>(
        lanes: usize,
        mapper: &'t dyn Mapper,
        beside: Beside<'t>,
        is_closing: &'t (dyn Fn() -> bool + Sync),
        gather: impl FnOnce(&mut Gathering<'_, 't>) -> R,
    ) -> R {
        let shared = Self {
            mapper,
            beside,
            is_closing,
            pieces: Mutex::default(),
            changed: Condvar::new(),
            pieces_max: 2 * (lanes as u64 + 1),
        };
        thread::scope(|scope| {
            for number in 1..=lanes {
                let name = format!("map lane {number}");
                // Those that do not start are not missed.
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

    /// Maps pieces until it is over.
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

    /// Leaves a piece to the gathering thread when anything unusual happens.
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
    }

    /// `false` when the index is to be closed.
    fn map_all(&self, piece: &mut Piece<'t>, fields: &mut FieldSet) -> bool {
        let Piece { changes, mapped, .. } = piece;
        mapped.resize_with(mapped.len().max(changes.len()), Mapped::default);
        for (change, mapped) in changes.iter().zip(mapped) {
            if (self.is_closing)() {
                return false;
            }
            if let SourceChange::There(item) = change {
                mapped.map(self.mapper, fields, item, self.beside);
            }
        }
        true
    }
}

/// The gathering thread's end. The lanes end when it goes.
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

    /// Has a piece mapped, by a thread that knows these fields.
    pub(crate) fn cut(&self, mut piece: Piece<'t>, fields: &Arc<FieldSet>) {
        piece.fields = Arc::clone(fields);
        piece.is_mapped = false;
        let mut pieces = self.lanes.lock();
        let place = pieces.cut;
        pieces.cut += 1;
        pieces.waiting.push_back((place, piece));
        self.lanes.changed.notify_one();
    }

    /// The next piece in the order of the log; `None` when all are gathered that were cut.
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

    /// Takes back a piece that is gathered.
    pub(crate) fn give_back(&self, piece: Piece<'t>) {
        self.lanes.lock().spare.push(piece);
    }
}

impl Drop for Gathering<'_, '_> {
    fn drop(&mut self) {
        self.lanes.lock().is_over = true;
        self.lanes.changed.notify_all();
    }
}
