//! Writing the documents of pending keys.

use std::{collections::BTreeMap, sync::Arc};

use blittable::Document;
use documents::{DocumentError, OutputChange, OutputReferences, OutputWritten};
use model::CollectionName;
use search::IndexReader;
use storage::{Environment, ReadTransaction};

use super::{
    OutputError, OutputQueue,
    format::{self, KeyOutputs, Reference},
    target::{KeyPlan, OutputTarget, document_id},
};
use crate::{
    error::IndexError,
    index_record::{self, IndexingAction, IndexingError},
    reduce::{RESULT_FIELD, ReduceKey},
};

/// The maximum number of keys that are settled together …
const KEYS_MAX: usize = 1024;
/// … and the approximate bytes of their documents.
const BYTES_MAX: usize = 4 << 20;

/// Updates the documents of some pending keys. `false` when none are pending.
pub(crate) fn settle(
    environment: &Arc<Environment>,
    target: &OutputTarget,
    queue: &dyn OutputQueue,
    now_ticks: i64,
) -> Result<bool, IndexError> {
    let mut settling = Settling { target, queue, failures: Vec::new() };
    let tx = environment.read();
    let plans = settling.plans(&tx)?;
    drop(tx);
    if plans.is_empty() {
        return Ok(false);
    }
    let written = settling.write(&plans)?;
    let mut tx = environment.write()?;
    for (plan, is_written) in plans.iter().zip(written) {
        if is_written {
            format::write_outputs(&mut tx, plan.plan.key, &plan.outputs())?;
        }
        format::clear_pending(&mut tx, plan.plan.key)?;
    }
    for message in settling.failures {
        let (action, document) = (IndexingAction::Reduce, String::new());
        let error = IndexingError { ticks: now_ticks, action, document, message };
        index_record::add_error(&mut tx, &error)?;
    }
    tx.commit()?;
    Ok(true)
}

struct Settling<'a> {
    target: &'a OutputTarget,
    queue: &'a dyn OutputQueue,
    /// Failures to report to the user.
    failures: Vec<String>,
}

/// A key, and what may already be written for it.
struct PendingPlan {
    plan: KeyPlan,
    before: KeyOutputs,
}

impl PendingPlan {
    fn outputs(&self) -> KeyOutputs {
        let count = u32::try_from(self.plan.bodies.len()).unwrap_or(u32::MAX);
        KeyOutputs { count, references: self.plan.references.clone() }
    }
}

impl Settling<'_> {
    fn plans(&mut self, tx: &ReadTransaction) -> Result<Vec<PendingPlan>, IndexError> {
        let (mut plans, mut bytes) = (Vec::new(), 0);
        for key in format::pending_keys(tx, KEYS_MAX)? {
            let plan = self.plan(tx, key)?;
            bytes += plan.bodies.iter().map(|body| body.as_bytes().len()).sum::<usize>();
            plans.push(PendingPlan { plan, before: format::outputs(tx, key)? });
            if BYTES_MAX < bytes {
                break;
            }
        }
        Ok(plans)
    }

    /// The documents for the results of a key.
    fn plan(&mut self, tx: &ReadTransaction, key: ReduceKey) -> Result<KeyPlan, IndexError> {
        let reader = IndexReader::open(tx)?;
        let mut results = Vec::new();
        if let Some(field) = reader.field(RESULT_FIELD)? {
            for entry in reader.entries_of(&key.name())? {
                let stored = reader.stored(entry)?.map(|stored| stored.get(field)).transpose()?;
                if let Some(result) = stored.flatten() {
                    results.push(Document::new(result).map_err(DocumentError::from)?);
                }
            }
        }
        // The reason was reported when the result was new.
        let references = self.target.outputs_of(&results, |_| ())?.references;
        let bodies: Result<Vec<_>, _> = results.iter().map(|one| self.target.body(one)).collect();
        Ok(match bodies {
            Ok(bodies) => KeyPlan { key, bodies, references },
            Err(message) => {
                self.failures.push(message);
                KeyPlan { key, bodies: Vec::new(), references: Vec::new() }
            }
        })
    }

    /// Writes the documents of these keys, in one transaction if possible; returns for each key
    /// whether its documents were written.
    fn write(&mut self, plans: &[PendingPlan]) -> Result<Vec<bool>, IndexError> {
        if self.commit(plans)?.is_ok() {
            return Ok(vec![true; plans.len()]);
        }
        plans
            .iter()
            .map(|plan| match self.commit(std::slice::from_ref(plan))? {
                Ok(()) => Ok(true),
                Err(message) => {
                    self.failures.push(message);
                    Ok(false)
                }
            })
            .collect()
    }

    /// The inner error says why one of the keys cannot be written.
    fn commit(&mut self, plans: &[PendingPlan]) -> Result<Result<(), String>, IndexError> {
        let changes = match self.changes_of(plans) {
            Ok(changes) => changes,
            Err(message) => return Ok(Err(message)),
        };
        let ids: Vec<_> = changes.iter().map(|change| change.id().clone()).collect();
        let written = match self.queue.commit(changes) {
            Ok(written) => written,
            Err(OutputError::Refused { message }) => return Ok(Err(message)),
            Err(OutputError::Later { message }) => return Err(IndexError::Output { message }),
        };
        for (id, written) in ids.iter().zip(written) {
            if written == OutputWritten::InTheWay {
                let message = format!(
                    "The document '{id}' was not written by an index; it stays as it is, and the \
                     output of the reduce that belongs in its place is left out"
                );
                self.failures.push(message);
            }
        }
        Ok(Ok(()))
    }

    fn changes_of(&self, plans: &[PendingPlan]) -> Result<Vec<OutputChange>, String> {
        let mut changes = Vec::new();
        let mut referring = BTreeMap::new();
        for PendingPlan { plan, before } in plans {
            let count = u32::try_from(plan.bodies.len()).unwrap_or(u32::MAX);
            for (place, body) in (0..count).zip(&plan.bodies) {
                let id = document_id(&self.target.id(plan.key, place))?;
                changes.push(OutputChange::Put { id, body: body.clone() });
            }
            for place in count..before.count {
                let id = document_id(&self.target.id(plan.key, place))?;
                changes.push(OutputChange::Delete { id });
            }
            let gone = before.references.iter().filter(|known| !plan.references.contains(known));
            for (reference, is_there) in
                gone.map(|gone| (gone, false)).chain(plan.references.iter().map(|now| (now, true)))
            {
                self.refer(plan.key, reference, is_there, &mut referring)?;
            }
        }
        changes.extend(referring.into_values().map(OutputChange::Refer));
        Ok(changes)
    }

    /// Adds a reference to the changes of the referring document.
    fn refer(
        &self,
        key: ReduceKey,
        reference: &Reference,
        is_there: bool,
        referring: &mut BTreeMap<String, OutputReferences>,
    ) -> Result<(), String> {
        let id = document_id(&reference.id)?;
        let of_document = referring.entry(id.lower_cased().to_owned());
        let of_document = of_document.or_insert_with(|| OutputReferences {
            id,
            collection: self.target.references().cloned().unwrap_or_else(CollectionName::empty),
            removed: Vec::new(),
            added: Vec::new(),
        });
        let output = self.target.id(key, reference.place);
        match is_there {
            true => of_document.added.push(output),
            false => of_document.removed.push(output),
        }
        Ok(())
    }
}
