//! Applying a batch: one sweep through the terms in the order of their keys.

use rustc_hash::FxHashMap;
use storage::{Transaction, WriteTransaction};

use crate::{
    batch::{GatheredPosting, IndexBatch},
    error::SearchError,
    fields::FieldSet,
    ids::FieldId,
    postings::{
        Posting, PostingList, Weight,
        merge::{ListChange, change_list, single_value},
    },
    record::RecordReader,
    state::IndexState,
    term::TermKind,
    term_table::TermNumber,
    trees,
};

/// What a batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Entries added by the batch.
    pub added: u64,
    /// Entries removed, replaced ones included.
    pub removed: u64,
}

impl IndexBatch {
    /// Writes all changes into the transaction and clears the batch. `fields` are those that the
    /// entries were built with; they must have been loaded from the state that the transaction
    /// builds on.
    ///
    /// After an error the transaction holds a part of the batch: roll it back and build the batch
    /// again, as after a failed commit.
    pub fn apply(
        &mut self,
        tx: &mut WriteTransaction,
        fields: &mut FieldSet,
    ) -> Result<Applied, SearchError> {
        let mut state = IndexState::load(tx)?;
        let first_entry = state.next_entry;
        let removed = match state.live {
            0 => Removals::default(),
            _ => self.gather_removals(tx)?,
        };
        let applied =
            Applied { added: self.write_entries(tx, first_entry)?, removed: removed.entries };
        self.change_terms(tx, &mut state, &removed)?;
        state.next_entry += self.entries.len() as u64;
        state.live = (state.live + applied.added)
            .checked_sub(applied.removed)
            .ok_or_else(|| SearchError::corrupt("more entries are removed than there are"))?;
        fields.save(tx, &self.words)?;
        state.save(tx)?;
        self.clear();
        Ok(applied)
    }

    /// Reads the records of all entries that the documents of the batch have in the index, and
    /// collects the lists they are in.
    fn gather_removals(&mut self, tx: &mut WriteTransaction) -> Result<Removals, SearchError> {
        let have_boosts = !tx.tree(&trees::BOOSTS)?.is_empty();
        let mut removals = Removals { have_boosts, ..Removals::default() };
        let mut documents: Vec<TermNumber> = self.documents.keys().copied().collect();
        documents.sort_unstable_by(|left, right| self.terms.key(*left).cmp(self.terms.key(*right)));
        let mut old = Vec::new();
        for document in documents {
            old.clear();
            if let Some(value) = tx.tree(&trees::TERMS)?.get(self.terms.key(document))? {
                PostingList::parse(value)?
                    .for_each_chunk(tx, |chunk| old.extend_from_slice(chunk.entries()))?;
            }
            for entry in &old {
                self.remove_entry(tx, *entry, &mut removals)?;
            }
        }
        // Entries ascend within each term; the sort need not be stable.
        removals.lists.sort_unstable();
        Ok(removals)
    }

    fn remove_entry(
        &mut self,
        tx: &mut WriteTransaction,
        entry: u64,
        removals: &mut Removals,
    ) -> Result<(), SearchError> {
        let key = entry.to_be_bytes();
        let record = tx.tree(&trees::ENTRIES)?.get(&key)?;
        let record =
            record.ok_or_else(|| SearchError::corrupt("a listed entry has no record"))?.to_vec();
        let mut list = |batch: &mut Self, field, kind, bytes: &[u8], has_words| {
            removals.lists.push((batch.terms.number(field, kind, bytes, has_words), entry));
        };
        list(self, FieldId::ALL_ENTRIES, TermKind::Exists, &[], false);
        let mut reader = RecordReader::new(&record)?;
        while let Some((field, mut section)) = reader.next_field()? {
            list(self, field, TermKind::Exists, &[], false);
            section.shape()?.for_each(|kind| list(self, field, kind, &[], false));
            let has_words = section.words.is_some();
            if let Some(words) = section.words {
                self.count_removed_words(field, words)?;
            }
            while let Some(term) = section.next_term()? {
                if term.kind.is_listed() {
                    list(self, field, term.kind, term.bytes(), has_words);
                }
            }
        }
        removals.entries += 1;
        tx.tree_mut(&trees::ENTRIES)?.delete(&key)?;
        tx.tree_mut(&trees::STORED)?.delete(&key)?;
        if removals.have_boosts {
            tx.tree_mut(&trees::BOOSTS)?.delete(&key)?;
        }
        Ok(())
    }

    fn count_removed_words(&mut self, field: FieldId, words: u64) -> Result<(), SearchError> {
        let change = self.words.entry(field).or_default();
        let words = i64::try_from(words).ok().and_then(|words| change.checked_sub(words));
        *change = words.ok_or_else(|| SearchError::corrupt("a record has too many words"))?;
        Ok(())
    }

