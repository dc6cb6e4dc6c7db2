//! A listener on the changes of a database, and the queue of its notifications.
//!
//! Invariant: the queue never exceeds its limit by more than one notification. A listener that does not keep
//! up loses its whole queue, and is ended.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use platform::Timestamp;
use wire::changes::AGGRESSIVE_CACHE_CHANGE;

/// Wakes a waiting task from any thread. It must not block.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// Bytes that a queued notification takes in addition to its text.
const OVERHEAD_BYTES: usize = 32;
/// Bytes that one listener may queue even if the shared budget is exceeded.
const ALWAYS_ALLOWED_BYTES: usize = 64 << 10;

/// Why a listener was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerEnd {
    /// It did not take its notifications fast enough.
    TooSlow,
    /// The database is closed.
    DatabaseClosed,
    /// An operator dropped it.
    Dropped,
}

/// The limit on what all listeners of a server have queued together, or on what they watch.
#[derive(Debug)]
pub struct ListenerBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl ListenerBudget {
    /// A budget of this many bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }

    fn is_exceeded(&self) -> bool {
        self.bytes_max < self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is room for this many bytes more.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.bytes_max
    }
}

/// What a queue, or the watches of a listener, take of a budget. It is returned on drop.
#[derive(Debug)]
pub(super) struct BudgetShare {
    budget: Arc<ListenerBudget>,
    bytes: usize,
}

