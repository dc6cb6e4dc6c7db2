//! Databases that replicate to each other, on simulated disks, in one thread.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod conflicts;
mod documents;
mod generated;
mod hubs;
mod identity;
mod parts;
mod world;
