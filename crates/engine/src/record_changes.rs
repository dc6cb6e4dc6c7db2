//! Creates databases, and changes their records.

use std::sync::PoisonError;

use cluster_state::RecordDraft;
use database::{Decision, NewDatabase, WrittenRecord};
use model::{DatabaseRecord, RecordConfiguration};
use wire::RecordBody;

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// Creates a database. Its files begin in empty directories, or in those that a deleted
    /// database of its name has left. Blocks.
    ///
    /// # Errors
    /// The database exists, or a deletion of its name is unfinished; its directories are not empty, or are those of
    /// another database; the record cannot be written.
    pub fn create_database(&self, new: NewDatabase) -> Result<WrittenRecord, EngineError> {
        // Locks on names do not keep two databases from naming the same directory.
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, configuration) = (new.name.clone(), RecordConfiguration::new(&new.body));
        let settings = &wire::sections_of(&configuration).settings;
        self.check_named_directories(&name, settings)?;
        let adopts_files = || self.check_new_directories(&name, settings);
        let created = self.registry.create_checked(new, adopts_files)?;
        tracing::info!(database = name.as_str(), "a database was created");
        Ok(created)
    }

    /// Changes the body of a database's record, and has the open database follow it. `change` is
    /// called again with a newer body if another change came first. Blocks.
    ///
    /// # Errors
    /// The database does not exist ([`EngineError::DatabaseMissing`]); the record cannot be written.
    pub fn change_record_body(
        &self,
        name: &str,
        mut change: impl FnMut(&mut RecordBody),
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record_body(name, |_, body| {
            change(body);
            Ok::<_, EngineError>(Decision::Replace)
        })
    }

    /// Like [`Engine::change_record_body`], for a change that inspects the record and may refuse,
    /// or leave it unchanged.
    ///
    /// # Errors
    /// Those of `change`; the record stays as it is then.
    pub fn decide_record_body<E: From<EngineError>>(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordBody) -> Result<Decision, E>,
    ) -> Result<WrittenRecord, E> {
        self.decide_record(name, |record, draft| {
            let mut body = RecordBody::read(record.configuration.json());
            let decision = change(record, &mut body)?;
            draft.body = body.to_json();
            Ok(decision)
        })
    }

    /// The same for the whole record. Blocks.
    ///
    /// # Errors
    /// Those of `change`; the record stays as it is then. The database does not exist
    /// ([`EngineError::DatabaseMissing`]); the record cannot be written.
    pub fn decide_record<E: From<EngineError>>(
        &self,
        name: &str,
        mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Result<Decision, E>,
    ) -> Result<WrittenRecord, E> {
        let mut refusal = None;
        let written = self.registry.change_record(name, |record, draft| {
            change(record, draft).unwrap_or_else(|error| {
                refusal = Some(error);
                Decision::Keep
            })
        });
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let written = written.map_err(EngineError::from)?;
        written.ok_or_else(|| EngineError::DatabaseMissing { name: name.to_owned() }.into())
    }
}
