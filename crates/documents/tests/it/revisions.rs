//! What is kept of older versions, measured on a real server.

use documents::{
    ExpectedVersion, Reversion, RevisedVersion, RevisionsToRemove,
    log::{EntryKind, Selection},
};
use model::{
    CollectionName, DocumentId, Etag, RevisionsConfiguration, RevisionsRule, TimeSpan,
    ticks::TICKS_PER_SECOND,
};

use crate::database::{Database, in_collection, user};

pub(crate) fn rule(count_to_keep: Option<i64>) -> RevisionsRule {
    RevisionsRule { count_to_keep, ..RevisionsRule::default() }
}

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

impl Database {
    pub(crate) fn keep(&self, default: Option<RevisionsRule>) {
        *self.revisions.borrow_mut() = RevisionsConfiguration::new(default);
    }

    /// The revisions of a document, the newest first: the etag in the version, the marks that are not
    /// on every revision, and the name in the document.
    fn revisions_of(&self, id: &str) -> Vec<String> {
        let tx = self.read();
        let id = DocumentId::new(id).unwrap();
        let revisions = documents::revisions_newest_first(&tx, &id).unwrap();
        let shown: Vec<String> = revisions
            .map(|revision| {
                let revision = revision.unwrap();
                let etag = revision.change_vector().split(['A', ':', '-']).nth(2).unwrap();
                let name = revision.body().unwrap().root().get_str("Name").unwrap();
                format!("{etag} {} {}", revision.flags(), name.as_deref().unwrap_or("-"))
            })
            .collect();
        assert_eq!(documents::revision_count(&tx, &id).unwrap(), shown.len() as u64);
        shown
    }

    fn flags_of(&self, id: &str) -> String {
        let tx = self.read();
        let id = DocumentId::new(id).unwrap();
        documents::get(&tx, &id).unwrap().unwrap().flags().to_string()
    }

    fn bin(&self) -> Vec<String> {
        let tx = self.read();
        let bin = documents::deleted_documents(&tx).unwrap();
        bin.map(|revision| revision.unwrap().id().to_owned()).collect()
    }

    fn force(&self, of: &str, version: RevisedVersion) -> bool {
        self.write(|writer| writer.force_revision(&id(of), version)).unwrap().is_some()
    }
}

#[test]
fn each_version_is_kept_up_to_the_limit() {
    let database = Database::new();
    database.keep(Some(rule(Some(3))));
    for name in ["a", "b", "c", "d"] {
        database.put("u/1", &user(name));
    }
    let kept =
        ["7 HasRevisions, Revision d", "5 HasRevisions, Revision c", "3 HasRevisions, Revision b"];
    assert_eq!(database.revisions_of("U/1"), kept);
    assert_eq!(database.flags_of("u/1"), "HasRevisions");
    assert!(database.revisions_of("u/2").is_empty());
    let tx = database.read();
    let newest = documents::revision_by_change_vector(&tx, "A:7-AAAAAAAAAAAAAAAAAAAAAA").unwrap();
    assert_eq!(newest.unwrap().id(), "u/1");
    assert!(
        documents::revision_by_change_vector(&tx, "A:1-AAAAAAAAAAAAAAAAAAAAAA").unwrap().is_none()
    );
    assert!(documents::revision_by_change_vector(&tx, "A:7-AAAAAAAAAAAAAAAA").unwrap().is_none());
    let users = CollectionName::new("users").unwrap();
    assert_eq!(documents::revisions_of_collection_count(&tx, &users).unwrap(), 3);
    let revisions = [Selection::of_collection(EntryKind::Revision, &users)];
    let log = documents::log::read(&tx, &revisions, Etag(4)).unwrap();
    let etags: Vec<u64> = log.map(|revision| revision.unwrap().etag().0).collect();
    assert_eq!(etags, [6, 8], "a revision takes the etag behind its version's");
}

#[test]
fn what_was_written_before_is_kept_when_it_is_replaced_or_deleted() {
    let database = Database::new();
    database.put("u/0", &user("old"));
    database.put("u/1", &user("old"));
    database.put("u/2", &user("same"));
    database.keep(Some(rule(Some(3))));
    database.put("u/0", &user("new"));
    let expected =
        ["4 HasRevisions, Revision new", "1 HasRevisions, FromOldDocumentRevision, Revision old"];
    assert_eq!(database.revisions_of("u/0"), expected);
    assert!(database.delete("u/1"));
    let expected = ["7 HasRevisions, DeleteRevision -", "2 FromOldDocumentRevision, Revision old"];
    assert_eq!(database.revisions_of("u/1"), expected);
    database.put("u/2", &user("same"));
    assert!(database.revisions_of("u/2").is_empty(), "nothing has changed");
    assert_eq!(database.flags_of("u/2"), "");
}

