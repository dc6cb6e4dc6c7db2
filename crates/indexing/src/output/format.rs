//! What an index stores about its outputs, next to its entries and results.
//!
//! ```text
//! tree `Output/Keys`    key 16 → what may be written for a key, below
//! tree `Output/Owed`    key 16 → empty; the documents of the key are yet to be brought in line
//! tree `Output/Sweeps`  number 8, big-endian → a collection to clear of unknown outputs, below
//!
//! outputs of a key                            sweep
//! offset bytes what                           offset bytes what
//!      0     4 documents, at most                  0     8 number of the definition, see `Sweep`
//!      4     - each reference:                     8     - name of the collection, then that of the
//!              4 place of the output,                      references or nothing: 2 length, UTF-8
//!              2 length, id that refers
//! ```
//!
//! Integers are little-endian.

use std::ops::Bound;

use model::CollectionName;
use storage::{StorageError, Transaction, TreeName, WriteTransaction};

use crate::{error::IndexError, reduce::ReduceKey};

const KEYS: &[u8] = b"Output/Keys";
const PENDING: &[u8] = b"Output/Owed";
const SWEEPS: &[u8] = b"Output/Sweeps";

fn keys_tree() -> TreeName {
    TreeName::of(&[KEYS])
}

fn pending_tree() -> TreeName {
    TreeName::of(&[PENDING])
}

fn sweeps_tree() -> TreeName {
    TreeName::of(&[SWEEPS])
}

/// The documents of a key, or those that may exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyOutputs {
    /// Outputs.
    pub(super) count: u32,
    /// Ascending, without duplicates.
    pub(super) references: Vec<Reference>,
}

/// A reference from a document to an output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// The position of the output among those of its key.
    pub(super) place: u32,
    /// The id of the document that refers to it.
    pub(super) id: String,
}

impl KeyOutputs {
    /// The union of both.
    fn with(&self, other: &Self) -> Self {
        let mut references = self.references.clone();
        references.extend(other.references.iter().cloned());
        references.sort_unstable();
        references.dedup();
        Self { count: self.count.max(other.count), references }
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = self.count.to_le_bytes().to_vec();
        for Reference { place, id } in &self.references {
            bytes.extend_from_slice(&place.to_le_bytes());
            push_text(id, &mut bytes);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (count, mut rest) = bytes.split_first_chunk::<4>()?;
        let mut references = Vec::new();
        while !rest.is_empty() {
            let (place, behind) = rest.split_first_chunk::<4>()?;
            let (id, behind) = split_text(behind)?;
            references.push(Reference { place: u32::from_le_bytes(*place), id: id.to_owned() });
            rest = behind;
        }
        Some(Self { count: u32::from_le_bytes(*count), references })
    }
}

/// The documents that may have been written for a key.
pub(super) fn outputs(tx: &impl Transaction, key: ReduceKey) -> Result<KeyOutputs, IndexError> {
    match tx.tree(&keys_tree())?.get(key.bytes())? {
        None => Ok(KeyOutputs::default()),
        Some(bytes) => KeyOutputs::read(bytes)
            .ok_or_else(|| IndexError::corrupt("the outputs of a key have an unknown format")),
    }
}

/// Records exactly the documents that are written for a key.
pub(super) fn write_outputs(
    tx: &mut WriteTransaction,
    key: ReduceKey,
    outputs: &KeyOutputs,
) -> Result<(), StorageError> {
    let mut tree = tx.tree_mut(&keys_tree())?;
    match outputs {
        KeyOutputs { count: 0, references } if references.is_empty() => {
            tree.delete(key.bytes()).map(drop)
        }
        outputs => tree.put(key.bytes(), &outputs.write()).map(drop),
    }
}

/// Records that the results of a key have changed and its documents are pending.
pub(crate) fn add_pending(
    tx: &mut WriteTransaction,
    key: ReduceKey,
    wanted: &KeyOutputs,
) -> Result<(), IndexError> {
    let known = outputs(tx, key)?;
    let possible = known.with(wanted);
    if possible != known {
        write_outputs(tx, key, &possible)?;
    }
    tx.tree_mut(&pending_tree())?.put(key.bytes(), &[])?;
    Ok(())
}

/// Up to `limit` keys whose documents are pending.
pub(super) fn pending_keys(
    tx: &impl Transaction,
    limit: usize,
) -> Result<Vec<ReduceKey>, IndexError> {
    let tree = tx.tree(&pending_tree())?;
    let keys = tree.range(Bound::Unbounded)?.take(limit);
    keys.map(|entry| {
        let key = entry?.0.as_slice().try_into().map(ReduceKey::from_bytes);
        key.map_err(|_| IndexError::corrupt("a pending key has an unknown format"))
    })
    .collect()
}

/// Clears a key whose documents are up to date.
pub(super) fn clear_pending(tx: &mut WriteTransaction, key: ReduceKey) -> Result<(), StorageError> {
    tx.tree_mut(&pending_tree())?.delete(key.bytes()).map(drop)
}

/// A collection to sweep: deletes outputs with a smaller number, and those with this one that the
/// index does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub(crate) number: u64,
    pub(crate) collection: CollectionName,
    /// The collection of the documents that reference outputs.
    pub(crate) references: Option<CollectionName>,
}

