//! Log files: one a day at least, a new one when the last is large, and as many as the settings keep.
//!
//! [`LogFileName`] defines their names. A file that is closed may be compressed. These are not data:
//! nothing here is synced, and entries that cannot be written are lost.

#![expect(
    clippy::disallowed_methods,
    reason = "files of the process outside of the data, which crash tests do not cover"
)]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use model::date;
use platform::{Clock, Timestamp};
use server::LogFileName;
use settings::{AuditLogSettings, LogSettings};

/// Users other than the server's and its group need not know what databases there are.
const FILE_MODE: u32 = 0o640;
/// The size at which a file of the audit log is closed.
const AUDIT_FILE_BYTES_MAX: u64 = 64 << 20;

/// The files of one directory, to write whole entries to.
pub(crate) struct LogFiles {
    directory: PathBuf,
    limits: Limits,
    clock: Arc<dyn Clock>,
    open: OpenFile,
    is_json: bool,
    lost: Lost,
}

/// Entries that could not be written since the last one that was.
#[derive(Default)]
struct Lost {
    count: u64,
    error: String,
}

#[derive(Clone, Copy)]
struct Limits {
    file_bytes_max: u64,
    kept_for: Duration,
    kept_bytes_max: u64,
    is_compressed: bool,
}

/// The file that is written to.
struct OpenFile {
    file: File,
    path: PathBuf,
    day: String,
    number: u32,
    bytes: u64,
}

impl LogFiles {
    /// Opens the newest file of today, or starts one; `None` when the settings name no directory.
    ///
    /// # Errors
    /// When the directory cannot be created or written to.
    pub(crate) fn of(
        settings: &LogSettings,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Option<LogFiles>> {
        let Some(directory) = settings.directory.clone() else { return Ok(None) };
        let limits = Limits {
            file_bytes_max: settings.file_bytes_max,
            kept_for: settings.kept_for,
            kept_bytes_max: settings.kept_bytes_max,
            is_compressed: settings.is_compressed,
        };
        LogFiles::begin(directory, limits, settings.is_json, clock).map(Some)
    }

    /// The files of the audit log.
    ///
    /// # Errors
    /// As [`LogFiles::of`].
    pub(crate) fn of_audit(
        settings: &AuditLogSettings,
        clock: Arc<dyn Clock>,
    ) -> io::Result<LogFiles> {
        let limits = Limits {
            file_bytes_max: AUDIT_FILE_BYTES_MAX,
            kept_for: settings.kept_for,
            kept_bytes_max: u64::MAX,
            is_compressed: false,
        };
        LogFiles::begin(settings.directory.clone(), limits, true, clock)
    }

    fn begin(
        directory: PathBuf,
        limits: Limits,
        is_json: bool,
        clock: Arc<dyn Clock>,
    ) -> io::Result<LogFiles> {
        let day = day_of(clock.now());
        let number = newest_number(&directory, &day);
        let mut open = OpenFile::begin(&directory, day, number)?;
        if limits.file_bytes_max <= open.bytes {
            open = OpenFile::begin(&directory, open.day, number + 1)?;
        }
        let files = LogFiles { directory, limits, clock, open, is_json, lost: Lost::default() };
        files.delete_old();
        Ok(files)
    }

    /// Begins the next file, and deletes what need not be kept.
    fn next(&mut self, day: String) -> io::Result<()> {
        let number = if day == self.open.day { self.open.number + 1 } else { 0 };
        let next = OpenFile::begin(&self.directory, day, number)?;
        let closed = std::mem::replace(&mut self.open, next);
        if self.limits.is_compressed {
            compress(&closed.path);
        }
        self.delete_old();
        Ok(())
    }

    /// Deletions that fail now are retried with the next file.
    fn delete_old(&self) {
        let now = self.clock.now();
        let mut bytes = 0;
        for name in LogFileName::all_in(&self.directory).iter().rev() {
            let path = self.directory.join(name.to_string());
            let Ok(metadata) = fs::metadata(&path) else { continue };
            bytes += metadata.len();
            let written = metadata
                .modified()
                .ok()
                .and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
            let ends = Timestamp::from_unix(written.unwrap_or_default()).plus(self.limits.kept_for);
            let is_kept = bytes <= self.limits.kept_bytes_max && now <= ends;
            if !is_kept && path != self.open.path {
                drop(fs::remove_file(&path));
            }
        }
    }
}

impl LogFiles {
    fn write_entry(&mut self, entry: &[u8]) -> io::Result<()> {
        let day = day_of(self.clock.now());
        let is_full = self.limits.file_bytes_max < self.open.bytes + entry.len() as u64;
        if day != self.open.day || (is_full && self.open.bytes != 0) {
            self.next(day)?;
        }
        self.open.file.write_all(entry)?;
        self.open.bytes += entry.len() as u64;
        Ok(())
    }

