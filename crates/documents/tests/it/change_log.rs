//! The change log: generated histories of everything that is stored, against what is found by keys.

use std::collections::BTreeSet;

use documents::{
    ChangeCounters, CounterStep, DeleteAttachment, ExpectedVersion, NewContent, PutAttachment,
    RemoveTombstones, RevisionsToRemove, TombstoneKind,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
    time_series::{Entries, Entry, MomentRange, TimeSeriesChange, segments, series_of},
};
use model::{
    AttachmentName, CollectionName, CounterName, DocumentId, Etag, RevisionsConfiguration,
    RevisionsRule, TimeSeriesName,
};
use platform::simulated::Random;
use storage::ReadTransaction;

use crate::database::{Database, in_collection, version};

const COLLECTIONS: [&str; 3] = ["Users", "Orders", "Nothing"];
const IDS: [&str; 4] = ["u/1", "U/10", "u/2", "ü"];
const NAMES: [&str; 3] = ["a", "B", "ab"];

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn collection(text: &str) -> CollectionName {
    CollectionName::new(text).unwrap()
}

impl Database {
    fn put_attachment_bytes(&self, of: &str, called: &str, bytes: &[u8]) {
        let content = NewContent::Bytes { hash: documents::hash_of(bytes), bytes: bytes.to_vec() };
        let request = PutAttachment {
            id: id(of),
            name: AttachmentName::new(called).unwrap(),
            content_type: String::new(),
            expected: ExpectedVersion::Any,
            content,
        };
        self.write(|writer| writer.put_attachment(&request)).unwrap();
    }

    fn delete_attachment(&self, of: &str, called: &str) {
        let name = AttachmentName::new(called).unwrap();
        let request = DeleteAttachment { id: id(of), name, expected: ExpectedVersion::Any };
        self.write(|writer| writer.delete_attachment(&request)).unwrap();
    }

    fn change_counter(&self, of: &str, called: &str, by: Option<i64>) {
        let name = CounterName::new(called).unwrap();
        let step = match by {
            Some(by) => CounterStep::Increment { name, by },
            None => CounterStep::Delete { name },
        };
        let request = ChangeCounters { id: id(of), steps: vec![step], ignores_missing: false };
        self.write(|writer| writer.change_counters(&request)).unwrap();
    }

    fn change_series(&self, of: &str, called: &str, moments: &[i64], deletes: &[(i64, i64)]) {
        let mut appends = Entries::default();
        for moment in moments {
            appends.push(Entry { timestamp_ms: *moment, values: &[1.5], tag: None });
        }
        let deletes = deletes.iter().map(|(from, to)| MomentRange { from: *from, to: *to });
        let name = TimeSeriesName::new(called).unwrap();
        let deletes = deletes.collect();
        let request = TimeSeriesChange { appends, deletes, ..TimeSeriesChange::new(id(of), name) };
        self.write(|writer| writer.change_time_series(&request)).unwrap();
    }

    fn remove_tombstones_up_to(&self, kind: TombstoneKind, etag: Etag) {
        let found = documents::removable_tombstones(&self.read(), kind, None, |_| etag).unwrap();
        let request = RemoveTombstones { kind, rows: found.rows };
        self.write(|writer| writer.remove_tombstones(&request)).unwrap();
    }

    fn keep_revisions_of_all(&self, keep: bool) {
        let rule = keep.then(RevisionsRule::default);
        *self.revisions.borrow_mut() = RevisionsConfiguration::new(rule);
    }
}

/// What the log should hold of one row. Tombstones are found without a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Expected {
    etag: u64,
    kind: EntryKind,
    collection: Option<u32>,
    text: String,
}

