//! The task `layers`: the edges between crates and the rules that can be checked in the sources.

use std::{path::Path, process::Command};

use crate::{
    Failure,
    checks::Checks,
    import_cycles,
    layers::{self, Layers, Package},
    sources,
};

pub(crate) fn check(root: &Path) -> Result<Checks, Failure> {
    let layers = Layers::parse(&std::fs::read_to_string(root.join("docs/layers.toml"))?)?;
    let packages = workspace_packages(root)?;
    let mut checks = Checks::default();
    layers::check_edges(&layers, &packages, &mut checks);
    layers::check_registry_walls(&layers, &packages, &mut checks);
    sources::check(root, &layers, &packages, &mut checks)?;
    import_cycles::check(root, &layers, &mut checks)?;
    Ok(checks)
}

/// The packages of the workspace as `cargo metadata` lists them.
pub(crate) fn workspace_packages(root: &Path) -> Result<Vec<Package>, Failure> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    layers::parse_metadata(&serde_json::from_slice(&output.stdout)?)
}
