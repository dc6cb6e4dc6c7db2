//! Compare exchange values to include with documents: `include cmpxchg(path)` names a field that
//! contains a key, and scripts name keys.

use rql::{Expression, Literal};

use crate::error::QueryError;
use crate::exchange_value::is_exchange;
use crate::parameters::QueryContext;
use crate::planned_include::PlannedInclude;
use crate::projection::Projection;

impl<'a> QueryContext<'a> {
    /// The paths to keys of values that the query includes.
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
                // A parameter cannot name a field.
                Expression::Literal(Literal::Parameter(_)) => {}
                path => paths.push(self.include(path, projection)?),
            }
        }
        Ok(paths)
    }
}
