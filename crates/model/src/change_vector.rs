//! The version of a document across nodes.

use std::{fmt, str::FromStr};

use crate::{DATABASE_ID_TEXT_BYTES, DatabaseId, Etag, NodeTag};

const SEPARATOR: &str = ", ";
/// The tag of a cluster-wide transaction in the version of a document.
pub const TRANSACTION_TAG: &str = "TRXN";
/// The tag under which a change vector counts the documents of cluster-wide transactions.
pub const TRANSACTION_NUMBER_TAG: &str = "RAFT";
/// Separator, tag, colon, etag, dash, database id.
const ENTRY_TEXT_BYTES_MAX: usize = SEPARATOR.len() + 4 + 1 + 20 + 1 + DATABASE_ID_TEXT_BYTES;

/// For each database that had a part in a document, how far its changes are contained. The text is
/// `A:12-<22 characters>, B:4-<22 characters>`; this type holds that text, always well formed, and
/// the empty text for "nothing yet". Only the exact-match check of an expected version compares
/// texts; everything else compares entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChangeVector(String);

/// The part of a change vector for one database: the changes up to an etag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeVectorEntry {
    /// The node's short name, for display only.
    pub tag: NodeTag,
    /// The etag of the newest change that is included.
    pub etag: Etag,
    /// The id of the database that made the changes.
    pub database_id: DatabaseId,
}

/// How a remote version relates to a local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The local version contains everything of the remote one.
    AlreadyMerged,
    /// The remote version contains the local one and more.
    Update,
    /// Each has something the other lacks.
    Conflict,
}

/// The text is not a change vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidChangeVector {
    /// The text that could not be parsed.
    pub text: String,
}

impl ChangeVector {
    /// The change vector that contains no changes.
    pub const fn empty() -> Self {
        Self(String::new())
    }

    /// The vector of one entry.
    pub fn single(entry: ChangeVectorEntry) -> Self {
        let mut vector = Self::empty();
        vector.push(entry);
        vector
    }

    /// The text as clients see it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it contains nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = ChangeVectorEntry> + '_ {
        split(&self.0).map(|part| parse_entry(part).expect("checked on construction"))
    }

    /// How far the changes of a database are contained; zero when it has no entry.
    pub fn etag_of(&self, database_id: DatabaseId) -> Etag {
        let own = self.entries().find(|entry| entry.database_id == database_id);
        own.map_or(Etag::ZERO, |entry| entry.etag)
    }

    /// The smallest vector that contains both: the larger etag of each database, in order of first
    /// appearance, `self` first.
    pub fn merge(&self, other: &Self) -> Self {
        if self == other || other.is_empty() {
            return self.clone();
        }
        let mut merged: Vec<ChangeVectorEntry> = self.entries().collect();
        for entry in other.entries() {
            match merged.iter_mut().find(|known| known.database_id == entry.database_id) {
                Some(known) if known.etag < entry.etag => *known = entry,
                Some(_) => {}
                None => merged.push(entry),
            }
        }
        let mut vector = Self(String::with_capacity(self.0.len() + other.0.len()));
        merged.into_iter().for_each(|entry| vector.push(entry));
        vector
    }

    /// The merge with the vector of one entry, without reading more than that entry. Every write of
    /// a document computes one of these.
    pub fn with(&self, entry: ChangeVectorEntry) -> Self {
        let id = entry.database_id.text();
        let mut vector = Self(String::with_capacity(self.0.len() + ENTRY_TEXT_BYTES_MAX));
        let mut is_in = false;
        for part in split(&self.0) {
            if is_in || !part.as_bytes().ends_with(&id) {
                vector.push_text(part);
                continue;
            }
            is_in = true;
            if entry.etag <= etag_in(part) { vector.push_text(part) } else { vector.push(entry) }
        }
        if !is_in {
            vector.push(entry);
        }
        vector
    }

    /// The entries that are wanted, in their order.
    pub fn only(&self, is_wanted: impl Fn(&ChangeVectorEntry) -> bool) -> Self {
        let mut vector = Self::empty();
        self.entries().filter(is_wanted).for_each(|entry| vector.push(entry));
        vector
    }

    /// How `self`, a remote version, relates to `local`.
    pub fn compare(&self, local: &Self) -> Comparison {
        if self == local {
            return Comparison::AlreadyMerged;
        }
        let remote_ahead =
            self.entries().any(|entry| local.etag_of(entry.database_id) < entry.etag);
        let local_ahead = local.entries().any(|entry| self.etag_of(entry.database_id) < entry.etag);
        match (remote_ahead, local_ahead) {
            (false, _) => Comparison::AlreadyMerged,
            (true, false) => Comparison::Update,
            (true, true) => Comparison::Conflict,
        }
    }

    /// As [`ChangeVector::merge`], with the entries in the order of their databases: the text depends only on what is
    /// contained, and not on the order in which it was merged.
    pub fn join(&self, other: &Self) -> Self {
        let mut entries: Vec<ChangeVectorEntry> = self.merge(other).entries().collect();
        entries.sort_by_key(|entry| entry.database_id);
        let mut joined = Self::empty();
        entries.into_iter().for_each(|entry| joined.push(entry));
        joined
    }

    /// Whether a database that contains everything in `self` contains this version, too. Cluster-wide transactions are
    /// counted by their `RAFT` entries: the [`TRANSACTION_TAG`] entries of documents are never in the vector of a
    /// database.
    pub fn covers(&self, version: &Self) -> bool {
        let mut entries =
            version.entries().filter(|entry| entry.tag.as_str() != TRANSACTION_TAG).peekable();
        entries.peek().is_some()
            && entries.all(|entry| entry.etag <= self.etag_of(entry.database_id))
    }

    /// The number of the last document of cluster-wide transactions that the version contains; 0 if it contains none.
    pub fn transaction_number(&self) -> u64 {
        let numbers = self.entries().filter(|entry| entry.tag.as_str() == TRANSACTION_NUMBER_TAG);
        numbers.map(|entry| entry.etag.0).max().unwrap_or(0)
    }

    /// Whether the version contains a write that another one does not, apart from those of cluster-wide transactions.
    pub fn has_writes_beyond(&self, other: &Self) -> bool {
        let is_of_transaction = |entry: &ChangeVectorEntry| {
            [TRANSACTION_TAG, TRANSACTION_NUMBER_TAG].contains(&entry.tag.as_str())
        };
        let mut writes = self.entries().filter(|entry| !is_of_transaction(entry));
        writes.any(|entry| other.etag_of(entry.database_id) < entry.etag)
    }

    fn push(&mut self, entry: ChangeVectorEntry) {
        self.push_text(entry.tag.as_str());
        self.0.push(':');
        push_decimal(&mut self.0, entry.etag.0);
        self.0.push('-');
        let id = entry.database_id.text();
        self.0.push_str(std::str::from_utf8(&id).expect("the alphabet is ASCII"));
    }

    /// The text of an entry, or its beginning.
    fn push_text(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push_str(SEPARATOR);
        }
        self.0.push_str(text);
    }
}

