//! What another node may take as passed when it takes over a subscription.
//!
//! Etags say nothing elsewhere, so a position is handed over as a change vector. It must not claim too much: a change that
//! it covers and that no worker has got would never be sent. A document that is written again moves to the end of the log,
//! and the version that others know of it may never be passed here; and what comes from several nodes arrives in an order
//! in which one change vector does not show what is missing.
//!
//! So there are *marks*. A mark is the end of the log at some moment, with up to where the database had everything then.
//! Once the log is passed up to there, everything that the vector covers was passed, or had been written again on this node
//! when it was read. Once all other members have everything that was in the log then, they have what it was written again as,
//! which the vector does not cover. Then another node may go on behind it. The part of the own database in it advances
//! without marks: its changes are in the log in the order of its etags. Revisions are not: they come after the documents
//! whose versions they have.
//!
//! What was passed after the last mark that counts is sent again when another node takes over.

use cluster_state::Handover;
use model::{ChangeVector, ChangeVectorEntry, DatabaseId, Etag, NodeTag};

/// Marks that are remembered; without a place, one is made later.
const MARKS_MAX: usize = 16;

/// What the other members have of what this node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicated {
    /// Everything that the log of this node contained when it ended here, or what has replaced it since. That the log was
    /// sent up to an etag is less: what was there may have been written again, and moved to its end.
    pub complete_until: Etag,
}

impl Replicated {
    /// Of a database that no other node has.
    pub const ALONE: Replicated = Replicated { complete_until: Etag(u64::MAX) };
}

/// The end of the log at some moment.
#[derive(Clone, Debug)]
struct Mark {
    end: Etag,
    /// Up to where the database had everything; `None` for a position that says something of its own changes alone.
    vector: Option<ChangeVector>,
    /// The end of the log in the newest snapshot from which it was read when it was passed.
    passed_at: Option<Etag>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// The own database, once a worker has read.
    own: Option<(DatabaseId, NodeTag)>,
    /// The same as the position from which this continues says it.
    reader: Option<DatabaseId>,
    passed: ChangeVector,
    passed_elsewhere: ChangeVector,
    marks: Vec<Mark>,
    /// The end of the log at the newest mark that was made there.
    newest_mark: Etag,
    /// The end of the log in the newest snapshot from which it was read.
    read_end: Etag,
    is_of_revisions: bool,
}

impl Marks {
    /// Continues from what a position says.
    pub(crate) fn of(handover: Option<&Handover>, is_of_revisions: bool) -> Marks {
        let marks = Marks { is_of_revisions, ..Marks::default() };
        match handover {
            Some(handover) => Marks {
                reader: Some(handover.reader),
                passed: handover.passed.clone(),
                passed_elsewhere: handover.passed_elsewhere.clone(),
                ..marks
            },
            None => marks,
        }
    }

    /// Whether a worker on another node has passed the change that this change vector names.
    pub(crate) fn is_passed_elsewhere(&self, change_vector: &str) -> bool {
        !self.passed_elsewhere.is_empty()
            && change_vector.parse().is_ok_and(|vector| self.passed_elsewhere.covers(&vector))
    }

    /// Notes whose log is read; returns whether a mark is to be made at its end.
    pub(crate) fn needs_mark(&mut self, own: (DatabaseId, NodeTag), end: Etag) -> bool {
        self.own = Some(own);
        self.read_end = self.read_end.max(end);
        let full = self.marks.iter().filter(|mark| mark.vector.is_some()).count();
        self.newest_mark < end && full < MARKS_MAX / 2
    }

    /// Makes a mark at the end of the log, where the database has everything up to `vector`.
    pub(crate) fn mark(&mut self, end: Etag, vector: ChangeVector) {
        self.newest_mark = end;
        self.marks.push(Mark { end, vector: Some(vector), passed_at: None });
    }

    /// Notes that the log is passed up to an etag, and takes over the marks that count now.
    pub(crate) fn note_passed(&mut self, up_to: Etag, replicated: Replicated) {
        let Some(own) = self.own else { return };
        let (passed_at, complete_until) = (self.read_end, replicated.complete_until);
        for mark in self.marks.iter_mut().filter(|mark| mark.end <= up_to) {
            mark.passed_at.get_or_insert(passed_at);
        }
        if self.is_of_revisions {
            // Of the own changes, too, only marks say what was passed.
        } else if passed_at <= complete_until {
            self.advance_own(own, up_to);
        } else if self.marks.len() < MARKS_MAX
            && self.marks.iter().all(|mark| mark.end != up_to || mark.vector.is_some())
        {
            self.marks.push(Mark { end: up_to, vector: None, passed_at: Some(passed_at) });
        }
        let counts = |mark: &Mark| mark.passed_at.is_some_and(|at| at <= complete_until);
        let marks = std::mem::take(&mut self.marks);
        let (counting, left): (Vec<Mark>, Vec<Mark>) = marks.into_iter().partition(counts);
        self.marks = left;
        for mark in counting {
            match mark.vector {
                Some(vector) => {
                    self.passed = self.passed.merge(&vector);
                    if vector.covers(&self.passed_elsewhere) {
                        // Everything of it has arrived, and is behind the position.
                        self.passed_elsewhere = ChangeVector::empty();
                    }
                }
                None => self.advance_own(own, mark.end),
            }
        }
    }

