//! Patches of many documents, trials, and what bounds them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use blittable::BlittableBuf;
use commands::{
    Batch, Command, CommandError, CommandResult, PatchCommand, PatchEach, PatchError, PatchRequest,
    PatchStatus, PatchedEach, WhenMissing,
};
use documents::DocumentError;
use model::DocumentId;
use platform::{Clock, Platform, Timestamp, simulated::Random};
use script::Exhausted;
use storage::Environment;
use testkit::{
    database::{batch, content, execute, json, open, parsed, put},
    histories::noise,
};

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn request(text: &str) -> Arc<PatchRequest> {
    PatchRequest::new(text.to_owned(), None)
}

fn patch(of: &str, text: &str) -> PatchCommand {
    PatchCommand::new(id(of), request(text))
}

fn apply(
    environment: &Arc<Environment>,
    platform: &Platform,
    batch: &Batch,
) -> Result<Vec<CommandResult>, CommandError> {
    let mut tx = environment.write().unwrap();
    let outcome = execute(&mut tx, platform, batch);
    tx.commit().unwrap();
    outcome.map(|outcome| outcome.results)
}

fn filled(platform: &Platform, count: usize) -> Arc<Environment> {
    let environment = open(platform).unwrap();
    let users = json("Users", "x");
    let puts: Vec<_> = (0..count).map(|n| put(&format!("u/{n}"), &users)).collect();
    apply(&environment, platform, &batch(puts)).unwrap();
    environment
}

fn each(ids: Vec<DocumentId>, script: Arc<PatchRequest>) -> Batch {
    Batch::one(Command::PatchEach(PatchEach { ids, script, wants_details: true }))
}

/// A text of 6 MB that cannot be compressed to less than half.
fn large_values() -> BlittableBuf {
    parsed(&format!(r#"{{"big":"{}"}}"#, noise(&mut Random::new(1), 6_000_000)))
}

fn patched_each(results: Vec<CommandResult>) -> PatchedEach {
    match results.into_iter().next() {
        Some(CommandResult::PatchedEach(each)) => each,
        other => panic!("nothing was patched: {other:?}"),
    }
}

#[test]
fn many_documents_are_changed_in_portions_that_end_where_the_next_begins() {
    let simulation = Platform::simulated(1);
    let platform = &simulation.platform;
    let environment = filled(platform, 20);
    let mut ids: Vec<_> = (0..20).map(|n| id(&format!("u/{n}"))).collect();
    ids.insert(3, id("nope"));
    let script = "this.V = id(this); put('big/', { B: args.big })".to_owned();
    let script = PatchRequest::new(script, Some(large_values()));
    let (mut from, mut portions, mut statuses) = (0, 0, Vec::new());
    while from < ids.len() {
        let results = apply(&environment, platform, &each(ids[from..].to_vec(), script.clone()));
        let PatchedEach { done, details } = patched_each(results.unwrap());
        assert!(0 < done && done == details.len());
        statuses.extend(details.into_iter().map(|one| (one.id.to_string(), one.status)));
        (from, portions) = (from + done, portions + 1);
    }
    assert!(1 < portions && portions < ids.len(), "{portions}");
    let expected = ids.iter().map(|id| {
        let is_missing = id.as_str() == "nope";
        let status =
            if is_missing { PatchStatus::DocumentDoesNotExist } else { PatchStatus::Patched };
        (id.to_string(), status)
    });
    assert_eq!(statuses, expected.collect::<Vec<_>>());
    let unchanged = each(ids, request("this.V = id(this)"));
    let before = content(&environment);
    let details = patched_each(apply(&environment, platform, &unchanged).unwrap()).details;
    assert!(details.iter().all(|one| one.status != PatchStatus::Patched));
    assert_eq!(content(&environment), before);
}

#[test]
fn a_script_may_put_and_load_only_so_much() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 1);
    let before = content(&environment);
    for (text, verb) in [
        ("for (var i = 0; ; i++) put('b/' + i, { B: args.big })", "put"),
        ("put('b', { B: args.big }); var all = []; for (;;) all.push(load('b'))", "load"),
    ] {
        let script = PatchRequest::new(text.to_owned(), Some(large_values()));
        let patch = PatchCommand::new(id("u/0"), script);
        let patch = Batch::one(Command::Patch(Box::new(patch)));
        match apply(&environment, &simulation.platform, &patch) {
            Err(CommandError::Patch(PatchError::TooMuch { verb: given, .. })) => {
                assert_eq!(given, verb);
            }
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(content(&environment), before);
    }
}

#[test]
fn a_document_that_fails_takes_its_portion_along() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 3);
    let before = content(&environment);
    let ids = (0..3).map(|n| id(&format!("u/{n}"))).collect();
    let script = request("this.V = 'changed'; if (id(this) === 'u/2') throw 'no'");
    match apply(&environment, &simulation.platform, &each(ids, script)) {
        Err(CommandError::Patch(PatchError::Threw { id, message })) => {
            assert_eq!((id.as_str(), message.as_str()), ("u/2", "no"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(content(&environment), before);
}

#[test]
fn a_document_that_its_script_changes_and_deletes_is_refused() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 2);
    let before = content(&environment);
    let outcome = |text: &str, is_test: bool| {
        let patch = PatchCommand { is_test, wants_document: true, ..patch("u/0", text) };
        let patch = Batch::one(Command::Patch(Box::new(patch)));
        apply(&environment, &simulation.platform, &patch)
    };
    let many = |text: &str| {
        apply(&environment, &simulation.platform, &each(vec![id("u/0")], request(text)))
    };
    for text in ["del('u/0'); this.V = 1", "this.V = 1; del('U/0')"] {
        for refused in [outcome(text, true), outcome(text, false), many(text)] {
            let Err(CommandError::Document(DocumentError::Concurrency { message, .. })) = refused
            else {
                panic!("{text}: {refused:?}");
            };
            let expected =
                "Document u/0 does not exist, but Put was called with change vector: A:1-";
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(content(&environment), before);
        }
    }
    // The script may delete the document, or put it again.
    for (text, status) in [
        (
            "del('u/0'); put('u/0', { '@metadata': { '@collection': 'Users' } }); this.V = 2",
            PatchStatus::Patched,
        ),
        ("del('u/0'); this.V = this.V", PatchStatus::NotModified),
    ] {
        let results = outcome(text, false).unwrap();
        let [CommandResult::Patched(outcome)] = &*results else { panic!("{results:?}") };
        assert_eq!(outcome.status, status, "{text}");
    }
}

#[test]
fn a_test_run_reports_the_effects_and_changes_nothing() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 2);
    let before = content(&environment);
    let transaction = environment.statistics().transaction;
    let text = "this.V = 1; del('u/1'); put('n/', { '@metadata': { '@collection': 'New' } })";
    let patch = PatchCommand { is_test: true, wants_document: true, ..patch("u/0", text) };
    let tried = Batch::one(Command::Patch(Box::new(patch)));
    let results = apply(&environment, &simulation.platform, &tried).unwrap();
    let [CommandResult::Patched(outcome)] = &*results else { panic!("{results:?}") };
    assert_eq!(outcome.status, PatchStatus::Patched);
    assert!(outcome.stored.is_some() && outcome.document.is_some() && outcome.original.is_some());
    assert_eq!(content(&environment), before);
    assert_eq!(environment.statistics().transaction, transaction);
}