/// The etag of the text of an entry.
fn etag_in(part: &str) -> Etag {
    let etag = part.split([':', '-']).nth(1).and_then(|digits| digits.parse().ok());
    Etag(etag.expect("checked on construction"))
}

/// What formatting does, at a tenth of the price.
fn push_decimal(text: &mut String, number: u64) {
    let mut digits = [0; u64::MAX.ilog10() as usize + 1];
    let (mut first, mut rest) = (digits.len(), number);
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.push_str(std::str::from_utf8(&digits[first..]).expect("digits are ASCII"));
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    // Versions of cluster-wide transactions have no blank after the comma. An empty text has no
    // part, where `split` would give one empty part.
    let parts = text.split(',').map(|part| part.strip_prefix(' ').unwrap_or(part));
    parts.filter(move |_| !text.is_empty())
}

fn parse_entry(text: &str) -> Option<ChangeVectorEntry> {
    let (tag, rest) = text.split_once(':')?;
    let (etag, database_id) = rest.split_once('-')?;
    if !etag.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(ChangeVectorEntry {
        tag: tag.parse().ok()?,
        etag: Etag(etag.parse().ok()?),
        database_id: DatabaseId::parse(database_id)?,
    })
}

impl FromStr for ChangeVector {
    type Err = InvalidChangeVector;

    fn from_str(text: &str) -> Result<Self, InvalidChangeVector> {
        if split(text).all(|part| parse_entry(part).is_some()) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidChangeVector { text: text.to_owned() })
    }
}

impl fmt::Display for ChangeVector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

impl fmt::Display for InvalidChangeVector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' is not a change vector", self.text)
    }
}

impl std::error::Error for InvalidChangeVector {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector(entries: &[(&str, u64, u8)]) -> ChangeVector {
        let mut vector = ChangeVector::empty();
        for (tag, etag, id) in entries {
            vector.push(ChangeVectorEntry {
                tag: tag.parse().unwrap(),
                etag: Etag(*etag),
                database_id: DatabaseId([*id; 16]),
            });
        }
        vector
    }

