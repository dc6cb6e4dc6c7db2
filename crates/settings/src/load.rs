//! From the inputs of a process to its settings, or to everything that is wrong with them.
//!
//! Not here: any input or output; the caller passes all inputs. Invariant: help and version work
//! whatever else is wrong.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::addresses::check_addresses;
use crate::command_line::{Action, read_arguments};
use crate::environment::read_environment;
use crate::key::Scope;
use crate::merge::{RawSetting, merge};
use crate::problem::{ArgumentProblem, FileProblem, Problem, SettingsError, Warning};
use crate::settings::Settings;
use crate::settings_file::read_json;
use crate::source::Source;

/// The settings file that is read when none is named; it need not exist.
pub const DEFAULT_SETTINGS_FILE: &str = "settings.json";

/// If one of these keys is invalid, checking addresses is pointless.
const ADDRESS_KEYS: [&str; 10] = [
    "ServerUrl",
    "ServerUrl.Tcp",
    "PublicServerUrl",
    "PublicServerUrl.Tcp",
    "Security.UnsecuredAccessAllowed",
    "Security.Certificate.Load.Exec.Arguments",
    "Security.MasterKey.Exec.Arguments",
    "Security.ApiKeys.Enabled",
    "Security.ApiKeys.Admin",
    "Security.TlsTerminatedByProxy",
];

/// What a process was started with.
pub struct Inputs<'a> {
    /// The arguments without the program's name and without a subcommand.
    pub arguments: Vec<OsString>,
    /// The environment; variables that do not begin with `RAVEN_` are skipped.
    pub environment: Vec<(OsString, OsString)>,
    /// Reads a whole file. Relative paths start at the working directory.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// What the process is to do.
#[derive(Debug)]
pub enum Start {
    /// Print [`crate::command_line_help`].
    Help,
    /// Print the version.
    Version,
    /// Print [`Settings::effective`], for example with [`crate::effective_text`].
    PrintConfig(Loaded),
    /// Report that the settings are good.
    CheckConfig(Loaded),
    /// Run the server.
    Serve(Loaded),
}

/// Settings that were loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What should be logged at every start.
    pub warnings: Vec<Warning>,
}

/// Reads everything that may set a key and merges it.
///
/// Precedence, lowest first: defaults, the settings file, `RAVEN_SETTINGS` (which replaces the file
/// in container images), `RAVEN_*`, `RAVEN_ARGS`, the command line.
///
/// # Errors
/// All problems at once.
pub fn load(inputs: Inputs<'_>) -> Result<Start, SettingsError> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let arguments = unicode_arguments(inputs.arguments, &mut problems);
    let line = read_arguments(arguments, &Source::CommandLine, &mut problems);
    let environment = read_environment(inputs.environment, &mut problems, &mut warnings);
    let extra = read_arguments(environment.arguments, &Source::EnvironmentArguments, &mut problems);
    let action = line.action.max(extra.action);
    let ignored: Vec<String> = line.ignored.into_iter().chain(extra.ignored).collect();
    if !ignored.is_empty() {
        warnings.push(Warning::FlagsWithoutEffect { names: ignored });
    }
    match action {
        Action::Help => return Ok(Start::Help),
        Action::Version => return Ok(Start::Version),
        Action::PrintConfig | Action::CheckConfig | Action::Serve => {}
    }

    let named = line.config_path.or(extra.config_path);
    let mut raw = read_settings_file(named, inputs.read_file, &mut problems);
    if let Some(json) = environment.json {
        raw.extend(read_json(json.as_bytes(), &Source::EnvironmentJson, &mut problems));
    }
    raw.extend(environment.raw);
    raw.extend(extra.raw);
    raw.extend(line.raw);
    let loaded = settle(raw, problems, warnings)?;
    Ok(match action {
        Action::PrintConfig => Start::PrintConfig(loaded),
        Action::CheckConfig => Start::CheckConfig(loaded),
        Action::Serve | Action::Help | Action::Version => Start::Serve(loaded),
    })
}

/// Merges the inputs, checks keys against each other, and builds the settings if all is well.
fn settle(
    raw: Vec<RawSetting>,
    mut problems: Vec<Problem>,
    mut warnings: Vec<Warning>,
) -> Result<Loaded, SettingsError> {
    let settings = Settings::from_merged(merge(raw, &mut problems, &mut warnings));
    let unclear = problems.iter().any(|problem| {
        matches!(problem, Problem::InvalidValue { name, .. } if ADDRESS_KEYS.contains(name))
    });
    if !unclear {
        check_addresses(&settings, &mut problems, &mut warnings);
    }
    if problems.is_empty() {
        Ok(Loaded { settings, warnings })
    } else {
        Err(SettingsError { scope: Scope::Server, problems })
    }
}

fn unicode_arguments(arguments: Vec<OsString>, problems: &mut Vec<Problem>) -> Vec<String> {
    let mut texts = Vec::new();
    for argument in arguments {
        match argument.into_string() {
            Ok(text) => texts.push(text),
            Err(argument) => problems.push(Problem::Argument(ArgumentProblem::NotUnicode {
                // The name is enough to find it, and the value may be a secret.
                text: argument.to_string_lossy().split('=').next().unwrap_or_default().to_owned(),
                source: Source::CommandLine,
            })),
        }
    }
    texts
}

fn read_settings_file(
    named: Option<PathBuf>,
    read_file: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    problems: &mut Vec<Problem>,
) -> Vec<RawSetting> {
    let must_exist = named.is_some();
    let path = named.unwrap_or_else(|| PathBuf::from(DEFAULT_SETTINGS_FILE));
    match read_file(&path) {
        Ok(bytes) => read_json(&bytes, &Source::File(path), problems),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if must_exist {
                problems.push(Problem::File(FileProblem::Missing { path }));
            }
            Vec::new()
        }
        Err(source) => {
            problems.push(Problem::File(FileProblem::Unreadable { path, source }));
            Vec::new()
        }
    }
}
