//! Values of compare exchange to give along with documents: `include cmpxchg(path)` names a field that
//! holds a key, and scripts name keys.

use std::collections::HashSet;

use blittable::{Corrupt, Object};
use model::lower_case;
use rql::{Expression, Literal};

use crate::error::QueryError;
use crate::exchange_value::is_exchange;
use crate::include_path::IncludePath;
use crate::parameters::Asked;
use crate::planned_include::PlannedInclude;
use crate::projection::Projection;

/// How many values one answer may give along; further ones are left out.
const VALUES_MAX: usize = 1 << 17;

/// The keys of values to give along, each once in any case, in the order in which they were met.
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

    /// The keys as they were met first.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }
}

impl<'a> Asked<'a> {
    /// The paths to keys of values that the query gives along.
    pub(crate) fn value_includes(
        &self,
        projection: Option<&Projection>,
    ) -> Result<Vec<PlannedInclude>, QueryError> {
        let mut paths = Vec::new();
        for item in self.query.include.iter().filter(|item| is_exchange(item)) {
            let Expression::Method(call) = item else { continue };
            let [argument] = call.arguments.as_slice() else {
                let message = "Method 'cmpxchg()' expects one argument to be provided";
                return Err(self.invalid(message));
            };
            match argument {
                // No field is found by a parameter.
                Expression::Literal(Literal::Parameter(_)) => {}
                path => paths.push(self.include(path, projection)?),
            }
        }
        Ok(paths)
    }
}