/// Everything that a snapshot holds, as its keys find it, in the order of etags.
fn by_keys(tx: &ReadTransaction) -> Vec<Expected> {
    let mut all = Vec::new();
    let mut add = |etag: Etag, kind, collection, text: String| {
        all.push(Expected { etag: etag.0, kind, collection, text });
    };
    for row in documents::by_prefix(tx, "", None).unwrap() {
        let row = row.unwrap();
        let body = String::from_utf8(row.body().unwrap().to_json().unwrap()).unwrap();
        let text = format!("{} {} {body}", row.id(), row.change_vector());
        add(row.etag(), EntryKind::Document, Some(row.collection_number()), text);
    }
    for revised in documents::revised_ids(tx, std::ops::Bound::Unbounded).unwrap() {
        for row in documents::revisions_newest_first(tx, &revised.unwrap()).unwrap() {
            let row = row.unwrap();
            let text = format!("{} {}", row.id(), row.change_vector());
            add(row.etag(), EntryKind::Revision, Some(row.collection_number()), text);
            for attachment in documents::attachments_of_revision(tx, row.etag()).unwrap() {
                let attachment = attachment.unwrap();
                let (name, hash) = (attachment.name(), attachment.hash());
                let text = format!("{} {name} {hash}", row.etag().0);
                add(attachment.etag(), EntryKind::Attachment, None, text);
            }
        }
    }
    for of in IDS {
        for row in documents::attachments_of(tx, &id(of)).unwrap() {
            let row = row.unwrap();
            let text = format!("{} {} {}", id(of).lower_cased(), row.name(), row.hash());
            add(row.etag(), EntryKind::Attachment, None, text);
        }
        for row in documents::counters_of(tx, &id(of)).unwrap() {
            let row = row.unwrap();
            let text = format!("{} {} {}", row.lower_document_id(), row.name(), row.total());
            add(row.etag(), EntryKind::Counter, Some(row.collection_number()), text);
        }
        for series in series_of(tx, &id(of)).unwrap() {
            let name = TimeSeriesName::new(series.unwrap().name.as_str()).unwrap();
            for row in segments(tx, &id(of), &name, MomentRange::ALL).unwrap() {
                let row = row.unwrap();
                let text = format!("{} {} {}", row.lower_document_id(), row.name(), row.moments());
                add(row.etag(), EntryKind::Segment, Some(row.collection_number()), text);
            }
        }
    }
    for (of, kind) in [
        (TombstoneKind::Documents, EntryKind::DocumentTombstone),
        (TombstoneKind::Attachments, EntryKind::AttachmentTombstone),
        (TombstoneKind::Counters, EntryKind::CounterTombstone),
        (TombstoneKind::TimeSeries, EntryKind::DeletedRange),
    ] {
        for (number, etag) in documents::tombstone_positions(tx, of).unwrap() {
            let collection = (kind != EntryKind::AttachmentTombstone).then_some(number);
            add(etag, kind, collection, String::new());
        }
    }
    all.sort();
    let etags: BTreeSet<u64> = all.iter().map(|expected| expected.etag).collect();
    assert_eq!(etags.len(), all.len(), "an etag belongs to one row");
    all
}

fn shown(entry: &LogEntry<'_>) -> Expected {
    let text = match entry {
        LogEntry::Document(row) => {
            let body = String::from_utf8(row.body().unwrap().to_json().unwrap()).unwrap();
            format!("{} {} {body}", row.id(), row.change_vector())
        }
        LogEntry::Revision(row) => format!("{} {}", row.id(), row.change_vector()),
        LogEntry::Attachment(row) => {
            let owner = match row.revision() {
                Some(revision) => revision.0.to_string(),
                None => row.lower_document_id().unwrap().to_owned(),
            };
            format!("{owner} {} {}", row.name(), row.hash())
        }
        LogEntry::Counter(row) => {
            format!("{} {} {}", row.lower_document_id(), row.name(), row.total())
        }
        LogEntry::Segment(row) => {
            format!("{} {} {}", row.lower_document_id(), row.name(), row.moments())
        }
        LogEntry::DocumentTombstone(_)
        | LogEntry::AttachmentTombstone(_)
        | LogEntry::CounterTombstone(_)
        | LogEntry::DeletedRange(_)
        | LogEntry::Conflict(_) => String::new(),
    };
    let (etag, kind) = (entry.etag().0, entry.kind());
    Expected { etag, kind, collection: entry.collection_number(), text }
}

/// A selection as a naive reader applies it.
struct Naive {
    kinds: EntryKinds,
    collections: Vec<CollectionName>,
    last: u64,
}

impl Naive {
    fn selects(&self, expected: &Expected, tx: &ReadTransaction) -> bool {
        let is_of_them = |number: u32| {
            let name = documents::collection_numbered(tx, number).unwrap().name;
            self.collections.contains(&name)
        };
        self.kinds.contains(expected.kind)
            && expected.etag <= self.last
            && (self.collections.is_empty() || expected.collection.is_some_and(is_of_them))
    }
}

