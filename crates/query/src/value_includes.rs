//! Values of compare exchange to give along with documents: `include cmpxchg(path)` names a field that
//! holds a key, and scripts name keys.

use rql::{Expression, Literal};

use crate::error::QueryError;
use crate::exchange_value::is_exchange;
use crate::parameters::Asked;
use crate::planned_include::PlannedInclude;
use crate::projection::Projection;

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
