//! Defining indexes, where memory is short.

use std::{sync::mpsc, thread, time::Duration};

use model::IndexDefinition;
use platform::Platform;
use storage::MemoryShare;

use crate::{settings_with, with_database_of};

/// Long enough for a thread that does not wait, short enough for a test.
const MOMENT: Duration = Duration::from_millis(200);

/// Of about 300 KB.
fn definition(name: &str) -> IndexDefinition {
    let numbers: Vec<_> = (100_000..143_000).map(|number| number.to_string()).collect();
    let map = format!("map('Items', i => ({{ N: [{}] }}))", numbers.join(","));
    IndexDefinition { name: name.to_owned(), maps: vec![map], ..IndexDefinition::default() }
}

#[test]
fn large_definitions_and_changes_of_large_records_wait_for_memory() {
    let (engine, database) =
        with_database_of(settings_with(&["--Memory.LimitInMb=128"]), Platform::memory());
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
