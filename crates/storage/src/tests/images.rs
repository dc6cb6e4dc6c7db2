//! Images: taken while somebody writes, and made environments of.

use std::sync::Arc;

use platform::simulated::Random;

use super::{Bench, entries, is_encrypted, key, name, options, put};
use crate::{
    Environment, EnvironmentOptions, History, ImageEnd, ImagePages, ImageReader, ImageRestore,
    ImageStep, PAGE_BYTES, ReadTransaction, StorageError, Transaction,
};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Changes some entries, long ones among them, which are runs of pages.
fn change(environment: &Arc<Environment>, random: &mut Random) {
    let mut tx = environment.write().expect("writer");
    for _ in 0..random.below(40) {
        let key = random.below(300).to_be_bytes();
        match random.below(4) {
            0 => drop(tx.tree_mut(&name("t")).expect("tree").delete(&key).expect("delete")),
            1 => put(&mut tx, &key, &vec![key[7]; random.below(60_000) as usize]),
            _ => put(&mut tx, &key, &vec![key[7]; random.below(900) as usize]),
        }
    }
    tx.commit().expect("commits");
    if random.below(3) == 0 {
        environment.flush().expect("flushes");
    }
}

/// An image, in which `passes` passes go over to newer snapshots; and what it is to contain.
fn image(
    environment: &Arc<Environment>,
    random: &mut Random,
    passes: u64,
) -> (Vec<u8>, ImageEnd, Entries) {
    let (mut pages, mut out) = (ImagePages::default(), Vec::new());
    let mut read = environment.read();
    for pass in 0.. {
        loop {
            change(environment, random);
            match pages.step(&read, &mut out).expect("copies") {
                ImageStep::SectionEnd if pass < passes => read = environment.read(),
                ImageStep::Within | ImageStep::SectionEnd => {}
                ImageStep::PassEnd { is_whole: false } => break,
                ImageStep::PassEnd { is_whole: true } => {
                    return (out, pages.end(&read), entries(&read));
                }
            }
        }
        read = environment.read();
    }
    unreachable!("each pass ends")
}

fn restored(bench: &Bench, image: &[u8], end: &ImageEnd) -> Result<Arc<Environment>, StorageError> {
    let options = EnvironmentOptions { history: History::Kept, ..options("/copy") };
    let mut restore = ImageRestore::begin(&bench.simulation.platform, options.clone())?;
    // Pieces that have nothing to do with pages.
    for piece in image.chunks(5_001) {
        restore.take(piece)?;
    }
    restore.complete(end)?;
    Environment::open(&bench.simulation.platform, options)
}

#[test]
fn an_image_that_is_taken_while_somebody_writes_is_that_of_one_snapshot() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(seed);
        bench.options.history = History::Kept;
        let environment = bench.open();
        for _ in 0..20 {
            change(&environment, &mut random);
        }
        let (image, end, expected) = image(&environment, &mut random, seed % 4);
        let copy = restored(&bench, &image, &end).expect("restores");
        assert_eq!(entries(&copy.read()), expected, "seed {seed}");
        copy.read().check().expect("is sound");
        // It is another environment, with a history of its own, and goes on as any.
        assert_ne!(copy.id(), environment.id());
        assert_eq!(copy.point_of(&copy.read()).expect("reads"), None);
        assert!(end.transaction <= copy.read().id());
        change(&copy, &mut random);
        let after = entries(&copy.read());
        copy.close().expect("closes");
        drop(copy);
        let options = EnvironmentOptions { history: History::Kept, ..options("/copy") };
        let copy = Environment::open(&bench.simulation.platform, options).expect("opens");
        assert_eq!(entries(&copy.read()), after);
    }
}

#[test]
fn an_image_may_get_a_key_or_lose_it() {
    let bench = Bench::new(1);
    let environment = bench.open();
    let mut random = Random::new(1);
    for _ in 0..20 {
        change(&environment, &mut random);
    }
    let (image, end, expected) = image(&environment, &mut random, 0);
    let other = (!is_encrypted()).then(|| key(9));
    let options = EnvironmentOptions { encryption_key: other, ..EnvironmentOptions::new("/copy") };
    let mut restore = ImageRestore::begin(&bench.simulation.platform, options.clone()).unwrap();
    restore.take(&image).unwrap();
    restore.complete(&end).unwrap();
    let copy = Environment::open(&bench.simulation.platform, options).unwrap();
    assert_eq!(copy.is_encrypted(), !is_encrypted());
    assert_eq!(entries(&copy.read()), expected);
    copy.read().check().expect("is sound");
}

#[test]
fn a_damaged_image_is_refused_and_leaves_no_environment() {
    let bench = Bench::new(2);
    let environment = bench.open();
    let mut random = Random::new(2);
    for _ in 0..20 {
        change(&environment, &mut random);
    }
    let (image, end, _) = image(&environment, &mut random, 2);
    for round in 0..200 {
        let (mut damaged, mut end) = (image.clone(), end);
        let page = random.below((image.len() / PAGE_BYTES) as u64) as usize * PAGE_BYTES;
        match round % 5 {
            0 => damaged.truncate(page),
            1 => drop(damaged.drain(page..page + PAGE_BYTES)),
            2 => end.next_page += 1,
            3 => damaged.extend_from_within(..100),
            _ => {
                let at = random.below(image.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
        }
        let mut reader = ImageReader::default();
        let read = reader.take(&damaged, &mut |_, _| Ok(())).and_then(|()| reader.end(&end));
        assert!(read.is_err(), "round {round}");
        assert!(restored(&bench, &damaged, &end).is_err(), "round {round}");
        let left = bench.simulation.platform.disk.list("/copy".as_ref()).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn an_environment_is_not_replaced() {
    let bench = Bench::new(3);
    let _environment = bench.open();
    let begun = ImageRestore::begin(&bench.simulation.platform, bench.options.clone());
    assert!(matches!(begun, Err(StorageError::TargetInUse { .. })));
}

/// What nothing was written to has an image, too.
#[test]
fn an_empty_environment_has_an_image() {
    let bench = Bench::new(4);
    let environment = bench.open();
    let (mut pages, mut out) = (ImagePages::default(), Vec::new());
    let read: ReadTransaction = environment.read();
    while !matches!(pages.step(&read, &mut out).unwrap(), ImageStep::PassEnd { .. }) {}
    let copy = restored(&bench, &out, &pages.end(&read)).unwrap();
    copy.read().check().expect("is sound");
    assert!(copy.read().tree(&name("t")).unwrap().is_empty());
}