    #[test]
    fn the_text_is_read_and_written_alike() {
        let text = "A:12-AAAAAAAAAAAAAAAAAAAAAA, RAFT:4-/////////////////////w";
        let parsed: ChangeVector = text.parse().unwrap();
        assert_eq!(parsed, vector(&[("A", 12, 0), ("RAFT", 4, 0xff)]));
        assert_eq!(parsed.as_str(), text);
        assert_eq!("".parse::<ChangeVector>().unwrap(), ChangeVector::empty());
        assert_eq!(ChangeVector::empty().entries().count(), 0);
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = [
            "A",
            "A:1",
            "A:1-abc",
            "a:1-AAAAAAAAAAAAAAAAAAAAAA",
            "A:-1-AAAAAAAAAAAAAAAAAAAAAA",
            "A:+1-AAAAAAAAAAAAAAAAAAAAAA",
            "A:99999999999999999999-AAAAAAAAAAAAAAAAAAAAAA",
            "A:1-AAAAAAAAAAAAAAAAAAAAAA, ",
        ];
        for text in refused {
            assert!(text.parse::<ChangeVector>().is_err(), "{text}");
        }
    }

    #[test]
    fn comparing_distinguishes_updates_from_conflicts() {
        let cases = [
            (vec![("A", 1, 1)], vec![("A", 1, 1)], Comparison::AlreadyMerged),
            (vec![("A", 1, 1)], vec![("A", 2, 1)], Comparison::AlreadyMerged),
            (vec![("A", 2, 1)], vec![("A", 1, 1)], Comparison::Update),
            (vec![("A", 1, 1)], vec![], Comparison::Update),
            (vec![], vec![("A", 1, 1)], Comparison::AlreadyMerged),
            (vec![("A", 1, 1)], vec![("B", 1, 2)], Comparison::Conflict),
            (vec![("A", 2, 1), ("B", 1, 2)], vec![("A", 1, 1), ("B", 2, 2)], Comparison::Conflict),
            (vec![("A", 2, 1), ("B", 2, 2)], vec![("B", 2, 2)], Comparison::Update),
            // The tag is for display: another tag of the same database changes nothing.
            (vec![("C", 2, 1)], vec![("A", 2, 1)], Comparison::AlreadyMerged),
        ];
        for (remote, local, expected) in cases {
            let (remote, local) = (vector(&remote), vector(&local));
            assert_eq!(remote.compare(&local), expected, "{remote} against {local}");
        }
    }

    #[test]
    fn merging_keeps_the_order_of_first_appearance() {
        let one = vector(&[("B", 5, 2), ("A", 1, 1)]);
        let other = vector(&[("A", 3, 1), ("C", 7, 3), ("B", 4, 2)]);
        assert_eq!(one.merge(&other), vector(&[("B", 5, 2), ("A", 3, 1), ("C", 7, 3)]));
        assert_eq!(ChangeVector::empty().merge(&one), one);
        assert_eq!(one.merge(&ChangeVector::empty()), one);
    }

    fn any_vector() -> impl Strategy<Value = ChangeVector> {
        prop::collection::btree_map(0..6_u8, 1..5_u64, 0..5).prop_map(|entries| {
            let entries: Vec<_> = entries.into_iter().map(|(id, etag)| ("A", etag, id)).collect();
            vector(&entries)
        })
    }

    proptest! {
        #[test]
        fn adding_one_entry_is_merging_the_vector_of_it(
            vector in any_vector(), id in 0..7_u8, etag in prop_oneof![0..6_u64, any::<u64>()]
        ) {
            let (tag, etag) = ("RAFT".parse().unwrap(), Etag(etag));
            let entry = ChangeVectorEntry { tag, etag, database_id: DatabaseId([id; 16]) };
            let added = vector.with(entry);
            prop_assert_eq!(&added, &vector.merge(&ChangeVector::single(entry)));
            prop_assert_eq!(added.as_str().parse::<ChangeVector>(), Ok(added));
        }

        #[test]
        fn merged_vectors_form_a_lattice(a in any_vector(), b in any_vector(), c in any_vector()) {
            let merged = a.merge(&b);
            prop_assert_eq!(a.compare(&merged), Comparison::AlreadyMerged);
            prop_assert_eq!(b.compare(&merged), Comparison::AlreadyMerged);
            prop_assert_eq!(merged.compare(&b.merge(&a)), Comparison::AlreadyMerged);
            prop_assert_eq!(a.merge(&a), a.clone());
            let (left, right) = (merged.merge(&c), a.merge(&b.merge(&c)));
            prop_assert_eq!(left.compare(&right), Comparison::AlreadyMerged);
            prop_assert_eq!(right.compare(&left), Comparison::AlreadyMerged);
        }

        #[test]
        fn no_text_makes_parsing_panic(text in "[A-B0-9:, /+-]{0,60}") {
            let _ = text.parse::<ChangeVector>();
        }
    }
}
