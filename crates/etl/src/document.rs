//! The commands for one change of the log.
//!
//! A document is put under its id where it is loaded to the collection that it comes from. Everything else that is
//! loaded of it has an id that begins with its id and the lower-cased collection; whatever has such an id is deleted
//! first, so nothing remains of what an earlier version of the document loaded.

use std::{fmt, rc::Rc};

use blittable::{Object, Value, write_json, write_json_string};
use documents::{
    DocumentError, DocumentRow, TombstoneRow,
    log::LogEntry,
    time_series::{MOMENT_MAX, MomentRange},
};
use model::{CollectionName, DocumentId, Etag};
use script::{Budget, DocumentInfo, Engine, EtlScript, ScriptDocument, ScriptError, ScriptValue};
use storage::{MemoryExhausted, Transaction};

use crate::{
    additions::{self, Ids},
    command_list::CommandList,
    loads::{Load, Loads},
    outgoing::Outgoing,
    plan::{DELETES, Decision, Plan},
};

const METADATA: &str = "@metadata";
const COLLECTION: &str = "@collection";
/// What the metadata of a document says of it at the source.
const OF_SOURCE: [&str; 7] = [
    "@id",
    "@change-vector",
    "@last-modified",
    "@flags",
    "@attachments",
    "@counters",
    "@timeseries",
];

/// Why there are no commands for a change.
#[derive(Debug)]
pub(crate) enum TransformError {
    /// The database cannot be read.
    Documents(DocumentError),
    /// This document cannot be sent.
    Problem(String),
    /// There is no memory for it now.
    NoMemory(MemoryExhausted),
    /// The work is to end.
    Stopped,
}

impl<E: Into<DocumentError>> From<E> for TransformError {
    fn from(error: E) -> Self {
        TransformError::Documents(error.into())
    }
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransformError::Documents(error) => error.fmt(f),
            TransformError::Problem(message) => f.write_str(message),
            TransformError::NoMemory(exhausted) => exhausted.fmt(f),
            TransformError::Stopped => f.write_str("the work was stopped"),
        }
    }
}

fn problem(error: ScriptError) -> TransformError {
    TransformError::Problem(error.to_string())
}

/// Makes the commands for changes.
pub(crate) struct Transformer<'t, T> {
    pub(crate) tx: &'t T,
    pub(crate) plan: &'t Plan,
    pub(crate) engine: Rc<Engine>,
    /// Of a run for one document.
    pub(crate) budget: Budget,
    /// The node, which ends the ids of what is loaded.
    pub(crate) node_tag: &'t str,
    pub(crate) list: Outgoing<'t>,
    /// Kept only if somebody wants to see it.
    pub(crate) output: Option<Vec<String>>,
}