impl BudgetShare {
    pub(super) fn new(budget: Arc<ListenerBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    pub(super) fn budget(&self) -> &ListenerBudget {
        &self.budget
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes even if that exceeds the budget.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// How a listener is notified.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// The limit of its own queue, in bytes.
    pub queued_bytes_max: usize,
    /// The budget of queues that it shares with all listeners of the server.
    pub budget: Arc<ListenerBudget>,
    /// The budget of watches that it shares with them.
    pub watch_budget: Arc<ListenerBudget>,
    /// Whether a new notification replaces the queued ones.
    pub only_last: bool,
    /// When the client connected.
    pub began: Timestamp,
}

/// See the module documentation.
pub struct Listener {
    id: u64,
    options: ListenerOptions,
    wake: Wake,
    queue: Mutex<Queue>,
    /// The number of the last event that it was notified of.
    last_event: AtomicU64,
}

struct Queue {
    share: BudgetShare,
    /// Answers to its commands; they are sent before all notifications.
    replies: VecDeque<String>,
    notifications: VecDeque<Arc<str>>,
    /// Whether to send that answers may be out of date; one notification covers any number of changes.
    answers_outdated: bool,
    end: Option<ListenerEnd>,
}

impl Listener {
    pub(super) fn new(id: u64, options: ListenerOptions, wake: Wake) -> Self {
        let queue = Mutex::new(Queue::new(Arc::clone(&options.budget)));
        Self { id, options, wake, queue, last_event: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id by which an operator refers to it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How it is notified.
    pub fn options(&self) -> &ListenerOptions {
        &self.options
    }

    /// The number of queued notifications and replies.
    pub fn pending(&self) -> usize {
        let queue = self.lock();
        queue.replies.len() + queue.notifications.len() + usize::from(queue.answers_outdated)
    }

    /// Why the listener was ended, if it was.
    pub fn end(&self) -> Option<ListenerEnd> {
        self.lock().end
    }

    /// Queues an answer to a command of its client.
    pub fn reply(&self, text: String) {
        self.change(|queue, limit| {
            queue.share.grow(text.len() + OVERHEAD_BYTES);
            queue.replies.push_back(text);
            queue.keep_within(limit);
        });
    }

    /// Queues the notification of the event with this number, unless it is queued already.
    pub(super) fn notify(&self, event: u64, notification: &Arc<str>) {
        // Only one thread at a time dispatches events.
        if self.last_event.swap(event, Ordering::Relaxed) == event {
            return;
        }
        self.change(|queue, limit| {
            if self.options.only_last {
                queue.forget_notifications();
            }
            queue.share.grow(notification.len() + OVERHEAD_BYTES);
            queue.notifications.push_back(Arc::clone(notification));
            queue.keep_within(limit);
        });
    }

    /// Queues the notification that answers may be out of date.
    pub(super) fn notify_outdated(&self) {
        self.change(|queue, _| queue.answers_outdated = true);
    }

    /// Ends the listener and discards its queue.
    pub(super) fn finish(&self, end: ListenerEnd) {
        self.change(|queue, _| queue.finish(end));
    }

    fn change(&self, change: impl FnOnce(&mut Queue, usize)) {
        let mut queue = self.lock();
        if queue.end.is_none() {
            change(&mut queue, self.options.queued_bytes_max);
            drop(queue);
            (self.wake)();
        }
    }

    /// Takes queued texts as one message of roughly `bytes_max` at most; with `replies_only`, only answers to
    /// its commands. `None` if there are none.
    pub fn take_message(&self, bytes_max: usize, replies_only: bool) -> Option<String> {
        let mut queue = self.lock();
        let mut message = String::new();
        while message.len() < bytes_max {
            let Some(text) = queue.take(replies_only) else { break };
            message.push(if message.is_empty() { '[' } else { ',' });
            message.push_str(text.as_ref());
        }
        if message.is_empty() {
            return None;
        }
        message.push(']');
        Some(message)
    }
}

/// An item taken from a queue.
enum Taken {
    Reply(String),
    Notification(Arc<str>),
    Outdated,
}

impl AsRef<str> for Taken {
    fn as_ref(&self) -> &str {
        match self {
            Taken::Reply(text) => text,
            Taken::Notification(text) => text,
            Taken::Outdated => AGGRESSIVE_CACHE_CHANGE,
        }
    }
}

impl Queue {
    fn new(budget: Arc<ListenerBudget>) -> Self {
        Self {
            share: BudgetShare::new(budget),
            replies: VecDeque::new(),
            notifications: VecDeque::new(),
            answers_outdated: false,
            end: None,
        }
    }

    fn take(&mut self, replies_only: bool) -> Option<Taken> {
        if let Some(reply) = self.replies.pop_front() {
            self.share.shrink(reply.len() + OVERHEAD_BYTES);
            return Some(Taken::Reply(reply));
        }
        if replies_only {
            return None;
        }
        if let Some(notification) = self.notifications.pop_front() {
            self.share.shrink(notification.len() + OVERHEAD_BYTES);
            return Some(Taken::Notification(notification));
        }
        std::mem::take(&mut self.answers_outdated).then_some(Taken::Outdated)
    }

    fn forget_notifications(&mut self) {
        let gone = self.notifications.drain(..).map(|text| text.len() + OVERHEAD_BYTES).sum();
        self.share.shrink(gone);
    }

    fn keep_within(&mut self, bytes_max: usize) {
        let bytes = self.share.bytes();
        let is_over_budget = self.share.budget().is_exceeded() && ALWAYS_ALLOWED_BYTES < bytes;
        if bytes_max < bytes || is_over_budget {
            self.finish(ListenerEnd::TooSlow);
        }
    }

    fn finish(&mut self, end: ListenerEnd) {
        self.share.shrink(self.share.bytes());
        self.replies = VecDeque::new();
        self.notifications = VecDeque::new();
        self.answers_outdated = false;
        self.end = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener_within(
        queued_bytes_max: usize,
        only_last: bool,
        budget: &Arc<ListenerBudget>,
    ) -> Listener {
        let (began, budget) = (Timestamp::from_ticks(0), Arc::clone(budget));
        let watch_budget = ListenerBudget::new(usize::MAX);
        let options = ListenerOptions { queued_bytes_max, budget, watch_budget, only_last, began };
        Listener::new(1, options, Box::new(|| ()))
    }

    fn listener(queued_bytes_max: usize, only_last: bool) -> Listener {
        listener_within(queued_bytes_max, only_last, &ListenerBudget::new(usize::MAX))
    }

    #[test]
    fn queued_texts_are_taken_in_order_in_messages_of_bounded_length() {
        let listener = listener(1000, false);
        for (event, text) in [(1, "aaaa"), (2, "bbbb"), (2, "again"), (3, "cccc")] {
            listener.notify(event, &text.into());
        }
        listener.notify_outdated();
        listener.notify_outdated();
        listener.reply("reply".to_owned());
        assert_eq!(listener.pending(), 5);
        assert_eq!(listener.take_message(8, false).as_deref(), Some("[reply,aaaa]"));
        assert_eq!(listener.take_message(8, false).as_deref(), Some("[bbbb,cccc]"));
        let outdated = format!("[{AGGRESSIVE_CACHE_CHANGE}]");
        assert_eq!(listener.take_message(8, false), Some(outdated));
        assert_eq!(listener.take_message(8, false), None);
        assert_eq!(listener.lock().share.bytes(), 0);
    }

    #[test]
    fn a_listener_for_the_last_change_only_still_gets_all_replies() {
        let listener = listener(1000, true);
        listener.reply("1".to_owned());
        listener.notify(1, &"a".into());
        listener.reply("2".to_owned());
        listener.notify(2, &"b".into());
        assert_eq!(listener.take_message(100, true).as_deref(), Some("[1,2]"));
        assert_eq!(listener.take_message(100, true), None);
        assert_eq!(listener.take_message(100, false).as_deref(), Some("[b]"));
    }

    #[test]
    fn a_listener_that_does_not_keep_up_is_ended_and_holds_nothing() {
        let listener = listener(110, false);
        let text: Arc<str> = "x".repeat(20).into();
        for event in 1..=2 {
            listener.notify(event, &text);
            assert_eq!(listener.end(), None);
        }
        assert_eq!(Arc::strong_count(&text), 2 + 1);
        listener.notify(3, &text);
        assert_eq!(listener.end(), Some(ListenerEnd::TooSlow));
        assert_eq!(Arc::strong_count(&text), 1);
        listener.notify(4, &text);
        listener.finish(ListenerEnd::Dropped);
        assert_eq!((listener.end(), listener.pending()), (Some(ListenerEnd::TooSlow), 0));
    }

    #[test]
    fn when_the_budget_is_exceeded_only_listeners_with_long_queues_end() {
        let budget = ListenerBudget::new(ALWAYS_ALLOWED_BYTES * 2);
        let listeners = [(); 3].map(|()| listener_within(usize::MAX, false, &budget));
        let text: Arc<str> = "x".repeat(ALWAYS_ALLOWED_BYTES - OVERHEAD_BYTES).into();
        for listener in &listeners {
            listener.notify(1, &text);
            assert_eq!(listener.end(), None);
        }
        listeners[0].notify(2, &"y".into());
        assert_eq!(listeners[0].end(), Some(ListenerEnd::TooSlow));
        listeners[1].notify(2, &"y".into());
        assert_eq!(listeners[1].end(), Some(ListenerEnd::TooSlow));
        listeners[2].notify(2, &"y".into());
        assert_eq!(listeners[2].end(), None);
        drop(listeners);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
