//! Resolving conflicts: by content that is the same, by the cluster-wide transaction, and as the configuration of a database
//! says, by the scripts of collections or by the latest version.
//!
//! One node resolves them, so that scripts decide once: the one that is responsible for the database. Its decision is a
//! version that knows all others, and replicates as any other does.

use std::collections::BTreeSet;

use commands::{Batch, Command};
use database::{Database, DatabaseLease, WrittenRecord};
use documents::{
    ConflictResolution, ConflictRow, DocumentError,
    log::{EntryKind, LogEntry, Selection},
};
use model::{ChangeVector, DatabaseRecord, DocumentId, Etag};
use script::{Budget, NoHost, PatchScript, PatchText, ScriptDocument, ScriptValue};
use serde_json::{Map, Value};
use storage::Transaction;
use wire::{ConflictSolver, RecordBody, SectionKind, read_conflict_solver};

use crate::{engine::Engine, error::EngineError};

/// Versions in conflict that are looked at in one turn.
const TURN_MAX: usize = 256;
/// What a script returns to have the document deleted.
const TOMBSTONE: &str = "RESOLVE_TO_TOMBSTONE";

/// How conflicts of a database are resolved.
pub fn conflict_solver(record: &DatabaseRecord) -> ConflictSolver {
    let body = RecordBody::of_record(record);
    ConflictSolver::of_section(body.section(SectionKind::ConflictSolver))
}

impl Engine {
    /// Sets how conflicts of a database are resolved, and resolves those that there are; `sent` is what a client sent.
    /// Blocks.
    ///
    /// # Errors
    /// It cannot be read; the database does not exist; the record cannot be written.
    pub fn configure_conflicts(
        &self,
        database: &str,
        sent: &Map<String, Value>,
    ) -> Result<WrittenRecord, EngineError> {
        let now = model::date::format(self.clock().now().ticks());
        let section = read_conflict_solver(sent, &now)?;
        self.configure(database, &[section])
    }

    /// Resolves conflicts of open databases. To be called about once a second. Blocks.
    pub fn resolve_conflicts(&self) {
        for record in self.records() {
            if !self.is_responsible_for(&record) {
                continue;
            }
            let Some(database) = self.if_open(record.name.as_str()) else { continue };
            if let Err(error) = self.resolve_conflicts_of(&database, &conflict_solver(&record)) {
                let database = record.name.as_str();
                tracing::warn!(database, %error, "conflicts could not be resolved");
            }
        }
    }

    /// Resolves conflicts of a database that has just received something, if this node is to.
    pub(crate) fn resolve_received(&self, database: &DatabaseLease) {
        let record = database.record();
        if !self.is_responsible_for(&record) {
            return;
        }
        if let Err(error) = self.resolve_conflicts_of(database, &conflict_solver(&record)) {
            let database = record.name.as_str();
            tracing::debug!(database, %error, "conflicts are resolved later");
        }
    }

    fn resolve_conflicts_of(
        &self,
        database: &DatabaseLease,
        solver: &ConflictSolver,
    ) -> Result<(), EngineError> {
        let record = database.record();
        let mut until = self.conflict_looks.looked_until(record.topology_id, record.etag);
        loop {
            let conflicted = conflicted_after(database, until)?;
            let Some((last, _)) = conflicted.last() else { return Ok(()) };
            let last = *last;
            let ids: BTreeSet<String> = conflicted.into_iter().map(|(_, id)| id).collect();
            for id in ids {
                let id = DocumentId::new(id).map_err(DocumentError::from)?;
                self.resolve_conflict(database, &id, solver)?;
            }
            until = last;
            self.conflict_looks.note(record.topology_id, until, record.etag);
        }
    }

    /// Resolves the conflict of a document, if it is decided. If another version arrives meanwhile, that is looked at later.
    fn resolve_conflict(
        &self,
        database: &DatabaseLease,
        id: &DocumentId,
        solver: &ConflictSolver,
    ) -> Result<(), EngineError> {
        if let Some((versions, resolution)) = self.decide_conflict(database, id, solver)? {
            let command = Command::ResolveConflict { id: id.clone(), versions, resolution };
            self.execute(database, Batch::one(command))?;
        }
        Ok(())
    }

