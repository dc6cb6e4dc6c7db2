//! Ranges of numbers that are assigned to clients, so that they can number documents themselves.
//!
//! The end of the last range of a tag is kept in the document `Raven/Hilo/<tag>`, which is
//! replicated like any other. A range is never assigned twice, except for an unused end that was
//! returned.

use blittable::{BlittableBuf, Edit, Item, ObjectBuilder, Value, modify};
use model::{DocumentId, HILO_COLLECTION, NodeTag, ticks::TICKS_PER_SECOND};

use crate::{
    error::DocumentError,
    metadata::METADATA,
    read,
    requests::{ExpectedVersion, RequestedId},
    write::DocumentWriter,
};

/// The size of the smallest range.
pub const HILO_CAPACITY_MIN: i64 = 32;
/// The largest range; the ranges of a busy client double up to it.
pub const HILO_CAPACITY_MAX: i64 = 1 << 20;
/// The largest number that a client may claim to know, or that it may reach with a range larger
/// than [`HILO_CAPACITY_MAX`]. The rest is for counting up, so that no request uses up the numbers of
/// a tag for all other clients.
pub const HILO_END_MAX: i64 = i64::MAX / 2;

const ID_PREFIX: &str = "Raven/Hilo/";
const MAX: &str = "Max";
/// A client that returns sooner gets a larger range.
const BUSY_TICKS: i64 = 30 * TICKS_PER_SECOND;
/// A client that returns later gets a smaller range.
const IDLE_TICKS: i64 = 60 * TICKS_PER_SECOND;

/// A client's request for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiLoRequest {
    /// The prefix of the ids.
    pub tag: String,
    /// How many numbers its last range had; 0 for a new client.
    pub last_batch_size: i64,
    /// When it got its last range, in ticks of UTC.
    pub last_range_at_ticks: Option<i64>,
    /// The largest number known to the client.
    pub last_max: i64,
    /// What stands between the tag and the number, usually `/`.
    pub separator: String,
}

/// A range reserved for one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiLoRange {
    /// The part of an id before the number.
    pub prefix: String,
    /// The first number of the range.
    pub low: i64,
    /// The last number of the range, included.
    pub high: i64,
    /// The size of the range.
    pub last_size: i64,
    /// The part of an id after the number.
    pub server_tag: NodeTag,
    /// The current time, in ticks of UTC.
    pub last_range_at_ticks: i64,
}

/// The last number of the range of `size` numbers after `start`; none if it would be beyond the
/// numbers there are, or beyond those that a request may claim. What is `stored` already need not be
/// claimed: clients send the end of their last range.
fn end_of_range(start: i64, size: i64, stored: i64, request: &HiLoRequest) -> Option<i64> {
    let end = start.checked_add(size)?;
    let claimed = if size <= HILO_CAPACITY_MAX { request.last_max } else { end };
    (claimed <= HILO_END_MAX.max(stored)).then_some(end)
}

fn capacity(request: &HiLoRequest, now_ticks: i64) -> i64 {
    let last = request.last_batch_size;
    let Some(last_range_at) = request.last_range_at_ticks else {
        return last.max(HILO_CAPACITY_MIN);
    };
    match now_ticks.saturating_sub(last_range_at) {
        busy if busy < BUSY_TICKS => {
            last.saturating_mul(2).clamp(HILO_CAPACITY_MIN, HILO_CAPACITY_MAX)
        }
        idle if IDLE_TICKS < idle => (last / 2).max(HILO_CAPACITY_MIN),
        _ => last.max(HILO_CAPACITY_MIN),
    }
}

