//! The keys of the compare exchange values that a response includes.

use std::collections::HashSet;

use blittable::{Corrupt, Object};
use model::lower_case;

use crate::include_path::IncludePath;

/// Maximum number of values that one response includes; further ones are omitted.
const VALUES_MAX: usize = 1 << 17;

/// The keys of included values, each once (case-insensitively), in the order in which they were
/// first encountered.
#[derive(Clone, Debug, Default)]
pub struct IncludedValues {
    keys: Vec<String>,
    met: HashSet<String>,
}

impl IncludedValues {
    /// Adds the keys that a path finds.
    ///
    /// # Errors
    /// When the document is damaged.
    pub fn add_found(&mut self, path: &IncludePath, row: Object<'_>) -> Result<(), Corrupt> {
        path.ids(row, &mut |key| self.add(key))
    }

    pub(crate) fn add(&mut self, key: &str) {
        if self.keys.len() < VALUES_MAX && self.met.insert(lower_case(key).into_owned()) {
            self.keys.push(key.to_owned());
        }
    }

    /// The keys as first encountered.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }
}
