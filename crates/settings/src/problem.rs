//! Errors in settings, worded for the person who wrote them.
//!
//! Every problem explains what happened, what it means where that is not obvious, and what to do.
//! All of them are the caller's errors, except [`FileProblem::Unreadable`], which is the
//! environment's. Invariant: the value of a secret key is never part of a message.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::key::Scope;
use crate::settings_file::SETTINGS_JSON_BYTES_MAX;
use crate::source::Source;
use crate::url::ServerUrl;
use crate::value::UnsecuredAccess;

/// Exit code for a command line that was not understood.
const EXIT_USAGE: u8 = 2;
/// Exit code for settings that were not understood (`EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

/// Everything that is wrong with the settings.
#[derive(Debug)]
pub struct SettingsError {
    /// Whether the settings are those of the server or of one database.
    pub scope: Scope,
    /// At least one problem.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug)]
pub enum Problem {
    /// A name that is not in the table.
    UnknownKey {
        /// The name as it was written.
        name: String,
        /// Where it was set.
        source: Source,
        /// The name that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value that does not fit its key.
    InvalidValue {
        /// The name of the key.
        name: &'static str,
        /// The value, or a placeholder if it is secret.
        value: String,
        /// Where it was set.
        source: Source,
        /// What is expected, as a sentence without its full stop.
        expected: String,
    },
    /// A key whose guarantee Corvus cannot provide.
    RefusedKey {
        /// The name of the key.
        name: &'static str,
        /// Where it was set.
        source: Source,
        /// What is missing and what to do, as a sentence without its full stop.
        reason: &'static str,
    },
    /// The same key twice in one file, in one JSON text or in the environment.
    SetTwice {
        /// The name of the key.
        name: String,
        /// Where it was set.
        source: Source,
    },
    /// A key of the server in the settings of a database.
    ServerOnly {
        /// The name of the key.
        name: &'static str,
    },
    /// A settings file, or the JSON text in RAVEN_SETTINGS.
    File(FileProblem),
    /// The form of an argument.
    Argument(ArgumentProblem),
    /// Addresses that do not go together.
    Address(AddressProblem),
    /// Settings that do not go together.
    Contradiction(Contradiction),
}

/// Two settings that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Both are set, and they say where the same thing is.
    Both(&'static str, &'static str),
    /// The first is set and means nothing without the second.
    Lacks(&'static str, &'static str),
}

/// What is wrong with a settings file, or with the JSON text in RAVEN_SETTINGS.
#[derive(Debug)]
pub enum FileProblem {
    /// The settings file that was named does not exist.
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// The settings file could not be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A settings file, or the text in RAVEN_SETTINGS, that is too long to be one.
    TooLong {
        /// Where it is.
        source: Source,
    },
    /// A settings file, or the text in RAVEN_SETTINGS, that is not JSON.
    InvalidJson {
        /// Where it is.
        source: Source,
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, from 1.
        column: usize,
        /// What the fault is.
        message: String,
    },
    /// JSON that is not an object.
    NotAnObject {
        /// Where it is.
        source: Source,
    },
}

/// What is wrong with the form of an argument.
#[derive(Debug)]
pub enum ArgumentProblem {
    /// An argument that needs a value and has none.
    MissingValue {
        /// The argument.
        argument: String,
        /// Where it was set.
        source: Source,
    },
    /// An argument with a value that it has no use for.
    NeedlessValue {
        /// The argument without the value.
        argument: String,
        /// Where it was set.
        source: Source,
    },
    /// An argument that is neither a flag nor a key.
    UnexpectedArgument {
        /// The argument.
        argument: String,
        /// Where it was set.
        source: Source,
    },
    /// Text that is not Unicode.
    NotUnicode {
        /// The text, with replacement characters for invalid Unicode.
        text: String,
        /// Where it was set.
        source: Source,
    },
    /// RAVEN_ARGS with a quotation mark that is never closed.
    UnclosedQuote,
}

/// What is wrong with the addresses to listen on, taken together.
#[derive(Debug)]
pub enum AddressProblem {
    /// Several addresses to listen on and no public one.
    PublicUrlNeeded,
    /// Two addresses to listen on that are the same.
    SameAddress {
        /// The address that occurs again.
        url: ServerUrl,
    },
    /// An address of HTTPS without a certificate.
    CertificateMissing {
        /// The address.
        url: ServerUrl,
    },
    /// Settings that only have an effect with a certificate, and none.
    NothingToProtect,
    /// Settings that only have an effect with API keys, which are not enabled.
    ApiKeysDisabled,
    /// API keys without a certificate and without a key that may register the first one.
    NoAdministrator,
    /// Something else is said to end TLS although there is a certificate.
    TlsEndsHere,
    /// An address where API keys would be sent in the clear.
    KeysInTheClear {
        /// The address.
        url: ServerUrl,
    },
    /// An address of plain HTTP although there is a certificate.
    NotEncrypted {
        /// The address.
        url: ServerUrl,
    },
    /// An address that may not be served without certificates.
    UnsecuredAddress {
        /// The address.
        url: ServerUrl,
        /// What is allowed.
        allowed: UnsecuredAccess,
        /// What would have to be allowed.
        needed: UnsecuredAccess,
    },
}

/// A warning, which does not keep the server from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// An environment variable `RAVEN_*` that names no key.
    ///
    /// It is not an error because the prefix is not ours: container images, test drivers and
    /// scripts keep variables such as `RAVEN_HOME` that were never meant as settings, and refusing
    /// them would keep the server from starting where RavenDB starts.
    UnknownVariable {
        /// The name of the variable.
        name: String,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },
    /// A key that is accepted because of its prefix, but is not known itself and resembles one that
    /// is.
    UnlistedKey {
        /// The name as it was written.
        name: String,
        /// Where it was set.
        source: Source,
        /// The name that was probably meant.
        nearest: &'static str,
    },
    /// Keys that are accepted because RavenDB has them, and are not read.
    WithoutEffect {
        /// Their names.
        names: Vec<String>,
    },
    /// Flags that are accepted because RavenDB has them, and do nothing.
    FlagsWithoutEffect {
        /// The flags.
        names: Vec<String>,
    },
    /// The server listens without certificates on an address that anyone might reach.
    PublicWithoutCertificate {
        /// The address.
        url: ServerUrl,
    },
    /// A setting in a stored database record that is no longer understood and was left out.
    IgnoredInDatabase {
        /// The problem with it, in words.
        problem: String,
    },
}

