//! `corvus export` and `corvus import`: a file of a running server's database, or one into it.
//!
//! A file that is exported gets its name when it is complete. Of an import that fails, the server says what was stored
//! before. Exit codes: 0 done; 1 it failed, or something could not be imported; 2 the command was not understood.

use std::{
    ffi::OsString,
    io::{self, Cursor, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc,
    time::Duration,
};

use engine::SequentialFile;
use platform::{Access, Disk, Platform, entropy::Entropy};
use security::SecretKey;
use serde_json::{Map, Value, json};
use wire::percent_encode;
use zeroize::Zeroizing;

use crate::{
    remote_server::{ACCESS_HELP, RemoteServer, message_of, text_of},
    transfer_options::{
        EXIT_CODES_HELP, EXPORT_HELP, FileFormat, IMPORT_HELP, ParsedCommand, TransferOptions,
    },
    transfer_progress::{Counted, TransferProgress},
};

const DONE: u8 = 0;
const FAILED: u8 = 1;
const NOT_UNDERSTOOD: u8 = 2;
/// Read and written at once.
const PIECE_BYTES: usize = 256 << 10;
/// The end of a file of JSON lines is looked at for what the server says of an export that failed.
const TAIL_BYTES: usize = 4 << 10;
/// Messages that are shown; all are counted.
const MESSAGES_MAX: usize = 50;
/// How often a server is asked what became of an import after the connection broke, and how long between.
const STATE_TRIES: usize = 10;
const STATE_PAUSE: Duration = Duration::from_millis(300);

/// Runs `corvus export` with the arguments that follow this word.
pub(crate) fn export(arguments: &[OsString]) -> ExitCode {
    run(arguments, EXPORT_HELP, true, |transfer| transfer.export())
}

/// Runs `corvus import` with the arguments that follow this word.
pub(crate) fn import(arguments: &[OsString]) -> ExitCode {
    run(arguments, IMPORT_HELP, false, |transfer| transfer.import())
}

fn run(
    arguments: &[OsString],
    help: &str,
    is_export: bool,
    work: fn(&Transfer<'_>) -> Result<u8, String>,
) -> ExitCode {
    let options = match TransferOptions::read(arguments, is_export) {
        Ok(ParsedCommand::Transfer(options)) => options,
        Ok(ParsedCommand::Help) => {
            say(&format!("{help}\n{ACCESS_HELP}{}", EXIT_CODES_HELP.trim_end()));
            return ExitCode::from(DONE);
        }
        Err(reason) => {
            complain(&format!(
                "corvus: {reason}\n\n{help}\n{ACCESS_HELP}{}",
                EXIT_CODES_HELP.trim_end()
            ));
            return ExitCode::from(NOT_UNDERSTOOD);
        }
    };
    let platform = Platform::real();
    let transfer = Transfer::new(&platform, &options);
    ExitCode::from(match transfer.and_then(|transfer| work(&transfer)) {
        Ok(code) => code,
        Err(reason) => {
            complain(&format!("corvus: {reason}"));
            FAILED
        }
    })
}

/// A closed pipe is not a failure.
fn say(text: &str) {
    drop(writeln!(io::stdout(), "{text}"));
}

fn complain(text: &str) {
    // Without standard error there is nowhere to report this.
    drop(writeln!(io::stderr(), "{text}"));
}

struct Transfer<'t> {
    disk: &'t dyn Disk,
    options: &'t TransferOptions,
    server: RemoteServer,
    key: Option<SecretKey>,
    /// Between the parts of the form of an import. It is random: a file that contains it would be taken for complete
    /// there.
    boundary: String,
}

impl Transfer<'_> {
    fn new<'t>(
        platform: &'t Platform,
        options: &'t TransferOptions,
    ) -> Result<Transfer<'t>, String> {
        let disk = &*platform.disk;
        let server = RemoteServer::new(disk, &options.url, &options.access)?;
        let key = options.key.as_ref().map(|path| read_key(disk, path)).transpose()?;
        Ok(Transfer { disk, options, server, key, boundary: new_boundary(&*platform.entropy) })
    }

    fn database(&self) -> String {
        format!("/databases/{}", percent_encode(&self.options.database))
    }

    /// The options of a dump.
    fn dump_options(&self) -> Value {
        let mut options = Map::new();
        if let Some(types) = &self.options.types {
            options.insert("OperateOnTypes".into(), json!(types));
        }
        if !self.options.collections.is_empty() {
            options.insert("Collections".into(), json!(self.options.collections));
        }
        if let Some(key) = &self.key {
            options.insert("EncryptionKey".into(), json!(model::base64_text(&*key.0)));
        }
        Value::Object(options)
    }
}

