//! Imports a dump that can be read whenever its reader has time, on a thread that may block.
//!
//! Memory holds one element, a batch that is collected and one that is stored, all of it charged as the body of a
//! request.

use std::{
    collections::VecDeque,
    io::Read,
    sync::{Arc, Condvar, Mutex, PoisonError, mpsc},
    time::Duration,
};

use blittable::Builder;
use commands::{Batch, BatchOutcome, CommandError};
use database::{DatabaseLease, Operation};
use documents::{ContentHasher, NewContent};
use serde_json::{Map, Value};
use smuggler::{DumpError, DumpEvent, DumpReader};
use storage::MemoryShare;
use wire::SmugglerOptions;

use super::{
    export::limits_of,
    import::{DumpImport, ImportNext},
    import_task::{ImportTask, Task},
    progress::SmugglerProgress,
};
use crate::{
    backup::BackupError,
    bulk_insert::BulkInsertStep,
    busy_wait::BusyWait,
    content_upload::{Backlog, ContentUpload, StagedContent, StagedContents},
    engine::Engine,
    error::EngineError,
    operation_thread::check_wanted,
    submission::SubmittedBatch,
};

/// Read from the file at once.
const PIECE_BYTES: usize = 256 << 10;
/// Maximum overhead of an element around its document.
const ELEMENT_OVERHEAD_BYTES: usize = 1 << 20;
/// Memory that is not charged.
const ALLOWED_BYTES: u64 = 512 << 10;
/// How long to wait for memory before another try, and how many times.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);
const MEMORY_TRIES: usize = 600;

/// Where what is loaded comes from, and what becomes of it.
pub(crate) struct LoadSource<'s> {
    /// The name of the file, for messages.
    pub(crate) name: &'s str,
    /// The kinds of data.
    pub(crate) options: SmugglerOptions,
    /// Whether the record of the database is kept for the caller instead of being merged.
    pub(crate) keeps_record: bool,
    /// Whether each counter is what it is in the file, instead of being merged with what is stored.
    pub(crate) replaces_counters: bool,
}

/// A dump that is being loaded.
pub(crate) struct DumpLoad<'e> {
    engine: &'e Arc<Engine>,
    database: DatabaseLease,
    operation: &'e Operation,
    import: DumpImport,
    builder: Builder,
    share: MemoryShare,
    in_flight: Option<InFlight>,
    upload: Option<Upload>,
    /// The record, if it is kept.
    record: Option<Map<String, Value>>,
    keeps_record: bool,
}

/// A batch on its way.
struct InFlight {
    submitted: SubmittedBatch,
    outcome: mpsc::Receiver<Result<BatchOutcome, CommandError>>,
}

/// A content of an attachment that is being read.
struct Upload {
    content: ContentUpload,
    hasher: Box<ContentHasher>,
    in_flight: VecDeque<InFlight>,
}

impl<'e> DumpLoad<'e> {
    /// Loads a dump into a database, as an administrator of it. Returns its record, if that is kept. Blocks.
    ///
    /// # Errors
    /// The dump is damaged or cannot be read; the database takes no changes; the operation was stopped. What was loaded
    /// before remains.
    pub(crate) fn load(
        engine: &'e Arc<Engine>,
        database: &DatabaseLease,
        operation: &'e Operation,
        source: LoadSource<'_>,
        progress: &mut SmugglerProgress,
        text: &mut dyn Read,
    ) -> Result<Option<Map<String, Value>>, EngineError> {
        let limits = limits_of(engine);
        let document_bytes_max = limits.document_bytes_max;
        let counted = progress.take();
        let mut load = DumpLoad {
            engine,
            database: database.clone(),
            operation,
            import: DumpImport::of_file(
                engine,
                database,
                source.options,
                counted,
                source.replaces_counters,
            )?,
            builder: Builder::new(limits),
            share: engine.memory().bodies.share(ALLOWED_BYTES),
            in_flight: None,
            upload: None,
            record: None,
            keeps_record: source.keeps_record,
        };
        let element_bytes_max = document_bytes_max.saturating_add(ELEMENT_OVERHEAD_BYTES);
        let loaded = load.read(source.name, element_bytes_max, text);
        load.import.note_stored();
        *progress = load.import.into_progress();
        loaded.map(|()| load.record)
    }

