//! Journal files with arbitrary bytes: recovery replays what was written or refuses, and never
//! panics.
//!
//! An input is a list of edits of a sound journal, so that a fuzzer that knows nothing of checksums
//! still reaches the code behind them: for some of the inputs the checksums, and the chain, are
//! corrected after the edits. Such a *forged* journal is indistinguishable from one that was
//! written; it must open or be refused, and what opens must be readable or refused. Without
//! forging, the database must be in the state after one of its transactions, with no later one
//! still readable.
//!
//! The layout is repeated here, from `docs/internals/journal.md`: code shared with the engine would
//! share its mistakes.

use std::{ops::Range, path::PathBuf};

use platform::{Access, Disk, Platform, SECTOR_BYTES};
use storage::{Environment, PAGE_BYTES, WriteTransaction};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    Bench, Fault,
    bench::Stop,
    database::{Content, batch, content_of, delete, execute, json, put},
    guarded,
};

const DIRECTORY: &str = "/database";
const DATA_FILE: &str = "/database/corvus.data";
const HEADER_BYTES: usize = 88;
const CHECKED: usize = 72;
const MAGIC: &[u8; 8] = b"CORVUSJR";
const FIELDS: [Range<usize>; 8] = [0..8, 8..16, 16..24, 24..40, 40..48, 48..56, 56..60, 60..64];
const STORED: Range<usize> = 40..48;
const PAYLOAD: Range<usize> = 48..56;
const FLAGS: Range<usize> = 60..64;
const ENTRY_BYTES: usize = 16;
/// The number of random transactions; some hand-written ones follow.
const TRANSACTIONS: u64 = 8;
const EDITS_MAX: usize = 24;
const RECORDS_MAX: usize = 64;
/// More than any input needs; a forged page number runs into a full disk.
const SPACE_BYTES: u64 = 64 << 20;
/// Bytes of a file's header covered by its checksum; the last eight are the file's length.
const HEAD_CHECKED: usize = 48;

/// The outcome of recovering a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// All transactions are there.
    Whole,
    /// Transactions up to this one are there, and later ones are no longer readable.
    Earlier(usize),
    /// Recovery was refused with this error.
    Refused(String),
    /// Its pages are sound; since the checksums were forged, the expected content is unknown.
    Forged,
}

/// A database all of whose latest transactions are in one journal file.
pub struct SoundJournal {
    data: Vec<u8>,
    /// The number in the file's name.
    number: u64,
    /// The sector before the records.
    head: Vec<u8>,
    /// In whole sectors.
    records: Vec<Vec<u8>>,
    /// Before the first record, and after each.
    states: Vec<Content>,
    bench: Bench,
}

impl SoundJournal {
    /// Writes the transactions.
    ///
    /// # Errors
    /// The database cannot be populated.
    pub fn write(seed: u64) -> Result<Self, Fault> {
        let mut bench = Bench::new(seed);
        // The second opening finds the first transaction in the data file, and starts a journal.
        bench.open()?.close()?;
        let environment = bench.open()?;
        let mut states = vec![bench.acknowledged.content()];
        for number in 0..TRANSACTIONS {
            let mut tx = environment.write()?;
            let before = bench.acknowledged.clone();
            bench.acknowledged = bench.fill(&mut tx, &before).map_err(Stop::into_fault)?;
            // A random history may change nothing, and such a transaction has no record.
            let mark = batch([put("mark", &json("Marks", &number.to_string()))]);
            apply(&mut bench, tx, &mark)?;
            states.push(bench.acknowledged.content());
        }
        let long: String = (0..9000).map(|number| format!("{number:x}")).collect();
        for by_hand in [
            batch([put("long", &json("Longs", &long))]),
            batch([delete("mark", None)]),
            batch([delete("long", None), put("last", &json("Marks", "last"))]),
        ] {
            let tx = environment.write()?;
            apply(&mut bench, tx, &by_hand)?;
            states.push(bench.acknowledged.content());
        }
        drop(environment);
        Self::of_files(bench, states)
    }

