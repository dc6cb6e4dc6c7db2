//! Detects definitions that would feed themselves: an index over documents that it writes, directly
//! or through other indexes, would never finish.

use documents::collection;
use model::CollectionName;
use storage::ReadTransaction;

use super::OutputTarget;
use crate::{
    error::IndexError,
    mapper::{Follows, Mapper},
};

/// The collections that an index reads and writes.
pub(crate) struct Flow {
    name: String,
    /// `None` is all documents.
    read: Option<Vec<CollectionName>>,
    output: Option<CollectionName>,
    references: Option<CollectionName>,
}

impl Flow {
    pub(crate) fn of(name: &str, mapper: &dyn Mapper, target: Option<&OutputTarget>) -> Self {
        let mapped = mapper.collections();
        let read = (!mapped.is_empty()).then(|| {
            // Documents that a map loads add no edge: unchanged outputs are not written again.
            let looked_at = match mapper.looks_at() {
                Follows::Collections(names) => names,
                Follows::Everything => &[],
            };
            mapped.iter().chain(looked_at).cloned().collect()
        });
        Self {
            name: name.to_owned(),
            read,
            output: target.map(|target| target.collection().clone()),
            references: target.and_then(OutputTarget::references).cloned(),
        }
    }

    fn written(&self) -> impl Iterator<Item = &CollectionName> {
        self.output.iter().chain(&self.references)
    }

    fn reads(&self, collection: &CollectionName) -> bool {
        self.read.as_ref().is_none_or(|read| read.contains(collection))
    }

    /// As shown in messages: `Orders => Sums`.
    fn shown(&self, own: &str) -> String {
        let read = self.read.as_deref().unwrap_or_default();
        let read: Vec<_> = read.iter().map(CollectionName::as_str).collect();
        format!("{} => {own}", read.join(","))
    }
}

/// Rejects an index whose outputs would affect itself, another index, or users' documents. `others`
/// are indexes of other names; `before` are the collections that those of the same name write.
pub(crate) fn check(
    new: &Flow,
    others: &[Flow],
    before: &[&CollectionName],
    documents: &ReadTransaction,
) -> Result<(), IndexError> {
    let Some(output) = &new.output else { return Ok(()) };
    for written in new.written() {
        if let Some(why) = feeds_itself(new, written) {
            return refused(new, written, &why);
        }
    }
    let writes_the_same = |other: &&Flow| other.output.as_ref() == Some(output);
    if let Some(other) = others.iter().find(writes_the_same) {
        let why = format!(
            "there is another index named '{}' which also output reduce results to documents in the \
             same '{output}' collection. OutputReduceToCollection must by set to unique value for each \
             index or be null.",
            other.name
        );
        return refused(new, output, &why);
    }
    for written in new.written() {
        if let Some(way) = way_back(new, written, others) {
            let why = format!(
                "'{written}' collection is consumed by other index in a way that would lead to an \
                 infinite loop.{}\n--> {}: {}",
                way.concat(),
                new.name,
                new.shown(&format!("*{written}*"))
            );
            return refused(new, written, &why);
        }
    }
    refuse_documents_of_others(new, output, before, documents)
}

fn feeds_itself(new: &Flow, written: &CollectionName) -> Option<String> {
    if !new.reads(written) {
        return None;
    }
    Some(match new.read {
        None => {
            "this index is mapping all documents and this will result in an infinite loop.".into()
        }
        Some(_) => format!(
            "this index is mapping or referencing the '{written}' collection and this will result in \
             an infinite loop."
        ),
    })
}

/// The indexes through which documents of a collection return to the new one, if they do.
fn way_back(new: &Flow, collection: &CollectionName, others: &[Flow]) -> Option<Vec<String>> {
    // Each index is visited once.
    let mut seen = vec![false; others.len()];
    let mut waiting = vec![(collection.clone(), Vec::new())];
    while let Some((collection, way)) = waiting.pop() {
        for (other, seen) in others.iter().zip(&mut seen) {
            if *seen || other.output.is_none() || !other.reads(&collection) {
                continue;
            }
            *seen = true;
            for written in other.written() {
                let mut way = way.clone();
                way.push(format!("\n{}: {}", other.name, other.shown(written.as_str())));
                if new.reads(written) {
                    return Some(way);
                }
                waiting.push((written.clone(), way));
            }
        }
    }
    None
}

/// Outputs need a collection that contains nothing else.
fn refuse_documents_of_others(
    new: &Flow,
    output: &CollectionName,
    before: &[&CollectionName],
    documents: &ReadTransaction,
) -> Result<(), IndexError> {
    if before.contains(&output) {
        return Ok(());
    }
    let known = collection(documents, output)?;
    match known.map_or(0, |collection| collection.documents) {
        0 => Ok(()),
        count => {
            let unit = if count == 1 { "document " } else { "documents" };
            let message = format!(
                "Index '{}' is defined to output the Reduce results to documents in Collection \
                 '{output}'. This collection currently has {count} {unit}. All documents in Collection \
                 '{output}' must be deleted first.",
                new.name
            );
            Err(IndexError::Invalid { message })
        }
    }
}

fn refused(new: &Flow, written: &CollectionName, why: &str) -> Result<(), IndexError> {
    let message = format!(
        "It is forbidden to create the '{}' index which would output reduce results to documents in \
         the '{written}' collection, as {why}",
        new.name
    );
    Err(IndexError::Invalid { message })
}
