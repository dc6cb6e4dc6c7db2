//! Defining indexes, where memory is short.

use std::{sync::mpsc, thread, time::Duration};

use engine::Engine;
use model::IndexDefinition;
use platform::Platform;
use storage::MemoryShare;

use crate::{open, settings_with, with_database_of};

/// Long enough for a thread that does not wait, short enough for a test.
const MOMENT: Duration = Duration::from_millis(200);

/// In memory, where other tests of this process take none.
fn platform() -> Platform {
    Platform { memory: Platform::simulated(1).platform.memory, ..Platform::memory() }
}

/// Of about 300 KB.
fn definition(name: &str) -> IndexDefinition {
    let numbers: Vec<_> = (100_000..143_000).map(|number| number.to_string()).collect();
    let map = format!("map('Items', i => ({{ N: [{}] }}))", numbers.join(","));
    IndexDefinition { name: name.to_owned(), maps: vec![map], ..IndexDefinition::default() }
}

#[test]
fn large_definitions_and_changes_of_large_records_wait_for_memory() {
    let (engine, database) =
        with_database_of(settings_with(&["--Memory.LimitInMb=128"]), platform());
    engine.define_index(&database, &definition("Large")).unwrap();
    // What is left of the memory for work is too little for eight times the definition.
    let fill = |budget: &std::sync::Arc<storage::MemoryBudget>| -> MemoryShare {
        let mut share = budget.share(0);
        share.try_grow_to(budget.bytes_max() - (1 << 20)).unwrap();
        share
    };
    let defines = || engine.define_index(&database, &definition("Other")).map(drop);
    let deletes = || engine.delete_index(&database, "Large").map(drop);
    type Change<'c> = &'c (dyn Fn() -> Result<(), engine::EngineError> + Sync);
    let changes: [(Change<'_>, _); 2] =
        [(&defines, &engine.memory().definitions), (&deletes, &engine.memory().records)];
    for (change, budget) in changes {
        let others = fill(budget);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move || sender.send(change()).unwrap());
            assert!(receiver.recv_timeout(MOMENT).is_err(), "it did not wait");
            drop(others);
            receiver.recv().unwrap().unwrap();
        });
    }
    assert_eq!(database.indexes().all().len(), 1);
}

#[test]
fn a_record_from_a_machine_with_more_memory_can_be_made_smaller() {
    let platform = platform();
    let (engine, database) = with_database_of(settings_with(&[]), platform.clone());
    for number in 0..8 {
        engine.define_index(&database, &definition(&format!("Large{number}"))).unwrap();
    }
    drop(database);
    engine.close();
    let engine = Engine::open(settings_with(&["--Memory.LimitInMb=128"]), platform).unwrap();
    let database = open(&engine);
    // Eight times the record would be more than there is for changes of records.
    let record_bytes = database.record().configuration.json().len() as u64;
    assert!(engine.memory().records.bytes_max() < 8 * record_bytes);
    assert!(engine.delete_index(&database, "Large0").unwrap());
    assert_eq!(database.indexes().all().len(), 7);
}
