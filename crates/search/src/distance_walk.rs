//! Matches by their distance from a place, the nearest or the farthest first, found by walking
//! cells outwards, so the first results are found first.
//!
//! A heap holds cells, by the least distance that a place in them can have, and places, by the
//! distance that they have. What comes off the heap is a cell that is opened, or a place that no
//! other comes before. The walk yields *groups* like that of a field's terms: entries at the same
//! distance.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    ops::Bound,
    sync::Arc,
};

use spatial::{Cell, Space, farthest_in_box, nearest_in_box};
use storage::Transaction;

use crate::{
    distance::DistanceFrom, entry_set::EntrySet, error::SearchError, ids::FieldId, place,
    postings::PostingList, reader::IndexReader, term::TermKind,
};

/// A cell with more places is cut into quarters. Few in tests, so that both happens.
const CELL_PLACES_MAX: usize = if cfg!(test) { 2 } else { 32 };
/// Where places are.
const KINDS: [TermKind; 2] = [TermKind::Point, TermKind::Center];
/// The error of the distance to a box, in addition to rounding: distances of near places are
/// computed with an error of decimetres.
const SLACK: f64 = 1e-3;

/// Walks a field.
pub(crate) struct DistanceWalk<'t, T> {
    reader: IndexReader<'t, T>,
    field: FieldId,
    from: DistanceFrom,
    descending: bool,
    heap: BinaryHeap<Reverse<Node<'t>>>,
    /// Matches that no group had yet.
    remaining: EntrySet,
    /// Matches with several places.
    many: EntrySet,
    /// Entries of the group, the next one last.
    group: Vec<u64>,
    ended: bool,
}

/// What is on the heap.
struct Node<'t> {
    /// The sort key: no place in the node comes earlier.
    key: f64,
    content: Content<'t>,
}

enum Content<'t> {
    Cell(TermKind, Cell),
    Place(PostingList<'t>),
}

impl Node<'_> {
    /// Cells sort before places of the same distance, so that all places of a group are known when
    /// its first one is taken.
    fn rank(&self) -> (f64, bool) {
        (self.key, matches!(self.content, Content::Place(_)))
    }
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node<'_> {}

impl PartialOrd for Node<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((left, is_place), (right, other_is_place)) = (self.rank(), other.rank());
        left.total_cmp(&right).then(is_place.cmp(&other_is_place))
    }
}

impl<'t, T: Transaction> DistanceWalk<'t, T> {
    pub(crate) fn new(
        reader: &IndexReader<'t, T>,
        matches: &Arc<EntrySet>,
        field: FieldId,
        from: DistanceFrom,
        descending: bool,
    ) -> Result<Self, SearchError> {
        let mut many = EntrySet::new(reader.state.next_entry);
        if let Some(list) = reader.list(field, TermKind::Many, &[])? {
            list.for_each_chunk(reader.tx, |chunk| {
                let entries = chunk.entries().iter().filter(|entry| matches.contains(**entry));
                entries.for_each(|entry| many.insert(*entry));
            })?;
        }
        let whole = Cell { level: 0, number: 0 };
        let heap = KINDS.into_iter().map(|kind| {
            Reverse(Node { key: f64::NEG_INFINITY, content: Content::Cell(kind, whole) })
        });
        let (heap, remaining) = (heap.collect(), (**matches).clone());
        let group = Vec::new();
        Ok(Self {
            reader: reader.clone(),
            field,
            from,
            descending,
            heap,
            remaining,
            many,
            group,
            ended: false,
        })
    }

    /// Goes to the next group; false when there is none.
    pub(crate) fn next_group(&mut self) -> Result<bool, SearchError> {
        self.group.clear();
        while self.group.is_empty() && !self.ended {
            self.reader.interrupt.check()?;
            match self.heap.pop() {
                Some(Reverse(Node { content: Content::Cell(kind, cell), .. })) => {
                    self.open(kind, cell)?;
                }
                Some(Reverse(Node { key, content: Content::Place(list) })) => {
                    self.take(key, list)?;
                    self.take_equals(key)?;
                }
                None => {
                    self.ended = true;
                    self.group = self.remaining.iter().collect();
                }
            }
        }
        self.group.sort_unstable_by(|left, right| right.cmp(left));
        Ok(!self.group.is_empty())
    }