#[test]
fn scripts_of_a_batch_share_what_is_created_and_keep_their_own_outcomes() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 1);
    let created = Arc::new(parsed(&json("Made", "created")));
    let when_missing = WhenMissing::Create(created);
    let patches = ["u/0", "m/1", "m/1"].map(|of| {
        let when_missing = when_missing.clone();
        let patch = PatchCommand { when_missing, ..patch(of, "this.V += id(this)") };
        Command::Patch(Box::new(patch))
    });
    apply(&environment, &simulation.platform, &batch(patches)).unwrap();
    let log = content(&environment).log;
    let bodies: Vec<_> = log.iter().filter_map(|(_, _, body)| body.as_deref()).collect();
    assert_eq!(bodies, [json("Users", "xu/0"), json("Made", "createdm/1")]);
}

/// A clock that advances by half a second with each reading.
#[derive(Default)]
struct SlowClock {
    asked: AtomicU64,
}

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ticks(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(500 * self.asked.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn all_scripts_of_a_batch_together_have_so_much_time() {
    let simulation = Platform::simulated(1);
    let environment = filled(&simulation.platform, 1);
    let mut tx = environment.write().unwrap();
    let context = documents::WriteContext::new(
        simulation.platform.clock.now(),
        &*simulation.platform.entropy,
    );
    let clock = Arc::new(SlowClock::default());
    let mut patcher = commands::Patcher::new(
        clock,
        commands::PatchLimits { steps_max: u64::MAX, ..Default::default() },
    );
    let patches: Vec<_> =
        (0..100).map(|_| Command::Patch(Box::new(patch("u/0", "this.V += 1")))).collect();
    let outcome = commands::execute_batch(&mut tx, &batch(patches), context, &mut patcher);
    assert!(
        matches!(outcome, Err(CommandError::Patch(PatchError::Exhausted(Exhausted::Time(_))))),
        "{outcome:?}"
    );
}
