//! `/bulk_insert`: documents in one streamed body, committed in batches while it arrives.
//!
//! The content of an attachment follows its element directly. What was committed before a failure
//! remains. Memory holds one element, the batch that is being collected and the one that is being
//! written, whatever the size of the body; all of that is charged. The work runs in a separate
//! task, so that the operation has an outcome even when the client disconnects, or is silent for
//! longer than connections may be idle.
//!
//! When memory is short, batches are so small that there is always enough memory for their
//! transactions. Invariant: an insert waits for memory only with a single element that is larger
//! than that, and not for long; so inserts that hold memory while they wait do not block each
//! other.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration};

use blittable::{ObjectScanner, Scanned};
use bytes::Bytes;
use commands::{Batch, BatchOutcome, Command, SubmitError};
use database::{DatabaseLease, Operation};
use documents::{DocumentError, ExpectedVersion, PutAttachment, PutDocument, RequestedId};
use engine::RecordedSeries;
use http::StatusCode;
use http_body_util::BodyExt;
use model::{AttachmentName, DocumentId, IdSeparator};
use tokio::time::{Instant, timeout};
use wire::{
    BulkInsertCommand, ErrorKind,
    operation_state::{
        BulkInsertProgress, BulkOperationResult, OperationFailure, OperationStatus, group_digits,
    },
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    http::{
        body_share::{ASK_INTERVAL, BodyShare, SMALL_BODY_BYTES, UNCOUNTED_BYTES},
        data_rate::silent,
        request_body::RequestBody,
        request_coding::{Coding, StreamDecoder},
        router::Answering,
        service::error_answer,
    },
    server_state::ServerState,
    writes::{
        attachment_commands::attachment_name,
        content_upload::{ContentUpload, StagedContents},
        counter_commands::change_counters,
        submitting::{Submitted, begin},
        time_series_commands::change_command,
    },
};

/// A batch is submitted when its commands have about this many bytes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// A batch is submitted when it has this many commands.
const BATCH_COMMANDS_MAX: usize = 4096;
/// Maximum overhead of an element around its document.
const ELEMENT_OVERHEAD_BYTES: usize = 64 << 10;
/// How often an insert that waits for its client checks whether it was stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How many times, and how long, a batch is submitted again to a full queue before the insert
/// fails.
const FULL_QUEUE_TRIES: usize = 600;
/// How many of them may also be waits for memory, for an element that is too large for
/// [`SMALL_BATCH_BYTES`].
const MEMORY_TRIES: usize = 100;
/// There is enough memory for batches of this size in any transaction.
const SMALL_BATCH_BYTES: usize = 128 << 10;
/// A whole batch is submitted when this many times its bytes are available: for the pages that it
/// changes, and for what others allocate until it is executed.
const TRANSACTION_TIMES: u64 = 8;
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(50);

/// `POST /bulk_insert`.
pub(crate) fn bulk_insert(mut call: Call) -> Answering {
    Box::pin(async move {
        let (id, skip_unchanged) = {
            let query = call.query();
            let skip = query.bool("skipOverwriteIfUnchanged")?.unwrap_or(false);
            (query.required_long("id")?, skip)
        };
        let Some(body) = call.stream.take() else {
            return Err(ApiError::invalid_operation("the body of the bulk insert is missing"));
        };
        let decoder = Coding::of_request(&call.headers)?.stream_decoder()?;
        let database = call.database()?.clone();
        let now = call.state.engine.clock().now();
        let operation = database
            .operations()
            .begin(id, "Bulk Insert", "BulkInsert", now)
            .map_err(|_| ApiError::new(ErrorKind::Overloaded, "Too many operations are running"))?;
        let state = Arc::clone(&call.state);
        let insert = Insert::new(state, database, operation, (body, skip_unchanged));
        match tokio::spawn(insert.run(decoder)).await {
            Ok(Ok(())) => Ok(Answer::empty(StatusCode::CREATED)),
            Ok(Err(error)) => {
                Ok(error_answer(&error, &call.target).with_header("connection", "close"))
            }
            Err(error) => Err(ApiError::new(ErrorKind::Internal, error.to_string())),
        }
    })
}

/// The charge for this many bytes: small numbers in one step, so that inserts in progress do not
/// wait for each other.
fn counted(bytes: usize) -> u64 {
    match bytes as u64 {
        bytes if UNCOUNTED_BYTES < bytes => bytes.max(SMALL_BODY_BYTES),
        bytes => bytes,
    }
}

