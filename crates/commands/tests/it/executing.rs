//! One batch: whole or not at all.

use commands::{Batch, Command, CommandError, CommandResult};
use documents::DocumentError;
use model::{DocumentId, Etag};
use platform::Platform;
use testkit::database::{batch, content, delete, execute, json, open, put, put_expecting, version};

fn run(platform: &Platform, batches: &[Batch]) -> Vec<Result<Vec<CommandResult>, CommandError>> {
    let environment = open(platform).unwrap();
    let mut tx = environment.write().unwrap();
    let outcomes = batches
        .iter()
        .map(|batch| execute(&mut tx, platform, batch).map(|outcome| outcome.results))
        .collect();
    tx.commit().unwrap();
    content(&environment);
    outcomes
}

fn stored_id(result: &CommandResult) -> &str {
    match result {
        CommandResult::Put(stored) => stored.id.as_str(),
        other => panic!("no document was stored: {other:?}"),
    }
}

#[test]
fn later_commands_see_earlier_ones() {
    let simulation = Platform::simulated(1);
    let users = json("Users", "x");
    let commands = [
        put("u/1", &users),
        put_expecting("U/1", Some(&version(1)), &users),
        delete("u/1", Some(&version(2))),
        put_expecting("u/1", Some(""), &json("Other", "y")),
        delete("nothing", None),
        Command::DeletePrefix { prefix: "u".to_owned() },
    ];
    let environment = open(&simulation.platform).unwrap();
    let mut tx = environment.write().unwrap();
    let outcome = execute(&mut tx, &simulation.platform, &batch(commands)).unwrap();
    tx.commit().unwrap();
    assert_eq!(outcome.last_etag, Etag(5));
    let collections: Vec<_> = outcome.collections.iter().map(|name| name.as_str()).collect();
    assert_eq!(collections, ["Users", "Other"]);
    let [_, _, CommandResult::Deleted { deleted: Some(deleted), .. }, _, missing, prefix] =
        &*outcome.results
    else {
        panic!("other results: {:?}", outcome.results);
    };
    assert_eq!(deleted.id.as_str(), "U/1");
    let id = DocumentId::new("nothing").unwrap();
    assert_eq!(*missing, CommandResult::Deleted { id, deleted: None });
    assert_eq!(*prefix, CommandResult::DeletedPrefix { prefix: "u".to_owned(), deleted: 1 });
    // A reader that follows the users still has to be notified that this one has left.
    let left = (3, "U/1".to_owned(), None);
    assert_eq!(content(&environment).log, [left, (5, "u/1".to_owned(), None)]);
}

#[test]
fn a_failing_batch_leaves_those_around_it() {
    let simulation = Platform::simulated(1);
    let users = json("Users", "x");
    let outcomes = run(
        &simulation.platform,
        &[
            batch([put("a", &users)]),
            batch([
                put("b", &users),
                put("new", &json("New", "x")),
                put_expecting("a", Some(""), &users),
            ]),
            batch([put("c", &users)]),
        ],
    );
    assert!(matches!(outcomes[1], Err(CommandError::Document(DocumentError::Concurrency { .. }))));
    let environment = open(&simulation.platform).unwrap();
    let content = content(&environment);
    let ids: Vec<_> = content.log.iter().map(|(etag, id, _)| (*etag, id.as_str())).collect();
    assert_eq!(ids, [(1, "a"), (2, "c")]);
    assert_eq!(content.collections, [("Users".to_owned(), 2, 0)]);
}

#[test]
fn identities_number_documents_and_are_never_assigned_twice() {
    let simulation = Platform::simulated(1);
    let users = json("Users", "x");
    let seed = Command::IdentitySeed { name: "i".to_owned(), value: 6, force: false };
    let outcomes = run(
        &simulation.platform,
        &[
            batch([put("i|", &users), put("I|", &users), put_expecting("i|", Some(""), &users)]),
            batch([put("|", &users)]),
            batch([put_expecting("i|", Some("A:1-x"), &users)]),
            batch([put("i/7", &users), seed]),
            batch([put("i|", &users)]),
            batch([put("i|", &users)]),
        ],
    );
    let ids: Vec<_> = outcomes[0].as_ref().unwrap().iter().map(stored_id).collect();
    assert_eq!(ids, ["i/1", "I/2", "i/3"]);
    assert_eq!(stored_id(&outcomes[1].as_ref().unwrap()[0]), "/1");
    let error = outcomes[2].as_ref().unwrap_err();
    let expected =
        "You cannot use change vector (A:1-x) when using identity in the document ID (i/4).";
    assert_eq!(error.to_string(), expected);
    let error = outcomes[4].as_ref().unwrap_err().to_string();
    assert!(error.starts_with("Document i/7 has change vector "), "{error}");
    assert!(error.contains("expecting new document"), "{error}");
    assert_eq!(stored_id(&outcomes[5].as_ref().unwrap()[0]), "i/8");
}

#[test]
fn a_batch_without_effect_writes_nothing() {
    let simulation = Platform::simulated(1);
    let environment = open(&simulation.platform).unwrap();
    let before = environment.statistics().transaction;
    let mut tx = environment.write().unwrap();
    let nothing = batch([delete("a", None), Command::DeletePrefix { prefix: "a".to_owned() }]);
    execute(&mut tx, &simulation.platform, &nothing).unwrap();
    execute(&mut tx, &simulation.platform, &Batch::default()).unwrap();
    tx.commit().unwrap();
    assert_eq!(environment.statistics().transaction, before);
}
