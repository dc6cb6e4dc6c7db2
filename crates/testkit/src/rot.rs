//! Flipped bits in the files of a database: noticed, or without effect; never wrong data.
//!
//! The last record of a journal is the one place where damage cannot be distinguished from a torn
//! write, which was never acknowledged. A flip there ends the journal before that record, and is
//! counted separately: the database must be exactly what it was one transaction earlier.

use std::path::{Path, PathBuf};

use documents::DocumentError;
use platform::{
    Access, Disk, Platform,
    simulated::{Random, SimulatedDisk},
};
use storage::{Corruption, StorageError};

use crate::{
    Bench, Fault, Naive,
    bench::Stop,
    database::{AtRest, Content, content_of, open_with},
    guarded,
};

const TRANSACTIONS: u64 = 60;
/// How often a byte that is zero is exchanged for another.
const REROLLS_MAX: u64 = 6;
const DIRECTORIES: [&str; 2] = ["/database", "/database/journals"];

/// The outcome of a flipped bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flipped {
    /// An error reports where.
    Detected(String),
    /// Everything is as it was.
    Harmless,
    /// The last record of the journal counts as torn: all but the last transaction are there.
    TakenForTorn,
}

/// A database as its files, at one moment of its life.
pub struct Image {
    /// In words.
    pub name: &'static str,
    files: Vec<(PathBuf, Vec<u8>)>,
    bench: Bench,
    content: Content,
    /// Before the last transaction.
    earlier: Content,
}

/// The moments at which bits are flipped: all in the journal; half and half; all in the data file. The database is encrypted
/// or not.
///
/// # Errors
/// The database cannot be populated.
pub fn images(at_rest: AtRest, seed: u64) -> Result<Vec<Image>, Fault> {
    let moments = [("in the journal", 0), ("flushed half-way", TRANSACTIONS / 2), ("flushed", 1)];
    let image = |(name, flush_at)| image(Bench::at_rest(at_rest, seed), name, flush_at);
    moments.into_iter().map(image).collect()
}

fn image(mut bench: Bench, name: &'static str, flush_at: u64) -> Result<Image, Fault> {
    bench.options.journal_bytes_max = 256 * 1024;
    let environment = bench.open()?;
    let mut earlier = Naive::default();
    for number in 0..TRANSACTIONS {
        earlier = bench.acknowledged.clone();
        let mut tx = environment.write()?;
        let naive = bench.fill(&mut tx, &earlier).map_err(Stop::into_fault)?;
        tx.commit()?;
        bench.acknowledged = naive;
        if number == flush_at && flush_at > 1 {
            environment.flush()?;
        }
    }
    if flush_at == 1 {
        // The next opening finds nothing in the journal and removes it.
        environment.close()?;
        drop(bench.open()?);
    }
    drop(environment);
    let files = files(&bench.simulation.disk, &*bench.simulation.platform.disk)?;
    let (content, earlier) = (bench.acknowledged.content(), earlier.content());
    Ok(Image { name, files, bench, content, earlier })
}

fn files(simulated: &SimulatedDisk, disk: &dyn Disk) -> Result<Vec<(PathBuf, Vec<u8>)>, Fault> {
    let failed = |error: std::io::Error| Fault::wrong(error.to_string());
    let mut files = Vec::new();
    for directory in DIRECTORIES.map(Path::new) {
        for name in disk.list(directory).map_err(failed)? {
            let path = directory.join(name);
            // Directories are in the list, too.
            if let Ok(bytes) = simulated.file_bytes(&path)
                && !bytes.is_empty()
            {
                files.push((path, bytes));
            }
        }
    }
    Ok(files)
}

impl Image {
    /// A bit somewhere in its files: path, offset and bit. Space that was never used is mostly left
    /// out, so that the flips fall on something.
    pub fn any_bit(&self, random: &mut Random) -> (&Path, u64, u8) {
        let mut byte = self.any_byte(random);
        for _ in 0..REROLLS_MAX {
            if byte.2 != 0 {
                break;
            }
            byte = self.any_byte(random);
        }
        (byte.0, byte.1, random.below(8) as u8)
    }

    /// Each byte with the same chance: path, offset and value.
    fn any_byte(&self, random: &mut Random) -> (&Path, u64, u8) {
        let bytes = self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut offset = random.below(bytes);
        for (path, bytes) in &self.files {
            match bytes.get(offset as usize) {
                Some(value) => return (path, offset, *value),
                None => offset -= bytes.len() as u64,
            }
        }
        unreachable!("the offset is below the sum of all lengths")
    }

    /// Opens a copy of the database in which a bit is flipped and reads everything.
    ///
    /// # Errors
    /// Wrong data, or a panic.
    pub fn flip(&self, path: &Path, offset: u64, bit: u8) -> Result<Flipped, Fault> {
        let simulation = Platform::simulated(1);
        self.copy_to(&*simulation.platform.disk)
            .and_then(|()| simulation.disk.flip_bit(path, offset, bit))
            .map_err(|error| Fault::wrong(error.to_string()))?;
        match guarded(|| self.read(&simulation.platform)) {
            Ok(found) if found == self.content => Ok(Flipped::Harmless),
            Ok(found) if found == self.earlier && is_journal(path) => Ok(Flipped::TakenForTorn),
            Ok(found) => Err(Fault::wrong(found.difference(&self.content))),
            Err(Fault::Reported(DocumentError::Storage(StorageError::Corrupt(found)))) => {
                by_checksum(found)
            }
            // Of two copies of the header the newer one is damaged, and the older one names a journal that is not needed any
            // more.
            Err(Fault::Reported(DocumentError::Storage(
                missing @ StorageError::JournalMissing { .. },
            ))) => Ok(Flipped::Detected(missing.to_string())),
            // A contradiction that was noticed by luck: the checksum before it has a hole.
            Err(fault) => Err(fault),
        }
    }

    fn copy_to(&self, disk: &dyn Disk) -> std::io::Result<()> {
        for directory in DIRECTORIES {
            disk.create_dir_all(Path::new(directory))?;
        }
        for (path, bytes) in &self.files {
            disk.create(path, Access::Buffered)?.write_all_at(bytes, 0)?;
        }
        Ok(())
    }

    /// Reads without checking the pages first: the path of a request must detect the damage by
    /// itself.
    fn read(&self, platform: &Platform) -> Result<Content, Fault> {
        let environment = open_with(platform, self.bench.options.clone())?;
        content_of(&environment.read())
    }
}

/// Every byte in use is covered by a checksum, or leads to a place where none matches.
fn by_checksum(found: Corruption) -> Result<Flipped, Fault> {
    match found {
        Corruption::PageChecksum { .. }
        | Corruption::PageAuthentication { .. }
        | Corruption::PageHeader { .. }
        | Corruption::PageOutOfRange { .. }
        | Corruption::Header { .. }
        | Corruption::JournalHeader { .. }
        | Corruption::JournalTooShort { .. }
        | Corruption::Journal { .. } => {
            Ok(Flipped::Detected(StorageError::Corrupt(found).to_string()))
        }
        Corruption::DataFileTooShort { .. }
        | Corruption::Structure { .. }
        | Corruption::Contradiction { .. } => {
            let error = StorageError::Corrupt(found);
            Err(Fault::wrong(format!("noticed too late: {error}")))
        }
    }
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "journal")
}