#[test]
fn the_bin_names_deleted_documents_until_they_are_back() {
    let database = Database::new();
    database.keep(Some(rule(Some(3))));
    for name in ["u/1", "u/2", "u/3"] {
        database.put(name, &user("a"));
        database.delete(name);
    }
    assert_eq!(database.bin(), ["u/3", "u/2", "u/1"]);
    database.put("U/2", &user("b"));
    assert_eq!(database.bin(), ["u/3", "u/1"]);
    assert_eq!(database.revisions_of("u/2").len(), 3, "the deletion stays in the list");
    database.keep(None);
    database.put("u/1", &user("b"));
    assert_eq!(database.bin(), ["u/3"]);
    assert_eq!(database.flags_of("u/1"), "HasRevisions", "its revisions are still there");
    assert_eq!(database.revisions_of("u/1").len(), 2);
    let all = RevisionsToRemove::All { with_forced: false };
    database.write(|writer| writer.remove_revisions(&id("u/3"), all)).unwrap();
    assert!(database.bin().is_empty());
}

#[test]
fn deleting_ends_a_history_whatever_the_configuration_is() {
    let database = Database::new();
    database.keep(Some(rule(Some(5))));
    for document in ["u/1", "u/2", "u/3"] {
        for name in ["a", "b", "c"] {
            database.put(document, &user(name));
        }
    }
    database.keep(None);
    database.delete("u/1");
    assert_eq!(database.revisions_of("u/1").len(), 4);
    database.keep(Some(RevisionsRule { is_disabled: true, ..rule(Some(2)) }));
    database.delete("u/2");
    let names = ["27 HasRevisions, DeleteRevision -", "11 HasRevisions, Revision c"];
    assert!(
        database.revisions_of("u/2").len() == 2,
        "{:?} {names:?}",
        database.revisions_of("u/2")
    );
    database.keep(Some(RevisionsRule { purge_on_delete: true, ..rule(Some(2)) }));
    database.delete("u/3");
    assert!(database.revisions_of("u/3").is_empty());
    assert_eq!(database.bin(), ["u/2", "u/1"]);
}

#[test]
fn nothing_is_kept_with_a_limit_of_zero() {
    for count in [0, -1] {
        let database = Database::new();
        database.keep(Some(rule(Some(count))));
        database.put("u/1", &user("a"));
        database.put("u/1", &user("b"));
        assert!(database.revisions_of("u/1").is_empty());
        assert_eq!(database.flags_of("u/1"), "");
        database.delete("u/1");
        assert!(database.revisions_of("u/1").is_empty() && database.bin().is_empty());
    }
}

#[test]
fn ages_and_numbers_protect_together() {
    let two_seconds = Some(TimeSpan { ticks: 2 * TICKS_PER_SECOND });
    let kept = |count: Option<i64>, removed_by_write_max: Option<i64>| {
        let database = Database::new();
        let age_to_keep = two_seconds;
        database.keep(Some(RevisionsRule { age_to_keep, removed_by_write_max, ..rule(count) }));
        for name in ["a", "b", "c", "d"] {
            database.put("u/1", &user(name));
        }
        assert_eq!(database.revisions_of("u/1").len(), 4, "all are young");
        database.pass(2);
        database.put("u/1", &user("e"));
        database.revisions_of("u/1").len()
    };
    assert_eq!(kept(None, None), 1);
    assert_eq!(kept(Some(3), None), 3);
    assert_eq!(kept(None, Some(3)), 2);
    assert_eq!(kept(None, Some(0)), 5);
    assert_eq!(kept(Some(9), None), 5);
}

#[test]
fn a_client_can_ask_for_a_revision() {
    let database = Database::new();
    database.put("u/1", &user("a"));
    assert!(database.force("u/1", RevisedVersion::Current));
    assert_eq!(database.revisions_of("u/1"), ["2 HasRevisions, Revision, ForceCreated a"]);
    assert_eq!(database.flags_of("u/1"), "HasRevisions");
    assert!(!database.force("u/1", RevisedVersion::Current), "that version is kept already");
    database.put("u/1", &user("b"));
    assert!(database.force("u/1", RevisedVersion::BeforeReplacing));
    database.put("u/2", &user("x"));
    assert!(database.force("u/2", RevisedVersion::BeforeReplacing));
    database.put("u/2", &user("y"));
    assert_eq!(database.flags_of("u/2"), "HasRevisions");
    assert_eq!(database.revisions_of("u/2"), ["6 HasRevisions, Revision, ForceCreated x"]);
    let error = |version| database.write(|writer| writer.force_revision(&id("u/3"), version));
    let current = error(RevisedVersion::Current).unwrap_err().to_string();
    assert!(current.starts_with("Failed to create revision for document u/3 because"));
    let before = error(RevisedVersion::BeforeReplacing).unwrap_err().to_string();
    assert!(before.ends_with("not saved on the server yet. document: u/3."), "{before}");
}

