//! What a database says of its time series, as far as queries need it.

/// What a database says of its time series.
pub trait SeriesSettings {
    /// The names of the values by position, for a series of the documents of a collection.
    fn value_names(&self, collection: &str, series: &str) -> Option<&[String]>;
}

/// Nothing is said.
pub(crate) struct NoSettings;

impl SeriesSettings for NoSettings {
    fn value_names(&self, _: &str, _: &str) -> Option<&[String]> {
        None
    }
}
