//! Compare exchange values included with documents: `CompareExchangeValueIncludes`.

use blittable::write_json_string;
use cluster_state::DatabaseValues;
use documents::{DocumentError, DocumentRow};
use query::{IncludePath, IncludedValues};
use wire::QueryString;

use crate::{answers::compare_exchange_text::write_include, api_error::ApiError};

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

    /// Writes the values as the last property of the object that `out` ends with.
    pub(crate) fn write_behind(
        &self,
        rows: &[Option<DocumentRow<'_>>],
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        write_behind(&self.included(rows)?, &self.values, out)
    }
}

/// Writes values as the last property of the object that `out` ends with; nothing when there are no keys.
pub(crate) fn write_behind(
    included: &IncludedValues,
    values: &DatabaseValues,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    if included.keys().is_empty() {
        return Ok(());
    }
    out.pop();
    out.extend_from_slice(b",\"CompareExchangeValueIncludes\":{");
    for (position, key) in included.keys().iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_json_string(key, out);
        out.push(b':');
        let found = values.get(key)?;
        write_include(key, found.as_ref().map(|entry| (entry.index, &entry.value)), out)?;
    }
    out.extend_from_slice(b"}}");
    Ok(())
}
