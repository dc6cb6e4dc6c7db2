//! Matches in the order of a field, found by walking its terms: the first results are found first,
//! and memory is one bit per match.
//!
//! The walk yields *groups*: entries with the same value, in the order of values. An entry in the
//! list Many appears under several terms; its record decides under which one it is returned.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use storage::Transaction;

use crate::{
    cursor::{Cursor, END, TermCursor},
    entry_set::EntrySet,
    error::SearchError,
    ids::FieldId,
    postings::PostingList,
    reader::{IndexReader, TermScan},
    scoring::TermScorer,
    sort::{FieldOrder, SortValue, value_in},
    term::{self, TermKind},
    walk_bounds::WalkBounds,
};

/// Where the next group comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Missing,
    Null,
    NoNumber,
    Terms,
}

/// The matches to sort.
#[derive(Clone)]
pub(crate) enum WalkedMatches {
    /// Every entry there is.
    All,
    /// These.
    Set(Arc<EntrySet>),
}

impl WalkedMatches {
    /// Whether an entry, which there is, is one of them.
    fn contains(&self, entry: u64) -> bool {
        match self {
            WalkedMatches::All => true,
            WalkedMatches::Set(set) => set.contains(entry),
        }
    }
}

/// Walks a field.
pub(crate) struct SortedWalk<'t, T> {
    reader: IndexReader<'t, T>,
    matches: WalkedMatches,
    field: FieldId,
    order: FieldOrder,
    sources: VecDeque<Source>,
    terms: Option<TermScan<'t>>,
    /// Matching entries that appear under several terms.
    many: EntrySet,
    group: Option<Group<'t, T>>,
    descending: bool,
    /// The bounds of the matches' terms.
    bounds: Option<WalkBounds>,
    /// The number of terms that may still be passed.
    patience: u64,
}

/// The candidates of a group.
struct Group<'t, T> {
    candidates: Candidates<'t, T>,
    /// The value that an entry with several values must have to belong here; `None` when any will
    /// do.
    value: GroupValue,
}

enum Candidates<'t, T> {
    List(TermCursor<'t, T>),
    Set { set: EntrySet, next: u64 },
}

enum GroupValue {
    Missing,
    Null,
    NoNumber,
    Term(Vec<u8>),
}

impl<'t, T: Transaction> SortedWalk<'t, T> {
    /// A walk over the matching entries by that field, which has an order that terms have. `bounds` are
    /// those of the query that has these matches.
    pub(crate) fn new(
        reader: &IndexReader<'t, T>,
        matches: WalkedMatches,
        field: FieldId,
        order: FieldOrder,
        descending: bool,
        bounds: Option<WalkBounds>,
    ) -> Result<Self, SearchError> {
        let mut sources = Vec::new();
        // With bounds every match has a term.
        if bounds.is_none() {
            sources.extend([Source::Missing, Source::Null]);
            if order.is_numeric() {
                sources.push(Source::NoNumber);
            }
        }
        sources.push(Source::Terms);
        if descending {
            sources.reverse();
        }
        let mut many = EntrySet::new(reader.state.next_entry);
        if let Some(list) = reader.list(field, TermKind::Many, &[])? {
            list.for_each_chunk(reader.tx, |chunk| {
                for entry in chunk.entries() {
                    if matches.contains(*entry) {
                        many.insert(*entry);
                    }
                }
            })?;
        }
        let sources = sources.into();
        Ok(Self {
            reader: reader.clone(),
            matches,
            field,
            order,
            sources,
            terms: None,
            many,
            group: None,
            descending,
            bounds,
            patience: u64::MAX,
        })
    }

    /// Ends the walk after `terms` terms, as if there were no more.
    pub(crate) fn with_patience(mut self, terms: u64) -> Self {
        self.patience = terms;
        self
    }

    /// Goes to the next group; false when there is none.
    pub(crate) fn next_group(&mut self) -> Result<bool, SearchError> {
        loop {
            let Some(source) = self.sources.front().copied() else {
                self.group = None;
                return Ok(false);
            };
            self.group = match source {
                Source::Terms => self.next_term()?,
                Source::Missing => self.missing()?,
                Source::Null => self.null()?,
                Source::NoNumber => self.no_number()?,
            };
            // The walk ends here.
            if self.group.is_none() && self.patience == 0 {
                return Ok(false);
            }
            if source != Source::Terms || self.group.is_none() {
                self.sources.pop_front();
            }
            if self.group.is_some() {
                return Ok(true);
            }
        }
    }

    /// The next entry of the group.
    pub(crate) fn next_entry(&mut self) -> Result<Option<u64>, SearchError> {
        loop {
            let Some(group) = &mut self.group else { return Ok(None) };
            let entry = group.candidates.next()?;
            if entry == END {
                return Ok(None);
            }
            if self.matches.contains(entry) && self.belongs(entry)? {
                return Ok(Some(entry));
            }
        }
    }

