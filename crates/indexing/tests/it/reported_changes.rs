//! What is reported of indexes, and what is done about it, while they are removed by another thread.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use indexing::{IndexChange, IndexSet, IndexSetContext, IndexSetEvent, IndexingPool, OnIndexEvent};
use model::{Etag, IndexDefinition, RecordedIndexes};
use platform::Platform;
use script::ScriptPool;
use storage::EnvironmentOptions;

use crate::fixture::{DEFINITION_FORMAT, Documents, Outputs};

/// How long something in the background may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a report waits for one that should not come before it.
const OVERTAKING_TIME: Duration = Duration::from_millis(200);
/// A wait for what another thread does, and how many of them are too many.
const STEP: Duration = Duration::from_millis(1);
const STEPS_MAX: usize = 20_000;
const USER: &str = r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#;

/// One thread indexes.
fn indexes_of(documents: &Documents, on_event: OnIndexEvent) -> Arc<IndexSet> {
    IndexSet::new(IndexSetContext {
        platform: documents.platform.clone(),
        documents: Arc::clone(&documents.environment),
        values: None,
        directory: "/indexes".into(),
        environment: EnvironmentOptions::new("/"),
        on_open: Arc::new(|_| ()),
        scripts: ScriptPool::new(Arc::clone(&documents.platform.clock)),
        pool: IndexingPool::new(Arc::clone(&documents.platform.clock), 1),
        outputs: Arc::new(Outputs {
            platform: documents.platform.clone(),
            environment: Arc::clone(&documents.environment),
        }),
        definition_format: DEFINITION_FORMAT,
        on_event,
    })
}

fn define(set: &IndexSet, field: &str) {
    let definition = IndexDefinition {
        name: "I".to_owned(),
        maps: vec![format!("from u in docs.Users select new {{ {field} = u.Name }}")],
        ..IndexDefinition::default()
    };
    let indexes = BTreeMap::from([("I".to_owned(), definition)]);
    set.follow_record(&RecordedIndexes { indexes, ..RecordedIndexes::default() });
}

/// What was reported of an index without documents that one thread removes while another one is about to
/// report that it is done.
fn reported_while(remove: impl FnOnce(&IndexSet) + Send) -> Vec<IndexChange> {
    let documents = Documents::made_on(Platform::memory(), storage::History::NotKept);
    let (entered, is_entered) = mpsc::channel();
    let (removed, is_removed) = mpsc::channel();
    let is_removed = Mutex::new(is_removed);
    let reported: Arc<Mutex<Vec<IndexChange>>> = Arc::default();
    let notes = Arc::clone(&reported);
    let on_event: OnIndexEvent = Arc::new(move |event| {
        let IndexSetEvent::Changed { change, .. } = event else { return };
        if *change == IndexChange::BatchCompleted && entered.send(()).is_ok() {
            // The removal is reported now, if it can be.
            let _overtaken = is_removed.lock().unwrap().recv_timeout(OVERTAKING_TIME);
        }
        notes.lock().unwrap().push(*change);
        if *change == IndexChange::Removed {
            removed.send(()).unwrap_or(());
        }
    });
    let set = indexes_of(&documents, on_event);
    define(&set, "A");
    is_entered.recv_timeout(PATIENCE).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| remove(&set));
    });
    set.close();
    reported.lock().unwrap().clone()
}

#[test]
fn nothing_is_reported_of_an_index_after_its_removal() {
    let reported = reported_while(|set| assert!(set.delete("I").unwrap()));
    assert_eq!(reported, [IndexChange::Added, IndexChange::BatchCompleted, IndexChange::Removed]);
}

#[test]
fn an_index_that_is_reset_is_reported_as_removed_after_its_last_batch() {
    let reported = reported_while(|set| drop(set.reset("I").unwrap().unwrap()));
    let first = [IndexChange::Added, IndexChange::BatchCompleted, IndexChange::Removed];
    assert_eq!(reported[..3], first, "{reported:?}");
    assert_eq!(reported[3], IndexChange::Added, "{reported:?}");
}

#[test]
fn a_replacement_does_not_take_the_place_that_an_earlier_one_caught_up_for() {
    let documents = Documents::made_on(Platform::memory(), storage::History::NotKept);
    documents.put("users/1", USER);
    let (caught_up, has_caught_up) = mpsc::channel();
    let (replaced, is_replaced) = mpsc::channel();
    let itself: Arc<OnceLock<Weak<IndexSet>>> = Arc::default();
    let (known, reports) = (Arc::clone(&itself), AtomicUsize::new(0));
    let (_keeps, never) = mpsc::channel::<()>();
    let never = Mutex::new(never);
    let on_event: OnIndexEvent = Arc::new(move |event| {
        let Some(set) = known.get().and_then(Weak::upgrade) else { return };
        match event {
            IndexSetEvent::Changed {
                index: "ReplacementOf/I",
                change: IndexChange::BatchCompleted,
            } if reports.fetch_add(1, Ordering::Relaxed) == 1 => {
                // The first report came with the batch. At the second one it was decided already that the
                // replacement takes its place; now it is dropped for a newer one.
                caught_up.send(()).unwrap_or(());
                let is_there = || set.get("ReplacementOf/I").is_some();
                let waits = (0..STEPS_MAX).take_while(|_| is_there());
                for _ in waits {
                    let _step = never.lock().unwrap().recv_timeout(STEP);
                }
            }
            IndexSetEvent::Replaced { .. } => {
                replaced.send(set.get("I").unwrap().progress()).unwrap_or(());
            }
            _ => (),
        }
    });
    let set = indexes_of(&documents, on_event);
    assert!(itself.set(Arc::downgrade(&set)).is_ok());
    define(&set, "A");
    define(&set, "B");
    has_caught_up.recv_timeout(PATIENCE).unwrap();
    define(&set, "C");
    let progress = is_replaced.recv_timeout(PATIENCE).unwrap();
    assert_eq!(progress, Etag(1), "everything was indexed before it took the place");
    set.close();
}
