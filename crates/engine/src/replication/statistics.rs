//! What links have done, and what went wrong.

use std::collections::VecDeque;

use model::{DatabaseId, Etag, NodeTag};

/// How many of its last runs are kept of a link.
const RUNS_MAX: usize = 25;

/// What a link does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It has not reached its destination yet.
    #[default]
    Connecting,
    /// Its destination has answered the last message.
    Active,
    /// Its destination has not, and is tried again.
    Failing,
    /// Its destination has answered that it takes nothing, and is asked again.
    Refused,
    /// The database that it sends cannot be read.
    Unreadable,
}

/// One message, and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRun {
    /// Counts the runs of a link from 1.
    pub number: u64,
    /// When it began, in ticks of UTC.
    pub began_ticks: i64,
    /// How long it took to read the log.
    pub read_ms: u64,
    /// How long it took until the destination had answered, or the batch was stored.
    pub network_ms: u64,
    /// Changes that were sent.
    pub items: u64,
    /// Changes that were left out because the destination has them.
    pub skipped: u64,
    /// Bytes of the message.
    pub bytes: u64,
    /// The destination has everything up to here, if it succeeded.
    pub last_etag: Etag,
    /// Why it failed.
    pub error: Option<String>,
}

/// What a link has done since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// What it does.
    pub state: LinkState,
    /// The address of the node that it reaches, or last reached.
    pub destination_url: Option<String>,
    /// The database there.
    pub destination: Option<(DatabaseId, NodeTag)>,
    /// The log was sent to the destination up to here; `None` if that is not known.
    pub accepted: Option<Etag>,
    /// The destination has everything that the log contained when it ended here, or what has replaced it since; `None` if
    /// that is not known.
    pub complete_until: Option<Etag>,
    /// When the destination last answered, in ticks of UTC.
    pub answered_ticks: Option<i64>,
    /// When its state became what it is, in ticks of UTC.
    pub since_ticks: i64,
    /// The last failure, and when that was.
    pub failure: Option<(i64, String)>,
    /// Failures since the last success.
    pub failures: u64,
    /// Whether the sender has lost changes that the receiver has: its files are an older copy.
    pub has_lost: bool,
    /// When it is tried again, in ticks of UTC.
    pub retry_ticks: Option<i64>,
    /// Its last runs, the latest at the end.
    pub runs: VecDeque<LinkRun>,
    runs_count: u64,
}

impl LinkStatistics {
    pub(super) fn note_run(&mut self, run: LinkRun) {
        self.runs_count += 1;
        if RUNS_MAX <= self.runs.len() {
            self.runs.pop_front();
        }
        self.runs.push_back(LinkRun { number: self.runs_count, ..run });
    }

    /// Returns whether it has failed before.
    pub(super) fn note_success(&mut self, now_ticks: i64) -> bool {
        let has_failed = self.is_failing();
        if self.state != LinkState::Active {
            (self.state, self.since_ticks) = (LinkState::Active, now_ticks);
        }
        (self.failures, self.retry_ticks, self.has_lost) = (0, None, false);
        self.answered_ticks = Some(now_ticks);
        has_failed
    }

    /// Whether the last message brought nothing but an error.
    pub fn is_failing(&self) -> bool {
        matches!(self.state, LinkState::Failing | LinkState::Refused | LinkState::Unreadable)
    }

    /// Returns whether it has not failed before. `state` is one of a link that fails.
    pub(super) fn note_failure(
        &mut self,
        state: LinkState,
        message: &str,
        now_ticks: i64,
        retry_ticks: i64,
    ) -> bool {
        let is_new = !self.is_failing();
        if self.state != state {
            (self.state, self.since_ticks) = (state, now_ticks);
        }
        self.failures += 1;
        self.failure = Some((now_ticks, message.to_owned()));
        self.retry_ticks = Some(retry_ticks);
        is_new
    }
}
