//! Compiling definitions of indexes: a few at a time, in memory that is reserved before.
//!
//! The compiled form of a C# text, with what exists only while it is made, was measured to take up to 62
//! bytes for each token of the text (`1+1+1+…`). JavaScript is compiled within the heap of its
//! thread, which has a limit of its own. What an open index keeps is not reserved here: it is bounded
//! by the size of the record with the definitions.
//!
//! Invariant: a holder of a [`RoomToCompile`] waits for no other one.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::IndexDefinition;
use platform::ProcessMemory;
use storage::MemoryShare;

use crate::{engine::Engine, error::EngineError};

/// How many definitions are compiled at a time to define indexes.
const COMPILED_AT_ONCE_MAX: usize = 4;
/// How long a definition waits for its turn, and for memory.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Memory of a compiled C# text for each of its tokens, besides its copies.
const TOKEN_BYTES: u64 = 64;
/// How many copies of a text exist.
const COPIES: u64 = 4;
/// After a larger one is compiled, the thread releases what its allocator keeps: each thread keeps
/// its own.
const RELEASED_BYTES_MIN: u64 = 1 << 20;

/// The definitions that are being compiled.
#[derive(Debug, Default)]
pub(crate) struct Compilations {
    running: Mutex<usize>,
    ended: Condvar,
}

/// One of the places, until it is dropped.
pub(crate) struct CompilationTurn<'c>(&'c Compilations);

impl Compilations {
    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    fn take_turn(&self, wait_max: Duration) -> Result<CompilationTurn<'_>, EngineError> {
        let is_full = |running: &mut usize| COMPILED_AT_ONCE_MAX <= *running;
        let waited = self.ended.wait_timeout_while(self.running(), wait_max, is_full);
        let (mut running, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if is_full(&mut running) {
            return Err(EngineError::TooManyDefinitions);
        }
        *running += 1;
        Ok(CompilationTurn(self))
    }
}

impl Drop for CompilationTurn<'_> {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.ended.notify_one();
    }
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
        let bytes = compiled_bytes(definition).saturating_mul(forms);
        let mut share = self.memory.definitions.share(0);
        let wait_max = if bytes <= share.budget().bytes_max() { WAIT_MAX } else { Duration::ZERO };
        share
            .grow_to_within(bytes, wait_max)
            .map_err(|exhausted| EngineError::NoRoomToCompile { exhausted })?;
        Ok(RoomToCompile { share, memory: Arc::clone(&self.platform.memory) })
    }

    /// A turn to compile a definition, and memory for it. Blocks.
    ///
    /// # Errors
    /// [`EngineError::TooManyDefinitions`], and those of [`Engine::room_to_compile`].
    pub(crate) fn turn_to_compile(
        &self,
        definition: &IndexDefinition,
    ) -> Result<(RoomToCompile, CompilationTurn<'_>), EngineError> {
        let turn = self.compilations.take_turn(WAIT_MAX)?;
        Ok((self.room_to_compile(definition, 1)?, turn))
    }
}

fn compiled_bytes(definition: &IndexDefinition) -> u64 {
    let texts = definition.maps.iter().chain(&definition.reduce);
    let texts = texts.chain(definition.additional_sources.values());
    let is_script = definition.maps.iter().any(|map| indexing::is_javascript(map));
    let bytes_of = |text: &String| {
        let tokens = if is_script { 0 } else { tokens_in(text) };
        COPIES * text.len() as u64 + TOKEN_BYTES * tokens
    };
    texts.map(bytes_of).sum()
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
    fn only_some_are_compiled_at_a_time_and_others_get_the_next_turn() {
        let compilations = Compilations::default();
        let take = |wait_max| compilations.take_turn(wait_max);
        let mut turns: Vec<_> =
            (0..COMPILED_AT_ONCE_MAX).map(|_| take(Duration::ZERO).ok().unwrap()).collect();
        assert!(matches!(take(Duration::ZERO), Err(EngineError::TooManyDefinitions)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| take(Duration::MAX).is_ok());
            turns.pop();
            assert!(waits.join().unwrap());
        });
        assert!(take(Duration::ZERO).is_ok());
    }

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
