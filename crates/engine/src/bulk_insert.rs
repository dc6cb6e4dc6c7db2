//! Bulk inserts: elements that arrive one after another, stored in batches while they arrive.
//!
//! What was stored before a failure remains. Memory holds the batch that is being collected and the one that is being
//! stored. The caller feeds elements, does what [`BulkInsert::step`] says, and decides how to wait.
//!
//! When memory is short, batches are so small that there is always enough memory for their transactions.
//! Invariant: an insert waits for memory only with a single element that is larger than that, and not for long; so
//! inserts that hold memory while they wait do not block each other.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use blittable::{BlittableBuf, Value, equal};
use commands::{Batch, BatchOutcome, Command, CommandResult};
use database::DatabaseLease;
use documents::{
    ChangeCounters, DocumentError, ExpectedVersion, Imported, PutAttachment, PutDocument,
    RequestedId, time_series::TimeSeriesChange,
};
use model::{DocumentId, IdSeparator};

use crate::{
    busy_wait::{BUSY_PAUSE, BusyWait},
    content_upload::StagedContents,
    engine::Engine,
    error::{EngineError, Shortage},
    memory_plan::MemoryPlan,
};

/// A batch is stored when its commands have about this many bytes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// A batch is stored when it has this many commands.
const BATCH_COMMANDS_MAX: usize = 4096;
/// There is enough memory for batches of this size in any transaction.
const SMALL_BATCH_BYTES: usize = 128 << 10;
/// A whole batch is submitted when this many times its bytes are available: for the pages that it changes, and for
/// what others allocate until it is executed.
const TRANSACTION_TIMES: u64 = 8;
/// How many of the waits for a busy database may also be waits for memory, for an element that is too large for
/// [`SMALL_BATCH_BYTES`]; and how many times a small batch for which there was not enough memory is tried again.
const MEMORY_TRIES: usize = 100;

/// Elements on their way into a database.
pub struct BulkInsert {
    database: DatabaseLease,
    memory: Arc<MemoryPlan>,
    id_separator: IdSeparator,
    /// Whether a document that is already stored with the same content is left as it is.
    skips_unchanged: bool,
    collected: Collected,
    /// Whether what was collected is to be stored, although it may be less than a full batch.
    is_closed: bool,
    storing: Option<Storing>,
    totals: BulkInsertTotals,
    /// Of imports, since they were last taken.
    refusals: Vec<Imported>,
}

/// What the caller of a bulk insert does next.
#[derive(Debug)]
pub enum BulkInsertStep {
    /// Add more elements. A batch may be on its way.
    Collect,
    /// Submit this batch, whose ids are complete, and pass its outcome to [`BulkInsert::settle`]: also the error if it
    /// was not accepted.
    Submit(Batch),
    /// Pass the outcome of the submitted batch to [`BulkInsert::settle`].
    Settle,
    /// Wait for this long: the database is busy, or memory is short.
    Pause(Duration),
}

/// What a bulk insert has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkInsertTotals {
    /// Elements that are stored, or need not be.
    pub processed: u64,
    /// How many of them are attachments.
    pub attachments: u64,
    /// How many of them change counters.
    pub counters: u64,
    /// How many of them change time series.
    pub time_series: u64,
    /// How many batches were stored.
    pub batches: u64,
    /// The id of the last document that was added, if it was complete.
    pub last_id: Option<String>,
}

/// A batch that is being collected.
#[derive(Default)]
struct Collected {
    batch: Batch,
    bytes: usize,
    /// The ids in it, lower-cased, if unchanged documents are skipped: what is stored of them is not up to date.
    ids: HashSet<String>,
    attachments: u64,
    counters: u64,
    time_series: u64,
    /// Of its attachments.
    staged: StagedContents,
}

/// A batch that is being stored: as a whole, or in parts when memory is short.
struct Storing {
    /// Its commands without those that were submitted.
    left: Collected,
    /// The part that is submitted as soon as there is room.
    next: Option<Part>,
    in_flight: Option<PartInFlight>,
    /// The size of the next part, unless there is memory for all that is left.
    part_bytes_max: usize,
    /// How many times in a row there was not enough memory for a part.
    tries: usize,
    /// For the next part.
    busy: BusyWait,
    /// Whether the last part failed, so that the next one waits first.
    has_failed: bool,
}

