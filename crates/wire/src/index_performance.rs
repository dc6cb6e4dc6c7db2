//! The performance figures of index batches.

use std::time::Duration;

use serde_json::{Value, json};

use crate::size_text::SizeText;

/// One batch of an index.
#[derive(Clone, Debug, Default)]
pub struct IndexBatch {
    /// Its number among the batches of the index.
    pub number: u64,
    /// When it began, as text.
    pub started: String,
    /// When it ended, as text.
    pub completed: String,
    /// Time spent mapping.
    pub map_time: Duration,
    /// The reduce step, if the index has one.
    pub reduce: Option<ReduceStep>,
    /// Time spent turning entries into terms.
    pub entries_time: Duration,
    /// Time spent recording which documents the maps loaded.
    pub references_time: Duration,
    /// Time spent on the commit.
    pub commit_time: Duration,
    /// Pages changed by its transaction.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Documents read.
    pub inputs: u64,
    /// Documents that failed.
    pub failed: u64,
    /// Entries written, or rows passed to the reduce.
    pub outputs: u64,
    /// Why the batch ended.
    pub reason: &'static str,
}

/// The reduce step of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReduceStep {
    /// How long it took.
    pub time: Duration,
    /// Rows reduced.
    pub attempts: u64,
    /// Rows that failed.
    pub errors: u64,
}

impl IndexBatch {
    /// `LastBatchStats` of an index.
    pub fn to_summary_json(&self) -> Value {
        json!({
            "InputCount": self.inputs, "FailedCount": self.failed, "OutputCount": self.outputs,
            "SuccessCount": self.inputs - self.failed, "Started": self.started,
            "DurationInMs": milliseconds(self.time()),
            "AllocatedBytes": SizeText::of(0), "AllocatedManagedBytes": SizeText::of(0),
            "AllocatedUnmanagedBytes": null, "DocumentsSize": SizeText::of(0)
        })
    }

    /// An element of `Performance`.
    pub fn to_json(&self) -> Value {
        let mut shape = self.to_summary_json();
        shape["Id"] = json!(self.number);
        shape["Completed"] = json!(self.completed);
        let mut whole = step("Indexing", self.time(), None);
        whole["Operations"] = Value::Array(self.steps());
        shape["Details"] = whole;
        shape
    }

    fn time(&self) -> Duration {
        let reduce_time = self.reduce.map_or(Duration::ZERO, |reduce| reduce.time);
        let written = self.entries_time + self.references_time + self.commit_time;
        self.map_time + reduce_time + written
    }

    fn steps(&self) -> Vec<Value> {
        let map = step("Map", self.map_time, Some(("MapDetails", self.map_details())));
        let reduce = self.reduce.map(|reduce| {
            step("Reduce", reduce.time, Some(("ReduceDetails", reduce_details(reduce))))
        });
        let commit = json!({
            "NumberOfModifiedPages": self.pages,
            "NumberOf4KbsWrittenToDisk": self.pages * self.page_bytes / 4096
        });
        let written = [
            step("Lucene/Commit", self.entries_time, None),
            step("Storage/UpdateReferences", self.references_time, None),
            step("Storage/Commit", self.commit_time, Some(("CommitDetails", commit))),
        ];
        std::iter::once(map).chain(reduce).chain(written).collect()
    }

    fn map_details(&self) -> Value {
        json!({
            "BatchCompleteReason": self.reason, "ProcessPrivateMemory": 0, "ProcessWorkingSet": 0,
            "CurrentlyAllocated": 0, "AllocationBudget": 0
        })
    }
}

fn reduce_details(reduce: ReduceStep) -> Value {
    json!({
        "ProcessPrivateMemory": 0, "ProcessWorkingSet": 0, "CurrentlyAllocated": 0,
        "ReduceAttempts": reduce.attempts, "ReduceSuccesses": reduce.attempts - reduce.errors,
        "ReduceErrors": reduce.errors, "TreesReduceDetails": null
    })
}

/// A step of a batch, with details that depend on its kind.
fn step(name: &str, time: Duration, details: Option<(&str, Value)>) -> Value {
    let mut shape = json!({
        "Name": name, "DurationInMs": milliseconds(time), "ReduceDetails": null,
        "MapDetails": null, "CleanupDetails": null, "LuceneMergeDetails": null,
        "CommitDetails": null, "Operations": [], "ReferenceDetails": null
    });
    if let Some((kind, of_kind)) = details {
        shape[kind] = of_kind;
    }
    shape
}

/// Milliseconds, rounded to hundredths.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_shown_with_its_steps() {
        let batch = IndexBatch {
            number: 3,
            started: "a".to_owned(),
            completed: "b".to_owned(),
            map_time: Duration::from_micros(1_234),
            commit_time: Duration::from_micros(2_000),
            inputs: 5,
            failed: 1,
            outputs: 7,
            pages: 3,
            page_bytes: 8192,
            reason: "No more documents to index",
            ..IndexBatch::default()
        };
        let shape = batch.to_json();
        assert_eq!((&shape["Id"], &shape["SuccessCount"]), (&json!(3), &json!(4)));
        assert_eq!(shape["DurationInMs"], 3.23);
        let names = |shape: &Value| -> Vec<String> {
            let steps = shape["Details"]["Operations"].as_array().expect("there are some");
            steps.iter().filter_map(|step| step["Name"].as_str()).map(str::to_owned).collect()
        };
        let written = ["Lucene/Commit", "Storage/UpdateReferences", "Storage/Commit"];
        assert_eq!(names(&shape), [&["Map"], written.as_slice()].concat());
        let steps = &shape["Details"]["Operations"];
        assert_eq!(steps[0]["DurationInMs"], 1.23);
        assert_eq!(steps[0]["MapDetails"]["BatchCompleteReason"], "No more documents to index");
        let commit = json!({"NumberOfModifiedPages": 3, "NumberOf4KbsWrittenToDisk": 6});
        assert_eq!((&steps[3]["CommitDetails"], &steps[3]["MapDetails"]), (&commit, &Value::Null));
        let time = Duration::from_millis(5);
        let reduce = Some(ReduceStep { time, attempts: 9, errors: 2 });
        let shape = IndexBatch { reduce, ..batch }.to_json();
        assert_eq!(names(&shape), [&["Map", "Reduce"], written.as_slice()].concat());
        let details = &shape["Details"]["Operations"][1]["ReduceDetails"];
        assert_eq!((&details["ReduceSuccesses"], &details["ReduceErrors"]), (&json!(7), &json!(2)));
        assert_eq!(shape["DurationInMs"], 8.23);
    }
}
