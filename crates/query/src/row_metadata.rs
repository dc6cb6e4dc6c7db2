//! What an index adds to the metadata of a row: its score and its location.

use search::Location;

/// The score and location of a row, which its metadata contains in addition to that of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RowMetadata {
    /// Its score; `None` without an index.
    pub(crate) score: Option<f32>,
    /// Its location, when rows are ordered by distance.
    pub(crate) location: Option<RowLocation>,
}

/// The location of a row and its distance from the center of the order; `None` for a row without
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowLocation(pub(crate) Option<Location>);

impl RowMetadata {
    /// Appends them as properties of the metadata, each preceded by a comma.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(score) = self.score {
            out.extend_from_slice(b",\"@index-score\":");
            out.extend_from_slice(score.to_string().as_bytes());
        }
        let Some(RowLocation(location)) = self.location else { return };
        let number = |value: Option<f64>| match value {
            Some(value) => value.to_string(),
            None => "\"NaN\"".to_owned(),
        };
        let text = format!(
            ",\"@spatial\":{{\"Distance\":{},\"Latitude\":{},\"Longitude\":{}}}",
            number(location.map(|location| location.distance)),
            number(location.map(|location| location.at.y)),
            number(location.map(|location| location.at.x)),
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// The same, always with a score.
    pub(crate) fn with_score(self) -> Self {
        Self { score: Some(self.score.unwrap_or_default()), ..self }
    }
}