struct Insert {
    state: Arc<ServerState>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    id_separator: IdSeparator,
    skip_unchanged: bool,
    scanner: ObjectScanner,
    /// The start of an element whose end has not arrived.
    partial: Vec<u8>,
    batch: Batch,
    batch_bytes: usize,
    /// The memory charged for `partial`, `batch` and what is in flight.
    share: BodyShare,
    body: RequestBody,
    /// What has arrived while the insert waited for something else.
    arrived: Option<Event>,
    in_flight: Option<Submitted>,
    in_flight_bytes: usize,
    /// The batch in flight, if it is small enough to be inserted again in parts.
    in_flight_copy: Option<Batch>,
    /// The array has been closed. A client may keep its body open until it has read the response,
    /// so nothing more is awaited.
    is_closed: bool,
    has_elements: bool,
    /// Ids that are in `batch` or in flight, recorded when unchanged documents are to be skipped:
    /// the stored documents are not up to date for them.
    unsettled: [HashSet<String>; 2],
    /// An attachment whose content comes next.
    coming: Option<ComingAttachment>,
    /// Contents for `batch` and for what is in flight.
    staged: [StagedContents; 2],
    /// What else `batch` and the batch in flight contain.
    other_commands: [OtherCommands; 2],
    last_id: Option<String>,
    processed: u64,
    other_commands_processed: OtherCommands,
    batches: u64,
}

/// Commands of a bulk insert that store anything but documents.
#[derive(Clone, Copy, Default)]
struct OtherCommands {
    attachments: u64,
    counters: u64,
    time_series: u64,
}

/// An attachment whose content follows its element.
struct ComingAttachment {
    id: DocumentId,
    name: AttachmentName,
    content_type: String,
    upload: ContentUpload,
    bytes_left: u64,
}

/// The next event while a body arrives.
enum Event {
    Piece(Bytes),
    End,
    Broken(String),
    Committed(Result<BatchOutcome, ApiError>),
    /// Nothing has arrived, and nothing is being written: a good time to write what was collected.
    Idle,
}

async fn next_frame(body: &mut RequestBody) -> Event {
    match body.frame().await {
        None => Event::End,
        Some(Ok(frame)) => Event::Piece(frame.into_data().unwrap_or_default()),
        Some(Err(error)) => Event::Broken(error.to_string()),
    }
}

impl Insert {
    fn new(
        state: Arc<ServerState>,
        database: DatabaseLease,
        operation: Arc<Operation>,
        (body, skip_unchanged): (RequestBody, bool),
    ) -> Insert {
        let document_bytes_max = state.parse_limits().document_bytes_max;
        let element_bytes_max = document_bytes_max.saturating_add(ELEMENT_OVERHEAD_BYTES);
        Insert {
            share: BodyShare::none_of(&state),
            state,
            id_separator: database.queue().id_separator(),
            database,
            operation,
            skip_unchanged,
            scanner: ObjectScanner::new(element_bytes_max),
            partial: Vec::new(),
            batch: Batch::default(),
            batch_bytes: 0,
            body,
            arrived: None,
            in_flight: None,
            in_flight_bytes: 0,
            in_flight_copy: None,
            is_closed: false,
            has_elements: false,
            unsettled: Default::default(),
            coming: None,
            staged: Default::default(),
            other_commands: Default::default(),
            last_id: None,
            processed: 0,
            other_commands_processed: OtherCommands::default(),
            batches: 0,
        }
    }

    async fn run(mut self, mut decoder: StreamDecoder) -> Result<(), ApiError> {
        let inserted = self.insert_all(&mut decoder).await;
        let committed = self.wait_for_batch().await;
        let outcome = inserted.and(committed);
        let now = self.state.engine.clock().now();
        match outcome {
            Ok(()) => {
                let OtherCommands { attachments, counters, time_series } =
                    self.other_commands_processed;
                let result = BulkOperationResult {
                    total: self.processed,
                    documents_processed: self.processed - attachments - counters - time_series,
                    attachments_processed: attachments,
                    counters_processed: counters,
                    time_series_processed: time_series,
                    details: Vec::new(),
                };
                self.operation.finish(OperationStatus::Completed(result), now);
                Ok(())
            }
            Err(error) if error.kind == ErrorKind::OperationCanceled => {
                self.operation.finish(OperationStatus::Canceled, now);
                Err(error)
            }
            Err(cause) => {
                let error = self.failure(&cause);
                let failure = OperationFailure {
                    type_name: error.kind.type_name().to_owned(),
                    message: error.message.clone(),
                    error: error.full_text(),
                    status_code: error.kind.status(),
                };
                self.operation.finish(OperationStatus::Faulted(failure), now);
                Err(error)
            }
        }
    }

