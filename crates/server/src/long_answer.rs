//! Answers that are made while they are sent: what makes one, where its bytes go, and its beginning.
//!
//! A long answer is an async function that writes into a buffer and offers it to a [`Sink`] now and then. The
//! same function writes short answers at once ([`at_once`]). Invariant: the status of a long answer is
//! decided when its first piece is there, so what fails before that is an error like any other.

use std::{
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use database::DatabaseLease;
use documents::DocumentRow;
use storage::{Held, WorkingMemory, WorkingScope};
use wire::ErrorKind;

use crate::{
    answer::{Answer, AnswerBody, Piece, Pieces, piece_channel},
    answer_threads::Making,
    api_error::{ApiError, no_room},
    piece_sender::{PieceSender, RoomWait, WriteReason},
    server_state::ServerState,
};

/// Answers of so many bytes are written at once; longer ones while they are sent.
pub(crate) const INLINE_BYTES_MAX: usize = 256 << 10;

/// Where the bytes of an answer go.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'s> {
    /// They stay where they are, up to so many.
    Whole { bytes_max: usize },
    /// On their way, a piece at a time.
    Pieces(&'s PieceSender),
}

impl Sink<'_> {
    /// Takes what has gathered, if that is enough; `false` when the answer must not go on.
    pub(crate) async fn take(self, gathered: &mut Vec<u8>) -> bool {
        match self {
            Sink::Whole { bytes_max } => gathered.len() <= bytes_max,
            Sink::Pieces(sender) => sender.send_if_enough(gathered).await,
        }
    }

    /// Where what is held beside the answer is counted: as much as the whole answer may be, or what the
    /// budget of answers has room for.
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

    /// Does what may find no room, again and again while it is of use to wait for room.
    ///
    /// # Errors
    /// As `work`.
    pub(crate) async fn with_room<T>(
        self,
        mut work: impl FnMut() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut wait = RoomWait::default();
        loop {
            match (work(), self) {
                (Err(error), Sink::Pieces(sender)) if error.kind == ErrorKind::LowMemory => {
                    if !sender.waits_for_room(&mut wait).await {
                        return Err(error);
                    }
                }
                (done, _) => return done,
            }
        }
    }

    /// Counts what a document takes while it is printed, before it is decompressed.
    ///
    /// # Errors
    /// 503 when there is no room.
    pub(crate) async fn hold(self, row: &DocumentRow<'_>) -> Result<Option<Held>, ApiError> {
        let Sink::Pieces(sender) = self else { return Ok(None) };
        if !row.is_compressed() {
            return Ok(None);
        }
        let mut held = sender.memory().holding();
        let bytes = row.body_bytes() as u64;
        self.with_room(|| held.grow_to(bytes).map_err(|error| no_room("Answers", error))).await?;
        Ok(Some(held))
    }
}

/// The result of work that has nothing to wait for, such as writing into [`Sink::Whole`]; `None` if it
/// waits.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Makes the sender of an answer, on the thread on which it stays.
type NewSender = Box<dyn FnOnce() -> PieceSender + Send>;

/// An answer that has not begun yet.
pub(crate) struct LongAnswer {
    database: DatabaseLease,
    make: Box<dyn FnOnce(NewSender) -> Making + Send>,
}

impl LongAnswer {
    /// An answer that `write` writes: `Ok(false)` when the sender said that it must not go on. `what`
    /// it is in a log; `write_reason` writes the reason behind what was written when it fails.
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
        LongAnswer { database: database.clone(), make: Box::new(make) }
    }

    /// Begins to make the answer, as soon as there is a place, and waits for its first piece.
    async fn begin(self, state: &ServerState) -> Result<Pieces, ApiError> {
        let LongAnswer { database, make } = self;
        let name = database.record().name.as_str().to_owned();
        let place = state.rooms.answers.take(&name).await?;
        let unread_max = state.settings.http.data_rate_grace_period;
        let (sender, mut pieces) = piece_channel();
        let new_sender = move || PieceSender::new(sender, database, place, unread_max);
        state.answer_threads.make(&name, Box::new(move || make(Box::new(new_sender))));
        match pieces.recv().await {
            Some(Piece::Failed(error)) => Err(*error),
            Some(first) => Ok(Pieces::begun(Some(first), pieces)),
            None => Err(ApiError::new(
                ErrorKind::Internal,
                "The answer could not be made. The log of the server says why.",
            )),
        }
    }
}

/// The same answer, begun if it is a long one.
pub(crate) async fn begun(answer: Answer, state: &ServerState) -> Result<Answer, ApiError> {
    let AnswerBody::Long(long) = answer.body else { return Ok(answer) };
    let body = AnswerBody::Stream(long.begin(state).await?);
    Ok(Answer { body, ..answer })
}

/// As the protocol says it at the end of a stream, behind its results.
pub(crate) fn reason_behind_results(error: &ApiError, out: &mut Vec<u8>) {
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

/// Contents and tables have no place for it: the log has it.
pub(crate) fn no_reason(_: &ApiError, _: &mut Vec<u8>) {}

fn write_property(error: &ApiError, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"Error\":");
    let text = format!("{}: {}", error.kind.type_name(), error.message);
    blittable::write_json_string(&text, out);
}
