//! What encryption promises: nothing readable in any file, and no change that goes unnoticed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use platform::{
    Access, Disk,
    simulated::{Random, SimulatedDisk},
};

use super::{Bench, entries, is_encrypted, key, name, options, put};
use crate::{
    CompactProgress, Corruption, Environment, EnvironmentOptions, PAGE_BYTES, StorageError,
    Transaction, compact_in_place,
};

const DATA: &str = "/db/corvus.data";

/// Every file of the disk, with its content.
fn files(disk: &SimulatedDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::from("/")];
    while let Some(directory) = pending.pop() {
        for name in disk.list(&directory).expect("lists") {
            let path = directory.join(name);
            match disk.list(&path) {
                Ok(_) => pending.push(path),
                Err(_) => found.push((path.clone(), disk.read_file(&path).expect("reads"))),
            }
        }
    }
    found
}

fn marker(number: u32) -> Vec<u8> {
    format!("marker-{number:06}-of-the-test").into_bytes()
}

/// Markers in keys, small values and large values, some in the data file and some in the journal alone.
fn write_markers(environment: &Arc<Environment>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut tx = environment.write().expect("writer");
        let large = marker(number).repeat(if number % 10 == 0 { 600 } else { 1 });
        put(&mut tx, &[b"key ", &marker(number)[..]].concat(), &large);
        tx.commit().expect("commits");
        if number % 100 == 99 {
            environment.flush().expect("flushes");
        }
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}

#[test]
fn no_file_shows_what_was_written_to_an_encrypted_environment() {
    let bench = Bench::new(1);
    let environment = bench.open();
    write_markers(&environment, 0..350);
    let readable = files(&bench.simulation.disk)
        .iter()
        .filter(|(_, bytes)| contains(bytes, b"-of-the-test") || contains(bytes, b"marker-"))
        .count();
    assert_eq!(readable == 0, is_encrypted());
    if is_encrypted() {
        let key = [7; 32];
        assert!(files(&bench.simulation.disk).iter().all(|(_, bytes)| !contains(bytes, &key)));
    }
    assert_eq!(entries(&environment.read()).len(), 350);
}

#[test]
fn a_key_is_needed_and_it_must_be_the_right_one() {
    let bench = Bench::new(2);
    let environment = bench.open();
    write_markers(&environment, 0..5);
    drop(environment);
    let before = files(&bench.simulation.disk);
    let open = |encryption_key| {
        let options = EnvironmentOptions { encryption_key, ..bench.options.clone() };
        Environment::open(&bench.simulation.platform, options).map(drop)
    };
    if is_encrypted() {
        assert!(matches!(open(None), Err(StorageError::KeyMissing { .. })));
        assert!(matches!(open(Some(key(8))), Err(StorageError::WrongKey { .. })));
    } else {
        assert!(matches!(open(Some(key(7))), Err(StorageError::NotEncrypted { .. })));
    }
    assert_eq!(files(&bench.simulation.disk), before, "a refusal changes nothing");
    assert_eq!(entries(&bench.open().read()).len(), 5);
}

/// An environment of which everything is in the data file, and its entries.
fn at_rest(bench: &Bench) -> Vec<(Vec<u8>, Vec<u8>)> {
    let environment = bench.open();
    write_markers(&environment, 0..300);
    environment.close().expect("closes");
    entries(&environment.read())
}

/// Pages in use, without the headers, each with all pages of its run.
fn used_pages(bench: &Bench) -> Vec<u64> {
    let environment = bench.open();
    let read = environment.read();
    let view = read.view();
    let mut first_pages = vec![2, 3];
    let root_tree = view.root.root_tree;
    let mut visit = |page: crate::PageNumber| {
        first_pages.push(page.get());
        Ok(())
    };
    crate::tree::walk_pages(view, &root_tree, &mut visit).expect("walks");
    for (_, state) in crate::compact::named_trees(&read).expect("names") {
        crate::tree::walk_pages(view, &state, &mut visit).expect("walks");
    }
    let whole = |first: u64| {
        let bytes = view.bytes_of(crate::PageNumber(first)).expect("a page");
        first..first + (bytes / PAGE_BYTES) as u64
    };
    first_pages.into_iter().flat_map(whole).collect()
}

