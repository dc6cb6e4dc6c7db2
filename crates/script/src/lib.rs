//! JavaScript for index definitions, projections and patches, on QuickJS.
//!
//! Documents are read in place, missing values are null instead of errors, and every run has a
//! budget of steps, time, memory and nesting. This crate knows no databases: functions of the
//! outside are lent to scripts as a [`Host`].
//!
//! | file | what |
//! |---|---|
//! | `engine`, `pool`, `counted_allocator` | one engine per thread: compiled programs, cleaning up after a run |
//! | `budget` | steps and time |
//! | `program`, `parameters` | the text that the engine sees, and positions mapped back |
//! | `prelude.js`, `natives`, `attachments`, `dotnet_texts`, `host` | the global scope and the functions behind it |
//! | `source`, `object` | documents as lazy, copy-on-write JavaScript objects |
//! | `value`, `convert`, `to_js`, `number`, `date` | values converted out and in |
//! | `map`, `map.js`, `index_field` | index definitions |
//! | `etl`, `etl.js` | transformations of ETL tasks |
//! | `console`, `console.js` | scripts of the administrators' console |
//! | `projection`, `patch` | expressions over rows, and changes of a document |
//! | `error`, `fault` | errors |
//!
//! QuickJS is patched (`third_party/rquickjs-sys/CORVUS.md`, ADR 6): reading from null yields null,
//! and builtins check the budget, too.
#![deny(unsafe_code)]

mod attachments;
mod budget;
mod console;
mod convert;
mod counted_allocator;
mod date;
mod dotnet_texts;
mod engine;
mod error;
mod etl;
mod fault;
mod host;
mod index_field;
mod map;
mod natives;
mod number;
mod object;
mod parameters;
mod patch;
mod pool;
mod program;
mod projection;
mod source;
mod to_js;
mod value;

pub use budget::{Budget, RESULT_BYTES_MAX_DEFAULT, STEPS_MAX_DEFAULT, TIME_MAX_DEFAULT};
pub use console::ConsoleScript;
pub use convert::{ARRAY_LENGTH_MAX, DEPTH_MAX};
pub use date::date_text;
pub use engine::{Engine, MEMORY_BYTES_MAX_DEFAULT, PROGRAMS_MAX};
pub use error::{Exhausted, HostError, Position, Refusal, ScriptError};
pub use etl::EtlScript;
pub use host::{Attachment, Host, NoHost, SeriesArgument, TimeSeriesEntry, TimeSeriesStats};
pub use index_field::{FieldValue, IndexEntry, IndexField, InlineOptions};
pub use map::{FieldNames, MapInfo, MapKind, MapScript};
pub use number::{double_text, whole};
pub use patch::{PatchLoad, PatchScript, PatchText, Patched};
pub use pool::ScriptPool;
pub use program::PROGRAM_BYTES_MAX;
pub use projection::{Argument, BoundProjection, Projection};
pub use source::{DocumentInfo, ScriptDocument};
pub use value::{Properties, ScriptValue, StoredObject};