impl SettingsError {
    /// The exit code a program should end with: 2 if the command line itself was not understood,
    /// 78 for everything else.
    pub fn exit_code(&self) -> u8 {
        let is_usage = |problem: &Problem| matches!(problem, Problem::Argument(_));
        if self.problems.iter().all(is_usage) { EXIT_USAGE } else { EXIT_CONFIG }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Server => f.write_str("The server was not started because of its settings:")?,
            Scope::Database => f.write_str("The settings of the database were not changed:")?,
        }
        self.problems.iter().try_for_each(|problem| write!(f, "\n  - {}", on_one_line(problem)))
    }
}

/// The text with control characters escaped: names and values are shown as they were given, and a terminal
/// must not obey them, nor may they look like a line of ours.
fn on_one_line(problem: &Problem) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    problem.to_string().chars().map(escaped).collect()
}

impl std::error::Error for SettingsError {}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Problem::File(FileProblem::Unreadable { source, .. }) => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownKey { name, source, nearest: Some(nearest) } => {
                write!(f, "Unknown setting '{name}'. Did you mean '{nearest}'? ({source})")
            }
            Problem::UnknownKey { name, source, nearest: None } => write!(
                f,
                "Unknown setting '{name}'. Remove it, or look its name up in \
                 docs/configuration.md. ({source})"
            ),
            Problem::InvalidValue { name, value, source, expected } => {
                write!(f, "Setting '{name}' cannot be '{value}'. {expected}. ({source})")
            }
            Problem::RefusedKey { name, source, reason } => {
                write!(f, "Setting '{name}' cannot be obeyed. {reason}. ({source})")
            }
            Problem::SetTwice { name, source } => write!(
                f,
                "Setting '{name}' is set twice, so it is unclear which value applies. Remove one. \
                 ({source})"
            ),
            Problem::ServerOnly { name } => write!(
                f,
                "Setting '{name}' holds for the whole server and cannot differ for one database. \
                 Set it in settings.json and restart the server."
            ),
            Problem::File(problem) => problem.fmt(f),
            Problem::Argument(problem) => problem.fmt(f),
            Problem::Address(problem) => problem.fmt(f),
            Problem::Contradiction(Contradiction::Both(one, other)) => {
                write!(f, "'{one}' and '{other}' are both set, but only one can count. Remove one.")
            }
            Problem::Contradiction(Contradiction::Lacks(name, needed)) => {
                write!(
                    f,
                    "'{name}' is set, but not '{needed}', without which it means nothing. Set it, or remove the other."
                )
            }
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileProblem::Missing { path } => write!(
                f,
                "The settings file '{}' does not exist. Correct the path, or leave --config-path \
                 out to do without a file.",
                path.display()
            ),
            FileProblem::Unreadable { path, source } => write!(
                f,
                "The settings file '{}' could not be read: {source}. Check that the user who runs \
                 the server may read it.",
                path.display()
            ),
            FileProblem::TooLong { source } => write!(
                f,
                "The settings are longer than {SETTINGS_JSON_BYTES_MAX} bytes, so this is hardly a \
                 settings file. Check the path. ({source})"
            ),
            FileProblem::InvalidJson { source, line, column, message } => write!(
                f,
                "The settings are not valid JSON at line {line}, column {column}: {message}. \
                 Correct the text there. ({source})"
            ),
            FileProblem::NotAnObject { source } => write!(
                f,
                "The settings must be one JSON object, as in {{\"DataDir\": \"data\"}}. ({source})"
            ),
        }
    }
}

