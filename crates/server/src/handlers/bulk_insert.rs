//! `/bulk_insert`: documents in one streamed body, committed in batches while it arrives.
//!
//! The content of an attachment follows its element directly. [`engine::BulkInsert`] collects the elements in batches
//! and decides how they are stored; this part reads them off the wire, charges the memory for all that it holds, and
//! waits. The work runs in a separate task, so that the operation has an outcome even when the client disconnects, or
//! is silent for longer than connections may be idle.

use std::{future::Future, pin::Pin, sync::Arc, task::Poll, time::Duration};

use blittable::{ObjectScanner, Scanned};
use bytes::Bytes;
use commands::BatchOutcome;
use database::{DatabaseLease, Operation};
use documents::{ExpectedVersion, PutAttachment};
use engine::{BulkInsert, BulkInsertStep, BulkInsertTotals, EngineError, RecordedSeries};
use http::StatusCode;
use http_body_util::BodyExt;
use model::{AttachmentName, DocumentId};
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
        body_share::{ASK_INTERVAL, BodyShare, SMALL_BODY_BYTES, charge_in_steps},
        data_rate::{YIELDING_BYTES, silent},
        request_body::RequestBody,
        request_coding::{Coding, StreamDecoder},
        router::Answering,
        service::error_answer,
    },
    server_state::ServerState,
    writes::{
        attachment_commands::attachment_name,
        content_upload::ContentUpload,
        counter_commands::change_counters,
        submitting::{Submitted, begin},
        time_series_commands::requested_change,
    },
};

/// Maximum overhead of an element around its document.
const ELEMENT_OVERHEAD_BYTES: usize = 64 << 10;
/// How often an insert that waits for its client checks whether it was stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

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