#[test]
fn ten_thousand_single_bit_flips_are_all_noticed() {
    let bench = Bench::new(3);
    let before = at_rest(&bench);
    let pages = used_pages(&bench);
    let disk = &bench.simulation.disk;
    let mut random = Random::new(99);
    let flips = if is_encrypted() { 10_000 } else { 500 };
    for _ in 0..flips {
        let page = pages[random.below(pages.len() as u64) as usize];
        let at = page * PAGE_BYTES as u64 + random.below(PAGE_BYTES as u64);
        let bit = random.below(8) as u8;
        disk.flip_bit(Path::new(DATA), at, bit).expect("flips");
        let outcome = bench.try_open().and_then(|environment| environment.read().check());
        assert!(outcome.is_err(), "bit {bit} of byte {at}");
        disk.flip_bit(Path::new(DATA), at, bit).expect("flips back");
    }
    assert_eq!(entries(&bench.open().read()), before);
}

#[test]
fn a_flip_of_a_header_or_of_the_journal_is_noticed_or_does_no_harm() {
    let bench = Bench::new(4);
    let environment = bench.open();
    write_markers(&environment, 0..120);
    let before = entries(&environment.read());
    drop(environment);
    let disk = &bench.simulation.disk;
    let whole = files(disk);
    let mut random = Random::new(5);
    let mut refused = 0;
    for round in 0..400 {
        let (path, bytes) = &whole[random.below(whole.len() as u64) as usize];
        let at = match path.ends_with("corvus.data") {
            true => random.below(2) * PAGE_BYTES as u64 + random.below(144),
            false => random.below(bytes.len() as u64),
        };
        disk.flip_bit(path, at, (round % 8) as u8).expect("flips");
        match bench.try_open() {
            Ok(environment) => {
                let found = entries(&environment.read());
                // The last record may pass for a torn one.
                let last = &before[..before.len() - 1];
                assert!(found == before || found == last, "{} at {at}", path.display());
            }
            Err(error) => {
                let is_named = matches!(
                    error,
                    StorageError::Corrupt(_)
                        | StorageError::WrongKey { .. }
                        | StorageError::UnknownVersion { .. }
                        | StorageError::JournalOfAnother { .. }
                        | StorageError::JournalMissing { .. }
                );
                assert!(is_named, "{error}");
                refused += 1;
            }
        }
        for (path, _) in files(disk) {
            disk.remove_file(&path).expect("removes");
        }
        for (path, bytes) in &whole {
            let file = disk.create(path, Access::Buffered).expect("creates");
            file.write_all_at(bytes, 0).expect("writes");
        }
    }
    assert!(refused > 20, "{refused}");
    assert_eq!(entries(&bench.open().read()), before);
}

/// Replaces a page by bytes, checks, and puts it back.
fn check_with(bench: &Bench, page: u64, bytes: &[u8]) -> Result<(), StorageError> {
    let file = bench.simulation.disk.open(Path::new(DATA), Access::Buffered).expect("opens");
    let mut own = [0; PAGE_BYTES];
    file.read_exact_at(&mut own, page * PAGE_BYTES as u64).expect("reads");
    file.write_all_at(bytes, page * PAGE_BYTES as u64).expect("writes");
    let outcome = bench.try_open().and_then(|environment| environment.read().check().map(drop));
    file.write_all_at(&own, page * PAGE_BYTES as u64).expect("writes back");
    outcome
}

fn is_damage_of(error: &StorageError, wanted: u64) -> bool {
    match error {
        StorageError::Corrupt(
            Corruption::PageAuthentication { page }
            | Corruption::PageHeader { page, .. }
            | Corruption::PageChecksum { page },
        ) => page.get() == wanted,
        _ => false,
    }
}

#[test]
fn a_page_in_the_place_of_another_or_of_another_environment_is_named() {
    let (bench, other) = (Bench::new(5), Bench::new(6));
    at_rest(&bench);
    at_rest(&other);
    let pages = used_pages(&bench);
    let page_of = |bench: &Bench, page: u64| {
        let bytes = bench.simulation.disk.file_bytes(Path::new(DATA)).expect("file");
        bytes[page as usize * PAGE_BYTES..][..PAGE_BYTES].to_vec()
    };
    for pair in pages.windows(2) {
        let swapped = check_with(&bench, pair[0], &page_of(&bench, pair[1]));
        let error = swapped.expect_err("another page");
        assert!(matches!(error, StorageError::Corrupt(_)), "page {}: {error}", pair[0]);
    }
    if is_encrypted() {
        // The environments have the same history and the same key, but not the same identity.
        for page in pages {
            let first_of_run = check_with(&bench, page, &page_of(&other, page));
            let error = first_of_run.expect_err("another environment's");
            assert!(is_damage_of(&error, page) || !is_first(&bench, page), "page {page}: {error}");
        }
    }
}

fn is_first(bench: &Bench, page: u64) -> bool {
    let bytes = bench.simulation.disk.file_bytes(Path::new(DATA)).expect("file");
    bytes[page as usize * PAGE_BYTES..][..8] == page.to_le_bytes()
}

