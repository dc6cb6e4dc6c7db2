//! What an index tells of a row beside its document: its score, and where it is.

use search::Location;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// How well it matches; none without an index.
    pub(crate) score: Option<f32>,
    /// Where it is, when rows are ordered by that.
    pub(crate) location: Option<RowLocation>,
}

/// Where a row is, seen from the place that an order starts from; `None` without a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowLocation(pub(crate) Option<Location>);

impl Told {
    /// Appends what there is as properties of the metadata, a comma before each.
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

    /// The same where a score is always told.
    pub(crate) fn with_score(self) -> Self {
        Self { score: Some(self.score.unwrap_or_default()), ..self }
    }
}
