//! From requests that write to the commands of the engine, and back.

pub(crate) mod answered;
pub(crate) mod attachment_commands;
pub(crate) mod batch_attachments;
pub(crate) mod batch_commands;
pub(crate) mod cluster_commands;
pub(crate) mod cluster_transaction;
pub(crate) mod content_upload;
pub(crate) mod counter_commands;
pub(crate) mod document_commands;
pub(crate) mod patch_commands;
pub(crate) mod submitting;
pub(crate) mod time_series_commands;