#[test]
fn removing_spares_what_was_asked_for_unless_told() {
    let database = Database::new();
    database.put("u/1", &user("a"));
    database.force("u/1", RevisedVersion::Current);
    database.keep(Some(rule(Some(5))));
    database.put("u/1", &user("b"));
    let remove = |what| database.write(|writer| writer.remove_revisions(&id("u/1"), what)).unwrap();
    let removed = remove(RevisionsToRemove::All { with_forced: false });
    assert_eq!((removed.scanned, removed.removed, removed.has_more), (2, 1, false));
    assert_eq!(database.flags_of("u/1"), "HasRevisions");
    database.keep(None);
    assert_eq!(remove(RevisionsToRemove::Unwanted { with_forced: false }).removed, 0);
    assert_eq!(remove(RevisionsToRemove::Unwanted { with_forced: true }).removed, 1);
    assert_eq!(database.flags_of("u/1"), "", "it says no more that it has revisions");
}

#[test]
fn long_histories_are_removed_in_steps() {
    let database = Database::new();
    database.keep(Some(rule(None)));
    database
        .write(|writer| {
            let of = documents::RequestedId::Exactly(id("u/1"));
            for number in 0..2500 {
                let body = crate::database::body(&user(&number.to_string()));
                writer.put(&of, &ExpectedVersion::Any, &body)?;
            }
            Ok(())
        })
        .unwrap();
    let mut steps = Vec::new();
    loop {
        let what = RevisionsToRemove::All { with_forced: false };
        let step = database.write(|writer| writer.remove_revisions(&id("u/1"), what)).unwrap();
        steps.push(step.removed);
        if !step.has_more {
            break;
        }
    }
    assert_eq!(steps, [1024, 1024, 452]);
}

#[test]
fn documents_are_set_back_to_what_they_were() {
    let database = Database::new();
    database.keep(Some(rule(Some(4))));
    let long = |from: i32| {
        (from..from + 5).for_each(|name| drop(database.put("long", &user(&name.to_string()))));
    };
    database.put("changed", &user("a"));
    database.put("deleted", &user("a"));
    database.put("same", &user("a"));
    long(0);
    database.pass(10);
    let then = database.simulation.platform.clock.now().ticks();
    database.pass(10);
    database.put("changed", &user("b"));
    database.delete("deleted");
    database.put("new", &user("a"));
    database.put("gone", &user("a"));
    database.delete("gone");
    long(5);
    let revert = |of: &str| database.write(|writer| writer.revert_document(&id(of), then)).unwrap();
    let name = |of: &str| database.json(of).map(|json| json.split('"').nth(3).unwrap().to_owned());
    let cases = [
        ("changed", Reversion::Reverted, Some("a")),
        ("deleted", Reversion::Reverted, Some("a")),
        ("same", Reversion::Unchanged, Some("a")),
        ("new", Reversion::Reverted, None),
        ("gone", Reversion::Unchanged, None),
        ("never", Reversion::Unchanged, None),
        ("long", Reversion::RevertedToOldest { count_to_keep: 4 }, Some("6")),
    ];
    for (of, outcome, expected) in cases {
        assert_eq!((revert(of), name(of).as_deref()), (outcome, expected), "{of}");
    }
    assert_eq!(database.flags_of("changed"), "HasRevisions, Reverted");
    assert!(database.revisions_of("changed")[0].contains("HasRevisions, Revision, Reverted a"));
    assert!(database.revisions_of("new")[0].contains("HasRevisions, DeleteRevision, Reverted -"));
}

#[test]
fn a_revision_is_restored_by_any_spelling_of_the_id() {
    let database = Database::new();
    database.keep(Some(rule(Some(5))));
    database.put("Öl/1", &user("a"));
    let oldest = {
        let tx = database.environment.read();
        let mut revisions = documents::revisions_newest_first(&tx, &id("Öl/1")).unwrap();
        revisions.next().unwrap().unwrap().change_vector().to_owned()
    };
    database.put("Öl/1", &user("b"));
    let restore =
        |of: &str| database.write(|writer| writer.restore_revision(&id(of), &oldest).map(drop));
    for of in ["öl/2", "ol/1"] {
        let error = restore(of).unwrap_err();
        assert!(matches!(error, documents::DocumentError::DocumentMissing { .. }), "{of}: {error}");
    }
    restore("öl/1").unwrap();
    assert_eq!(database.json("Öl/1").unwrap().split('"').nth(3), Some("a"));
}

#[test]
fn collections_have_rules_of_their_own_and_ranges_of_ids_none() {
    let database = Database::new();
    let mut configuration = RevisionsConfiguration::new(Some(rule(Some(2))));
    let off = RevisionsRule { is_disabled: true, ..rule(Some(9)) };
    configuration.insert(&CollectionName::new("users").unwrap(), off);
    *database.revisions.borrow_mut() = configuration;
    database.put("u/1", &user("a"));
    database.put("o/1", &in_collection("Orders", "a"));
    database.put("e/1", r#"{"Name":"x"}"#);
    database.put("Raven/Hilo/x", &in_collection("@hilo", "a"));
    let counts = ["u/1", "o/1", "e/1", "Raven/Hilo/x"].map(|id| database.revisions_of(id).len());
    assert_eq!(counts, [0, 1, 1, 0]);
}
