//! The command line: a few flags as data, and any key as `--Some.Key=value`.
//!
//! Not here: the other commands (`corvus offline …`), which the caller has removed, and the
//! program's own name.
//!
//! `--Some.Key value` is understood too. That is not ambiguous, because there are no positional
//! arguments: text that does not begin with a dash, or that is a negative number, belongs to the
//! key before it. Invariant: of several values for one key the last one wins, as scripts that
//! append expect.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::key::ValueType;
use crate::merge::RawSetting;
use crate::problem::{ArgumentProblem, Problem};
use crate::source::Source;
use crate::table::{find_key, keys};

/// A flag of the command line that is not a key.
#[derive(Debug)]
pub struct Flag {
    /// All spellings, the usual one first.
    pub names: &'static [&'static str],
    /// The placeholder for its value in help texts, if it takes one.
    pub value: Option<&'static str>,
    /// What it does, in one sentence.
    pub help: &'static str,
    effect: Effect,
}

#[derive(Debug, Clone, Copy)]
enum Effect {
    Act(Action),
    ReadFile,
    SetKey(&'static str),
    /// No effect: the server behaves that way anyway.
    Nothing,
    Ignored,
}

/// The action requested on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Serve,
    CheckConfig,
    PrintConfig,
    Version,
    Help,
}

/// The flags.
pub static FLAGS: &[Flag] = &[
    act(&["--help", "-h", "-?"], Action::Help, "Show this help and stop."),
    act(&["--version", "-V", "-v", "--info", "-i"], Action::Version, "Show the version and stop."),
    act(
        &["--print-config"],
        Action::PrintConfig,
        "Show every setting, where its value came from and what it overrides, and stop.",
    ),
    act(
        &["--check-config"],
        Action::CheckConfig,
        "Check the settings and stop: exit code 0 if the server would start with them.",
    ),
    Flag {
        names: &["--config-path", "-c", "--config"],
        value: Some("FILE"),
        help: "Read settings from this file instead of settings.json.",
        effect: Effect::ReadFile,
    },
    set(&["--server-url"], "URL", "ServerUrl", "The same as --ServerUrl=URL."),
    set(&["--data-dir"], "DIRECTORY", "DataDir", "The same as --DataDir=DIRECTORY."),
    set(&["--log-mode"], "MODE", "Logs.Mode", "The same as --Logs.Mode=MODE."),
    obeyed(&["--non-interactive", "-n"], "For RavenDB's scripts: Corvus never prompts."),
    obeyed(&["--log-to-console", "-l"], "For RavenDB's scripts: the log always goes there."),
    ignore(&["--browser"], None),
    ignore(&["--print-id"], None),
    ignore(&["--service-name"], Some("NAME")),
];

const fn act(names: &'static [&'static str], action: Action, help: &'static str) -> Flag {
    Flag { names, value: None, help, effect: Effect::Act(action) }
}

const fn set(
    names: &'static [&'static str],
    value: &'static str,
    key: &'static str,
    help: &'static str,
) -> Flag {
    Flag { names, value: Some(value), help, effect: Effect::SetKey(key) }
}

/// A flag for behaviour that the server has anyway.
const fn obeyed(names: &'static [&'static str], help: &'static str) -> Flag {
    Flag { names, value: None, help, effect: Effect::Nothing }
}

const fn ignore(names: &'static [&'static str], value: Option<&'static str>) -> Flag {
    let help = "Accepted for RavenDB's scripts, with a warning that it has no effect.";
    Flag { names, value, help, effect: Effect::Ignored }
}

/// A command line that was read.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) action: Action,
    pub(crate) config_path: Option<PathBuf>,
    /// Settings in the order in which they were passed.
    pub(crate) raw: Vec<RawSetting>,
    /// Flags without effect.
    pub(crate) ignored: Vec<String>,
}

/// Reads the arguments after the program's name.
pub(crate) fn read_arguments(
    arguments: Vec<String>,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> CommandLine {
    let mut reader = Reader {
        arguments: arguments.into_iter().peekable(),
        source,
        problems,
        read: CommandLine {
            action: Action::Serve,
            config_path: None,
            raw: Vec::new(),
            ignored: Vec::new(),
        },
    };
    while let Some(argument) = reader.arguments.next() {
        reader.read_argument(argument);
    }
    reader.read
}

struct Reader<'a> {
    arguments: std::iter::Peekable<std::vec::IntoIter<String>>,
    source: &'a Source,
    problems: &'a mut Vec<Problem>,
    read: CommandLine,
}

