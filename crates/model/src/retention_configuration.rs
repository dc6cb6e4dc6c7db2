//! How often a database looks for documents that are due to expire, to be refreshed or to be archived.

/// What happens to a document when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionKind {
    /// Documents are deleted when due.
    Expiration,
    /// Documents are stored again when due.
    Refresh,
    /// Documents are archived when due.
    Archival,
}

/// How due documents are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionConfiguration {
    /// Seconds between two runs.
    pub interval_seconds: u64,
    /// Maximum number of documents processed in one run.
    pub items_max: Option<u64>,
}

/// The configurations of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionConfigurations {
    /// In the order of [`RetentionKind::ALL`].
    by_kind: [Option<RetentionConfiguration>; RetentionKind::ALL.len()],
}

impl RetentionKind {
    /// Every kind, once.
    pub const ALL: [Self; 3] = [Self::Expiration, Self::Refresh, Self::Archival];

    /// The property of a database record that holds the configuration.
    pub fn property(self) -> &'static str {
        match self {
            Self::Expiration => "Expiration",
            Self::Refresh => "Refresh",
            Self::Archival => "DataArchival",
        }
    }
}

impl RetentionConfigurations {
    /// The configurations that `of_kind` returns; `None` where a kind is not configured, or disabled.
    pub fn new(of_kind: impl FnMut(RetentionKind) -> Option<RetentionConfiguration>) -> Self {
        Self { by_kind: RetentionKind::ALL.map(of_kind) }
    }

    /// The configuration of a kind; `None` if there is none, or it is disabled.
    pub fn of_kind(&self, kind: RetentionKind) -> Option<RetentionConfiguration> {
        RetentionKind::ALL.into_iter().zip(self.by_kind).find(|(one, _)| *one == kind)?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_configuration() {
        let every = |interval_seconds| RetentionConfiguration { interval_seconds, items_max: None };
        let configurations = RetentionConfigurations::new(|kind| match kind {
            RetentionKind::Expiration => Some(every(1)),
            RetentionKind::Refresh => None,
            RetentionKind::Archival => Some(every(3)),
        });
        let found = RetentionKind::ALL.map(|kind| configurations.of_kind(kind));
        assert_eq!(found, [Some(every(1)), None, Some(every(3))]);
        assert_eq!(RetentionConfigurations::default().of_kind(RetentionKind::Refresh), None);
    }
}
