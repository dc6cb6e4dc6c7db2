//! One who watches a database, and what it is still to be told.
//!
//! Invariant: what waits for it never exceeds its bound by more than one notification. One that does
//! not keep up loses everything that waits, and ends.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use platform::Timestamp;
use wire::changes::AGGRESSIVE_CACHE_CHANGE;

/// Wakes somebody who waits, from any thread. It must not wait for anything itself.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// What a notification in a queue takes besides its text.
const OVERHEAD_BYTES: usize = 32;
/// What may wait for one listener however much waits for all.
const ALWAYS_ALLOWED_BYTES: usize = 64 << 10;

/// Why a listener is told nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerEnd {
    /// It did not take what it was told.
    TooSlow,
    /// The database is closed.
    DatabaseClosed,
    /// Somebody wanted it.
    Dropped,
}

/// What may wait for all listeners of a server together.
#[derive(Debug)]
pub struct QueueBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl QueueBudget {
    /// So many bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, bytes: AtomicUsize::new(0) })
    }

    fn is_exceeded(&self) -> bool {
        self.bytes_max < self.bytes.load(Ordering::Relaxed)
    }
}

/// How a listener wants to be told.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// What may wait for it, in bytes.
    pub queued_bytes_max: usize,
    /// Its part of what may wait for all.
    pub budget: Arc<QueueBudget>,
    /// Whether it wants to hear of the last of many changes only.
    pub only_last: bool,
    /// When it came.
    pub began: Timestamp,
}

/// See the module.
pub struct Listener {
    id: u64,
    options: ListenerOptions,
    wake: Wake,
    queue: Mutex<Queue>,
    /// The number of the last event that it was told of.
    last_event: AtomicU64,
}

struct Queue {
    budget: Arc<QueueBudget>,
    /// Answers to its commands; they go before all notifications.
    replies: VecDeque<String>,
    notifications: VecDeque<Arc<str>>,
    bytes: usize,
    /// Whether it is to be told that answers may be out of date; once says it all.
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

    /// By which an operator names it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How it wants to be told.
    pub fn options(&self) -> &ListenerOptions {
        &self.options
    }

    /// How many notifications wait for it.
    pub fn pending(&self) -> usize {
        let queue = self.lock();
        queue.replies.len() + queue.notifications.len() + usize::from(queue.answers_outdated)
    }

    /// Why it is told nothing any more, if that is so.
    pub fn end(&self) -> Option<ListenerEnd> {
        self.lock().end
    }

    /// Answers a command of its client.
    pub fn reply(&self, text: String) {
        self.change(|queue, limit| {
            queue.grow(text.len());
            queue.replies.push_back(text);
            queue.keep_within(limit);
        });
    }

    /// Tells it of the event of this number, unless it knows.
    pub(super) fn tell(&self, event: u64, notification: &Arc<str>) {
        // Only one thread at a time tells of events.
        if self.last_event.swap(event, Ordering::Relaxed) == event {
            return;
        }
        self.change(|queue, limit| {
            if self.options.only_last {
                queue.forget_notifications();
            }
            queue.grow(notification.len());
            queue.notifications.push_back(Arc::clone(notification));
            queue.keep_within(limit);
        });
    }

    /// Tells it that answers may be out of date.
    pub(super) fn tell_outdated(&self) {
        self.change(|queue, _| queue.answers_outdated = true);
    }

    /// Tells it nothing any more.
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

    /// Takes what waits, as one message of about so many bytes at most; with `replies_only` only the
    /// answers to its commands. `None` when nothing waits.
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

/// What waited in a queue.
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
    fn new(budget: Arc<QueueBudget>) -> Self {
        Self {
            budget,
            replies: VecDeque::new(),
            notifications: VecDeque::new(),
            bytes: 0,
            answers_outdated: false,
            end: None,
        }
    }