impl<T: Transaction> Transformer<'_, T> {
    /// Adds the commands for a change.
    pub(crate) fn send(&mut self, entry: &LogEntry<'_>) -> Result<(), TransformError> {
        let etag = entry.etag();
        match entry {
            LogEntry::Document(row) => {
                let collection = CollectionName::new(row.collection()?)?;
                if self.plan.reads(&collection) {
                    self.send_document(row, &collection)
                } else {
                    Ok(())
                }
            }
            // There are versions of it, and one of them, or another one, will be the document again.
            LogEntry::DocumentTombstone(row) if row.is_of_conflict() => Ok(()),
            LogEntry::DocumentTombstone(row) => self.send_tombstone(row),
            LogEntry::AttachmentTombstone(row) => {
                let Some(id) = self.put_before(row.lower_document_id(), etag)? else {
                    return Ok(());
                };
                let name = model::AttachmentName::new(row.lower_name());
                let exists = match &name {
                    Ok(name) => documents::attachment(self.tx, &id, name)?.is_some(),
                    Err(_) => false,
                };
                if !exists {
                    self.list.delete_attachment(id.as_str(), row.lower_name());
                }
                Ok(())
            }
            LogEntry::Counter(row) => {
                let Some(id) = self.sent_before(row.lower_document_id(), etag)? else {
                    return Ok(());
                };
                let ids = Ids { source: &id, destination: id.as_str() };
                match self.wants_counter(&id, row.name())? {
                    true => additions::put_counter(self.tx, ids, row.name(), &mut self.list),
                    false => Ok(()),
                }
            }
            LogEntry::CounterTombstone(row) => {
                let Some(id) = self.put_before(row.lower_document_id(), etag)? else {
                    return Ok(());
                };
                if self.wants_counter(&id, row.lower_name())? {
                    additions::delete_counter(id.as_str(), row.lower_name(), &mut self.list);
                }
                Ok(())
            }
            LogEntry::Segment(row) => {
                let Some(id) = self.sent_before(row.lower_document_id(), etag)? else {
                    return Ok(());
                };
                let ids = Ids { source: &id, destination: id.as_str() };
                let Some(wanted) = self.wanted_range(&id, row.name())? else { return Ok(()) };
                let range = MomentRange {
                    from: row.start_ms().max(wanted.from),
                    to: row.end_ms().min(wanted.to),
                };
                additions::put_series(self.tx, ids, row.name(), range, &mut self.list)
            }
            LogEntry::DeletedRange(row) => {
                let Some(id) = self.put_before(row.lower_document_id(), etag)? else {
                    return Ok(());
                };
                if self.wanted_range(&id, row.lower_name())?.is_some() {
                    additions::delete_range(id.as_str(), row, &mut self.list);
                }
                Ok(())
            }
            // No plan selects them.
            LogEntry::Revision(_) | LogEntry::Attachment(_) | LogEntry::Conflict(_) => Ok(()),
        }
    }

    /// The id of a document whose part changed, if it was sent before the change: one that comes later in the log is
    /// sent with all of its parts.
    fn sent_before(
        &self,
        lower_id: &str,
        etag: Etag,
    ) -> Result<Option<DocumentId>, TransformError> {
        let Some(row) = documents::get(self.tx, &DocumentId::new(lower_id)?)? else {
            return Ok(None);
        };
        if etag < row.etag() || !self.plan.reads(&CollectionName::new(row.collection()?)?) {
            return Ok(None);
        }
        Ok(Some(DocumentId::new(row.id())?))
    }

    /// The id of a document of which a part was deleted. The destination must have it before that, so one that comes
    /// later in the log is put now, too.
    fn put_before(
        &mut self,
        lower_id: &str,
        etag: Etag,
    ) -> Result<Option<DocumentId>, TransformError> {
        let Some(row) = documents::get(self.tx, &DocumentId::new(lower_id)?)? else {
            return Ok(None);
        };
        let collection = CollectionName::new(row.collection()?)?;
        if !self.plan.reads(&collection) {
            return Ok(None);
        }
        if etag < row.etag() {
            self.send_document(&row, &collection)?;
        }
        Ok(Some(DocumentId::new(row.id())?))
    }

    fn send_document(
        &mut self,
        row: &DocumentRow<'_>,
        collection: &CollectionName,
    ) -> Result<(), TransformError> {
        let plan = self.plan;
        if let Some(script) = plan.script() {
            return self.run_script(script, row, collection);
        }
        let id = DocumentId::new(row.id())?;
        put(row.id(), &row.body()?.root(), None, &mut self.list)?;
        let ids = Ids { source: &id, destination: row.id() };
        additions::put_attachments(self.tx, ids, &mut self.list)?;
        additions::put_counters(self.tx, ids, &mut self.list)?;
        for series in documents::time_series::series_of(self.tx, &id)? {
            additions::put_series(self.tx, ids, &series?.name, EVERYTHING, &mut self.list)?;
        }
        Ok(())
    }

    fn run_script(
        &mut self,
        script: &EtlScript,
        row: &DocumentRow<'_>,
        collection: &CollectionName,
    ) -> Result<(), TransformError> {
        let info = DocumentInfo {
            id: row.id().into(),
            change_vector: row.change_vector().into(),
            last_modified_ticks: row.last_modified_ticks(),
        };
        let document = ScriptDocument::new(row.body()?.to_buf(), info);
        let mut host = Loads::new(self.tx, self.output.is_some());
        let ran = script.run(&self.engine, &document, self.budget, &mut host);
        let Loads { loads, output, .. } = host;
        self.output.iter_mut().for_each(|all| all.extend(output.clone().unwrap_or_default()));
        ran.map_err(problem)?;
        let deletes = self.deletes(script, row.id(), collection.as_str(), false)?;
        if deletes {
            self.delete_loaded(script, row.id(), collection, Some(&loads));
        }
        let id = DocumentId::new(row.id())?;
        let mut numbers: Vec<(String, u64)> = Vec::new();
        let mut is_first = true;
        for load in &loads {
            let is_same = CollectionName::new(load.collection.as_str())? == *collection;
            let destination = match is_same {
                true => row.id().to_owned(),
                false => self.loaded_id(row.id(), load, deletes, &mut numbers)?,
            };
            let root = load.document.as_view().root();
            put(&destination, &root, Some((&load.collection, load.is_stored)), &mut self.list)?;
            let ids = Ids { source: &id, destination: &destination };
            self.add(load, ids)?;
            if is_same && is_first {
                self.add_wanted(script, ids, collection.as_str())?;
                is_first = false;
            }
        }
        Ok(())
    }

    /// The id of what is loaded to another collection. Where its predecessors were deleted, it is numbered here: sent
    /// again, it has the same id. Otherwise the destination numbers it.
    fn loaded_id(
        &self,
        id: &str,
        load: &Load,
        were_deleted: bool,
        numbers: &mut Vec<(String, u64)>,
    ) -> Result<String, TransformError> {
        let prefix = prefix_of(id, &load.collection);
        if !were_deleted {
            return match load.has_additions() {
                false => Ok(prefix),
                true => Err(TransformError::Problem(format!(
                    "nothing can be added to what is loaded to '{}', because its predecessors are not deleted and \
                     the destination numbers it",
                    load.collection
                ))),
            };
        }
        let number = match numbers.iter_mut().find(|(known, _)| *known == prefix) {
            Some((_, number)) => {
                *number += 1;
                *number
            }
            None => {
                numbers.push((prefix.clone(), 1));
                1
            }
        };
        Ok(format!("{prefix}{number:019}-{}", self.node_tag))
    }

    /// What the script has added to a document that it loaded.
    fn add(&mut self, load: &Load, ids: Ids<'_>) -> Result<(), TransformError> {
        for (name, new_name) in &load.attachments {
            additions::put_attachment(self.tx, ids, (name, new_name), &mut self.list)?;
        }
        for name in &load.counters {
            additions::put_counter(self.tx, ids, name, &mut self.list)?;
        }
        for (name, from, to) in &load.series {
            let range = additions::range_of(*from, *to);
            additions::put_series(self.tx, ids, name, range, &mut self.list)?;
        }
        Ok(())
    }

    /// What functions of the script want to be sent with a document of its own collection.
    fn add_wanted(
        &mut self,
        script: &EtlScript,
        ids: Ids<'_>,
        collection: &str,
    ) -> Result<(), TransformError> {
        let tx = self.tx;
        if script.has_behavior(&Decision::Counters.function_of(collection)) {
            let mut values = Vec::new();
            for row in documents::counters_of(tx, ids.source)? {
                let row = row?;
                if self.wants_counter(ids.source, row.name())? {
                    values.push((row.name(), row.total()));
                }
            }
            additions::set_counters(ids.destination, &values, &mut self.list);
            self.list.reserve(0, 0)?;
        }
        if script.has_behavior(&Decision::TimeSeries.function_of(collection)) {
            for series in documents::time_series::series_of(tx, ids.source)? {
                let name = series?.name;
                if let Some(range) = self.wanted_range(ids.source, &name)? {
                    additions::put_series(tx, ids, &name, range, &mut self.list)?;
                }
            }
        }
        Ok(())
    }

    fn send_tombstone(&mut self, row: &TombstoneRow<'_>) -> Result<(), TransformError> {
        let live = documents::get(self.tx, &DocumentId::new(row.id())?)?;
        let collection = documents::collection_numbered(self.tx, row.collection_number())?.name;
        if let Some(live) = live {
            let live = CollectionName::new(live.collection()?)?;
            // It was written again, or moved to a collection that is read as well. What a script has loaded of it depends
            // on its collection, so that of another one is deleted: the document comes later in the log.
            if self.plan.reads(&live) && (self.plan.script().is_none() || live == collection) {
                return Ok(());
            }
        }
        self.delete_document(row.id(), &collection)
    }

    /// As if a document had been deleted.
    pub(crate) fn send_deleted(&mut self, row: &DocumentRow<'_>) -> Result<(), TransformError> {
        self.delete_document(row.id(), &CollectionName::new(row.collection()?)?)
    }

    fn delete_document(
        &mut self,
        id: &str,
        collection: &CollectionName,
    ) -> Result<(), TransformError> {
        let plan = self.plan;
        let Some(script) = plan.script() else {
            self.list.delete(id);
            return Ok(());
        };
        if self.deletes(script, id, collection.as_str(), true)? {
            self.delete_loaded(script, id, collection, None);
        }
        Ok(())
    }

    /// Deletes what earlier versions of a document may have loaded and this one, if there is one, does not load.
    fn delete_loaded(
        &mut self,
        script: &EtlScript,
        id: &str,
        collection: &CollectionName,
        loads: Option<&[Load]>,
    ) {
        for loaded in script.collections() {
            let is_same = loaded.eq_ignore_ascii_case(collection.as_str());
            if !is_same {
                self.list.delete_prefix(&prefix_of(id, loaded));
                continue;
            }
            let mut of_same = loads
                .unwrap_or_default()
                .iter()
                .filter(|load| load.collection.eq_ignore_ascii_case(loaded));
            // Replacing a document leaves what an earlier version has added to it.
            let has_additions = of_same.clone().any(Load::has_additions);
            if of_same.next().is_none() || has_additions || self.plan.may_add() {
                self.list.delete(id);
            }
        }
    }

    /// Whether what a document has loaded is deleted; the script may decide against it.
    fn deletes(
        &mut self,
        script: &EtlScript,
        id: &str,
        collection: &str,
        is_deleted: bool,
    ) -> Result<bool, TransformError> {
        let text = |text: &str| ScriptValue::String(text.into());
        let of_collection = Decision::Deletions.function_of(collection);
        let (function, arguments) = match () {
            () if script.has_behavior(&of_collection) => {
                (of_collection.as_str(), vec![text(id), ScriptValue::Bool(is_deleted)])
            }
            () if script.has_behavior(DELETES) => {
                (DELETES, vec![text(id), text(collection), ScriptValue::Bool(is_deleted)])
            }
            () => return Ok(true),
        };
        Ok(match self.call(script, function, &arguments)? {
            // The name was only mentioned.
            None => true,
            Some(answer) => matches!(answer, ScriptValue::Bool(true)),
        })
    }

    /// Calls a function of the script; `None` if it declares none of this name.
    fn call(
        &mut self,
        script: &EtlScript,
        function: &str,
        arguments: &[ScriptValue],
    ) -> Result<Option<ScriptValue>, TransformError> {
        let mut host = Loads::new(self.tx, self.output.is_some());
        let called = script.call(&self.engine, function, arguments, self.budget, &mut host);
        let output = host.output;
        self.output.iter_mut().for_each(|all| all.extend(output.clone().unwrap_or_default()));
        called.map_err(problem)
    }

    fn collection_of(&self, id: &DocumentId) -> Result<Option<String>, TransformError> {
        let row = documents::get(self.tx, id)?;
        Ok(row.map(|row| row.collection().map(|name| name.into_owned())).transpose()?)
    }

    /// What the script says about a part of a document; `None` if it has no function for it.
    fn asked(
        &mut self,
        decision: Decision,
        id: &DocumentId,
        name: &str,
    ) -> Result<Option<ScriptValue>, TransformError> {
        let plan = self.plan;
        let Some(script) = plan.script() else { return Ok(Some(ScriptValue::Bool(true))) };
        let Some(collection) = self.collection_of(id)? else { return Ok(None) };
        let function = decision.function_of(&collection);
        let text = |text: &str| ScriptValue::String(text.into());
        self.call(script, &function, &[text(id.as_str()), text(name)])
    }

    fn wants_counter(&mut self, id: &DocumentId, name: &str) -> Result<bool, TransformError> {
        let answer = self.asked(Decision::Counters, id, name)?;
        Ok(matches!(answer, Some(ScriptValue::Bool(true))))
    }

    /// The part of a series that is wanted: all of it, or from and to a moment.
    fn wanted_range(
        &mut self,
        id: &DocumentId,
        name: &str,
    ) -> Result<Option<MomentRange>, TransformError> {
        let Some(answer) = self.asked(Decision::TimeSeries, id, name)? else { return Ok(None) };
        if let ScriptValue::Bool(wanted) = answer {
            return Ok(wanted.then_some(EVERYTHING));
        }
        let moment = |name: &str| match answer.get(name).ok().flatten() {
            None => Ok(None),
            Some(value) if value.is_absent() => Ok(None),
            Some(ScriptValue::Date(millis)) => Ok(Some(millis)),
            Some(_) => Err(TransformError::Problem(format!(
                "'{name}' of what a function returned for a time series must be a Date"
            ))),
        };
        match &answer {
            ScriptValue::Object(_) | ScriptValue::Stored(_) => {
                Ok(Some(additions::range_of(moment("from")?, moment("to")?)))
            }
            _ => Ok(None),
        }
    }
}

