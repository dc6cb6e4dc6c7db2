//! The allowed dependencies between crates: docs/layers.toml against `cargo metadata`.
//!
//! An edge that the file does not list fails, and so does one that the file lists and no crate
//! uses: the file describes the actual edges. Tests may use any crate of the same or a lower tier.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::Value;

use crate::{Failure, checks::Checks};

/// docs/layers.toml.
pub(crate) struct Layers {
    rooms: BTreeMap<String, Room>,
    /// Crates from the registry, and who may depend on them directly.
    registry: BTreeMap<String, BTreeSet<String>>,
    /// Crates that may contain unsafe code.
    pub(crate) unsafe_allowed: BTreeSet<String>,
    /// Lines of a source file without its tests.
    pub(crate) file_lines_max: usize,
    /// Modules of a crate that may import each other in a cycle.
    pub(crate) cycle_modules_max: usize,
}

struct Room {
    tier: i64,
    uses: BTreeSet<String>,
}

/// A package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Dependencies that are compiled into the package, not only used by tests.
    pub(crate) dependencies: BTreeSet<String>,
    pub(crate) test_dependencies: BTreeSet<String>,
    /// The first file of each library and executable.
    pub(crate) roots: Vec<PathBuf>,
}

impl Layers {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let file: toml::Table = text.parse()?;
        let mut rooms = BTreeMap::new();
        for (name, room) in table(&file, "rooms")? {
            let room = room.as_table().ok_or("a room of layers.toml is not a table")?;
            let tier = room.get("tier").and_then(toml::Value::as_integer);
            let tier = tier.ok_or_else(|| format!("layers.toml: {name} has no tier"))?;
            rooms.insert(name.clone(), Room { tier, uses: names(room.get("uses"), name)? });
        }
        let mut registry = BTreeMap::new();
        for (name, users) in table(&file, "registry")? {
            registry.insert(name.clone(), names(Some(users), name)?);
        }
        let limits = table(&file, "sources")?;
        let lines = limits.get("file_lines_max").and_then(toml::Value::as_integer);
        Ok(Self {
            rooms,
            registry,
            unsafe_allowed: names(limits.get("unsafe_allowed"), "unsafe_allowed")?,
            file_lines_max: usize::try_from(lines.ok_or("layers.toml: no file_lines_max")?)?,
            cycle_modules_max: number(table(&file, "cycles")?, "modules_max")?,
        })
    }
}

fn number(table: &toml::Table, name: &str) -> Result<usize, Failure> {
    let number = table.get(name).and_then(toml::Value::as_integer);
    Ok(usize::try_from(number.ok_or_else(|| format!("layers.toml: no {name}"))?)?)
}

fn table<'t>(file: &'t toml::Table, name: &str) -> Result<&'t toml::Table, Failure> {
    let table = file.get(name).and_then(toml::Value::as_table);
    table.ok_or_else(|| format!("layers.toml has no table [{name}]").into())
}

fn names(list: Option<&toml::Value>, of: &str) -> Result<BTreeSet<String>, Failure> {
    let list = list.and_then(toml::Value::as_array);
    let list = list.ok_or_else(|| format!("layers.toml: {of} has no list of names"))?;
    let names = list.iter().map(|name| name.as_str().map(String::from));
    names.collect::<Option<_>>().ok_or_else(|| format!("layers.toml: {of} lists no names").into())
}

/// Parses the output of `cargo metadata --no-deps`.
pub(crate) fn parse_metadata(metadata: &Value) -> Result<Vec<Package>, Failure> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(packages.iter().map(parse_package).collect())
}

fn parse_package(package: &Value) -> Package {
    let (mut dependencies, mut test_dependencies) = (BTreeSet::new(), BTreeSet::new());
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let name = text(&dependency["name"]);
        match dependency["kind"].as_str() {
            Some("dev") => test_dependencies.insert(name),
            _ => dependencies.insert(name),
        };
    }
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_root = |target: &&Value| {
        let mut kinds = target["kind"].as_array().into_iter().flatten();
        kinds.any(|kind| kind == "lib" || kind == "bin")
    };
    let roots = targets.filter(is_root).map(|target| text(&target["src_path"]).into()).collect();
    Package { name: text(&package["name"]), dependencies, test_dependencies, roots }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Compares the edges between the workspace's own packages with the file.
