//! Indexes over documents in memory, their own files on a disk that loses power.

mod failures;
mod fixture;
mod group_by;
mod leftovers;
mod map_lanes;
mod map_reduce;
mod map_reduce_histories;
mod measured_definitions;
mod memory;
mod missed_deletions;
mod moved_documents;
mod output_histories;
mod outputs;
mod power_cuts;
mod replacement;
mod reported_changes;
mod results;
mod strangers;
mod time_series_histories;
mod trees;
mod value_histories;