const EVERYTHING: MomentRange = MomentRange { from: 0, to: MOMENT_MAX };

/// How the ids of what a document loads to another collection begin.
fn prefix_of(id: &str, collection: &str) -> String {
    format!("{id}/{}/", collection.to_lowercase())
}

/// Puts a document. `collection` is the one it is loaded to, which replaces that of its metadata if it was stored, and
/// is the default of an object that the script made.
fn put(
    id: &str,
    root: &Object<'_>,
    collection: Option<(&str, bool)>,
    list: &mut CommandList,
) -> Result<(), TransformError> {
    let json = list.begin("PUT", id);
    json.extend_from_slice(b",\"Document\":{");
    for property in root.iter() {
        let (name, value) = property?;
        if name != METADATA {
            write_json_string(name, json);
            json.push(b':');
            write_json(&value, json)?;
            json.push(b',');
        }
    }
    write_json_string(METADATA, json);
    json.extend_from_slice(b":{");
    let metadata = root.get_object(METADATA)?;
    let named = metadata.map(|metadata| metadata.get_str(COLLECTION)).transpose()?.flatten();
    let collection = match collection {
        Some((loaded, true)) => Some(loaded.into()),
        Some((loaded, false)) => Some(named.unwrap_or(loaded.into())),
        None => named,
    };
    let mut is_first = true;
    let mut member = |name: &str, json: &mut Vec<u8>| {
        if !std::mem::replace(&mut is_first, false) {
            json.push(b',');
        }
        write_json_string(name, json);
        json.push(b':');
    };
    if let Some(collection) = collection {
        member(COLLECTION, json);
        write_json_string(&collection, json);
    }
    for property in metadata.iter().flat_map(Object::iter) {
        let (name, value): (&str, Value<'_>) = property?;
        if name != COLLECTION && !OF_SOURCE.contains(&name) {
            member(name, json);
            write_json(&value, json)?;
        }
    }
    json.extend_from_slice(b"}}}");
    Ok(())
}