impl Reader<'_> {
    fn read_argument(&mut self, argument: String) {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let flag = FLAGS.iter().find(|flag| flag.names.contains(&name));
        match (flag, name.strip_prefix("--")) {
            (Some(flag), _) => self.read_flag(flag, name, value),
            (None, Some(key)) if !key.is_empty() => self.read_key(name, key, value),
            (None, _) => {
                let source = self.source.clone();
                self.report(ArgumentProblem::UnexpectedArgument { argument, source });
            }
        }
    }

    fn read_flag(&mut self, flag: &Flag, name: &str, value: Option<String>) {
        if flag.value.is_none() && value.is_some() {
            let (argument, source) = (name.to_owned(), self.source.clone());
            return self.report(ArgumentProblem::NeedlessValue { argument, source });
        }
        let value = if flag.value.is_some() { value.or_else(|| self.next_value()) } else { value };
        match (flag.effect, value) {
            (Effect::Act(action), _) => self.read.action = self.read.action.max(action),
            (Effect::ReadFile, Some(path)) if !path.is_empty() => {
                self.read.config_path = Some(PathBuf::from(path));
            }
            (Effect::SetKey(key), Some(text)) => self.add(key, text),
            (Effect::Nothing, _) => {}
            (Effect::Ignored, _) => self.read.ignored.push(name.to_owned()),
            (Effect::ReadFile | Effect::SetKey(_), _) => self.report_missing_value(name),
        }
    }

    fn read_key(&mut self, name: &str, key: &str, value: Option<String>) {
        if let Some(text) = value.or_else(|| self.next_value()) {
            return self.add(key, text);
        }
        // A name without a value turns something on. For an unknown name this does no harm: it is
        // reported as unknown, which is more helpful than a missing value.
        let needs_value = find_key(key)
            .is_some_and(|key| !matches!(key.value_type, ValueType::Bool | ValueType::Unchecked));
        if needs_value {
            self.report_missing_value(name);
        } else {
            self.add(key, "true".to_owned());
        }
    }

    /// The next argument, if it can only be a value.
    fn next_value(&mut self) -> Option<String> {
        self.arguments.next_if(|next| {
            !next.starts_with('-') || next[1..].starts_with(|c: char| c.is_ascii_digit())
        })
    }

    fn add(&mut self, key: &str, text: String) {
        // Empty text means "not set here", as it does in files and in the environment.
        if !text.trim().is_empty() {
            let (name, source) = (key.to_owned(), self.source.clone());
            self.read.raw.push(RawSetting { name, text, source });
        }
    }

    fn report_missing_value(&mut self, name: &str) {
        let (argument, source) = (name.to_owned(), self.source.clone());
        self.report(ArgumentProblem::MissingValue { argument, source });
    }

    fn report(&mut self, problem: ArgumentProblem) {
        self.problems.push(Problem::Argument(problem));
    }
}

const HELP_START: &str = "\
Corvus, a document database that works with RavenDB's client libraries.

Usage: corvus [options]             run the server until Ctrl+C; `corvus serve` is the same
       corvus setup secure …        make the certificates of a server and of its administrator;
                                    `corvus setup --help` describes it
       corvus cluster …             add servers to a cluster, remove them, show its nodes;
                                    `corvus cluster --help` describes it
       corvus offline <command> …   check, compact, salvage or adopt data that no server uses;
                                    `corvus offline --help` describes them
       corvus backup verify <file>… read backups through and report what is damaged
       corvus export|import <url> <database> <file>
                                    a dump, CSV or JSON lines of a running server
       corvus version               show the version
       corvus help [setup|cluster|offline|backup|export|import]
                                    show this help, or that of a command

Examples:
  corvus
  corvus --ServerUrl=http://127.0.0.1:8081 --DataDir=/var/lib/corvus
  corvus --config-path=/etc/corvus/settings.json --check-config
  corvus offline check /var/lib/corvus

Options:
";

