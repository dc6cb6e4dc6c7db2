//! `corvus offline check|compact|salvage|…`: commands on a data directory that no server uses.
//!
//! A directory is one environment (a database's directory, or `System`), or a data directory with
//! several below it. Exit codes: 0 sound, or done; 1 damage was found, something could not be
//! recovered, or the work failed; 2 the command was not understood, the directory is empty, or an
//! environment was left as it is, because a server uses it or its journals are missing.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    io::{self, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use documents::{DatabaseIdentity, DocumentError, NamedIds, RowKind, SalvageReport};
use engine::SYSTEM_DIRECTORY;
use model::{DatabaseId, NodeTag};
use platform::{DirectoryLock, Disk, Platform};
use storage::{
    CompactProgress, EncryptionKey, Environment, EnvironmentOptions, Salvage, SalvageFindings,
    StorageError,
};

use crate::{
    offline_adopt,
    offline_keys::{KeyCommand, KeyPlaces},
};

const HELP: &str = "\
Usage: corvus offline check <directory> [--journals=<directory>] [--key=<file>]
       corvus offline compact <directory> [--journals=<directory>] [--key=<file>]
       corvus offline salvage <directory> <new directory> [--journals=<directory>] [--key=<file>]
       corvus offline get-key <data directory> <database> [--master-key=<file>]
       corvus offline put-key <data directory> <database> --key=<file> [--master-key=<file>]
       corvus offline encrypt|rotate-key <data directory> <database> [--key=<file>]
                      [--master-key=<file>] [--journals=<directory>]
       corvus offline decrypt <data directory> <database> [--master-key=<file>]
                      [--journals=<directory>]
       corvus offline adopt <data directory> [<database>] [--key=<file>] [--master-key=<file>]
                      [--journals=<directory>]

check    reads everything and reports what is damaged
compact  rewrites the files without unused space; needs free space for a copy
salvage  copies what can still be read to a new directory; the old one is not changed
get-key  prints the key of an encrypted database
put-key  stores the key of an encrypted database whose files were brought from elsewhere
encrypt, decrypt, rotate-key
         rewrite a database and its indexes encrypted, not encrypted, or with another key: the one in
         --key, or a new one, which get-key prints. They need free space for a copy. Whatever
         interrupts them, the database is what it was, or what it is to be. What decrypt has
         written by then is plaintext, and is removed when the database is opened
adopt    adds a database whose files exist but whose record does not, or confirms files that took the
         place of those of a database; without a name, lists such databases

<directory> is that of one database, or a whole data directory (not for salvage). --journals names
the directory of Storage.JournalsPath, if the server has one. --key names a file with the key of an
encrypted database, as get-key prints it; --master-key the file of Security.MasterKey.Path, if the
server has one; for Security.MasterKey.Exec, a file with what the program writes. Stop the server
first.
";
/// Arguments that request only the help text.
const HELP_WORDS: [&str; 4] = ["--help", "-h", "-?", "help"];
pub(crate) const SOUND: u8 = 0;
pub(crate) const DAMAGED: u8 = 1;
pub(crate) const NOTHING_DONE: u8 = 2;
const DATA_FILE: &str = "corvus.data";
const JOURNALS: &str = "journals";
const JOURNALS_OPTION: &str = "--journals=";
pub(crate) const KEY_OPTION: &str = "--key=";
const MASTER_KEY_OPTION: &str = "--master-key=";
/// A data directory, `Databases`, and the directories in it.
const DEPTH_MAX: usize = 3;
/// Damaged documents, lost ids and pages printed per list; all are counted.
const LINES_MAX: usize = 20;

/// Runs `corvus offline` with the arguments that follow these words.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let (platform, out) = (Platform::real(), &mut io::stdout());
    ExitCode::from(Offline { platform, key: None, out }.run(arguments))
}

/// An environment to work on, and its name in the output.
struct Ward {
    options: EnvironmentOptions,
}

impl fmt::Display for Ward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.directory.display().fmt(formatter)
    }
}

