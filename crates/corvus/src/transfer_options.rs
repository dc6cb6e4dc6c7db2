//! The command line of `corvus export` and `corvus import`.

use std::{ffi::OsString, path::PathBuf};

use lexopt::{Arg, Parser, ValueExt};

use crate::remote_server::Access;

pub(crate) const EXPORT_HELP: &str = "\
Usage: corvus export <url> <database> <file> [options]

Writes a database, or documents of it, from a running server to a file.

  --format=dump|jsonl|csv  what the file is: a dump has everything, the others documents alone.
                           By default as the file's name ends: .jsonl, .csv; otherwise a dump
  --collection=<name>      only documents of this collection; for dumps it may be repeated
  --query=<text>           documents of this query in RQL, for jsonl and csv
  --field=<name>           a column of csv; it may be repeated
  --types=<names>          kinds of data in a dump, such as Documents,Indexes
  --key=<file>             encrypts a dump with this key: 32 bytes, or their base64
";

pub(crate) const IMPORT_HELP: &str = "\
Usage: corvus import <url> <database> <file> [options]

Reads a file into a database of a running server. The database must exist.

  --format=dump|jsonl|csv  what the file is. By default as its name ends: .jsonl, .csv; otherwise a dump
  --collection=<name>      for dumps, only documents of this collection, and it may be repeated; for jsonl
                           and csv, the collection of documents that name none
  --types=<names>          kinds of data in a dump, such as Documents,Indexes
  --key=<file>             the key of an encrypted dump: 32 bytes, or their base64
";

pub(crate) const EXIT_CODES_HELP: &str = "
Exit codes: 0 done; 1 it failed, or something could not be imported, which is named; 2 the command was not
understood.
";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Dump,
    Csv,
    Lines,
}

impl FileFormat {
    fn named(name: &str) -> Option<FileFormat> {
        Some(match name {
            "dump" => FileFormat::Dump,
            "csv" => FileFormat::Csv,
            "jsonl" => FileFormat::Lines,
            _ => return None,
        })
    }

    fn of_file(file: &std::path::Path) -> FileFormat {
        let extension = file.extension().and_then(|extension| extension.to_str());
        let named = extension.map(str::to_ascii_lowercase);
        named.as_deref().and_then(FileFormat::named).unwrap_or(FileFormat::Dump)
    }
}

/// A command line.
#[derive(Debug)]
pub(crate) struct TransferOptions {
    pub(crate) url: String,
    pub(crate) database: String,
    pub(crate) file: PathBuf,
    pub(crate) format: FileFormat,
    pub(crate) collections: Vec<String>,
    pub(crate) query: Option<String>,
    pub(crate) fields: Vec<String>,
    pub(crate) types: Option<String>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) access: Access,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) enum ParsedCommand {
    Help,
    Transfer(Box<TransferOptions>),
}

impl TransferOptions {
    /// Reads the arguments behind `export` or `import`; the reason why they are not understood.
    pub(crate) fn read(arguments: &[OsString], is_export: bool) -> Result<ParsedCommand, String> {
        let mut parser = Parser::from_args(arguments);
        let (mut words, mut format) = (Vec::new(), None);
        let mut options = TransferOptions {
            url: String::new(),
            database: String::new(),
            file: PathBuf::new(),
            format: FileFormat::Dump,
            collections: Vec::new(),
            query: None,
            fields: Vec::new(),
            types: None,
            key: None,
            access: Access::default(),
        };
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Arg::Long("help") | Arg::Short('h') => return Ok(ParsedCommand::Help),
                Arg::Long("format") => {
                    let name = text(&mut parser)?;
                    let unknown = || format!("'{name}' is no format: dump, jsonl or csv");
                    format = Some(FileFormat::named(&name).ok_or_else(unknown)?);
                }
                Arg::Long("collection") => options.collections.push(text(&mut parser)?),
                Arg::Long("query") if is_export => options.query = Some(text(&mut parser)?),
                Arg::Long("field") if is_export => options.fields.push(text(&mut parser)?),
                Arg::Long("types") => options.types = Some(text(&mut parser)?),
                Arg::Long("key") => options.key = Some(path(&mut parser)?),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    if !options.access.take(&name, &mut parser)? {
                        return Err(format!("invalid option '--{name}'"));
                    }
                }
                Arg::Value(word) => words.push(word),
                other => return Err(other.unexpected().to_string()),
            }
        }
        let Ok([url, database, file]) = <[OsString; 3]>::try_from(words) else {
            return Err("an address, a database and a file are needed".to_owned());
        };
        let word = |word: OsString| word.string().map_err(|error| error.to_string());
        (options.url, options.database, options.file) = (word(url)?, word(database)?, file.into());
        options.format = format.unwrap_or_else(|| FileFormat::of_file(&options.file));
        options.check()?;
        Ok(ParsedCommand::Transfer(Box::new(options)))
    }

    fn check(&self) -> Result<(), String> {
        let is_dump = self.format == FileFormat::Dump;
        let is_csv = self.format == FileFormat::Csv;
        let wrong = match () {
            () if is_dump && self.query.is_some() => "--query is for jsonl and csv",
            () if !is_csv && !self.fields.is_empty() => "--field is for csv",
            () if !is_dump && (self.types.is_some() || self.key.is_some()) => {
                "--types and --key are for dumps"
            }
            () if !is_dump && 1 < self.collections.len() => {
                "jsonl and csv have one --collection; use --query for several"
            }
            () if self.query.is_some() && !self.collections.is_empty() => {
                "--query and --collection exclude each other"
            }
            () => return Ok(()),
        };
        Err(wrong.to_owned())
    }
}

fn text(parser: &mut Parser) -> Result<String, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    value.string().map_err(|error| error.to_string())
}

fn path(parser: &mut Parser) -> Result<PathBuf, String> {
    parser.value().map(PathBuf::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, is_export: bool) -> Result<ParsedCommand, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        TransferOptions::read(&words, is_export)
    }

    #[test]
    fn the_format_is_that_of_the_name_unless_it_is_said() {
        for (line, format) in [
            ("http://a Shop x.ravendbdump", FileFormat::Dump),
            ("http://a Shop x.CSV", FileFormat::Csv),
            ("--collection=As http://a Shop x.jsonl", FileFormat::Lines),
            ("http://a Shop x.csv --format dump", FileFormat::Dump),
        ] {
            let Ok(ParsedCommand::Transfer(options)) = read(line, true) else { panic!("{line}") };
            assert_eq!((options.format, options.database.as_str()), (format, "Shop"), "{line}");
        }
        assert!(matches!(read("x --help", false), Ok(ParsedCommand::Help)));
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        for (line, is_export, part) in [
            ("http://a Shop", true, "an address, a database and a file"),
            ("http://a Shop x --format=xml", true, "'xml' is no format"),
            ("http://a Shop x --query=q", true, "--query is for"),
            ("http://a Shop x.csv --query=q", false, "'--query'"),
            ("http://a Shop x.csv --types=Indexes", true, "for dumps"),
            ("http://a Shop x.csv --collection=a --collection=b", true, "one --collection"),
            ("http://a Shop x.csv --collection=a --query=b", true, "exclude"),
            ("http://a Shop x.jsonl --field=a", true, "--field is for csv"),
            ("http://a Shop x --nothing", true, "'--nothing'"),
        ] {
            let error = read(line, is_export).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
