//! Compiling definitions of indexes: a few at a time, in memory that is reserved before.
//!
//! How much a definition needs is estimated ([`indexing::compiled_bytes`]). What an open index keeps is not reserved
//! here: a database has memory for its indexes before it is opened.
//!
//! Invariant: a holder of a [`RoomToCompile`] waits for no other one.

use std::{sync::Arc, time::Duration};

use indexing::{IndexSet, Turn, texts_of};
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

fn compiled_bytes(definition: &IndexDefinition) -> u64 {
    let texts = texts_of(definition).map(|text| COPIES * text.len() as u64);
    indexing::compiled_bytes(definition) + texts.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_counted_with_their_compiled_forms() {
        let definition = |map: &str| IndexDefinition {
            maps: vec![map.to_owned()],
            ..IndexDefinition::default()
        };
        let map = "from d in docs.Users select new { d.Name }";
        assert_eq!(compiled_bytes(&definition(map)), 4 * map.len() as u64 + 13 * 64);
        let script = "map('Users', u => ({ a: u.a }))";
        assert_eq!(compiled_bytes(&definition(script)), 4 * script.len() as u64);
    }
}
