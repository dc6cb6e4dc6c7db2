//! Batches and the commit queue, with power cuts, failing disks and many callers.
#![forbid(unsafe_code)]

mod database;
mod executing;
mod histories;
mod naive;
mod power_cuts;