    /// The next entry of the group.
    pub(crate) fn next_entry(&mut self) -> Option<u64> {
        self.group.pop()
    }

    fn take_equals(&mut self, key: f64) -> Result<(), SearchError> {
        while let Some(Reverse(node)) = self.heap.peek()
            && node.key.total_cmp(&key).is_eq()
            && let Content::Place(list) = node.content
        {
            self.heap.pop();
            self.take(key, list)?;
        }
        Ok(())
    }

    /// Adds the entries of a place for which it is the deciding one to the group.
    fn take(&mut self, key: f64, list: PostingList<'t>) -> Result<(), SearchError> {
        let mut entries = Vec::new();
        list.for_each_chunk(self.reader.tx, |chunk| entries.extend_from_slice(chunk.entries()))?;
        for entry in entries {
            if !self.remaining.contains(entry) {
                continue;
            }
            let decides = !self.many.contains(entry) || self.key_of(entry)? == Some(key);
            if decides {
                self.remaining.remove(entry);
                self.group.push(entry);
            }
        }
        Ok(())
    }

    /// The key of an entry's nearest place.
    fn key_of(&self, entry: u64) -> Result<Option<f64>, SearchError> {
        let nearest = self.from.nearest_in(self.reader.record(entry)?, self.field)?;
        Ok(nearest.map(|(distance, _)| self.key(distance)))
    }

    fn key(&self, distance: f64) -> f64 {
        let distance = self.from.rounded(distance);
        if self.descending { -distance } else { distance }
    }

    /// Puts the places of a cell on the heap, or its quarters when there are too many.
    fn open(&mut self, kind: TermKind, cell: Cell) -> Result<(), SearchError> {
        let range = cell.range();
        let first = range.first.to_be_bytes();
        let mut scan = self.reader.scan_terms(self.field, kind, Bound::Included(&first))?;
        let mut places = Vec::new();
        let is_finest = cell.quarters().next().is_none();
        while let Some((bytes, list)) = scan.next()? {
            if place::number_of(bytes)? > range.last {
                break;
            }
            if places.len() == CELL_PLACES_MAX && !is_finest {
                return self.cut(kind, cell);
            }
            places.push((place::place_of(bytes)?, list));
        }
        for (at, list) in places {
            let key = self.key(self.from.distance_to(at));
            self.heap.push(Reverse(Node { key, content: Content::Place(list) }));
        }
        Ok(())
    }

    fn cut(&mut self, kind: TermKind, cell: Cell) -> Result<(), SearchError> {
        for quarter in cell.quarters() {
            let key = self.key(self.bound(quarter));
            self.heap.push(Reverse(Node { key, content: Content::Cell(kind, quarter) }));
        }
        Ok(())
    }

    /// No place in the cell is nearer than this; farther, when the farthest come first.
    fn bound(&self, cell: Cell) -> f64 {
        let DistanceFrom { at, layout, .. } = &self.from;
        let bounds = layout.grid.cell_bounds(cell.number, u32::from(cell.level) * 2);
        let slack = |distance: f64| match layout.space {
            Space::Geography => SLACK,
            Space::Cartesian(_) => distance.abs() * 1e-9,
        };
        let distance = |angle| layout.space.distance_of_angle(angle, layout.units);
        if self.descending {
            let farthest = distance(farthest_in_box(&layout.space, *at, &bounds));
            return farthest + slack(farthest);
        }
        let nearest = distance(nearest_in_box(&layout.space, *at, &bounds));
        (nearest - slack(nearest)).max(0.0)
    }
}