    fn read(
        &mut self,
        name: &str,
        element_bytes_max: usize,
        text: &mut dyn Read,
    ) -> Result<(), EngineError> {
        let damaged = |source: DumpError| BackupError::Damaged { file: name.to_owned(), source };
        let mut reader = DumpReader::new(element_bytes_max);
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            self.check_wanted()?;
            let bytes =
                text.read(&mut buffer).map_err(|error| BackupError::io(name, "read", error))?;
            let mut piece = &buffer[..bytes];
            loop {
                let event = reader.next(&mut piece).map_err(damaged)?;
                if event == DumpEvent::NeedMore {
                    break;
                }
                if let Some(bytes) = self.take(event)? {
                    reader.expect_bytes(bytes);
                }
            }
            self.make_room(reader.held_bytes())?;
            if bytes == 0 {
                reader.finish().map_err(damaged)?;
                return self.store_all();
            }
        }
    }

    /// Does what an event asks for; returns how many raw bytes follow.
    fn take(&mut self, event: DumpEvent<'_>) -> Result<Option<u64>, EngineError> {
        let next = match event {
            DumpEvent::Name(name) => self.import.name(name),
            DumpEvent::Value(text) => self.import.value(text),
            DumpEvent::Element { text, position } => {
                self.import.element(text, position, &mut self.builder)
            }
            DumpEvent::Bytes(bytes) => {
                match self.upload.take() {
                    Some(upload) => self.upload = Some(self.push(upload, bytes)?),
                    None => self.import.segment_bytes(bytes),
                }
                ImportNext::Read
            }
            DumpEvent::BytesEnd => {
                if let Some(upload) = self.upload.take() {
                    let (content, staged) = self.finish_content(upload)?;
                    self.import.content(content, staged);
                }
                self.import.segment_end();
                ImportNext::Read
            }
            DumpEvent::SectionEnd => self.import.section_end(),
            DumpEvent::NeedMore | DumpEvent::End => ImportNext::Read,
        };
        let follows = match next {
            ImportNext::Read => None,
            ImportNext::Drop(bytes) | ImportNext::Segment(bytes) => Some(bytes),
            ImportNext::Content(bytes) => {
                let carried_bytes_max = self.import.carried_content_bytes_max();
                self.upload = Some(Upload {
                    content: ContentUpload::new(&self.database, carried_bytes_max),
                    hasher: Box::default(),
                    in_flight: VecDeque::new(),
                });
                Some(bytes)
            }
            ImportNext::Run(task) => {
                self.run_task(*task)?;
                None
            }
        };
        if self.import.batches().is_full() {
            self.store_batch()?;
        }
        Ok(follows)
    }

    fn run_task(&mut self, task: ImportTask) -> Result<(), EngineError> {
        // A task sees what comes before it in the dump.
        self.store_all()?;
        match task.0 {
            Task::Record { sent, .. } if self.keeps_record => {
                self.record = Some(sent);
                self.import.record_is_kept();
            }
            task => {
                let outcome = ImportTask(task).run(self.engine, &self.database)?;
                self.import.task_done(outcome);
            }
        }
        Ok(())
    }

    fn check_wanted(&self) -> Result<(), EngineError> {
        check_wanted(self.operation, &self.database)
    }

    /// Charges what is held. When there is not enough memory, stores what was collected to release some.
    fn make_room(&mut self, reader_bytes: usize) -> Result<(), EngineError> {
        let held = |load: &Self| (load.import.held_bytes() + reader_bytes) as u64;
        if self.share.try_grow_to(held(self)).is_ok() {
            return Ok(());
        }
        self.store_all()?;
        let mut tries = 0;
        loop {
            match self.share.try_grow_to(held(self)) {
                Ok(()) => return Ok(()),
                Err(exhausted) if tries == MEMORY_TRIES => {
                    return Err(storage::StorageError::NoMemory(exhausted).into());
                }
                Err(_) => {
                    tries += 1;
                    self.check_wanted()?;
                    pause(MEMORY_PAUSE);
                }
            }
        }
    }
}

