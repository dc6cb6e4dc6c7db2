//! The names of the server's log files, and the files in a directory.
//!
//! A file is named `corvus-2026-11-23.000.log` after the day of its entries (UTC) and its number on
//! that day. A closed one may be compressed, `corvus-2026-11-23.000.log.gz`.

use std::{cmp::Ordering, fmt, fs, path::Path};

const PREFIX: &str = "corvus-";
const ENDING: &str = "log";
const COMPRESSED_ENDING: &str = "log.gz";
/// Length of a day, `2026-11-23`, in characters.
const DAY_LENGTH: usize = 10;

/// The name of a log file. Names sort in the order in which their files were created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFileName {
    /// The day of its entries, `2026-11-23`.
    pub day: String,
    /// Its number on that day.
    pub number: u32,
    /// Whether the file is compressed.
    pub is_compressed: bool,
}

impl LogFileName {
    /// Parses a name; `None` when it is not that of a log file.
    pub fn parse(name: &str) -> Option<LogFileName> {
        let (day, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
        let (number, ending) = rest.split_once('.')?;
        let is_digit_or_dash = |character: char| character.is_ascii_digit() || character == '-';
        let is_known = day.len() == DAY_LENGTH
            && day.chars().all(is_digit_or_dash)
            && number.bytes().all(|digit| digit.is_ascii_digit())
            && (ending == ENDING || ending == COMPRESSED_ENDING);
        Some(LogFileName {
            day: is_known.then(|| day.to_owned())?,
            number: number.parse().ok()?,
            is_compressed: ending == COMPRESSED_ENDING,
        })
    }

    /// The log files of a directory, oldest first; none if it cannot be read.
    pub fn all_in(directory: &Path) -> Vec<LogFileName> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let parse = |entry: fs::DirEntry| LogFileName::parse(entry.file_name().to_str()?);
        let mut names: Vec<LogFileName> = entries.filter_map(parse).collect();
        names.sort();
        names
    }
}

impl fmt::Display for LogFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = if self.is_compressed { COMPRESSED_ENDING } else { ENDING };
        write!(f, "{PREFIX}{}.{:03}.{ending}", self.day, self.number)
    }
}

impl Ord for LogFileName {
    fn cmp(&self, other: &LogFileName) -> Ordering {
        let key = |name: &LogFileName| (name.number, name.is_compressed);
        self.day.cmp(&other.day).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for LogFileName {
    fn partial_cmp(&self, other: &LogFileName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_in_which_files_were_begun() {
        let names = [
            "corvus-2026-11-23.002.log.gz",
            "corvus-2026-11-23.999.log.gz",
            "corvus-2026-11-23.1000.log",
            "corvus-2026-11-24.000.log",
        ];
        let parsed = names.map(|name| LogFileName::parse(name).unwrap());
        assert!(parsed.is_sorted());
        assert_eq!(parsed.map(|name| name.to_string()), names);
        for other in
            ["corvus-2026-11-23.log", "corvus-2026-11-23.1.txt", "x.000.log", "corvus-a.000.log"]
        {
            assert_eq!(LogFileName::parse(other), None, "{other}");
        }
    }
}
