//! Responses that are produced while they are sent: their producers, where their bytes go, and how
//! they start.
//!
//! A long response is an async function that writes into a buffer and periodically offers it to a
//! [`Sink`]. The same function produces short responses in one go ([`at_once`]). Invariant: the
//! status of a long response is decided when its first piece is ready, so an error before that is
//! reported like any other.

use std::{
    cell::Cell,
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll, Waker},
};

use database::DatabaseLease;
use engine::StopWhenGone;
use storage::{Held, WorkingMemory, WorkingScope};
use wire::ErrorKind;

use crate::{
    answers::{
        answer::{Answer, AnswerBody, Piece, Pieces, piece_channel},
        answer_threads::Making,
        piece_sender::{PieceSender, RoomWait, WriteReason},
    },
    api_error::{ApiError, no_room},
    server_state::ServerState,
};

/// Responses of up to this many bytes are produced in one go; longer ones while they are sent.
pub(crate) const INLINE_BYTES_MAX: usize = 256 << 10;

/// Where the bytes of a response go.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'s> {
    /// They stay in the buffer, up to this many.
    Whole { bytes_max: usize },
    /// To the client, a piece at a time.
    Pieces(&'s PieceSender),
}

impl Sink<'_> {
    /// Takes what has accumulated, if it is enough; `false` when the response must be aborted.
    pub(crate) async fn take(self, gathered: &mut Vec<u8>) -> bool {
        match self {
            Sink::Whole { bytes_max } => gathered.len() <= bytes_max,
            Sink::Pieces(sender) => sender.send_if_enough(gathered).await,
        }
    }

    /// Where memory besides the response is charged: limited by the maximum size of the whole
    /// response, or by the budget of responses.
    pub(crate) fn working_memory(self) -> Rc<WorkingMemory> {
        match self {
            Sink::Whole { bytes_max } => Rc::new(WorkingMemory::up_to(bytes_max as u64)),
            Sink::Pieces(sender) => Rc::clone(sender.memory()),
        }
    }

    /// Ends the scope of a row whose text is in `gathered`.
    pub(crate) fn end_row(self, scope: WorkingScope<'_>, gathered: &Vec<u8>) {
        match self {
            Sink::Whole { .. } => drop(scope),
            Sink::Pieces(sender) => sender.end_row(scope, gathered),
        }
    }

    /// Retries what may run out of memory, while waiting can help.
    ///
    /// # Errors
    /// As `work`.
    pub(crate) async fn with_room<T>(
        self,
        work: impl FnMut() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.with_room_for(&Cell::new(0), work).await
    }

    /// The same for work of many steps, which sets `progress` to what it has done: each step may wait anew.
    ///
    /// # Errors
    /// As `work`.
    pub(crate) async fn with_room_for<T>(
        self,
        progress: &Cell<u64>,
        mut work: impl FnMut() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut wait = RoomWait::default();
        loop {
            match (work(), self) {
                (Err(error), Sink::Pieces(sender)) if error.kind == ErrorKind::LowMemory => {
                    wait.note_progress(progress.get());
                    if !sender.waits_for_room(&mut wait).await {
                        return Err(error);
                    }
                }
                (done, _) => return done,
            }
        }
    }

    /// Charges the memory of a document while it is printed, before it is decompressed; nothing for
    /// one that is not compressed.
    ///
    /// # Errors
    ///
    /// 503 when there is not enough memory.
    pub(crate) async fn hold(self, decompressed: Option<u64>) -> Result<Option<Held>, ApiError> {
        let (Sink::Pieces(sender), Some(bytes)) = (self, decompressed) else { return Ok(None) };
        let mut held = sender.memory().holding();
        self.with_room(|| held.grow_to(bytes).map_err(|error| no_room("Answers", error))).await?;
        Ok(Some(held))
    }
}

/// The result of work that never waits, such as writing into [`Sink::Whole`]; `None` if it does.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Creates the sender of a response, on the thread on which it stays.
type NewSender = Box<dyn FnOnce() -> PieceSender + Send>;

/// A response that has not started yet.
pub(crate) struct LongAnswer {
    database: DatabaseLease,
    make: Box<dyn FnOnce(NewSender) -> Making + Send>,
    stop: Option<StopWhenGone>,
}

impl LongAnswer {
    /// A response that `write` writes: `Ok(false)` when the sender requests to stop. `what`
    /// describes it in the log; `write_reason` appends the reason to what was written when it
    /// fails.
    pub(crate) fn new<W>(
        database: &DatabaseLease,
        what: &'static str,
        write_reason: WriteReason,
        write: W,
    ) -> LongAnswer
    where
        W: AsyncFnOnce(&PieceSender, &mut Vec<u8>) -> Result<bool, ApiError> + Send + 'static,
    {
        let make = move |new_sender: NewSender| -> Making {
            Box::pin(async move {
                let sender = new_sender();
                let mut out = Vec::new();
                let written = write(&sender, &mut out).await;
                sender.end(what, written, out, write_reason).await;
            })
        };
        LongAnswer { database: database.clone(), make: Box::new(make), stop: None }
    }

    /// The same answer, whose work checks this flag: it is set when the client has gone.
    pub(crate) fn stopped_by(self, flag: Arc<AtomicBool>) -> LongAnswer {
        LongAnswer { stop: Some(StopWhenGone::begin(flag)), ..self }
    }

    /// Starts the response, as soon as there is a place, and waits for its first piece.
    async fn begin(self, state: &ServerState) -> Result<Pieces, ApiError> {
        let LongAnswer { database, make, stop } = self;
        let name = database.record().name.as_str().to_owned();
        let place = state.rooms.answers.take(&name).await?;
        let unread_max = state.engine.settings().http.data_rate_grace_period;
        let (sender, mut pieces) = piece_channel();
        let new_sender = move || PieceSender::new(sender, database, place, unread_max);
        state.answer_threads.make(&name, Box::new(move || make(Box::new(new_sender))));
        match pieces.recv().await {
            Some(Piece::Failed(error)) => Err(*error),
            Some(first) => Ok(Pieces::begun(Some(first), pieces).stopping(stop)),
            None => Err(ApiError::new(
                ErrorKind::Internal,
                "The response could not be produced. See the log of the server.",
            )),
        }
    }
}

/// The same response, started if it is a long one.
pub(crate) async fn begun(answer: Answer, state: &ServerState) -> Result<Answer, ApiError> {
    let AnswerBody::Long(long) = answer.body else { return Ok(answer) };
    let body = AnswerBody::Stream(long.begin(state).await?);
    Ok(Answer { body, ..answer })
}

/// In the protocol's form at the end of a stream, after its results.
pub(crate) fn reason_after_results(error: &ApiError, out: &mut Vec<u8>) {
    out.extend_from_slice(b"],");
    write_property(error, out);
    out.push(b'}');
}

/// As a line of its own.
pub(crate) fn reason_in_a_line(error: &ApiError, out: &mut Vec<u8>) {
    out.push(b'{');
    write_property(error, out);
    out.extend_from_slice(b"}\r\n");
}

/// Contents and tables have no room for it: it is in the log.
pub(crate) fn no_reason(_: &ApiError, _: &mut Vec<u8>) {}

fn write_property(error: &ApiError, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"Error\":");
    let text = format!("{}: {}", error.kind.type_name(), error.message);
    blittable::write_json_string(&text, out);
}