struct Insert {
    state: Arc<ServerState>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    elements: BulkInsert,
    scanner: ObjectScanner,
    /// The start of an element whose end has not arrived.
    partial: Vec<u8>,
    /// The memory charged for `partial` and `elements`.
    share: BodyShare,
    body: RequestBody,
    /// What has arrived while the insert waited for something else.
    arrived: Option<Event>,
    in_flight: Option<Submitted>,
    /// The array has been closed. A client may keep its body open until it has read the response,
    /// so nothing more is awaited.
    is_closed: bool,
    has_elements: bool,
    /// An attachment whose content comes next.
    coming: Option<ComingAttachment>,
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
    Committed(Result<BatchOutcome, EngineError>),
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
            elements: state.engine.begin_bulk_insert(&database, skip_unchanged),
            state,
            database,
            operation,
            scanner: ObjectScanner::new(element_bytes_max),
            partial: Vec::new(),
            body,
            arrived: None,
            in_flight: None,
            is_closed: false,
            has_elements: false,
            coming: None,
        }
    }

    async fn run(mut self, mut decoder: StreamDecoder) -> Result<(), ApiError> {
        let inserted = self.insert_all(&mut decoder).await;
        let committed = self.wait_for_batches().await;
        let outcome = inserted.and(committed);
        let now = self.state.engine.clock().now();
        match outcome {
            Ok(()) => {
                let BulkInsertTotals { processed, attachments, counters, time_series, .. } =
                    *self.elements.totals();
                let result = BulkOperationResult {
                    total: processed,
                    documents_processed: processed - attachments - counters - time_series,
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
        let totals = self.elements.totals();
        ApiError::invalid_operation(format!(
            "Failed to process bulk insert. Inserted {} items in {} batches.",
            group_digits(totals.processed),
            group_digits(totals.batches)
        ))
        .caused_by(cause.full_text())
    }

    async fn insert_all(&mut self, decoder: &mut StreamDecoder) -> Result<(), ApiError> {
        let stall_max = self.state.engine.settings().http.idle_connection_timeout;
        let grace = self.state.engine.settings().http.data_rate_grace_period;
        let mut last_piece = Instant::now();
        // The time in which the client was waited for, and what has come meanwhile.
        let (mut waited, mut bytes) = (Duration::ZERO, 0);
        while !self.is_closed {
            self.check_wanted()?;
            let began = Instant::now();
            let event = timeout(STOP_CHECK_INTERVAL, self.next_event()).await;
            waited += began.elapsed();
            if grace < waited {
                self.yield_if_wanted()?;
            }
            let Ok(event) = event else {
                if last_piece.elapsed() > stall_max {
                    return Err(silent(stall_max));
                }
                continue;
            };
            match event {
                Event::Piece(mut piece) => {
                    bytes += piece.len() as u64;
                    if YIELDING_BYTES <= bytes {
                        (waited, bytes) = (Duration::ZERO, 0);
                    }
                    while !piece.is_empty() {
                        self.take_piece(&decoder.decode(&mut piece)?).await?;
                        self.make_room().await?;
                    }
                    last_piece = Instant::now();
                }
                Event::Committed(outcome) => {
                    self.settle(outcome)?;
                    self.advance().await?;
                }
                Event::Idle => self.store_batch().await?,
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
        self.store_batch().await
    }

    fn check_wanted(&self) -> Result<(), ApiError> {
        if self.operation.should_stop() {
            let message = "The operation was canceled.";
            return Err(ApiError::new(ErrorKind::OperationCanceled, message));
        }
        if self.database.is_closing() {
            return Err(EngineError::DatabaseClosing { is_written: false }.into());
        }
        Ok(())
    }

    fn held_bytes(&self) -> u64 {
        charge_in_steps(self.partial.len() + self.elements.held_bytes(), &[SMALL_BODY_BYTES])
    }

    /// Charges what it holds. When there is not enough memory, submits what was collected to
    /// release some.
    async fn make_room(&mut self) -> Result<(), ApiError> {
        if self.share.try_grow_to(self.held_bytes()).is_ok() {
            return Ok(());
        }
        self.store_batch().await?;
        self.wait_for_batches().await?;
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

    /// Fails when others wait for the memory, or the connection, of a client that sends almost nothing.
    fn yield_if_wanted(&self) -> Result<(), ApiError> {
        let wanted = match () {
            () if self.share.try_give_up() => "memory",
            () if self.body.connection().try_give_up_place() => "a connection",
            () => return Ok(()),
        };
        let message =
            format!("Other requests wait for {wanted}, and almost nothing of this insert arrives.");
        Err(ApiError::new(ErrorKind::RequestTimeout, message))
    }

    /// Prefers what arrives over what was written, and both over being idle.
    async fn next_event(&mut self) -> Event {
        if let Some(arrived) = self.arrived.take() {
            return arrived;
        }
        let has_batch = !self.elements.is_empty();
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
                    if self.coming.is_none() {
                        self.store_full_batch().await?;
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
            let expected = ExpectedVersion::Any;
            let put = PutAttachment { id, name, content_type, expected, content };
            self.elements.put_attachment(put, staged);
            self.store_full_batch().await?;
        }
        Ok(rest)
    }

    fn take_element(&mut self, element: &[u8]) -> Result<(), ApiError> {
        let read =
            |builder: &mut blittable::Builder| wire::read_bulk_insert_element(element, builder);
        match self.state.with_builder(read)? {
            BulkInsertCommand::HeartBeat => {}
            BulkInsertCommand::Put { id, document } => {
                self.elements.put(id.as_deref(), document)?
            }
            BulkInsertCommand::TimeSeries { id, changes } => {
                let series = RecordedSeries::of(&self.database);
                let change = requested_change(&id, *changes, &series)?;
                self.elements.change_time_series(Box::new(change));
            }
            BulkInsertCommand::Counters(counters) => {
                self.elements.change_counters(change_counters(counters)?);
            }
            BulkInsertCommand::AttachmentPut { id, name, content_type, content_bytes } => {
                let carried_bytes_max = self.elements.carried_bytes_max();
                self.coming = Some(ComingAttachment {
                    id: DocumentId::new(id)?,
                    name: attachment_name(name)?,
                    content_type,
                    upload: ContentUpload::new(&self.state, &self.database, carried_bytes_max),
                    bytes_left: content_bytes,
                });
            }
        }
        Ok(())
    }

    async fn store_full_batch(&mut self) -> Result<(), ApiError> {
        if self.elements.is_full() {
            self.store_batch().await?;
        }
        Ok(())
    }

    /// Stores what is collected, after the batch in flight. The last part of it may be in flight then.
    async fn store_batch(&mut self) -> Result<(), ApiError> {
        self.elements.close_batch();
        self.advance().await
    }

    /// Does what the insert needs until it takes more elements. Meanwhile the client is not read: an insert waits for
    /// a busy server instead of failing at once.
    async fn advance(&mut self) -> Result<(), ApiError> {
        loop {
            match self.elements.step()? {
                BulkInsertStep::Collect => return Ok(()),
                BulkInsertStep::Submit(batch) => {
                    match begin(&self.state, &self.database, batch.into()) {
                        Ok(submitted) => self.in_flight = Some(submitted),
                        Err(error) => self.settle(Err(error))?,
                    }
                }
                BulkInsertStep::Settle => self.wait_for_batch().await?,
                BulkInsertStep::Pause(time) => self.pause(time).await?,
            }
        }
    }

    /// Waits until nothing is in flight.
    async fn wait_for_batches(&mut self) -> Result<(), ApiError> {
        while self.in_flight.is_some() {
            self.wait_for_batch().await?;
            self.advance().await?;
        }
        Ok(())
    }

    async fn wait_for_batch(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.take() else { return Ok(()) };
        let outcome = submitted.await;
        self.settle(outcome)
    }

    /// Notes the outcome of what was in flight.
    fn settle(&mut self, outcome: Result<BatchOutcome, EngineError>) -> Result<(), ApiError> {
        let settled = self.elements.settle(outcome);
        self.share.shrink_to(self.held_bytes());
        if settled? {
            let totals = self.elements.totals();
            self.operation.set_progress(BulkInsertProgress {
                processed: totals.processed,
                attachments_processed: totals.attachments,
                counters_processed: totals.counters,
                time_series_processed: totals.time_series,
                batch_count: totals.batches,
                last_processed_id: totals.last_id.clone(),
            });
        }
        Ok(())
    }
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
