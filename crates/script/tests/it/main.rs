//! Scripts run from outside, as the server will run them.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod documents;
mod dotnet_texts;
mod errors;
mod etl;
mod hostile;
mod map_context;
mod maps;
mod names;
mod nulls;
mod patches;
mod projections;
mod soup;
mod world;
