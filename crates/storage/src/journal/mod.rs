//! The journal: where a transaction becomes durable.

mod file;
mod record;
mod replay;
mod writer;

pub(crate) use file::FIRST_RECORD;
pub(crate) use replay::replay;
pub(crate) use writer::{AppendError, Journal};
