//! Memory: how much the server has, what uses it, and when it was low.

use database::{MemoryChange, MemoryLevel};
use http::StatusCode;
use model::date;
use serde_json::{Value, json};
use wire::humane_size;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

/// `GET /admin/debug/memory/stats`. The applicable part of RavenDB's shape, and the limits of
/// memory here.
pub(crate) fn stats(call: &Call) -> Result<Answer, ApiError> {
    let plan = call.state.engine.memory();
    let pressure = &plan.pressure;
    // Current where the system reports it, else the last known value.
    let measured = call.state.engine.platform().memory.usage().ok();
    let usage = measured.or_else(|| pressure.reading().map(|reading| reading.usage));
    let size = |bytes: Option<u64>| bytes.map(humane_size);
    let limit = pressure.limit().bytes;
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "MemoryInformation": {
            "PhysicalMemory": format!("{:.3} GBytes", call.state.machine.memory_gb),
            "WorkingSet": size(usage.map(|usage| usage.resident_bytes)),
            "UnmanagedAllocations": size(usage.map(|usage| usage.taken_bytes)),
            "DirtyMemory": humane_size(plan.unflushed.held_bytes()),
            "AvailableMemory": size(usage.map(|usage| usage.machine_free_bytes)),
            "AvailableMemoryForProcessing": size(usage.map(|usage| {
                limit.saturating_sub(usage.taken_bytes).min(usage.machine_free_bytes)
            })),
        },
        "Limit": {
            "Bytes": limit, "Humane": humane_size(limit), "LimitedBy": plan.limited_by,
            "LowBytes": pressure.low_bytes(), "CriticalBytes": pressure.critical_bytes(),
        },
        "State": level_name(pressure.level()),
        "Usage": {
            "TakenBytes": usage.map(|usage| usage.taken_bytes),
            "ResidentBytes": usage.map(|usage| usage.resident_bytes),
            "CountedBytes": plan.process.held_bytes(),
            "CountedBytesMax": plan.process.bytes_max(),
            "UncountedBytes": plan.uncounted.largest_bytes(),
            "UnflushedBytes": plan.unflushed.held_bytes(),
            "UnflushedBytesMax": plan.unflushed.bytes_max(),
            "UnflushedBytesMaxPerDatabase": plan.unflushed_bytes_max,
            "SystemUnflushedBytes": plan.system_unflushed.held_bytes(),
            "SystemUnflushedBytesMax": plan.system_unflushed.bytes_max(),
            "WorkBytes": plan.work.held_bytes(),
            "WorkBytesMax": plan.work.bytes_max(),
            "SmallBodiesBytes": plan.small_bodies.held_bytes(),
            "SmallBodiesBytesMax": plan.small_bodies.bytes_max(),
            "LargeBodiesBytes": plan.bodies.held_bytes(),
            "LargeBodiesBytesMax": plan.bodies.bytes_max(),
            "AnswersBytes": plan.answers.held_bytes(),
            "AnswersBytesMax": plan.answers.bytes_max(),
            "TransactionsBytes": plan.transactions.held_bytes(),
            "TransactionsBytesMax": plan.transactions.bytes_max(),
            "IndexBatchesBytes": plan.indexing.held_bytes(),
            "IndexBatchesBytesMax": plan.indexing.bytes_max(),
        },
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /admin/debug/memory/low-mem-log`: the latest changes, newest first.
pub(crate) fn changes(call: &Call) -> Result<Answer, ApiError> {
    let pressure = &call.state.engine.memory().pressure;
    let changes: Vec<Value> = pressure.changes().iter().rev().map(change_item).collect();
    let answer = json!({"@metadata": call.state.debug_metadata(), "Low Memory Events": changes});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn change_item(change: &MemoryChange) -> Value {
    let reading = &change.reading;
    json!({
        "Event": level_name(reading.level),
        "Time": date::format(change.at.ticks()),
        "FreeMem": humane_size(reading.left_bytes),
        "TakenMem": humane_size(reading.usage.taken_bytes),
        "MachineFreeMem": humane_size(reading.usage.machine_free_bytes),
    })
}

/// The protocol's name of a level.
pub(crate) fn level_name(level: MemoryLevel) -> &'static str {
    match level {
        MemoryLevel::Enough => "Normal",
        MemoryLevel::Low => "LowMemory",
        MemoryLevel::Critical => "CriticalMemory",
    }
}
