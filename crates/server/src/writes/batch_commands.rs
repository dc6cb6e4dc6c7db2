//! The commands of a batch: from the protocol's form to the engine's, and their results back.
//!
//! Each group of commands has a module of its own, which converts them and prints their results. One command of the
//! protocol becomes none, one or several of the engine's; [`BatchAnswer`] records how many, so that each takes exactly
//! its own results.

use std::vec;

use commands::{Batch, BatchOutcome, Command, CommandResult};
use documents::NewContent;
use engine::RecordedSeries;
use model::IdSeparator;
use wire::{BatchBody, BatchCommand, ErrorKind, ProtocolError};

use crate::{
    answers::json_text::{JsonArray, JsonObject},
    api_error::ApiError,
    http::body_share::BodyShare,
    server_state::ServerState,
    writes::{
        answered::{Answered, CommandAnswer, Executed},
        attachment_commands, counter_commands, document_commands, patch_commands,
        time_series_commands,
    },
};

/// Memory of a command besides its documents, from when it is read until it is answered. The
/// engine's form exists until the end; the parsed form and the result do not exist at the same
/// time. In addition: what these point to, and roughly what the response contains of it.
const COMMAND_BYTES: usize = size_of::<Command>()
    + size_of::<BatchAnswer>()
    + ANSWER_BYTES_MAX
    + larger(size_of::<BatchCommand>(), size_of::<CommandResult>())
    + 256;

/// The maximum size of a [`CommandAnswer`].
const ANSWER_BYTES_MAX: usize = 32;

const fn larger(one: usize, other: usize) -> usize {
    if one < other { other } else { one }
}

/// Reads the commands of a batch, and charges the memory that they will take until they are
/// answered.
pub(crate) fn read_commands(
    state: &ServerState,
    share: &mut BodyShare,
    body: &[u8],
) -> Result<BatchBody, ApiError> {
    let mut room = |commands: usize| {
        let bytes = body.len() + commands * COMMAND_BYTES;
        share.grow_to(bytes as u64).map_err(|mut error| {
            if error.kind == ErrorKind::RequestTooLarge && 0 < commands {
                let fitting = fitting_commands(share.bytes_max(), body.len(), commands);
                error
                    .message
                    .push_str(&format!(" Up to {fitting} such commands fit into a batch."));
            }
            ProtocolError::from(error)
        })
    };
    Ok(state.with_builder(|builder| wire::read_bulk_docs(body, builder, &mut room))?)
}

/// How many commands fit into `bytes_max`, if they are like the first ones of `body`. All of it is
/// attributed to these, so that fewer are promised than fit rather than more.
fn fitting_commands(bytes_max: u64, body_bytes: usize, commands: usize) -> u64 {
    let bytes = COMMAND_BYTES + body_bytes.div_ceil(commands);
    (bytes_max / bytes as u64).max(1)
}

/// What the response contains for one command of the request.
pub(crate) struct BatchAnswer {
    /// How many of the engine's commands it became; the result of the last one is printed.
    commands: usize,
    answer: Box<dyn CommandAnswer>,
}

/// The batch, and what the response contains for each command of the request.
pub(crate) fn to_batch(
    commands: Vec<BatchCommand>,
    contents: Vec<NewContent>,
    (series, separator): (&RecordedSeries, IdSeparator),
) -> Result<(Batch, Vec<BatchAnswer>), ApiError> {
    let answers = Vec::with_capacity(commands.len());
    let (batch, contents) = (Batch::default(), contents.into_iter());
    let mut builder = BatchBuilder { batch, answers, contents, series, separator };
    commands.into_iter().try_for_each(|command| builder.add(command))?;
    Ok((builder.batch, builder.answers))
}

struct BatchBuilder<'s> {
    batch: Batch,
    answers: Vec<BatchAnswer>,
    /// Of the attachments that the commands put, in their order.
    contents: vec::IntoIter<NewContent>,
    series: &'s RecordedSeries,
    separator: IdSeparator,
}

impl BatchBuilder<'_> {
    /// Adds a command of the protocol.
    fn add(&mut self, command: BatchCommand) -> Result<(), ApiError> {
        match command {
            BatchCommand::Document(command) => {
                self.push(document_commands::answered(command, self.separator)?);
            }
            BatchCommand::Patch(command) => {
                self.push(patch_commands::answered(command, self.separator)?);
            }
            BatchCommand::Attachment(command) => {
                let answered = attachment_commands::answered(command, &mut self.contents)?;
                self.push(answered);
            }
            BatchCommand::Counters { id, counters, is_from_etl } => {
                self.push(counter_commands::answered(id, counters, is_from_etl)?);
            }
            BatchCommand::TimeSeries(command) => {
                self.push(time_series_commands::answered(command, self.series)?);
            }
            // As in the protocol: outside a cluster-wide transaction they have no effect.
            BatchCommand::CompareExchange { .. } => {}
        }
        Ok(())
    }

    fn push<A: CommandAnswer + 'static>(&mut self, answered: Answered<A>) {
        const { assert!(size_of::<A>() <= ANSWER_BYTES_MAX, "more is charged for each answer") };
        let before = self.batch.commands.len();
        match answered.executed {
            Executed::Nothing => {}
            Executed::One(command) => self.batch.commands.push(command),
            Executed::Several(commands) => self.batch.commands.extend(commands),
        }
        let commands = self.batch.commands.len() - before;
        self.answers.push(BatchAnswer { commands, answer: Box::new(answered.answer) });
    }
}

/// The response of a batch.
pub(crate) fn write_answer(
    outcome: Option<&BatchOutcome>,
    answers: &[BatchAnswer],
) -> Result<Vec<u8>, ApiError> {
    let mut results = outcome.map_or(&[][..], |outcome| &outcome.results).iter();
    let mut body = Vec::new();
    let mut page = JsonObject::begin(&mut body);
    let mut listed = JsonArray::begin(page.name("Results"));
    for BatchAnswer { commands, answer } in answers {
        let result = results.by_ref().take(*commands).last();
        answer.write(result, listed.element())?;
    }
    listed.end();
    page.end();
    Ok(body)
}
