//! What is told of the batches of an index.

use std::time::Duration;

use serde_json::{Value, json};

use crate::size_text::SizeText;

/// One batch of an index.
#[derive(Clone, Debug)]
pub struct IndexBatch {
    /// Counts the batches of the index.
    pub number: u64,
    /// When it began, as text.
    pub started: String,
    /// When it ended, as text.
    pub completed: String,
    /// How long mapping took.
    pub map_time: Duration,
    /// How long writing took.
    pub commit_time: Duration,
    /// Documents that were taken.
    pub inputs: u64,
    /// Documents of them that failed.
    pub failed: u64,
    /// Entries that they gave.
    pub outputs: u64,
    /// Whether documents were left for the next batch.
    pub has_more: bool,
}

impl IndexBatch {
    /// `LastBatchStats` of an index.
    pub fn to_summary_json(&self) -> Value {
        json!({
            "InputCount": self.inputs, "FailedCount": self.failed, "OutputCount": self.outputs,
            "SuccessCount": self.inputs - self.failed, "Started": self.started,
            "DurationInMs": milliseconds(self.map_time + self.commit_time),
            "AllocatedBytes": SizeText::of(0), "AllocatedManagedBytes": SizeText::of(0),
            "AllocatedUnmanagedBytes": null, "DocumentsSize": SizeText::of(0)
        })
    }

    /// An element of `Performance`.
    pub fn to_json(&self) -> Value {
        let mut shape = self.to_summary_json();
        shape["Id"] = json!(self.number);
        shape["Completed"] = json!(self.completed);
        let steps = vec![
            step("Map", self.map_time, "MapDetails", self.map_details()),
            step("Storage/Commit", self.commit_time, "CommitDetails", Value::Null),
        ];
        let mut whole =
            step("Indexing", self.map_time + self.commit_time, "MapDetails", Value::Null);
        whole["Operations"] = Value::Array(steps);
        shape["Details"] = whole;
        shape
    }

    fn map_details(&self) -> Value {
        let reason =
            if self.has_more { "The batch was full" } else { "No more documents to index" };
        json!({
            "BatchCompleteReason": reason, "ProcessPrivateMemory": 0, "ProcessWorkingSet": 0,
            "CurrentlyAllocated": 0, "AllocationBudget": 0
        })
    }
}

/// A step of a batch, with the details of its kind.
fn step(name: &str, time: Duration, details: &str, of_kind: Value) -> Value {
    let mut shape = json!({
        "Name": name, "DurationInMs": milliseconds(time), "ReduceDetails": null,
        "MapDetails": null, "CleanupDetails": null, "LuceneMergeDetails": null,
        "CommitDetails": null, "Operations": [], "ReferenceDetails": null
    });
    shape[details] = of_kind;
    shape
}

/// To hundredths.
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
            has_more: false,
        };
        let shape = batch.to_json();
        assert_eq!((&shape["Id"], &shape["SuccessCount"]), (&json!(3), &json!(4)));
        assert_eq!(shape["DurationInMs"], 3.23);
        let steps = shape["Details"]["Operations"].as_array().expect("there are some");
        assert_eq!(steps[0]["DurationInMs"], 1.23);
        assert_eq!(steps[0]["MapDetails"]["BatchCompleteReason"], "No more documents to index");
        assert_eq!(
            (&steps[1]["Name"], &steps[1]["MapDetails"]),
            (&json!("Storage/Commit"), &Value::Null)
        );
    }
}
