//! The semantics of documents through the public interface, on a disk in memory.
#![forbid(unsafe_code)]

mod database;
mod deleting;
mod hilo;
mod log;
mod putting;
