//! The documents that a query selects, for an operation that changes them.
//!
//! Their ids are read from a snapshot, as many at a time as fit, and the snapshot is released
//! before anything is written: a large change does not keep the storage from flushing. The rest is
//! read from a newer snapshot. Invariant: no document is returned twice, and none that was written
//! after the operation began.

use std::{collections::BTreeMap, sync::Arc};

use blittable::Object;
use database::DatabaseLease;
use documents::DocumentError;
use indexing::Index;
use model::{DocumentId, Etag};
use query::Paging;
use rql::{Query, SourceKind};
use script::ScriptPool;
use storage::MemoryShare;

use crate::{
    bound_query::{BoundQuery, QueryPlan, QuerySnapshot},
    error::EngineError,
    query_target::{NeededSource, needed_source},
};

/// Approximate limit of the bytes of ids held at a time, if memory allows.
const IDS_BYTES_MAX: usize = 32 << 20;
/// This many bytes always fit.
pub(crate) const IDS_ALLOWED_BYTES: u64 = 256 << 10;

/// The query of an operation, with everything that determines which documents it selects.
pub(crate) struct Chosen {
    pub(crate) bound: BoundQuery,
    /// The index that selects them; `None` if the documents themselves are read.
    pub(crate) index: Option<Arc<Index>>,
    /// The newest etag when the operation began.
    pub(crate) newest: Etag,
    /// The etags returned so far.
    pub(crate) returned: EtagSet,
    /// Where the memory of the ids is charged.
    memory: MemoryShare,
    /// The charge of the query itself.
    _planning: MemoryShare,
}

/// Some of the ids.
pub(crate) struct Ids {
    pub(crate) ids: Vec<DocumentId>,
    /// The number of documents that the whole query selects.
    pub(crate) total: u64,
    /// Whether these are all of them.
    pub(crate) is_all: bool,
}

impl Chosen {
    /// The selection of a request.
    pub(crate) fn of(bound: BoundQuery, (planning, memory): (MemoryShare, MemoryShare)) -> Chosen {
        let (newest, returned) = (Etag::ZERO, EtagSet::default());
        Chosen { bound, index: None, newest, returned, memory, _planning: planning }
    }

    /// Reads ids from the newest snapshot, up to the limit.
    pub(crate) fn ids(
        &mut self,
        database: &DatabaseLease,
        seed: u64,
        pool: &ScriptPool,
    ) -> Result<Ids, EngineError> {
        self.bound.seed = seed;
        let snapshot = QuerySnapshot::take(database, self.index.clone(), None)?;
        let scripts = self.bound.scripts(pool)?;
        let scripts = self.bound.bind(scripts.as_ref())?;
        let result = self.bound.run(&snapshot, &QueryPlan::Unplanned)?;
        let mut result = result.with_scripts(scripts.as_ref());
        let total = u64::try_from(result.total_results()).unwrap_or(0);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        self.memory.shrink_to(0);
        while let Some(row) = result.next_row()? {
            let Some(row) = row.document.stored() else { continue };
            if self.newest < row.etag() || self.returned.contains(row.etag()) {
                continue;
            }
            if IDS_BYTES_MAX <= bytes || self.memory.try_grow_to(bytes as u64).is_err() {
                return Ok(Ids { ids, total, is_all: false });
            }
            bytes += row.id().len() + size_of::<DocumentId>();
            self.returned.insert(row.etag());
            let id = DocumentId::new(row.id());
            ids.push(id.map_err(DocumentError::IdTooLong)?);
        }
        Ok(Ids { ids, total, is_all: true })
    }

    /// Whether the page contains all of the `total` documents.
    pub(crate) fn is_whole(&self, total: u64) -> bool {
        let Paging { start, page_size } = self.bound.paging;
        start <= 0 && total <= page_size.map_or(u64::MAX, i64::unsigned_abs)
    }

    /// Accounts for rows that are gone; the rows after them have moved up.
    pub(crate) fn without(&mut self, gone: usize) {
        let gone = i64::try_from(gone).unwrap_or(i64::MAX);
        let paging = &mut self.bound.paging;
        paging.page_size = paging.page_size.map(|size| size.saturating_sub(gone));
    }
}

/// The description in the list of operations.
pub(crate) fn description(
    query: &Query,
    parameters: Option<Object<'_>>,
) -> Result<String, EngineError> {
    if let SourceKind::Index(name) = &query.source.kind {
        return Ok(name.to_string());
    }
    Ok(match (needed_source(query, parameters, Paging::default(), None)?, &query.source.kind) {
        (NeededSource::Documents(plan), _) => plan.index_name,
        (NeededSource::Index(_), SourceKind::Collection(name)) => format!("dynamic/{name}"),
        (NeededSource::Index(_), _) => "dynamic/AllDocs".to_owned(),
    })
}

/// A set of etags: one bit each where they are dense.
#[derive(Default)]
pub(crate) struct EtagSet {
    blocks: BTreeMap<u64, Box<[u64; BLOCK_WORDS]>>,
}

const BLOCK_WORDS: usize = 64;
const WORD_BITS: u64 = 64;

impl EtagSet {
    fn place(etag: Etag) -> (u64, usize, u64) {
        let word = etag.0 / WORD_BITS;
        let (block, index) = (word / BLOCK_WORDS as u64, word % BLOCK_WORDS as u64);
        (block, index as usize, 1 << (etag.0 % WORD_BITS))
    }

    fn insert(&mut self, etag: Etag) {
        let (block, index, bit) = EtagSet::place(etag);
        self.blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK_WORDS]))[index] |= bit;
    }

    fn contains(&self, etag: Etag) -> bool {
        let (block, index, bit) = EtagSet::place(etag);
        self.blocks.get(&block).is_some_and(|words| words[index] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_etags_holds_what_was_put_into_it() {
        let mut set = EtagSet::default();
        let etags = [0, 1, 63, 64, 4095, 4096, 4097, u64::MAX];
        for (count, etag) in etags.iter().enumerate() {
            assert!(!set.contains(Etag(*etag)));
            set.insert(Etag(*etag));
            let held = etags.iter().filter(|etag| set.contains(Etag(**etag))).count();
            assert_eq!(held, count + 1);
        }
        assert!(!set.contains(Etag(2)) && !set.contains(Etag(4098)));
    }
}
