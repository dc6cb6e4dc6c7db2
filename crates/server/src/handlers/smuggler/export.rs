//! `POST /smuggler/export`: a dump, produced while it is sent.
//!
//! The dump is compressed as the options say, whatever the client accepts: it is a file. One snapshot is read to
//! the end; an answer that is sent too slowly for that is cut off, and the operation says so.

use std::sync::Arc;

use engine::{DumpExport, Engine, ExportSources, SmugglerProgress};
use model::{CollectionName, date};
use security::SecretKey;
use smuggler::{DumpCompression, DumpEncoder, DumpEncryptor};
use storage::ReadTransaction;
use wire::{ErrorKind, SmugglerCompression, SmugglerOptions, operation_state::OperationStatus};
use zeroize::Zeroizing;

use super::{Running, is_administrator, leave_out_record_unless, options_of};
use crate::{
    answers::{
        answer::Answer,
        long_answer::{LongAnswer, no_reason},
        piece_sender::{PIECE_BYTES, PieceSender},
    },
    api_error::ApiError,
    call::Call,
    http::router::Answering,
};

/// `POST /smuggler/export`.
pub(crate) fn export(call: Call) -> Answering {
    Box::pin(async move {
        let running = Running::begin(&call, "Export", "DatabaseExport")?;
        match begin(&call) {
            Ok(job) => Ok(job.into_answer(&call, running)?),
            Err(error) => {
                running.end_with(&error);
                Err(error)
            }
        }
    })
}

/// An export that is about to begin.
struct Job {
    engine: Arc<Engine>,
    options: SmugglerOptions,
    collections: Vec<CollectionName>,
    sources: ExportSources,
    tx: ReadTransaction,
    /// Encrypts the file.
    key: Option<SecretKey>,
}

fn begin(call: &Call) -> Result<Job, ApiError> {
    let mut options = options_of(call)?;
    call.state.engine.check_transform_script(&options)?;
    leave_out_record_unless(&mut options, is_administrator(call)?);
    let collections = options.collections.iter().map(|name| CollectionName::new(name.as_str()));
    let collections = collections.collect::<Result<_, _>>();
    let collections = collections.map_err(|error| ApiError::argument(error.to_string()))?;
    let engine = Arc::clone(&call.state.engine);
    let sources = ExportSources {
        build_version: u64::from(call.state.build().build_version),
        record: call.database()?.record(),
        agreed: engine.cluster_state(),
        backup_file: None,
        since: None,
        now_ticks: engine.clock().now().ticks(),
    };
    let key = engine.smuggler_key(&options)?;
    Ok(Job { engine, options, collections, sources, tx: call.read()?, key })
}

impl Job {
    fn into_answer(self, call: &Call, running: Running) -> Result<Answer, ApiError> {
        let now = date::format(self.sources.now_ticks);
        let (day, minute) =
            (now.get(..10).unwrap_or_default(), now.get(11..16).unwrap_or_default());
        let name = self.options.file_name.clone().unwrap_or_else(|| {
            let minute = minute.replace(':', "-");
            format!("Dump of {} {day} {minute}", self.sources.record.name)
        });
        let disposition =
            format!("attachment; filename={}.ravendbdump", wire::percent_encode(&name));
        let write = async move |sender: &PieceSender, out: &mut Vec<u8>| {
            let operation = Arc::clone(&running.operation);
            let mut progress = SmugglerProgress::new(Some(operation), Arc::clone(&running.clock));
            let written = self.write(&running, &mut progress, sender, out).await;
            match &written {
                Ok(true) => running.end(OperationStatus::Smuggled(Box::new(progress.end()))),
                Ok(false) => drop(running),
                Err(error) => running.end_with(error),
            }
            written
        };
        let long = LongAnswer::new(call.database()?, "an export", no_reason, write);
        let answer = Answer::long(long).with_content_type("application/octet-stream");
        Ok(answer.with_header("content-disposition", &disposition))
    }

    /// `Ok(false)` if the client has gone, or reads too slowly.
    async fn write(
        &self,
        running: &Running,
        progress: &mut SmugglerProgress,
        sender: &PieceSender,
        out: &mut Vec<u8>,
    ) -> Result<bool, ApiError> {
        let Job { engine, options, collections, sources, tx, key } = self;
        let mut text = Vec::with_capacity(2 * PIECE_BYTES);
        let compression = match options.compression {
            SmugglerCompression::Zstd => DumpCompression::Zstd,
            SmugglerCompression::Gzip => DumpCompression::Gzip,
        };
        let encoder = DumpEncoder::new(compression).map_err(|error| failed(&error))?;
        let encryptor = key.as_ref().map(|key| engine.begin_encryption(key, out));
        let mut file = ExportedFile { encoder, encryptor };
        let mut export =
            DumpExport::begin(engine, tx.clone(), sources, options, collections, &mut text)?;
        loop {
            let has_more = export.step(progress, &mut text)?;
            if has_more && text.len() < PIECE_BYTES {
                continue;
            }
            running.check_wanted()?;
            file.write(&text, out).map_err(|error| failed(&error))?;
            text.clear();
            if !has_more {
                file.finish(out).map_err(|error| failed(&error))?;
                return Ok(true);
            }
            if !sender.send_if_enough(out).await {
                return Ok(false);
            }
        }
    }
}

/// The file on its way: compressed, and then encrypted if there is a key.
struct ExportedFile {
    encoder: DumpEncoder,
    encryptor: Option<DumpEncryptor>,
}

impl ExportedFile {
    fn write(&mut self, text: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let Some(encryptor) = &mut self.encryptor else { return self.encoder.write(text, out) };
        let mut compressed = Zeroizing::new(Vec::new());
        self.encoder.write(text, &mut compressed)?;
        encryptor.write(&compressed, out);
        Ok(())
    }

    fn finish(self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let Some(mut encryptor) = self.encryptor else { return self.encoder.finish(out) };
        let mut compressed = Zeroizing::new(Vec::new());
        self.encoder.finish(&mut compressed)?;
        encryptor.write(&compressed, out);
        encryptor.finish(out);
        Ok(())
    }
}

fn failed(error: &std::io::Error) -> ApiError {
    ApiError::new(ErrorKind::Internal, format!("The dump could not be compressed: {error}"))
}
