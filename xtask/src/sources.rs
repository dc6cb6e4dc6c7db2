//! Rules that can be checked in the source files: no unsafe code outside of the crates that may
//! contain it, and a maximum length of files.

use std::path::{Path, PathBuf};

use crate::{
    Failure,
    checks::Checks,
    layers::{Layers, Package},
};

const FORBID: &str = "#![forbid(unsafe_code)]";

pub(crate) fn check(
    root: &Path,
    layers: &Layers,
    packages: &[Package],
    checks: &mut Checks,
) -> Result<(), Failure> {
    for package in packages.iter().filter(|package| !layers.unsafe_allowed.contains(&package.name))
    {
        for file in &package.roots {
            let source = std::fs::read_to_string(file)?;
            checks.that(source.lines().any(|line| line == FORBID), || {
                format!("{} does not say {FORBID}", shown(root, file))
            });
        }
    }
    for folder in ["crates", "xtask"] {
        for file in files_below(&root.join(folder), "rs")? {
            let lines = lines_without_tests(&file, &std::fs::read_to_string(&file)?);
            checks.that(lines <= layers.file_lines_max, || {
                let (file, max) = (shown(root, &file), layers.file_lines_max);
                format!("{file} has {lines} lines without its tests; the limit is {max}")
            });
        }
    }
    Ok(())
}

/// The path from the workspace on.
pub(crate) fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The files with that extension in a folder and the folders in it, sorted. Build output and
/// installed packages are skipped.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    const NOT_OURS: [&str; 4] = ["target", "node_modules", ".venv", ".git"];
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !NOT_OURS.contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Lines up to the tests at the end; 0 for a file of tests.
fn lines_without_tests(file: &Path, source: &str) -> usize {
    let of_tests = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs";
    if file.iter().any(of_tests) {
        return 0;
    }
    source.lines().take_while(|line| *line != "mod tests {").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        let source = "//! A file.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    // ...\n}\n";
        for (file, lines) in [("a/src/lib.rs", 4), ("a/src/tests.rs", 0), ("a/tests/it/main.rs", 0)]
        {
            assert_eq!(lines_without_tests(Path::new(file), source), lines, "{file}");
        }
    }
}
