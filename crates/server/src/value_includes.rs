//! Values of compare exchange, given along with documents: `CompareExchangeValueIncludes`.

use std::collections::HashSet;

use blittable::write_json_string;
use cluster::ClusterState;
use documents::DocumentRow;
use model::{DatabaseId, lower_case};
use query::IncludePath;
use wire::{ProtocolError, QueryString};

use crate::{
    error_mapping::{cluster_error, document_error},
    handlers::compare_exchange::write_include,
};

/// How many values one load may include.
const VALUES_MAX: usize = 1 << 17;

/// What a load wants to know of compare exchange, as it is at one moment.
pub(crate) struct ValueIncludes {
    paths: Vec<IncludePath>,
    state: ClusterState,
    database: DatabaseId,
}

impl ValueIncludes {
    /// What the parameters of a load ask for; `None` when they ask for nothing.
    pub(crate) fn of_query(
        query: &QueryString<'_>,
        state: impl FnOnce() -> ClusterState,
        database: DatabaseId,
    ) -> Option<Self> {
        let paths = query.all("cmpxchg").filter(|path| !path.is_empty());
        let paths: Vec<IncludePath> = paths.map(IncludePath::parse).collect();
        (!paths.is_empty()).then(|| Self { paths, state: state(), database })
    }

    /// The keys that the documents hold, each once.
    pub(crate) fn keys(
        &self,
        rows: &[Option<DocumentRow<'_>>],
    ) -> Result<Vec<String>, ProtocolError> {
        let mut seen = HashSet::new();
        let mut keys = Vec::new();
        for row in rows.iter().flatten() {
            let root = row.body().map_err(|error| document_error(&error))?.root();
            for path in &self.paths {
                path.ids(root, &mut |key| {
                    if keys.len() < VALUES_MAX && seen.insert(lower_case(key).into_owned()) {
                        keys.push(key.to_owned());
                    }
                })
                .map_err(|error| document_error(&error.into()))?;
            }
        }
        Ok(keys)
    }

    /// The version of each value, so that an answer that shows others has another tag.
    pub(crate) fn versions(&self, keys: &[String]) -> Result<Vec<Option<u64>>, ProtocolError> {
        let version = |key: &String| {
            let found = self.state.compare_exchange(self.database, key);
            Ok(found.map_err(|error| cluster_error(&error))?.map(|entry| entry.index))
        };
        keys.iter().map(version).collect()
    }

    /// Writes the values as the last property of the object that `out` ends with.
    pub(crate) fn write_behind(
        &self,
        rows: &[Option<DocumentRow<'_>>],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let keys = self.keys(rows)?;
        if keys.is_empty() {
            return Ok(());
        }
        out.pop();
        out.extend_from_slice(b",\"CompareExchangeValueIncludes\":{");
        for (position, key) in keys.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            write_json_string(key, out);
            out.push(b':');
            let found = self.state.compare_exchange(self.database, key);
            let found = found.map_err(|error| cluster_error(&error))?;
            write_include(key, found.as_ref().map(|entry| (entry.index, &entry.value)), out)?;
        }
        out.extend_from_slice(b"}}");
        Ok(())
    }
}
