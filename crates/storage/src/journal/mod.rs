//! The journal: where a transaction becomes durable.

mod compression;
mod file;
mod record;
mod replay;
mod replayed_pages;
mod salvage;
mod writer;

pub(crate) use file::{FIRST_RECORD, any_journal, environment_of, is_name, is_unwritten};
pub(crate) use record::{PageChange, apply_difference};
pub use replay::Recovery;
pub(crate) use replay::{Replayed, remove_replayed, remove_unneeded, replay};
pub(crate) use replayed_pages::{ReplayedPages, Sealing};
pub(crate) use salvage::{SurvivingChanges, SurvivingJournal};
pub(crate) use writer::{AppendError, Journal};
