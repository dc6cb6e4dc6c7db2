//! `POST /smuggler/import`: a dump that arrives as a part of a form. `rows` adds files of CSV and of JSON lines.
//!
//! Memory holds one element, a batch that is being collected and one that is being stored, all of it charged; the
//! client is not read while there is no room. The work runs in a separate task, so that the operation has an
//! outcome even when the client disconnects.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use engine::{BulkInsertStep, DumpImport, ImportNext, ImportTask, Importer};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use smuggler::{DumpError, DumpEvent, DumpReader, RowFormat, RowReader};
use tokio::{
    task::{block_in_place, yield_now},
    time::{Instant, timeout},
};
use wire::{ErrorKind, operation_state::OperationStatus, smuggler_result::MessageLevel};

use super::{
    Running, dump_file::DumpFile, importer, leave_out_record_unless, read_options,
    rows::CSV_OPTIONS,
};
use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::{
        body_share::BodyShare,
        data_rate::silent,
        multipart::{MultipartReader, PartEvent},
        request_body::RequestBody,
        request_coding::{Coding, StreamDecoder},
        router::Answering,
        service::error_answer,
    },
    server_state::ServerState,
    writes::{
        content_upload::ContentUpload,
        submitting::{Submitted, begin},
    },
};

/// Options are not longer than this.
const OPTIONS_BYTES_MAX: usize = 4 << 20;
/// Maximum overhead of an element around its document.
const ELEMENT_OVERHEAD_BYTES: usize = 1 << 20;
/// Parsing a longer element takes so long that the thread passes its other tasks on.
pub(super) const LONG_ELEMENT_BYTES: usize = 256 << 10;
/// How often an import that waits for its client checks whether it was stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// What an import reads.
pub(super) enum Source {
    /// A dump.
    Dump,
    /// CSV or JSON lines, and what a row is called.
    Rows { format: RowFormat, word: &'static str, collection: Option<String> },
}

/// `POST /smuggler/import`.
pub(crate) fn import(call: Call) -> Answering {
    Box::pin(async move {
        let running = |call: &Call| Running::begin(call, "Import to", "DatabaseImport");
        begin_import(call, Source::Dump, "This endpoint requires form content type", running).await
    })
}

/// Reads the form, in a task of its own. Anything else is refused with that message.
pub(super) async fn begin_import(
    mut call: Call,
    source: Source,
    no_form: &str,
    begin: impl FnOnce(&Call) -> Result<Running, ApiError>,
) -> Result<Answer, ApiError> {
    let parts = call.header(header::CONTENT_TYPE).and_then(MultipartReader::of);
    let Some(parts) = parts else {
        return Err(ApiError::new(ErrorKind::BadRequest, no_form));
    };
    let (parts, decoder) = (parts?, Coding::of_request(&call.headers)?.stream_decoder()?);
    let Some(body) = call.stream.take() else {
        return Err(ApiError::invalid_operation("the body of the import is missing"));
    };
    let importer = importer(&call)?;
    let running = begin(&call)?;
    let state = Arc::clone(&call.state);
    let arriving = Arriving { body, decoder, undecoded: Bytes::new(), parts, is_over: false };
    let begun = Begun { state, running, source, importer };
    match tokio::spawn(begun.run(arriving)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Ok(error_answer(&error, &call.target).with_header("connection", "close")),
        Err(error) => Err(ApiError::new(ErrorKind::Internal, error.to_string())),
    }
}

/// An import of which nothing was read.
struct Begun {
    state: Arc<ServerState>,
    running: Running,
    source: Source,
    importer: Importer,
}

impl Begun {
    async fn run(mut self, mut arriving: Arriving) -> Result<Answer, ApiError> {
        match self.import_parts(&mut arriving).await {
            Ok(result) => {
                let answer = Answer::shape(StatusCode::OK, &result.to_json());
                self.running.end(OperationStatus::Smuggled(Box::new(result)));
                Ok(answer)
            }
            Err(error) => {
                self.running.end_with(&error);
                Err(error)
            }
        }
    }

