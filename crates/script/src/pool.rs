//! One engine per thread, created when the thread first needs one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use platform::Clock;

use crate::engine::{Engine, MEMORY_BYTES_MAX_DEFAULT};

thread_local! {
    /// The engines of this thread, one per pool that it has served.
    static ENGINES: RefCell<Vec<(Arc<Shared>, Rc<Engine>)>> = const { RefCell::new(Vec::new()) };
}

/// How many pools one thread keeps engines for; a server has one or two.
const POOLS_PER_THREAD_MAX: usize = 4;

/// Engines for any number of threads. Cheap to clone and to share.
#[derive(Clone)]
pub struct ScriptPool {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    memory_bytes_max: usize,
}

impl ScriptPool {
    /// A pool whose engines have the default bound on memory.
    pub fn new(clock: Arc<dyn Clock>) -> ScriptPool {
        ScriptPool::with_memory(clock, MEMORY_BYTES_MAX_DEFAULT)
    }

    /// A pool whose engines may use this many bytes each.
    pub fn with_memory(clock: Arc<dyn Clock>, memory_bytes_max: usize) -> ScriptPool {
        ScriptPool { shared: Arc::new(Shared { clock, memory_bytes_max }) }
    }

    /// What each engine may use, in bytes.
    pub fn memory_bytes_max(&self) -> usize {
        self.shared.memory_bytes_max
    }

    /// The engine of this thread. It must not be used to run a script from within a script.
    pub fn engine(&self) -> Rc<Engine> {
        ENGINES.with_borrow_mut(|engines| {
            if let Some((_, engine)) =
                engines.iter().find(|(pool, _)| Arc::ptr_eq(pool, &self.shared))
            {
                return Rc::clone(engine);
            }
            if engines.len() >= POOLS_PER_THREAD_MAX {
                engines.remove(0);
            }
            let clock = Arc::clone(&self.shared.clock);
            let engine = Rc::new(Engine::with_memory(clock, self.shared.memory_bytes_max));
            engines.push((Arc::clone(&self.shared), Rc::clone(&engine)));
            engine
        })
    }
}
