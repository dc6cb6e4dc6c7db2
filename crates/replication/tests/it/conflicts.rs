//! Conflicts that are kept: the same on all nodes, and resolved on all of them.

use blittable::{ParseLimits, parse_document};
use commands::{Command, CommandResult};
use documents::{ConflictResolution, DocumentError, ExpectedVersion, Import, ImportedVersion};
use model::{ChangeVector, DatabaseId, DocumentFlags};
use platform::simulated::Random;

use crate::documents::transaction;
use crate::world::{Content, World, content_of, delete, id, increment, put, put_attachment};

const SEEDS: u64 = 60;
const STEPS: u64 = 60;

fn keeping(count: usize, seed: u64) -> World {
    let mut world = World::new(count, seed);
    world.keeps_conflicts = true;
    world
}

fn versions(content: &Content, document: &str) -> Vec<Option<String>> {
    let versions = content.conflicts.get(document).into_iter().flatten();
    versions.map(|(_, json)| json.clone()).collect()
}

fn in_conflict() -> World {
    let mut world = keeping(2, 1);
    world.execute(0, vec![put("a", r#"{"N":1}"#)]);
    world.execute(1, vec![put("a", r#"{"N":2}"#)]);
    world.settle();
    world
}

#[test]
fn a_deletion_over_a_conflict_deletes_what_belonged_to_the_document() {
    let mut world = keeping(2, 1);
    let parts = |by| {
        let attachment = put_attachment("a", "content", "text");
        vec![put("a", &format!("{{\"N\":{by}}}")), increment("a", "n", by), attachment]
    };
    world.execute(0, parts(1));
    world.execute(1, parts(2));
    world.settle();
    assert_eq!(world.agreed().conflicts.len(), 1);
    world.execute(0, vec![delete("a")]);
    world.settle();
    world.execute(1, vec![put("a", "{}")]);
    world.settle();
    let agreed = world.agreed();
    assert_eq!(agreed.documents["a"].json.as_deref(), Some("{}"));
    assert!(agreed.counters.is_empty(), "{:?}", agreed.counters);
    assert!(agreed.attachments.values().all(|found| found.1.is_none()), "{:?}", agreed.attachments);
}

#[test]
fn a_deletion_that_expects_a_version_does_not_delete_a_document_in_conflict() {
    let mut world = in_conflict();
    for expected in ["", "A:1-x"] {
        let expected = ExpectedVersion::parse(Some(expected));
        let deleted = Command::Delete { id: id("a"), expected };
        assert!(world.try_execute(0, vec![deleted]).is_err());
    }
    assert_eq!(world.agreed().conflicts.len(), 1);
}

#[test]
fn a_transaction_over_a_conflict_with_a_deletion_leaves_nothing_of_it() {
    let mut world = keeping(2, 1);
    world.execute(0, vec![put("a", r#"{"N":0}"#)]);
    world.settle();
    world.execute(0, vec![delete("a")]);
    world.execute(1, vec![put("a", r#"{"N":1}"#)]);
    world.send(1, 0);
    assert_eq!(content_of(&world.nodes[0].read()).unwrap().conflicts.len(), 1);
    let mut command = transaction(&world, 1, Some(r#"{"N":2}"#));
    if let Command::ClusterDocuments(documents) = &mut command {
        documents.changes[0].replaces = Some(ChangeVector::empty());
    }
    world.execute(0, vec![command]);
    let content = content_of(&world.nodes[0].read()).unwrap();
    assert!(content.conflicts.is_empty(), "{:?}", content.conflicts);
    assert_eq!(content.documents["a"].json.as_deref(), Some(r#"{"N":2}"#));
}

#[test]
fn what_is_imported_over_a_conflict_resolves_it_on_all_nodes() {
    let mut world = in_conflict();
    let imported = ImportedVersion {
        id: id("a"),
        change_vector: Some(format!("Z:5-{}", DatabaseId([9; 16])).parse().unwrap()),
        last_modified_ticks: None,
        flags: DocumentFlags::NONE,
        body: parse_document(br#"{"N":5}"#, &ParseLimits::default()).unwrap(),
        attachments: Vec::new(),
        contents: Vec::new(),
        is_revised: false,
    };
    world.execute(0, vec![Command::Import(Box::new(Import::Document(imported)))]);
    world.settle();
    let agreed = world.agreed();
    assert!(agreed.conflicts.is_empty(), "{:?}", agreed.conflicts);
    assert_eq!(agreed.documents["a"].json.as_deref(), Some(r#"{"N":5}"#));
}

/// The revisions of a document: whether each was lost or won a conflict, and its JSON.
fn revisions(world: &World, document: &str) -> Vec<(bool, String)> {
    let tx = world.nodes[0].read();
    let log = documents::log::read(
        &tx,
        &[documents::log::Selection::all(documents::log::EntryKind::Revision)],
        model::Etag::ZERO,
    );
    let rows = log.unwrap().map(|entry| entry.unwrap().revision().unwrap());
    let of_document = rows.filter(|row| row.lower_id() == document);
    let shown = of_document.map(|row| {
        let json = String::from_utf8(row.body().unwrap().to_json().unwrap()).unwrap();
        (row.flags().contains(DocumentFlags::RESOLVED), json)
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    shown
}

#[test]
fn both_versions_are_kept_and_there_is_no_document() {
    let world = in_conflict();
    let content = world.agreed();
    assert_eq!(
        versions(&content, "a"),
        [Some(r#"{"N":1}"#.to_owned()), Some(r#"{"N":2}"#.to_owned())]
    );
    assert!(content.documents.is_empty(), "{content:?}");
    let tx = world.nodes[1].read();
    assert!(documents::get(&tx, &id("a")).unwrap().is_none());
    assert_eq!(documents::count_conflicts(&tx).unwrap(), (1, 2));
    assert!(matches!(
        documents::require_no_conflict(&tx, &id("a")),
        Err(DocumentError::Conflict { id, .. }) if id == "a"
    ));
}

#[test]
fn a_write_over_a_conflict_resolves_it_and_the_versions_become_revisions() {
    let mut world = in_conflict();
    // Nobody can know the version of a document that is not there.
    let expected = Command::Delete { id: id("b"), expected: ExpectedVersion::parse(Some("A:1-x")) };
    assert!(world.try_execute(0, vec![expected]).is_err());
    world.execute(0, vec![put("a", r#"{"N":3}"#)]);
    world.settle();
    let content = world.agreed();
    assert!(content.conflicts.is_empty());
    assert_eq!(content.documents["a"].json.as_deref(), Some(r#"{"N":3}"#));
    let lost = |number: u32| (false, format!(r#"{{"N":{number}}}"#));
    assert_eq!(revisions(&world, "a"), [lost(1), lost(2), (true, r#"{"N":3}"#.to_owned())]);
}

#[test]
fn a_deletion_over_a_conflict_resolves_it() {
    let mut world = in_conflict();
    let outcome = world.execute(1, vec![delete("a")]);
    assert!(
        matches!(&outcome.results[0], CommandResult::Deleted { deleted: Some(_), .. }),
        "{outcome:?}"
    );
    world.settle();
    let content = world.agreed();
    assert!(content.conflicts.is_empty());
    assert_eq!(content.documents["a"].json, None);
    // It can be written again.
    world.execute(0, vec![put("a", r#"{"N":4}"#)]);
    world.settle();
    assert_eq!(world.agreed().documents["a"].json.as_deref(), Some(r#"{"N":4}"#));
}

#[test]
fn a_deletion_and_a_change_are_a_conflict() {
    let mut world = keeping(2, 1);
    world.execute(0, vec![put("a", r#"{"N":1}"#)]);
    world.settle();
    world.execute(0, vec![delete("a")]);
    world.execute(1, vec![put("a", r#"{"N":2}"#)]);
    world.settle();
    let mut found = versions(&world.agreed(), "a");
    found.sort();
    assert_eq!(found, [None, Some(r#"{"N":2}"#.to_owned())]);
}

#[test]
fn versions_of_the_same_content_are_joined_without_revisions() {
    let mut world = keeping(3, 1);
    for node in 0..3 {
        world.execute(node, vec![put("a", r#"{"N":1}"#)]);
    }
    world.settle();
    assert_eq!(versions(&world.agreed(), "a").len(), 3);
    let versions = {
        let tx = world.nodes[1].read();
        let rows = documents::conflicts_of(&tx, &id("a")).unwrap();
        rows.iter().map(|row| row.change_vector().to_owned()).collect()
    };
    let resolution = ConflictResolution::Same;
    world.execute(1, vec![Command::ResolveConflict { id: id("a"), versions, resolution }]);
    world.settle();
    let content = world.agreed();
    assert!(content.conflicts.is_empty() && content.revisions.is_empty());
    assert_eq!(content.documents["a"].json.as_deref(), Some(r#"{"N":1}"#));
    assert_eq!(content.documents["a"].change_vector.len(), 3);
}

#[test]
fn a_resolution_of_other_versions_has_no_effect() {
    let mut world = in_conflict();
    let resolve = |versions: Vec<String>, resolution| Command::ResolveConflict {
        id: id("a"),
        versions,
        resolution,
    };
    let is_done = |world: &mut World, command| match world.execute(0, vec![command]).results[0] {
        CommandResult::ConflictResolved(resolved) => resolved.is_done,
        _ => panic!("another outcome"),
    };
    let present = |world: &World| -> Vec<String> {
        let tx = world.nodes[0].read();
        let rows = documents::conflicts_of(&tx, &id("a")).unwrap();
        rows.iter().map(|row| row.change_vector().to_owned()).collect()
    };
    let some = vec![present(&world)[0].clone()];
    assert!(!is_done(&mut world, resolve(some, ConflictResolution::Deletion)));
    let all = present(&world);
    assert!(is_done(&mut world, resolve(all.clone(), ConflictResolution::Latest)));
    assert!(!is_done(&mut world, resolve(all, ConflictResolution::Latest)));
    world.settle();
    // The second node has written later.
    assert_eq!(world.agreed().documents["a"].json.as_deref(), Some(r#"{"N":2}"#));
}

/// Whatever is written where, and in whatever order it arrives: all nodes keep the same versions, and agree on what
/// becomes of them.
#[test]
fn all_nodes_keep_the_same_conflicts_and_resolve_them_alike() {
    let mut seen = 0;
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let count = 2 + random.below(2) as usize;
        let mut world = keeping(count, seed);
        for _ in 0..STEPS {
            let node = random.below(count as u64) as usize;
            let document = format!("d/{}", random.below(3));
            match random.below(10) {
                0..=3 => {
                    let json = format!(r#"{{"N":{}}}"#, random.below(3));
                    world.execute(node, vec![put(&document, &json)]);
                }
                4 => drop(world.execute(node, vec![delete(&document)])),
                5 => drop(world.execute(node, vec![increment(&document, "likes", 1)])),
                6 if random.below(4) == 0 => world.nodes[node].restart(),
                _ => {
                    let to = (node + 1 + random.below(count as u64 - 1) as usize) % count;
                    world.step(node, to);
                }
            }
        }
        world.settle();
        let content = world.agreed();
        seen += content.conflicts.len();
        for document in content.conflicts.keys() {
            let versions = {
                let tx = world.nodes[0].read();
                let rows = documents::conflicts_of(&tx, &id(document)).unwrap();
                rows.iter().map(|row| row.change_vector().to_owned()).collect()
            };
            let resolution = ConflictResolution::Latest;
            let command = Command::ResolveConflict { id: id(document), versions, resolution };
            world.execute(0, vec![command]);
        }
        world.settle();
        assert!(world.agreed().conflicts.is_empty(), "seed {seed}");
        for node in &world.nodes {
            content_of(&node.read()).unwrap();
        }
    }
    assert!(10 < seen, "the histories have {seen} conflicts only");
}
