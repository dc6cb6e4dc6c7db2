//! The time series of the naive database.
//!
//! Histories write so few entries that a series is one segment; so the number of etags that a
//! change takes is known.

use std::{collections::BTreeMap, sync::Arc};

use documents::time_series::{Entry, TimeSeriesChange};

use crate::{Naive, database::SeriesContent, naive::Refused};

/// Name as written, and entries by their moments.
type Series = (String, BTreeMap<i64, (Vec<f64>, Option<String>)>);

/// Series by document and name, both lower-cased.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveTimeSeries {
    series: BTreeMap<(String, String), Series>,
}

impl NaiveTimeSeries {
    pub(crate) fn delete_all_of(&mut self, lower_id: &str, last_etag: &mut u64) {
        let before = self.series.len();
        self.series.retain(|(owner, _), _| owner != lower_id);
        *last_etag += (before - self.series.len()) as u64;
    }

    /// The body with the names of the series in its metadata.
    pub(crate) fn listed_in(&self, lower_id: &str, body: &Arc<str>) -> Arc<str> {
        let of_document = self.series.iter().filter(|((owner, _), _)| owner == lower_id);
        let names: Vec<&str> = of_document.map(|(_, (name, _))| name.as_str()).collect();
        if names.is_empty() {
            return body.clone();
        }
        // Metadata is sorted, and nothing in it sorts after this.
        let end = body.find("}}").expect("a history's bodies end with metadata");
        let list = format!(",\"@timeseries\":[\"{}\"]", names.join("\",\""));
        format!("{}{list}{}", &body[..end], &body[end..]).into()
    }

    pub(crate) fn content(&self) -> Vec<SeriesContent> {
        let content = self.series.iter().map(|((owner, _), (name, entries))| {
            let entries = entries.iter();
            let entries =
                entries.map(|(moment, (values, tag))| (*moment, values.clone(), tag.clone()));
            (owner.clone(), name.clone(), entries.collect())
        });
        content.collect()
    }
}

impl Naive {
    pub(crate) fn change_time_series(&mut self, change: &TimeSeriesChange) -> Result<(), Refused> {
        let id = change.id.as_str().to_lowercase();
        if !self.is_live(&id) {
            return Err(Refused);
        }
        let key = (id.clone(), change.name.as_str().to_lowercase());
        let known = self.time_series.series.remove(&key);
        let was_there = known.is_some();
        let (name, mut entries) = known.unwrap_or((change.name.to_string(), BTreeMap::new()));
        for range in &change.deletes {
            let before = entries.len();
            entries.retain(|moment, _| !range.contains(*moment));
            if entries.len() != before {
                // The rest of the segment is rewritten, and the deletion is recorded.
                self.last_etag += if entries.is_empty() { 1 } else { 2 };
            }
        }
        for Entry { timestamp_ms, values, tag } in change.appends.iter() {
            entries.insert(timestamp_ms, (values.to_vec(), tag.map(str::to_owned)));
        }
        self.last_etag += u64::from(!change.appends.is_empty());
        if entries.is_empty() == was_there {
            self.touch(&id);
        }
        if !entries.is_empty() {
            self.time_series.series.insert(key, (name, entries));
        }
        Ok(())
    }
}