/// Reads what is selected after an etag, and compares it with the rest of what should be there.
fn selections(selected: &[Naive]) -> Vec<Selection<'_>> {
    let each = selected.iter();
    each.map(|one| Selection::of_collections(one.kinds, &one.collections).up_to(Etag(one.last)))
        .collect()
}

fn check(tx: &ReadTransaction, selected: &[Naive], all: &[Expected], after: u64, at_most: usize) {
    let mut reader = log::read(tx, &selections(selected), Etag(after)).unwrap();
    for expected in all.iter().filter(|expected| after < expected.etag).take(at_most) {
        let found = shown(&reader.next().unwrap().unwrap());
        assert_eq!(&found, expected);
    }
    let rest = all.iter().filter(|expected| after < expected.etag).skip(at_most).count();
    assert!(rest != 0 || reader.next().is_none());
}

/// How many there are and where they end; of a single selection.
fn check_extent(tx: &ReadTransaction, selected: &[Naive], all: &[Expected], after: u64) {
    let selections = selections(selected);
    let last = all.last().map_or(0, |last| last.etag);
    assert_eq!(log::last_etag(tx, &selections).unwrap(), Etag(last));
    let behind = all.iter().filter(|expected| after < expected.etag).count() as u64;
    for at_most in [behind / 2, u64::MAX] {
        let counted = log::count_after(tx, &selections, Etag(after), at_most).unwrap();
        assert_eq!(counted, behind.min(at_most));
    }
}

fn kinds_of_bits(bits: u64) -> EntryKinds {
    let all = EntryKind::ALL.into_iter().enumerate();
    let chosen = all.filter(|(at, _)| bits & (1 << at) != 0);
    chosen.fold(EntryKinds::default(), |kinds, (_, kind)| kinds | kind.into())
}

fn random_selection(random: &mut Random, last_etag: u64) -> Naive {
    let kinds = kinds_of_bits(random.below(512));
    let chosen = COLLECTIONS.iter().filter(|_| random.below(3) == 0);
    let collections = chosen.map(|name| collection(name)).collect();
    let last = if random.below(3) == 0 { random.below(last_etag + 2) } else { u64::MAX };
    Naive { kinds, collections, last }
}

fn everything(kinds: EntryKinds) -> Naive {
    Naive { kinds, collections: Vec::new(), last: u64::MAX }
}

fn change(database: &Database, random: &mut Random) {
    let of = IDS[random.below(4) as usize];
    let called = NAMES[random.below(3) as usize];
    let is_there = documents::get(&database.read(), &id(of)).unwrap().is_some();
    let moments = |random: &mut Random| {
        let from = random.below(500).cast_signed();
        (from..from + random.below(40).cast_signed()).collect::<Vec<_>>()
    };
    match random.below(16) {
        0..4 => {
            let json = in_collection(COLLECTIONS[random.below(2) as usize], called);
            // A document that lives stays in its collection.
            drop(database.try_put(of, None, &json));
        }
        4 => {
            database.delete(of);
        }
        5 => database.keep_revisions_of_all(random.below(2) == 0),
        6 => {
            let kind = TombstoneKind::ALL[random.below(4) as usize];
            let last = documents::progress(&database.read()).unwrap().last_etag;
            database.remove_tombstones_up_to(kind, Etag(random.below(last.0 + 1)));
        }
        7 => {
            let what = RevisionsToRemove::All { with_forced: true };
            database.write(|writer| writer.remove_revisions(&id(of), what)).unwrap();
        }
        _ if !is_there => {}
        8 | 9 => database.put_attachment_bytes(of, called, &[random.below(3) as u8]),
        10 => database.delete_attachment(of, called),
        11 | 12 => database.change_counter(of, called, Some(random.below(9).cast_signed())),
        13 => database.change_counter(of, called, None),
        14 => database.change_series(of, called, &moments(random), &[]),
        _ => {
            let from = random.below(500).cast_signed();
            database.change_series(of, called, &[], &[(from, from + 30)]);
        }
    }
}

