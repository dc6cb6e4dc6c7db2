//! Generated histories of a few documents with revisions, against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use documents::{
    ExpectedVersion, RequestedId, RevisedVersion, RevisionsToRemove,
    log::{self, EntryKind, Selection},
};
use model::{DocumentFlags, DocumentId, Etag, RevisionsConfiguration, RevisionsRule, TimeSpan};
use platform::simulated::Random;
use storage::ReadTransaction;

use crate::database::{Database, body, user};

const HAS: DocumentFlags = DocumentFlags::HAS_REVISIONS;
const REVISION: DocumentFlags = DocumentFlags::REVISION;
const DELETED: DocumentFlags = DocumentFlags::DELETE_REVISION;
const FORCED: DocumentFlags = DocumentFlags::FORCE_CREATED;
const OLD: DocumentFlags = DocumentFlags::FROM_OLD_DOCUMENT_REVISION;
const NONE: DocumentFlags = DocumentFlags::NONE;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    /// The etag in its change vector.
    etag: u64,
    flags: DocumentFlags,
    ticks: i64,
    name: Option<String>,
}

/// What should be stored, as lists.
#[derive(Default)]
struct Naive {
    rule: Option<RevisionsRule>,
    now: i64,
    last_etag: u64,
    documents: BTreeMap<String, Version>,
    /// The oldest first.
    revisions: BTreeMap<String, Vec<Version>>,
    bin: BTreeSet<String>,
}

impl Naive {
    fn active(&self) -> Option<RevisionsRule> {
        self.rule.filter(|rule| !rule.is_disabled)
    }

    fn next(&mut self) -> u64 {
        self.last_etag += 1;
        self.last_etag
    }

    fn keep(&mut self, id: &str, version: Version) {
        self.next();
        if version.flags.contains(DELETED) {
            self.bin.insert(id.to_owned());
        } else {
            self.bin.remove(id);
        }
        self.revisions.entry(id.to_owned()).or_default().push(version);
    }

    fn count(&self, id: &str) -> usize {
        self.revisions.get(id).map_or(0, Vec::len)
    }

    fn limit(&mut self, id: &str, rule: RevisionsRule) {
        let list = self.revisions.entry(id.to_owned()).or_default();
        let mut left = rule.removed_by_write_max.unwrap_or(i64::MAX);
        while left > 0 && !list.is_empty() {
            let is_beyond = match rule.count_to_keep {
                Some(keep) => keep.max(0) < list.len() as i64,
                None => rule.age_to_keep.is_some(),
            };
            let is_old = rule.age_to_keep.is_none_or(|age| age.ticks <= self.now - list[0].ticks);
            if !is_beyond || !is_old {
                break;
            }
            list.remove(0);
            left -= 1;
        }
        self.tidy(id);
    }

    fn tidy(&mut self, id: &str) {
        if self.count(id) == 0 {
            self.revisions.remove(id);
            self.bin.remove(id);
        }
    }

    fn put(&mut self, id: &str, name: &str) {
        let etag = self.next();
        let old = self.documents.get(id).cloned();
        let mut flags = old.as_ref().map_or(NONE, |old| old.flags);
        if self.count(id) != 0 {
            flags |= HAS;
        }
        self.bin.remove(id);
        let name = Some(name.to_owned());
        let is_same = old.as_ref().is_some_and(|old| old.name == name);
        if let Some(rule) = self.active()
            && !is_same
        {
            if let Some(old) = old.filter(|old| !old.flags.contains(HAS)) {
                let is_kept = self
                    .revisions
                    .get(id)
                    .is_some_and(|list| list.iter().any(|revision| revision.etag == old.etag));
                if !is_kept {
                    self.keep(id, Version { flags: old.flags | HAS | OLD | REVISION, ..old });
                }
            }
            flags |= HAS;
            let (ticks, name) = (self.now, name.clone());
            self.keep(id, Version { etag, flags: flags | REVISION, ticks, name });
            self.limit(id, rule);
            if self.count(id) == 0 {
                flags = flags.without(HAS);
            }
        }
        let document = Version { etag, flags, ticks: self.now, name };
        self.documents.insert(id.to_owned(), document);
    }