    fn decide_conflict(
        &self,
        database: &Database,
        id: &DocumentId,
        solver: &ConflictSolver,
    ) -> Result<Option<(Vec<String>, ConflictResolution)>, EngineError> {
        let tx = database.read();
        let versions = documents::conflicts_of(&tx, id)?;
        let vectors = versions.iter().map(|row| row.change_vector().to_owned()).collect();
        if !versions.is_empty() && have_same_content(&versions) {
            return Ok(Some((vectors, ConflictResolution::Same)));
        }
        if is_decided_by_transaction(&versions) {
            return Ok(Some((vectors, ConflictResolution::Latest)));
        }
        let script = script_for(&tx, &versions, solver)?;
        let by_script = match script {
            Some(script) => self.run_solver(&versions, script)?,
            None => None,
        };
        let latest = solver.resolves_to_latest.then_some(ConflictResolution::Latest);
        Ok(by_script.or(latest).filter(|_| !versions.is_empty()).map(|decided| (vectors, decided)))
    }

    /// Runs the script of a collection; `None` if it does not decide.
    fn run_solver(
        &self,
        versions: &[ConflictRow<'_>],
        script: &str,
    ) -> Result<Option<ConflictResolution>, EngineError> {
        let text = format!(
            "const docs = Array.from(this.docs); const hasTombstone = this.hasTombstone; \
             const resolveToTombstone = '{TOMBSTONE}';\n{script}"
        );
        let given = given_to_script(versions)?;
        let engine = self.scripts().engine();
        let given = ScriptDocument::unstored(given);
        let run = PatchScript::compile(&engine, &PatchText::of(text)).and_then(|script| {
            let run = script.run(&engine, &given, None, Budget::default(), &mut NoHost);
            script.forget(&engine);
            run
        });
        let returned = match run {
            Ok(patched) => patched.returned,
            Err(error) => {
                // The configuration may have the latest version decide; otherwise somebody has to.
                tracing::debug!(%error, "a script that resolves conflicts failed");
                return Ok(None);
            }
        };
        if returned.as_str() == Some(TOMBSTONE) {
            return Ok(Some(ConflictResolution::Deletion));
        }
        let is_object = matches!(returned, ScriptValue::Object(_) | ScriptValue::Stored(_));
        match returned.to_document() {
            Ok(Some(document)) if is_object => {
                Ok(Some(ConflictResolution::Document(Box::new(document))))
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

/// Some versions in conflict after an etag, with the ids of their documents.
fn conflicted_after(
    database: &Database,
    after: Etag,
) -> Result<Vec<(Etag, String)>, DocumentError> {
    let tx = database.read();
    let versions = documents::log::read(&tx, &[Selection::all(EntryKind::Conflict)], after)?;
    let versions = versions.filter_map(|entry| match entry {
        Ok(LogEntry::Conflict(row)) => Some(Ok((row.etag(), row.id().to_owned()))),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    versions.take(TURN_MAX).collect()
}

fn have_same_content(versions: &[ConflictRow<'_>]) -> bool {
    versions.windows(2).all(|pair| documents::has_same_content(pair[0].body(), pair[1].body()))
}

/// Whether one version is of a later cluster-wide transaction than all others: it is above everything else.
fn is_decided_by_transaction(versions: &[ConflictRow<'_>]) -> bool {
    let transaction = |row: &ConflictRow<'_>| {
        row.change_vector().parse().map_or(0, |vector: ChangeVector| vector.transaction_number())
    };
    let mut transactions: Vec<u64> = versions.iter().map(transaction).collect();
    transactions.sort_unstable();
    match transactions.as_slice() {
        [.., second, last] => second < last,
        _ => false,
    }
}

/// The script of the first collection among those of the versions that has one.
fn script_for<'s>(
    tx: &impl Transaction,
    versions: &[ConflictRow<'_>],
    solver: &'s ConflictSolver,
) -> Result<Option<&'s str>, DocumentError> {
    for version in versions {
        let collection = documents::collection_numbered(tx, version.collection_number())?;
        if let Some(script) = solver.scripts.get(&collection.name.as_str().to_lowercase()) {
            return Ok(Some(script));
        }
    }
    Ok(None)
}

/// What a script sees: the versions that are documents, and whether there is one that is a deletion.
fn given_to_script(versions: &[ConflictRow<'_>]) -> Result<blittable::BlittableBuf, EngineError> {
    let mut json = b"{\"docs\":[".to_vec();
    for (place, body) in versions.iter().filter_map(ConflictRow::body).enumerate() {
        if 0 < place {
            json.push(b',');
        }
        body.write_json(&mut json).map_err(DocumentError::from)?;
    }
    let has_tombstone = versions.iter().any(|version| version.body().is_none());
    json.extend_from_slice(format!("],\"hasTombstone\":{has_tombstone}}}").as_bytes());
    blittable::parse_document(&json, &blittable::ParseLimits::default()).map_err(|error| {
        EngineError::Internal { what: format!("versions in conflict are no JSON: {error}") }
    })
}