    fn grow(&mut self, text_bytes: usize) {
        self.bytes += text_bytes + OVERHEAD_BYTES;
        self.budget.bytes.fetch_add(text_bytes + OVERHEAD_BYTES, Ordering::Relaxed);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn take(&mut self, replies_only: bool) -> Option<Taken> {
        if let Some(reply) = self.replies.pop_front() {
            self.shrink(reply.len() + OVERHEAD_BYTES);
            return Some(Taken::Reply(reply));
        }
        if replies_only {
            return None;
        }
        if let Some(notification) = self.notifications.pop_front() {
            self.shrink(notification.len() + OVERHEAD_BYTES);
            return Some(Taken::Notification(notification));
        }
        std::mem::take(&mut self.answers_outdated).then_some(Taken::Outdated)
    }

    fn forget_notifications(&mut self) {
        let gone = self.notifications.drain(..).map(|text| text.len() + OVERHEAD_BYTES).sum();
        self.shrink(gone);
    }

    fn keep_within(&mut self, bytes_max: usize) {
        let is_all_too_much = self.budget.is_exceeded() && ALWAYS_ALLOWED_BYTES < self.bytes;
        if bytes_max < self.bytes || is_all_too_much {
            self.finish(ListenerEnd::TooSlow);
        }
    }

    fn finish(&mut self, end: ListenerEnd) {
        self.shrink(self.bytes);
        self.replies = VecDeque::new();
        self.notifications = VecDeque::new();
        self.answers_outdated = false;
        self.end = Some(end);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener_within(
        queued_bytes_max: usize,
        only_last: bool,
        budget: &Arc<QueueBudget>,
    ) -> Listener {
        let (began, budget) = (Timestamp::from_ticks(0), Arc::clone(budget));
        let options = ListenerOptions { queued_bytes_max, budget, only_last, began };
        Listener::new(1, options, Box::new(|| ()))
    }

    fn listener(queued_bytes_max: usize, only_last: bool) -> Listener {
        listener_within(queued_bytes_max, only_last, &QueueBudget::new(usize::MAX))
    }

    #[test]
    fn what_waits_is_taken_in_order_in_messages_of_bounded_length() {
        let listener = listener(1000, false);
        for (event, text) in [(1, "aaaa"), (2, "bbbb"), (2, "again"), (3, "cccc")] {
            listener.tell(event, &text.into());
        }
        listener.tell_outdated();
        listener.tell_outdated();
        listener.reply("reply".to_owned());
        assert_eq!(listener.pending(), 5);
        assert_eq!(listener.take_message(8, false).as_deref(), Some("[reply,aaaa]"));
        assert_eq!(listener.take_message(8, false).as_deref(), Some("[bbbb,cccc]"));
        let outdated = format!("[{AGGRESSIVE_CACHE_CHANGE}]");
        assert_eq!(listener.take_message(8, false), Some(outdated));
        assert_eq!(listener.take_message(8, false), None);
        assert_eq!(listener.lock().bytes, 0);
    }

    #[test]
    fn one_that_wants_the_last_change_only_gets_its_replies_nevertheless() {
        let listener = listener(1000, true);
        listener.reply("1".to_owned());
        listener.tell(1, &"a".into());
        listener.reply("2".to_owned());
        listener.tell(2, &"b".into());
        assert_eq!(listener.take_message(100, true).as_deref(), Some("[1,2]"));
        assert_eq!(listener.take_message(100, true), None);
        assert_eq!(listener.take_message(100, false).as_deref(), Some("[b]"));
    }

    #[test]
    fn one_that_does_not_keep_up_ends_and_holds_nothing() {
        let listener = listener(110, false);
        let text: Arc<str> = "x".repeat(20).into();
        for event in 1..=2 {
            listener.tell(event, &text);
            assert_eq!(listener.end(), None);
        }
        assert_eq!(Arc::strong_count(&text), 2 + 1);
        listener.tell(3, &text);
        assert_eq!(listener.end(), Some(ListenerEnd::TooSlow));
        assert_eq!(Arc::strong_count(&text), 1);
        listener.tell(4, &text);
        listener.finish(ListenerEnd::Dropped);
        assert_eq!((listener.end(), listener.pending()), (Some(ListenerEnd::TooSlow), 0));
    }

    #[test]
    fn when_all_hold_too_much_those_who_hold_much_end() {
        let budget = QueueBudget::new(ALWAYS_ALLOWED_BYTES * 2);
        let listeners = [(); 3].map(|()| listener_within(usize::MAX, false, &budget));
        let text: Arc<str> = "x".repeat(ALWAYS_ALLOWED_BYTES - OVERHEAD_BYTES).into();
        for listener in &listeners {
            listener.tell(1, &text);
            assert_eq!(listener.end(), None);
        }
        listeners[0].tell(2, &"y".into());
        assert_eq!(listeners[0].end(), Some(ListenerEnd::TooSlow));
        listeners[1].tell(2, &"y".into());
        assert_eq!(listeners[1].end(), Some(ListenerEnd::TooSlow));
        listeners[2].tell(2, &"y".into());
        assert_eq!(listeners[2].end(), None);
        drop(listeners);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
