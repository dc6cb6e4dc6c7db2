//! Operations on all documents that a query selects, while memory is short.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use blittable::{ParseLimits, parse_document};
use commands::{Batch, Command, PatchRequest};
use documents::{ExpectedVersion, PutDocument, RequestedId};
use engine::{BulkOptions, BulkSelection, BulkWork, EngineError};
use model::DocumentId;
use platform::Platform;
use query::Paging;
use wire::operation_state::OperationStatus;

use crate::{settings_with, with_database_of};

#[test]
fn patches_by_a_query_wait_for_memory_that_others_use() {
    // In memory, where other tests of this process take none.
    let memory = Platform::simulated(1).platform.memory;
    let platform = Platform { memory, ..Platform::memory() };
    let (engine, database) = with_database_of(settings_with(&["--Memory.LimitInMb=128"]), platform);
    let engine = Arc::new(engine);
    // Larger than what each transaction may take whatever the others hold.
    let text = "x".repeat(3 << 20);
    let json = format!(r#"{{"Text":"{text}","@metadata":{{"@collection":"D"}}}}"#);
    let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
    let id = RequestedId::Exactly(DocumentId::new("d/1").unwrap());
    let put = Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body });
    engine.execute(&database, Batch::one(put)).unwrap();

    let transactions = &engine.memory().transactions;
    let mut others = transactions.share(0);
    others.try_grow_to(transactions.bytes_max() - transactions.held_bytes() - (1 << 20)).unwrap();
    let selection = BulkSelection {
        query: rql::parse("from D").unwrap(),
        text: "from D update".to_owned(),
        parameters: None,
        paging: Paging::default(),
    };
    let work = BulkWork::Patch(PatchRequest::new("this.N = 1".to_owned(), None));
    let show = |error: EngineError| panic!("{error}");
    let options = BulkOptions::default();
    let id = engine.begin_bulk_operation(&database, selection, options, work, show).unwrap();
    let operation = database.operations().get(id).unwrap();
    // Long enough for several tries.
    let (_nobody, nothing) = mpsc::channel::<()>();
    assert!(nothing.recv_timeout(Duration::from_millis(500)).is_err());
    assert!(operation.is_running(), "{:?}", operation.state().status);
    drop(others);
    while operation.is_running() {
        thread::yield_now();
    }
    let OperationStatus::Completed(result) = operation.state().status else { panic!() };
    assert_eq!(result.total, 1);
}
