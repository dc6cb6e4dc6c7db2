//! The page docs/configuration.md, written from the table of keys.
//!
//! Invariant: the page in the repository is what this writes (test; `UPDATE_DOCS=1 cargo test -p
//! settings` rewrites it).

use std::fmt::Write as _;

use crate::accepted_keys::ACCEPTED;
use crate::active_keys::{ACTIVE, REFUSED};
use crate::key::{Key, Only, Origin, Scope, Status, ValueType};
use crate::table::FAMILIES;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written from the table of keys in crates/settings. Do not edit: change the table and run
     UPDATE_DOCS=1 cargo test -p settings -->

Corvus starts without any configuration. What you do set may come from several places; a later one
in this list wins:

1. the default,
2. `settings.json` in the working directory, or the file named by `--config-path FILE`,
3. the environment variable `RAVEN_SETTINGS`, which holds the text of a settings file,
4. environment variables `RAVEN_` + key, with underscores for dots:
   `RAVEN_Security_UnsecuredAccessAllowed`,
5. the environment variable `RAVEN_ARGS`, which holds more command line,
6. the command line: `--Security.UnsecuredAccessAllowed=Local`,
7. for one database: the settings in its record, for keys of scope *database*.

`corvus --print-config` shows the value of every setting, where it came from and what it overrides.
`corvus --check-config` checks the settings without starting the server. Settings are read once, at
the start: a change needs a restart.

In `settings.json`, names may be dotted or nested; both of these say the same. Comments (`//` and
`/* */`) and a comma after the last member are skipped.

```json
{ \"Storage.JournalsPath\": \"/fast/journals\" }
{ \"Storage\": { \"JournalsPath\": \"/fast/journals\" } }
```

Upper and lower case make no difference in names. An empty value, and `null`, mean that the key is
not set in that place. Lists are separated by `;`. On the command line a key alone means `true`,
and of several values the last one counts; in one file, or in the environment, a key may occur
only once.

A setting that Corvus does not know keeps the server from starting, because it might be one that you
rely on. Only in the environment an unknown `RAVEN_*` variable is merely warned about: scripts and
container images have variables of that prefix that never were settings.

The names are RavenDB's where RavenDB has the setting; those that Corvus added are marked *Corvus*.
";

/// The whole page, in Markdown.
pub fn documentation_markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Settings with an effect\n");
    for key in ACTIVE {
        page.push_str(&active_section(key));
    }
    page.push_str(
        "\n## Settings that are refused\n\nA setting of RavenDB that only tunes how RavenDB does \
         its work is accepted, with a warning. One that promises protection or a service that Corvus does \
         not have, or that would change what clients are answered, is refused by name: who sets it relies \
         on it. The server does not start with such a setting, and no database is made with it.\n\n",
    );
    for key in REFUSED {
        if let Status::Refused { reason } = key.status {
            line(&mut page, &format!("- `{}`: {reason}.", key.name));
        }
    }
    page.push_str(
        "\nOf these one value is accepted, since it is what Corvus does, and every other is refused:\n\n",
    );
    for key in ACCEPTED {
        if let Some(Only { value, reason }) = key.only {
            line(&mut page, &format!("- `{}`, `{value}`: {reason}.", key.name));
        }
    }
    page.push_str(
        "\n## Settings without effect\n\nThese settings of RavenDB are accepted, so that existing \
         files and scripts work, and ignored; their values must be such as RavenDB takes. The server warns of them when it starts, except of those of \
         the licence, and `--print-config` says so for each one that is set. \
         Names in the following families are accepted even when they are missing from the list \
         below, with a warning if they look like a misspelt one.\n\n",
    );
    for family in FAMILIES {
        line(&mut page, &format!("- `{}*`: {}", family.prefix, family.about));
    }
    page.push_str("\nKnown by name:\n\n");
    for key in ACCEPTED {
        line(&mut page, &format!("- `{}`", key.name));
    }
    page
}

fn active_section(key: &Key) -> String {
    let default = key.default.map_or("unset".to_owned(), |text| format!("`{text}`"));
    let scope = match key.scope {
        Scope::Server => "server",
        Scope::Database => "server, database",
    };
    let origin = match key.origin {
        Origin::RavenDb => "RavenDB",
        Origin::Corvus => "*Corvus*",
    };
    format!(
        "\n### {}\n\n{}\n\n- Value: {}\n- Default: {default}\n- Scope: {scope}\n\
         - Name from: {origin}\n",
        key.name,
        key.help,
        value_words(key.value_type),
    )
}

/// What values of this type look like, in words.
fn value_words(value_type: ValueType) -> String {
    match value_type {
        ValueType::Unchecked => "anything".to_owned(),
        ValueType::Bool => "`true` or `false`".to_owned(),
        ValueType::WholeNumber => "a whole number".to_owned(),
        ValueType::Number => "a number".to_owned(),
        ValueType::Integer { min, max } => format!("a whole number from {min} to {max}"),
        ValueType::Size { unit, min, max } => {
            format!("a whole number of {} from {min} to {max}", unit.word())
        }
        ValueType::Duration { unit, min, max } => {
            format!("a whole number of {} from {min} to {max}", unit.word())
        }
        ValueType::HttpUrls => {
            "addresses `http://host:port`, or with a certificate `https://host:port`, separated by `;`"
                .to_owned()
        }
        ValueType::TcpUrls => {
            "addresses `tcp://host:port` or bare ports, separated by `;`".to_owned()
        }
        ValueType::PublicHttpUrl => {
            "an address `http://host:port` or `https://host:port`".to_owned()
        }
        ValueType::PublicTcpUrl => "an address `tcp://host:port`".to_owned(),
        ValueType::Text => "a text".to_owned(),
        ValueType::Arguments => "words, split like those of a shell".to_owned(),
        ValueType::Thumbprints => {
            "thumbprints of 40 hexadecimal digits, separated by `;`".to_owned()
        }
        ValueType::ApiKeyHashes => {
            "for each key its id, a dot and the SHA-256 of its secret, separated by `;`".to_owned()
        }
        ValueType::HostNames => "names of hosts, separated by `;`".to_owned(),
        ValueType::Origins => {
            "addresses `http://host:port` or `https://host:port`, separated by `;`".to_owned()
        }
        ValueType::Path => "a path; relative ones start at the working directory".to_owned(),
        ValueType::Paths => "paths, separated by `;`".to_owned(),
        ValueType::Choice(choices) => {
            let names: Vec<String> = choices
                .iter()
                .filter(|choice| choice.unavailable.is_none())
                .map(|choice| format!("`{}`", choice.name))
                .collect();
            names.join(" or ")
        }
        ValueType::UnsecuredAccess => {
            "`None`, `Local`, `PrivateNetwork` or `PublicNetwork`".to_owned()
        }
        ValueType::Version => "four numbers joined by dots".to_owned(),
    }
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

    #[test]
    fn the_page_in_the_repository_is_current() {
        let written = documentation_markdown();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            #[expect(clippy::disallowed_methods, reason = "rewrites a page of the repository")]
            std::fs::write(PAGE, &written).unwrap();
        }
        let current = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(
            current == written,
            "docs/configuration.md differs from the table of keys. Run: \
             UPDATE_DOCS=1 cargo test -p settings"
        );
    }
}