    fn advance_own(&mut self, (database_id, tag): (DatabaseId, NodeTag), etag: Etag) {
        if self.passed.etag_of(database_id) < etag {
            self.passed = self.passed.with(ChangeVectorEntry { tag, etag, database_id });
        }
    }

    /// What a position says to other nodes. Without it they would take its etags for their own.
    pub(crate) fn handover(&self) -> Option<Handover> {
        let reader = self.own.map(|(database_id, _)| database_id).or(self.reader);
        reader.map(|reader| Handover {
            reader,
            passed: self.passed.clone(),
            passed_elsewhere: self.passed_elsewhere.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DatabaseId = DatabaseId([1; 16]);
    const B: DatabaseId = DatabaseId([2; 16]);

    fn vector(a: u64, b: u64) -> ChangeVector {
        let entry = |tag: &str, database_id, etag| ChangeVectorEntry {
            tag: tag.parse().unwrap(),
            etag: Etag(etag),
            database_id,
        };
        let mut vector = ChangeVector::empty();
        for (tag, id, etag) in [("A", A, a), ("B", B, b)] {
            if etag != 0 {
                vector = vector.with(entry(tag, id, etag));
            }
        }
        vector
    }

    fn passed(marks: &Marks) -> (u64, u64) {
        let passed = marks.handover().unwrap().passed;
        (passed.etag_of(A).0, passed.etag_of(B).0)
    }

    fn note_end(marks: &mut Marks, end: u64, vector: ChangeVector) {
        assert!(marks.needs_mark((A, NodeTag::A), Etag(end)));
        marks.mark(Etag(end), vector);
        assert!(!marks.needs_mark((A, NodeTag::A), Etag(end)));
    }

    fn complete_until(etag: u64) -> Replicated {
        Replicated { complete_until: Etag(etag) }
    }

    #[test]
    fn a_mark_counts_once_it_is_passed_and_the_others_have_what_was_there_when_it_was_read() {
        let mut marks = Marks::default();
        note_end(&mut marks, 10, vector(10, 7));
        marks.note_passed(Etag(6), complete_until(10));
        // Of the own changes it is known at once what is passed, of others only at the mark.
        assert_eq!(passed(&marks), (6, 0));
        note_end(&mut marks, 15, vector(15, 8));
        marks.note_passed(Etag(10), complete_until(14));
        assert_eq!(passed(&marks), (6, 0));
        note_end(&mut marks, 16, vector(16, 8));
        marks.note_passed(Etag(11), complete_until(14));
        assert_eq!(passed(&marks), (6, 0));
        marks.note_passed(Etag(11), complete_until(15));
        assert_eq!(passed(&marks), (10, 7));
        marks.note_passed(Etag(11), complete_until(16));
        assert_eq!(passed(&marks), (11, 7));
    }

    #[test]
    fn of_revisions_only_marks_say_what_was_passed() {
        let mut marks = Marks::of(None, true);
        note_end(&mut marks, 10, vector(10, 7));
        // The next one is that of a version with the etag 6.
        marks.note_passed(Etag(6), Replicated::ALONE);
        assert_eq!(passed(&marks), (0, 0));
        marks.note_passed(Etag(10), Replicated::ALONE);
        assert_eq!(passed(&marks), (10, 7));
    }

    #[test]
    fn what_was_passed_elsewhere_is_remembered_until_all_of_it_has_arrived() {
        let elsewhere =
            Handover { reader: B, passed: vector(5, 9), passed_elsewhere: vector(5, 9) };
        let mut marks = Marks::of(Some(&elsewhere), false);
        assert_eq!(marks.handover(), Some(elsewhere), "nothing was read yet");
        assert!(marks.is_passed_elsewhere(vector(5, 8).as_str()));
        assert!(!marks.is_passed_elsewhere(vector(6, 1).as_str()));
        note_end(&mut marks, 20, vector(20, 8));
        marks.note_passed(Etag(20), Replicated::ALONE);
        assert_eq!(passed(&marks), (20, 9));
        assert!(marks.is_passed_elsewhere(vector(0, 9).as_str()));
        note_end(&mut marks, 21, vector(21, 9));
        marks.note_passed(Etag(21), Replicated::ALONE);
        assert!(!marks.is_passed_elsewhere(vector(0, 9).as_str()));
        assert_eq!(marks.handover().unwrap().passed_elsewhere, ChangeVector::empty());
    }
}
