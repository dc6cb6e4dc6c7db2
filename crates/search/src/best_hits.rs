//! The best few of many hits, by some keys.
//!
//! Invariant: hits arrive in entry order, which breaks ties.

use std::cmp::Ordering;

use storage::Transaction;

use crate::{
    error::SearchError,
    reader::IndexReader,
    record::RecordReader,
    search::Hit,
    sort::{ResolvedKey, SortValue},
};

/// A hit with its values for the keys.
struct RankedHit<'t> {
    hit: Hit,
    values: Vec<SortValue<'t>>,
}

/// The first few of the hits that are offered, in entry order, by some keys.
pub(crate) struct BestHits<'r, 't, T> {
    reader: &'r IndexReader<'t, T>,
    keys: &'r [ResolvedKey],
    wanted: usize,
    /// Up to twice as many as wanted; after each cut only the best `wanted` remain.
    kept: Vec<RankedHit<'t>>,
    /// Whether `kept[wanted - 1]` is the threshold for further hits.
    is_cut: bool,
}

impl<'r, 't, T: Transaction> BestHits<'r, 't, T> {
    pub(crate) fn new(
        reader: &'r IndexReader<'t, T>,
        keys: &'r [ResolvedKey],
        wanted: usize,
    ) -> Self {
        Self { reader, keys, wanted, kept: Vec::new(), is_cut: false }
    }

    pub(crate) fn offer(&mut self, hit: Hit) -> Result<(), SearchError> {
        if self.wanted == 0 {
            return Ok(());
        }
        let mut record: Option<RecordReader<'t>> = None;
        let first = self.keys[0].value(self.reader, hit.entry.0, hit.score, &mut record)?;
        if self.is_cut {
            let order = self.keys[0].compare(&first, &self.kept[self.wanted - 1].values[0]);
            // Hits arrive in entry order, so the one already kept wins a tie.
            if order.is_gt() || (order.is_eq() && self.keys.len() == 1) {
                return Ok(());
            }
        }
        let mut values = vec![first];
        for key in &self.keys[1..] {
            values.push(key.value(self.reader, hit.entry.0, hit.score, &mut record)?);
        }
        self.kept.push(RankedHit { hit, values });
        if self.kept.len() >= self.wanted.saturating_mul(2).max(self.wanted.saturating_add(64)) {
            self.cut();
        }
        Ok(())
    }

    /// Keeps the best, with the worst of them last.
    fn cut(&mut self) {
        let keys = self.keys;
        if self.kept.len() > self.wanted {
            self.kept.select_nth_unstable_by(self.wanted - 1, |left, right| {
                compare_ranked(keys, left, right)
            });
            self.kept.truncate(self.wanted);
            self.is_cut = true;
        }
    }

    pub(crate) fn into_sorted(mut self) -> Vec<Hit> {
        let keys = self.keys;
        self.cut();
        self.kept.sort_unstable_by(|left, right| compare_ranked(keys, left, right));
        self.kept.into_iter().map(|ranked| ranked.hit).collect()
    }
}

fn compare_ranked(keys: &[ResolvedKey], left: &RankedHit<'_>, right: &RankedHit<'_>) -> Ordering {
    let values = left.values.iter().zip(&right.values);
    keys.iter()
        .zip(values)
        .map(|(key, (left, right))| key.compare(left, right))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
        .then(left.hit.entry.cmp(&right.hit.entry))
}
