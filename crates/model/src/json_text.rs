//! JSON that is stored and returned to clients without being interpreted.

/// The text of one JSON value. `wire` creates it from a value, so it is well-formed; text that is not is written as
/// `null`. Two texts are equal only if their objects list the properties in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// From the text of a JSON value.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
