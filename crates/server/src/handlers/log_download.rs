//! `GET /admin/logs/download`: the log files of a range of days, as a zip archive.
//!
//! The archive is produced while it is sent, by a thread that waits for its client; a client that
//! is too slow loses its connection, which ends the thread. What is logged in the meantime is not
//! included.

#![expect(
    clippy::disallowed_methods,
    reason = "log files are not data, and crash tests do not cover them"
)]

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
    time::SystemTime,
};

use bytes::Bytes;
use chrono::{DateTime, Datelike, Timelike, Utc};
use model::date;
use tokio::sync::{OwnedSemaphorePermit, mpsc::Sender};
use wire::{ErrorKind, QueryString};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    answers::{
        answer::{Answer, Piece},
        piece_sender::PIECE_BYTES,
    },
    api_error::ApiError,
    call::Call,
    log_file_names::LogFileName,
    server_state::LOG_DOWNLOADS_MAX,
};

/// The only file of an archive without log files.
const NOTHING_FOUND: &str = "No logs matched the date range.txt";

/// `GET /admin/logs/download?from=&to=`: the files of the days between two timestamps, or of all
/// days.
pub(crate) fn download(call: &Call) -> Result<Answer, ApiError> {
    let span = Span::of(&call.query())?;
    let Some(directory) = call.state.engine.settings().logs.directory.clone() else {
        let message =
            "The server does not log to files: its setting 'Logs.Path' names no directory.";
        return Err(ApiError::invalid_operation(message));
    };
    let place = Arc::clone(&call.state.log_downloads).try_acquire_owned().map_err(|_| {
        let message =
            format!("{LOG_DOWNLOADS_MAX} downloads of logs are being sent. Try again later.");
        ApiError::new(ErrorKind::Overloaded, message)
    })?;
    let (answer, pieces) = Answer::stream();
    let archive = Archive { directory, span, pieces, _place: place };
    tokio::task::spawn_blocking(move || archive.send());
    let now = date::format(call.state.engine.clock().now().ticks());
    let node_tag = call.state.node_tag();
    let (day, time) = (now.get(..10).unwrap_or_default(), now.get(11..19).unwrap_or_default());
    let disposition =
        format!("attachment; filename=\"{day} {time} - Node [{node_tag}] - Logs.zip\"");
    Ok(answer.with_content_type("application/zip").with_header("content-disposition", &disposition))
}

/// The requested days, in ticks of UTC.
struct Span {
    from: Option<i64>,
    to: Option<i64>,
}

impl Span {
    fn of(query: &QueryString<'_>) -> Result<Span, ApiError> {
        let moment = |name: &str| {
            let Some(text) = query.get(name).filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            let moment = date::parse(text).map(|moment| moment.utc_ticks());
            moment.map(Some).ok_or_else(|| {
                ApiError::argument(format!(
                    "Could not parse query string '{name}' as date, val '{text}'"
                ))
            })
        };
        let span = Span { from: moment("from")?, to: moment("to")? };
        match (span.from, span.to) {
            (Some(from), Some(to)) if to <= from => Err(ApiError::argument(format!(
                "End Date '{}' must be greater than Start Date '{}'",
                date::format(to),
                date::format(from)
            ))),
            _ => Ok(span),
        }
    }

    fn has(&self, name: &LogFileName) -> bool {
        let day_of = |ticks: i64| date::format(ticks).get(..10).unwrap_or_default().to_owned();
        self.from.is_none_or(|from| day_of(from) <= name.day)
            && self.to.is_none_or(|to| name.day <= day_of(to))
    }
}

/// An archive on its way to a client.
struct Archive {
    directory: PathBuf,
    span: Span,
    pieces: Sender<Piece>,
    _place: OwnedSemaphorePermit,
}

impl Archive {
    fn send(self) {
        let sent = self.write();
        // A client that disconnected is no error; the connection of any other is aborted.
        if let Err(error) = sent
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            tracing::warn!(%error, "log files could not be sent");
        }
    }

    fn write(&self) -> io::Result<()> {
        let out = PieceWriter { pieces: self.pieces.clone(), gathered: Vec::new() };
        let mut zip = ZipWriter::new_stream(out);
        let mut names = LogFileName::all_in(&self.directory);
        names.retain(|name| self.span.has(name));
        for name in &names {
            // It may just have been deleted or compressed.
            let Ok(file) = File::open(self.directory.join(name.to_string())) else { continue };
            add(&mut zip, name, file)?;
        }
        if names.is_empty() {
            zip.start_file(NOTHING_FOUND, SimpleFileOptions::default())?;
            zip.write_all(b"No log files were found that matched the specified date range.")?;
        }
        zip.finish()?.into_inner().end()
    }
}

fn add<W: Write>(
    zip: &mut ZipWriter<zip::write::StreamWriter<W>>,
    name: &LogFileName,
    file: File,
) -> io::Result<()> {
    let metadata = file.metadata()?;
    let method = match name.is_compressed {
        true => CompressionMethod::Stored,
        false => CompressionMethod::Deflated,
    };
    let mut options = SimpleFileOptions::default()
        .compression_method(method)
        .large_file(u64::from(u32::MAX) <= metadata.len());
    if let Some(moment) = metadata.modified().ok().and_then(dos_time) {
        options = options.last_modified_time(moment);
    }
    zip.start_file(name.to_string(), options)?;
    io::copy(&mut file.take(metadata.len()), zip)?;
    Ok(())
}

/// A timestamp in the format of archives, if it is in their range.
fn dos_time(moment: SystemTime) -> Option<zip::DateTime> {
    let moment = DateTime::<Utc>::from(moment);
    let small = |number: u32| u8::try_from(number).ok();
    zip::DateTime::from_date_and_time(
        u16::try_from(moment.year()).ok()?,
        small(moment.month())?,
        small(moment.day())?,
        small(moment.hour())?,
        small(moment.minute())?,
        small(moment.second())?,
    )
    .ok()
}

/// Sends what is written, a piece at a time. Dropped before [`PieceWriter::end`], it aborts the
/// response.
struct PieceWriter {
    pieces: Sender<Piece>,
    gathered: Vec<u8>,
}

impl PieceWriter {
    fn end(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.gathered);
        self.send(Piece::Last(Bytes::from(rest)))
    }

    fn send(&self, piece: Piece) -> io::Result<()> {
        self.pieces.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if PIECE_BYTES <= self.gathered.len() {
            let piece = std::mem::take(&mut self.gathered);
            self.send(Piece::Part(Bytes::from(piece)))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
