//! Deletes unknown outputs: those of an earlier definition, and those of keys that were lost
//! because the index was rebuilt.
//!
//! An output's id and the index's records determine whether it is deleted, so an interrupted sweep
//! starts over. It runs when nothing else is pending.

use std::{collections::HashMap, sync::Arc};

use documents::{
    DocumentRow, OutputChange, OutputReferences, REDUCE_OUTPUTS, is_output,
    log::{self, EntryKinds, LogEntry, Selection},
};
use model::{CollectionName, DocumentId, Etag};
use storage::{Environment, ReadTransaction};

use super::{
    OutputError, OutputQueue,
    format::{self, KeyOutputs, Sweep},
    output_id::OutputId,
};
use crate::{error::IndexError, reduce::ReduceKey};

/// The number of documents that are read at once.
const DOCUMENTS_TAKEN: usize = 1024;

/// Where a sweep continues.
pub(crate) struct SweepPlace {
    number: u64,
    stage: Stage,
}

enum Stage {
    /// After this id.
    Outputs { after: String },
    /// Among the referring documents, after the first etag, up to the last.
    References { after: Etag, last: Etag },
}

/// The part of the log that has documents that reference outputs.
fn of_references(collection: &CollectionName) -> Selection<'_> {
    Selection::of_collection(EntryKinds::DOCUMENTS, collection)
}

/// Reads some documents, and deletes unknown ones. `false` when no sweep is scheduled.
pub(crate) fn sweep(
    environment: &Arc<Environment>,
    documents: &ReadTransaction,
    queue: &dyn OutputQueue,
    place: &mut Option<SweepPlace>,
) -> Result<bool, IndexError> {
    let known = environment.read();
    let Some((number, sweep)) = format::sweeps(&known)?.into_iter().next() else {
        *place = None;
        return Ok(false);
    };
    let stage = match place.take() {
        Some(place) if place.number == number => place.stage,
        Some(_) | None => Stage::Outputs { after: String::new() },
    };
    let mut sweeping = Sweeping { sweep, known, outputs: HashMap::new() };
    let (changes, next) = match stage {
        Stage::Outputs { after } => sweeping.outputs_behind(documents, &after)?,
        Stage::References { after, last } => sweeping.references_behind(documents, after, last)?,
    };
    if !changes.is_empty() {
        queue.commit(changes).map_err(|error| match error {
            OutputError::Refused { message } | OutputError::Later { message } => {
                IndexError::Output { message }
            }
        })?;
    }
    drop(sweeping);
    match next {
        Some(stage) => *place = Some(SweepPlace { number, stage }),
        None => {
            let mut tx = environment.write()?;
            format::end_sweep(&mut tx, number)?;
            tx.commit()?;
        }
    }
    Ok(true)
}

/// The changes, and where to continue.
type Step = (Vec<OutputChange>, Option<Stage>);

struct Sweeping {
    sweep: Sweep,
    known: ReadTransaction,
    /// By key, of those that were looked up.
    outputs: HashMap<ReduceKey, KeyOutputs>,
}

impl Sweeping {
    fn outputs_behind(
        &mut self,
        documents: &ReadTransaction,
        after: &str,
    ) -> Result<Step, IndexError> {
        let prefix = format!("{}/", self.sweep.collection);
        let (mut changes, mut last, mut count) = (Vec::new(), None, 0);
        let after = Some(after).filter(|after| !after.is_empty());
        for document in documents::by_prefix(documents, &prefix, after)?.take(DOCUMENTS_TAKEN) {
            let document = document?;
            (last, count) = (Some(document.lower_id().to_owned()), count + 1);
            if is_output(&document)
                && self.is_of(&self.sweep.collection, &document)?
                && let Some(id) = OutputId::parse(document.id(), &self.sweep.collection)
                && self.goes(id, |outputs| id.place < outputs.count)?
            {
                let id = DocumentId::new(document.id()).map_err(documents::DocumentError::from)?;
                changes.push(OutputChange::Delete { id });
            }
        }
        let next = match last.filter(|_| count == DOCUMENTS_TAKEN) {
            Some(after) => Some(Stage::Outputs { after }),
            None => self.first_of_references(documents)?,
        };
        Ok((changes, next))
    }

    fn first_of_references(
        &self,
        documents: &ReadTransaction,
    ) -> Result<Option<Stage>, IndexError> {
        let Some(references) = &self.sweep.references else { return Ok(None) };
        let last = log::last_etag(documents, &[of_references(references)])?;
        Ok(Some(Stage::References { after: Etag::ZERO, last }))
    }

    fn references_behind(
        &mut self,
        documents: &ReadTransaction,
        after: Etag,
        last: Etag,
    ) -> Result<Step, IndexError> {
        let Some(collection) = self.sweep.references.clone() else {
            return Ok((Vec::new(), None));
        };
        let mut changes = Vec::new();
        let mut taken = 0;
        for entry in log::read(documents, &[of_references(&collection)], after)? {
            let entry = entry?;
            taken += 1;
            let etag = entry.etag();
            if let LogEntry::Document(document) = &entry
                && is_output(document)
            {
                let removed = self.unknown_in(document)?;
                if !removed.is_empty() {
                    let id =
                        DocumentId::new(document.id()).map_err(documents::DocumentError::from)?;
                    let (collection, added) = (collection.clone(), Vec::new());
                    let references = OutputReferences { id, collection, removed, added };
                    changes.push(OutputChange::Refer(references));
                }
            }
            // Documents written from now on are known to their index.
            if last <= etag {
                break;
            }
            if taken == DOCUMENTS_TAKEN {
                return Ok((changes, Some(Stage::References { after: etag, last })));
            }
        }
        Ok((changes, None))
    }

    /// The outputs that a document references although it should not.
    fn unknown_in(&mut self, document: &DocumentRow<'_>) -> Result<Vec<String>, IndexError> {
        let mut unknown = Vec::new();
        let root = document.body()?.root();
        let Some(listed) =
            root.get_array(REDUCE_OUTPUTS).map_err(documents::DocumentError::from)?
        else {
            return Ok(unknown);
        };
        for output in listed.iter() {
            let output = output.map_err(documents::DocumentError::from)?;
            let Some(text) = output.as_text() else { continue };
            let text = text.as_cow().map_err(documents::DocumentError::from)?;
            let is_noted = |outputs: &KeyOutputs, place: u32| {
                let mut references = outputs.references.iter();
                references.any(|known| {
                    known.place == place && known.id.eq_ignore_ascii_case(document.id())
                })
            };
            if let Some(id) = OutputId::parse(&text, &self.sweep.collection)
                && self.goes(id, |outputs| is_noted(outputs, id.place))?
            {
                unknown.push(text.into_owned());
            }
        }
        Ok(unknown)
    }

    fn is_of(
        &self,
        collection: &CollectionName,
        document: &DocumentRow<'_>,
    ) -> Result<bool, IndexError> {
        Ok(document.collection()?.eq_ignore_ascii_case(collection.as_str()))
    }

    /// Whether an output is deleted: those of an earlier definition are, those of this one if they
    /// are not recorded.
    fn goes(
        &mut self,
        id: OutputId,
        is_noted: impl Fn(&KeyOutputs) -> bool,
    ) -> Result<bool, IndexError> {
        if id.number != self.sweep.number {
            return Ok(id.number < self.sweep.number);
        }
        if !self.outputs.contains_key(&id.key) {
            self.outputs.insert(id.key, format::outputs(&self.known, id.key)?);
        }
        Ok(!self.outputs.get(&id.key).is_some_and(is_noted))
    }
}