fn new_boundary(entropy: &dyn Entropy) -> String {
    let mut random = [0; 16];
    entropy.fill(&mut random);
    format!("corvus-{:032x}", u128::from_le_bytes(random))
}

fn read_key(disk: &dyn Disk, file: &Path) -> Result<SecretKey, String> {
    let shown = file.display();
    let read = disk.read_file(file);
    let mut text =
        Zeroizing::new(read.map_err(|error| format!("Cannot read the key {shown}: {error}"))?);
    SecretKey::read(&mut text)
        .ok_or_else(|| format!("{shown} is no key: it must have 32 bytes, or their base64"))
}

/// Exports.
impl Transfer<'_> {
    fn export(&self) -> Result<u8, String> {
        let answer = match self.options.format {
            FileFormat::Dump => {
                let options = self.dump_options().to_string();
                let target = format!("{}/smuggler/export", self.database());
                self.server.post(&target, "application/json", &mut options.as_bytes())?
            }
            FileFormat::Csv => self.server.get(&self.rows_target("csv"))?,
            FileFormat::Lines => self.server.get(&self.rows_target("jsonl"))?,
        };
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(message_of(status, &text_of(answer)?));
        }
        let mut progress = TransferProgress::begin(None);
        let file = &self.options.file;
        let unfinished = unfinished_name(file);
        let written = self.write_file(&unfinished, answer.into_body().into_reader(), &mut progress);
        progress.end();
        let finished = written.and_then(|()| {
            let renamed = self.disk.rename(&unfinished, file);
            renamed.map_err(|error| format!("Cannot rename to {}: {error}", file.display()))
        });
        if let Err(reason) = finished {
            // It has no name under which it would be taken for a whole file.
            drop(self.disk.remove_file(&unfinished));
            return Err(format!("{reason}. {} was not written", file.display()));
        }
        say(&format!("{} has {} bytes", file.display(), progress.bytes()));
        Ok(DONE)
    }

    fn rows_target(&self, format: &str) -> String {
        let query = match (&self.options.query, self.options.collections.first()) {
            (Some(query), _) => Some(query.clone()),
            (None, Some(collection)) => {
                Some(format!("from '{}'", collection.replace('\\', "\\\\").replace('\'', "\\'")))
            }
            (None, None) if format == "csv" => Some("from @all_docs".to_owned()),
            (None, None) => None,
        };
        let mut target = match query {
            Some(query) => {
                let (database, query) = (self.database(), percent_encode(&query));
                // An index that is behind would leave documents out.
                let wait = "waitForNonStaleResults=true&waitForNonStaleResultsTimeout=00:10:00";
                format!("{database}/streams/queries?format={format}&{wait}&query={query}")
            }
            None => format!("{}/streams/docs?format={format}", self.database()),
        };
        for field in &self.options.fields {
            target += &format!("&field={}", percent_encode(field));
        }
        target
    }

    fn write_file(
        &self,
        path: &Path,
        mut answer: impl Read,
        progress: &mut TransferProgress,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("Cannot write {}: {error}", path.display());
        let file = self.disk.create(path, Access::Buffered).map_err(failed)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut tail) = (0, Vec::new());
        loop {
            let bytes = answer.read(&mut piece);
            let bytes = bytes.map_err(|error| format!("The answer breaks off: {error}"))?;
            if bytes == 0 {
                break;
            }
            file.write_all_at(&piece[..bytes], at).map_err(failed)?;
            at += bytes as u64;
            progress.add(bytes as u64);
            tail.extend_from_slice(&piece[..bytes]);
            tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
        }
        if self.options.format == FileFormat::Lines
            && let Some(failure) = failure_in(&tail)
        {
            return Err(format!("The export failed: {failure}"));
        }
        file.sync_data().map_err(failed)
    }
}

fn unfinished_name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// What the last line says of an export that failed.
fn failure_in(tail: &[u8]) -> Option<String> {
    let line = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?;
    let line: Value = serde_json::from_slice(line).ok()?;
    let properties = line.as_object().filter(|line| line.len() == 1)?;
    properties.get("Error")?.as_str().map(str::to_owned)
}