    /// An entry that reports the lost ones.
    fn loss(&self) -> String {
        let (at, Lost { count, error }) = (date::format(self.clock.now().ticks()), &self.lost);
        let message = "log entries were lost";
        match self.is_json {
            true => {
                let fields =
                    serde_json::json!({"message": message, "count": count, "error": error});
                let entry = serde_json::json!({
                    "timestamp": at, "level": "WARN", "target": "corvus::log_files", "fields": fields
                });
                format!("{entry}\n")
            }
            false => {
                format!("{at}  WARN corvus::log_files: {message} count={count} error={error}\n")
            }
        }
    }
}

impl Write for LogFiles {
    /// Accepts every entry: a failure could not be reported anywhere. Losses are reported with the
    /// next entry that can be written.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let loss =
            if self.lost.count == 0 { Ok(()) } else { self.write_entry(self.loss().as_bytes()) };
        match loss.and_then(|()| self.write_entry(entry)) {
            Ok(()) => self.lost = Lost::default(),
            Err(error) => self.lost = Lost { count: self.lost.count + 1, error: error.to_string() },
        }
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OpenFile {
    fn begin(directory: &Path, day: String, number: u32) -> io::Result<OpenFile> {
        fs::create_dir_all(directory)?;
        let name = LogFileName { day: day.clone(), number, is_compressed: false };
        let path = directory.join(name.to_string());
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(FILE_MODE).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(OpenFile { file, path, day, number, bytes })
    }
}

fn day_of(moment: Timestamp) -> String {
    date::format(moment.ticks()).chars().take_while(|digit| *digit != 'T').collect()
}

/// The number of the newest file of a day; 0 when there is none. A compressed one is not continued.
fn newest_number(directory: &Path, day: &str) -> u32 {
    let names = LogFileName::all_in(directory);
    let newest = names.iter().rfind(|name| name.day == day);
    newest.map_or(0, |name| name.number + u32::from(name.is_compressed))
}

/// Replaces a file with a compressed one. If that fails, the file stays as it is.
fn compress(path: &Path) {
    let compressed = path.with_extension("log.gz");
    let of_no_use = if compress_to(&compressed, path).is_ok() { path } else { &compressed };
    drop(fs::remove_file(of_no_use));
}

fn compress_to(compressed: &Path, path: &Path) -> io::Result<()> {
    let options =
        OpenOptions::new().create(true).write(true).truncate(true).mode(FILE_MODE).to_owned();
    let mut encoder = GzEncoder::new(options.open(compressed)?, Compression::fast());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A clock that is set.
    struct Hands(Mutex<Timestamp>);

    impl Clock for Hands {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// The names of the log files of a directory.
    fn names(directory: &Path) -> Vec<String> {
        LogFileName::all_in(directory).iter().map(ToString::to_string).collect()
    }

    struct Bench {
        hands: Arc<Hands>,
        settings: LogSettings,
    }

    impl Bench {
        /// Files of at most 20 bytes, an hour before midnight.
        fn new(name: &str) -> Bench {
            let directory =
                std::env::temp_dir().join(format!("corvus-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&directory));
            let evening = date::parse("2026-11-23T23:00:00.0000000Z").unwrap().utc_ticks();
            let settings = LogSettings {
                mode: "Operations",
                level: None,
                is_json: false,
                directory: Some(directory),
                file_bytes_max: 20,
                kept_for: Duration::from_secs(100 * 365 * 86_400),
                kept_bytes_max: 1 << 20,
                is_compressed: false,
                slow_request_min: None,
            };
            let hands = Arc::new(Hands(Mutex::new(Timestamp::from_ticks(evening))));
            Bench { hands, settings }
        }

        fn files(&self) -> LogFiles {
            let clock = Arc::clone(&self.hands) as Arc<dyn Clock>;
            LogFiles::of(&self.settings, clock).unwrap().unwrap()
        }

        fn pass(&self, time: Duration) {
            let mut now = self.hands.0.lock().unwrap();
            *now = now.plus(time);
        }

        fn check(&self, expected: &[&str]) {
            assert_eq!(names(self.settings.directory.as_ref().unwrap()), expected);
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(self.settings.directory.as_ref().unwrap()));
        }
    }

    #[test]
    fn a_file_is_closed_when_it_is_full_and_when_the_day_ends() {
        let bench = Bench::new("full");
        let mut files = bench.files();
        files.write_all(b"the first entry\n").unwrap();
        files.write_all(b"1234\n").unwrap();
        bench.check(&["corvus-2026-11-23.000.log", "corvus-2026-11-23.001.log"]);
        bench.pass(Duration::from_secs(3600));
        files.write_all(b"an entry that is longer than a file may be\n").unwrap();
        let all =
            ["corvus-2026-11-23.000.log", "corvus-2026-11-23.001.log", "corvus-2026-11-24.000.log"];
        bench.check(&all);
        let first = files.directory.join(all[0]);
        assert_eq!(fs::read_to_string(first).unwrap(), "the first entry\n");
    }

    #[test]
    fn the_next_start_continues_the_file_of_the_day() {
        let bench = Bench::new("next-start");
        bench.files().write_all(b"one\n").unwrap();
        bench.files().write_all(b"two\n").unwrap();
        bench.check(&["corvus-2026-11-23.000.log"]);
        bench.files().write_all(&[b'x'; 20]).unwrap();
        drop(bench.files());
        bench.check(&[
            "corvus-2026-11-23.000.log",
            "corvus-2026-11-23.001.log",
            "corvus-2026-11-23.002.log",
        ]);
    }

    #[test]
    fn a_day_may_have_more_than_a_thousand_files() {
        let bench = Bench::new("thousand");
        let mut files = bench.files();
        files.open = OpenFile::begin(&files.directory, "2026-11-23".to_owned(), 999).unwrap();
        files.write_all(&[b'x'; 20]).unwrap();
        files.write_all(b"the newest\n").unwrap();
        drop(files);
        bench.files().write_all(b"later\n").unwrap();
        let newest = bench.settings.directory.as_ref().unwrap().join("corvus-2026-11-23.1000.log");
        assert_eq!(fs::read_to_string(newest).unwrap(), "the newest\nlater\n");
    }

    #[test]
    fn so_many_files_are_kept_as_their_size_and_age_allow() {
        let mut bench = Bench::new("kept");
        bench.settings.kept_bytes_max = 45;
        let mut files = bench.files();
        for _ in 0..5 {
            files.write_all(&[b'x'; 20]).unwrap();
        }
        bench.check(&[
            "corvus-2026-11-23.002.log",
            "corvus-2026-11-23.003.log",
            "corvus-2026-11-23.004.log",
        ]);
        // The files were written now, whatever the clock says.
        bench.settings.kept_for = Duration::from_secs(60);
        bench.pass(Duration::from_secs(100 * 365 * 86_400));
        drop(bench.files());
        assert_eq!(names(bench.settings.directory.as_ref().unwrap()).len(), 1);
    }

    #[test]
    fn files_that_are_closed_may_be_compressed() {
        let mut bench = Bench::new("compressed");
        bench.settings.is_compressed = true;
        let mut files = bench.files();
        files.write_all(b"the first entry\n").unwrap();
        files.write_all(b"the second entry\n").unwrap();
        bench.check(&["corvus-2026-11-23.000.log.gz", "corvus-2026-11-23.001.log"]);
        let closed = File::open(files.directory.join("corvus-2026-11-23.000.log.gz")).unwrap();
        let text = io::read_to_string(flate2::read::GzDecoder::new(closed)).unwrap();
        assert_eq!(text, "the first entry\n");
    }

    #[test]
    fn what_was_lost_is_said_when_entries_can_be_written_again() {
        let bench = Bench::new("lost");
        let mut files = bench.files();
        files.write_all(&[b'x'; 20]).unwrap();
        let next = files.directory.join("corvus-2026-11-23.001.log");
        fs::create_dir_all(&next).unwrap();
        files.write_all(b"lost\n").unwrap();
        files.write_all(b"lost, too\n").unwrap();
        fs::remove_dir_all(&files.directory).unwrap();
        files.write_all(b"written\n").unwrap();
        let text: String = names(&files.directory)
            .iter()
            .map(|name| fs::read_to_string(files.directory.join(name)).unwrap())
            .collect();
        let (loss, rest) = text.split_once('\n').unwrap();
        assert!(
            loss.contains("WARN corvus::log_files: log entries were lost count=2 error="),
            "{loss}"
        );
        assert_eq!(rest, "written\n");
    }

    #[test]
    fn what_cannot_be_compressed_is_kept_and_no_entry_is_lost() {
        let mut bench = Bench::new("not-compressed");
        bench.settings.is_compressed = true;
        let mut files = bench.files();
        let first = files.directory.join("corvus-2026-11-23.000.log");
        // A non-empty directory is in place of the compressed file.
        fs::create_dir_all(first.with_extension("log.gz").join("something")).unwrap();
        files.write_all(b"the first entry\n").unwrap();
        files.write_all(b"the second entry\n").unwrap();
        assert_eq!(fs::read_to_string(first).unwrap(), "the first entry\n");
        let second = files.directory.join("corvus-2026-11-23.001.log");
        assert_eq!(fs::read_to_string(second).unwrap(), "the second entry\n");
    }
}