pub(crate) fn check_edges(layers: &Layers, packages: &[Package], checks: &mut Checks) {
    let own: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    for room in layers.rooms.keys() {
        checks.that(own.contains(room.as_str()), || {
            format!("docs/layers.toml lists the crate {room}, which is not in the workspace")
        });
    }
    for package in packages {
        let Some(room) = layers.rooms.get(&package.name) else {
            checks.that(false, || format!("{} is missing from docs/layers.toml", package.name));
            continue;
        };
        let is_own = |name: &&String| own.contains(name.as_str());
        for used in package.dependencies.iter().filter(is_own) {
            checks.that(room.uses.contains(used), || {
                format!("{} uses {used}: docs/layers.toml does not list that edge", package.name)
            });
        }
        for used in room.uses.difference(&package.dependencies) {
            checks.that(false, || {
                format!("docs/layers.toml lists {} -> {used}, but nothing uses it", package.name)
            });
        }
        let tested_with = package.test_dependencies.iter().filter(is_own);
        for used in package.dependencies.iter().filter(is_own).chain(tested_with) {
            let tier = layers.rooms.get(used).map_or(i64::MAX, |used| used.tier);
            checks.that(tier <= room.tier, || {
                format!("{} (tier {}) uses {used} of a higher tier", package.name, room.tier)
            });
        }
    }
}

/// Some libraries may be reached from few crates only: the engine is plain threads and functions.
pub(crate) fn check_registry_walls(layers: &Layers, packages: &[Package], checks: &mut Checks) {
    for (library, users) in &layers.registry {
        for package in packages {
            let mut names = package.dependencies.iter().chain(&package.test_dependencies);
            let allowed = users.contains(&package.name) || !names.any(|name| name == library);
            checks.that(allowed, || {
                format!("{} depends on {library}: only {users:?} may", package.name)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LAYERS: &str = r#"
        [rooms]
        low = { tier = 0, uses = [] }
        high = { tier = 1, uses = ["low"] }
        [registry]
        tokio = ["high"]
        [sources]
        unsafe_allowed = []
        file_lines_max = 800
        [cycles]
        modules_max = 5
    "#;

    /// A name and its (dependency, kind).
    type Edges<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    fn failures(packages: &[Edges<'_>]) -> Vec<String> {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let edges = dependencies.iter();
                let edges: Vec<Value> =
                    edges.map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
                json!({"name": name, "dependencies": edges, "targets": []})
            })
            .collect();
        let packages = parse_metadata(&json!({ "packages": packages })).unwrap();
        let layers = Layers::parse(LAYERS).unwrap();
        let mut checks = Checks::default();
        check_edges(&layers, &packages, &mut checks);
        check_registry_walls(&layers, &packages, &mut checks);
        checks.failures
    }

    #[test]
    fn the_listed_edges_are_fine() {
        let tokio = ("tokio", None);
        let found = failures(&[("low", &[]), ("high", &[("low", None), tokio])]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn other_edges_are_named() {
        let table: [(&[Edges<'_>], &str); 5] = [
            (
                &[("low", &[("high", None)]), ("high", &[("low", None)])],
                "low uses high: docs/layers.toml does not list that edge",
            ),
            (
                &[("low", &[("high", Some("dev"))]), ("high", &[("low", None)])],
                "low (tier 0) uses high of a higher tier",
            ),
            (
                &[("low", &[]), ("high", &[])],
                "docs/layers.toml lists high -> low, but nothing uses it",
            ),
            (
                &[("low", &[("tokio", Some("dev"))]), ("high", &[("low", None)])],
                "low depends on tokio: only {\"high\"} may",
            ),
            (
                &[("low", &[]), ("high", &[("low", None)]), ("new", &[])],
                "new is missing from docs/layers.toml",
            ),
        ];
        for (packages, expected) in table {
            let found = failures(packages);
            assert!(found.iter().any(|failure| failure == expected), "{expected}: {found:?}");
        }
    }
}