    fn delete(&mut self, id: &str) {
        let Some(old) = self.documents.remove(id) else { return };
        let etag = self.next();
        if self.rule.is_some_and(|rule| rule.purge_on_delete) {
            self.revisions.remove(id);
            return;
        }
        if self.active().is_none() && !old.flags.contains(HAS) {
            return;
        }
        if self.active().is_some() && !old.flags.contains(HAS) {
            self.keep(id, Version { flags: old.flags | OLD | REVISION, ..old });
        }
        let ticks = self.now;
        self.keep(id, Version { etag, flags: HAS | DELETED, ticks, name: None });
        if let Some(rule) = self.rule {
            self.limit(id, rule);
        }
    }

    fn force(&mut self, id: &str) {
        let Some(document) = self.documents.get(id).cloned() else { return };
        let list = self.revisions.get(id);
        if list.is_some_and(|list| list.iter().any(|revision| revision.etag == document.etag)) {
            return;
        }
        let mut document = document;
        if !document.flags.contains(HAS) {
            document.etag = self.next();
            document.ticks = self.now;
            document.flags |= HAS;
            self.documents.insert(id.to_owned(), document.clone());
        }
        self.keep(id, Version { flags: document.flags | REVISION | FORCED, ..document });
        if let Some(rule) = self.active() {
            self.limit(id, rule);
        }
    }

    fn remove(&mut self, id: &str, what: RevisionsToRemove) {
        let before = self.count(id);
        let list = self.revisions.entry(id.to_owned()).or_default();
        let spare_forced = match what {
            RevisionsToRemove::All { with_forced }
            | RevisionsToRemove::Between { with_forced, .. }
            | RevisionsToRemove::Unwanted { with_forced } => !with_forced,
            RevisionsToRemove::One(_) => panic!("see remove_one"),
        };
        match (what, self.rule) {
            (RevisionsToRemove::Unwanted { .. }, Some(rule)) => {
                self.limit(id, RevisionsRule { removed_by_write_max: None, ..rule });
            }
            (_, _) => {
                let is_chosen = |revision: &Version| match what {
                    RevisionsToRemove::Between { from, to, .. } => {
                        (from..=to).contains(&revision.ticks)
                    }
                    _ => true,
                };
                let newest = list.last().cloned();
                list.retain(|revision| {
                    let is_spared = spare_forced && revision.flags.contains(FORCED);
                    is_spared || !is_chosen(revision)
                });
                if newest != list.last().cloned() {
                    self.bin.remove(id);
                }
            }
        }
        self.tidy(id);
        let is_enforced = matches!(what, RevisionsToRemove::Unwanted { .. });
        if is_enforced && before != 0 && self.count(id) == 0 {
            let has = self.documents.get(id).is_some_and(|document| document.flags.contains(HAS));
            if has {
                let (etag, now) = (self.next(), self.now);
                let document = self.documents.get_mut(id).unwrap();
                document.flags = document.flags.without(HAS);
                (document.etag, document.ticks) = (etag, now);
            }
        }
    }

    /// Removes the one with so many newer ones.
    fn remove_one(&mut self, id: &str, newer: usize) {
        let list = self.revisions.entry(id.to_owned()).or_default();
        list.remove(list.len() - 1 - newer);
        if newer == 0 {
            self.bin.remove(id);
        }
        self.tidy(id);
    }

