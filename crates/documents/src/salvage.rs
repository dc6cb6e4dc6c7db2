//! Rebuilding a database from what is still readable of a damaged one.
//!
//! The rows themselves contain everything that is needed: id, etag, version and collection. Of all
//! rows of an id, including old ones, the one with the newest etag wins, and if that is a tombstone
//! the document stays deleted. So a document is lost only with its own page. Indexes, counts and
//! logs are rebuilt; names of collections, identities and the database's id come from their
//! records, or from any page on which such a record is found, or from the documents.
//!
//! What salvage cannot know: a document whose deletion was lost reappears, and one whose last
//! change was lost has its previous content. When anything was lost, etags skip far ahead of the
//! last known one, so that no version is used twice.
//!
//! Memory: about 100 bytes and the id for each document and tombstone.

use std::collections::{BTreeMap, BTreeSet};

use model::{ChangeVector, CollectionName, Etag, lower_case};
use storage::{BulkWriter, Found, RowId, Salvage, SalvagedTree};

use crate::{
    attachments::{GatheredAttachments, Owner, leftovers},
    collection_record::{self, CollectionRecord},
    compression::dictionary::{self, FoundDictionaries},
    counters::GatheredCounters,
    database_record::{
        self, DATABASE, DatabaseIdentity, DatabaseProgress, PROGRESS, write_progress,
    },
    due,
    error::DocumentError,
    listed::corrected,
    revisions::{self, salvage::FoundRevisions},
    row::{self, AnyRow, TombstoneRow},
    schema::{self, DOCUMENTS},
    time_series::{self, GatheredTimeSeries},
    tombstones,
};

/// The maximum length of each list of ids in the report; the counts are complete.
pub const IDS_NAMED_MAX: usize = 1000;
/// How far the next etag skips ahead of the last known one, after a loss.
const ETAGS_LEFT_OUT: u64 = 1 << 20;
/// A larger collection number is considered damaged.
const COLLECTION_NUMBER_MAX: u32 = 1_000_000;

/// A count of ids, with the first ones listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedIds {
    /// The number of ids.
    pub count: u64,
    /// Up to [`IDS_NAMED_MAX`] of them, lower-cased.
    pub named: Vec<String>,
}

impl NamedIds {
    fn add(&mut self, id: &[u8]) {
        self.count += 1;
        if self.named.len() < IDS_NAMED_MAX {
            self.named.push(String::from_utf8_lossy(id).into_owned());
        }
    }

    /// Adds the document of a primary key: kind, id, 0xff, name.
    fn add_key(&mut self, key: &[u8]) {
        let name: Vec<u8> =
            key[1..].iter().map(|byte| if *byte == 0xff { b'\n' } else { *byte }).collect();
        self.add(&name);
    }
}

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Whether the environment is a database. If not, its trees were copied and the rest is empty.
    pub is_database: bool,
    /// Documents recovered in their newest readable version.
    pub documents: u64,
    /// Tombstones of documents recovered.
    pub tombstones: u64,
    /// Revisions recovered.
    pub revisions: u64,
    /// Documents of which only the key is left.
    pub lost: NamedIds,
    /// Revisions of which only the key is left.
    pub lost_revisions: u64,
    /// Documents whose newest row is damaged and that were recovered from another, most likely
    /// older, row.
    pub older: NamedIds,
    /// Documents that had been deleted, according to the keys, and reappeared.
    pub returned: NamedIds,
    /// Attachments recovered with their content.
    pub attachments: u64,
    /// Attachments that are incomplete: their row, part of their content, or their document is
    /// missing. Each is listed as its document's id, a line break and its own name.
    pub lost_attachments: NamedIds,
    /// Counters recovered.
    pub counters: u64,
    /// Counters of which only the key is left, or whose document is lost; listed like attachments.
    pub lost_counters: NamedIds,
    /// Counters whose newest row is damaged and that were recovered from another, most likely
    /// older, row.
    pub older_counters: NamedIds,
    /// Segments of time series recovered.
    pub time_series_segments: u64,
    /// Segments of time series of which only the key is left. Each is listed as its document's id,
    /// a line break and the lower-cased name of its series.
    pub lost_time_series_segments: NamedIds,
    /// Unreadable key pages: documents on them may be lost without being listed.
    pub unreadable_key_pages: u64,
    /// Whether the database's id was not found and a new one was generated.
    pub is_new_identity: bool,
    /// Collections whose names were not found.
    pub collections_without_name: u64,
    /// Whether etags were skipped.
    pub are_etags_left_out: bool,
    /// Other trees that were copied, including identities.
    pub trees: Vec<SalvagedTree>,
}

