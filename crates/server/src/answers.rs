//! Responses: complete ones and those that are produced while they are sent, with the memory that they
//! hold; and the parts that several handlers print.

pub(crate) mod answer;
pub(crate) mod answer_memory;
pub(crate) mod answer_places;
pub(crate) mod answer_share;
pub(crate) mod answer_threads;
pub(crate) mod compare_exchange_pages;
pub(crate) mod compare_exchange_text;
pub(crate) mod content_download;
pub(crate) mod counted_list;
pub(crate) mod counter_answer;
pub(crate) mod counter_includes;
pub(crate) mod csv_rows;
pub(crate) mod document_pages;
pub(crate) mod json_text;
pub(crate) mod long_answer;
pub(crate) mod patch_answer;
pub(crate) mod piece_sender;
pub(crate) mod query_notes;
pub(crate) mod query_timings;
pub(crate) mod revision_includes;
pub(crate) mod time_series_includes;
pub(crate) mod time_series_range;
pub(crate) mod time_series_text;
pub(crate) mod value_includes;
