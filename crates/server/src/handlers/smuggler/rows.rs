//! `POST /smuggler/import/csv` and `/smuggler/import/jsonl`: documents in rows of CSV, or in lines of JSON. The form is that
//! of a dump; what is different is what reads the text of its file.

use smuggler::{CsvFormat, CsvHeaderError, RowEvent, RowFormat, RowReader};
use tokio::task::block_in_place;
use wire::{CsvImportOptions, ErrorKind};

use super::{
    Running,
    import::{LONG_ELEMENT_BYTES, Source, Work, begin_import},
};
use crate::{api_error::ApiError, call::Call, http::router::Answering, request_json::read_object};

/// The part of the form that says how fields are separated. It comes before the file.
pub(super) const CSV_OPTIONS: &str = "csvImportOptions";

/// `POST /smuggler/import/csv`.
pub(crate) fn import_csv(call: Call) -> Answering {
    Box::pin(async move {
        let collection = collection_of(&call);
        let format =
            RowFormat::Csv { format: CsvFormat::default(), collection: collection.clone() };
        let what =
            format!("Collection import from CSV: '{}'", collection.as_deref().unwrap_or_default());
        // Rows have the collection already.
        let source = Source::Rows { format, word: "Row", collection: None };
        let begin = |call: &Call| Running::described(call, what, "CollectionImportFromCsv");
        begin_import(call, source, "Import from csv requires form content type", begin).await
    })
}

/// `POST /smuggler/import/jsonl`, which RavenDB does not have.
pub(crate) fn import_lines(call: Call) -> Answering {
    Box::pin(async move {
        let collection = collection_of(&call);
        let source = Source::Rows { format: RowFormat::Lines, word: "Line", collection };
        let begin = |call: &Call| Running::begin(call, "Import of JSON lines to", "DatabaseImport");
        begin_import(call, source, "This endpoint requires form content type", begin).await
    })
}

fn collection_of(call: &Call) -> Option<String> {
    let query = call.query();
    query.get("collection").filter(|name| !name.trim().is_empty()).map(str::to_owned)
}

impl Source {
    /// Takes what a client says of its CSV.
    pub(super) fn read_csv_options(&mut self, sent: &[u8]) -> Result<(), ApiError> {
        let Source::Rows { format: RowFormat::Csv { format, .. }, .. } = self else {
            return Ok(());
        };
        let options = CsvImportOptions::read(&read_object(sent)?)?;
        let CsvImportOptions { delimiter, quote, comment, trims } = options;
        *format = CsvFormat { delimiter, quote, comment, trims };
        Ok(())
    }
}

impl Work<'_> {
    pub(super) async fn take_rows(
        &mut self,
        reader: &mut RowReader,
        text: &[u8],
    ) -> Result<(), ApiError> {
        let mut piece = text;
        loop {
            match reader.next(&mut piece).map_err(|error| no_header(&error))? {
                RowEvent::NeedMore => return Ok(()),
                event => self.take_row(event),
            }
            self.store_if_full().await?;
        }
    }

    pub(super) async fn finish_rows(&mut self, mut reader: RowReader) -> Result<(), ApiError> {
        while let Some(event) = reader.finish().map_err(|error| no_header(&error))? {
            self.take_row(event);
            self.store_if_full().await?;
        }
        self.import.end_rows();
        Ok(())
    }

    fn take_row(&mut self, event: RowEvent<'_>) {
        match event {
            RowEvent::NeedMore => {}
            RowEvent::Refused { number, reason } => {
                self.import.unreadable_row(number, &reason.to_string());
            }
            RowEvent::Document { text, number } => {
                let (state, import) = (&self.state, &mut self.import);
                let is_long = import.has_script() || LONG_ELEMENT_BYTES < text.len();
                let mut take = || state.with_builder(|builder| import.row(text, number, builder));
                // It takes its time, and other clients must not wait for it.
                if is_long { block_in_place(take) } else { take() }
            }
        }
    }
}

fn no_header(error: &CsvHeaderError) -> ApiError {
    ApiError::new(ErrorKind::InvalidData, format!("The file cannot be imported: {error}."))
}