    fn content(&self) -> Content {
        Content {
            last_etag: self.last_etag,
            documents: self.documents.clone(),
            revisions: self.revisions.clone(),
            bin: self.bin.clone(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Content {
    last_etag: u64,
    documents: BTreeMap<String, Version>,
    revisions: BTreeMap<String, Vec<Version>>,
    bin: BTreeSet<String>,
}

impl Content {
    pub(crate) fn without_times(mut self) -> Self {
        let revisions = self.revisions.values_mut().flatten();
        self.documents.values_mut().chain(revisions).for_each(|version| version.ticks = 0);
        self
    }
}

fn etag_in(change_vector: &str) -> u64 {
    change_vector.trim_start_matches("A:").split('-').next().unwrap().parse().unwrap()
}

fn content(database: &Database) -> Content {
    content_of(&database.read())
}

/// Everything that a database holds of documents and revisions.
pub(crate) fn content_of(tx: &ReadTransaction) -> Content {
    let mut content = Content {
        last_etag: documents::progress(tx).unwrap().last_etag.0,
        documents: BTreeMap::new(),
        revisions: BTreeMap::new(),
        bin: BTreeSet::new(),
    };
    let name = |body: blittable::Document<'_>| {
        body.root().get_str("Name").unwrap().map(std::borrow::Cow::into_owned)
    };
    for row in documents::by_prefix(tx, "", None).unwrap() {
        let row = row.unwrap();
        let (etag, ticks) = (etag_in(row.change_vector()), row.last_modified_ticks());
        let version = Version { etag, flags: row.flags(), ticks, name: name(row.body().unwrap()) };
        content.documents.insert(row.id().to_owned(), version);
    }
    let revisions = [Selection::all(EntryKind::Revision)];
    for entry in log::read(tx, &revisions, Etag::ZERO).unwrap() {
        let row = entry.unwrap().revision().unwrap();
        let (etag, ticks) = (etag_in(row.change_vector()), row.last_modified_ticks());
        let version = Version { etag, flags: row.flags(), ticks, name: name(row.body().unwrap()) };
        content.revisions.entry(row.id().to_owned()).or_default().push(version);
    }
    for row in documents::deleted_documents(tx).unwrap() {
        content.bin.insert(row.unwrap().id().to_owned());
    }
    content
}

fn random_rule(random: &mut Random) -> Option<RevisionsRule> {
    let mut some =
        |max: u64, of: u64| (random.below(of) == 0).then(|| random.below(max).cast_signed() - 1);
    let rule = RevisionsRule {
        is_disabled: some(1, 5).is_some(),
        count_to_keep: some(7, 1).filter(|count| *count != 5),
        age_to_keep: some(60, 2)
            .map(|seconds| TimeSpan { ticks: seconds * model::ticks::TICKS_PER_SECOND }),
        purge_on_delete: some(1, 6).is_some(),
        removed_by_write_max: some(4, 4),
    };
    (random.below(6) != 0).then_some(rule)
}

fn run(seed: u64) {
    let random = &mut Random::new(seed);
    let database = Database::new();
    let mut naive = Naive::default();
    for step in 0..150 {
        database.pass(random.below(12));
        let id = format!("docs/{}", random.below(4));
        let exact = DocumentId::new(id.as_str()).unwrap();
        match random.below(12) {
            0 => {
                naive.rule = random_rule(random);
                *database.revisions.borrow_mut() = RevisionsConfiguration::new(naive.rule);
            }
            1 | 2 => {
                database.delete(&id);
                naive.now = database.last_write();
                naive.delete(&id);
            }
            3 => {
                let current = RevisedVersion::Current;
                drop(database.write(|writer| writer.force_revision(&exact, current)));
                naive.now = database.last_write();
                naive.force(&id);
            }
            4 => {
                let with_forced = random.below(2) == 0;
                let what = match random.below(3) {
                    0 => RevisionsToRemove::All { with_forced },
                    1 => RevisionsToRemove::Between {
                        from: naive.now - random.below(100).cast_signed(),
                        to: naive.now - random.below(20).cast_signed(),
                        with_forced,
                    },
                    _ => RevisionsToRemove::Unwanted { with_forced },
                };
                database.write(|writer| writer.remove_revisions(&exact, what)).unwrap();
                naive.now = database.last_write();
                naive.remove(&id, what);
            }
            5 => {
                let tx = database.environment.read();
                let mut newest_first = documents::revisions_newest_first(&tx, &exact).unwrap();
                let nth = random.below(5) as usize;
                if let Some(revision) = newest_first.nth(nth) {
                    let what = RevisionsToRemove::One(revision.unwrap().etag());
                    database.write(|writer| writer.remove_revisions(&exact, what)).unwrap();
                    naive.now = database.last_write();
                    naive.remove_one(&id, nth);
                }
            }
            _ => {
                let json = user(&random.below(4).to_string());
                let (of, any) = (RequestedId::Exactly(exact), ExpectedVersion::Any);
                database.write(|writer| writer.put(&of, &any, &body(&json))).unwrap();
                naive.now = database.last_write();
                naive.put(&id, json.split('"').nth(3).unwrap());
            }
        }
        assert_eq!(content(&database), naive.content(), "seed {seed}, step {step}");
    }
}

#[test]
fn generated_histories_agree_with_a_naive_model() {
    for seed in 0..40 {
        run(seed);
    }
}
