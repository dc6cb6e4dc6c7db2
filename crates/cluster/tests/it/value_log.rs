//! The log of compare exchange: the last change of each key; deletions until they are forgotten.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cluster_state::CompareExchangeCommand;
use platform::{Platform, simulated::Random};

use crate::{DATABASE, Home};

const CHANGES: u64 = 400;
const KEYS: u64 = 12;

#[test]
fn the_log_holds_every_key_once_until_its_deletion_is_forgotten() {
    let home = Home::open(&Platform::memory());
    let values = home.cluster.store().values_of(DATABASE);
    let notified = Arc::new(AtomicU64::new(0));
    let watch = values.watch({
        let notified = Arc::clone(&notified);
        move || {
            notified.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut random = Random::new(7);
    // By key: the index of its last change, and whether it is there.
    let mut model: BTreeMap<String, (u64, bool)> = BTreeMap::new();
    let mut last_forgotten = 0;
    for change in 1..=CHANGES {
        let key = format!("k{}", random.next_u64() % KEYS);
        let known = model.get(&key).copied();
        let notified_before = notified.load(Ordering::SeqCst);
        match random.next_u64() % 8 {
            0..4 => {
                let expected = known.map_or(0, |(index, _)| index);
                let put = home.put(&key.to_uppercase(), expected, r#"{"Object":1}"#);
                assert!(put.is_successful);
                model.insert(key, (put.index, true));
                assert!(notified_before < notified.load(Ordering::SeqCst));
            }
            4..7 => {
                let Some((index, true)) = known else { continue };
                model.insert(key.clone(), (home.delete(&key, index).index, false));
                assert!(notified_before < notified.load(Ordering::SeqCst));
            }
            _ => {
                let up_to = random.next_u64() % (2 * change);
                let (database, before) = (DATABASE, model.len());
                let outcome =
                    home.change(CompareExchangeCommand::ForgetDeleted { database, up_to });
                model.retain(|_, (index, is_there)| {
                    let is_kept = *is_there || up_to < *index;
                    last_forgotten =
                        if is_kept { last_forgotten } else { last_forgotten.max(*index) };
                    is_kept
                });
                assert_eq!(outcome.removed, before - model.len());
            }
        }
        let now = values.read();
        let after = random.next_u64() % (2 * change);
        let logged = now.changes_after(after).unwrap().map(|entry| entry.unwrap());
        let logged: Vec<_> =
            logged.map(|entry| (entry.index, entry.key, !entry.is_deleted)).collect();
        let mut expected: Vec<_> =
            model.iter().map(|(key, (index, there))| (*index, key.clone(), *there)).collect();
        expected.sort();
        assert_eq!(now.last_change().unwrap(), expected.last().map_or(0, |entry| entry.0));
        assert_eq!(now.last_forgotten_deletion().unwrap(), last_forgotten);
        expected.retain(|entry| after < entry.0);
        assert_eq!(logged, expected);
        let deleted = model.values().filter(|(_, is_there)| !is_there).count() as u64;
        let state = home.cluster.store().read();
        assert_eq!(state.deleted_compare_exchange_count(DATABASE).unwrap(), deleted);
    }
    drop(watch);
    let notified_before = notified.load(Ordering::SeqCst);
    home.put("last", 0, r#"{"Object":1}"#);
    assert_eq!(notified.load(Ordering::SeqCst), notified_before, "a dropped watch is not notified");
    home.close();
}
