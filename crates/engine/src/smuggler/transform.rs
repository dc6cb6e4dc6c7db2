//! The script of an export or an import that changes documents, or leaves them out by `throw 'skip'`.
//!
//! It runs in the sandbox of patches, without a host: it sees one document and nothing else. Revisions are not
//! transformed, as in RavenDB. Invariant: the id, the version and the time of a document stay.

use std::{rc::Rc, time::Duration};

use blittable::BlittableBuf;
use model::{ChangeVector, DocumentId};
use script::{
    Budget, DocumentInfo, NoHost, PatchScript, PatchText, ScriptDocument, ScriptError, ScriptPool,
};
use wire::SmugglerOptions;

use crate::{engine::Engine, error::EngineError};

/// What a script throws to leave a document out.
const SKIP: &str = "skip";
/// How long a script may run for one document: the thread that reads or writes the dump waits for it.
const TIME_MAX: Duration = Duration::from_secs(1);

/// A script that is ready to run.
pub(super) struct Transform {
    script: PatchScript,
    scripts: ScriptPool,
    budget: Budget,
}

/// What a script made of a document.
pub(super) enum Transformed {
    /// It is as it was.
    Same,
    /// It has another content.
    Changed(BlittableBuf),
    /// It is left out.
    Skipped,
}

impl Engine {
    /// Checks the script in the options of an export or an import.
    ///
    /// # Errors
    /// It is not JavaScript.
    pub fn check_transform_script(&self, options: &SmugglerOptions) -> Result<(), EngineError> {
        Transform::of(self, options).map(drop)
    }
}

impl Transform {
    /// The script in the options, if there is one.
    pub(super) fn of(
        engine: &Engine,
        options: &SmugglerOptions,
    ) -> Result<Option<Transform>, EngineError> {
        let Some(text) = &options.transform_script else { return Ok(None) };
        let scripts = engine.scripts().clone();
        let compiled = PatchScript::compile(&scripts.engine(), &PatchText::of(text.as_str()));
        let script = compiled.map_err(|error| EngineError::Refused {
            message: format!("Incorrect transform script: {error}"),
        })?;
        let steps_max = options.transform_steps_max.unwrap_or(Budget::default().steps_max);
        let document_bytes_max = engine.settings().documents.document_bytes_max;
        let budget = Budget { steps_max, time_max: TIME_MAX, result_bytes_max: document_bytes_max };
        Ok(Some(Transform { script, scripts, budget }))
    }

    /// Runs the script on a document, whose metadata is in its body.
    pub(super) fn run(
        &self,
        id: &DocumentId,
        change_vector: Option<&ChangeVector>,
        last_modified_ticks: Option<i64>,
        body: &BlittableBuf,
    ) -> Result<Transformed, String> {
        let info = DocumentInfo {
            id: Rc::from(id.as_str()),
            change_vector: Rc::from(change_vector.map_or("", ChangeVector::as_str)),
            last_modified_ticks: last_modified_ticks.unwrap_or(0),
        };
        let document = ScriptDocument::new(body.clone(), info);
        let engine = self.scripts.engine();
        match self.script.run(&engine, &document, None, self.budget, &mut NoHost) {
            Ok(patched) => Ok(match patched.document {
                Some(changed) => Transformed::Changed(changed),
                None => Transformed::Same,
            }),
            Err(ScriptError::Runtime { message, .. }) if is_skip(&message) => {
                Ok(Transformed::Skipped)
            }
            Err(error) => Err(format!("the transform script failed: {error}")),
        }
    }
}

/// A thrown value is shown as its text, that of an error with its name before it.
fn is_skip(message: &str) -> bool {
    let thrown = message.split_once(": ").filter(|(name, _)| name.ends_with("Error"));
    thrown.map_or(message, |(_, text)| text) == SKIP
}

#[cfg(test)]
mod tests {
    use super::is_skip;

    #[test]
    fn only_skip_itself_leaves_a_document_out() {
        let skipping = ["skip", "Error: skip"];
        let failing = ["Error: status: skip", "status: skip", "Error: skipped", "skip it"];
        assert!(skipping.into_iter().all(is_skip));
        assert!(!failing.into_iter().any(is_skip));
    }
}
