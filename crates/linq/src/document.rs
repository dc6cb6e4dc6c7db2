//! What an evaluation reads: the document, and everything else through the host.

use std::error::Error;

use blittable::Object;

/// A document as an index sees it.
#[derive(Clone, Copy, Debug)]
pub struct DocumentInput<'a> {
    /// Its id, in the spelling it was saved with.
    pub id: &'a str,
    /// The document; its property `@metadata` holds what the client sent.
    pub body: Object<'a>,
    /// The change vector of its last change.
    pub change_vector: &'a str,
    /// The moment of its last change, in ticks (100 ns since 0001-01-01T00:00:00Z).
    pub last_modified_ticks: i64,
}

impl<'a> DocumentInput<'a> {
    /// The `@metadata` sent by the client; `None` without any, or when it is damaged.
    pub(crate) fn stored_metadata(&self) -> Option<Object<'a>> {
        self.body.get_object("@metadata").ok().flatten()
    }
}

/// An attachment of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentInput<'a> {
    /// Its name.
    pub name: &'a str,
    /// The hash of its content, as clients see it.
    pub hash: String,
    /// The content type set by the client.
    pub content_type: &'a str,
    /// Bytes of its content.
    pub size: i64,
}

/// A counter, as the source of an index of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInput<'a> {
    /// The id of its document.
    pub document_id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its total value.
    pub value: i64,
}

/// One measurement of a time series.
#[derive(Clone, Copy, Debug)]
pub struct TimeSeriesEntry<'a> {
    /// When, in ticks of UTC.
    pub timestamp_ticks: i64,
    /// Its tag.
    pub tag: Option<&'a str>,
    /// What was measured; never empty.
    pub values: &'a [f64],
}

/// A segment of a time series, as the source of an index of time series.
#[derive(Clone, Copy, Debug)]
pub struct TimeSeriesInput<'a> {
    /// The id of its document.
    pub document_id: &'a str,
    /// The name of the series.
    pub name: &'a str,
    /// The moments of its first and its last measurement, in ticks of UTC.
    pub start_ticks: i64,
    /// See `start_ticks`.
    pub end_ticks: i64,
    /// How many moments were measured; in an incremental series, several measurements share one.
    pub count: i64,
    /// The smallest value of each position.
    pub min: &'a [f64],
    /// The largest value of each position.
    pub max: &'a [f64],
    /// The values of each position together.
    pub sum: &'a [f64],
    /// Its measurements, in the order of time.
    pub entries: &'a [TimeSeriesEntry<'a>],
}

/// Whether an index follows the changes of what its map loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// A change triggers reindexing of the documents that loaded it.
    Followed,
    /// A change has no effect on the index.
    Ignored,
}

/// Why the host could not answer; ends the evaluation.
pub type HostError = Box<dyn Error + Send + Sync>;

/// Everything besides the document. All results are from the snapshot `'a` of the document. The
/// caller records what was requested, because its changes make the entry stale.
pub trait Host<'a> {
    /// Whether another output is of use. Otherwise the evaluation ends with an error.
    fn takes_outputs(&self) -> bool {
        true
    }

    /// The document `id`, if it is there and in `collection`.
    fn load_document(
        &mut self,
        id: &str,
        collection: &str,
        tracking: Tracking,
    ) -> Result<Option<DocumentInput<'a>>, HostError>;

    /// The names of the counters of the document `id`.
    fn counter_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError>;

    /// The names of the time series of the document `id`.
    fn time_series_names(&mut self, id: &str) -> Result<Vec<&'a str>, HostError>;

    /// The attachment `name` of the document `id`.
    fn attachment(
        &mut self,
        id: &str,
        name: &str,
    ) -> Result<Option<AttachmentInput<'a>>, HostError>;

    /// The bytes of the content with that hash; `None` when no attachment has it.
    fn attachment_content(&mut self, hash: &str) -> Result<Option<Vec<u8>>, HostError>;

    /// The attachments of the document `id`, in the order of their names without regard to case.
    fn attachments(&mut self, id: &str) -> Result<Vec<AttachmentInput<'a>>, HostError>;

    /// The value of the compare exchange `key`.
    fn compare_exchange_value(
        &mut self,
        key: &str,
    ) -> Result<Option<blittable::Value<'a>>, HostError>;
}

/// A host with nothing besides the document.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl<'a> Host<'a> for NoHost {
    fn load_document(
        &mut self,
        _: &str,
        _: &str,
        _: Tracking,
    ) -> Result<Option<DocumentInput<'a>>, HostError> {
        Ok(None)
    }

    fn counter_names(&mut self, _: &str) -> Result<Vec<&'a str>, HostError> {
        Ok(Vec::new())
    }

    fn time_series_names(&mut self, _: &str) -> Result<Vec<&'a str>, HostError> {
        Ok(Vec::new())
    }

    fn attachment(&mut self, _: &str, _: &str) -> Result<Option<AttachmentInput<'a>>, HostError> {
        Ok(None)
    }

    fn attachment_content(&mut self, _: &str) -> Result<Option<Vec<u8>>, HostError> {
        Ok(None)
    }

    fn attachments(&mut self, _: &str) -> Result<Vec<AttachmentInput<'a>>, HostError> {
        Ok(Vec::new())
    }

    fn compare_exchange_value(
        &mut self,
        _: &str,
    ) -> Result<Option<blittable::Value<'a>>, HostError> {
        Ok(None)
    }
}
