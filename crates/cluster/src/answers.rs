//! Which nodes answer, so that it is logged when one stops and when it answers again.
//!
//! There are several connections to a node, and over a bad network one of them fails while another one works: not more
//! than one failure of a node is logged in [`LOG_INTERVAL`].

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::runtime::Moment;

const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<BTreeMap<u64, Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// Whether it was logged that the node does not answer, and not yet that it does again.
    is_reported: bool,
    /// When a failure was last logged.
    reported_at: Option<Moment>,
}

impl Answers {
    /// Notes whether a request to a node was answered; returns whether that is to be logged.
    pub(crate) fn note(&self, node: u64, is_answered: bool) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = all.entry(node).or_default();
        if is_answered {
            return std::mem::replace(&mut noted.is_reported, false);
        }
        let is_recent = noted.reported_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL);
        if noted.is_reported || is_recent {
            return false;
        }
        *noted = Noted { is_reported: true, reported_at: Some(Moment::now()) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_answers_now_and_then_is_logged_once() {
        let answers = Answers::default();
        assert!(!answers.note(1, true), "nothing was wrong");
        assert!(answers.note(1, false));
        assert!(!answers.note(1, false), "it is known");
        assert!(answers.note(2, false), "another node");
        assert!(answers.note(1, true), "it answers again");
        for _ in 0..10 {
            assert!(!answers.note(1, false), "not again within the interval");
            assert!(!answers.note(1, true));
        }
    }
}
