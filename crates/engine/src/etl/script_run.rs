//! What the scripts of transformations run with, for tasks and trials alike.

use std::time::Duration;

use etl::ScriptRun;
use script::Budget;
use storage::MemoryBudget;

use crate::engine::Engine;

/// How long a script may run for one document.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(2);

/// See the module.
pub(super) fn script_run<'r>(engine: &Engine, node_tag: &'r str) -> ScriptRun<'r> {
    let budget = Budget {
        time_max: SCRIPT_TIME_MAX,
        result_bytes_max: engine.settings().documents.document_bytes_max,
        ..Budget::default()
    };
    ScriptRun { engine: engine.scripts().engine(), budget, node_tag }
}

/// What one document may take with what belongs to it; with little memory it is less.
const DOCUMENT_BYTES_MAX: usize = 256 << 20;
/// The fraction of the memory for work that one document may take.
const DOCUMENT_PART: u64 = 4;

/// The memory that the commands for one document may take, and the request that is made of them.
pub(super) fn document_bytes_max(work: &MemoryBudget) -> usize {
    let part = usize::try_from(work.bytes_max() / DOCUMENT_PART).unwrap_or(usize::MAX);
    DOCUMENT_BYTES_MAX.min(part)
}