struct Part {
    batch: Batch,
    bytes: usize,
}

struct PartInFlight {
    bytes: usize,
    /// If it is small enough to be submitted again.
    copy: Option<Batch>,
}

impl Engine {
    /// Begins a bulk insert. `skips_unchanged` if documents that are already stored with the same content are to be
    /// left as they are.
    pub fn begin_bulk_insert(&self, database: &DatabaseLease, skips_unchanged: bool) -> BulkInsert {
        BulkInsert {
            database: database.clone(),
            memory: Arc::clone(self.memory()),
            id_separator: database.queue().id_separator(),
            skips_unchanged,
            collected: Collected::default(),
            is_closed: false,
            storing: None,
            totals: BulkInsertTotals::default(),
            refusals: Vec::new(),
        }
    }
}

/// Elements are added to the batch that is being collected.
impl BulkInsert {
    /// Adds a document under the requested id: that, one with the next number of its prefix, or a random one.
    ///
    /// # Errors
    /// The id is too long, or would need the next value of an identity; the stored document cannot be read.
    pub fn put(&mut self, id: Option<&str>, body: BlittableBuf) -> Result<(), EngineError> {
        let id = requested_id(id, self.id_separator)?;
        let put = PutDocument { id, expected: ExpectedVersion::Any, body };
        if let RequestedId::Exactly(id) = &put.id {
            if self.skips_unchanged && self.is_unchanged(id, &put.body)? {
                self.totals.processed += 1;
                return Ok(());
            }
            self.totals.last_id = Some(id.as_str().to_owned());
            if self.skips_unchanged {
                self.collected.ids.insert(id.lower_cased().to_owned());
            }
        }
        self.collected.push(Command::Put(put));
        Ok(())
    }

    /// Adds changes of counters of a document.
    pub fn change_counters(&mut self, change: ChangeCounters) {
        self.totals.last_id = Some(change.id.as_str().to_owned());
        self.collected.counters += 1;
        self.collected.push(Command::ChangeCounters(change));
    }

    /// Adds changes of a time series.
    pub fn change_time_series(&mut self, change: Box<TimeSeriesChange>) {
        self.totals.last_id = Some(change.id.as_str().to_owned());
        self.collected.time_series += 1;
        self.collected.push(Command::ChangeTimeSeries(change));
    }

    /// Adds an attachment, with its content if that is staged.
    pub fn put_attachment(&mut self, put: PutAttachment, staged: StagedContents) {
        self.collected.staged.append(staged);
        self.collected.attachments += 1;
        self.collected.push(Command::PutAttachment(put));
    }

    /// Adds a command, with contents that are staged for it.
    pub(crate) fn add(&mut self, command: Command, staged: StagedContents) {
        // A batch with staged contents is stored as a whole.
        self.collected.attachments += u64::from(!staged.is_empty());
        self.collected.staged.append(staged);
        self.collected.push(command);
    }

    /// Takes what was stored of imports only in part, or not at all.
    pub(crate) fn take_refusals(&mut self) -> Vec<Imported> {
        mem::take(&mut self.refusals)
    }

    /// How long a content may be that is carried in the batch; longer ones are to be staged. In bytes.
    pub fn carried_bytes_max(&self) -> usize {
        BATCH_BYTES_MAX.saturating_sub(self.collected.bytes)
    }

    /// Whether the same document is already stored under this id.
    fn is_unchanged(&self, id: &DocumentId, body: &BlittableBuf) -> Result<bool, EngineError> {
        let unsettled = self.storing.iter().map(|storing| &storing.left.ids);
        if unsettled.chain([&self.collected.ids]).any(|ids| ids.contains(id.lower_cased())) {
            return Ok(false);
        }
        let tx = self.database.read();
        let stored = documents::get(&tx, id)?;
        let Some(stored) = stored.filter(|stored| stored.id() == id.as_str()) else {
            return Ok(false);
        };
        let stored = Value::Object(stored.body()?.root());
        let is_equal = equal(&stored, &Value::Object(body.as_view().root()));
        is_equal.map_err(|error| DocumentError::from(error).into())
    }
}

