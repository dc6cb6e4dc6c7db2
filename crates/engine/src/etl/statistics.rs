//! What a process has done since it began, and what went wrong: for operators, in memory.

use std::collections::VecDeque;

use model::Etag;

/// Problems that are kept of a transformation, the newest.
const PROBLEMS_MAX: usize = 100;
/// Runs that are kept of a transformation, the newest.
const RUNS_MAX: usize = 25;
/// Longer messages are cut: they may come from the destination.
const MESSAGE_CHARS_MAX: usize = 2000;

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtlProblem {
    /// When, in ticks of UTC.
    pub at_ticks: i64,
    /// The document that was not sent; `None` if the destination did not take a request.
    pub document: Option<String>,
    /// Why.
    pub message: String,
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtlRun {
    /// Counts the batches of a transformation.
    pub number: u64,
    /// When it began, in ticks of UTC.
    pub began_ticks: i64,
    /// How long reading and transforming took.
    pub transform_ms: u64,
    /// How long the destination took.
    pub load_ms: u64,
    /// Changes that were read.
    pub changes: u64,
    /// Those that could not be transformed.
    pub problems: u64,
    /// Commands that were sent.
    pub commands: u64,
    /// Bytes of the request.
    pub bytes: u64,
    /// The last change that was read.
    pub last_etag: Etag,
    /// Whether the destination took it.
    pub has_succeeded: bool,
}

/// What was done for one transformation.
#[derive(Clone, Debug, Default)]
pub struct EtlStatistics {
    /// Everything up to here was sent.
    pub last_etag: Etag,
    /// Changes that were transformed.
    pub transformed: u64,
    /// Those that could not be.
    pub transform_errors: u64,
    /// When that last happened, in ticks of UTC.
    pub transform_error_ticks: Option<i64>,
    /// Changes that the destination took.
    pub loaded: u64,
    /// Requests that it did not take.
    pub load_errors: u64,
    /// When that last happened, in ticks of UTC.
    pub load_error_ticks: Option<i64>,
    /// Whether the last request was one of those.
    pub is_failing: bool,
    /// When the next request is tried, in ticks of UTC, if the last one failed.
    pub retry_ticks: Option<i64>,
    /// The newest problems, the oldest first.
    pub problems: VecDeque<EtlProblem>,
    /// The newest batches, the oldest first.
    pub runs: VecDeque<EtlRun>,
    /// Batches so far.
    pub runs_count: u64,
}

impl EtlStatistics {
    /// Notes a document that cannot be sent.
    pub(super) fn note_document(&mut self, id: &str, message: &str, at_ticks: i64) {
        self.transform_error_ticks = Some(at_ticks);
        let document = Some(id.to_owned());
        self.push(EtlProblem { at_ticks, document, message: cut(message) });
    }

    /// Notes a request that failed.
    pub(super) fn note_failure(&mut self, message: &str, at_ticks: i64, retry_ticks: i64) {
        self.load_errors += 1;
        self.load_error_ticks = Some(at_ticks);
        self.is_failing = true;
        self.retry_ticks = Some(retry_ticks);
        let message = cut(message);
        // The same failure again only moves: others are to remain visible.
        if let Some(last) = self.problems.back_mut()
            && last.document.is_none()
            && last.message == message
        {
            last.at_ticks = at_ticks;
            return;
        }
        self.push(EtlProblem { at_ticks, document: None, message });
    }

    pub(super) fn note_success(&mut self) {
        self.is_failing = false;
        self.retry_ticks = None;
    }

    pub(super) fn note_run(&mut self, run: EtlRun) {
        self.runs_count += 1;
        self.runs.push_back(EtlRun { number: self.runs_count, ..run });
        if RUNS_MAX < self.runs.len() {
            self.runs.pop_front();
        }
    }

    fn push(&mut self, problem: EtlProblem) {
        self.problems.push_back(problem);
        if PROBLEMS_MAX < self.problems.len() {
            self.problems.pop_front();
        }
    }
}

fn cut(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// What a process has done.
#[derive(Clone, Debug, Default)]
pub struct ProcessStatistics {
    /// By transformation, in the order of the task.
    pub transforms: Vec<(String, EtlStatistics)>,
    /// Where the last request went.
    pub destination_url: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_the_newest() {
        let mut statistics = EtlStatistics::default();
        for number in 0..PROBLEMS_MAX as i64 + 5 {
            statistics.note_document(&format!("d/{number}"), "x", number);
        }
        for number in 0..3 {
            statistics.note_failure("down", 1000 + number, 2000);
        }
        assert_eq!((statistics.problems.len(), statistics.load_errors), (PROBLEMS_MAX, 3));
        assert_eq!(statistics.problems[0].document.as_deref(), Some("d/6"));
        assert_eq!(statistics.problems.back().map(|problem| problem.at_ticks), Some(1002));
        assert!(statistics.is_failing);
        statistics.note_success();
        assert!(!statistics.is_failing && statistics.load_error_ticks == Some(1002));
        statistics.note_document("d", &"é".repeat(5000), 1);
        assert_eq!(statistics.problems.back().unwrap().message.chars().count(), MESSAGE_CHARS_MAX);
    }
}
