//! Tests of the whole engine on the simulated disk. They run twice: as `tests`, and on encrypted environments as
//! `tests_encrypted`.

mod crashes;
mod encryption;
mod faults;
mod history;
mod identity;
mod images;
mod model;
mod offline;
mod snapshots;

use std::{ops::Bound, sync::Arc};

use platform::{Platform, simulated::Simulation};

use crate::{
    EncryptionKey, Environment, EnvironmentOptions, StorageError, Transaction, TreeName,
    WriteTransaction,
};

/// An environment on a simulated disk, with journals and memory small enough that everything happens.
struct Bench {
    simulation: Simulation,
    options: EnvironmentOptions,
}

/// Whether these are the tests on encrypted environments.
fn is_encrypted() -> bool {
    module_path!().contains("tests_encrypted")
}

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::take(&mut [byte; EncryptionKey::BYTES]).expect("the kernel keeps it")
}

fn options(directory: &str) -> EnvironmentOptions {
    let encryption_key = is_encrypted().then(|| key(7));
    EnvironmentOptions { encryption_key, ..EnvironmentOptions::new(directory) }
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut options = options("/db");
        options.journal_bytes_max = 512 * 1024;
        Self { simulation: Platform::simulated(seed), options }
    }

    fn open(&self) -> Arc<Environment> {
        self.try_open().expect("opens")
    }

    fn try_open(&self) -> Result<Arc<Environment>, StorageError> {
        Environment::open(&self.simulation.platform, self.options.clone())
    }
}

fn name(name: &str) -> TreeName {
    TreeName::from(name)
}

fn put(tx: &mut WriteTransaction, key: &[u8], value: &[u8]) {
    tx.tree_mut(&name("t")).expect("tree").put(key, value).expect("put");
}

fn entries(tx: &impl Transaction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let tree = tx.tree(&name("t")).expect("tree");
    let entries = tree.range(Bound::Unbounded).expect("range");
    let entries: Vec<(Vec<u8>, Vec<u8>)> = entries
        .map(|entry| entry.map(|(key, value)| (key, value.to_vec())).expect("entry"))
        .collect();
    let mut scan = tree.scan(Bound::Unbounded).expect("scan");
    let mut back = tree.scan_back(Bound::Unbounded).expect("scan");
    for (first, last) in entries.iter().zip(entries.iter().rev()) {
        let (key, value) = scan.next().expect("reads").expect("as many entries");
        assert_eq!((key, value), (&first.0[..], &first.1[..]));
        let (key, value) = back.next().expect("reads").expect("as many entries");
        assert_eq!((key, value), (&last.0[..], &last.1[..]));
    }
    assert!(scan.next().expect("reads").is_none() && back.next().expect("reads").is_none());
    entries
}
