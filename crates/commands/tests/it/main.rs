//! Batches and the commit queue, with power cuts, failing disks and many callers.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod executing;
mod gate;
mod histories;
mod memory;
mod patching;
mod power_cuts;
mod queue;
mod queue_failures;
mod script_places;
mod threads;
