//! Compiling definitions of indexes: a few at a time, in memory that is reserved before.
//!
//! The compiled form of a C# text, with what exists only while it is made, was measured to take up to 62
//! bytes for each token of the text (`1+1+1+…`). JavaScript is compiled within the heap of its
//! thread, which has a limit of its own. What an open index keeps is not reserved here: it is bounded
//! by the size of the record with the definitions.
//!
//! Invariant: a holder of a [`RoomToCompile`] waits for no other one.

use std::{sync::Arc, time::Duration};

use indexing::{IndexSet, Turn};
use model::IndexDefinition;
use platform::ProcessMemory;
use storage::MemoryShare;

use crate::{
    engine::Engine,
    error::EngineError,
    reservations::{RECORD_COPIES, WAIT_MAX, grow_within},
};

/// How many definitions are compiled at a time to define indexes.
pub(crate) const COMPILED_AT_ONCE_MAX: usize = 4;
/// Memory of a compiled C# text for each of its tokens, besides its copies.
const TOKEN_BYTES: u64 = 64;
/// How many copies of a text exist.
const COPIES: u64 = 4;
/// After a larger one is compiled, the thread releases what its allocator keeps: each thread keeps
/// its own.
const RELEASED_BYTES_MIN: u64 = 1 << 20;

/// A turn to define an index, with a place and memory to compile it, until it is dropped.
pub(crate) struct TurnToDefine<'t> {
    _room: RoomToCompile,
    _place: Turn<'t>,
    _defining: Turn<'t>,
}

/// Memory for the compiled forms of a definition, until it is dropped. Stays on the thread that
/// compiles.
pub struct RoomToCompile {
    share: MemoryShare,
    memory: Arc<dyn ProcessMemory>,
}

impl Drop for RoomToCompile {
    fn drop(&mut self) {
        if RELEASED_BYTES_MIN <= self.share.bytes() {
            self.memory.release_unused();
        }
    }
}

impl Engine {
    /// Memory for as many compiled forms of a definition, as soon as there is enough. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NoRoomToCompile`] when there is not within some seconds, or could never be.
    pub fn room_to_compile(
        &self,
        definition: &IndexDefinition,
        forms: u64,
    ) -> Result<RoomToCompile, EngineError> {
        self.room_of(compiled_bytes(definition).saturating_mul(forms), WAIT_MAX)
    }

    fn room_of(&self, bytes: u64, wait_max: Duration) -> Result<RoomToCompile, EngineError> {
        let mut share = self.memory.definitions.share(0);
        grow_within(&mut share, bytes, wait_max)
            .map_err(|exhausted| EngineError::NoRoomToCompile { exhausted })?;
        Ok(RoomToCompile { share, memory: Arc::clone(&self.platform.memory) })
    }

    /// A turn to define an index in this set, and memory to compile it and to add it to the record. Blocks, for some
    /// seconds altogether.
    ///
    /// # Errors
    /// [`EngineError::TooManyDefinitions`], and those of [`Engine::room_to_compile`].
    pub(crate) fn turn_to_define<'t>(
        &'t self,
        indexes: &'t IndexSet,
        definition: &IndexDefinition,
    ) -> Result<TurnToDefine<'t>, EngineError> {
        let clock = &self.platform.clock;
        let until = clock.monotonic() + WAIT_MAX;
        let left = || until.saturating_sub(clock.monotonic());
        // In this order: definitions of one database wait for each other without a place.
        let defining = indexes.begin_defining(left());
        let defining = defining.ok_or(EngineError::TooManyDefinitions)?;
        let place = self.compiling.take(left()).ok_or(EngineError::TooManyDefinitions)?;
        let recorded_bytes =
            RECORD_COPIES * texts_of(definition).map(|text| text.len() as u64).sum::<u64>();
        let room = self.room_of(compiled_bytes(definition) + recorded_bytes, left())?;
        Ok(TurnToDefine { _room: room, _place: place, _defining: defining })
    }
}

fn texts_of(definition: &IndexDefinition) -> impl Iterator<Item = &String> {
    let texts = definition.maps.iter().chain(&definition.reduce);
    texts.chain(definition.additional_sources.values())
}

fn compiled_bytes(definition: &IndexDefinition) -> u64 {
    let is_script = definition.maps.iter().any(|map| indexing::is_javascript(map));
    let bytes_of = |text: &String| {
        let tokens = if is_script { 0 } else { tokens_in(text) };
        COPIES * text.len() as u64 + TOKEN_BYTES * tokens
    };
    texts_of(definition).map(bytes_of).sum()
}

/// The number of tokens in a text, at least.
fn tokens_in(text: &str) -> u64 {
    let mut is_in_word = false;
    let begins_token = |byte: &u8| {
        let continues = is_in_word;
        is_in_word = byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
        let is_in_same_word = continues && is_in_word;
        !is_in_same_word && !byte.is_ascii_whitespace()
    };
    text.as_bytes().iter().copied().filter(begins_token).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_by_the_tokens_of_the_texts() {
        let definition = |maps: &[&str], reduce: Option<&str>| IndexDefinition {
            maps: maps.iter().map(|&map| map.to_owned()).collect(),
            reduce: reduce.map(str::to_owned),
            ..IndexDefinition::default()
        };
        let map = "from d in docs.Users select new { d.Name }";
        let bytes = 4 * map.len() as u64 + 13 * 64;
        assert_eq!(compiled_bytes(&definition(&[map, map], None)), 2 * bytes);
        assert_eq!(compiled_bytes(&definition(&[map], Some(map))), 2 * bytes);
        let script = "map('Users', u => ({ a: u.a }))";
        assert_eq!(compiled_bytes(&definition(&[script], None)), 4 * script.len() as u64);
    }
}