    /// Reads the options, if they come first, and the file.
    async fn import_parts(
        &mut self,
        arriving: &mut Arriving,
    ) -> Result<wire::smuggler_result::SmugglerResult, ApiError> {
        let Begun { state, running, source, importer } = self;
        let mut options = Vec::new();
        let mut result = None;
        while let Some(headers) = arriving.next_part(state, running).await? {
            if is_named(&headers, "importOptions") {
                options = arriving.whole_part(state, running).await?;
                continue;
            }
            if is_named(&headers, CSV_OPTIONS) {
                let sent = arriving.whole_part(state, running).await?;
                source.read_csv_options(&sent)?;
                continue;
            }
            let mut options = read_options(&options)?;
            leave_out_record_unless(&mut options, importer.is_administrator);
            let key = state.engine.smuggler_key(&options)?;
            let file = DumpFile::of(key.as_ref());
            let operation = Some(Arc::clone(&running.operation));
            let (engine, database) = (&state.engine, &running.database);
            let import = DumpImport::begin(engine, database, options, operation, *importer)?;
            let mut work = Work {
                state: Arc::clone(state),
                running,
                import,
                share: BodyShare::none_of(state),
                in_flight: None,
                upload: None,
                has_lost_batch: false,
            };
            let text = source.begin(&mut work.import, row_bytes_max(state));
            result = Some(work.import_file(arriving, file, text).await?);
        }
        result
            .ok_or_else(|| ApiError::new(ErrorKind::EndOfStream, "The form has no file to import."))
    }
}

/// The most that an element or a row may have.
fn row_bytes_max(state: &ServerState) -> usize {
    state.parse_limits().document_bytes_max.saturating_add(ELEMENT_OVERHEAD_BYTES)
}

/// What reads the text of the file.
pub(super) enum FileText {
    Dump(Box<DumpReader>),
    Rows(RowReader),
}

impl FileText {
    fn held_bytes(&self) -> usize {
        match self {
            FileText::Dump(reader) => reader.held_bytes(),
            FileText::Rows(reader) => reader.held_bytes(),
        }
    }
}

impl Source {
    fn begin(&self, import: &mut DumpImport, element_bytes_max: usize) -> FileText {
        match self {
            Source::Dump => FileText::Dump(Box::new(DumpReader::new(element_bytes_max))),
            Source::Rows { format, word, collection } => {
                import.begin_rows(word, collection.clone());
                FileText::Rows(RowReader::new(format.clone(), element_bytes_max))
            }
        }
    }
}

fn is_named(headers: &HeaderMap, name: &str) -> bool {
    let disposition = headers.get(header::CONTENT_DISPOSITION);
    let disposition = disposition.and_then(|value| value.to_str().ok()).unwrap_or_default();
    disposition.split(';').any(|parameter| {
        let value = parameter.trim().strip_prefix("name=");
        value.is_some_and(|value| value.trim_matches('"').eq_ignore_ascii_case(name))
    })
}

/// The body of the request, and its parts.
struct Arriving {
    body: RequestBody,
    /// Of the whole body.
    decoder: StreamDecoder,
    /// What has arrived and is not decoded yet: a few bytes may stand for very many.
    undecoded: Bytes,
    parts: MultipartReader,
    is_over: bool,
}

impl Arriving {
    /// The headers of the next part; what is left of the one before is passed over.
    async fn next_part(
        &mut self,
        state: &ServerState,
        running: &Running,
    ) -> Result<Option<HeaderMap>, ApiError> {
        loop {
            match self.next_event(state, running, None).await? {
                PartEvent::Begin(headers) => return Ok(Some(headers)),
                PartEvent::Over => return Ok(None),
                PartEvent::Content(_) | PartEvent::End | PartEvent::NeedMore => {}
            }
        }
    }

    async fn whole_part(
        &mut self,
        state: &ServerState,
        running: &Running,
    ) -> Result<Vec<u8>, ApiError> {
        let mut content = Vec::new();
        loop {
            match self.next_event(state, running, None).await? {
                PartEvent::Content(piece) if content.len() + piece.len() <= OPTIONS_BYTES_MAX => {
                    content.extend_from_slice(&piece);
                }
                PartEvent::Content(_) => {
                    return Err(ApiError::new(
                        ErrorKind::RequestTooLarge,
                        "The options are too long.",
                    ));
                }
                _ => return Ok(content),
            }
        }
    }

    /// The next event of the form. While the client is silent, others may want what the import holds.
    async fn next_event(
        &mut self,
        state: &ServerState,
        running: &Running,
        share: Option<&BodyShare>,
    ) -> Result<PartEvent, ApiError> {
        loop {
            match self.parts.next()? {
                PartEvent::NeedMore if self.is_over => return Err(MultipartReader::cut()),
                PartEvent::NeedMore => self.more(state, running, share).await?,
                event => return Ok(event),
            }
        }
    }