/// A server has the data directory.
struct InUse;

pub(crate) struct Offline<'o> {
    pub(crate) platform: Platform,
    /// The file with the key of encrypted environments.
    pub(crate) key: Option<PathBuf>,
    pub(crate) out: &'o mut dyn Write,
}

impl Offline<'_> {
    pub(crate) fn run(&mut self, arguments: &[OsString]) -> u8 {
        if arguments.iter().any(|word| HELP_WORDS.iter().any(|help| word == help)) {
            self.help();
            return SOUND;
        }
        let (options, words): (Vec<_>, Vec<_>) =
            arguments.iter().partition(|word| word.as_encoded_bytes().starts_with(b"--"));
        let (mut journals, mut key, mut master_key) = (None, None, None);
        for option in options {
            let named = [
                (JOURNALS_OPTION, &mut journals),
                (KEY_OPTION, &mut key),
                (MASTER_KEY_OPTION, &mut master_key),
            ];
            let mut taken = named.into_iter().filter_map(|(name, place)| {
                path_option(option, name)
                    .filter(|_| place.is_none())
                    .map(|path| *place = Some(path))
            });
            if taken.next().is_none() {
                return self.help();
            }
        }
        self.key = key;
        let locked = words.get(1).map(|word| self.lock(Path::new(word))).transpose();
        let Ok(_lock) = locked else { return NOTHING_DONE };
        match words.as_slice() {
            [command, data, name] if let Some(command) = KeyCommand::named(command) => {
                let places = KeyPlaces { data: data.into(), master_key, journals };
                self.key_command(command, &name.to_string_lossy(), &places)
            }
            [command, directory] if *command == "check" => {
                self.each(Path::new(directory), journals, Self::check)
            }
            [command, directory] if *command == "compact" => {
                self.each(Path::new(directory), journals, Self::compact)
            }
            [command, directory, target] if *command == "salvage" => {
                self.salvage(Path::new(directory), journals, Path::new(target))
            }
            [command, data, names @ ..] if *command == "adopt" && names.len() <= 1 => {
                let places = KeyPlaces { data: data.into(), master_key, journals };
                self.adopt(&places, names.first().copied())
            }
            _ => self.help(),
        }
    }

    /// Takes the lock of the data directory that contains `directory` or is that directory: a
    /// server that holds it may open any of its databases at any moment. `None` when there is no
    /// such directory.
    ///
    /// # Errors
    /// When another process holds it, which has been printed.
    fn lock(&mut self, directory: &Path) -> Result<Option<Box<dyn DirectoryLock>>, InUse> {
        let disk = Arc::clone(&self.platform.disk);
        let is_data = |path: &&Path| disk.exists(&path.join(SYSTEM_DIRECTORY)).unwrap_or(false);
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
        // What leads nowhere has no files.
        let directory = disk.resolve(&directory).unwrap_or(directory);
        let Some(data) = directory.ancestors().take(DEPTH_MAX + 1).find(is_data) else {
            return Ok(None);
        };
        match disk.lock_dir(data) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.say(format_args!("A server has {} open. Stop it first.", data.display()));
                Err(InUse)
            }
            // What cannot be locked cannot be opened either, and opening reports why.
            Err(_) => Ok(None),
        }
    }

    fn adopt(&mut self, places: &KeyPlaces, name: Option<&OsString>) -> u8 {
        let Some(name) = name.map(|name| name.to_str()).map_or(Some(None), |name| name.map(Some))
        else {
            return self.help();
        };
        // The key is the one that is given, or else the stored one.
        let given = match self.key {
            Some(_) => match self.read_key() {
                Some(key) => Some(key),
                None => return NOTHING_DONE,
            },
            None => None,
        };
        match offline_adopt::run(&self.platform, self.out, places, given, name) {
            true => SOUND,
            false => NOTHING_DONE,
        }
    }

    /// The options of an environment, with its key if it is encrypted; `None`, and a message, when that cannot be read.
    fn options(&mut self, directory: &Path) -> Option<EnvironmentOptions> {
        let mut options = EnvironmentOptions::new(directory);
        // Of a damaged header nothing is known, and whoever names a key says that there is one.
        let is_encrypted = storage::is_encrypted_in(&self.platform, directory).ok().flatten();
        if is_encrypted.unwrap_or(self.key.is_some()) {
            let mut key = self.read_key()?;
            match EncryptionKey::take(&mut key.0) {
                Ok(key) => options.encryption_key = Some(key),
                Err(error) => {
                    self.say(format_args!("{}: {error}", directory.display()));
                    return None;
                }
            }
        }
        Some(options)
    }

    fn help(&mut self) -> u8 {
        self.say(format_args!("{}", HELP.trim_end()));
        NOTHING_DONE
    }

    /// When writing fails, the output is closed; the exit code still reports the result.
    pub(crate) fn say(&mut self, text: fmt::Arguments<'_>) {
        drop(writeln!(self.out, "{text}"));
    }

    /// Does the work for every environment in or below the directory. Returns the worst result.
    fn each(
        &mut self,
        directory: &Path,
        journals: Option<PathBuf>,
        work: fn(&mut Self, &Ward) -> u8,
    ) -> u8 {
        let mut found = Vec::new();
        find_environments(&*self.platform.disk, directory, DEPTH_MAX, &mut found);
        if found.is_empty() {
            self.say(format_args!("{} holds no data of Corvus.", directory.display()));
            return NOTHING_DONE;
        }
        let mut worst = SOUND;
        for environment in found {
            let code = match self.ward(&environment, directory, journals.as_deref()) {
                Some(ward) => work(self, &ward),
                None => NOTHING_DONE,
            };
            worst = match (worst, code) {
                (DAMAGED, _) | (_, DAMAGED) => DAMAGED,
                (worst, code) => worst.max(code),
            };
        }
        worst
    }

    /// Finds the journals of an environment. Opening one without its journals would lose what is
    /// only in them, so a missing directory stops the work.
    fn ward(&mut self, directory: &Path, asked: &Path, journals: Option<&Path>) -> Option<Ward> {
        let mut options = self.options(directory)?;
        if let Some(journals) = journals {
            let below =
                directory.file_name().map_or(journals.to_owned(), |name| journals.join(name));
            let own = if directory == asked { journals.to_owned() } else { below };
            if self.platform.disk.exists(&own).unwrap_or(false) {
                options.journals_directory = Some(own);
                return Some(Ward { options });
            }
        }
        if self.platform.disk.exists(&directory.join(JOURNALS)).unwrap_or(false) {
            return Some(Ward { options });
        }
        self.say(format_args!(
            "{}: its journals are not there. If the server has a Storage.JournalsPath, name it with \
             {JOURNALS_OPTION}<directory>; to go without them, salvage.",
            directory.display()
        ));
        None
    }

    fn check(&mut self, ward: &Ward) -> u8 {
        let environment = match Environment::open(&self.platform, ward.options.clone()) {
            Ok(environment) => environment,
            Err(error) => return self.refused(ward, &error),
        };
        let tx = environment.read();
        let pages = tx.check();
        let is_database = documents::is_database(&tx).unwrap_or(false);
        let content = is_database.then(|| documents::check(&tx)).transpose();
        let (pages, content) = match (pages, content) {
            (Ok(pages), Ok(content)) => (pages, content),
            (pages, content) => {
                self.say(format_args!("{ward}: DAMAGED."));
                if let Err(error) = pages {
                    self.say(format_args!("  {error}"));
                }
                if let Err(error) = content {
                    self.say(format_args!("  {error}"));
                }
                self.damaged_documents(&tx, ward, is_database);
                self.advise(ward);
                return DAMAGED;
            }
        };
        self.say(format_args!(
            "{ward}: sound. {} pages in use, {} free; {} trees, {} entries, {} rows.",
            pages.used_pages, pages.free_pages, pages.trees, pages.entries, pages.rows
        ));
        if let Some(content) = content {
            self.say(format_args!(
                "  {} documents, {} tombstones, {} collections.",
                content.documents, content.tombstones, content.collections
            ));
        }
        let code = self.damaged_documents(&tx, ward, is_database);
        if code == DAMAGED {
            self.advise(ward);
        }
        code
    }

    /// Names the documents that cannot be read, down to their last value.
    fn damaged_documents(
        &mut self,
        tx: &storage::ReadTransaction,
        ward: &Ward,
        is_database: bool,
    ) -> u8 {
        let mut damaged = Vec::new();
        let mut count: usize = 0;
        let complete = if is_database {
            documents::damaged_rows(tx, &mut |row| {
                count += 1;
                if damaged.len() < LINES_MAX {
                    damaged.push(row);
                }
            })
        } else {
            Ok(())
        };
        for row in &damaged {
            let kind = match row.kind {
                RowKind::Document => "document",
                RowKind::Tombstone => "tombstone of",
                RowKind::Revision => "revision of",
                RowKind::Attachment => "attachment of",
                RowKind::Counter => "counter of",
                RowKind::TimeSeries => "segment of a time series of",
            };
            self.say(format_args!("  {kind} '{}' cannot be read: {}", row.id, row.error));
        }
        if damaged.len() < count {
            self.say(format_args!("  … and {} more", count - damaged.len()));
        }
        if let Err(error) = complete {
            self.say(format_args!("  {ward}: not every document could be read: {error}"));
            return DAMAGED;
        }
        if count == 0 { SOUND } else { DAMAGED }
    }

    fn advise(&mut self, ward: &Ward) {
        self.say(format_args!(
            "  Bytes on the disk are not those that were written: look for faults of disk, memory or \
             file system.\n  Copy the directory before anything else. Restore a backup, or make a new \
             directory of what is left:\n  corvus offline salvage {ward} <new directory>"
        ));
    }

    /// Prints why an environment could not be opened.
    fn refused(&mut self, ward: &Ward, error: &StorageError) -> u8 {
        match error {
            StorageError::Corrupt(_) => {
                self.say(format_args!("{ward}: DAMAGED, and refuses to open.\n  {error}"));
                self.advise(ward);
                DAMAGED
            }
            StorageError::Locked { .. } => {
                self.say(format_args!("{ward}: a server has it open. Stop the server first."));
                NOTHING_DONE
            }
            error => {
                self.say(format_args!("{ward}: {error}"));
                NOTHING_DONE
            }
        }
    }

    fn compact(&mut self, ward: &Ward) -> u8 {
        let unobserved = &mut |_: &CompactProgress| ControlFlow::Continue(());
        let tables = documents::TABLES;
        match storage::compact_in_place(&self.platform, &ward.options, tables, unobserved) {
            Ok(outcome) => {
                self.say(format_args!(
                    "{ward}: {} bytes before, {} after; {} rows and {} entries copied.",
                    outcome.before_bytes,
                    outcome.after_bytes,
                    outcome.report.rows,
                    outcome.report.entries
                ));
                SOUND
            }
            Err(error @ (StorageError::Corrupt(_) | StorageError::Locked { .. })) => {
                self.refused(ward, &error)
            }
            Err(error) => {
                self.say(format_args!("{ward}: not compacted, and as it was: {error}"));
                DAMAGED
            }
        }
    }

    fn salvage(&mut self, directory: &Path, journals: Option<PathBuf>, target: &Path) -> u8 {
        let Some(mut options) = self.options(directory) else { return NOTHING_DONE };
        options.journals_directory = journals;
        let ward = Ward { options };
        let journals = ward.options.journals_directory.clone();
        let journals = journals.unwrap_or_else(|| directory.join(JOURNALS));
        if !self.platform.disk.exists(&journals).unwrap_or(false) {
            self.say(format_args!("{ward}: without journals: {} is missing.", journals.display()));
        }
        let (findings, report) = match self.salvage_into(&ward, target) {
            Ok(done) => done,
            Err(DocumentError::Storage(error)) => return self.refused(&ward, &error),
            Err(error) => {
                self.say(format_args!("{ward}: {error}"));
                return DAMAGED;
            }
        };
        self.say(format_args!("{ward}: salvaged into {}.", target.display()));
        self.say_findings(&findings);
        self.say_report(&report);
        let Some(options) = self.options(target) else { return DAMAGED };
        let new = Ward { options };
        let code = self.check(&new);
        if findings.is_anything_lost() || is_anything_lost(&report) {
            self.say(format_args!(
                "Something is missing. Documents deleted shortly before the damage may be back, and \
                 documents changed shortly before it may be as they were."
            ));
            return DAMAGED;
        }
        code
    }

    fn salvage_into(
        &mut self,
        ward: &Ward,
        target: &Path,
    ) -> Result<(SalvageFindings, SalvageReport), DocumentError> {
        let mut salvage = Salvage::open(&self.platform, &ward.options, target)?;
        let mut id = [0; 16];
        self.platform.entropy.fill(&mut id);
        let drawn = DatabaseIdentity { database_id: DatabaseId(id), node_tag: NodeTag::A };
        let report = documents::salvage(&mut salvage, drawn)?;
        let findings = salvage.findings().clone();
        salvage.publish()?;
        Ok((findings, report))
    }

    fn say_findings(&mut self, findings: &SalvageFindings) {
        if findings.header_copies < 2 {
            self.say(format_args!(
                "  {} of 2 copies of the header are whole.",
                findings.header_copies
            ));
        }
        if findings.is_tree_list_damaged {
            self.say(format_args!(
                "  The list of trees is damaged; trees were searched for by content."
            ));
        }
        if findings.damaged_pages != 0 {
            let named = &findings.damaged_pages_named;
            let named: Vec<String> = named.iter().take(LINES_MAX).map(u64::to_string).collect();
            let more = if named.len() as u64 == findings.damaged_pages { "" } else { ", …" };
            self.say(format_args!(
                "  {} of {} pages could not be read: {}{more}",
                findings.damaged_pages,
                findings.pages,
                named.join(", ")
            ));
        }
        for (first, last) in findings.transactions_lost.iter().take(LINES_MAX) {
            self.say(format_args!(
                "  Transactions {first} to {last} are missing in the journal; the newest found is {}.",
                findings.newest_transaction
            ));
        }
    }

    fn say_report(&mut self, report: &SalvageReport) {
        for tree in report.trees.iter().filter(|tree| tree.unreadable_pages != 0) {
            self.say(format_args!(
                "  Tree {}: {} entries copied, {} pages could not be read.",
                tree.name, tree.entries, tree.unreadable_pages
            ));
        }
        if !report.is_database {
            return;
        }
        self.say(format_args!(
            "  Recovered {} documents, {} tombstones and {} revisions.",
            report.documents, report.tombstones, report.revisions
        ));
        if report.lost_revisions != 0 {
            self.say(format_args!("  {} revisions are lost.", report.lost_revisions));
        }
        if report.attachments != 0 {
            self.say(format_args!("  Recovered {} attachments.", report.attachments));
        }
        if report.counters != 0 {
            self.say(format_args!("  Recovered {} counters.", report.counters));
        }
        if report.time_series_segments != 0 {
            let segments = report.time_series_segments;
            self.say(format_args!("  Recovered {segments} segments of time series."));
        }
        self.say_ids("documents lost", &report.lost);
        let older = "documents recovered in another version, most likely an older one";
        self.say_ids(older, &report.older);
        self.say_ids("documents deleted before, and back", &report.returned);
        self.say_ids("attachments lost", &report.lost_attachments);
        self.say_ids("counters lost", &report.lost_counters);
        let older = "counters that most likely say what they said before";
        self.say_ids(older, &report.older_counters);
        let segments = &report.lost_time_series_segments;
        self.say_ids("segments of time series lost", segments);
        if report.unreadable_key_pages != 0 {
            self.say(format_args!(
                "  {} pages of keys could not be read: more may be lost than is named.",
                report.unreadable_key_pages
            ));
        }
        if report.is_new_identity {
            self.say(format_args!("  The database's id was not found; it has a new one."));
        }
        if report.collections_without_name != 0 {
            self.say(format_args!(
                "  The names of {} collections were not found.",
                report.collections_without_name
            ));
        }
        if report.are_etags_left_out {
            self.say(format_args!(
                "  Etags continue far after the last known, so that no version is assigned twice. Numbers \
                 assigned by HiLo and identities may repeat: check them before writing."
            ));
        }
    }

    fn say_ids(&mut self, what: &str, ids: &NamedIds) {
        if ids.count == 0 {
            return;
        }
        self.say(format_args!("  {} {what}:", ids.count));
        for id in ids.named.iter().take(LINES_MAX) {
            self.say(format_args!("    {}", id.replace('\n', " / ")));
        }
        if LINES_MAX < ids.named.len() {
            self.say(format_args!("    …"));
        }
    }
}