impl DocumentWriter<'_> {
    /// Reserves the next range of a tag.
    ///
    /// # Errors
    /// Those of [`DocumentWriter::put`]; a stored end that is not a number;
    /// [`DocumentError::HiLoExhausted`], with which nothing is stored.
    pub fn next_hilo_range(&mut self, request: &HiLoRequest) -> Result<HiLoRange, DocumentError> {
        let now_ticks = self.now_ticks();
        let id = DocumentId::new(format!("{ID_PREFIX}{}", request.tag))?;
        let last_size = capacity(request, now_ticks);
        let (stored, end) = self.stored_hilo(&id)?;
        let end = end.unwrap_or(0);
        let start = end.max(request.last_max);
        let Some(high) = end_of_range(start, last_size, end, request) else {
            return Err(DocumentError::HiLoExhausted { tag: request.tag.clone(), start });
        };
        self.put_hilo(id, stored, high)?;
        Ok(HiLoRange {
            prefix: format!("{}{}", request.tag, request.separator),
            low: start + 1,
            high,
            last_size,
            server_tag: self.node_tag(),
            last_range_at_ticks: now_ticks,
        })
    }

    /// Takes back the numbers after `last` of the range that ends with `end`, unless a later range
    /// was assigned since. A database that receives from others keeps them: of several ends the highest one is right, so an
    /// end must not become lower.
    ///
    /// # Errors
    /// Those of [`DocumentWriter::put`]; a stored end that is not a number.
    pub fn return_hilo_range(
        &mut self,
        tag: &str,
        end: i64,
        last: i64,
    ) -> Result<(), DocumentError> {
        if self.has_sources {
            return Ok(());
        }
        let id = DocumentId::new(format!("{ID_PREFIX}{tag}"))?;
        let (stored, stored_end) = self.stored_hilo(&id)?;
        if stored_end == Some(end) && last < end {
            self.put_hilo(id, stored, last)?;
        }
        Ok(())
    }

    /// The stored document of a tag and the number in it.
    fn stored_hilo(
        &self,
        id: &DocumentId,
    ) -> Result<(Option<BlittableBuf>, Option<i64>), DocumentError> {
        let Some(document) = read::get(self.transaction(), id)? else {
            return Ok((None, None));
        };
        let end =
            document.body()?.root().get(MAX)?.map(|value| whole_number(&value)).transpose()?;
        Ok((Some(document.body()?.to_buf()), end))
    }

    fn put_hilo(
        &mut self,
        id: DocumentId,
        stored: Option<BlittableBuf>,
        end: i64,
    ) -> Result<(), DocumentError> {
        let body = match stored {
            // Other properties of the document are kept.
            Some(stored) => {
                let edit = Edit::Set { path: &[MAX], item: Item::Integer(end) };
                modify(&stored.as_view(), &[edit])
            }
            None => {
                let mut builder = ObjectBuilder::new();
                builder.put(MAX, end).begin_object(METADATA);
                builder.put("@collection", HILO_COLLECTION).end();
                builder.finish()
            }
        };
        self.put(&RequestedId::Exactly(id), &ExpectedVersion::Any, &body?).map(drop)
    }
}

fn whole_number(value: &Value<'_>) -> Result<i64, DocumentError> {
    match value {
        Value::Integer(number) => Ok(*number),
        // The cast truncates towards zero and saturates, as intended.
        Value::Number(text) => Ok(text.parse::<f64>().unwrap_or(0.0) as i64),
        Value::String(text) => Err(DocumentError::NotANumber { text: text.as_cow()?.into_owned() }),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(DocumentError::NotANumber { text: format!("{value:?}") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_with_haste() {
        let seconds = TICKS_PER_SECOND;
        let cases = [
            (0, None, 32),
            (100, None, 100),
            (-5, None, 32),
            (2_000_000, None, 2_000_000),
            (32, Some(0), 64),
            (2_000_000, Some(0), HILO_CAPACITY_MAX),
            (10, Some(29 * seconds), 32),
            (32, Some(30 * seconds), 32),
            (100, Some(60 * seconds), 100),
            (128, Some(61 * seconds), 64),
            (40, Some(61 * seconds), 32),
            (i64::MAX, Some(0), HILO_CAPACITY_MAX),
            (32, Some(-5 * seconds), 64),
        ];
        for (last_batch_size, ago, expected) in cases {
            let now_ticks = 1_000 * seconds;
            let request = HiLoRequest {
                tag: "users".to_owned(),
                last_batch_size,
                last_range_at_ticks: ago.map(|ago| now_ticks - ago),
                last_max: 0,
                separator: "/".to_owned(),
            };
            assert_eq!(capacity(&request, now_ticks), expected, "{last_batch_size} {ago:?}");
        }
    }
}
