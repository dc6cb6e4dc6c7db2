//! How much was written.

/// What a batch stored; excludes deletions, and writes that were rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTally {
    /// Versions of documents, including those that only update a list in the metadata.
    pub documents: Stored,
    /// Attachments, with the bytes of their contents.
    pub attachments: Stored,
    /// New values of counters.
    pub counters: Stored,
    /// Entries of time series, with the bytes of the segments that contain them now.
    pub time_series: Stored,
}

/// The count and size of one kind of stored data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The number of items.
    pub count: u64,
    /// Their size in bytes, before compression.
    pub bytes: u64,
}

impl Stored {
    pub(crate) fn add(&mut self, count: u64, bytes: u64) {
        self.count += count;
        self.bytes += bytes;
    }

    fn with(self, more: Stored) -> Stored {
        Stored { count: self.count + more.count, bytes: self.bytes + more.bytes }
    }
}

impl WriteTally {
    /// The sum of both.
    #[must_use]
    pub fn with(self, more: WriteTally) -> WriteTally {
        WriteTally {
            documents: self.documents.with(more.documents),
            attachments: self.attachments.with(more.attachments),
            counters: self.counters.with(more.counters),
            time_series: self.time_series.with(more.time_series),
        }
    }
}
