//! Queries over a database in memory, seen from outside.

mod collection_queries;
mod fixture;
mod generated_facets;
mod generated_queries;
mod naive;
mod naive_filter;
mod row_memory;
mod time_series;
