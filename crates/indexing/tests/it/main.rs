//! Indexes over documents in memory, their own files on a disk that loses power.

mod power_cuts;