/// Rebuilds the database in the new environment of `salvage`. `drawn` is the identity to use when
/// its own cannot be found.
///
/// # Errors
/// Those of writing the new environment.
pub fn salvage(
    salvage: &mut Salvage,
    drawn: DatabaseIdentity,
) -> Result<SalvageReport, DocumentError> {
    let mut gathered = Gathered::default();
    salvage.scan(&mut |found| match found {
        Found::Row { place, row } => gathered.row(place, row),
        Found::Entry { transaction, key, value } => gathered.entry(transaction, key, value),
    });
    gathered.records_by_name(salvage);
    if gathered.rows.is_empty() && gathered.revisions.is_empty() && gathered.identity.is_none() {
        let trees = salvage.copy_trees(&[])?;
        return Ok(SalvageReport { trees, ..SalvageReport::default() });
    }
    let mut report = SalvageReport { is_database: true, ..SalvageReport::default() };
    name_damaged(salvage, &gathered, &mut report);
    report.unreadable_key_pages += gathered.revisions.compare(salvage);
    gathered.leave_out_unreadable(salvage, &mut report);
    report.lost_revisions = gathered.revisions.lost;
    Rebuilding { salvage, gathered: &gathered, report: &mut report }.run(drawn)?;
    Ok(report)
}

struct NewestRow {
    etag: u64,
    place: RowId,
    is_document: bool,
}

/// The newest value found under each key, with the transaction of its page.
type Newest<K, V> = BTreeMap<K, (u64, V)>;

#[derive(Default)]
struct Gathered {
    /// By lower-cased id; tombstones of documents that moved, by key.
    rows: BTreeMap<Box<[u8]>, NewestRow>,
    revisions: FoundRevisions,
    identity: Option<(u64, DatabaseIdentity)>,
    progress: Option<(u64, DatabaseProgress)>,
    collections: Newest<u32, CollectionName>,
    identities: Newest<Vec<u8>, i64>,
    unreadable_identity_pages: u64,
    attachments: GatheredAttachments,
    counters: GatheredCounters,
    time_series: GatheredTimeSeries,
    dictionaries: FoundDictionaries,
}

impl Gathered {
    fn row(&mut self, place: RowId, bytes: &[u8]) {
        if self.dictionaries.add(bytes) || self.counters.add(place, bytes) {
            return;
        }
        let Some(is_document) = is_sound(bytes) else {
            if self.time_series.row(place, bytes) {
                return;
            }
            self.attachments.row(place, bytes);
            return self.revisions.row(place, bytes, |revision| {
                (1..=COLLECTION_NUMBER_MAX).contains(&revision.collection_number())
            });
        };
        let etag = row::etag_of(bytes);
        let id = &row::primary_key_of(bytes)[1..];
        match self.rows.get_mut(id) {
            Some(known) if etag <= known.etag => {}
            Some(known) => *known = NewestRow { etag, place, is_document },
            None => {
                self.rows.insert(id.into(), NewestRow { etag, place, is_document });
            }
        }
    }

    /// Recognizes the records of a database on any page.
    fn entry(&mut self, transaction: u64, key: &[u8], value: &[u8]) {
        if key == DATABASE
            && let Ok(identity) = database_record::parse_identity(value)
        {
            keep_newest(&mut self.identity, transaction, identity);
        } else if key == PROGRESS
            && let Ok(progress) = database_record::parse_progress(value)
        {
            keep_newest(&mut self.progress, transaction, progress);
        } else if let Some((number, name)) = collection(key, value) {
            keep_newest_under(&mut self.collections, number, transaction, name);
        } else if let Some(value) = identity_value(key, value) {
            keep_newest_under(&mut self.identities, key.to_vec(), transaction, value);
        }
    }

