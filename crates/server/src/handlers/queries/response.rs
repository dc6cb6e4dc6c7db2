//! Writes the response of a query: a page, a stream, lines of JSON or CSV.

use std::time::Duration;

use documents::DocumentRow;
use query::{QueryError, QueryResult};
use storage::{ReadTransaction, WorkingMemory};

use super::{Prepared, Shape};
use crate::{
    answers::{
        counter_includes,
        csv_rows::{self, CsvRows},
        json_text::{Commas, JsonObject, is_large, write_large_to, write_texts},
        long_answer::Sink,
        query_notes,
        query_timings::QueryTimings,
        revision_includes, time_series_includes, value_includes,
    },
    api_error::ApiError,
    handlers::{
        query_memory::forget_after,
        query_pages::{
            PageHead, RowsHead, after_results, write_page_tail, write_stream_head,
            write_stream_statistics,
        },
    },
    server_state::ServerState,
};

/// How many copies of a row exist while it is converted to CSV, besides its JSON.
const CSV_COPIES: u64 = 3;
/// Separates JSON rows until they are converted to CSV: printed JSON has no line breaks.
const BETWEEN_CSV_ROWS: &[u8] = b"\n";

impl Prepared {
    /// The columns of CSV, as far as they do not depend on its rows.
    fn csv_columns(&self, result: &QueryResult<'_, ReadTransaction>) -> Vec<String> {
        match result.series_columns() {
            Some(columns) if self.csv_fields.is_empty() => {
                let first = ["@id", "@metadata.@projection"].map(str::to_owned);
                first.into_iter().chain(columns).collect()
            }
            _ => self.csv_fields.clone(),
        }
    }

    /// Writes the whole response; `false` when `sink` requests to stop.
    pub(super) async fn write(
        &self,
        state: &ServerState,
        result: QueryResult<'_, ReadTransaction>,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let memory = sink.working_memory();
        let mut result = result.counted_in(&memory);
        self.with_room(sink, || result.expect_notes()).await?;
        let found = state.engine.clock().monotonic();
        match self.shape {
            Shape::Page => {
                let skipped = self
                    .with_room_to_count(sink, &mut result, |result| result.skipped_results())
                    .await?;
                self.write_page_head(state, &result, skipped, out);
            }
            Shape::Stream => write_stream_head(&result, out),
            Shape::Lines => {
                let mut line = JsonObject::begin(out);
                let mut statistics = JsonObject::begin(line.name("Stats"));
                write_stream_statistics(&result, &mut statistics);
                statistics.end();
                line.end();
                out.extend_from_slice(b"\r\n");
            }
            Shape::Csv => out.extend_from_slice(csv_rows::BYTE_ORDER_MARK),
        }
        if !self.write_rows(&mut result, &memory, out, sink).await? {
            return Ok(false);
        }
        match self.shape {
            Shape::Page => {
                let mut page = after_results(out);
                let is_whole =
                    self.write_after_rows(state, found, &mut result, &mut page, sink).await?;
                if is_whole {
                    page.end();
                }
                Ok(is_whole)
            }
            Shape::Stream => {
                after_results(out).end();
                Ok(true)
            }
            Shape::Lines | Shape::Csv => Ok(true),
        }
    }