    async fn more(
        &mut self,
        state: &ServerState,
        running: &Running,
        share: Option<&BodyShare>,
    ) -> Result<(), ApiError> {
        if !self.undecoded.is_empty() {
            running.check_wanted()?;
            // Whatever else this thread has to do comes first.
            yield_now().await;
            let decoded = self.decoder.decode(&mut self.undecoded)?;
            self.parts.push(&decoded);
            return Ok(());
        }
        let settings = &state.engine.settings().http;
        let began = Instant::now();
        loop {
            running.check_wanted()?;
            let Ok(frame) = timeout(STOP_CHECK_INTERVAL, self.body.frame()).await else {
                let silence = began.elapsed();
                if settings.idle_connection_timeout < silence {
                    return Err(silent(settings.idle_connection_timeout));
                }
                if settings.data_rate_grace_period < silence {
                    self.yield_if_wanted(share)?;
                }
                continue;
            };
            match frame {
                None => self.is_over = true,
                Some(Err(error)) => {
                    return Err(ApiError::new(ErrorKind::EndOfStream, error.to_string()));
                }
                Some(Ok(frame)) => self.undecoded = frame.into_data().unwrap_or_default(),
            }
            return Ok(());
        }
    }

    fn yield_if_wanted(&self, share: Option<&BodyShare>) -> Result<(), ApiError> {
        let wanted = match () {
            () if share.is_some_and(BodyShare::try_give_up) => "memory",
            () if self.body.connection().try_give_up_place() => "a connection",
            () => return Ok(()),
        };
        let message =
            format!("Other requests wait for {wanted}, and nothing of this import arrives.");
        Err(ApiError::new(ErrorKind::RequestTimeout, message))
    }
}

/// An import that is running.
pub(super) struct Work<'r> {
    pub(super) state: Arc<ServerState>,
    running: &'r Running,
    pub(super) import: DumpImport,
    /// The memory charged for what is collected and for an element that is not complete.
    share: BodyShare,
    in_flight: Option<Submitted>,
    /// The content that is being read.
    upload: Option<ContentUpload>,
    /// Whether a batch could not be stored.
    has_lost_batch: bool,
}

