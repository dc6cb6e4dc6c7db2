//! Salvage of damaged databases: what is left is found, what is lost is named, the source stays as it
//! is.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use documents::{
    Compression, DatabaseIdentity, DocumentWriter, ExpectedVersion, NewContent, PutAttachment,
    RequestedId, SalvageReport, WriteContext,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
};
use model::{
    AttachmentName, CounterName, DatabaseId, DocumentId, DocumentsCompression, Etag, NodeTag,
};
use platform::{
    Platform,
    simulated::{SimulatedDisk, Simulation, Survival},
};
use storage::{
    Environment, EnvironmentOptions, PAGE_BYTES, ReadTransaction, Salvage, SalvageFindings,
    StorageError,
};

const OWN: DatabaseIdentity =
    DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A };
const DRAWN: DatabaseIdentity =
    DatabaseIdentity { database_id: DatabaseId([9; 16]), node_tag: NodeTag::A };

/// What a reader sees of a database: documents by id with everything about them, tombstones, and the
/// values of identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    documents: BTreeMap<String, String>,
    tombstones: BTreeMap<String, u64>,
    log: Vec<u64>,
    collections: Vec<documents::CollectionStatistics>,
    identities: Vec<(String, i64)>,
    /// Documents and names of attachments, and what they have.
    attachments: BTreeMap<(String, String), String>,
    /// Documents and names of counters, and what they say.
    counters: BTreeMap<(String, String), i64>,
}

fn content(tx: &ReadTransaction) -> Content {
    let mut content = Content::default();
    let kinds = [
        EntryKind::Document,
        EntryKind::DocumentTombstone,
        EntryKind::Attachment,
        EntryKind::Counter,
    ];
    let selected = [Selection::all(EntryKinds::of(&kinds))];
    for entry in log::read(tx, &selected, Etag::ZERO).unwrap() {
        let entry = entry.unwrap();
        let etag = entry.etag().0;
        match entry {
            LogEntry::Document(row) => {
                content.log.push(etag);
                let mut json = format!("{} ", row.etag().0).into_bytes();
                documents::write_document_json(&row, &mut json).unwrap();
                let json = String::from_utf8(json).unwrap();
                content.documents.insert(row.lower_id().to_owned(), json);
            }
            LogEntry::DocumentTombstone(row) => {
                content.log.push(etag);
                content.tombstones.insert(row.lower_id().to_owned(), row.etag().0);
            }
            LogEntry::Attachment(row) => {
                let id = row.lower_document_id().unwrap().to_owned();
                let what = format!("{} {} {}", row.etag().0, row.hash(), row.content_bytes());
                content.attachments.insert((id, row.lower_name().to_owned()), what);
            }
            LogEntry::Counter(row) => {
                let (id, name) = (row.lower_document_id(), row.lower_name());
                content.counters.insert((id.to_owned(), name.to_owned()), row.total());
            }
            other => panic!("{:?} was not selected", other.kind()),
        }
    }
    content.collections = documents::collections(tx).unwrap();
    content.identities = documents::identities(tx).unwrap();
    content
}

struct Ward {
    simulation: Simulation,
    options: EnvironmentOptions,
    content: Content,
}

