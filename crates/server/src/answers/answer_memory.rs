//! The memory that is charged while a response is prepared, and retries while there is too little.

use std::rc::Rc;

use storage::WorkingMemory;

use crate::{
    answers::{
        long_answer::INLINE_BYTES_MAX,
        piece_sender::{RoomWait, WAIT_CHECK_INTERVAL},
    },
    server_state::ServerState,
};

/// Where the rows that are scanned before the response begins are charged.
pub(crate) fn counting_memory(state: &ServerState) -> Rc<WorkingMemory> {
    Rc::new(WorkingMemory::beyond(INLINE_BYTES_MAX as u64, &state.engine.memory().answers))
}

/// Retries work that may run out of memory, while waiting can help. For threads that may block.
pub(crate) fn wait_for_room<T, E>(
    memory: &WorkingMemory,
    may_wait: impl Fn(&E) -> bool,
    mut work: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut wait = RoomWait::default();
    loop {
        match work() {
            Err(error) if may_wait(&error) && !wait.is_over() => {
                memory.wait_for_room(WAIT_CHECK_INTERVAL);
            }
            done => return done,
        }
    }
}
