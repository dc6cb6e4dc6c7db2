//! The memory of complete responses until their clients have read them.
//!
//! Short ones are not counted: their number is bounded by that of the connections. Long responses
//! that are produced while they are sent have places instead (see answer_places). Invariant: the
//! memory charged for a response is released when it has been sent, or its connection is gone.

use std::sync::Arc;

use bytes::Bytes;
use storage::MemoryBudget;

use crate::{
    answers::answer::{Answer, AnswerBody},
    api_error::{ApiError, no_room},
};

/// Larger responses are charged.
const SHORT_ANSWER_BYTES: usize = 16 << 10;
/// Charged responses are passed to their connection in parts of this many bytes.
const PART_BYTES: usize = 64 << 10;

/// Charges a complete response until it is sent. One that reports the outcome of a change is
/// charged even if there is no memory left; `is_repeatable` says that it is not one of those.
///
/// # Errors
///
/// 503 when there is no memory for a response that may be requested again.
pub(crate) fn count(
    answer: &mut Answer,
    budget: &Arc<MemoryBudget>,
    is_repeatable: bool,
) -> Result<(), ApiError> {
    let AnswerBody::Whole(bytes) = &answer.body else { return Ok(()) };
    if bytes.len() <= SHORT_ANSWER_BYTES {
        return Ok(());
    }
    let length = bytes.len() as u64;
    let mut share = budget.share(if is_repeatable { 0 } else { length });
    share.try_grow_to(length).map_err(|exhausted| no_room("Answers", exhausted))?;
    let (bytes, share) = (bytes.clone(), Some(share));
    answer.body = AnswerBody::Counted { bytes, is_measured: true, share };
    Ok(())
}

/// The next part of a charged response; `None` at its end.
pub(crate) fn next_part(bytes: &mut Bytes) -> Option<Bytes> {
    let part = bytes.split_to(bytes.len().min(PART_BYTES));
    (!part.is_empty()).then_some(part)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use wire::ErrorKind;

    use super::*;

    fn answer(bytes: usize) -> Answer {
        Answer::json_with(StatusCode::OK, vec![b'1'; bytes])
    }

    #[test]
    fn answers_together_take_so_much_and_give_it_back() {
        let budget = MemoryBudget::new(1_000_000);
        let (mut short, mut first) = (answer(SHORT_ANSWER_BYTES), answer(700_000));
        count(&mut short, &budget, true).unwrap();
        count(&mut first, &budget, true).unwrap();
        assert_eq!(budget.held_bytes(), 700_000);
        let refused = count(&mut answer(400_000), &budget, true).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::LowMemory);
        let mut done = answer(400_000);
        count(&mut done, &budget, false).unwrap();
        assert_eq!(budget.held_bytes(), 1_100_000);
        drop((short, first, done));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn a_counted_answer_goes_out_in_parts() {
        let mut bytes = Bytes::from(vec![7; 150 << 10]);
        let sizes: Vec<usize> =
            std::iter::from_fn(|| next_part(&mut bytes)).map(|part| part.len()).collect();
        assert_eq!(sizes, [64 << 10, 64 << 10, 22 << 10]);
    }
}
