//! Where a value came from.
//!
//! Invariant: the order of the variants is the order of precedence; a later one wins.

use std::fmt;
use std::path::PathBuf;

/// The origin of a value, lowest precedence first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The table of keys.
    Default,
    /// The settings file.
    File(PathBuf),
    /// The JSON text in the environment variable `RAVEN_SETTINGS`.
    EnvironmentJson,
    /// An environment variable `RAVEN_<key>`; the name as it was found.
    Environment(String),
    /// The extra command line in the environment variable `RAVEN_ARGS`.
    EnvironmentArguments,
    /// The command line.
    CommandLine,
    /// The settings in a database's record.
    DatabaseRecord,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::EnvironmentJson => f.write_str("environment variable RAVEN_SETTINGS"),
            Source::Environment(name) => write!(f, "environment variable {name}"),
            Source::EnvironmentArguments => f.write_str("environment variable RAVEN_ARGS"),
            Source::CommandLine => f.write_str("command line"),
            Source::DatabaseRecord => f.write_str("database record"),
        }
    }
}