fn body(number: u64, round: u64) -> BlittableBuf {
    let filler = "x".repeat(if number % 17 == 3 { 9000 } else { (number * 31 % 400) as usize });
    let collection = ["Users", "Orders", "Things"][(number % 3) as usize];
    let json = format!(
        r#"{{"Number":{number},"Round":{round},"Filler":"{filler}","@metadata":{{"@collection":"{collection}"}}}}"#
    );
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn id(number: u64) -> DocumentId {
    DocumentId::new(format!("Docs/{number:04}")).unwrap()
}

fn write(
    platform: &Platform,
    environment: &Arc<Environment>,
    work: impl Fn(&mut DocumentWriter<'_>),
) {
    let mut tx = environment.write().unwrap();
    let mut rules = DocumentsCompression::nothing();
    rules.all_collections = true;
    let compression = Compression::new(rules);
    let plain = WriteContext::new(platform.clock.now(), &*platform.entropy);
    let context = WriteContext { compression: &compression, ..plain };
    let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
    work(&mut writer);
    writer.finish().unwrap();
    tx.commit().unwrap();
}

/// Small contents share pages, others have pages of their own.
fn attach(writer: &mut DocumentWriter<'_>, number: u64) {
    let bytes = vec![number as u8; [10, 3000, 9000, 30_000][(number % 4) as usize]];
    let put = PutAttachment {
        id: id(number),
        name: AttachmentName::new("A").unwrap(),
        content_type: String::new(),
        expected: ExpectedVersion::Any,
        content: NewContent::Bytes { hash: documents::hash_of(&bytes), bytes },
    };
    writer.put_attachment(&put).unwrap();
}

fn count(writer: &mut DocumentWriter<'_>, number: u64, name: &str) {
    writer.increment_counter(&id(number), &CounterName::new(name).unwrap(), 3).unwrap();
}

fn put(writer: &mut DocumentWriter<'_>, number: u64, round: u64) {
    let id = RequestedId::Exactly(id(number));
    writer.put(&id, &ExpectedVersion::Any, &body(number, round)).unwrap();
}

impl Ward {
    /// A database of `documents` documents, some of them changed, some deleted. `flushed` says how
    /// much of it is in the data file: before the changes, and after everything.
    fn new(documents: u64, flushed: [bool; 2]) -> Self {
        let simulation = Platform::simulated(documents);
        let mut options = EnvironmentOptions::new("/source");
        options.journal_bytes_max = 512 * 1024;
        let platform = simulation.platform.clone();
        let environment = Environment::open(&platform, options.clone()).unwrap();
        let mut tx = environment.write().unwrap();
        documents::initialize(&mut tx, OWN).unwrap();
        tx.commit().unwrap();
        for first in (0..documents).step_by(10) {
            write(&platform, &environment, |writer| {
                (first..documents.min(first + 10)).for_each(|number| put(writer, number, 1));
                writer.next_identity("users").unwrap();
            });
        }
        for number in (0..documents).step_by(5) {
            write(&platform, &environment, |writer| attach(writer, number));
        }
        for number in (0..documents).step_by(3) {
            write(&platform, &environment, |writer| {
                count(writer, number, "Likes");
                count(writer, number, "views");
            });
        }
        if flushed[0] {
            environment.flush().unwrap();
        }
        for collection in 1..=documents.min(3) as u32 {
            // Few documents teach nothing.
            if let Some(trained) =
                documents::train_dictionary(&environment.read(), collection).unwrap()
            {
                write(&platform, &environment, |writer| {
                    assert!(writer.add_dictionary(&trained).unwrap());
                });
            }
        }
        for number in (0..documents).step_by(4) {
            write(&platform, &environment, |writer| put(writer, number, 2));
        }
        for number in (1..documents).step_by(6) {
            write(&platform, &environment, |writer| {
                writer.delete(&id(number), &ExpectedVersion::Any).unwrap();
            });
        }
        for number in (0..documents).step_by(12) {
            write(&platform, &environment, |writer| {
                count(writer, number, "LIKES");
                let views = CounterName::new("views").unwrap();
                writer.delete_counter(&id(number), &views).unwrap();
            });
        }
        if flushed[1] {
            environment.flush().unwrap();
        }
        let content = content(&environment.read());
        Self { simulation, options, content }
    }

    fn disk(&self) -> &SimulatedDisk {
        &self.simulation.disk
    }

    fn flip(&self, path: &str, offset: u64) {
        self.disk().flip_bit(Path::new(path), offset, 3).unwrap();
    }

    fn journals(&self) -> Vec<PathBuf> {
        let directory = Path::new("/source/journals");
        let names = self.simulation.platform.disk.list(directory).unwrap();
        names.into_iter().map(|name| directory.join(name)).collect()
    }

    fn source_bytes(&self) -> Vec<Vec<u8>> {
        let mut files = self.journals();
        files.push("/source/corvus.data".into());
        files.iter().map(|file| self.disk().file_bytes(file).unwrap()).collect()
    }

    fn salvage(&self, target: &str) -> Result<(SalvageFindings, SalvageReport), StorageError> {
        let platform = &self.simulation.platform;
        let mut salvage = Salvage::open(platform, &self.options, Path::new(target))?;
        let report = match documents::salvage(&mut salvage, DRAWN) {
            Ok(report) => report,
            Err(documents::DocumentError::Storage(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        };
        let findings = salvage.findings().clone();
        salvage.publish()?;
        Ok((findings, report))
    }

    /// Salvages, checks that the new database is sound and the old one untouched.
    fn salvaged(&self) -> (SalvageFindings, SalvageReport, Content) {
        let before = self.source_bytes();
        let (findings, report) = self.salvage("/target").unwrap();
        assert!(before == self.source_bytes(), "the source was written to");
        let options = EnvironmentOptions::new("/target");
        let environment = Environment::open(&self.simulation.platform, options).unwrap();
        let tx = environment.read();
        tx.check().unwrap();
        let counted = documents::check(&tx).unwrap();
        assert_eq!((counted.documents, counted.tombstones), (report.documents, report.tombstones));
        assert_eq!(counted.attachments, report.attachments);
        assert_eq!(counted.counters, report.counters);
        assert_eq!(documents::database_identity(&tx).unwrap(), OWN);
        assert!(!report.is_new_identity);
        let content = content(&tx);
        drop((tx, environment));
        self.simulation.platform.disk.remove_dir_all(Path::new("/target")).unwrap();
        (findings, report, content)
    }

    /// Every document is there as it was, or is named as lost or older; nothing else is there, but
    /// what is named as returned.
    fn assert_only_named_differ(&self, report: &SalvageReport, found: &Content, what: &str) {
        let lost_attachments = &report.lost_attachments.named;
        let counters = report.lost_counters.named.iter().chain(&report.older_counters.named);
        let of_documents = lost_attachments.iter().chain(counters);
        let of_documents = of_documents.map(|name| name.split('\n').next().unwrap());
        let named: BTreeSet<&str> = [&report.lost, &report.older, &report.returned]
            .into_iter()
            .flat_map(|ids| ids.named.iter().map(String::as_str))
            .chain(of_documents)
            .collect();
        for (attachment, what_it_is) in &self.content.attachments {
            let is_there = found.attachments.get(attachment) == Some(what_it_is);
            assert!(is_there || named.contains(attachment.0.as_str()), "{what}: {attachment:?}");
        }
        for (counter, total) in &self.content.counters {
            let is_there = found.counters.get(counter) == Some(total);
            assert!(is_there || named.contains(counter.0.as_str()), "{what}: {counter:?}");
        }
        for (id, json) in &self.content.documents {
            assert!(
                found.documents.get(id) == Some(json) || named.contains(id.as_str()),
                "{what}: {id}"
            );
        }
        for id in found.documents.keys() {
            let was_there = self.content.documents.contains_key(id);
            assert!(was_there || named.contains(id.as_str()), "{what}: {id} came out of nowhere");
        }
    }
}

#[test]
fn a_sound_database_is_rebuilt_exactly() {
    for flushed in [[false, false], [true, false], [false, true], [true, true]] {
        let ward = Ward::new(150, flushed);
        let (findings, report, found) = ward.salvaged();
        assert!(!findings.is_anything_lost(), "{findings:?}");
        assert_eq!(found, ward.content);
        assert!(!report.are_etags_left_out);
        assert_eq!(report.lost.count + report.older.count + report.returned.count, 0);
    }
}

#[test]
fn one_damaged_page_costs_at_most_the_documents_on_it() {
    let ward = Ward::new(120, [true, true]);
    let bytes = ward.disk().file_bytes(Path::new("/source/corvus.data")).unwrap();
    let mut lost = 0;
    for page in 0..(bytes.len() / PAGE_BYTES) as u64 {
        let offset = page * PAGE_BYTES as u64 + 40 + page % 8000;
        ward.flip("/source/corvus.data", offset);
        let (findings, report, found) = ward.salvaged();
        assert!(findings.damaged_pages <= 4, "page {page}: {findings:?}");
        ward.assert_only_named_differ(&report, &found, &format!("page {page}"));
        assert!(report.lost.count + report.older.count < 60, "page {page}: {report:?}");
        let are_identities_named =
            report.trees.iter().any(|tree| tree.name == "Identities" && tree.unreadable_pages == 1);
        assert_ne!(
            found.identities == ward.content.identities,
            are_identities_named,
            "page {page}"
        );
        lost += report.lost.count + report.older.count;
        ward.flip("/source/corvus.data", offset);
    }
    assert!(lost > 0, "no flip met a page of rows");
}

#[test]
fn without_headers_root_and_free_space_every_document_is_found() {
    for flushed in [[false, false], [true, false], [true, true]] {
        let ward = Ward::new(150, flushed);
        for page in 0..4 {
            ward.flip("/source/corvus.data", page * PAGE_BYTES as u64 + 30);
        }
        let refused = Environment::open(&ward.simulation.platform, ward.options.clone());
        assert!(matches!(refused.err(), Some(StorageError::Corrupt(_))));
        let (findings, report, found) = ward.salvaged();
        assert_eq!(findings.header_copies, 0);
        assert_eq!(found.documents, ward.content.documents, "{flushed:?} {report:?}");
        assert_eq!(found.tombstones, ward.content.tombstones, "{flushed:?}");
        assert_eq!(found.attachments, ward.content.attachments, "{flushed:?}");
        assert_eq!(found.counters, ward.content.counters, "{flushed:?}");
        assert_eq!(found.collections, ward.content.collections, "{flushed:?}");
        assert_eq!(found.identities, ward.content.identities, "{flushed:?}");
    }
}

#[test]
fn with_every_page_but_those_of_rows_damaged_every_document_is_found() {
    let ward = Ward::new(150, [true, true]);
    let path = "/source/corvus.data";
    let bytes = ward.disk().file_bytes(Path::new(path)).unwrap();
    for (page, content) in bytes.chunks(PAGE_BYTES).enumerate() {
        // Root, free space, and the pages of both kinds of trees.
        if (1..=6).contains(&content[16]) {
            ward.flip(path, (page * PAGE_BYTES + 100) as u64);
        }
    }
    for journal in ward.journals() {
        ward.disk().flip_bit(&journal, 4096 + 90, 1).unwrap();
    }
    let (_, report, found) = ward.salvaged();
    assert_eq!(found.documents, ward.content.documents);
    assert_eq!(found.collections, ward.content.collections, "named by their documents");
    assert!(report.are_etags_left_out);
}

#[test]
fn behind_a_damaged_record_whole_pages_still_give_their_rows() {
    let mut kept = 0;
    for damaged in 1..40u64 {
        let ward = Ward::new(150, [true, false]);
        let journals = ward.journals();
        let last = journals.last().unwrap();
        let Ok(bytes) = ward.disk().file_bytes(last) else { continue };
        let starts: Vec<usize> = (1..bytes.len() / 4096)
            .filter(|s| bytes[s * 4096..].starts_with(b"CORVUSJR"))
            .collect();
        let Some(start) = starts.get(damaged as usize) else { break };
        ward.disk().flip_bit(last, (start * 4096 + 200) as u64, 1).unwrap();
        let opened = Environment::open(&ward.simulation.platform, ward.options.clone());
        if damaged as usize + 1 < starts.len() && damaged < 20 {
            assert!(matches!(opened.err(), Some(StorageError::Corrupt(_))), "record {damaged}");
        } else {
            break;
        }
        let (findings, report, found) = ward.salvaged();
        assert_eq!(findings.transactions_lost.len(), 1, "record {damaged}: {findings:?}");
        let (first, last) = findings.transactions_lost[0];
        assert_eq!(first, last);
        assert!(report.are_etags_left_out);
        // No document disappears: at worst a document is as it was before its last change.
        for (id, json) in &ward.content.documents {
            assert!(found.documents.contains_key(id), "record {damaged}: {id}");
            kept += usize::from(found.documents[id] == *json);
        }
    }
    assert!(kept > 1000, "{kept}");
}

#[test]
fn a_power_cut_at_every_operation_leaves_the_source_and_no_half_target() {
    for survival in [Survival::Nothing, Survival::Everything, Survival::RandomSubset] {
        for nth in 1.. {
            let ward = Ward::new(30, [true, false]);
            let before = ward.source_bytes();
            ward.disk().cut_power_at_operation(nth, survival);
            let finished = ward.salvage("/target").is_ok();
            ward.disk().restart().unwrap();
            assert!(before == ward.source_bytes(), "operation {nth}");
            let data = Path::new("/target/corvus.data");
            if ward.simulation.platform.disk.exists(data).unwrap() {
                let options = EnvironmentOptions::new("/target");
                let target = Environment::open(&ward.simulation.platform, options).unwrap();
                target.read().check().unwrap();
                assert_eq!(content(&target.read()), ward.content, "operation {nth}");
            } else {
                assert!(!finished, "operation {nth}");
                assert_eq!(ward.salvaged().2, ward.content, "a leftover is no obstacle");
            }
            if finished {
                break;
            }
        }
    }
}

#[test]
fn a_source_in_use_and_a_target_in_use_are_refused() {
    let ward = Ward::new(20, [true, true]);
    let environment = Environment::open(&ward.simulation.platform, ward.options.clone()).unwrap();
    assert!(matches!(ward.salvage("/target"), Err(StorageError::Locked { .. })));
    drop(environment);
    for target in ["/source", "/source/inside"] {
        assert!(matches!(ward.salvage(target), Err(StorageError::TargetInUse { .. })), "{target}");
    }
    ward.salvage("/target").unwrap();
    assert!(matches!(ward.salvage("/target"), Err(StorageError::TargetInUse { .. })));
    let mut missing = ward;
    missing.options.directory = "/nowhere".into();
    assert!(matches!(missing.salvage("/other"), Err(StorageError::NotAnEnvironment { .. })));
}

#[test]
fn damaged_documents_are_named() {
    let ward = Ward::new(60, [true, true]);
    let path = "/source/corvus.data";
    let bytes = ward.disk().file_bytes(Path::new(path)).unwrap();
    let rows = bytes.chunks(PAGE_BYTES).position(|page| page[16] == 7).unwrap();
    ward.flip(path, (rows * PAGE_BYTES + 5000) as u64);
    let environment = Environment::open(&ward.simulation.platform, ward.options.clone()).unwrap();
    let tx = environment.read();
    assert!(documents::is_database(&tx).unwrap());
    let mut damaged = Vec::new();
    documents::damaged_rows(&tx, &mut |row| damaged.push(row)).unwrap();
    assert!(!damaged.is_empty() && damaged.len() < 60, "{}", damaged.len());
    drop((tx, environment));
    let (_, report, _) = ward.salvaged();
    let mut named: Vec<_> = report.lost.named.iter().chain(&report.older.named).collect();
    named.sort();
    let expected: Vec<_> = damaged
        .iter()
        .filter(|row| row.kind == documents::RowKind::Document)
        .map(|row| &row.id)
        .collect();
    assert_eq!(named, expected);
}