    fn failure(&self, cause: &ApiError) -> ApiError {
        ApiError::invalid_operation(format!(
            "Failed to process bulk insert. Inserted {} items in {} batches.",
            group_digits(self.processed),
            group_digits(self.batches)
        ))
        .caused_by(cause.full_text())
    }

    async fn insert_all(&mut self, decoder: &mut StreamDecoder) -> Result<(), ApiError> {
        let stall_max = self.state.engine.settings().http.idle_connection_timeout;
        let mut last_piece = Instant::now();
        while !self.is_closed {
            self.check_wanted()?;
            let Ok(event) = timeout(STOP_CHECK_INTERVAL, self.next_event()).await else {
                let silence = last_piece.elapsed();
                if silence > stall_max {
                    return Err(silent(stall_max));
                }
                if silence > self.state.engine.settings().http.data_rate_grace_period {
                    self.yield_if_wanted()?;
                }
                continue;
            };
            match event {
                Event::Piece(mut piece) => {
                    while !piece.is_empty() {
                        self.take_piece(&decoder.decode(&mut piece)?).await?;
                        self.make_room().await?;
                    }
                    last_piece = Instant::now();
                }
                Event::Committed(outcome) => self.settle(outcome).await?,
                Event::Idle => self.submit_batch().await?,
                Event::Broken(message) => {
                    return Err(ApiError::new(ErrorKind::EndOfStream, message));
                }
                Event::End => break,
            }
        }
        if self.coming.is_some() {
            let message = "Attempted to read past the end of the stream.";
            return Err(ApiError::new(ErrorKind::EndOfStream, message));
        }
        self.scanner.finish().map_err(|error| scan_error(&error))?;
        if !self.is_closed && !self.has_elements {
            let message = "Attempted to read past the end of the stream.";
            return Err(ApiError::new(ErrorKind::EndOfStream, message));
        }
        self.submit_batch().await
    }

    fn check_wanted(&self) -> Result<(), ApiError> {
        if self.operation.should_stop() {
            let message = "The operation was canceled.";
            return Err(ApiError::new(ErrorKind::OperationCanceled, message));
        }
        if self.database.is_closing() {
            let message = "The database is being closed.";
            return Err(ApiError::new(ErrorKind::DatabaseDisabled, message));
        }
        Ok(())
    }

    fn held_bytes(&self) -> u64 {
        let copies = 1 + usize::from(self.in_flight_copy.is_some());
        counted(self.partial.len() + self.batch_bytes + copies * self.in_flight_bytes)
    }

    /// Charges what it holds. When there is not enough memory, submits what was collected to
    /// release some.
    async fn make_room(&mut self) -> Result<(), ApiError> {
        if self.share.try_grow_to(self.held_bytes()).is_ok() {
            return Ok(());
        }
        self.submit_batch().await?;
        self.wait_for_batch().await?;
        let wait = self.share.begin_to_wait(self.held_bytes());
        while !self.share.has_grown(&wait)? {
            self.pause(ASK_INTERVAL).await?;
        }
        Ok(())
    }