    fn of_files(bench: Bench, states: Vec<Content>) -> Result<Self, Fault> {
        let disk = &bench.simulation.disk;
        let failed = |error: std::io::Error| Fault::wrong(error.to_string());
        let number = (1..100).find(|number| disk.file_bytes(&journal_path(*number)).is_ok());
        let number = number.ok_or_else(|| Fault::wrong("there is no journal"))?;
        let file = disk.file_bytes(&journal_path(number)).map_err(failed)?;
        let data = disk.file_bytes(DATA_FILE.as_ref()).map_err(failed)?;
        let (head, mut rest) = file.split_at(SECTOR_BYTES);
        let mut records = Vec::new();
        while rest.starts_with(MAGIC) {
            let bytes = HEADER_BYTES + read_u64(rest, STORED.start) as usize;
            let (record, after) = rest.split_at(bytes.next_multiple_of(SECTOR_BYTES));
            records.push(record.to_vec());
            rest = after;
        }
        if records.len() + 1 != states.len() {
            return Err(Fault::wrong(format!("{} records in one journal", records.len())));
        }
        Ok(Self { data, number, head: head.to_vec(), records, states, bench })
    }

    /// Edits the journal as `input` says, opens the database and reads everything.
    ///
    /// # Errors
    /// Wrong data, or a panic.
    pub fn recover(&self, input: &[u8]) -> Result<Recovered, Fault> {
        let mut edited = Edited {
            head: self.head.clone(),
            records: self.records.clone(),
            split_at: None,
            cut_at: None,
        };
        let mut input = Input(input);
        let manner = input.byte();
        if manner & 4 != 0 {
            edited.records = vec![input.0.to_vec()];
        } else {
            edited.apply_all(&mut input);
        }
        let (forges, chains) = (manner & 1 != 0, manner & 2 != 0);
        if forges {
            edited.forge(chains.then_some(&self.records[0]));
        }
        let files = edited.files();
        let platform = self.materialize(&files).map_err(|error| Fault::wrong(error.to_string()))?;
        let recovered = guarded(|| {
            let environment = Environment::open(&platform, self.bench.options.clone())?;
            if forges {
                environment.read().check()?;
                return Ok(Recovered::Forged);
            }
            self.judge(&content_of(&environment.read())?, &files)
        });
        match recovered {
            Err(Fault::Reported(error)) => Ok(Recovered::Refused(error.to_string())),
            recovered => recovered,
        }
    }

    fn materialize(&self, files: &[Vec<u8>]) -> std::io::Result<Platform> {
        let simulation = Platform::simulated(1);
        let disk: &dyn Disk = &*simulation.platform.disk;
        disk.create_dir_all(&PathBuf::from(DIRECTORY).join("journals"))?;
        disk.create(DATA_FILE.as_ref(), Access::Buffered)?.write_all_at(&self.data, 0)?;
        for (number, file) in (self.number..).zip(files) {
            disk.create(&journal_path(number), Access::Buffered)?.write_all_at(file, 0)?;
        }
        simulation.disk.space_limit(Some(SPACE_BYTES));
        Ok(simulation.platform)
    }

    fn judge(&self, found: &Content, files: &[Vec<u8>]) -> Result<Recovered, Fault> {
        match self.states.iter().rposition(|state| state == found) {
            Some(last) if last + 1 == self.states.len() => Ok(Recovered::Whole),
            None => Err(Fault::wrong(found.difference(&self.states[self.states.len() - 1]))),
            Some(state) => match self.records[state..].iter().find(|record| is_in(record, files)) {
                None => Ok(Recovered::Earlier(state)),
                Some(record) => Err(Fault::wrong(format!(
                    "transaction {} is readable, and the database is that of {state} transactions",
                    read_u64(record, 16)
                ))),
            },
        }
    }
}

/// Executes a batch of the test's own and commits.
fn apply(
    bench: &mut Bench,
    mut tx: WriteTransaction,
    commands: &commands::Batch,
) -> Result<(), Fault> {
    execute(&mut tx, &bench.simulation.platform, commands)?;
    tx.commit()?;
    bench.acknowledged.apply(commands).map_err(|_| Fault::wrong("the model refuses a batch"))
}

fn journal_path(number: u64) -> PathBuf {
    format!("{DIRECTORY}/journals/{number:019}.journal").into()
}

/// Whether a record starts on a sector of one of the files, whole.
fn is_in(record: &[u8], files: &[Vec<u8>]) -> bool {
    files.iter().any(|file| {
        let sectors = (0..file.len()).step_by(SECTOR_BYTES);
        sectors.skip(1).any(|sector| file[sector..].starts_with(record))
    })
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The rest of a fuzzer's bytes; zeroes past its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn u16(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    fn u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.bytes(8);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    /// A short length-prefixed string of bytes.
    fn counted(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte());
        self.bytes(count)
    }
}

struct Edited {
    head: Vec<u8>,
    records: Vec<Vec<u8>>,
    /// From this record on they are in the next file.
    split_at: Option<usize>,
    /// The last file ends here.
    cut_at: Option<usize>,
}

