//! When this node last reached each other one: what a leader knows of those that follow it, and what is logged of it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::NodeTag;

use crate::{node_id::tag_of, runtime::Moment};

/// A node to which nothing was sent for so long is not being reached for: this node does not lead any more.
const TRIED_MAX: Duration = Duration::from_secs(5);
/// Changes of who leads that are remembered.
const CHANGES_MAX: usize = 32;
/// Not more than one failure of a node is logged in this time: there are several connections to it, and over a bad network
/// one of them fails while another one works.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What this node knows of reaching another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The tag of the other node.
    pub tag: NodeTag,
    /// How long ago something was last sent to it.
    pub sent_before: Duration,
    /// How long ago it last answered; `None` if it never did.
    pub answered_before: Option<Duration>,
    /// For how long it has not answered, and why; `None` if it has answered the last request.
    pub failing: Option<(Duration, String)>,
    /// The index up to which it has the log, if this node leads.
    pub matched: Option<u64>,
}

impl Contact {
    /// For how long a node that this one tries to reach has not answered.
    pub fn silent_for(&self) -> Option<Duration> {
        let is_tried = self.sent_before < TRIED_MAX;
        self.failing.as_ref().filter(|_| is_tried).map(|(since, _)| *since)
    }
}

/// A change of who leads, as this node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// How long ago it was.
    pub before: Duration,
    /// The term.
    pub term: u64,
    /// Who has led since.
    pub leader: Option<NodeTag>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Contacts(Mutex<Known>);

#[derive(Default)]
struct Known {
    nodes: BTreeMap<u64, Attempts>,
    changes: VecDeque<(Moment, u64, Option<NodeTag>)>,
}

struct Attempts {
    sent: Moment,
    answered: Option<Moment>,
    failing: Option<(Moment, String)>,
    /// Whether it was logged that the node does not answer, and not yet that it does again.
    is_logged: bool,
    /// When a failure was last logged.
    logged_at: Option<Moment>,
}

impl Attempts {
    /// Whether it is to be logged that the node answers again, or does not answer.
    fn is_to_be_logged(&mut self, is_answered: bool, now: Moment) -> bool {
        if is_answered {
            return std::mem::replace(&mut self.is_logged, false);
        }
        let is_recent = self.logged_at.is_some_and(|at| now - at < LOG_INTERVAL);
        if self.is_logged || is_recent {
            return false;
        }
        (self.is_logged, self.logged_at) = (true, Some(now));
        true
    }
}

impl Contacts {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request was answered, or why not; returns whether that is to be logged.
    pub(crate) fn note(&self, node: u64, error: Option<String>, now: Moment) -> bool {
        let mut known = self.lock();
        let attempts = known.nodes.entry(node).or_insert(Attempts {
            sent: now,
            answered: None,
            failing: None,
            is_logged: false,
            logged_at: None,
        });
        attempts.sent = now;
        let is_to_be_logged = attempts.is_to_be_logged(error.is_none(), now);
        match error {
            None => (attempts.answered, attempts.failing) = (Some(now), None),
            Some(error) => {
                let since = attempts.failing.as_ref().map_or(now, |(since, _)| *since);
                attempts.failing = Some((since, error));
            }
        }
        is_to_be_logged
    }

    /// Forgets nodes that are no longer there.
    pub(crate) fn retain(&self, is_there: impl Fn(u64) -> bool) {
        self.lock().nodes.retain(|node, _| is_there(*node));
    }

    /// Notes who leads from now on.
    pub(crate) fn note_leader(&self, term: u64, leader: Option<NodeTag>, now: Moment) {
        let mut known = self.lock();
        if CHANGES_MAX <= known.changes.len() {
            known.changes.pop_front();
        }
        known.changes.push_back((now, term, leader));
    }

    /// The last changes of who leads, the latest at the end.
    pub(crate) fn leader_changes(&self, now: Moment) -> Vec<LeaderChange> {
        let known = self.lock();
        let changes = known.changes.iter();
        changes
            .map(|(at, term, leader)| LeaderChange {
                before: now - *at,
                term: *term,
                leader: *leader,
            })
            .collect()
    }

    /// What is known of each node.
    pub(crate) fn all(&self, now: Moment, matched: impl Fn(u64) -> Option<u64>) -> Vec<Contact> {
        let before = |at: Moment| now - at;
        let known = self.lock();
        let contacts = known.nodes.iter().filter_map(|(node, attempts)| {
            let failing = attempts.failing.as_ref();
            Some(Contact {
                tag: tag_of(*node)?,
                sent_before: before(attempts.sent),
                answered_before: attempts.answered.map(before),
                failing: failing.map(|(since, error)| (before(*since), error.clone())),
                matched: matched(*node),
            })
        });
        contacts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_silent_from_its_first_failure_to_its_next_answer() {
        let (contacts, began) = (Contacts::default(), Moment::now());
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let of_two = |seconds: u64| contacts.all(at(seconds), |_| Some(7)).remove(0);
        contacts.note(2, None, at(0));
        assert_eq!(of_two(3).silent_for(), None);
        contacts.note(2, Some("refused".to_owned()), at(3));
        contacts.note(2, Some("late".to_owned()), at(5));
        let contact = of_two(5);
        assert_eq!(contact.silent_for(), Some(Duration::from_secs(2)));
        assert_eq!(contact.answered_before, Some(Duration::from_secs(5)));
        assert_eq!((contact.failing.unwrap().1.as_str(), contact.matched), ("late", Some(7)));
        // Nobody tries to reach it any more.
        assert_eq!(of_two(10).silent_for(), None);
        contacts.note(2, None, at(11));
        assert_eq!(of_two(11).silent_for(), None);
        contacts.retain(|node| node != 2);
        assert!(contacts.all(at(11), |_| None).is_empty());
    }

    #[test]
    fn a_node_that_answers_now_and_then_is_logged_once() {
        let (contacts, now) = (Contacts::default(), Moment::now());
        let note = |node, is_answered: bool| {
            contacts.note(node, (!is_answered).then(|| "refused".to_owned()), now)
        };
        assert!(!note(1, true), "nothing was wrong");
        assert!(note(1, false));
        assert!(!note(1, false), "it is known");
        assert!(note(2, false), "another node");
        assert!(note(1, true), "it answers again");
        for _ in 0..10 {
            assert!(!note(1, false), "not again within the interval");
            assert!(!note(1, true));
        }
        assert!(contacts.note(1, Some("refused".to_owned()), now + LOG_INTERVAL));
    }
}