impl fmt::Display for ArgumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentProblem::MissingValue { argument, source } => {
                write!(f, "'{argument}' needs a value. Write '{argument}=VALUE'. ({source})")
            }
            ArgumentProblem::NeedlessValue { argument, source } => {
                write!(f, "'{argument}' takes no value. Write it alone. ({source})")
            }
            ArgumentProblem::UnexpectedArgument { argument, source } => write!(
                f,
                "Unexpected argument '{argument}'. Settings are written --Name=VALUE; `corvus help` \
                 lists them, and the commands. ({source})"
            ),
            ArgumentProblem::NotUnicode { text, source } => {
                write!(f, "'{text}' is not valid Unicode. Write it in UTF-8. ({source})")
            }
            ArgumentProblem::UnclosedQuote => f.write_str(
                "RAVEN_ARGS contains a quotation mark that is never closed. Close it or remove it.",
            ),
        }
    }
}

impl fmt::Display for AddressProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressProblem::PublicUrlNeeded => f.write_str(
                "ServerUrl lists several addresses, so clients cannot know which to use. Set \
                 PublicServerUrl to the one they should use.",
            ),
            AddressProblem::SameAddress { url } => write!(
                f,
                "'{url}' has the same host and port as another address to listen on, and only one \
                 can have them. Change one of ServerUrl and ServerUrl.Tcp."
            ),
            AddressProblem::CertificateMissing { url } => write!(
                f,
                "'{url}' needs a certificate. Name one in Security.Certificate.Path; `corvus setup \
                 secure` makes one."
            ),
            AddressProblem::NothingToProtect => f.write_str(
                "Security.WellKnownCertificates.Admin or Security.Certificate.Password is set, but neither \
                 Security.Certificate.Path nor Security.Certificate.Load.Exec: without that, no client needs a \
                 certificate. Set it, or remove them.",
            ),
            AddressProblem::ApiKeysDisabled => f.write_str(
                "Security.ApiKeys.Admin or Security.TlsTerminatedByProxy is set, but not Security.ApiKeys.Enabled=true: \
                 without that, clients need no API key. Set it, or remove them.",
            ),
            AddressProblem::NoAdministrator => f.write_str(
                "Without a certificate and without Security.ApiKeys.Admin nobody could register the first API key. \
                 `corvus setup api-key` makes a key and prints that setting.",
            ),
            AddressProblem::TlsEndsHere => f.write_str(
                "Security.TlsTerminatedByProxy is set although the server ends TLS itself, with the certificate in \
                 Security.Certificate.Path. Remove one of them.",
            ),
            AddressProblem::KeysInTheClear { url } => write!(
                f,
                "API keys would be sent to '{url}' without encryption. Listen on 127.0.0.1, or set up a certificate with \
                 `corvus setup secure`, or set Security.TlsTerminatedByProxy=true if the address can be reached only \
                 through something that ends TLS. Security.UnsecuredAccessAllowed does not matter here."
            ),
            AddressProblem::NotEncrypted { url } => write!(
                f,
                "'{url}' would be served without encryption although Security.Certificate.Path is set. \
                 Write https://, or remove the certificate."
            ),
            AddressProblem::UnsecuredAddress { url, allowed, needed } => write!(
                f,
                "'{url}' could be reached without a certificate from further away than \
                 Security.UnsecuredAccessAllowed={} permits. Listen on 127.0.0.1, or set up certificates \
                 with `corvus setup secure`, or set Security.UnsecuredAccessAllowed={} if everyone who \
                 can reach the address may read and change all data.",
                allowed.name(),
                needed.name()
            ),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::UnknownVariable { name, nearest: Some(nearest) } => write!(
                f,
                "The environment variable {name} names no setting and has no effect. Did you mean \
                 {nearest}?"
            ),
            Warning::UnknownVariable { name, nearest: None } => {
                write!(f, "The environment variable {name} names no setting and has no effect.")
            }
            Warning::UnlistedKey { name, source, nearest } => write!(
                f,
                "Setting '{name}' is not known and has no effect. Did you mean '{nearest}'? \
                 ({source})"
            ),
            Warning::WithoutEffect { names } => write!(
                f,
                "These settings are RavenDB's and have no effect in Corvus: {}. \
                 docs/configuration.md lists those that do.",
                names.join(", ")
            ),
            Warning::FlagsWithoutEffect { names } => write!(
                f,
                "These options are RavenDB's and have no effect in Corvus: {}.",
                names.join(", ")
            ),
            Warning::PublicWithoutCertificate { url } => write!(
                f,
                "'{url}' is served without certificates: everyone who can reach it may read and \
                 change all data. Keep it behind a firewall, or listen on 127.0.0.1."
            ),
            Warning::IgnoredInDatabase { problem } => {
                write!(f, "Left out of the settings of a database: {problem}")
            }
        }
    }
}
