//! The sections of a dump, by their names in the file.

/// A section of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// The settings of the database: one object, not an array.
    DatabaseRecord,
    /// Documents, and the contents of their attachments before them.
    Documents,
    /// Revisions, and the contents of their attachments before them.
    Revisions,
    /// Deletions, in dumps of incremental backups.
    Tombstones,
    /// Documents that are in conflict.
    Conflicts,
    /// Definitions of indexes.
    Indexes,
    /// Identities.
    Identities,
    /// Compare exchange values.
    CompareExchange,
    /// Deletions of compare exchange values, in dumps of incremental backups.
    CompareExchangeTombstones,
    /// Counters, one a row: files of RavenDB 4.1.
    Counters,
    /// Counters by document.
    CounterGroups,
    /// Subscriptions.
    Subscriptions,
    /// Segments of time series, and the bytes of each behind it.
    TimeSeries,
    /// Deleted ranges of time series.
    TimeSeriesDeletedRanges,
    /// Certificates of a replication hub.
    ReplicationHubCertificates,
    /// Attachments that belong to no document: files of RavenDB 3.5.
    LegacyAttachments,
    /// Deletions of documents: incremental files of RavenDB 3.5.
    LegacyDocumentDeletions,
    /// Deletions of attachments: incremental files of RavenDB 3.5.
    LegacyAttachmentDeletions,
    /// Result transformers: files of RavenDB 3.5.
    LegacyTransformers,
}

/// A section of files of backups of Corvus, with one element, which says which file it is: no data. RavenDB passes
/// over sections that it does not know.
pub const BACKUP_FILE: &str = "CorvusBackupFile";

/// Names in files, those that are written today first.
const NAMES: &[(&str, Section)] = &[
    ("DatabaseRecord", Section::DatabaseRecord),
    ("Docs", Section::Documents),
    ("RevisionDocuments", Section::Revisions),
    ("Tombstones", Section::Tombstones),
    ("Conflicts", Section::Conflicts),
    ("Indexes", Section::Indexes),
    ("Identities", Section::Identities),
    ("CompareExchange", Section::CompareExchange),
    ("CompareExchangeTombstones", Section::CompareExchangeTombstones),
    ("Counters", Section::Counters),
    ("CounterGroups", Section::CounterGroups),
    ("Subscriptions", Section::Subscriptions),
    ("TimeSeriesDeletedRanges", Section::TimeSeriesDeletedRanges),
    ("TimeSeries", Section::TimeSeries),
    ("ReplicationHubCertificates", Section::ReplicationHubCertificates),
    ("Attachments", Section::LegacyAttachments),
    ("DocsDeletions", Section::LegacyDocumentDeletions),
    ("AttachmentsDeletions", Section::LegacyAttachmentDeletions),
    ("Transformers", Section::LegacyTransformers),
    ("Results", Section::Documents),
    ("CmpXchg", Section::CompareExchange),
];

impl Section {
    /// The section of that name in a file, if it is known. Names are compared as they are written.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, section)| *section)
    }

    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, section)| *section == self).map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_names_are_read_and_todays_are_written() {
        assert_eq!(Section::named("Results"), Some(Section::Documents));
        assert_eq!(Section::Documents.name(), "Docs");
        assert_eq!(Section::named("CmpXchg"), Some(Section::CompareExchange));
        assert_eq!(Section::CompareExchange.name(), "CompareExchange");
        assert_eq!(Section::named("docs"), None);
        for (name, section) in NAMES {
            assert_eq!(Section::named(name), Some(*section));
            assert_eq!(Section::named(section.name()), Some(*section));
        }
    }
}
