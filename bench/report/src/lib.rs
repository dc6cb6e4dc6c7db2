//! report: the output of every benchmark.
//!
//! A benchmark gives a [`Report`] its figures, one [`Cell`] per column; the report compares them
//! with its [`Limit`]s, prints an aligned table and writes a JSON file and a chart.
//!
//! Not here: measuring anything. Invariant: there is a verdict only if everything that it compares
//! was measured in this run.

#![forbid(unsafe_code)]

mod date;
mod limit;
mod machine;
mod number;
mod plot;
mod results;
mod rounds;
mod table;

pub use crate::{
    date::UtcTime,
    limit::{Bound, Limit, Verdict},
    machine::Machine,
    results::{Better, Cell, Report, Row},
    rounds::{median, percentile, spread},
};
