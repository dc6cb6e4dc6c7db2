//! What a script loads: the host of its calls. It reads from the snapshot of the batch.

use blittable::BlittableBuf;
use documents::DocumentError;
use model::{CounterName, DocumentId};
use script::{DocumentInfo, Host, HostError, ScriptDocument};
use storage::Transaction;

/// How much one run may read and load.
const BYTES_MAX: usize = 64 << 20;
/// How many documents one run may load to the destination.
const LOADS_MAX: usize = 4096;
/// How many lines of output a run keeps.
const OUTPUT_MAX: usize = 1024;

/// A document that is loaded to the destination.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) collection: String,
    pub(crate) document: BlittableBuf,
    /// Whether it is a document, and not an object that the script made.
    pub(crate) is_stored: bool,
    /// Names at the source and at the destination.
    pub(crate) attachments: Vec<(String, String)>,
    pub(crate) counters: Vec<String>,
    /// Names, and ends of ranges in milliseconds since 1970.
    pub(crate) series: Vec<(String, Option<f64>, Option<f64>)>,
}

impl Load {
    /// Whether more than the document is loaded.
    pub(crate) fn has_additions(&self) -> bool {
        !(self.attachments.is_empty() && self.counters.is_empty() && self.series.is_empty())
    }
}

/// The host of one run.
pub(crate) struct Loads<'t, T> {
    tx: &'t T,
    pub(crate) loads: Vec<Load>,
    bytes: usize,
    /// Kept only if somebody wants to see it.
    pub(crate) output: Option<Vec<String>>,
}

impl<'t, T: Transaction> Loads<'t, T> {
    pub(crate) fn new(tx: &'t T, shows_output: bool) -> Self {
        Self { tx, loads: Vec::new(), bytes: 0, output: shows_output.then(Vec::new) }
    }

    fn take(&mut self, bytes: usize) -> Result<(), HostError> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes <= BYTES_MAX {
            true => Ok(()),
            false => {
                Err(format!("a script may not load more than {BYTES_MAX} bytes for one document")
                    .into())
            }
        }
    }

    fn load_numbered(&mut self, number: u32) -> Result<&mut Load, HostError> {
        let load = self.loads.get_mut(number as usize);
        load.ok_or_else(|| "nothing was loaded under this number".into())
    }
}

fn failed(error: impl Into<DocumentError>) -> HostError {
    error.into().to_string().into()
}

impl<T: Transaction> Host for Loads<'_, T> {
    fn load(&mut self, id: &str, _: Option<&str>) -> Result<Option<ScriptDocument>, HostError> {
        let id = DocumentId::new(id).map_err(failed)?;
        let Some(row) = documents::get(self.tx, &id).map_err(failed)? else { return Ok(None) };
        self.take(row.uncompressed_bytes())?;
        let info = DocumentInfo {
            id: row.id().into(),
            change_vector: row.change_vector().into(),
            last_modified_ticks: row.last_modified_ticks(),
        };
        Ok(Some(ScriptDocument::new(row.body().map_err(failed)?.to_buf(), info)))
    }

    fn load_to(
        &mut self,
        collection: &str,
        document: BlittableBuf,
        is_stored: bool,
    ) -> Result<u32, HostError> {
        self.take(document.as_bytes().len())?;
        if self.loads.len() == LOADS_MAX {
            return Err(format!("a script may not load more than {LOADS_MAX} documents").into());
        }
        self.loads.push(Load {
            collection: collection.to_owned(),
            document,
            is_stored,
            attachments: Vec::new(),
            counters: Vec::new(),
            series: Vec::new(),
        });
        Ok((self.loads.len() - 1) as u32)
    }

    fn add_attachment(&mut self, number: u32, name: &str, new_name: &str) -> Result<(), HostError> {
        self.take(name.len() + new_name.len())?;
        self.load_numbered(number)?.attachments.push((name.to_owned(), new_name.to_owned()));
        Ok(())
    }

    fn add_counter(&mut self, number: u32, name: &str) -> Result<(), HostError> {
        self.take(name.len())?;
        self.load_numbered(number)?.counters.push(name.to_owned());
        Ok(())
    }

    fn add_time_series(
        &mut self,
        number: u32,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<(), HostError> {
        self.take(name.len())?;
        self.load_numbered(number)?.series.push((name.to_owned(), from, to));
        Ok(())
    }

    fn counter(&mut self, id: &str, name: &str) -> Result<Option<i64>, HostError> {
        let id = DocumentId::new(id).map_err(failed)?;
        let Ok(name) = CounterName::new(name) else { return Ok(None) };
        let found = documents::counter(self.tx, &id, &name).map_err(failed)?;
        Ok(found.map(|found| found.total()))
    }

    fn output(&mut self, line: &str) {
        if let Some(output) = &mut self.output
            && output.len() < OUTPUT_MAX
            && self.bytes.saturating_add(line.len()) <= BYTES_MAX
        {
            self.bytes += line.len();
            output.push(line.to_owned());
        }
    }
}
