//! The configuration of Corvus: one table of keys, and the merge of everything that may set them.
//!
//! What it is: the rows ([`keys`]) with name, type, default, scope and help; the readers of
//! `settings.json`, of `RAVEN_*` environment variables and of the command line; and [`load`], which
//! merges them (default < file < environment < command line) into typed [`Settings`].
//!
//! What it is not: it opens no file, reads no environment and prints nothing. The caller passes the
//! inputs and decides what to do with the outcome.
//!
//! Invariant: a [`Settings`] value exists only if every key was understood, every value was in its
//! range and the addresses do not contradict the security settings. All problems are reported at
//! once.

#![forbid(unsafe_code)]

mod accepted_keys;
mod active_keys;
mod addresses;
mod command_line;
mod documentation;
mod effective;
mod environment;
mod key;
mod load;
mod merge;
mod problem;
mod security_settings;
mod settings;
mod settings_file;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod url;
mod value;

pub use crate::command_line::{FLAGS, Flag, command_line_help};
pub use crate::documentation::documentation_markdown;
pub use crate::effective::{Effective, Overridden, effective_text};
pub use crate::key::{Choice, Key, Only, Origin, Scope, SizeUnit, Status, TimeUnit, ValueType};
pub use crate::load::{DEFAULT_SETTINGS_FILE, Inputs, Loaded, Start, load};
pub use crate::problem::{
    AddressProblem, ArgumentProblem, Contradiction, FileProblem, Problem, SettingsError, Warning,
};
pub use crate::security_settings::{
    ApiKeySettings, AuditLogSettings, CertificatePlace, CertificateSource, MasterKeySource,
    ProgramSettings, SecuritySettings,
};
pub use crate::settings::{
    ChangesSettings, DatabaseLoadSettings, DatabaseSettings, DocumentLimits, GroupSettings,
    HttpSettings, LogSettings, MemorySettings, ServerLimits, Settings, SnapshotSettings,
};
pub use crate::settings_file::SETTINGS_JSON_BYTES_MAX;
pub use crate::source::Source;
pub use crate::table::{FAMILIES, Family, find_key, keys, nearest_name};
pub use crate::url::{Host, Scheme, ServerUrl};
pub use crate::value::{CompressionLevel, ProtocolVersion, UnsecuredAccess, check_of_index};