    /// Waits, unless the insert is stopped or its client disconnects.
    async fn pause(&mut self, time: Duration) -> Result<(), ApiError> {
        self.check_wanted()?;
        if self.arrived.is_some() {
            tokio::time::sleep(time).await;
            return Ok(());
        }
        match timeout(time, next_frame(&mut self.body)).await {
            Ok(Event::Broken(message)) => Err(ApiError::new(ErrorKind::EndOfStream, message)),
            Ok(arrived) => {
                self.arrived = Some(arrived);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// Fails when others wait for the memory, or the connection, of a silent client.
    fn yield_if_wanted(&self) -> Result<(), ApiError> {
        let wanted = match () {
            () if self.share.try_give_up() => "memory",
            () if self.body.connection().try_give_up_place() => "a connection",
            () => return Ok(()),
        };
        let message =
            format!("Other requests wait for {wanted}, and nothing of this insert arrives.");
        Err(ApiError::new(ErrorKind::RequestTimeout, message))
    }

    /// Prefers what arrives over what was written, and both over being idle.
    async fn next_event(&mut self) -> Event {
        if let Some(arrived) = self.arrived.take() {
            return arrived;
        }
        let has_batch = !self.batch.commands.is_empty();
        let in_flight = &mut self.in_flight;
        let mut frame = Box::pin(next_frame(&mut self.body));
        std::future::poll_fn(move |context| {
            if let Poll::Ready(arrived) = frame.as_mut().poll(context) {
                return Poll::Ready(arrived);
            }
            match in_flight {
                Some(submitted) => match Pin::new(submitted).poll(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(outcome) => {
                        *in_flight = None;
                        Poll::Ready(Event::Committed(outcome))
                    }
                },
                None if has_batch => Poll::Ready(Event::Idle),
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn take_piece(&mut self, mut piece: &[u8]) -> Result<(), ApiError> {
        loop {
            piece = self.take_content(piece).await?;
            match self.scanner.scan(piece).map_err(|error| scan_error(&error))? {
                Scanned::Element { start, end } => {
                    self.has_elements = true;
                    if self.partial.is_empty() {
                        self.take_element(&piece[start..end])?;
                    } else {
                        let mut element = std::mem::take(&mut self.partial);
                        element.extend_from_slice(&piece[start..end]);
                        self.take_element(&element)?;
                    }
                    piece = &piece[end..];
                    if self.coming.is_none() && self.is_batch_full() {
                        self.submit_batch().await?;
                    }
                }
                Scanned::Partial { start } => {
                    self.partial.extend_from_slice(&piece[start..]);
                    return Ok(());
                }
                Scanned::Between => {
                    self.is_closed = piece.contains(&b']') && self.scanner.finish().is_ok();
                    return Ok(());
                }
            }
        }
    }

    /// Takes the part that belongs to the content of an attachment; returns what follows it.
    async fn take_content<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], ApiError> {
        let Some(coming) = &mut self.coming else { return Ok(piece) };
        let length = usize::try_from(coming.bytes_left).unwrap_or(usize::MAX).min(piece.len());
        let (content, rest) = piece.split_at(length);
        coming.upload.push(content).await?;
        coming.bytes_left -= length as u64;
        if coming.bytes_left == 0
            && let Some(coming) = self.coming.take()
        {
            let ComingAttachment { id, name, content_type, upload, .. } = coming;
            let (content, staged) = upload.finish().await?;
            self.staged[0].append(staged);
            self.other_commands[0].attachments += 1;
            let expected = ExpectedVersion::Any;
            let put = PutAttachment { id, name, content_type, expected, content };
            self.take_command(Command::PutAttachment(put));
            if self.is_batch_full() {
                self.submit_batch().await?;
            }
        }
        Ok(rest)
    }

    fn take_command(&mut self, command: Command) {
        self.batch_bytes += command.size_bytes();
        self.batch.commands.push(command);
    }

    fn take_element(&mut self, element: &[u8]) -> Result<(), ApiError> {
        let read =
            |builder: &mut blittable::Builder| wire::read_bulk_insert_element(element, builder);
        let (id, document) = match self.state.with_builder(read)? {
            BulkInsertCommand::HeartBeat => return Ok(()),
            BulkInsertCommand::Put { id, document } => (id, document),
            BulkInsertCommand::TimeSeries { id, changes } => {
                self.other_commands[0].time_series += 1;
                let series = RecordedSeries::of(&self.database);
                self.take_command(change_command(&id, *changes, &series)?);
                self.last_id = Some(id);
                return Ok(());
            }
            BulkInsertCommand::Counters(counters) => {
                let request = change_counters(counters)?;
                self.last_id = Some(request.id.as_str().to_owned());
                self.other_commands[0].counters += 1;
                self.take_command(Command::ChangeCounters(request));
                return Ok(());
            }
            BulkInsertCommand::AttachmentPut { id, name, content_type, content_bytes } => {
                let small_bytes_max = BATCH_BYTES_MAX.saturating_sub(self.batch_bytes);
                self.coming = Some(ComingAttachment {
                    id: DocumentId::new(id)?,
                    name: attachment_name(name)?,
                    content_type,
                    upload: ContentUpload::new(&self.state, &self.database, small_bytes_max),
                    bytes_left: content_bytes,
                });
                return Ok(());
            }
        };
        let id = requested_id(id.as_deref(), self.id_separator)?;
        let put = PutDocument { id, expected: ExpectedVersion::Any, body: document };
        if self.skip_unchanged && self.is_unchanged(&put)? {
            self.processed += 1;
            return Ok(());
        }
        if let RequestedId::Exactly(id) = &put.id {
            self.last_id = Some(id.as_str().to_owned());
            if self.skip_unchanged {
                self.unsettled[0].insert(id.lower_cased().to_owned());
            }
        }
        self.take_command(Command::Put(put));
        Ok(())
    }

    /// Whether the same document is already stored.
    fn is_unchanged(&self, put: &PutDocument) -> Result<bool, ApiError> {
        let RequestedId::Exactly(id) = &put.id else { return Ok(false) };
        if self.unsettled.iter().any(|ids| ids.contains(id.lower_cased())) {
            return Ok(false);
        }
        let tx = self.database.read();
        let stored = documents::get(&tx, id)?;
        let Some(stored) = stored.filter(|stored| stored.id() == id.as_str()) else {
            return Ok(false);
        };
        let stored = stored.body()?.root();
        let new = put.body.as_view().root();
        let equal =
            blittable::equal(&blittable::Value::Object(stored), &blittable::Value::Object(new));
        equal.map_err(|error| ApiError::from(DocumentError::from(error)))
    }

    fn is_batch_full(&self) -> bool {
        self.batch_bytes >= BATCH_BYTES_MAX || self.batch.commands.len() >= BATCH_COMMANDS_MAX
    }

    /// Waits for the batch in flight, then submits the collected one: as a whole, or when memory is
    /// short as several small ones.
    async fn submit_batch(&mut self) -> Result<(), ApiError> {
        self.wait_for_batch().await?;
        // Contents staged for attachments are settled with their whole batch.
        let has_attachments = 0 < self.other_commands[0].attachments;
        while !has_attachments && !self.has_memory(self.batch_bytes) {
            let small = self.batch.split_first(SMALL_BATCH_BYTES);
            if self.batch.commands.is_empty() {
                self.batch = small;
                break;
            }
            // The rest of the batch is settled with its last part.
            self.batch_bytes = self.batch_bytes.saturating_sub(small.size_bytes());
            self.insert_small(small).await?;
        }
        if self.batch.commands.is_empty() {
            return Ok(());
        }
        let batch_bytes = std::mem::take(&mut self.batch_bytes);
        let batch = std::mem::take(&mut self.batch);
        self.unsettled.swap(0, 1);
        self.staged.swap(0, 1);
        self.other_commands.swap(0, 1);
        self.wait_for_room(batch_bytes).await?;
        self.in_flight_copy =
            (!has_attachments && batch_bytes <= SMALL_BATCH_BYTES).then(|| batch.clone());
        self.begin(batch, batch_bytes)
    }

    /// Inserts a part of a batch. When there is not enough memory for its few changes, it is
    /// retried in smaller parts, and a single element for a while.
    async fn insert_small(&mut self, mut left: Batch) -> Result<(), ApiError> {
        let (mut part_bytes_max, mut tries) = (SMALL_BATCH_BYTES, 0);
        while !left.commands.is_empty() {
            let part = left.split_first(part_bytes_max);
            let part_bytes = part.size_bytes();
            let is_small = part_bytes <= SMALL_BATCH_BYTES && tries < MEMORY_TRIES;
            let again = is_small.then(|| part.clone());
            self.wait_for_room(part_bytes).await?;
            self.begin(part, part_bytes)?;
            match (self.wait_for_part().await, again) {
                (Err(error), Some(again)) if may_succeed_in_parts(&error, &again) => {
                    tries += 1;
                    part_bytes_max = (part_bytes / 2).max(1);
                    left.commands.splice(..0, again.commands);
                    self.pause(FULL_QUEUE_PAUSE).await?;
                }
                (inserted, _) => {
                    inserted?;
                    // One difficult moment must not slow down the rest.
                    tries = 0;
                    part_bytes_max = part_bytes_max.saturating_mul(2).min(SMALL_BATCH_BYTES);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, batch: Batch, bytes: usize) -> Result<(), ApiError> {
        self.in_flight = Some(begin(&self.state, &self.database, batch.into())?);
        self.in_flight_bytes = bytes;
        Ok(())
    }

    /// A bulk insert waits for a busy server instead of failing immediately, and for a while for
    /// memory for a single large element; its client is not read in the meantime.
    async fn wait_for_room(&mut self, batch_bytes: usize) -> Result<(), ApiError> {
        for number in 0..FULL_QUEUE_TRIES {
            let is_small = batch_bytes <= SMALL_BATCH_BYTES;
            let may_begin = is_small || MEMORY_TRIES <= number || self.has_memory(batch_bytes);
            if may_begin && self.database.has_room() {
                return Ok(());
            }
            self.pause(FULL_QUEUE_PAUSE).await?;
        }
        Err(SubmitError::Full.into())
    }

    /// Whether a transaction is likely to get the memory that a batch needs.
    fn has_memory(&self, batch_bytes: usize) -> bool {
        let budget = &self.state.engine.memory().transactions;
        let bytes = TRANSACTION_TIMES.saturating_mul(batch_bytes as u64);
        budget.share(0).try_grow_to(bytes.min(budget.bytes_max() / 2)).is_ok()
    }

    async fn wait_for_batch(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.take() else { return Ok(()) };
        let outcome = submitted.await;
        self.settle(outcome).await
    }

    /// Notes the outcome of the batch that was in flight. A small one for which there was not enough
    /// memory is inserted again in parts.
    async fn settle(&mut self, outcome: Result<BatchOutcome, ApiError>) -> Result<(), ApiError> {
        let inserted = match (outcome, self.in_flight_copy.take()) {
            (Err(error), Some(copy)) if may_succeed_in_parts(&error, &copy) => {
                self.give_back();
                self.insert_small(copy).await.map(|()| 0)
            }
            (outcome, _) => outcome.map(|outcome| outcome.results.len() as u64),
        };
        self.note_committed(inserted)
    }

    /// Waits for a part of a batch.
    async fn wait_for_part(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.take() else { return Ok(()) };
        let outcome = submitted.await;
        self.give_back();
        self.processed += outcome?.results.len() as u64;
        self.batches += 1;
        Ok(())
    }

    /// Nothing is in flight any more.
    fn give_back(&mut self) {
        self.in_flight_bytes = 0;
        self.share.shrink_to(self.held_bytes());
    }

    /// Notes that a batch is stored, of whose elements `inserted` are not counted yet.
    fn note_committed(&mut self, inserted: Result<u64, ApiError>) -> Result<(), ApiError> {
        self.unsettled[1].clear();
        self.give_back();
        let other_commands = std::mem::take(&mut self.other_commands[1]);
        let mut staged = std::mem::take(&mut self.staged[1]);
        self.processed += inserted?;
        let processed = &mut self.other_commands_processed;
        processed.attachments += other_commands.attachments;
        processed.counters += other_commands.counters;
        processed.time_series += other_commands.time_series;
        let OtherCommands { attachments, counters, time_series } = *processed;
        staged.are_put();
        self.batches += 1;
        self.operation.set_progress(BulkInsertProgress {
            processed: self.processed,
            attachments_processed: attachments,
            counters_processed: counters,
            time_series_processed: time_series,
            batch_count: self.batches,
            last_processed_id: self.last_id.clone(),
        });
        Ok(())
    }
}

/// Whether a retry makes sense: once there is memory, for changes or for those that wait for their
/// flush, or in smaller parts.
fn may_succeed_in_parts(error: &ApiError, batch: &Batch) -> bool {
    match error.kind {
        ErrorKind::LowMemory | ErrorKind::Overloaded => true,
        ErrorKind::RequestTooLarge => 1 < batch.commands.len(),
        _ => false,
    }
}

fn requested_id(id: Option<&str>, separator: IdSeparator) -> Result<RequestedId, ApiError> {
    let requested =
        RequestedId::parse(id, separator).map_err(|error| ApiError::argument(error.to_string()))?;
    if matches!(requested, RequestedId::Identity(_)) {
        let id = id.unwrap_or_default().to_owned();
        return Err(DocumentError::UnresolvedIdentity { id }.into());
    }
    Ok(requested)
}

fn scan_error(error: &blittable::ScanError) -> ApiError {
    match error {
        blittable::ScanError::UnexpectedEnd { .. } => {
            ApiError::new(ErrorKind::EndOfStream, "Attempted to read past the end of the stream.")
        }
        blittable::ScanError::ElementTooLarge { .. } => {
            ApiError::new(ErrorKind::RequestTooLarge, error.to_string())
        }
        blittable::ScanError::UnexpectedByte { .. } => {
            ApiError::new(ErrorKind::InvalidData, error.to_string())
        }
    }
}
