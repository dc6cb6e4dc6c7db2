//! Notices that operators have dismissed or postponed.
//!
//! Notices themselves are not stored: each exists for as long as its cause. This is kept in memory only, so
//! after a restart all notices are shown again. Invariant: at most [`HIDDEN_MAX`] notices are hidden, and the
//! newest [`UPDATES_MAX`] updates are kept.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use platform::Timestamp;

/// Limit of hidden notices; beyond it, the first one by name is shown again.
const HIDDEN_MAX: usize = 1024;
/// Updates kept for watchers.
const UPDATES_MAX: usize = 256;

/// For how long a notice is hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hidden {
    /// Until its cause ends.
    WhileItLasts,
    /// Even if its cause occurs again.
    Forever,
    /// Until a point in time.
    Until(Timestamp),
}

/// An update: a notice was hidden.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoticeUpdate {
    /// The id of the notice.
    pub id: String,
    /// How long it stays hidden.
    pub hidden: Hidden,
    /// When it was hidden.
    pub at: Timestamp,
}

/// The hidden notices of a database, or of the server.
#[derive(Default)]
pub struct NoticeBoard {
    board: Mutex<Board>,
}

#[derive(Default)]
struct Board {
    hidden: BTreeMap<String, Hidden>,
    updates: VecDeque<NoticeUpdate>,
    /// The number of updates ever made, including those no longer in `updates`.
    updates_count: u64,
}

impl NoticeBoard {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides a notice, even if none with this id exists.
    pub fn hide(&self, id: &str, hidden: Hidden, now: Timestamp) {
        let mut board = self.lock();
        board.hidden.insert(id.to_owned(), hidden);
        if HIDDEN_MAX < board.hidden.len() {
            board.hidden.pop_first();
        }
        board.updates.push_back(NoticeUpdate { id: id.to_owned(), hidden, at: now });
        if UPDATES_MAX < board.updates.len() {
            board.updates.pop_front();
        }
        board.updates_count += 1;
    }

    /// Filters out the hidden notices. A dismissed notice that is no longer among `notices` will be shown
    /// when its cause occurs again.
    pub fn shown<T>(&self, notices: Vec<T>, id: impl Fn(&T) -> &str, now: Timestamp) -> Vec<T> {
        let mut board = self.lock();
        board.hidden.retain(|hidden_id, hidden| match hidden {
            Hidden::Forever => true,
            Hidden::Until(moment) => now < *moment,
            Hidden::WhileItLasts => notices.iter().any(|notice| id(notice) == hidden_id),
        });
        notices.into_iter().filter(|notice| !board.hidden.contains_key(id(notice))).collect()
    }

    /// The number of updates so far.
    pub fn position(&self) -> u64 {
        self.lock().updates_count
    }

    /// The updates since a position, as far as they are kept, and the position after them.
    pub fn updates_since(&self, position: u64) -> (Vec<NoticeUpdate>, u64) {
        let board = self.lock();
        let new =
            usize::try_from(board.updates_count.saturating_sub(position)).unwrap_or(usize::MAX);
        let kept = board.updates.len();
        let updates = board.updates.iter().skip(kept.saturating_sub(new)).cloned().collect();
        (updates, board.updates_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ticks(100);
    const LATER: Timestamp = Timestamp::from_ticks(200);

    fn shown(board: &NoticeBoard, notices: &[&'static str], now: Timestamp) -> Vec<&'static str> {
        board.shown(notices.to_vec(), |notice| notice, now)
    }

    #[test]
    fn what_is_hidden_comes_back_when_its_time_has_come() {
        let board = NoticeBoard::default();
        board.hide("a", Hidden::WhileItLasts, NOW);
        board.hide("b", Hidden::Until(LATER), NOW);
        board.hide("c", Hidden::Forever, NOW);
        assert_eq!(shown(&board, &["a", "b", "c", "d"], NOW), ["d"]);
        assert_eq!(shown(&board, &["a", "b", "c"], LATER), ["b"]);
        // The cause of the dismissed notice ends.
        assert!(shown(&board, &["c"], LATER).is_empty());
        assert_eq!(shown(&board, &["a", "c"], LATER), ["a"]);
    }

    #[test]
    fn updates_are_read_once_and_bounded() {
        let board = NoticeBoard::default();
        let begin = board.position();
        board.hide("a", Hidden::Forever, NOW);
        let (updates, position) = board.updates_since(begin);
        assert_eq!(updates.iter().map(|update| update.id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert!(board.updates_since(position).0.is_empty());
        for number in 0..HIDDEN_MAX + UPDATES_MAX {
            board.hide(&number.to_string(), Hidden::Forever, NOW);
        }
        assert_eq!(board.updates_since(begin).0.len(), UPDATES_MAX);
        assert_eq!(board.lock().hidden.len(), HIDDEN_MAX);
    }
}