/// Batches are stored one after another, while the next one is collected.
impl BulkInsert {
    /// Whether nothing is collected.
    pub fn is_empty(&self) -> bool {
        self.collected.batch.commands.is_empty()
    }

    /// Whether enough is collected for a batch, which the caller closes then.
    pub fn is_full(&self) -> bool {
        BATCH_BYTES_MAX <= self.collected.bytes
            || BATCH_COMMANDS_MAX <= self.collected.batch.commands.len()
    }

    /// Requests that what is collected is stored. The next steps store it, after the batch that is on its way.
    pub fn close_batch(&mut self) {
        self.is_closed = true;
    }

    /// About how much memory its commands take, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.collected.bytes + self.storing.as_ref().map_or(0, Storing::held_bytes)
    }

    /// What has been stored so far.
    pub fn totals(&self) -> &BulkInsertTotals {
        &self.totals
    }

    /// What is to be done next. To be called until it says [`BulkInsertStep::Collect`], after each batch that is
    /// closed and each outcome.
    ///
    /// # Errors
    /// The database was busy for too long.
    pub fn step(&mut self) -> Result<BulkInsertStep, EngineError> {
        if self.storing.is_none() && mem::take(&mut self.is_closed) && !self.is_empty() {
            self.storing = Some(Storing::of(mem::take(&mut self.collected)));
        }
        let Some(storing) = &mut self.storing else { return Ok(BulkInsertStep::Collect) };
        if storing.in_flight.is_some() {
            // More is collected while all of it is on its way, but only up to a full batch.
            let waits = self.is_closed || !storing.is_submitted();
            return Ok(if waits { BulkInsertStep::Settle } else { BulkInsertStep::Collect });
        }
        let (database, memory) = (&self.database, &self.memory);
        storing.submit(database.has_room(), |bytes| has_memory(memory, bytes))
    }

    /// Notes the outcome of the submitted batch. A small one for which there was not enough memory is submitted again,
    /// in parts. Returns whether a batch, with all of its parts, is stored.
    ///
    /// # Errors
    /// The outcome, if it is an error that another try cannot help.
    pub fn settle(
        &mut self,
        outcome: Result<BatchOutcome, EngineError>,
    ) -> Result<bool, EngineError> {
        let Some(mut storing) = self.storing.take() else { return Ok(false) };
        let part = storing.in_flight.take();
        match outcome {
            Ok(outcome) => {
                let refusals = outcome.results.iter().filter_map(|result| match result {
                    CommandResult::Imported(Imported::Stored) => None,
                    CommandResult::Imported(refused) => Some(refused.clone()),
                    _ => None,
                });
                self.refusals.extend(refusals);
                self.totals.processed += outcome.results.len() as u64;
                self.totals.batches += 1;
                storing.part_is_stored();
            }
            Err(error) => match part {
                Some(PartInFlight { bytes, copy: Some(copy) }) if may_succeed(&error, &copy) => {
                    storing.try_again(copy, bytes);
                }
                _ => return Err(error),
            },
        }
        let is_stored = storing.is_submitted();
        if is_stored {
            storing.left.staged.are_put();
            self.totals.attachments += storing.left.attachments;
            self.totals.counters += storing.left.counters;
            self.totals.time_series += storing.left.time_series;
        } else {
            self.storing = Some(storing);
        }
        Ok(is_stored)
    }
}

impl Collected {
    fn push(&mut self, command: Command) {
        self.bytes += command.size_bytes();
        self.batch.commands.push(command);
    }
}

impl Storing {
    fn of(collected: Collected) -> Storing {
        Storing {
            left: collected,
            next: None,
            in_flight: None,
            part_bytes_max: SMALL_BATCH_BYTES,
            tries: 0,
            busy: BusyWait::default(),
            has_failed: false,
        }
    }

    fn held_bytes(&self) -> usize {
        let next = self.next.as_ref().map_or(0, |part| part.bytes);
        let in_flight = self.in_flight.as_ref().map_or(0, |part| {
            let copies = 1 + usize::from(part.copy.is_some());
            copies * part.bytes
        });
        self.left.bytes + next + in_flight
    }