    /// Drops compressed rows whose dictionary was not found.
    fn leave_out_unreadable(&mut self, salvage: &Salvage, report: &mut SalvageReport) {
        let find = |name| self.dictionaries.get(name);
        self.rows.retain(|id, row| {
            let Some(bytes) = salvage.row(row.place) else { return true };
            let is_lost = match row::read(&bytes, &|name| find(name)) {
                Ok(AnyRow::Document(document)) => document.body().is_err(),
                Ok(AnyRow::Tombstone(_)) | Err(_) => false,
            };
            if is_lost {
                report.lost.add(id);
            }
            !is_lost
        });
        self.revisions.leave_out_unreadable(salvage, &find);
    }

    /// A tree that can be read completely takes precedence over stray pages.
    fn records_by_name(&mut self, salvage: &Salvage) {
        salvage.tree(&schema::meta(), &mut |key, value| self.entry(u64::MAX, key, value));
        salvage.tree(&schema::collections(), &mut |key, value| self.entry(u64::MAX, key, value));
        let mut identities = Newest::new();
        let unreadable = salvage.tree(&schema::identities(), &mut |key, value| {
            if let Some(value) = identity_value(key, value) {
                keep_newest_under(&mut identities, key.to_vec(), u64::MAX, value);
            }
        });
        self.unreadable_identity_pages = unreadable.unwrap_or(0);
        if unreadable == Some(0) && !salvage.findings().is_anything_lost() {
            self.identities = identities;
        } else {
            for (key, (_, value)) in identities {
                let found = self.identities.entry(key).or_insert((0, value));
                // A number must not be reused.
                found.1 = found.1.max(value);
            }
        }
    }
}

fn keep_newest<T>(known: &mut Option<(u64, T)>, transaction: u64, value: T) {
    if known.as_ref().is_none_or(|(newest, _)| *newest <= transaction) {
        *known = Some((transaction, value));
    }
}

fn keep_newest_under<K: Ord, V>(known: &mut Newest<K, V>, key: K, transaction: u64, value: V) {
    match known.get(&key) {
        Some((newest, _)) if transaction < *newest => {}
        Some(_) | None => {
            known.insert(key, (transaction, value));
        }
    }
}

/// Whether the bytes are a valid row, and if so, of a document.
fn is_sound(bytes: &[u8]) -> Option<bool> {
    let (id, lower_id, change_vector, is_document) = match row::read(bytes, &|_| None).ok()? {
        AnyRow::Document(row) => (row.id(), row.lower_id(), row.change_vector(), true),
        AnyRow::Tombstone(row) => (row.id(), row.lower_id(), row.change_vector(), false),
    };
    let number = row::collection_number_of(bytes);
    let fits = !lower_id.is_empty()
        && lower_case(id) == lower_id
        && row::etag_of(bytes) != 0
        && (1..=COLLECTION_NUMBER_MAX).contains(&number)
        && change_vector.parse::<ChangeVector>().is_ok();
    fits.then_some(is_document)
}

fn collection(key: &[u8], value: &[u8]) -> Option<(u32, CollectionName)> {
    let number = u32::from_be_bytes(key.try_into().ok()?);
    let record = collection_record::read(value).ok()?;
    let name = CollectionName::new(record.name).ok()?;
    (1..=COLLECTION_NUMBER_MAX).contains(&number).then_some((number, name))
}

fn identity_value(key: &[u8], value: &[u8]) -> Option<i64> {
    let is_name = key.ends_with(b"|") && std::str::from_utf8(key).is_ok();
    let value = <[u8; 8]>::try_from(value).ok()?;
    is_name.then_some(i64::from_le_bytes(value))
}

