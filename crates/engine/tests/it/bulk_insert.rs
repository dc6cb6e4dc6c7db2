//! Bulk inserts, driven as a caller that blocks does.

use std::sync::Arc;

use blittable::{BlittableBuf, ParseLimits, parse_document};
use commands::{Batch, BatchOutcome, CommandError, PatchError, SubmitError};
use database::DatabaseLease;
use documents::DocumentError;
use engine::{BulkInsert, BulkInsertStep, Engine, EngineError};
use model::DocumentId;
use storage::{MemoryExhausted, StorageError};

use crate::with_database;

/// How many times a small batch is tried again.
const MEMORY_TRIES: usize = 100;

fn document(number: usize) -> BlittableBuf {
    let json = format!(r#"{{"N":{number},"@metadata":{{"@collection":"Users"}}}}"#);
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn put(insert: &mut BulkInsert, id: &str, number: usize) {
    insert.put(Some(id), document(number)).unwrap();
}

/// Why a batch is not executed, if it is not.
type Fails = Box<dyn FnMut(&Batch) -> Option<EngineError>>;

/// A caller, with the sizes of the batches that it has submitted.
struct Caller<'e> {
    engine: &'e Engine,
    database: &'e DatabaseLease,
    fails: Fails,
    in_flight: Option<Result<BatchOutcome, EngineError>>,
    submitted: Vec<usize>,
    pauses: usize,
}

impl<'e> Caller<'e> {
    fn of(engine: &'e Engine, database: &'e DatabaseLease) -> Self {
        let (in_flight, submitted) = (None, Vec::new());
        Caller { engine, database, fails: Box::new(|_| None), in_flight, submitted, pauses: 0 }
    }

    fn advance(&mut self, insert: &mut BulkInsert) -> Result<(), EngineError> {
        loop {
            match insert.step()? {
                BulkInsertStep::Collect => return Ok(()),
                BulkInsertStep::Submit(batch) => {
                    self.submitted.push(batch.commands.len());
                    self.in_flight = Some(match (self.fails)(&batch) {
                        Some(error) => Err(error),
                        None => self.engine.execute(self.database, batch),
                    });
                }
                BulkInsertStep::Settle => self.settle(insert)?,
                BulkInsertStep::Pause(_) => self.pauses += 1,
            }
        }
    }

    fn settle(&mut self, insert: &mut BulkInsert) -> Result<(), EngineError> {
        insert.settle(self.in_flight.take().unwrap()).map(drop)
    }

    fn finish(&mut self, insert: &mut BulkInsert) -> Result<(), EngineError> {
        insert.close_batch();
        self.advance(insert)?;
        while self.in_flight.is_some() {
            self.settle(insert)?;
            self.advance(insert)?;
        }
        Ok(())
    }
}

/// More than there is now, but not more than there may be.
fn memory_is_short() -> StorageError {
    StorageError::NoMemory(MemoryExhausted { own: 1, taken: 3, bytes_max: 2 })
}

/// The outcomes of a batch for which there was no room at that moment.
fn shortages() -> Vec<EngineError> {
    let of_storage = || {
        [
            memory_is_short(),
            StorageError::BuiltOnFailed { reason: Arc::new(memory_is_short()) },
            StorageError::TooManyUnflushed { bytes: 3, limit: 2 },
            StorageError::GivenUp { transaction: 1 },
        ]
    };
    let wrappers: [fn(StorageError) -> EngineError; 4] = [
        |error| CommandError::NotWritten(error).into(),
        |error| CommandError::Document(DocumentError::Storage(error)).into(),
        |error| DocumentError::Storage(error).into(),
        EngineError::Storage,
    ];
    let wrapped = wrappers.iter().flat_map(|wrapper| of_storage().map(wrapper));
    let no_engine = PatchError::Engine { message: "no memory for its heap".to_owned() };
    wrapped.chain([SubmitError::Full.into(), CommandError::Patch(no_engine).into()]).collect()
}

fn too_long() -> EngineError {
    CommandError::Document(DocumentError::TooLong { bytes_max: 1 }).into()
}

fn more_than_all_memory() -> EngineError {
    let exhausted = MemoryExhausted { own: 3, taken: 3, bytes_max: 2 };
    CommandError::NotWritten(StorageError::NoMemory(exhausted)).into()
}

fn is_stored(database: &DatabaseLease, id: &str) -> bool {
    documents::get(&database.read(), &DocumentId::new(id).unwrap()).unwrap().is_some()
}

#[test]
fn elements_are_stored_in_batches_while_more_are_collected() {
    let (engine, database) = with_database();
    let mut insert = engine.begin_bulk_insert(&database, false);
    let mut caller = Caller::of(&engine, &database);
    for number in 0..5000 {
        put(&mut insert, &format!("users/{number}"), number);
        if insert.is_full() {
            insert.close_batch();
            caller.advance(&mut insert).unwrap();
            assert!(caller.in_flight.is_some() && insert.is_empty());
        }
    }
    assert_eq!(insert.totals().processed, 0, "the first batch is still on its way");
    assert!(0 < insert.held_bytes());
    caller.finish(&mut insert).unwrap();
    assert_eq!(caller.submitted, [4096, 904]);
    assert_eq!((insert.totals().processed, insert.totals().batches), (5000, 2));
    assert_eq!(insert.totals().last_id.as_deref(), Some("users/4999"));
    assert_eq!(insert.held_bytes(), 0);
    assert!(is_stored(&database, "users/0") && is_stored(&database, "users/4999"));
}

#[test]
fn documents_that_are_stored_already_are_skipped_unless_they_are_on_their_way() {
    let (engine, database) = with_database();
    for (number, expected) in [(1, vec![1]), (1, vec![]), (2, vec![1])] {
        let mut insert = engine.begin_bulk_insert(&database, true);
        let mut caller = Caller::of(&engine, &database);
        put(&mut insert, "users/1", number);
        caller.finish(&mut insert).unwrap();
        assert_eq!((caller.submitted, insert.totals().processed), (expected, 1));
    }
    let mut insert = engine.begin_bulk_insert(&database, true);
    let mut caller = Caller::of(&engine, &database);
    put(&mut insert, "users/1", 3);
    // What is stored is the second version, but the third is collected.
    put(&mut insert, "USERS/1", 2);
    caller.finish(&mut insert).unwrap();
    assert_eq!(caller.submitted, [2]);
}

#[test]
fn a_small_batch_without_memory_is_stored_in_parts() {
    let (engine, database) = with_database();
    for (round, (error, again)) in shortages().into_iter().zip(shortages()).enumerate() {
        let shown = error.to_string();
        let mut insert = engine.begin_bulk_insert(&database, false);
        let mut caller = Caller::of(&engine, &database);
        let mut failures = vec![error, again];
        caller.fails = Box::new(move |_| failures.pop());
        let id = |number| format!("users/{round}/{number}");
        for number in 0..8 {
            put(&mut insert, &id(number), number);
        }
        caller.finish(&mut insert).unwrap();
        // All, a half of them, a quarter; and the rest, since there is memory again.
        assert_eq!((caller.submitted[0], caller.submitted[1]), (8, 4), "{shown}");
        assert_eq!(caller.submitted[2..].iter().sum::<usize>(), 8);
        assert_eq!((insert.totals().processed, caller.pauses), (8, 2));
        assert!((0..8).all(|number| is_stored(&database, &id(number))));
    }
}

#[test]
fn an_element_for_which_there_is_never_memory_fails_after_a_while() {
    let (engine, database) = with_database();
    let mut insert = engine.begin_bulk_insert(&database, false);
    let mut caller = Caller::of(&engine, &database);
    caller.fails = Box::new(|_| Some(CommandError::NotWritten(memory_is_short()).into()));
    put(&mut insert, "users/1", 1);
    let ended = caller.finish(&mut insert);
    assert!(matches!(ended, Err(EngineError::Command(CommandError::NotWritten(_)))), "{ended:?}");
    assert_eq!(caller.submitted.len(), 1 + MEMORY_TRIES);
    assert_eq!(insert.totals().processed, 0);
}

#[test]
fn elements_that_are_too_large_together_are_stored_one_by_one() {
    let (engine, database) = with_database();
    for too_large in [too_long, more_than_all_memory] {
        let mut insert = engine.begin_bulk_insert(&database, false);
        let mut caller = Caller::of(&engine, &database);
        caller.fails = Box::new(move |batch| (1 < batch.commands.len()).then(too_large));
        put(&mut insert, "users/1", 1);
        put(&mut insert, "users/2", 2);
        caller.finish(&mut insert).unwrap();
        assert_eq!(insert.totals().processed, 2);
        // One that is too large by itself is not tried again.
        let mut caller = Caller::of(&engine, &database);
        caller.fails = Box::new(move |_| Some(too_large()));
        put(&mut insert, "users/3", 3);
        assert!(caller.finish(&mut insert).is_err());
        assert_eq!(caller.submitted, [1]);
    }
}

#[test]
fn other_errors_end_the_insert_and_what_was_stored_remains() {
    let (engine, database) = with_database();
    let mut insert = engine.begin_bulk_insert(&database, false);
    let mut caller = Caller::of(&engine, &database);
    put(&mut insert, "users/1", 1);
    caller.finish(&mut insert).unwrap();
    caller.fails = Box::new(|_| Some(CommandError::Closed.into()));
    put(&mut insert, "users/2", 2);
    assert!(matches!(caller.finish(&mut insert), Err(EngineError::Command(CommandError::Closed))));
    assert_eq!((insert.totals().processed, insert.totals().batches), (1, 1));
    assert!(is_stored(&database, "users/1") && !is_stored(&database, "users/2"));
}

#[test]
fn an_id_that_an_identity_would_complete_is_refused() {
    let (engine, database) = with_database();
    let mut insert = engine.begin_bulk_insert(&database, false);
    let refused = insert.put(Some("users|"), document(1));
    assert!(matches!(
        refused,
        Err(EngineError::Document(DocumentError::UnresolvedIdentity { .. }))
    ));
    insert.put(None, document(1)).unwrap();
    insert.put(Some("users/"), document(1)).unwrap();
    Caller::of(&engine, &database).finish(&mut insert).unwrap();
    assert_eq!((insert.totals().processed, &insert.totals().last_id), (2, &None));
}
