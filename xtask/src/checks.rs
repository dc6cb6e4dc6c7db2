//! What a task found: how many checks held, and a sentence for each that did not.

#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
}

impl Checks {
    /// Counts one check; `failure` says what is wrong when it does not hold.
    pub(crate) fn that(&mut self, holds: bool, failure: impl FnOnce() -> String) {
        if holds {
            self.passed += 1;
        } else {
            self.failures.push(failure());
        }
    }
}
