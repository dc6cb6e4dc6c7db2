//! Changes of the records of databases.

use cluster_state::DatabaseRecord;
use database::{Decision, WrittenRecord};
use wire::RecordBody;

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// Changes the body of a database's record, and has the open database follow it; `None` when the database
    /// does not exist. `change` is called again with a newer body if another change came first. Blocks.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn change_record_body(
        &self,
        name: &str,
        mut change: impl FnMut(&mut RecordBody),
    ) -> Result<Option<WrittenRecord>, EngineError> {
        self.decide_record_body(name, |_, body| {
            change(body);
            Ok(Decision::Replace)
        })
    }

    /// As [`Engine::change_record_body`], for a change that looks at the record and may refuse, or leave it as it
    /// is.
    ///
    /// # Errors
    /// Those of `change`; the record stays as it is then.
    pub fn decide_record_body(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordBody) -> Result<Decision, EngineError>,
    ) -> Result<Option<WrittenRecord>, EngineError> {
        let mut refusal = None;
        let written = self.registry.change_record(name, |record, draft| {
            let mut body = RecordBody::read(&record.body);
            match change(record, &mut body) {
                Ok(decision) => {
                    draft.body = body.to_json();
                    decision
                }
                Err(error) => {
                    refusal = Some(error);
                    Decision::Keep
                }
            }
        });
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(written?),
        }
    }
}