impl Sweep {
    fn write(&self) -> Vec<u8> {
        let mut bytes = self.number.to_le_bytes().to_vec();
        push_text(self.collection.as_str(), &mut bytes);
        push_text(self.references.as_ref().map_or("", CollectionName::as_str), &mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (collection, rest) = split_text(rest)?;
        let (references, []) = split_text(rest)? else { return None };
        let named = |name: &str| CollectionName::new(name).ok();
        Some(Self {
            number: u64::from_le_bytes(*number),
            collection: named(collection)?,
            references: match references {
                "" => None,
                name => Some(named(name)?),
            },
        })
    }
}

/// Schedules a sweep, unless the same one is scheduled already.
pub(crate) fn add_sweep(tx: &mut WriteTransaction, sweep: &Sweep) -> Result<(), IndexError> {
    let known = sweeps(tx)?;
    if known.iter().any(|(_, known)| known == sweep) {
        return Ok(());
    }
    let number = known.last().map_or(0, |(number, _)| number + 1);
    tx.tree_mut(&sweeps_tree())?.put(&number.to_be_bytes(), &sweep.write())?;
    Ok(())
}

/// The scheduled sweeps.
pub(crate) fn sweeps(tx: &impl Transaction) -> Result<Vec<(u64, Sweep)>, IndexError> {
    let corrupt = || IndexError::corrupt("a sweep has an unknown format");
    let tree = tx.tree(&sweeps_tree())?;
    let entries = tree.range(Bound::Unbounded)?;
    entries
        .map(|entry| {
            let (number, sweep) = entry?;
            let number = number.as_slice().try_into().map(u64::from_be_bytes);
            let sweep = Sweep::read(sweep).ok_or_else(corrupt)?;
            Ok((number.map_err(|_| corrupt())?, sweep))
        })
        .collect()
}

/// Removes a finished sweep.
pub(super) fn end_sweep(tx: &mut WriteTransaction, number: u64) -> Result<(), StorageError> {
    tx.tree_mut(&sweeps_tree())?.delete(&number.to_be_bytes()).map(drop)
}

/// Whether documents or sweeps are pending.
pub(crate) fn is_anything_open(tx: &impl Transaction) -> Result<bool, StorageError> {
    Ok(!tx.tree(&pending_tree())?.is_empty() || !tx.tree(&sweeps_tree())?.is_empty())
}

fn push_text(text: &str, bytes: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).expect("ids and names have at most 512 bytes");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn split_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use storage::{Environment, EnvironmentOptions};

    use super::*;

    fn outputs_of(count: u32, references: &[(u32, &str)]) -> KeyOutputs {
        let references = references.iter();
        let references =
            references.map(|(place, id)| Reference { place: *place, id: (*id).to_owned() });
        KeyOutputs { count, references: references.collect() }
    }

    #[test]
    fn what_may_be_written_grows_until_it_is_known() {
        let options = EnvironmentOptions::new("index");
        let environment = Environment::open(&Platform::memory(), options).unwrap();
        let (one, two) = (ReduceKey::of_whole_number(1), ReduceKey::of_whole_number(2));
        let mut tx = environment.write().unwrap();
        assert!(!is_anything_open(&tx).unwrap());
        add_pending(&mut tx, one, &outputs_of(2, &[(0, "a"), (1, "b")])).unwrap();
        add_pending(&mut tx, one, &outputs_of(1, &[(0, "c")])).unwrap();
        add_pending(&mut tx, two, &outputs_of(0, &[])).unwrap();
        let possible = outputs_of(2, &[(0, "a"), (0, "c"), (1, "b")]);
        assert_eq!(outputs(&tx, one).unwrap(), possible);
        assert_eq!(pending_keys(&tx, 1).unwrap(), [one]);
        assert_eq!(pending_keys(&tx, 9).unwrap(), [one, two]);
        write_outputs(&mut tx, one, &outputs_of(1, &[(0, "c")])).unwrap();
        assert_eq!(outputs(&tx, one).unwrap(), outputs_of(1, &[(0, "c")]));
        write_outputs(&mut tx, one, &KeyOutputs::default()).unwrap();
        assert!(tx.tree(&keys_tree()).unwrap().is_empty());
        clear_pending(&mut tx, one).unwrap();
        clear_pending(&mut tx, two).unwrap();
        assert!(!is_anything_open(&tx).unwrap());
        assert_eq!(KeyOutputs::read(&possible.write()), Some(possible.clone()));
        assert_eq!(KeyOutputs::read(&possible.write()[..12]), None);
    }

    #[test]
    fn a_sweep_is_asked_for_once() {
        let options = EnvironmentOptions::new("index");
        let environment = Environment::open(&Platform::memory(), options).unwrap();
        let named = |name: &str| CollectionName::new(name).unwrap();
        let one = Sweep { number: 7, collection: named("Sums"), references: None };
        let two = Sweep { references: Some(named("Sums/References")), ..one.clone() };
        let mut tx = environment.write().unwrap();
        for sweep in [&one, &two, &one] {
            add_sweep(&mut tx, sweep).unwrap();
        }
        assert_eq!(sweeps(&tx).unwrap(), [(0, one), (1, two.clone())]);
        end_sweep(&mut tx, 0).unwrap();
        assert_eq!(sweeps(&tx).unwrap(), [(1, two)]);
        assert!(is_anything_open(&tx).unwrap());
        end_sweep(&mut tx, 1).unwrap();
        assert!(!is_anything_open(&tx).unwrap());
    }
}