/// The text for `--help`: the commands, the flags, and the keys that Corvus reads.
pub fn command_line_help() -> String {
    let mut text = String::from(HELP_START);
    for flag in FLAGS {
        let value = flag.value.map(|value| format!("={value}")).unwrap_or_default();
        let names = format!("{}{value}", flag.names.join(", "));
        write!(text, "  {names}\n      {}\n", flag.help).expect("writing to a String cannot fail");
    }
    text.push_str("\nSettings, as --Name=VALUE (docs/configuration.md explains them):\n");
    for key in keys().filter(|key| key.status == crate::key::Status::Active) {
        let default = key.default.map(|text| format!(" = {text}")).unwrap_or_default();
        writeln!(text, "  {}{default}", key.name).expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> (CommandLine, Vec<String>) {
        let mut problems = Vec::new();
        let arguments = line.iter().map(ToString::to_string).collect();
        let read = read_arguments(arguments, &Source::CommandLine, &mut problems);
        (read, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn keys_may_be_written_with_an_equals_sign_with_a_space_or_alone() {
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(&[&str], Pairs<'_>)] = &[
            (&[], &[]),
            (&["--DataDir=/d"], &[("DataDir", "/d")]),
            (&["--DataDir", "/d"], &[("DataDir", "/d")]),
            (&["--DataDir=a=b"], &[("DataDir", "a=b")]),
            (&["--DataDir="], &[]),
            (&["--RunInMemory"], &[("RunInMemory", "true")]),
            (&["--RunInMemory", "false"], &[("RunInMemory", "false")]),
            (&["--RunInMemory", "--DataDir=/d"], &[("RunInMemory", "true"), ("DataDir", "/d")]),
            (&["--Indexing.MapTimeoutInSec", "-1"], &[("Indexing.MapTimeoutInSec", "-1")]),
            (&["--License.Eula.Accepted"], &[("License.Eula.Accepted", "true")]),
            (&["--data-dir", "/d"], &[("DataDir", "/d")]),
            (&["--server-url=http://x:1"], &[("ServerUrl", "http://x:1")]),
            (&["-n", "--browser", "-l", "--service-name", "x", "--print-id"], &[]),
        ];
        for (line, expected) in cases {
            let (read, problems) = read(line);
            assert_eq!(problems, Vec::<String>::new(), "{line:?}");
            let raw: Vec<(&str, &str)> =
                read.raw.iter().map(|raw| (raw.name.as_str(), raw.text.as_str())).collect();
            assert_eq!(raw, *expected, "{line:?}");
            assert_eq!(read.action, Action::Serve, "{line:?}");
        }
    }

    #[test]
    fn the_settings_file_may_be_named_in_every_way() {
        for line in [
            &["-c", "/f"][..],
            &["-c=/f"],
            &["--config-path", "/f"],
            &["--config-path=/f"],
            &["--config=/e", "--config=/f"],
        ] {
            assert_eq!(read(line).0.config_path, Some(PathBuf::from("/f")), "{line:?}");
        }
    }

    #[test]
    fn help_takes_precedence_over_everything_else() {
        for (line, action) in [
            (&["--check-config"][..], Action::CheckConfig),
            (&["--print-config", "--check-config"], Action::PrintConfig),
            (&["--version"], Action::Version),
            (&["-v"], Action::Version),
            (&["-V"], Action::Version),
            (&["--help", "--version", "--print-config"], Action::Help),
            (&["-?"], Action::Help),
        ] {
            assert_eq!(read(line).0.action, action, "{line:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_reported() {
        for (line, expected) in [
            (&["server"][..], "Unexpected argument 'server'"),
            (&["--"], "Unexpected argument '--'"),
            (&["-x"], "Unexpected argument '-x'"),
            (&["-"], "Unexpected argument '-'"),
            (&["--DataDir=/d", "rest"], "Unexpected argument 'rest'"),
            (&["-n", "rest"], "Unexpected argument 'rest'"),
            (&["--DataDir"], "'--DataDir' needs a value"),
            (&["--DataDir", "--RunInMemory"], "'--DataDir' needs a value"),
            (&["--config-path"], "'--config-path' needs a value"),
            (&["--config-path="], "'--config-path' needs a value"),
            (&["-n=true"], "'-n' takes no value"),
        ] {
            let (_, problems) = read(line);
            assert_eq!(problems.len(), 1, "{line:?}");
            assert!(problems[0].contains(expected), "{line:?}: {}", problems[0]);
        }
    }

    #[test]
    fn help_names_every_flag_and_every_key_that_is_read() {
        let help = command_line_help();
        for name in FLAGS.iter().flat_map(|flag| flag.names) {
            assert!(help.contains(name), "{name}");
        }
        for command in ["corvus offline check", "corvus version", "corvus help", "corvus serve"] {
            assert!(help.contains(command), "{command}");
        }
        assert!(help.contains("ServerUrl = http://127.0.0.1:8080\n"));
        assert!(!help.contains("Subscriptions."));
    }

    #[test]
    fn every_flag_that_sets_a_key_names_one_in_the_table() {
        for flag in FLAGS {
            if let Effect::SetKey(key) = flag.effect {
                assert!(find_key(key).is_some(), "{key}");
            }
        }
    }
}