#[test]
fn the_same_writes_with_the_same_nonces_yield_the_same_bytes() {
    let sum = |bench: &Bench| {
        let environment = bench.open();
        let mut tx = environment.write().expect("writer");
        put(&mut tx, b"users/1", b"Oscar");
        tx.commit().expect("commits");
        environment.flush().expect("flushes");
        drop(environment);
        let bytes = bench.simulation.disk.file_bytes(Path::new(DATA)).expect("file");
        xxhash_rust::xxh3::xxh3_64(&bytes)
    };
    // A change of these numbers is a change of the format.
    let known = if is_encrypted() { KNOWN_ENCRYPTED } else { KNOWN_PLAIN };
    assert_eq!(sum(&Bench::new(11)), known);
}

const KNOWN_PLAIN: u64 = 13_294_567_042_135_973_078;
const KNOWN_ENCRYPTED: u64 = 4_564_524_646_181_203_570;

#[test]
fn a_transaction_reads_more_than_is_kept_and_a_renewed_one_starts_afresh() {
    let mut bench = Bench::new(7);
    bench.options.plaintext_budget = crate::MemoryBudget::new(8 << 20);
    bench.options.plaintext_bytes_max = 1 << 20;
    let environment = bench.open();
    for number in 0..400u32 {
        let mut tx = environment.write().expect("writer");
        put(&mut tx, &number.to_be_bytes(), &[number as u8; 40_000]);
        tx.commit().expect("commits");
        if number % 50 == 0 {
            environment.flush().expect("flushes");
        }
    }
    let read = environment.read();
    let get = |read: &crate::ReadTransaction, number: u32| {
        let tree = read.tree(&name("t")).expect("tree");
        tree.get(&number.to_be_bytes()).map(|value| value.expect("there").to_vec())
    };
    let refused = (0..400).find_map(|number| get(&read, number).err());
    assert_eq!(
        refused.is_some_and(|error| matches!(error, StorageError::NoMemoryToDecrypt(_))),
        is_encrypted()
    );
    drop(read);
    let mut read = environment.read();
    for number in 0..400 {
        if number % 20 == 0 {
            read = read.renewed();
        }
        assert_eq!(get(&read, number).expect("reads"), [number as u8; 40_000]);
    }
    drop(read);
    environment.read().check().expect("a check renews by itself");
}

#[test]
fn nothing_decrypted_is_kept_when_it_is_quiet() {
    let bench = Bench::new(8);
    let environment = bench.open();
    write_markers(&environment, 0..50);
    let read = environment.read();
    let before = entries(&read);
    environment.release_plaintext_when_quiet();
    assert_eq!(environment.release_plaintext_when_quiet(), !is_encrypted(), "one is open");
    assert_eq!(entries(&read), before);
    drop(read);
    assert!(environment.release_plaintext_when_quiet());
    assert_eq!(entries(&environment.read()), before);
    write_markers(&environment, 50..60);
    assert_eq!(entries(&environment.read()).len(), 60);
}

#[test]
fn compaction_keeps_an_environment_what_it_is() {
    let bench = Bench::new(9);
    let before = at_rest(&bench);
    let go_on = &mut |_: &CompactProgress| std::ops::ControlFlow::Continue(());
    compact_in_place(&bench.simulation.platform, &bench.options, &[], go_on).expect("compacts");
    assert_eq!(entries(&bench.open().read()), before);
    let readable =
        files(&bench.simulation.disk).iter().any(|(_, bytes)| contains(bytes, b"marker-"));
    assert_eq!(readable, !is_encrypted());
}

#[test]
fn environments_that_share_a_key_share_no_keystream() {
    let bench = Bench::new(10);
    let environments = ["/one", "/two"].map(|directory| {
        let environment = Environment::open(&bench.simulation.platform, options(directory));
        let environment = environment.expect("opens");
        write_markers(&environment, 0..20);
        environment.flush().expect("flushes");
        environment
    });
    drop(environments);
    if !is_encrypted() {
        return;
    }
    let mut nonces = BTreeMap::new();
    for path in ["/one/corvus.data", "/two/corvus.data"] {
        let bytes = bench.simulation.disk.file_bytes(Path::new(path)).expect("file");
        for (page, content) in bytes.chunks(PAGE_BYTES).enumerate().skip(2) {
            let is_page = content[..8] == (page as u64).to_le_bytes();
            if is_page && let Some(other) = nonces.insert(content[24..48].to_vec(), (path, page)) {
                panic!("page {page} of {path} has the nonce of {other:?}");
            }
        }
    }
    assert!(nonces.len() > 8);
}