impl Edited {
    fn apply_all(&mut self, input: &mut Input<'_>) {
        for _ in 0..EDITS_MAX {
            if input.0.is_empty() {
                return;
            }
            self.apply(input);
        }
    }

    fn apply(&mut self, input: &mut Input<'_>) {
        let (what, which) = (input.byte(), usize::from(input.byte()));
        if self.records.is_empty() || RECORDS_MAX < self.records.len() {
            return;
        }
        let which = which % self.records.len();
        let record = &mut self.records[which];
        match what % 10 {
            0 => {
                let at = input.u16();
                overwrite(record, at, input.counted());
            }
            1 => {
                let field = FIELDS[usize::from(input.byte()) % FIELDS.len()].clone();
                let value = input.u64().to_le_bytes();
                let bytes = field.len().min(value.len());
                overwrite(record, field.start, &value[..bytes]);
            }
            2 => change_payload(record, |payload| {
                let at = input.u16();
                overwrite(payload, at, input.counted());
            }),
            3 => change_payload(record, |payload| add_entry(payload, input)),
            4 => change_payload(record, |payload| payload.truncate(input.u16())),
            5 => drop(self.records.remove(which)),
            6 => {
                let copy = record.clone();
                let place = usize::from(input.byte()) % (self.records.len() + 1);
                self.records.insert(place, copy);
            }
            7 => self.split_at = Some(which),
            8 => {
                let at = input.u16();
                overwrite(&mut self.head, at, input.counted());
            }
            _ => self.cut_at = Some(input.u16() * 16),
        }
    }

    /// Corrects the checksums; also the numbers and the chain, when the first record is passed.
    fn forge(&mut self, first: Option<&Vec<u8>>) {
        stamp_head(&mut self.head);
        let mut chain = first.map(|first| (read_u64(first, 16), first[24..40].to_vec()));
        for record in &mut self.records {
            if record.len() < HEADER_BYTES {
                continue;
            }
            if let Some((transaction, previous)) = &chain {
                overwrite(record, 0, MAGIC);
                overwrite(record, 16, &transaction.to_le_bytes());
                overwrite(record, 24, previous);
            }
            let stored = (read_u64(record, STORED.start) as usize).min(record.len() - HEADER_BYTES);
            overwrite(record, STORED.start, &(stored as u64).to_le_bytes());
            let checked = [&record[..CHECKED], &record[HEADER_BYTES..HEADER_BYTES + stored]];
            let sum = xxh3_128(&checked.concat()).to_le_bytes();
            overwrite(record, CHECKED, &sum);
            chain = chain.map(|(transaction, _)| (transaction + 1, sum.to_vec()));
        }
    }

    fn files(&self) -> Vec<Vec<u8>> {
        let mut files = vec![self.head.clone()];
        for (number, record) in self.records.iter().enumerate() {
            if self.split_at == Some(number) {
                files.push(next_head(&self.head));
            }
            let file = files.last_mut().expect("there is one from the start");
            file.extend_from_slice(record);
            file.resize(file.len().next_multiple_of(SECTOR_BYTES), 0);
        }
        if let (Some(cut_at), Some(file)) = (self.cut_at, files.last_mut()) {
            file.truncate(cut_at);
        }
        files.iter_mut().for_each(end_with_an_empty_sector);
        files
    }
}

/// Writes into the file the sector that would name the next one, and a header that has its length. A header
/// that was edited stays as it is.
fn end_with_an_empty_sector(file: &mut Vec<u8>) {
    let Some(head) = file.get(..HEAD_CHECKED) else { return };
    if file.get(HEAD_CHECKED..HEAD_CHECKED + 16) != Some(&xxh3_128(head).to_le_bytes()[..]) {
        return;
    }
    file.resize(file.len().next_multiple_of(SECTOR_BYTES) + SECTOR_BYTES, 0);
    let bytes = (file.len() as u64).to_le_bytes();
    overwrite(file, HEAD_CHECKED - 8, &bytes);
    stamp_head(file);
}

fn stamp_head(head: &mut [u8]) {
    let sum = xxh3_128(&head[..HEAD_CHECKED]).to_le_bytes();
    overwrite(head, HEAD_CHECKED, &sum);
}

/// The head of the file with the next number.
fn next_head(head: &[u8]) -> Vec<u8> {
    let mut next = head.to_vec();
    let number = read_u64(head, 32).wrapping_add(1);
    overwrite(&mut next, 32, &number.to_le_bytes());
    stamp_head(&mut next);
    next
}

