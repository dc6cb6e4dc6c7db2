//! The task `reliability`: writes docs/reliability.md from docs/reliability.toml.
//!
//! The numbers in that file are the output of the drills; this task only formats them, so that page
//! and numbers never differ. The task `docs` checks that the page is up to date.

use std::{fmt::Write as _, path::Path};

use toml::Table;

use crate::{Failure, checks::Checks};

const RESULTS: &str = "docs/reliability.toml";
const PAGE: &str = "docs/reliability.md";

const HEAD: &str = "\
# Reliability

How Corvus is tested with injected faults, how often, and which bugs that has found.
`cargo xtask reliability` generates this page from `docs/reliability.toml`. The numbers are the output of the
commands on the given date. [Guarantees](guarantees.md) lists what is promised.

## Drills
";
const PLANTS: &str = "
## Planted bugs

A drill that finds no bugs proves nothing unless it is known to find bugs that exist. Each of these bugs was
planted, alone, in a copy of the sources, and tested with `crash 2000`, `io-sweep` and `rot`. The bugs that
clients can observe were tested with `consistency 16000 1`, those of subscriptions with `server-cuts 100`. The
table names what caught each bug, and the first failure.
";
const BUGS: &str = "
## Bugs found

Each bug has a test that fails without its fix.
";

/// Writes the page.
pub(crate) fn write(root: &Path) -> Result<Checks, Failure> {
    std::fs::write(root.join(PAGE), page(&results(root)?)?)?;
    let mut checks = Checks::default();
    checks.that(true, String::new);
    Ok(checks)
}

/// Checks that the page is up to date.
pub(crate) fn check(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let is_current = std::fs::read_to_string(root.join(PAGE))? == page(&results(root)?)?;
    checks.that(is_current, || format!("{PAGE} is outdated: run cargo xtask reliability"));
    Ok(())
}

fn results(root: &Path) -> Result<Table, Failure> {
    Ok(std::fs::read_to_string(root.join(RESULTS))?.parse()?)
}

fn page(results: &Table) -> Result<String, Failure> {
    let mut page = String::from(HEAD);
    table(
        &mut page,
        results,
        "run",
        &[
            ("kind", "kind"),
            ("command", "command"),
            ("count", "count"),
            ("seconds", "seconds"),
            ("date", "date"),
            ("bugs", "bugs found"),
        ],
    )?;
    page.push_str(PLANTS);
    table(
        &mut page,
        results,
        "plant",
        &[
            ("kind", "kind"),
            ("plant", "the bug"),
            ("caught_by", "caught by"),
            ("first_failure", "first failure"),
        ],
    )?;
    page.push_str(BUGS);
    table(
        &mut page,
        results,
        "bug",
        &[("bug", "bug"), ("found_by", "found by"), ("date", "date"), ("test", "test")],
    )?;
    Ok(page)
}

/// The rows under `name`, one column for each key and its title.
fn table(
    page: &mut String,
    results: &Table,
    name: &str,
    columns: &[(&str, &str)],
) -> Result<(), Failure> {
    let titles: Vec<&str> = columns.iter().map(|(_, title)| *title).collect();
    writeln!(page, "\n| {} |", titles.join(" | "))?;
    writeln!(page, "|{}", "---|".repeat(columns.len()))?;
    let rows = results.get(name).and_then(toml::Value::as_array);
    for row in rows.ok_or_else(|| format!("{RESULTS} has no [[{name}]]"))? {
        let cells: Result<Vec<String>, Failure> = columns
            .iter()
            .map(|(key, _)| {
                let cell = row.get(key).ok_or_else(|| format!("a [[{name}]] has no {key}"))?;
                text(cell).ok_or_else(|| format!("{key} of a [[{name}]] is not a string").into())
            })
            .collect();
        writeln!(page, "| {} |", cells?.join(" | "))?;
    }
    Ok(())
}

fn text(cell: &toml::Value) -> Option<String> {
    match cell {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Datetime(date) => Some(date.to_string()),
        toml::Value::Boolean(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_and_a_missing_cell_is_named() {
        let results: Table = "[[bug]]\na = \"x\"\nb = 3\n[[bug]]\na = \"y\"".parse().unwrap();
        let mut page = String::new();
        let error = table(&mut page, &results, "bug", &[("a", "A"), ("b", "B")]).unwrap_err();
        assert_eq!(page, "\n| A | B |\n|---|---|\n| x | 3 |\n");
        assert_eq!(error.to_string(), "a [[bug]] has no b");
    }
}
