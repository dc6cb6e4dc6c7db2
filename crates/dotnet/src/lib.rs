//! Moments, durations and numbers as .NET reads, converts and writes them, which definitions in C# and
//! scripts show to clients.
//!
//! | module | what |
//! |---|---|
//! | `date` | moments, the calendar, and which texts are moments or durations |
//! | `date_format`, `span_format`, `number_format` | `ToString(format)` |
//! | `culture` | how countries write them |
//! | `number` | digits of documents as integers, doubles and decimals |
//! | `text_encoding` | bytes as texts |
#![forbid(unsafe_code)]

pub mod culture;
pub mod date;
pub mod date_format;
pub mod number;
pub mod number_format;
pub mod span_format;
pub mod text_encoding;
