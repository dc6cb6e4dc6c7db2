//! Compare exchange values included with documents: `CompareExchangeValueIncludes`.

use cluster_state::DatabaseValues;
use documents::{DocumentError, DocumentRow};
use query::{IncludePath, IncludedValues};
use wire::QueryString;

use crate::{
    answers::{compare_exchange_text::write_include, json_text::JsonObject},
    api_error::ApiError,
};

/// The compare exchange values that a load includes, from one snapshot.
pub(crate) struct ValueIncludes {
    paths: Vec<IncludePath>,
    values: DatabaseValues,
}

impl ValueIncludes {
    /// What the parameters of a load request; `None` when they request nothing.
    pub(crate) fn of_query(
        query: &QueryString<'_>,
        values: impl FnOnce() -> DatabaseValues,
    ) -> Option<Self> {
        let paths = query.all("cmpxchg").filter(|path| !path.is_empty());
        let paths: Vec<IncludePath> = paths.map(IncludePath::parse).collect();
        (!paths.is_empty()).then(|| Self { paths, values: values() })
    }

    /// The keys in the documents, each once.
    fn included(&self, rows: &[Option<DocumentRow<'_>>]) -> Result<IncludedValues, ApiError> {
        let mut included = IncludedValues::default();
        for row in rows.iter().flatten() {
            let root = row.body()?.root();
            for path in &self.paths {
                let added = included.add_found(path, root);
                added.map_err(|error| ApiError::from(DocumentError::from(error)))?;
            }
        }
        Ok(included)
    }

    /// The version of each value, so that a response with other values has another tag.
    pub(crate) fn versions(
        &self,
        rows: &[Option<DocumentRow<'_>>],
    ) -> Result<Vec<Option<u64>>, ApiError> {
        let version = |key: &String| {
            let found = self.values.get(key)?;
            Ok(found.map(|entry| entry.index))
        };
        self.included(rows)?.keys().iter().map(version).collect()
    }

    /// Adds the values to a page.
    pub(crate) fn write(
        &self,
        rows: &[Option<DocumentRow<'_>>],
        page: &mut JsonObject<'_>,
    ) -> Result<(), ApiError> {
        write(&self.included(rows)?, &self.values, page)
    }
}

/// Adds values to a page; nothing when there are no keys.
pub(crate) fn write(
    included: &IncludedValues,
    values: &DatabaseValues,
    page: &mut JsonObject<'_>,
) -> Result<(), ApiError> {
    if included.keys().is_empty() {
        return Ok(());
    }
    let mut written = JsonObject::begin(page.name("CompareExchangeValueIncludes"));
    for key in included.keys() {
        let found = values.get(key)?;
        let value = found.as_ref().map(|entry| (entry.index, &entry.value));
        write_include(key, value, written.key(key))?;
    }
    written.end();
    Ok(())
}
