//! The task `docs`: checks that the documents are up to date.
//!
//! Every relative link leads to a file; every page of docs/ is in the summary; every direct dependency
//! has its line in docs/dependencies.md and no other has; the README and the pages of docs/ print the example
//! programs and their output verbatim; docs/reliability.md matches docs/reliability.toml.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Failure, architecture,
    checks::Checks,
    reliability,
    sources::{files_below, shown},
};

/// Pages, and the files of clients/examples that each contains in full.
const PRINTED: [(&str, &str); 12] = [
    ("README.md", "node/quickstart.mjs"),
    ("README.md", "node/quickstart.txt"),
    ("README.md", "python/quickstart.py"),
    ("README.md", "python/quickstart.txt"),
    ("README.md", "dotnet/Quickstart.cs"),
    ("README.md", "dotnet/quickstart.txt"),
    ("README.md", "shell/cluster-start.sh"),
    ("README.md", "shell/cluster-kill.sh"),
    ("README.md", "shell/cluster.txt"),
    ("README.md", "node/cluster.mjs"),
    ("docs/test-server.md", "node/test-server.mjs"),
    ("docs/test-server.md", "python/test_server.py"),
];
/// The page whose code blocks, concatenated, are programs, and whose text blocks are their output.
const TUTORIAL: &str = "docs/tutorial.md";
/// The language of a block in the tutorial, and the files of clients/examples that its blocks form.
const TUTORIAL_FILES: [(&str, &[&str]); 3] = [
    ("js", &["node/tutorial.mjs"]),
    ("python", &["python/tutorial.py"]),
    ("text", &["node/tutorial.txt", "python/tutorial.txt"]),
];
const SUMMARY: &str = "docs/SUMMARY.md";

pub(crate) fn check(root: &Path) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    links(root, &mut checks)?;
    summary(root, &mut checks)?;
    dependencies(root, &mut checks)?;
    printed_programs(root, &mut checks)?;
    tutorial(root, &mut checks)?;
    reliability::check(root, &mut checks)?;
    Ok(checks)
}

fn links(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    for page in files_below(root, "md")? {
        let folder = page.parent().unwrap_or(root);
        for target in link_targets(&std::fs::read_to_string(&page)?) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            checks.that(folder.join(path).exists(), || {
                format!("{} links to {path}, which does not exist", shown(root, &page))
            });
        }
    }
    Ok(())
}

/// The targets of `[text](target)` outside code.
fn link_targets(page: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every other piece between back-ticks is code.
        for text in line.split('`').step_by(2) {
            let mut rest = text;
            while let Some((_, after)) = rest.split_once("](") {
                let Some((target, behind)) = after.split_once(')') else { break };
                targets.push(target.to_owned());
                rest = behind;
            }
        }
    }
    targets
}

fn summary(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let listed: BTreeSet<String> =
        link_targets(&std::fs::read_to_string(root.join(SUMMARY))?).into_iter().collect();
    for page in files_below(&root.join("docs"), "md")? {
        let name = shown(&root.join("docs"), &page);
        checks.that(name == "SUMMARY.md" || listed.contains(&name), || {
            format!("{SUMMARY} does not list {name}")
        });
    }
    Ok(())
}

fn dependencies(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let packages = architecture::workspace_packages(root)?;
    let own: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let used: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| package.dependencies.iter().chain(&package.test_dependencies))
        .map(String::as_str)
        .filter(|name| !own.contains(name))
        .collect();
    let page = std::fs::read_to_string(root.join("docs/dependencies.md"))?;
    let documented: BTreeSet<&str> = page.lines().filter_map(documented_dependency).collect();
    for name in used.union(&documented) {
        let (used, documented) = (used.contains(name), documented.contains(name));
        checks.that(used && documented, || {
            let problem = if used { "does not explain" } else { "explains, but no crate uses," };
            format!("docs/dependencies.md {problem} {name}")
        });
    }
    Ok(())
}

/// The name in a table row that starts with `` | `name` | ``.
fn documented_dependency(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once("` |").map(|(name, _)| name)
}

fn example(root: &Path, name: &str) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(root.join("clients/examples").join(name))?)
}

fn printed_programs(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    for (page, name) in PRINTED {
        let (printed, text) = (std::fs::read_to_string(root.join(page))?, example(root, name)?);
        checks.that(printed.contains(text.trim_end()), || {
            format!("{page} does not contain clients/examples/{name} unchanged")
        });
    }
    Ok(())
}

fn tutorial(root: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let page = std::fs::read_to_string(root.join(TUTORIAL))?;
    for (language, names) in TUTORIAL_FILES {
        let printed = blocks(&page, language);
        for name in names {
            let same = lines_of(&printed) == lines_of(&example(root, name)?);
            checks.that(same, || {
                format!("the {language} blocks of {TUTORIAL} differ from clients/examples/{name}")
            });
        }
    }
    Ok(())
}

/// Ignores empty lines: there is text between two blocks.
fn lines_of(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim().is_empty()).collect()
}

/// The blocks of code in that language, one after the other.
fn blocks(page: &str, language: &str) -> String {
    let mut text = String::new();
    let mut is_inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(of) => is_inside = !is_inside && of == language,
            None if is_inside => {
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_only() {
        let page = "[a](x.md) and [b](y.md#part)\n```\n[c](z.md)\n```\n`[d](w.md)` [e](v.md)";
        assert_eq!(link_targets(page), ["x.md", "y.md#part", "v.md"]);
    }

    #[test]
    fn blocks_of_one_language_are_put_together() {
        let page = "text\n```js\na\n```\n```python\nb\n```\nmore\n```js\n\nc\n```\n";
        assert_eq!(blocks(page, "js"), "a\n\nc\n");
        assert_eq!(lines_of(&blocks(page, "js")), ["a", "c"]);
        assert_eq!(blocks(page, "text"), "");
    }

    #[test]
    fn a_dependency_is_named_in_its_row() {
        let rows = [("| `libc` | why |", Some("libc")), ("| name | why |", None), ("text", None)];
        for (row, name) in rows {
            assert_eq!(documented_dependency(row), name);
        }
    }
}
