//! Environment variables: `RAVEN_` and a key with underscores for its dots, without regard to case.
//!
//! Not here: reading the environment. `RAVEN_ARGS` and `RAVEN_SETTINGS` are split here and read by
//! `command_line` and `settings_file`. Invariant: a variable that names no key is never an error
//! (see `Warning::UnknownVariable`).

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::merge::RawSetting;
use crate::problem::{ArgumentProblem, Problem, Warning};
use crate::source::Source;
use crate::table::{find_family, find_key_with_underscores, nearest_name};

const PREFIX: &str = "RAVEN_";
const ARGUMENTS: &str = "ARGS";
const JSON: &str = "SETTINGS";

/// The variables that concern Corvus.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The text of `RAVEN_SETTINGS`.
    pub(crate) json: Option<String>,
    /// The arguments in `RAVEN_ARGS`.
    pub(crate) arguments: Vec<String>,
    /// The settings, sorted by the names of their variables.
    pub(crate) raw: Vec<RawSetting>,
}

/// Picks the variables that begin with `RAVEN_`; empty ones count as not set.
pub(crate) fn read_environment(
    variables: Vec<(OsString, OsString)>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> Environment {
    let mut read = Environment::default();
    for (variable, text) in sorted_own_variables(variables, problems) {
        let rest = &variable[PREFIX.len()..];
        if rest.eq_ignore_ascii_case(JSON) {
            read.json = Some(text);
        } else if rest.eq_ignore_ascii_case(ARGUMENTS) {
            match shlex::split(&text) {
                Some(arguments) => read.arguments = arguments,
                None => problems.push(Problem::Argument(ArgumentProblem::UnclosedQuote)),
            }
        } else if let Some(name) = name_of_key(rest) {
            read.raw.push(RawSetting { name, text, source: Source::Environment(variable) });
        } else {
            let nearest = nearest_name(&rest.replace('_', "."))
                .map(|name| format!("{PREFIX}{}", name.replace('.', "_")));
            warnings.push(Warning::UnknownVariable { name: variable, nearest });
        }
    }
    report_repeated(&read.raw, problems);
    read
}

/// The non-empty variables with our prefix, sorted so that messages are in a stable order.
fn sorted_own_variables(
    variables: Vec<(OsString, OsString)>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, String> {
    let mut own = BTreeMap::new();
    for (name, value) in variables {
        // A name that is not Unicode cannot be one of ours.
        let Ok(name) = name.into_string() else { continue };
        let prefixed =
            name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
        if !prefixed || value.is_empty() {
            continue;
        }
        match value.into_string() {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                own.insert(name, text);
            }
            // The value is left out of the message: it may be a secret.
            Err(_) => problems.push(Problem::Argument(ArgumentProblem::NotUnicode {
                text: name.clone(),
                source: Source::Environment(name),
            })),
        }
    }
    own
}

/// The key that the rest of a variable's name means, if any.
fn name_of_key(rest: &str) -> Option<String> {
    if let Some(key) = find_key_with_underscores(rest) {
        return Some(key.name.to_owned());
    }
    let dotted = rest.replace('_', ".");
    find_family(&dotted).map(|_| dotted)
}

fn report_repeated(raw: &[RawSetting], problems: &mut Vec<Problem>) {
    for (index, one) in raw.iter().enumerate() {
        let differs = |other: &RawSetting| other.name == one.name && other.text != one.text;
        if raw[..index].iter().any(differs) {
            let (name, source) = (one.name.clone(), one.source.clone());
            problems.push(Problem::SetTwice { name, source });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Environment, Vec<String>, Vec<String>) {
        let variables =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        let read = read_environment(variables, &mut problems, &mut warnings);
        (
            read,
            problems.iter().map(ToString::to_string).collect(),
            warnings.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn variables_name_keys_with_underscores_for_dots() {
        for (variable, key) in [
            ("RAVEN_ServerUrl", "ServerUrl"),
            ("raven_serverurl", "ServerUrl"),
            ("RAVEN_Security_UnsecuredAccessAllowed", "Security.UnsecuredAccessAllowed"),
            ("RAVEN_SECURITY.UNSECUREDACCESSALLOWED", "Security.UnsecuredAccessAllowed"),
            ("RAVEN_License", "License"),
            ("RAVEN_License_Eula_Accepted", "License.Eula.Accepted"),
            ("RAVEN_Studio_SomethingNew", "Studio.SomethingNew"),
        ] {
            let (read, problems, warnings) = read(&[(variable, "x")]);
            assert!(problems.is_empty() && warnings.is_empty(), "{variable}");
            assert_eq!(read.raw[0].name, key, "{variable}");
            assert_eq!(read.raw[0].source, Source::Environment(variable.to_owned()));
        }
    }

    #[test]
    fn foreign_variables_are_left_alone_and_unknown_ones_only_warned_about() {
        let (read, problems, warnings) = read(&[
            ("RAVENDB_TEST_SERVER_PATH", "x"),
            ("PATH", "/bin"),
            ("RAVEN_ServerUrl", ""),
            ("RAVEN_DataDir", "  "),
            ("RAVEN_HOME", "/opt"),
            ("RAVEN_Security_UnsecuredAccesAllowed", "None"),
        ]);
        assert!(read.raw.is_empty());
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("RAVEN_HOME names no setting and has no effect."));
        assert!(warnings[1].contains("Did you mean RAVEN_Security_UnsecuredAccessAllowed?"));
    }

    #[test]
    fn raven_args_is_split_as_a_shell_would() {
        let (environment, _, _) = read(&[("RAVEN_ARGS", " --A=1  --B='two words' --C \"3\"")]);
        assert_eq!(environment.arguments, ["--A=1", "--B=two words", "--C", "3"]);
        let (_, problems, _) = read(&[("RAVEN_ARGS", "--A='1")]);
        assert!(problems[0].contains("never closed"));
    }

    #[test]
    fn one_key_in_two_variables_with_different_values_is_a_problem() {
        let (_, problems, _) = read(&[("RAVEN_DataDir", "a"), ("RAVEN_DATADIR", "b")]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("'DataDir' is set twice"), "{}", problems[0]);
        assert!(read(&[("RAVEN_DataDir", "a"), ("RAVEN_DATADIR", "a")]).1.is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn values_that_are_not_unicode_are_refused_and_not_shown() {
        use std::os::unix::ffi::OsStringExt;
        let value = OsString::from_vec(b"secret\xFF".to_vec());
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        read_environment(vec![("RAVEN_DataDir".into(), value)], &mut problems, &mut warnings);
        let message = problems[0].to_string();
        assert!(message.contains("RAVEN_DataDir") && !message.contains("secret"), "{message}");
    }
}
