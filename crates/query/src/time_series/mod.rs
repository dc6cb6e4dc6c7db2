//! Queries over time series: `timeseries(from …)` in `select`, and the functions that
//! `declare timeseries` declares.
//!
//! A series is read once, in order, from the snapshot of the query; only the open groups and the
//! text of the result are kept in memory.
//!
//! | file | what |
//! |---|---|
//! | `planned` | a syntax tree to a plan that depends on nothing but the row |
//! | `evaluation` | runs it for a row |
//! | `condition` | `where` |
//! | `groups`, `aggregation` | `group by`, interpolation, aggregations |
//! | `levels` | where rollups take over |
//! | `settings` | names of values, policies |
//! | `periods`, `length`, `moment_text` | moments and lengths of time |
//! | `reader`, `stored` | reading stored series |
//! | `script_calls` | calls from scripts of queries |
//! | `result`, `shown`, `numbers` | entries and groups as JSON, in the format of the response |

mod aggregation;
mod condition;
mod evaluation;
mod groups;
mod length;
mod levels;
mod moment_text;
mod numbers;
mod periods;
mod planned;
mod reader;
mod result;
mod script_calls;
mod settings;
mod shown;
mod stored;

pub use numbers::{Numbers, write_number};
pub use settings::{RollupPolicy, SeriesSettings};
pub use shown::SeriesForm;

pub(crate) use evaluation::RowDocuments;
pub(crate) use length::{TimeLength, length_of_unit};
pub(crate) use planned::PlannedSeries;
pub(crate) use script_calls::SeriesCalls;
pub(crate) use settings::NoSettings;
pub(crate) use shown::SeriesShown;
pub(crate) use stored::StoredSeries;
