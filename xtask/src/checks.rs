//! The result of a task: the number of checks that passed, and a sentence for each that failed.

#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
}

impl Checks {
    /// Counts one check; `failure` describes what is wrong when it fails.
    pub(crate) fn that(&mut self, holds: bool, failure: impl FnOnce() -> String) {
        if holds {
            self.passed += 1;
        } else {
            self.failures.push(failure());
        }
    }
}