fn is_anything_lost(report: &SalvageReport) -> bool {
    report.lost.count != 0
        || report.lost_revisions != 0
        || report.older.count != 0
        || report.returned.count != 0
        || report.lost_attachments.count != 0
        || report.lost_counters.count != 0
        || report.older_counters.count != 0
        || report.lost_time_series_segments.count != 0
        || report.unreadable_key_pages != 0
        || report.trees.iter().any(|tree| tree.unreadable_pages != 0)
}

fn path_option(option: &OsStr, name: &str) -> Option<PathBuf> {
    let path = option.to_str()?.strip_prefix(name)?;
    (!path.is_empty()).then(|| path.into())
}

/// The directories that hold a data file. What cannot be listed is no directory.
fn find_environments(disk: &dyn Disk, directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if disk.exists(&directory.join(DATA_FILE)).unwrap_or(false) {
        found.push(directory.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    for name in disk.list(directory).unwrap_or_default() {
        find_environments(disk, &directory.join(name), depth - 1, found);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::simulated::Simulation;
    use storage::TreeName;

    use super::*;

    struct Bench {
        simulation: Simulation,
    }

    impl Bench {
        /// A data directory with a system environment and two databases.
        fn new() -> Self {
            let bench = Self { simulation: Platform::simulated(3) };
            for name in ["System", "Databases/one", "Databases/two"] {
                let environment = bench.open(name).expect("opens");
                let mut tx = environment.write().expect("writer");
                if name != "System" {
                    let identity =
                        DatabaseIdentity { database_id: DatabaseId([1; 16]), node_tag: NodeTag::A };
                    documents::initialize(&mut tx, identity).expect("initializes");
                }
                let mut tree = tx.tree_mut(&TreeName::from("Other")).expect("tree");
                for number in 0..2000u32 {
                    tree.put(&number.to_be_bytes(), &[7; 100]).expect("puts");
                }
                tx.commit().expect("commits");
                environment.flush().expect("flushes");
            }
            bench
        }

        /// What a server of some version left.
        fn of(golden: &testkit::golden::Golden) -> Self {
            let simulation = Platform::simulated(3);
            golden.materialize(&*simulation.platform.disk, "/data".as_ref()).expect("is written");
            Self { simulation }
        }

        fn open(&self, name: &str) -> Result<Arc<Environment>, StorageError> {
            let options = EnvironmentOptions::new(Path::new("/data").join(name));
            Environment::open(&self.simulation.platform, options)
        }

        fn flip(&self, name: &str, page: u64) {
            let path = Path::new("/data").join(name).join(DATA_FILE);
            self.simulation.disk.flip_bit(&path, page * 8192 + 600, 1).expect("flips");
        }

        fn run(&self, words: &[&str]) -> (u8, String) {
            let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut out = Vec::new();
            let platform = self.simulation.platform.clone();
            let code = Offline { platform, key: None, out: &mut out }.run(&arguments);
            (code, String::from_utf8(out).expect("text"))
        }

        fn check(&self, words: &[&str], code: u8, text: &str) {
            let (found, out) = self.run(words);
            assert!(found == code && out.contains(text), "{words:?}: {found}, {out}");
        }
    }

    #[test]
    fn what_is_not_understood_is_explained() {
        let bench = Bench::new();
        let wrong: [&[&str]; 7] = [
            &[],
            &["check"],
            &["repair", "/data"],
            &["salvage", "/data/System"],
            &["check", "/data", "/more"],
            &["check", "/data", "--journals="],
            &["check", "/data", "--force"],
        ];
        for words in wrong {
            bench.check(words, NOTHING_DONE, "Usage: corvus offline check");
        }
        bench.check(&["check", "/nowhere"], NOTHING_DONE, "/nowhere holds no data of Corvus.");
        bench.check(&["compact", "/nowhere"], NOTHING_DONE, "/nowhere holds no data of Corvus.");
        bench.check(&["salvage", "/nowhere", "/new"], NOTHING_DONE, "holds no data of Corvus");
    }

    #[test]
    fn a_sound_data_directory_is_checked_and_compacted_whole() {
        let bench = Bench::new();
        let (code, out) = bench.run(&["check", "/data"]);
        assert_eq!((code, out.matches(": sound.").count()), (SOUND, 3), "{out}");
        assert!(out.contains("0 documents, 0 tombstones, 0 collections."), "{out}");
        let (code, out) = bench.run(&["compact", "/data"]);
        assert_eq!((code, out.matches(" bytes before, ").count()), (SOUND, 3), "{out}");
        bench.check(&["check", "/data/Databases/one"], SOUND, "/data/Databases/one: sound.");
    }

    #[test]
    fn an_encrypted_database_is_worked_on_with_its_key() {
        let bench = Bench::new();
        let platform = &bench.simulation.platform;
        let key = EncryptionKey::take(&mut [7; EncryptionKey::BYTES]).expect("kept");
        let encryption_key = Some(key);
        let options = EnvironmentOptions {
            encryption_key,
            ..EnvironmentOptions::new("/data/Databases/vault")
        };
        let environment = Environment::open(platform, options).expect("opens");
        let mut tx = environment.write().expect("writer");
        let identity = DatabaseIdentity { database_id: DatabaseId([1; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, identity).expect("initializes");
        tx.commit().expect("commits");
        drop(environment);
        let disk = &*platform.disk;
        let text = model::base64_text(&[7; EncryptionKey::BYTES]);
        disk.write_file_atomically("/vault.key".as_ref(), text.as_bytes()).expect("writes");
        disk.write_file_atomically("/no.key".as_ref(), b"nothing").expect("writes");
        let vault = "/data/Databases/vault";
        bench.check(&["check", vault], NOTHING_DONE, "Name the file with the key: --key=");
        bench.check(&["check", vault, "--key=/no.key"], NOTHING_DONE, "contains no key");
        for words in [
            &["check", vault, "--key=/vault.key"] as &[&str],
            &["compact", vault, "--key=/vault.key"],
            &["check", "/data", "--key=/vault.key"],
            &["salvage", vault, "/new", "--key=/vault.key"],
            &["check", "/new", "--key=/vault.key"],
        ] {
            let (code, out) = bench.run(words);
            assert_eq!(code, SOUND, "{words:?}: {out}");
        }
        assert_eq!(storage::is_encrypted_in(platform, "/new".as_ref()).ok(), Some(Some(true)));
        let put = ["put-key", "/data", "Vault", "--key=/vault.key"];
        bench.check(&put, SOUND, "");
        bench.check(&put, NOTHING_DONE, "already");
        bench.check(&["get-key", "/data", "vault"], SOUND, &text);
        bench.check(&["get-key", "/data", "shop"], NOTHING_DONE, "There is no key");
    }

    #[test]
    fn data_directories_of_all_versions_are_sound_and_compact() {
        for (name, text) in testkit::golden::GOLDENS {
            let golden = testkit::golden::Golden::parse(text).expect(name);
            let bench = Bench::of(&golden);
            for command in ["check", "compact", "check"] {
                let (code, out) = bench.run(&[command, "/data"]);
                assert_eq!(code, SOUND, "{name}, {command}: {out}");
            }
            let live = golden.content.log.iter().filter(|(_, _, body)| body.is_some()).count();
            let text = format!("{live} documents, {} tombstones", golden.content.log.len() - live);
            bench.check(&["check", "/data"], SOUND, &text);
            bench.check(&["check", "/data/System"], SOUND, "/data/System: sound.");
        }
    }

    #[test]
    fn a_server_in_the_way_is_named() {
        let bench = Bench::new();
        let _open = bench.open("Databases/one").expect("opens");
        for words in [
            &["check", "/data/Databases/one"] as &[&str],
            &["compact", "/data/Databases/one"],
            &["salvage", "/data/Databases/one", "/new"],
        ] {
            bench.check(words, NOTHING_DONE, "a server has it open. Stop the server first.");
        }
        bench.check(&["check", "/data"], NOTHING_DONE, "/data/System: sound.");
    }

    #[test]
    fn a_server_that_has_the_data_directory_is_in_the_way_of_databases_that_it_has_not_open() {
        let bench = Bench::new();
        let _server = bench.simulation.platform.disk.lock_dir(Path::new("/data")).expect("locks");
        for words in [
            &["check", "/data"] as &[&str],
            &["compact", "/data/Databases/one"],
            &["salvage", "/data/Databases/one", "/new"],
            &["adopt", "/data", "one"],
        ] {
            bench.check(words, NOTHING_DONE, "A server has /data open. Stop it first.");
        }
    }

    #[test]
    fn damage_is_reported_with_what_to_do_and_salvage_says_what_is_missing() {
        let bench = Bench::new();
        bench.flip("System", 8);
        bench.check(&["check", "/data"], DAMAGED, "page 8 is damaged");
        bench.check(&["check", "/data"], DAMAGED, "/data/Databases/one: sound.");
        bench.check(&["check", "/data/System"], DAMAGED, "offline salvage /data/System");
        bench.check(&["compact", "/data/System"], DAMAGED, "page 8 is damaged");
        bench.check(&["salvage", "/data/System", "/data"], NOTHING_DONE, "not an empty directory");
        let (code, out) = bench.run(&["salvage", "/data/System", "/new"]);
        assert_eq!(code, DAMAGED, "{out}");
        assert!(out.contains("could not be read: 8"), "{out}");
        assert!(out.contains("Tree Other: ") && out.contains("/new: sound."), "{out}");
        bench.check(&["check", "/new"], SOUND, "/new: sound.");
    }

    #[test]
    fn what_refuses_to_open_is_salvaged_whole_when_nothing_is_lost() {
        let bench = Bench::new();
        let path = Path::new("/data/Databases/two").join(DATA_FILE);
        for copy in 0..2 {
            bench.simulation.disk.flip_bit(&path, copy * 8192 + 20, 1).expect("flips");
        }
        bench.check(&["check", "/data"], DAMAGED, "both copies of the header");
        let words = ["salvage", "/data/Databases/two", "/new"];
        bench.check(&words, SOUND, "0 of 2 copies of the header are whole.");
        bench.check(&["check", "/new"], SOUND, "0 documents");
    }

    #[test]
    fn an_environment_without_its_journals_is_not_opened() {
        let bench = Bench::new();
        let disk = &bench.simulation.platform.disk;
        disk.create_dir_all(Path::new("/fast")).expect("creates");
        disk.rename(Path::new("/data/Databases/one/journals"), Path::new("/fast/one"))
            .expect("moves");
        bench.check(&["check", "/data"], NOTHING_DONE, "its journals are not there");
        bench.check(&["check", "/data", "--journals=/fast"], SOUND, "/data/Databases/one: sound.");
        let alone = ["compact", "/data/Databases/one", "--journals=/fast/one"];
        bench.check(&alone, SOUND, "bytes before");
    }
}
