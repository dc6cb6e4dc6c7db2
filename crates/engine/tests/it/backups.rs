//! Restores that do not complete.

use database::{AccessError, NewDatabase};
use engine::Engine;
use model::DatabaseName;
use platform::Platform;

use crate::settings;

#[test]
fn a_database_that_is_being_restored_is_not_used_and_is_removed_at_the_next_start() {
    let platform = Platform::memory();
    let engine = Engine::open(settings(), platform.clone()).unwrap();
    // As a restore begins. The process ends before it is complete.
    let half = || NewDatabase {
        name: DatabaseName::new("half").unwrap(),
        disabled: false,
        body: br#"{"DatabaseName":"half","DatabaseState":"RestoreInProgress"}"#.to_vec(),
        request_id: None,
        adopts_files: false,
    };
    engine.create_database(half()).unwrap();
    let refused = loop {
        match engine.access("half") {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refused, AccessError::Locked { reason: "it is being restored" }),
        "{refused:?}"
    );
    assert!(engine.if_open("half").is_none());
    engine.close();
    drop(engine);
    let engine = Engine::open(settings(), platform.clone()).unwrap();
    assert!(engine.records().is_empty());
    engine.create_database(half()).unwrap();
}
