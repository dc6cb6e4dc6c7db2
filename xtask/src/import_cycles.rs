//! Modules of a crate that import each other in a cycle.
//!
//! Paths are read off the source text: what `use` declarations and other paths that start with
//! `crate` or `super` name. Tests, macro output and re-exports through a crate's root do not count,
//! so every reported cycle is real, but a few may be missed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{Failure, checks::Checks, layers::Layers, sources::files_below};

/// Module path, such as `handlers::queries` → the modules of the same crate that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Checks the cycles of every crate against the limit.
pub(crate) fn check(root: &Path, layers: &Layers, checks: &mut Checks) -> Result<(), Failure> {
    let mut crates: Vec<_> = std::fs::read_dir(root.join("crates"))?.collect::<Result<_, _>>()?;
    crates.sort_by_key(std::fs::DirEntry::file_name);
    for entry in crates {
        let name = entry.file_name().to_string_lossy().into_owned();
        let imports = imports_of(&entry.path().join("src"))?;
        let largest = cycles(&imports).into_iter().max_by_key(BTreeSet::len).unwrap_or_default();
        let max = layers.cycle_modules_max;
        checks.that(largest.len() <= max, || {
            let modules = largest.iter().cloned().collect::<Vec<_>>().join(", ");
            format!("{name}: {} modules import each other, {max} may: {modules}", largest.len())
        });
    }
    Ok(())
}

fn imports_of(source: &Path) -> Result<Imports, Failure> {
    let mut texts = BTreeMap::new();
    for file in files_below(source, "rs")? {
        let path = file.strip_prefix(source)?.with_extension("");
        let mut parts: Vec<_> =
            path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        let module = parts.join("::");
        if !matches!(module.as_str(), "lib" | "main") && !parts.contains(&"tests".to_owned()) {
            texts.insert(module, std::fs::read_to_string(&file)?);
        }
    }
    let import = |(module, text): (&String, &String)| {
        let named = paths_in(text, module).into_iter();
        let found =
            named.filter_map(|path| module_of(&path, &texts)).filter(|found| found != module);
        (module.clone(), found.collect())
    };
    Ok(texts.iter().map(import).collect())
}

/// The longest prefix of a path that is a module.
fn module_of(path: &[String], modules: &BTreeMap<String, String>) -> Option<String> {
    let beginnings = (1..=path.len()).rev().map(|length| path[..length].join("::"));
    beginnings.into_iter().find(|beginning| modules.contains_key(beginning))
}

/// Every path of the crate that a module names, from the crate's root.
fn paths_in(text: &str, module: &str) -> Vec<Vec<String>> {
    let code = text.lines().take_while(|line| *line != "mod tests {");
    let code: Vec<&str> = code.map(|line| line.split("//").next().unwrap_or(line)).collect();
    let code = code.join("\n");
    let tokens = tokens(&code);
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut prefix = match tokens[at] {
            "crate" => Vec::new(),
            "super" => parent(&module.split("::").map(str::to_owned).collect::<Vec<_>>()),
            _ => {
                at += 1;
                continue;
            }
        };
        at += 1;
        while tokens.get(at) == Some(&"::") && tokens.get(at + 1) == Some(&"super") {
            prefix = parent(&prefix);
            at += 2;
        }
        if tokens.get(at) == Some(&"::") {
            at = read_tree(&tokens, at + 1, &prefix, &mut paths);
        }
    }
    paths
}

fn parent(path: &[String]) -> Vec<String> {
    path[..path.len().saturating_sub(1)].to_vec()
}

/// Reads a path, or the tree of a `use` declaration; returns the position after it.
fn read_tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    let next = read_tree(tokens, at, &path, paths);
                    // A comma, or something that is not a path.
                    at = if next == at { at + 1 } else { next };
                    // A local name (`as`) is not a path.
                    if tokens.get(at) == Some(&"as") {
                        at += 2;
                    }
                }
                return at + 1;
            }
            Some(token)
                if token.starts_with(|first: char| first.is_alphabetic() || first == '_') =>
            {
                path.push((*token).to_owned());
                at += 1;
            }
            _ => break,
        }
        match tokens.get(at) {
            Some(&"::") => at += 1,
            _ => break,
        }
    }
    if path.len() > prefix.len() {
        paths.push(path);
    }
    at
}

/// Identifiers, `::`, and every other character but blanks.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let length = if is_word(first) {
            rest.find(|character| !is_word(character)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(token);
        }
        rest = behind;
    }
    tokens
}

/// The groups of modules in which each module reaches every other one.
fn cycles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let mut groups = BTreeSet::new();
    for (module, others) in &reached {
        if others.contains(module) {
            let back = others.iter().filter(|other| reached[**other].contains(module));
            groups.insert(back.map(|other| (*other).clone()).collect());
        }
    }
    groups.into_iter().collect()
}

fn reachable<'i>(imports: &'i Imports, from: &String) -> BTreeSet<&'i String> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&String> = imports[from].iter().collect();
    while let Some(module) = pending.pop() {
        if found.insert(module) {
            pending.extend(&imports[module]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_off_declarations_and_code() {
        let text = "use crate::{a::{B, c::D as E}, f::*};\nuse super::g;\nfn h() { crate::i::j(); }\n\
                    // crate::not::this\nmod tests {\n    use crate::nor::this;\n}\n";
        let paths: Vec<String> =
            paths_in(text, "m::n").iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["a::B", "a::c::D", "f", "m::g", "i::j"]);
    }

    #[test]
    fn a_cycle_is_found_and_what_hangs_on_it_is_not() {
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")];
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        imports.entry("d".to_owned()).or_default();
        let found = cycles(&imports);
        assert_eq!(found, [["a", "b", "c"].map(str::to_owned).into()]);
    }
}
