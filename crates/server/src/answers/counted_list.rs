//! A list in a response that is complete before it is sent, whose memory is charged item by item.

use storage::CountedOutput;

use crate::{
    answers::{answer::Answer, answer_memory::counting_memory, json_text::Commas},
    api_error::ApiError,
    server_state::ServerState,
};

/// A JSON list whose text is charged to the memory for responses while it is written.
pub(crate) struct CountedList {
    body: CountedOutput,
    commas: Commas,
}

impl CountedList {
    /// A list without items; `head` is the text of the response up to the first one.
    pub(crate) fn begin(state: &ServerState, head: &[u8]) -> CountedList {
        let mut body = CountedOutput::new(&counting_memory(state));
        body.bytes.extend_from_slice(head);
        CountedList { body, commas: Commas::default() }
    }

    /// Appends the item that `write` appends, which takes no more than `bytes_max`.
    ///
    /// # Errors
    ///
    /// When there is no memory for it. Those of `write`.
    pub(crate) fn add(
        &mut self,
        bytes_max: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        self.body.append(bytes_max.saturating_add(1), |body| {
            self.commas.before_next(body);
            write(body)
        })
    }

    /// The response; `tail` is its text after the last item.
    pub(crate) fn end(mut self, tail: &[u8]) -> Answer {
        self.body.bytes.extend_from_slice(tail);
        Answer::counted_json(self.body)
    }
}