/// Batches.
impl DumpLoad<'_> {
    fn store_batch(&mut self) -> Result<(), EngineError> {
        self.import.batches().close_batch();
        self.advance()
    }

    fn store_all(&mut self) -> Result<(), EngineError> {
        self.store_batch()?;
        while self.in_flight.is_some() {
            self.wait_for_batch()?;
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), EngineError> {
        loop {
            self.check_wanted()?;
            match self.import.batches().step()? {
                BulkInsertStep::Collect => return Ok(()),
                BulkInsertStep::Submit(batch) => self.in_flight = Some(self.submit(batch)?),
                BulkInsertStep::Settle => self.wait_for_batch()?,
                BulkInsertStep::Pause(time) => pause(time),
            }
        }
    }

    fn wait_for_batch(&mut self) -> Result<(), EngineError> {
        let Some(in_flight) = self.in_flight.take() else { return Ok(()) };
        let outcome = self.outcome_of(in_flight);
        let settled = self.import.batches().settle(outcome);
        self.share.shrink_to(self.import.held_bytes() as u64);
        settled?;
        self.import.note_stored();
        Ok(())
    }

    fn submit(&self, batch: Batch) -> Result<InFlight, EngineError> {
        let (sender, outcome) = mpsc::channel();
        // The receiver may be gone, when the load has failed.
        let reply = Box::new(move |outcome| drop(sender.send(outcome)));
        let submitted = self.engine.submit(&self.database, batch.into(), reply)?;
        Ok(InFlight { submitted, outcome })
    }

    fn outcome_of(&self, in_flight: InFlight) -> Result<BatchOutcome, EngineError> {
        let InFlight { submitted, outcome } = in_flight;
        self.engine.settle(&self.database, submitted, outcome.recv().ok())
    }
}

/// Contents of attachments.
impl DumpLoad<'_> {
    fn push(&self, mut upload: Upload, piece: &[u8]) -> Result<Upload, EngineError> {
        let mut rest = piece;
        while !rest.is_empty() {
            if upload.content.room_bytes() == 0 {
                self.send_chunk(&mut upload)?;
            }
            let (taken, behind) = rest.split_at(upload.content.room_bytes().min(rest.len()));
            upload.content.fill(taken);
            upload.hasher.update(taken);
            rest = behind;
        }
        Ok(upload)
    }

    fn finish_content(
        &self,
        mut upload: Upload,
    ) -> Result<(NewContent, StagedContents), EngineError> {
        if let Some(carried) = upload.content.carried() {
            return Ok((carried, StagedContents::default()));
        }
        if 0 < upload.content.chunk_bytes() {
            self.send_chunk(&mut upload)?;
        }
        upload.content.end(upload.hasher.finish())
    }

    fn send_chunk(&self, upload: &mut Upload) -> Result<(), EngineError> {
        while !upload.content.may_submit() {
            let Some(oldest) = upload.in_flight.pop_front() else { break };
            self.outcome_of(oldest)?;
            upload.content.note_stored();
        }
        if upload.content.backlog() != Backlog::Small {
            // A failed flush is reported by the next chunk.
            drop(self.database.environment().flush());
        }
        let mut busy = BusyWait::default();
        while let Some(time) = busy.next(&self.database)? {
            self.check_wanted()?;
            pause(time);
        }
        let submitted = self.submit(upload.content.take_chunk()?.batch)?;
        if upload.content.is_staged() {
            upload.in_flight.push_back(submitted);
            return Ok(());
        }
        let outcome = self.outcome_of(submitted)?;
        let (engine, database) = (Arc::clone(self.engine), self.database.clone());
        upload.content.stage(StagedContent::of_first_chunk(engine, database, &outcome)?);
        Ok(())
    }
}

/// Waits.
fn pause(time: Duration) {
    let nobody = Mutex::new(());
    let guard = nobody.lock().unwrap_or_else(PoisonError::into_inner);
    drop(Condvar::new().wait_timeout(guard, time));
}