/// Compares the remaining keys with the rows.
fn name_damaged(salvage: &Salvage, gathered: &Gathered, report: &mut SalvageReport) {
    report.unreadable_key_pages = salvage.table_keys(&DOCUMENTS, &mut |key, is_readable| {
        if is_readable || key.is_empty() {
            return;
        }
        let (is_document, id) = (row::is_document_key(key), &key[1..]);
        match (is_document, gathered.rows.get(id).map(|row| row.is_document)) {
            (true, Some(true)) => report.older.add(id),
            (true, Some(false) | None) => report.lost.add(id),
            (false, Some(true)) => report.returned.add(id),
            (false, Some(false) | None) => {}
        }
    });
}

#[derive(Default)]
struct Counts {
    documents: u64,
    tombstones: u64,
}

struct Rebuilding<'a> {
    salvage: &'a Salvage,
    gathered: &'a Gathered,
    report: &'a mut SalvageReport,
}

impl Rebuilding<'_> {
    fn run(mut self, drawn: DatabaseIdentity) -> Result<(), DocumentError> {
        let (salvage, gathered) = (self.salvage, self.gathered);
        let rebuilt = [
            schema::meta(),
            schema::collections(),
            schema::collection_numbers(),
            schema::identities(),
            revisions::schema::chains(),
            revisions::schema::bin(),
            leftovers(),
            time_series::series_tree(),
            due::tree(),
        ];
        self.report.trees = salvage.copy_trees(&rebuilt)?;
        self.report.trees.push(SalvagedTree {
            name: String::from_utf8_lossy(schema::identities().as_bytes()).into_owned(),
            entries: gathered.identities.len() as u64,
            unreadable_pages: gathered.unreadable_identity_pages,
        });
        let mut writer = BulkWriter::new(salvage.target());
        database_record::initialize(writer.transaction()?, self.identity(drawn))?;
        let known = gathered.progress.as_ref().map(|(_, progress)| progress.clone());
        let is_complete = known.is_some() && !salvage.findings().is_anything_lost();
        let mut progress = known.unwrap_or_default();
        let names = gathered.collections.iter().map(|(number, (_, name))| (*number, name.clone()));
        let mut names: BTreeMap<u32, CollectionName> = names.collect();
        for (facts, bytes) in gathered.dictionaries.all() {
            dictionary::store(writer.transaction()?, facts, bytes)?;
        }
        self.attachments(&mut writer, &mut progress)?;
        self.counters(&mut writer, &mut progress)?;
        self.time_series(&mut writer, &mut progress)?;
        let counts = self.rows(&mut writer, &mut progress, &mut names)?;
        let is_alive =
            |id: &str| gathered.rows.get(id.as_bytes()).is_some_and(|row| row.is_document);
        let revisions = &gathered.revisions;
        let find = |name| gathered.dictionaries.get(name);
        self.report.revisions =
            revisions.write(salvage, &mut writer, (&mut progress, &mut names), is_alive, &find)?;
        self.collections(&mut writer, &mut progress, &counts, &names)?;
        for (key, (_, value)) in &gathered.identities {
            let mut tree = writer.transaction()?.tree_mut(&schema::identities())?;
            tree.put(key, &value.to_le_bytes())?;
        }
        if !is_complete {
            self.report.are_etags_left_out = true;
            progress.last_etag = Etag(progress.last_etag.0.saturating_add(ETAGS_LEFT_OUT));
        }
        write_progress(writer.transaction()?, &progress)?;
        // The missing tombstones are unknown.
        for number in 0..=progress.newest_collection {
            tombstones::note_all_removed(writer.transaction()?, number, progress.last_etag)?;
        }
        Ok(writer.finish()?)
    }

    /// The database's own identity, from its record or from the version of its newest row.
    fn identity(&mut self, drawn: DatabaseIdentity) -> DatabaseIdentity {
        if let Some((_, identity)) = &self.gathered.identity {
            return *identity;
        }
        let newest = self.gathered.rows.values().max_by_key(|row| row.etag);
        let bytes = newest.and_then(|newest| self.salvage.row(newest.place));
        let found = bytes.as_deref().and_then(|bytes| {
            let (change_vector, etag) = (change_vector_of(bytes)?, Etag(row::etag_of(bytes)));
            change_vector.entries().find(|entry| entry.etag == etag)
        });
        self.report.is_new_identity = found.is_none();
        found.map_or(drawn, |entry| DatabaseIdentity {
            database_id: entry.database_id,
            node_tag: entry.tag,
        })
    }

    /// Copies complete attachments that have a document.
    fn attachments(
        &mut self,
        writer: &mut BulkWriter<'_>,
        progress: &mut DatabaseProgress,
    ) -> Result<(), DocumentError> {
        let documents = &self.gathered.rows;
        let revisions = self.gathered.revisions.etags();
        let is_there = |owner: Owner<'_>| match owner {
            Owner::Document(lower_id) => {
                documents.get(lower_id.as_bytes()).is_some_and(|row| row.is_document)
            }
            Owner::Revision(etag) => revisions.contains(&etag),
        };
        let salvaged = self.gathered.attachments.rebuild(self.salvage, writer, &is_there)?;
        self.report.attachments = salvaged.attachments;
        self.report.unreadable_key_pages += salvaged.unreadable_key_pages;
        salvaged.lost.iter().for_each(|key| self.report.lost_attachments.add_key(key));
        progress.last_etag = progress.last_etag.max(salvaged.last_etag);
        progress.change_vector = progress.change_vector.merge(&salvaged.change_vector);
        Ok(())
    }

    /// Copies counters that have a document.
    fn counters(
        &mut self,
        writer: &mut BulkWriter<'_>,
        progress: &mut DatabaseProgress,
    ) -> Result<(), DocumentError> {
        let collection_of = |lower_id: &[u8]| {
            let document = self.gathered.rows.get(lower_id).filter(|row| row.is_document)?;
            Some(row::collection_number_of(&self.salvage.row(document.place)?))
        };
        let salvaged = self.gathered.counters.rebuild(self.salvage, writer, &collection_of)?;
        self.report.counters = salvaged.counters;
        self.report.unreadable_key_pages += salvaged.unreadable_key_pages;
        salvaged.lost.iter().for_each(|key| self.report.lost_counters.add_key(key));
        salvaged.older.iter().for_each(|key| self.report.older_counters.add_key(key));
        progress.last_etag = progress.last_etag.max(salvaged.last_etag);
        progress.change_vector = progress.change_vector.merge(&salvaged.change_vector);
        Ok(())
    }

    /// Copies the time series of existing documents.
    fn time_series(
        &mut self,
        writer: &mut BulkWriter<'_>,
        progress: &mut DatabaseProgress,
    ) -> Result<(), DocumentError> {
        let newest = self.gathered.rows.values().map(|row| Etag(row.etag)).max();
        let last_etag = progress.last_etag.max(newest.unwrap_or(Etag::ZERO));
        let (documents, salvage) = (&self.gathered.rows, self.salvage);
        let collection_of = |lower_id: &str| {
            let row = documents.get(lower_id.as_bytes()).filter(|row| row.is_document)?;
            salvage.row(row.place).map(|bytes| row::collection_number_of(&bytes))
        };
        let salvaged =
            self.gathered.time_series.rebuild(salvage, writer, last_etag, &collection_of)?;
        self.report.time_series_segments = salvaged.segments;
        self.report.unreadable_key_pages += salvaged.unreadable_key_pages;
        for key in &salvaged.lost {
            let (id, name) = time_series::document_of_key(key);
            self.report.lost_time_series_segments.add(format!("{id}\n{name}").as_bytes());
        }
        progress.last_etag = progress.last_etag.max(salvaged.last_etag);
        progress.change_vector = progress.change_vector.merge(&salvaged.change_vector);
        Ok(())
    }

    /// Whether a tombstone of a document that moved is superseded by the newest row of its id.
    fn is_outdated(&self, tombstone: &TombstoneRow<'_>) -> bool {
        let newest = self.gathered.rows.get(tombstone.lower_id().as_bytes());
        let newest = newest.and_then(|newest| self.salvage.row(newest.place));
        let number = newest.map(|bytes| row::collection_number_of(&bytes));
        tombstone.is_moved() && number.is_none_or(|number| number == tombstone.collection_number())
    }

    /// Copies the newest row of each id; merges what the rows know into progress and names.
    fn rows(
        &mut self,
        writer: &mut BulkWriter<'_>,
        progress: &mut DatabaseProgress,
        names: &mut BTreeMap<u32, CollectionName>,
    ) -> Result<BTreeMap<u32, Counts>, DocumentError> {
        let find = |name| self.gathered.dictionaries.get(name);
        let mut counts: BTreeMap<u32, Counts> = BTreeMap::new();
        for (id, newest) in &self.gathered.rows {
            // It was readable before; the disk may have deteriorated since.
            let Some(bytes) = self.salvage.row(newest.place) else {
                self.report.lost.add(id);
                continue;
            };
            let read = row::read(&bytes, &|name| find(name))?;
            if let AnyRow::Tombstone(tombstone) = &read
                && self.is_outdated(tombstone)
            {
                continue;
            }
            let corrected = corrected(writer, &read)?;
            let bytes = corrected.as_deref().unwrap_or(&bytes);
            writer.transaction()?.table_mut(&DOCUMENTS).insert(bytes)?;
            let number = row::collection_number_of(bytes);
            let counts = counts.entry(number).or_default();
            match &read {
                AnyRow::Document(document) => {
                    counts.documents += 1;
                    due::note(writer.transaction()?, document.lower_id(), &document.body()?)?;
                    if !names.contains_key(&number)
                        && let Ok(name) = CollectionName::new(document.collection()?)
                    {
                        names.insert(number, name);
                    }
                }
                AnyRow::Tombstone(_) => counts.tombstones += 1,
            }
            progress.last_etag = progress.last_etag.max(Etag(newest.etag));
            progress.newest_collection = progress.newest_collection.max(number);
            if let Some(change_vector) = change_vector_of(bytes) {
                progress.change_vector = progress.change_vector.merge(&change_vector);
            }
        }
        Ok(counts)
    }

    /// Writes a record for every number up to the newest, so that none is reused.
    fn collections(
        &mut self,
        writer: &mut BulkWriter<'_>,
        progress: &mut DatabaseProgress,
        counts: &BTreeMap<u32, Counts>,
        names: &BTreeMap<u32, CollectionName>,
    ) -> Result<(), DocumentError> {
        let newest = names.keys().next_back().copied().unwrap_or(0);
        progress.newest_collection =
            progress.newest_collection.max(newest).min(COLLECTION_NUMBER_MAX);
        let mut taken = BTreeSet::new();
        for number in 1..=progress.newest_collection {
            let name = names.get(&number).filter(|name| taken.insert(name.key().to_vec()));
            let name = match name {
                Some(name) => name.clone(),
                None => {
                    self.report.collections_without_name += 1;
                    CollectionName::new(format!("@salvaged-{number}"))?
                }
            };
            let none = Counts::default();
            let Counts { documents, tombstones } = *counts.get(&number).unwrap_or(&none);
            self.report.documents += documents;
            self.report.tombstones += tombstones;
            let record = CollectionRecord { name: name.as_str(), documents, tombstones };
            let tx = writer.transaction()?;
            let key = number.to_be_bytes();
            tx.tree_mut(&schema::collections())?.put(&key, &collection_record::write(&record))?;
            tx.tree_mut(&schema::collection_numbers())?.put(name.key(), &key)?;
        }
        progress.documents = self.report.documents;
        progress.tombstones = self.report.tombstones;
        Ok(())
    }
}

fn change_vector_of(bytes: &[u8]) -> Option<ChangeVector> {
    let text = match row::read(bytes, &|_| None).ok()? {
        AnyRow::Document(row) => row.change_vector(),
        AnyRow::Tombstone(row) => row.change_vector(),
    };
    text.parse().ok()
}
