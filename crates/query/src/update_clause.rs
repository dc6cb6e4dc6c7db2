//! `update { … }`: the patch that a query applies to each document that it selects.

use blittable::Object;
use rql::{PathStep, Query};
use script::{PatchLoad, PatchScript, PatchText, ScriptPool};

use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::row_script::functions_of;

/// Removes the script from a query that changes documents. The rest of the query selects them.
///
/// # Errors
///
/// [`QueryError::Invalid`] when the text is not a valid script, or loads from an unknown alias.
pub fn take_update(
    query: &mut Query,
    parameters: Option<Object<'_>>,
    pool: &ScriptPool,
) -> Result<PatchText, QueryError> {
    let patch = {
        let context = QueryContext::new(query, parameters);
        let patch = PatchText {
            alias: query.source.alias.clone(),
            declarations: functions_of(query).collect(),
            loads: context.patch_loads()?,
            text: query.update.clone().unwrap_or_default(),
        };
        let engine = pool.engine();
        let script = PatchScript::compile(&engine, &patch).map_err(|error| {
            context.invalid(format!("Update clause contains invalid script\n{error}"))
        })?;
        script.forget(&engine);
        patch
    };
    query.update = None;
    if query.filter.is_none() {
        // Only the script uses what is loaded.
        query.load.clear();
    }
    Ok(patch)
}

impl QueryContext<'_> {
    fn patch_loads(&self) -> Result<Vec<PatchLoad>, QueryError> {
        let mut known: Vec<&str> = self.query.source.alias.as_deref().into_iter().collect();
        let mut loads = Vec::with_capacity(self.query.load.len());
        for item in &self.query.load {
            let [PathStep::Name { name: from, .. }, rest @ ..] = item.path.steps.as_slice() else {
                continue;
            };
            if !known.contains(&from.as_str()) || rest.is_empty() {
                let message = format!("Unknown alias {from} in the LOAD clause");
                return Err(self.invalid(message));
            }
            loads.push(PatchLoad {
                name: item.alias.clone(),
                from: from.clone(),
                path: path_text(rest),
                many: item.many,
            });
            known.push(&item.alias);
        }
        Ok(loads)
    }
}

/// A path in script syntax.
fn path_text(steps: &[PathStep]) -> String {
    let mut text = String::new();
    for step in steps {
        let name = match step {
            PathStep::Each => {
                text.push_str("[]");
                continue;
            }
            PathStep::Index(index) => index.to_string(),
            PathStep::Name { name, .. } => name.clone(),
        };
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&name);
    }
    text
}