    /// Writes records, stored values and boosts; how many entries there are.
    fn write_entries(
        &mut self,
        tx: &mut WriteTransaction,
        first_entry: u64,
    ) -> Result<u64, SearchError> {
        let mut words: FxHashMap<FieldId, i64> = std::mem::take(&mut self.words);
        let mut added = 0;
        for (number, entry) in (first_entry..).zip(&self.entries) {
            if entry.dead {
                continue;
            }
            let record = self.record(entry);
            let mut reader = RecordReader::new(record)?;
            while let Some((field, section)) = reader.next_field()? {
                if let Some(count) = section.words {
                    *words.entry(field).or_default() += count as i64;
                }
            }
            tx.tree_mut(&trees::ENTRIES)?.put(&number.to_be_bytes(), record)?;
            if let Some(stored) = &entry.stored {
                tx.tree_mut(&trees::STORED)?.put(&number.to_be_bytes(), stored)?;
            }
            if let Some(boosts) = &entry.boosts {
                tx.tree_mut(&trees::BOOSTS)?.put(&number.to_be_bytes(), boosts)?;
            }
            added += 1;
        }
        self.words = words;
        Ok(added)
    }

    fn change_terms(
        &self,
        tx: &mut WriteTransaction,
        state: &mut IndexState,
        removals: &Removals,
    ) -> Result<(), SearchError> {
        let first_entry = state.next_entry;
        let added = self.group_by_term(first_entry);
        let removed = group_removals(&removals.lists, self.terms.len());
        let removed_entries: Vec<u64> = removals.lists.iter().map(|(_, entry)| *entry).collect();
        let mut value = Vec::new();
        for term in self.terms.sorted() {
            let change = ListChange {
                added: added.of(term),
                removed: &removed_entries[removed[term as usize]..removed[term as usize + 1]],
                weighted: self.terms.has_words(term),
            };
            if change.added.is_empty() && change.removed.is_empty() {
                continue;
            }
            let key = self.terms.key(term);
            // Most terms are new and have one entry.
            if let ([single], []) = (change.added, change.removed) {
                single_value(single, change.weighted, &mut value);
                if tx.tree_mut(&trees::TERMS)?.insert_new(key, &value)? {
                    continue;
                }
            }
            let old = tx.tree(&trees::TERMS)?.get(key)?.map(<[u8]>::to_vec);
            let new = change_list(tx, &mut state.next_list, old.as_deref(), change)?;
            let mut tree = tx.tree_mut(&trees::TERMS)?;
            match new {
                Some(value) => tree.put(key, &value).map(drop)?,
                None => tree.delete(key).map(drop)?,
            }
        }
        Ok(())
    }

    /// The postings of live entries, ordered by term, and within a term by entry.
    fn group_by_term(&self, first_entry: u64) -> GroupedPostings {
        let mut starts = vec![0u32; self.terms.len() + 1];
        let live = |posting: &&GatheredPosting| !self.entries[posting.entry as usize].dead;
        for posting in self.postings.iter().filter(live) {
            starts[posting.term as usize + 1] += 1;
        }
        for term in 1..starts.len() {
            starts[term] += starts[term - 1];
        }
        let mut next = starts.clone();
        let nothing = Posting { entry: 0, weight: Weight::ONE };
        let mut postings = vec![nothing; starts.last().copied().unwrap_or_default() as usize];
        for posting in self.postings.iter().filter(live) {
            let place = &mut next[posting.term as usize];
            let entry = first_entry + u64::from(posting.entry);
            postings[*place as usize] = Posting { entry, weight: posting.weight };
            *place += 1;
        }
        GroupedPostings { starts, postings }
    }
}

/// Entries that leave the index.
#[derive(Default)]
struct Removals {
    entries: u64,
    /// Whether any entry of the index has a boost.
    have_boosts: bool,
    /// The lists they are in, by term and entry.
    lists: Vec<(TermNumber, u64)>,
}

/// For each term where its removals begin in the list, and one more for the end.
fn group_removals(lists: &[(TermNumber, u64)], terms: usize) -> Vec<usize> {
    let mut starts = vec![0; terms + 1];
    for (term, _) in lists {
        starts[*term as usize + 1] += 1;
    }
    for term in 1..starts.len() {
        starts[term] += starts[term - 1];
    }
    starts
}

struct GroupedPostings {
    starts: Vec<u32>,
    postings: Vec<Posting>,
}

impl GroupedPostings {
    fn of(&self, term: TermNumber) -> &[Posting] {
        let term = term as usize;
        &self.postings[self.starts[term] as usize..self.starts[term + 1] as usize]
    }
}
