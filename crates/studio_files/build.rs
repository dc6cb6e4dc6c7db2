//! Generates the table of the Studio's files from `built/manifest.txt`; an empty one without it, so that the
//! server can be built on a machine without Node.js.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script reads and writes files of the build"
)]

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

/// The folder that `studio/scripts/embed.mjs` fills.
const BUILT: &str = "built";
/// Written last by that script: a line per file, its hash and its path, separated by a space.
const MANIFEST: &str = "manifest.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={BUILT}");
    println!("cargo::rerun-if-changed=build.rs");
    let built = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(BUILT);
    let manifest = fs::read_to_string(built.join(MANIFEST)).unwrap_or_default();
    let mut table = String::from("&[\n");
    for line in manifest.lines() {
        let (hash, path) =
            line.split_once(' ').ok_or(format!("{MANIFEST}: '{line}' has no path"))?;
        let coded = |suffix: &str| built.join(format!("{path}.{suffix}"));
        writeln!(
            table,
            "StudioFile {{ path: {path:?}, hash: {hash:?}, brotli: include_bytes!({:?}), \
             gzip: include_bytes!({:?}) }},",
            coded("br"),
            coded("gz")
        )?;
    }
    table.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("table.rs"), table)?;
    Ok(())
}
