//! The hashes of dumps and backups: two databases with the same content have the same.

use std::{fs::File, path::Path};

use smuggler::DumpText;
use testkit::content_hash::content_hash;

use crate::{Failure, checks::Checks};

/// Prints the hash of each file, and of each of its sections. With several files, all must be the same.
pub(crate) fn run(files: &[&str]) -> Result<Checks, Failure> {
    let (mut checks, mut first) = (Checks::default(), None);
    for file in files {
        let mut text = DumpText::open(File::open(Path::new(file))?)?;
        let hash = content_hash(&mut text).map_err(|reason| format!("{file}: {reason}"))?;
        println!("{:032x} {file}", hash.total());
        for line in hash.lines() {
            println!("    {line}");
        }
        let first = *first.get_or_insert(hash.total());
        checks.that(hash.total() == first, || {
            format!("{file} has another content than {}", files[0])
        });
    }
    Ok(checks)
}