    /// Writes the rows; `false` when `sink` requests to stop.
    pub(super) async fn write_rows(
        &self,
        result: &mut QueryResult<'_, ReadTransaction>,
        memory: &WorkingMemory,
        out: &mut Vec<u8>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let mut commas = Commas::default();
        let mut csv = CsvRows::new(&self.csv_columns(result));
        while let Some(row) = self.with_room(sink, || result.next_row()).await? {
            self.refuse_when_stopped()?;
            let (end, commas_before) = (out.len(), commas);
            match self.shape {
                Shape::Page | Shape::Stream => commas.before_next(out),
                Shape::Lines => out.extend_from_slice(b"{\"Item\":"),
                Shape::Csv => {}
            }
            let begin = out.len();
            if let Some((document, more)) = self.large_document(result, &row) {
                if !write_large_to(sink, document, &more, out).await? {
                    return Ok(false);
                }
            } else {
                let written = sink.with_room(|| {
                    self.refuse_when_stopped()?;
                    let scope = memory.scope();
                    let written = self.write_whole_row(result, &row, memory, &mut csv, out);
                    if written.is_err() {
                        forget_after(begin, out);
                    }
                    sink.end_row(scope, out);
                    written
                });
                if let Err(error) = written.await {
                    // Only whole rows were written.
                    out.truncate(end);
                    return Err(error);
                }
                if out.len() == begin {
                    // A script produced no row from this document.
                    out.truncate(end);
                    commas = commas_before;
                    continue;
                }
            }
            if self.shape == Shape::Lines {
                out.extend_from_slice(b"}\r\n");
            }
            if !sink.take(out).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The document that a row returns, if it is to be printed in pieces.
    fn large_document<'r, 't>(
        &self,
        result: &QueryResult<'t, ReadTransaction>,
        row: &'r query::Row<'t>,
    ) -> Option<(&'r DocumentRow<'t>, Vec<u8>)> {
        let is_in_pieces = !self.metadata_only && self.shape != Shape::Csv;
        let is_large = is_in_pieces && row.document.stored().is_some_and(is_large);
        is_large.then(|| result.whole_document(row)).flatten()
    }

    /// Appends a row in the format of the response, without its surroundings.
    fn write_whole_row<'t>(
        &self,
        result: &mut QueryResult<'t, ReadTransaction>,
        row: &query::Row<'t>,
        memory: &WorkingMemory,
        csv: &mut CsvRows,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        if self.shape != Shape::Csv {
            return self.write_row(result, row, out);
        }
        let mut json = Vec::new();
        self.write_row(result, row, &mut json)?;
        // The text is parsed, and its cells become lines.
        let taken = memory.take(CSV_COPIES * json.len() as u64);
        taken.map_err(|exhausted| ApiError::from(QueryError::from(exhausted)))?;
        let rows = json.split(|byte| *byte == BETWEEN_CSV_ROWS[0]);
        rows.filter(|row| !row.is_empty()).try_for_each(|row| csv.write(row, out))
    }

    /// Adds what follows the rows of a page, which were found at `found`; `false` when `sink`
    /// requests to stop.
    async fn write_after_rows(
        &self,
        state: &ServerState,
        found: Duration,
        result: &mut QueryResult<'_, ReadTransaction>,
        page: &mut JsonObject<'_>,
        sink: Sink<'_>,
    ) -> Result<bool, ApiError> {
        let (includes, facts, node_tag) = (result.includes(), result.facts(), state.node_tag());
        if !write_page_tail(includes, facts, &node_tag, page, sink).await? {
            return Ok(false);
        }
        if !revision_includes::write(result.revisions(), page, sink).await? {
            return Ok(false);
        }
        query_notes::write(result.notes(), page);
        self.write_additions(state, found, page);
        if let Some(counters) = result.counters() {
            let written = counter_includes::write(counters, page, sink).await
                && counter_includes::write_names(counters, page, sink).await;
            if !written {
                return Ok(false);
            }
        }
        if self.reports_value_names
            && let Some(names) = result.series_fields()
        {
            write_texts(names, page.name("TimeSeriesFields"));
        }
        if let Some((included, values)) = result.included_values() {
            value_includes::write(&included, values, page)?;
        }
        let Some(series) = result.included_series() else { return Ok(true) };
        time_series_includes::write_of_query(result.documents(), series, page, sink).await
    }

    /// Adds what the request wants after everything else. The rows were found at `found`.
    pub(crate) fn write_additions(
        &self,
        state: &ServerState,
        found: Duration,
        page: &mut JsonObject<'_>,
    ) {
        if query::wants_timings(&self.bound.query) {
            let timings = QueryTimings { found: Some(found), ..self.timings };
            let ended = state.engine.clock().monotonic();
            let timings = timings.shape(self.began, ended).to_string();
            page.name("Timings").extend_from_slice(timings.as_bytes());
        }
        if self.shows_query {
            page.text("ServerSideQuery", &self.bound.query.to_string());
        }
    }

    /// The separator of rows that a script produces from one document.
    fn between_rows(&self) -> &'static [u8] {
        match self.shape {
            Shape::Page | Shape::Stream => b",",
            Shape::Lines => b"}\r\n{\"Item\":",
            Shape::Csv => BETWEEN_CSV_ROWS,
        }
    }

    fn write_row<'t>(
        &self,
        result: &mut QueryResult<'t, ReadTransaction>,
        row: &query::Row<'t>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        match self.metadata_only {
            true => {
                result.write_row_metadata(row, self.between_rows(), out).map_err(ApiError::from)
            }
            false => result.write_row(row, self.between_rows(), out).map_err(ApiError::from),
        }
    }

    fn write_page_head(
        &self,
        state: &ServerState,
        result: &QueryResult<'_, ReadTransaction>,
        skipped: u64,
        out: &mut Vec<u8>,
    ) {
        let elapsed = state.engine.clock().monotonic().saturating_sub(self.began);
        let rows = RowsHead {
            capped_max_results: result.capped_max_results(),
            scanned_results: result.scanned_results(),
            skipped_results: skipped,
            included_paths: result.included_paths(),
        };
        PageHead { facts: result.facts(), elapsed, rows: Some(rows) }.write(out);
    }
}
