//! How much was written.

/// What a batch stored: what was deleted, or stored before it was undone, is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTally {
    /// Versions of documents, those among them that only list something else in their metadata.
    pub documents: Stored,
    /// Attachments, with the bytes of their contents.
    pub attachments: Stored,
    /// New values of counters.
    pub counters: Stored,
    /// Entries of time series, with the bytes of the segments that they are in now.
    pub time_series: Stored,
}

/// How often one kind of thing was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// How many.
    pub count: u64,
    /// Bytes of all of them, before any compression.
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
    /// Both together.
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
