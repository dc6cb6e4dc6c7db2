//! A database as simple as can be, against which the real one is compared.

use std::{collections::BTreeMap, sync::Arc};

use commands::{Batch, Command};
use documents::{ExpectedVersion, RequestedId};

use crate::{
    database::{Content, version},
    naive_attachments::NaiveAttachments,
    naive_counters::NaiveCounters,
    naive_time_series::NaiveTimeSeries,
};

const RANGE: i64 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) etag: u64,
    pub(crate) id: String,
    collection: usize,
    pub(crate) body: Option<Arc<str>>,
}

/// Documents and tombstones by lower-cased id, names of collections, values of identities.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub(crate) last_etag: u64,
    rows: BTreeMap<String, Row>,
    /// Tombstones of documents that are in another collection now, with the number of theirs.
    moved: BTreeMap<(String, usize), Row>,
    collections: Vec<String>,
    identities: BTreeMap<String, i64>,
    pub(crate) attachments: NaiveAttachments,
    pub(crate) counters: NaiveCounters,
    pub(crate) time_series: NaiveTimeSeries,
    /// Documents whose lists were changed by the batch, lower-cased.
    touched: Vec<String>,
}

/// The batch fails and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Naive {
    /// Executes a batch of the commands that histories are made of.
    ///
    /// # Errors
    /// [`Refused`]; only the values that the batch took from identities remain used in that case.
    pub fn apply(&mut self, batch: &Batch) -> Result<(), Refused> {
        let numbers: Vec<_> = batch.commands.iter().map(|command| self.number(command)).collect();
        let before = self.clone();
        for (command, number) in batch.commands.iter().zip(numbers) {
            if self.apply_command(command, number).is_err() {
                *self = before;
                return Err(Refused);
            }
        }
        for id in std::mem::take(&mut self.touched) {
            if let Some(row) = self.rows.get_mut(&id).filter(|row| row.body.is_some()) {
                self.last_etag += 1;
                row.etag = self.last_etag;
            }
        }
        Ok(())
    }

    fn number(&mut self, command: &Command) -> i64 {
        match command {
            Command::Put(put) => match &put.id {
                RequestedId::Identity(identity) => self.next_identity(&identity.name),
                _ => 0,
            },
            _ => 0,
        }
    }

    fn next_identity(&mut self, name: &str) -> i64 {
        let value = self.identities.entry(format!("{}|", name.to_lowercase())).or_default();
        *value += 1;
        *value
    }

    fn apply_command(&mut self, command: &Command, number: i64) -> Result<(), Refused> {
        match command {
            Command::Put(put) => {
                let json = put.body.as_view().to_json().expect("a test's bodies were just parsed");
                let json = String::from_utf8(json).expect("JSON text is UTF-8");
                let (id, expected) = match &put.id {
                    RequestedId::Exactly(id) => (id.to_string(), put.expected.clone()),
                    RequestedId::Numbered(prefix) => {
                        (format!("{prefix}{:019}-A", self.last_etag + 1), put.expected.clone())
                    }
                    RequestedId::Identity(identity) => {
                        let id = identity.numbered(number).expect("a test's ids are short");
                        (id.to_string(), ExpectedVersion::New)
                    }
                    RequestedId::Random => unreachable!("histories have no random ids"),
                };
                self.put(&id, &expected, json)
            }
            Command::Delete { id, expected } => self.delete(id.as_str(), expected),
            Command::DeletePrefix { prefix } => {
                let prefix = prefix.to_lowercase();
                let ids = self.rows.iter().filter(|(_, row)| row.body.is_some());
                let ids: Vec<_> = ids.map(|(id, _)| id.clone()).collect();
                for id in ids.iter().filter(|id| id.starts_with(&prefix)) {
                    self.delete(id, &ExpectedVersion::Any)?;
                }
                Ok(())
            }
            Command::Patch(patch) => self.patch(patch),
            Command::PatchEach(_) => unreachable!("histories change one document at a time"),
            Command::HiLoNext(request) => {
                let id = format!("Raven/Hilo/{}", request.tag);
                let end = self.hilo_end(&id).unwrap_or(0).max(request.last_max) + RANGE;
                self.put_hilo(&id, end)
            }
            Command::HiLoReturn { tag, end, last } => {
                let id = format!("Raven/Hilo/{tag}");
                if self.hilo_end(&id) == Some(*end) && last < end {
                    self.put_hilo(&id, *last)?;
                }
                Ok(())
            }
            Command::IdentityNext { name } => {
                self.next_identity(name);
                Ok(())
            }
            Command::IdentitySeed { name, value, force } => {
                let key = format!("{}|", name.to_lowercase());
                let present = self.identities.entry(key).or_insert(*value);
                *present = if *force { *value } else { (*present).max(*value) };
                Ok(())
            }
            // The histories of this crate have no revisions.
            Command::ForceRevision { .. }
            | Command::RemoveRevisions { .. }
            | Command::RemoveTombstones(_)
            | Command::DoWhenDue { .. }
            | Command::RestoreRevision { .. }
            | Command::RevertDocument { .. } => Err(Refused),
            Command::PutAttachment(_)
            | Command::DeleteAttachment(_)
            | Command::CopyAttachment(_)
            | Command::MoveAttachment(_)
            | Command::StageContent { .. }
            | Command::DiscardContent(_)
            | Command::DiscardAllContents
            | Command::RemoveLeftoverContents => self.apply_to_attachments(command),
            Command::ChangeCounters(request) => self.change_counters(request),
            Command::ChangeTimeSeries(change) => self.change_time_series(change),
            Command::CopyTimeSeries(_) => unreachable!("histories copy no time series"),
            Command::Output(_) => unreachable!("histories have no outputs of indexes"),
            Command::ForgetIdentities => unreachable!("histories keep their identities"),
            Command::ClusterDocuments(_) => unreachable!("histories have no cluster"),
            // How documents are stored is not visible.
            Command::Import(_) => unreachable!("histories have no imports"),
            Command::Receive(_) | Command::ResolveConflict { .. } => {
                unreachable!("histories have one database")
            }
            Command::AddDictionary(_) | Command::ForgetTransactions(_) => Ok(()),
        }
    }

    pub(crate) fn touch(&mut self, lower_id: &str) {
        if !self.touched.iter().any(|touched| touched == lower_id) {
            self.touched.push(lower_id.to_owned());
        }
    }

    pub(crate) fn is_touched(&self, id: &str) -> bool {
        self.touched.contains(&id.to_lowercase())
    }

    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.live(id).is_some()
    }

    pub(crate) fn live(&self, id: &str) -> Option<&Row> {
        self.rows.get(&id.to_lowercase()).filter(|row| row.body.is_some())
    }

    pub(crate) fn put(
        &mut self,
        id: &str,
        expected: &ExpectedVersion,
        json: String,
    ) -> Result<(), Refused> {
        let collection = json.split(r#""@collection":""#).nth(1).map_or("@empty", |rest| {
            rest.split('"').next().expect("splitting yields at least one part")
        });
        let known = self.collections.iter().position(|name| name.eq_ignore_ascii_case(collection));
        let replaced = self.live(id).map(|row| (row.etag, row.collection));
        match (replaced, expected) {
            (_, ExpectedVersion::Any) | (None, ExpectedVersion::New) => {}
            (Some((etag, _)), ExpectedVersion::Exactly(expected)) if version(etag) == *expected => {
            }
            _ => return Err(Refused),
        }
        if replaced.is_some_and(|(_, collection)| Some(collection) != known) {
            return Err(Refused);
        }
        let collection = known.unwrap_or_else(|| {
            self.collections.push(collection.to_owned());
            self.collections.len() - 1
        });
        self.last_etag += 1;
        let row =
            Row { etag: self.last_etag, id: id.to_owned(), collection, body: Some(json.into()) };
        let key = id.to_lowercase();
        self.moved.remove(&(key.clone(), collection));
        if let Some(tombstone) = self.rows.insert(key.clone(), row)
            && tombstone.body.is_none()
            && tombstone.collection != collection
        {
            self.moved.insert((key, tombstone.collection), tombstone);
        }
        // A put lists what the document has itself.
        self.touched.retain(|touched| *touched != id.to_lowercase());
        Ok(())
    }

    pub(crate) fn delete(&mut self, id: &str, expected: &ExpectedVersion) -> Result<(), Refused> {
        let Some(row) = self.live(id) else {
            return if *expected == ExpectedVersion::Any { Ok(()) } else { Err(Refused) };
        };
        if expected.as_text().is_some_and(|expected| version(row.etag) != expected) {
            return Err(Refused);
        }
        let (id, collection) = (row.id.clone(), row.collection);
        self.last_etag += 1;
        let key = id.to_lowercase();
        let row = Row { etag: self.last_etag, id, collection, body: None };
        self.attachments.delete_all_of(&key, &mut self.last_etag);
        self.counters.delete_all_of(&key, &mut self.last_etag);
        self.time_series.delete_all_of(&key, &mut self.last_etag);
        self.rows.insert(key, row);
        Ok(())
    }

    fn hilo_end(&self, id: &str) -> Option<i64> {
        let body = self.live(id)?.body.as_ref()?;
        let digits = body.strip_prefix(r#"{"Max":"#)?.split(',').next()?;
        digits.parse().ok()
    }

    fn put_hilo(&mut self, id: &str, end: i64) -> Result<(), Refused> {
        let json = format!(r#"{{"Max":{end},"@metadata":{{"@collection":"@hilo"}}}}"#);
        self.put(id, &ExpectedVersion::Any, json)
    }

    /// The current version of a live document.
    pub fn version_of(&self, id: &str) -> Option<String> {
        self.live(id).map(|row| version(row.etag))
    }

    /// What a database with this history holds.
    pub fn content(&self) -> Content {
        let body = |row: &Row| {
            let body = row.body.as_ref()?;
            let key = row.id.to_lowercase();
            let body = self.counters.listed_in(&key, &self.attachments.listed_in(&key, body));
            Some(self.time_series.listed_in(&key, &body))
        };
        let rows = || self.rows.values().chain(self.moved.values());
        let mut log: Vec<_> = rows().map(|row| (row.etag, row.id.clone(), body(row))).collect();
        log.sort();
        let count = |collection: usize, is_live: bool| {
            let rows = rows().filter(|row| row.collection == collection);
            rows.filter(|row| row.body.is_some() == is_live).count() as u64
        };
        let collections = self.collections.iter().enumerate();
        let collections = collections
            .map(|(number, name)| (name.clone(), count(number, true), count(number, false)));
        Content {
            last_etag: self.last_etag,
            log,
            collections: collections.collect(),
            identities: self
                .identities
                .iter()
                .map(|(name, value)| (name.clone(), *value))
                .collect(),
            attachments: self.attachments.log(),
            counters: self.counters.log(),
            time_series: self.time_series.content(),
        }
    }
}