fn run(seed: u64) {
    let random = &mut Random::new(seed);
    let database = Database::new();
    let mut earlier = None;
    for step in 0..120 {
        change(&database, random);
        let tx = database.read();
        let all = by_keys(&tx);
        let last_etag = documents::progress(&tx).unwrap().last_etag.0;
        for _ in 0..8 {
            let selected: Vec<_> =
                (0..1 + random.below(3)).map(|_| random_selection(random, last_etag)).collect();
            let mut wanted = all.clone();
            wanted.retain(|expected| selected.iter().any(|one| one.selects(expected, &tx)));
            let after = random.below(last_etag + 2);
            check(&tx, &selected, &wanted, after, usize::MAX);
            if let [_] = selected.as_slice() {
                check_extent(&tx, &selected, &wanted, after);
            }
        }
        // A snapshot that is kept shows what it showed.
        if step == 60 {
            earlier = Some((tx, all));
        }
    }
    let tx = database.read();
    let all = by_keys(&tx);
    let last_etag = documents::progress(&tx).unwrap().last_etag.0;
    for bits in 0..512 {
        let selected = [everything(kinds_of_bits(bits))];
        let mut wanted = all.clone();
        wanted.retain(|expected| selected[0].kinds.contains(expected.kind));
        check(&tx, &selected, &wanted, 0, usize::MAX);
        check_extent(&tx, &selected, &wanted, random.below(last_etag + 2));
        (1..=last_etag + 1).for_each(|after| check(&tx, &selected, &wanted, after, 2));
    }
    let (tx, all) = earlier.unwrap();
    check(&tx, &[everything(EntryKinds::of(&EntryKind::ALL))], &all, 0, usize::MAX);
}

#[test]
fn every_selection_of_generated_histories_is_read_from_every_etag() {
    for seed in 0..4 {
        run(seed);
    }
}

#[test]
fn an_entry_says_what_changed_and_which_version_it_is() {
    let database = Database::new();
    database.put("Users/1", &in_collection("Users", "x"));
    database.put("Users/2", &in_collection("Orders", "x"));
    database.put_attachment_bytes("users/1", "A.txt", b"x");
    database.put_attachment_bytes("users/1", "gone", b"x");
    database.change_counter("users/1", "Likes", Some(2));
    database.change_counter("users/1", "gone", Some(1));
    database.change_series("users/1", "HR", &[1, 2, 3], &[]);
    database.change_series("users/1", "HR", &[], &[(2, 2)]);
    database.delete_attachment("users/1", "gone");
    database.change_counter("users/1", "gone", None);
    database.delete("Users/2");
    database.keep_revisions_of_all(true);
    database.put("users/1", &in_collection("Users", "y"));
    let tx = database.read();
    let mut found = Vec::new();
    for entry in
        log::read(&tx, &[Selection::all(EntryKinds::of(&EntryKind::ALL))], Etag::ZERO).unwrap()
    {
        let entry = entry.unwrap();
        let owner = entry.lower_document_id().unwrap_or("-");
        let name = entry.lower_name().unwrap_or("-");
        let collection = entry.collection_number();
        if entry.kind() != EntryKind::Revision && entry.lower_document_id().is_some() {
            assert_eq!(entry.change_vector(), version(entry.etag().0));
        }
        found.push((entry.kind(), owner.to_owned(), name.to_owned(), collection));
    }
    found.sort();
    let entry = |kind, owner: &str, name: &str, collection| {
        (kind, owner.to_owned(), name.to_owned(), collection)
    };
    let (users, orders) = (Some(1), Some(2));
    let mut wanted = vec![
        entry(EntryKind::Document, "users/1", "-", users),
        entry(EntryKind::DocumentTombstone, "users/2", "-", orders),
        entry(EntryKind::Revision, "users/1", "-", users),
        entry(EntryKind::Revision, "users/1", "-", users),
        entry(EntryKind::Attachment, "users/1", "a.txt", None),
        entry(EntryKind::Attachment, "-", "a.txt", None),
        entry(EntryKind::Attachment, "-", "a.txt", None),
        entry(EntryKind::AttachmentTombstone, "users/1", "gone", None),
        entry(EntryKind::Counter, "users/1", "likes", users),
        entry(EntryKind::CounterTombstone, "users/1", "gone", users),
        entry(EntryKind::Segment, "users/1", "hr", users),
        entry(EntryKind::DeletedRange, "users/1", "hr", users),
    ];
    wanted.sort();
    assert_eq!(found, wanted);
}
