//! Reads a part of the log as commands.

use std::rc::Rc;

use documents::{
    DocumentError,
    log::{self, LogEntry},
};
use model::{DocumentId, Etag};
use script::{Budget, Engine};
use storage::{MemoryShare, StorageError, Transaction};

use crate::{
    command_list::CommandList,
    document::{TransformError, Transformer},
    outgoing::Outgoing,
    plan::Plan,
};

/// How many problems of one batch are kept.
const PROBLEMS_MAX: usize = 128;

/// Where a batch ends.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// After this many changes.
    pub changes_max: usize,
    /// Once its commands take this much memory.
    pub bytes_max: usize,
    /// A document that takes more with what belongs to it is a problem.
    pub document_bytes_max: usize,
}

/// Whether a batch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It does.
    GoOn,
    /// It ends with the change that is being read.
    Enough,
    /// It ends without that.
    Stop,
}

/// What scripts run with.
#[derive(Clone)]
pub struct ScriptRun<'r> {
    /// The engine of this thread.
    pub engine: Rc<Engine>,
    /// Of a run for one document.
    pub budget: Budget,
    /// The tag of this node.
    pub node_tag: &'r str,
}

/// A document that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// Its id; empty if it is not known.
    pub id: String,
    /// Why.
    pub message: String,
}

/// A part of the log as commands.
#[derive(Debug)]
pub struct EtlBatch {
    /// The commands. There may be none.
    pub commands: CommandList,
    /// The log was read up to here.
    pub read_to: Etag,
    /// The last change that was read; that from which the batch begins if there was none.
    pub last_etag: Etag,
    /// Its version; empty if there was none.
    pub change_vector: String,
    /// How many changes were read.
    pub changes: u64,
    /// How many of them could not be sent.
    pub problems_count: u64,
    /// The first of those.
    pub problems: Vec<DocumentProblem>,
    /// Whether the log ends here.
    pub is_last: bool,
}

/// Reads changes after an etag: at least one unless it is stopped or there is none. `share` holds the memory of the
/// commands and of the request that is made of them. `pace` is asked after each change and each part of one.
///
/// # Errors
/// The database cannot be read; there is no memory for a single change now.
pub fn read_batch<T: Transaction>(
    tx: &T,
    plan: &Plan,
    run: &ScriptRun<'_>,
    after: Etag,
    limits: BatchLimits,
    share: &mut MemoryShare,
    pace: &dyn Fn() -> Pace,
) -> Result<EtlBatch, DocumentError> {
    let outgoing = Outgoing::new(share, pace, limits.document_bytes_max);
    let mut transformer = transformer(tx, plan, run, outgoing, false);
    let mut batch = EtlBatch {
        commands: CommandList::default(),
        read_to: after,
        last_etag: after,
        change_vector: String::new(),
        changes: 0,
        problems_count: 0,
        problems: Vec::new(),
        is_last: false,
    };
    let mut entries = log::read(tx, &plan.selections(), after)?;
    loop {
        let Some(entry) = entries.next() else {
            batch.is_last = true;
            batch.read_to = documents::progress(tx)?.last_etag.max(batch.last_etag);
            break;
        };
        let entry = entry?;
        let is_full = limits.changes_max as u64 <= batch.changes
            || limits.bytes_max <= transformer.list.size_bytes();
        let is_over = match pace() {
            Pace::GoOn => false,
            Pace::Enough => batch.changes != 0,
            Pace::Stop => true,
        };
        if is_full || is_over {
            break;
        }
        transformer.list.begin_change();
        let sent = transformer.send(&entry).and_then(|()| transformer.list.reserve(0, 0));
        if sent.is_err() {
            transformer.list.undo_change();
        }
        match sent {
            Ok(()) => {}
            Err(TransformError::Stopped) => break,
            Err(TransformError::NoMemory(_)) if batch.changes != 0 => break,
            Err(TransformError::NoMemory(exhausted)) => {
                return Err(StorageError::from(exhausted).into());
            }
            Err(TransformError::Documents(error)) => return Err(error),
            Err(TransformError::Problem(message)) => batch.note(&entry, message),
        }
        batch.changes += 1;
        batch.last_etag = entry.etag();
        batch.read_to = entry.etag();
        batch.change_vector.clear();
        batch.change_vector.push_str(&entry.change_vector());
    }
    batch.commands = transformer.list.into_list();
    Ok(batch)
}

impl EtlBatch {
    fn note(&mut self, entry: &LogEntry<'_>, message: String) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            let id = match entry {
                LogEntry::Document(row) => row.id(),
                LogEntry::DocumentTombstone(row) => row.id(),
                other => other.lower_document_id().unwrap_or_default(),
            };
            self.problems.push(DocumentProblem { id: id.to_owned(), message });
        }
    }
}

/// What a transformation would send of one document.
#[derive(Debug, Default)]
pub struct TestRun {
    /// The commands.
    pub commands: CommandList,
    /// Why there are none.
    pub problem: Option<String>,
    /// What the script has printed.
    pub output: Vec<String>,
}

/// Runs a transformation over one document without sending anything; `None` if there is no such document. With
/// `as_deleted` it is taken for deleted. Limits are those of a batch.
///
/// # Errors
/// The database cannot be read.
pub fn test<T: Transaction>(
    tx: &T,
    plan: &Plan,
    run: &ScriptRun<'_>,
    (id, as_deleted): (&DocumentId, bool),
    document_bytes_max: usize,
    share: &mut MemoryShare,
) -> Result<Option<TestRun>, DocumentError> {
    let Some(row) = documents::get(tx, id)? else { return Ok(None) };
    let outgoing = Outgoing::new(share, &|| Pace::GoOn, document_bytes_max);
    let mut transformer = transformer(tx, plan, run, outgoing, true);
    let sent = match as_deleted {
        true => transformer.send_deleted(&row),
        false => transformer.send(&LogEntry::Document(row)),
    };
    let problem = match sent {
        Ok(()) => None,
        Err(TransformError::Documents(error)) => return Err(error),
        Err(TransformError::NoMemory(exhausted)) => {
            return Err(StorageError::from(exhausted).into());
        }
        Err(error @ (TransformError::Problem(_) | TransformError::Stopped)) => {
            transformer.list.undo_change();
            Some(error.to_string())
        }
    };
    let output = transformer.output.unwrap_or_default();
    Ok(Some(TestRun { commands: transformer.list.into_list(), problem, output }))
}

fn transformer<'t, T: Transaction>(
    tx: &'t T,
    plan: &'t Plan,
    run: &ScriptRun<'t>,
    list: Outgoing<'t>,
    shows_output: bool,
) -> Transformer<'t, T> {
    Transformer {
        tx,
        plan,
        engine: Rc::clone(&run.engine),
        budget: run.budget,
        node_tag: run.node_tag,
        list,
        output: shows_output.then(Vec::new),
    }
}
