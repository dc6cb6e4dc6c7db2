//! The enumerations in the definition of an index.

use crate::named_enum::named_enum;

named_enum! {
    /// How the values of a field become terms.
    FieldIndexing {
        /// Not indexed.
        No,
        /// Analysed into words.
        Search,
        /// As one term, unchanged.
        Exact,
        /// As one term, in lower case.
        Default,
    }
}

named_enum! {
    /// Whether an index stores the values of a field.
    FieldStorage {
        /// Stored.
        Yes,
        /// Not stored.
        No,
    }
}

named_enum! {
    /// Which term vectors an index stores for a field.
    TermVector {
        /// None.
        No,
        /// The terms of each entry.
        Yes,
        /// The terms with their positions.
        WithPositions,
        /// The terms with their offsets in the text.
        WithOffsets,
        /// The terms with both.
        WithPositionsAndOffsets,
    }
}

named_enum! {
    /// Whether a definition can be changed.
    IndexLockMode {
        /// It can.
        Unlock,
        /// Changes are silently ignored.
        LockedIgnore,
        /// Changes are refused with an error.
        LockedError,
    }
}

named_enum! {
    /// How an index treats archived documents.
    ArchivedDataProcessingBehavior {
        /// They are not indexed: the default.
        ExcludeArchived,
        /// They are indexed like others.
        IncludeArchived,
        /// Only they are indexed.
        ArchivedOnly,
    }
}

named_enum! {
    /// The share of the machine that an index takes under load.
    IndexPriority {
        /// Less than requests.
        Low,
        /// The default: less than requests.
        Normal,
        /// As much as requests.
        High,
    }
}

named_enum! {
    /// The state of an index.
    IndexState {
        /// It follows the documents.
        Normal,
        /// It is disabled.
        Disabled,
        /// An automatic index that has not been queried for a long time.
        Idle,
        /// Too many of its documents failed, or its files are damaged.
        Error,
    }
}

named_enum! {
    /// The type of an index.
    IndexType {
        /// Not determined yet.
        None,
        /// Created for queries.
        AutoMap,
        /// Created for queries with `group by`.
        AutoMapReduce,
        /// A map in C#.
        Map,
        /// A map and a reduce in C#.
        MapReduce,
        /// It cannot be opened.
        Faulty,
        /// A map in JavaScript.
        JavaScriptMap,
        /// A map and a reduce in JavaScript.
        JavaScriptMapReduce,
    }
}

named_enum! {
    /// What an index reads.
    IndexSourceType {
        /// Not determined yet.
        None,
        /// Documents.
        Documents,
        /// Time series.
        TimeSeries,
        /// Counters.
        Counters,
    }
}
