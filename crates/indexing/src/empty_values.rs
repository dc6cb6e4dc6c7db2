//! How a static index treats missing values, and entries without values.

use model::IndexDefinition;

const MISSING_AS_NULL: &str = "Indexing.IndexMissingFieldsAsNull";
const KEEPS_ENTRIES: &str = "Indexing.IndexEmptyEntries";

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EmptyValues {
    /// A missing value is indexed as `null`.
    pub(crate) missing_as_null: bool,
    /// A map that returns no value still creates an entry.
    pub(crate) keeps_entries: bool,
}

impl EmptyValues {
    /// The definition's own settings.
    pub(crate) fn of(definition: &IndexDefinition) -> Self {
        let is_on = |key: &str| {
            definition.configuration.iter().any(|(name, value)| {
                let value = value.as_deref().unwrap_or_default();
                name.eq_ignore_ascii_case(key) && value.eq_ignore_ascii_case("true")
            })
        };
        Self { missing_as_null: is_on(MISSING_AS_NULL), keeps_entries: is_on(KEEPS_ENTRIES) }
    }
}