impl Work<'_> {
    async fn import_file(
        &mut self,
        arriving: &mut Arriving,
        file: DumpFile,
        text: FileText,
    ) -> Result<wire::smuggler_result::SmugglerResult, ApiError> {
        let read = self.read_file(arriving, file, text).await;
        // What was read before a failure is stored, so that the result tells what is there.
        let stored = match &read {
            Err(error) if error.kind == ErrorKind::OperationCanceled => Ok(()),
            _ => self.store_all().await,
        };
        match read.and(stored) {
            Ok(()) => Ok(self.import.end()),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&mut self, error: ApiError) -> ApiError {
        self.import.note_stored();
        let summary = self.import.result().summary();
        let kind = error.kind;
        let done = match self.has_lost_batch {
            false => format!("Imported before that: {summary}."),
            true => format!("Read before that: {summary}; the last of it was not stored."),
        };
        let message = format!("{} {done}", error.message);
        self.import.report(MessageLevel::Error, &message);
        ApiError::new(kind, message).caused_by(error.full_text())
    }

    async fn read_file(
        &mut self,
        arriving: &mut Arriving,
        mut file: DumpFile,
        mut reader: FileText,
    ) -> Result<(), ApiError> {
        loop {
            let event = arriving.next_event(&self.state, self.running, Some(&self.share)).await?;
            let (piece, is_last) = match event {
                PartEvent::Content(piece) => (piece, false),
                PartEvent::End | PartEvent::Over => (Bytes::new(), true),
                PartEvent::Begin(_) | PartEvent::NeedMore => continue,
            };
            let mut coded = file.add(&piece, is_last)?;
            loop {
                let text = file.decode(&mut coded)?;
                match &mut reader {
                    FileText::Dump(reader) => self.take_text(reader, &text).await?,
                    FileText::Rows(reader) => self.take_rows(reader, &text).await?,
                }
                self.make_room(reader.held_bytes()).await?;
                yield_now().await;
                if coded.is_empty() {
                    break;
                }
            }
            if is_last {
                return match reader {
                    FileText::Dump(reader) => reader.finish().map_err(|error| damaged(&error)),
                    FileText::Rows(reader) => self.finish_rows(reader).await,
                };
            }
        }
    }

    async fn take_text(&mut self, reader: &mut DumpReader, text: &[u8]) -> Result<(), ApiError> {
        let mut piece = text;
        loop {
            let event = reader.next(&mut piece).map_err(|error| damaged(&error))?;
            let next = match event {
                DumpEvent::NeedMore => break,
                DumpEvent::Name(name) => self.import.name(name),
                DumpEvent::Value(text) => self.import.value(text),
                DumpEvent::Element { text, position } => {
                    let import = &mut self.import;
                    let is_long = import.has_script() || LONG_ELEMENT_BYTES < text.len();
                    let mut take = || {
                        self.state.with_builder(|builder| import.element(text, position, builder))
                    };
                    // It takes its time, and other clients must not wait for it.
                    if is_long { block_in_place(take) } else { take() }
                }
                DumpEvent::Bytes(bytes) => {
                    match &mut self.upload {
                        Some(upload) => upload.push(bytes).await?,
                        None => self.import.segment_bytes(bytes),
                    }
                    ImportNext::Read
                }
                DumpEvent::BytesEnd => {
                    self.end_content().await?;
                    self.import.segment_end();
                    ImportNext::Read
                }
                DumpEvent::SectionEnd => self.import.section_end(),
                DumpEvent::End => ImportNext::Read,
            };
            match next {
                ImportNext::Read => {}
                ImportNext::Drop(count) | ImportNext::Segment(count) => reader.expect_bytes(count),
                ImportNext::Content(count) => {
                    let (state, database) = (&self.state, &self.running.database);
                    let carried_bytes_max = self.import.carried_content_bytes_max();
                    let upload = ContentUpload::new(state, database, carried_bytes_max);
                    self.upload = Some(upload);
                    reader.expect_bytes(count);
                }
                ImportNext::Run(task) => self.run_task(*task).await?,
            }
            self.store_if_full().await?;
        }
        Ok(())
    }

    pub(super) async fn store_if_full(&mut self) -> Result<(), ApiError> {
        if self.import.batches().is_full() {
            self.store_batch().await?;
        }
        Ok(())
    }

    async fn end_content(&mut self) -> Result<(), ApiError> {
        if let Some(upload) = self.upload.take() {
            let (content, staged) = upload.finish().await?;
            self.import.content(content, staged);
        }
        Ok(())
    }

    /// A task sees what comes before it in the dump.
    async fn run_task(&mut self, task: ImportTask) -> Result<(), ApiError> {
        self.store_all().await?;
        let (state, database) = (Arc::clone(&self.state), self.running.database.clone());
        let outcome = blocking(move || Ok(task.run(&state.engine, &database)?)).await?;
        self.import.task_done(outcome);
        Ok(())
    }

    /// Charges what it holds. When there is not enough memory, stores what was collected to release some.
    async fn make_room(&mut self, reader_bytes: usize) -> Result<(), ApiError> {
        let held = (self.import.held_bytes() + reader_bytes) as u64;
        if self.share.try_grow_to(held).is_ok() {
            return Ok(());
        }
        self.store_all().await?;
        let held = (self.import.held_bytes() + reader_bytes) as u64;
        self.share.grow_when_there_is_room(held).await
    }

    async fn store_batch(&mut self) -> Result<(), ApiError> {
        self.import.batches().close_batch();
        self.advance().await
    }

    /// Stores what is collected, and waits until it is stored.
    async fn store_all(&mut self) -> Result<(), ApiError> {
        self.store_batch().await?;
        while self.in_flight.is_some() {
            self.wait_for_batch().await?;
            self.advance().await?;
        }
        Ok(())
    }

    async fn advance(&mut self) -> Result<(), ApiError> {
        loop {
            self.running.check_wanted()?;
            match self.import.batches().step()? {
                BulkInsertStep::Collect => return Ok(()),
                BulkInsertStep::Submit(batch) => {
                    let database = &self.running.database;
                    self.in_flight = Some(begin(&self.state, database, batch.into())?);
                }
                BulkInsertStep::Settle => self.wait_for_batch().await?,
                BulkInsertStep::Pause(time) => tokio::time::sleep(time).await,
            }
        }
    }

    async fn wait_for_batch(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.take() else { return Ok(()) };
        let outcome = submitted.await;
        let settled = self.import.batches().settle(outcome);
        self.share.shrink_to(self.import.held_bytes() as u64);
        self.has_lost_batch |= settled.is_err();
        settled?;
        self.import.note_stored();
        Ok(())
    }
}

fn damaged(error: &DumpError) -> ApiError {
    let kind = match error {
        DumpError::UnexpectedEnd { .. } => ErrorKind::EndOfStream,
        DumpError::ElementTooLong { .. } => ErrorKind::RequestTooLarge,
        DumpError::UnexpectedByte { .. } | DumpError::NameTooLong { .. } => ErrorKind::InvalidData,
    };
    ApiError::new(kind, format!("The dump is damaged: {error}."))
}