    /// Whether every part was submitted.
    fn is_submitted(&self) -> bool {
        self.next.is_none() && self.left.batch.commands.is_empty()
    }

    /// Whether it must be stored as a whole: contents staged for attachments are settled with their whole batch.
    fn is_indivisible(&self) -> bool {
        0 < self.left.attachments
    }

    /// Submits the next part, unless it has to wait.
    fn submit(
        &mut self,
        has_room: bool,
        has_memory: impl Fn(usize) -> bool,
    ) -> Result<BulkInsertStep, EngineError> {
        if mem::take(&mut self.has_failed) {
            return Ok(BulkInsertStep::Pause(BUSY_PAUSE));
        }
        let part = self.next.take().unwrap_or_else(|| self.split_part(&has_memory));
        let is_small = part.bytes <= SMALL_BATCH_BYTES;
        // A database without memory for it refuses it; that is the outcome when the time is over.
        let may_begin = is_small || MEMORY_TRIES <= self.busy.tries() || has_memory(part.bytes);
        if let Some(pause) = self.busy.next_unless(may_begin && has_room)? {
            self.next = Some(part);
            return Ok(BulkInsertStep::Pause(pause));
        }
        self.busy = BusyWait::default();
        let Part { batch, bytes } = part;
        let may_repeat = is_small && !self.is_indivisible() && self.tries < MEMORY_TRIES;
        let copy = may_repeat.then(|| batch.clone());
        self.in_flight = Some(PartInFlight { bytes, copy });
        Ok(BulkInsertStep::Submit(batch))
    }

    /// Takes the next part out of what is left: all of it, or when memory is short some of it.
    fn split_part(&mut self, has_memory: impl Fn(usize) -> bool) -> Part {
        let is_whole = self.is_indivisible() || (self.tries == 0 && has_memory(self.left.bytes));
        let left = &mut self.left;
        let batch = match is_whole {
            true => mem::take(&mut left.batch),
            false => left.batch.split_first(self.part_bytes_max),
        };
        let bytes = match left.batch.commands.is_empty() {
            true => left.bytes,
            false => batch.size_bytes(),
        };
        left.bytes = left.bytes.saturating_sub(bytes);
        Part { batch, bytes }
    }

    fn part_is_stored(&mut self) {
        // One difficult moment must not slow down the rest.
        self.tries = 0;
        self.part_bytes_max = self.part_bytes_max.saturating_mul(2).min(SMALL_BATCH_BYTES);
    }

    /// Puts a part back that was not stored. It is submitted again in smaller parts, and a single element for a while.
    fn try_again(&mut self, copy: Batch, bytes: usize) {
        self.tries += 1;
        self.has_failed = true;
        self.part_bytes_max = (bytes / 2).max(1);
        self.left.bytes += bytes;
        self.left.batch.commands.splice(..0, copy.commands);
    }
}

/// Whether a transaction is likely to get the memory that a batch of this size needs.
fn has_memory(memory: &MemoryPlan, batch_bytes: usize) -> bool {
    let budget = &memory.transactions;
    let bytes = TRANSACTION_TIMES.saturating_mul(batch_bytes as u64);
    budget.share(0).try_grow_to(bytes.min(budget.bytes_max() / 2)).is_ok()
}

/// Whether another try makes sense: once there is memory, for changes or for those that wait for their flush, or in
/// smaller parts.
fn may_succeed(error: &EngineError, batch: &Batch) -> bool {
    match error.shortage() {
        Some(Shortage::Passing) => true,
        Some(Shortage::TooLarge) => 1 < batch.commands.len(),
        None => false,
    }
}

fn requested_id(id: Option<&str>, separator: IdSeparator) -> Result<RequestedId, EngineError> {
    let requested = RequestedId::parse(id, separator).map_err(DocumentError::from)?;
    if matches!(requested, RequestedId::Identity(_)) {
        let id = id.unwrap_or_default().to_owned();
        return Err(DocumentError::UnresolvedIdentity { id }.into());
    }
    Ok(requested)
}