/// Writes what fits.
fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(rest) = bytes.get_mut(at..) {
        let count = with.len().min(rest.len());
        rest[..count].copy_from_slice(&with[..count]);
    }
}

/// Unpacks the payload, and stores it as it is after the change.
fn change_payload(record: &mut Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) {
    let Some(mut payload) = payload_of(record) else { return };
    change(&mut payload);
    record.truncate(HEADER_BYTES);
    record.extend_from_slice(&payload);
    record.resize(record.len().next_multiple_of(SECTOR_BYTES), 0);
    let bytes = (payload.len() as u64).to_le_bytes();
    for field in [STORED, PAYLOAD] {
        overwrite(record, field.start, &bytes);
    }
    overwrite(record, FLAGS.start, &[0; 4]);
}

fn payload_of(record: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = record.split_at_checked(HEADER_BYTES)?;
    let stored = rest.get(..usize::try_from(read_u64(head, STORED.start)).ok()?)?;
    if head[FLAGS.start] & 1 == 0 {
        return Some(stored.to_vec());
    }
    // Edits may have changed the length; no record here has this many bytes.
    let bytes = read_u64(head, PAYLOAD.start);
    if bytes > SPACE_BYTES {
        return None;
    }
    lz4_flex::block::decompress(stored, bytes as usize).ok()
}

/// A page, a run or a difference of the input's choice; short content is repeated to whole pages.
fn add_entry(payload: &mut Vec<u8>, input: &mut Input<'_>) {
    let shape = input.byte();
    let page = if shape & 1 == 0 { input.byte().into() } else { input.u64() };
    let (kind, pages) = (shape >> 1 & 3, usize::from(shape >> 3 & 3));
    let content = input.counted();
    let bytes = if pages == 0 || content.is_empty() { content.len() } else { pages * PAGE_BYTES };
    let content = content.iter().copied().cycle().take(bytes);
    let mut entry = [0; ENTRY_BYTES];
    overwrite(&mut entry, 0, &page.to_le_bytes());
    overwrite(&mut entry, 8, &(bytes as u32).to_le_bytes());
    entry[12] = kind;
    payload.extend_from_slice(&entry);
    payload.extend(content);
}

#[cfg(test)]
mod tests {
    use platform::simulated::Random;

    use super::*;

    fn sound() -> SoundJournal {
        SoundJournal::write(14).expect("populates")
    }

    #[test]
    fn edits_are_taken_for_what_they_are() {
        let sound = sound();
        let all = sound.records.len() as u8;
        let last = all - 1;
        let table: [(&[u8], Result<Recovered, &str>); 12] = [
            (&[], Ok(Recovered::Whole)),
            (&[0, 5, last], Ok(Recovered::Earlier(usize::from(last)))),
            (&[0, 5, 2], Err("is damaged")),
            (&[0, 6, 3, all], Ok(Recovered::Whole)),
            (&[0, 7, 4], Ok(Recovered::Whole)),
            (&[0, 0, 3, 90, 0, 1, 0xff], Err("is damaged")),
            (&[4, 1, 2, 3], Ok(Recovered::Earlier(0))),
            (&[1, 5, 2], Err("is damaged")),
            (&[3, 7, 4], Ok(Recovered::Forged)),
            // A transaction is left out, and numbers and chain are corrected.
            (&[3, 5, 2], Err("is damaged")),
            // A page of a tree with altered content.
            (&[3, 2, 96, 81, 2, 96, 81, 81, 81, 0], Err("its entries are outside of it")),
            // A page beyond the end of any possible file.
            (&[3, 3, 6, 25, 255, 255, 255, 255, 255, 255, 255, 255, 1, 7], Err("is damaged")),
        ];
        for (input, expected) in table {
            let found = sound.recover(input).expect("no fault");
            match expected {
                Ok(expected) => assert_eq!(found, expected, "{input:?}"),
                Err(text) => assert!(
                    matches!(&found, Recovered::Refused(message) if message.contains(text)),
                    "{input:?}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn any_edits_are_recovered_or_refused() {
        let sound = sound();
        let mut random = Random::new(5);
        let (mut taken, mut refused) = (0, 0);
        for number in 0..400 {
            let input: Vec<u8> = (0..random.below(80))
                .map(|_| random.next_u64() as u8 & random.next_u64() as u8)
                .collect();
            match sound.recover(&input) {
                Ok(Recovered::Refused(_)) => refused += 1,
                Ok(_) => taken += 1,
                Err(fault) => panic!("input {number} {input:?}: {fault}"),
            }
        }
        assert!(taken > 50 && refused > 50, "{taken} taken, {refused} refused");
    }
}
