//! Salvage of environments without knowing what is in them.

use std::{collections::BTreeMap, path::Path};

use platform::simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind};

use super::super::options;
use super::{Bench, ROWS, change, content, etag, populate, row};
use crate::{
    BulkWriter, Environment, Found, PAGE_BYTES, Salvage, SalvageFindings, StorageError, Transaction,
};

/// What a table's owner does: the newest of all rows of a key.
fn salvage(bench: &Bench) -> Result<SalvageFindings, StorageError> {
    let platform = &bench.simulation.platform;
    let mut salvage = Salvage::open(platform, &bench.options, Path::new("/new"))?;
    let mut newest = BTreeMap::new();
    salvage.scan(&mut |found| {
        if let Found::Row { place, row } = found
            && is_row(row)
        {
            let known = newest.entry(key_of(row)).or_insert((0, place));
            if known.0 <= etag(row) {
                *known = (etag(row), place);
            }
        }
    });
    salvage.copy_trees(&[])?;
    let mut writer = BulkWriter::new(salvage.target());
    for (_, place) in newest.values() {
        let row = salvage.row(*place).expect("it was read before");
        writer.transaction()?.table_mut(&ROWS).insert(&row)?;
    }
    writer.finish()?;
    let findings = salvage.findings().clone();
    salvage.publish()?;
    Ok(findings)
}

/// Whether it is a row of the test, and not the large value of a tree.
fn is_row(bytes: &[u8]) -> bool {
    16 <= bytes.len()
        && key_of(bytes) < 1000
        && etag(bytes) < 10_000
        && bytes == row(key_of(bytes), etag(bytes))
}

fn key_of(row: &[u8]) -> u64 {
    u64::from_be_bytes(row[8..16].try_into().expect("a row"))
}

fn new_environment(bench: &Bench) -> std::sync::Arc<Environment> {
    Environment::open(&bench.simulation.platform, options("/new")).expect("opens")
}

/// The content of an environment of 200 rows, either all in the data file or only in the journal.
fn populated(bench: &Bench, flush: bool) -> super::Content {
    let environment = bench.open();
    populate(&environment, 200);
    change(&environment, |tx| {
        for key in [0, 100] {
            tx.table_mut(&ROWS).delete(&u64::to_be_bytes(key))?;
            tx.table_mut(&ROWS).insert(&row(key, 1000 + key))?;
        }
        Ok(())
    });
    if flush {
        environment.flush().expect("flushes");
    }
    content(&environment.read()).expect("reads")
}

#[test]
fn a_sound_environment_is_salvaged_whole() {
    for flush in [false, true] {
        let bench = Bench::new(11);
        let before = populated(&bench, flush);
        let findings = salvage(&bench).expect("salvages");
        assert!(!findings.is_anything_lost(), "{findings:?}");
        let new = new_environment(&bench);
        new.read().check().expect("sound");
        assert_eq!(content(&new.read()).expect("reads"), before);
    }
}

#[test]
fn a_flip_in_any_page_is_survived_and_noticed() {
    let bench = Bench::new(12);
    let before = populated(&bench, true);
    let path = Path::new("/db/corvus.data");
    let disk = &bench.simulation.disk;
    let bytes = disk.file_bytes(path).expect("file");
    let mut noticed = 0;
    for (page, content_before) in bytes.chunks(PAGE_BYTES).enumerate() {
        let offset = (page * PAGE_BYTES + 50) as u64;
        disk.flip_bit(path, offset, 0).expect("flips");
        let findings = salvage(&bench).expect("salvages");
        let new = new_environment(&bench);
        new.read().check().expect("sound");
        let after = content(&new.read()).expect("reads");
        if after != before {
            assert!(findings.is_anything_lost(), "page {page}");
            let lost = before.rows.len() - after.rows.len();
            assert!(lost < 100, "page {page} of kind {} cost {lost} rows", content_before[16]);
        }
        noticed += usize::from(findings.is_anything_lost());
        drop(new);
        bench.simulation.platform.disk.remove_dir_all(Path::new("/new")).expect("removes");
        disk.flip_bit(path, offset, 0).expect("flips back");
    }
    assert!(noticed > 20, "{noticed}");
}

#[test]
fn a_disk_that_cannot_read_a_part_costs_that_part_only() {
    let bench = Bench::new(13);
    let before = populated(&bench, true);
    let reads = OperationFilter::Only(OperationKind::Read);
    for nth in [12, 13, 14, 20] {
        let disk = &bench.simulation.disk;
        disk.fail_operation(nth, reads, FaultKind::InputOutput, FaultSpan::Once);
        salvage(&bench).expect("salvages");
        disk.clear_faults();
        let new = new_environment(&bench);
        new.read().check().expect("sound");
        let rows = new.read().table(&ROWS).len().expect("reads");
        assert!(rows > before.rows.len() as u64 / 2, "{rows}");
        drop(new);
        bench.simulation.platform.disk.remove_dir_all(Path::new("/new")).expect("removes");
    }
}

#[test]
fn a_damaged_header_of_a_journal_file_costs_nothing() {
    let bench = Bench::new(14);
    let before = populated(&bench, false);
    let journals = Path::new("/db/journals");
    let disk = &bench.simulation.disk;
    for name in bench.simulation.platform.disk.list(journals).expect("lists") {
        disk.flip_bit(&journals.join(name), 20, 1).expect("flips");
    }
    salvage(&bench).expect("salvages");
    assert_eq!(content(&new_environment(&bench).read()).expect("reads"), before);
}

#[test]
fn an_environment_whose_journal_file_has_a_damaged_header_refuses_to_open() {
    let bench = Bench::new(15);
    populated(&bench, false);
    let journals = Path::new("/db/journals");
    let names = bench.simulation.platform.disk.list(journals).expect("lists");
    for name in &names {
        bench.simulation.disk.flip_bit(&journals.join(name), 20, 1).expect("flips");
    }
    let refused = bench.try_open();
    assert!(
        matches!(refused.as_ref().err(), Some(StorageError::Corrupt(_))),
        "acknowledged transactions are only there: {:?}",
        refused.err()
    );
    let left = bench.simulation.platform.disk.list(journals).expect("lists");
    assert_eq!(left, names, "nothing is removed that may still be needed");
}

#[test]
fn one_damaged_header_copy_never_brings_an_older_state_back() {
    for (copy, more) in [(0, false), (0, true), (1, false), (1, true)] {
        for rounds in 1..5 {
            let mut bench = Bench::new(16);
            bench.options.journal_bytes_max = 256 * 1024;
            let environment = bench.open();
            for round in 0..rounds {
                populate(&environment, 100 + round * 40);
                environment.flush().expect("flushes");
            }
            if more {
                change(&environment, |tx| tx.table_mut(&ROWS).insert(&row(7, 5000)).map(|_| ()));
            }
            let before = content(&environment.read()).expect("reads");
            drop(environment);
            let path = Path::new("/db/corvus.data");
            bench.simulation.disk.flip_bit(path, copy * PAGE_BYTES as u64 + 20, 1).expect("flips");
            match bench.try_open() {
                Ok(environment) => {
                    environment.read().check().expect("sound");
                    assert_eq!(content(&environment.read()).expect("reads"), before);
                }
                Err(error) => {
                    assert!(matches!(error, StorageError::Corrupt(_)), "{error}");
                    salvage(&bench).expect("salvages");
                    let new = new_environment(&bench);
                    assert_eq!(content(&new.read()).expect("reads"), before);
                }
            }
        }
    }
}