/// Imports.
impl Transfer<'_> {
    fn import(&self) -> Result<u8, String> {
        let path = &self.options.file;
        let failed = |error: io::Error| format!("Cannot read {}: {error}", path.display());
        let file = self.disk.open(path, Access::Buffered).map_err(failed)?;
        let total = file.len().map_err(failed)?;
        let file = SequentialFile::open(self.disk, path).map_err(failed)?;
        let operation = self.next_operation()?;
        let target = self.import_target(operation);
        let mut progress = TransferProgress::begin(Some(total));
        let head = Zeroizing::new(self.form_head().into_bytes());
        let counted = Counted { reader: file, progress: &mut progress };
        let boundary = &self.boundary;
        let tail = format!("\r\n--{boundary}--\r\n");
        let mut body = Cursor::new(&*head).chain(counted).chain(Cursor::new(tail.as_bytes()));
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let answered = self.server.post(&target, &content_type, &mut body);
        progress.end();
        let answered = answered.and_then(|answer| Ok((answer.status().as_u16(), text_of(answer)?)));
        match answered {
            Ok((200, text)) => report(&text),
            Ok((status, text)) => Err(message_of(status, &text)),
            Err(reason) => Err(format!("{reason}. {}", self.fate_of(operation))),
        }
    }

    fn next_operation(&self) -> Result<i64, String> {
        let answer =
            self.server.get(&format!("{}/operations/next-operation-id", self.database()))?;
        let (status, text) = (answer.status().as_u16(), text_of(answer)?);
        let id = serde_json::from_str::<Value>(&text).ok().and_then(|body| body["Id"].as_i64());
        id.filter(|_| status == 200).ok_or_else(|| message_of(status, &text))
    }

    fn import_target(&self, operation: i64) -> String {
        let (database, options) = (self.database(), &self.options);
        let kind = match options.format {
            FileFormat::Dump => "",
            FileFormat::Csv => "/csv",
            FileFormat::Lines => "/jsonl",
        };
        let mut target = format!("{database}/smuggler/import{kind}?operationId={operation}");
        if options.format != FileFormat::Dump
            && let Some(collection) = options.collections.first()
        {
            target += &format!("&collection={}", percent_encode(collection));
        }
        target
    }

    /// The form up to the file.
    fn form_head(&self) -> String {
        let boundary = &self.boundary;
        let part =
            |name: &str| format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        let mut head = String::new();
        if self.options.format == FileFormat::Dump {
            head = format!("{}\r\n\r\n{}\r\n", part("importOptions"), self.dump_options());
        }
        head + &part("file") + "; filename=\"file\"\r\n\r\n"
    }

    /// What the server says of an import whose answer did not arrive.
    fn fate_of(&self, operation: i64) -> String {
        let target = format!("{}/operations/state?id={operation}", self.database());
        for _ in 0..STATE_TRIES {
            let state = self.server.get(&target).and_then(text_of).unwrap_or_default();
            let state: Value = serde_json::from_str(&state).unwrap_or_default();
            let message = state["Result"]["Message"].as_str();
            match state["Status"].as_str() {
                Some("InProgress") => pause(),
                Some(status) => {
                    let message = message.and_then(|text| text.lines().next()).unwrap_or_default();
                    return format!("The server says: {status}. {message}");
                }
                None => break,
            }
        }
        "The server does not say what was stored before: compare the database with the file".into()
    }
}

/// Waits. Nothing is ever sent.
fn pause() {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _elapsed = receiver.recv_timeout(STATE_PAUSE);
}

/// Shows what an import has done.
fn report(text: &str) -> Result<u8, String> {
    let result: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("the answer is no result: {error}"))?;
    let mut errors = 0;
    for (name, counts) in &result {
        let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
        errors += count(counts, "ErroredCount") + count(&counts["Attachments"], "ErroredCount");
        if counts["Skipped"] != true && 0 < count(counts, "ReadCount") {
            let (read, errored) = (count(counts, "ReadCount"), count(counts, "ErroredCount"));
            say(&format!("{read:>12} {name}, {errored} of them not imported"));
        }
    }
    let messages = result.get("Messages").and_then(Value::as_array).into_iter().flatten();
    let messages = messages
        .filter_map(Value::as_str)
        .filter(|text| text.contains(" ERROR] ") || text.contains(" WARNING] "));
    let (mut shown, mut more) = (0, 0);
    for message in messages {
        if shown < MESSAGES_MAX {
            complain(message);
            shown += 1;
        } else {
            more += 1;
        }
    }
    if 0 < more {
        complain(&format!("… and {more} more messages: see the result of the operation"));
    }
    Ok(if errors == 0 { DONE } else { FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_contain_what_separates_the_parts_of_an_earlier_form() {
        let entropy = Platform::simulated(1).platform.entropy;
        assert_ne!(new_boundary(&*entropy), new_boundary(&*entropy));
    }

    #[test]
    fn the_last_line_tells_whether_an_export_failed() {
        assert_eq!(failure_in(b"{\"a\":1}\r\n{\"Error\":\"x\"}\r\n").as_deref(), Some("x"));
        for whole in [&b""[..], b"{\"a\":1}\r\n", b"{\"Error\":\"x\",\"@metadata\":{}}\r\n"] {
            assert_eq!(failure_in(whole), None);
        }
    }
}
