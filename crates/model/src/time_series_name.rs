//! The name of a time series.

use std::fmt;

use crate::document_id::{DocumentId, DocumentIdTooLong};

/// Separates the name of a series from that of the policy whose rollup it is.
const ROLLUP_SEPARATOR: char = '@';
/// How the names of incremental series begin, in any case.
const INCREMENTAL_PREFIX: &str = "inc:";

/// The name of a time series as it was written, and the lower-cased key under which it is found
/// among those of its document. May be empty; the longest is as long as the longest document id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimeSeriesName(DocumentId);

impl TimeSeriesName {
    /// Takes the text as it is.
    ///
    /// # Errors
    /// When it is too long.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, DocumentIdTooLong> {
        DocumentId::new(text).map(Self)
    }

    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The lower-cased form.
    pub fn lower_cased(&self) -> &str {
        self.0.lower_cased()
    }

    /// Whether the entries are aggregated from those of another series, by a policy.
    pub fn is_rollup(&self) -> bool {
        self.as_str().contains(ROLLUP_SEPARATOR)
    }

    /// Whether the values can only be counted up and down. A rollup has nothing to count.
    pub fn is_incremental(&self) -> bool {
        self.lower_cased().starts_with(INCREMENTAL_PREFIX) && !self.is_rollup()
    }

    /// The name of the series that a rollup aggregates, and that of its policy.
    pub fn rollup_parts(&self) -> Option<(&str, &str)> {
        self.as_str().split_once(ROLLUP_SEPARATOR)
    }

    /// The name of the rollup that a policy creates from this series.
    ///
    /// # Errors
    /// When it is too long.
    pub fn rollup(&self, policy: &str) -> Result<Self, DocumentIdTooLong> {
        Self::new(format!("{self}{ROLLUP_SEPARATOR}{policy}"))
    }
}

impl fmt::Display for TimeSeriesName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_its_series_is() {
        let name = |text: &str| TimeSeriesName::new(text).unwrap();
        assert_eq!(name("HR").lower_cased(), "hr");
        assert!(name("Inc:A").is_incremental() && !name("incA").is_incremental());
        let rollup = name("HR").rollup("byHour").unwrap();
        assert_eq!(rollup.as_str(), "HR@byHour");
        assert_eq!(rollup.rollup_parts(), Some(("HR", "byHour")));
        assert!(!name("INC:A@byHour").is_incremental());
        assert!(rollup.is_rollup() && !name("HR").is_rollup());
        assert!(TimeSeriesName::new("x".repeat(513)).is_err());
    }
}