    /// Whether the value of the entry is that of the group.
    fn belongs(&self, entry: u64) -> Result<bool, SearchError> {
        let Some(group) = &self.group else { return Ok(false) };
        if !self.many.contains(entry) {
            return Ok(true);
        }
        let value = value_in(self.reader.record(entry)?, self.field, self.order)?;
        Ok(match (&group.value, value) {
            (GroupValue::Missing, SortValue::Missing)
            | (GroupValue::Null, SortValue::Null)
            | (GroupValue::NoNumber, SortValue::NoNumber) => true,
            (GroupValue::Term(bytes), SortValue::Text(text)) => text.as_bytes() == bytes,
            (GroupValue::Term(bytes), SortValue::Number(number)) => number == bytes[..],
            _ => false,
        })
    }

    fn next_term(&mut self) -> Result<Option<Group<'t, T>>, SearchError> {
        let kind = self.order.term_kind();
        if self.terms.is_none() {
            let bounds = self.bounds.as_ref();
            self.terms = Some(match self.descending {
                true => {
                    // The greatest value of a match with several may be above the range.
                    let high = bounds.filter(|_| self.many.is_empty());
                    let high = high.map_or(Bound::Unbounded, |own| term::as_slices(&own.high));
                    self.reader.scan_terms_back(self.field, kind, high)?
                }
                false => {
                    let low = bounds.map_or(Bound::Unbounded, |own| term::as_slices(&own.low));
                    self.reader.scan_terms(self.field, kind, low)?
                }
            });
        }
        let Some(terms) = &mut self.terms else { return Ok(None) };
        while self.patience > 0
            && let Some((bytes, list)) = terms.next()?
        {
            self.patience -= 1;
            // Most terms of a walk have one entry, and most of those do not match.
            if let PostingList::Single(posting, _) = list
                && !self.matches.contains(posting.entry)
            {
                continue;
            }
            let value = GroupValue::Term(bytes.to_vec());
            return Ok(Some(self.list_group(list, value)?));
        }
        Ok(None)
    }

    fn list_group(
        &self,
        list: PostingList<'t>,
        value: GroupValue,
    ) -> Result<Group<'t, T>, SearchError> {
        let cursor = TermCursor::new(list.cursor(self.reader.tx)?, TermScorer::constant(1.0));
        Ok(Group { candidates: Candidates::List(cursor), value })
    }

    fn missing(&self) -> Result<Option<Group<'t, T>>, SearchError> {
        if self.reader.list_count(self.field, TermKind::Exists, &[])? == self.reader.state.live {
            return Ok(None);
        }
        let mut set = match &self.matches {
            WalkedMatches::Set(set) => (**set).clone(),
            WalkedMatches::All => self.matches_in(FieldId::ALL_ENTRIES)?,
        };
        self.take_out(&mut set, TermKind::Exists)?;
        Ok(Some(Group { candidates: Candidates::Set { set, next: 0 }, value: GroupValue::Missing }))
    }

    fn null(&self) -> Result<Option<Group<'t, T>>, SearchError> {
        let list = self.reader.list(self.field, TermKind::Null, &[])?;
        list.map(|list| self.list_group(list, GroupValue::Null)).transpose()
    }

    /// Entries that have the field, but neither a number nor only null.
    fn no_number(&self) -> Result<Option<Group<'t, T>>, SearchError> {
        let count = |kind| self.reader.list_count(self.field, kind, &[]);
        if count(TermKind::Numeric)? == count(TermKind::Exists)? {
            return Ok(None);
        }
        let mut set = self.matches_in(self.field)?;
        self.take_out(&mut set, TermKind::Numeric)?;
        self.take_out(&mut set, TermKind::Null)?;
        // Entries with null next to a text were removed along with the nulls.
        self.many.iter().for_each(|entry| set.insert(entry));
        let candidates = Candidates::Set { set, next: 0 };
        Ok(Some(Group { candidates, value: GroupValue::NoNumber }))
    }

    /// The matches that have the field.
    fn matches_in(&self, field: FieldId) -> Result<EntrySet, SearchError> {
        let mut set = EntrySet::new(self.reader.state.next_entry);
        if let Some(list) = self.reader.list(field, TermKind::Exists, &[])? {
            list.for_each_chunk(self.reader.tx, |chunk| {
                for entry in chunk.entries() {
                    if self.matches.contains(*entry) {
                        set.insert(*entry);
                    }
                }
            })?;
        }
        Ok(set)
    }

    fn take_out(&self, set: &mut EntrySet, kind: TermKind) -> Result<(), SearchError> {
        match self.reader.list(self.field, kind, &[])? {
            Some(list) => list.for_each_chunk(self.reader.tx, |chunk| {
                chunk.entries().iter().for_each(|entry| set.remove(*entry));
            }),
            None => Ok(()),
        }
    }
}

impl<T: Transaction> Candidates<'_, T> {
    fn next(&mut self) -> Result<u64, SearchError> {
        match self {
            Candidates::List(cursor) => {
                let entry = cursor.current();
                cursor.advance()?;
                Ok(entry)
            }
            Candidates::Set { set, next } => {
                let entry = set.next_from(*next).unwrap_or(END);
                *next = entry.saturating_add(1);
                Ok(entry)
            }
        }
    }
}
