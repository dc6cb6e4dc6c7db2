//! `corvus backup verify`: reads files of backups, or dumps, and checks them without a server.
//!
//! Exit codes: 0 all are good; 1 one of them is not; 2 the command was not understood.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use engine::{BackupError, SequentialFile, VerifiedDump, verify_backup};
use platform::{Disk, Platform};
use security::SecretKey;

const HELP: &str = "\
Usage: corvus backup verify [--key=<file>] <file>...

Reads each file through: whether it is complete, whether each element is intact, and whether contents of
attachments have their hashes; of a snapshot (.ravendb-snapshot), whether each page is there and intact. A
file is a backup (.ravendb-full-backup, .ravendb-incremental-backup) or a dump (.ravendbdump), of Corvus or
of RavenDB; snapshots are of Corvus. --key names a file with the key of encrypted ones: 32 bytes,
or their base64.
";
const GOOD: u8 = 0;
const DAMAGED: u8 = 1;
const NOT_UNDERSTOOD: u8 = 2;

/// Runs `corvus backup` with the arguments that follow these words.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    ExitCode::from(run_on(&*Platform::real().disk, arguments, &mut io::stdout()))
}

fn run_on(disk: &dyn Disk, arguments: &[OsString], out: &mut dyn Write) -> u8 {
    let is_help = |word: &OsString| ["--help", "-h", "help"].iter().any(|help| word == help);
    if arguments.iter().any(is_help) {
        say(out, HELP.trim_end());
        return GOOD;
    }
    let (options, words): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|word| word.as_encoded_bytes().starts_with(b"--"));
    let key_file = match &options[..] {
        [] => Some(None),
        [option] => option.to_str().and_then(|option| option.strip_prefix("--key=")).map(Some),
        _ => None,
    };
    let (files, key_file) = match (&words[..], key_file) {
        ([command, files @ ..], Some(key_file)) if *command == "verify" && !files.is_empty() => {
            (files, key_file)
        }
        _ => {
            say(out, HELP.trim_end());
            return NOT_UNDERSTOOD;
        }
    };
    let key = match key_file.map(|file| read_key(disk, file)).transpose() {
        Ok(key) => key,
        Err(text) => {
            say(out, &text);
            return NOT_UNDERSTOOD;
        }
    };
    let mut exit = GOOD;
    for file in files {
        let path = Path::new(file);
        match verify(disk, path, key.as_ref()) {
            Ok(verified) => report(out, path, &verified),
            Err(error) => {
                say(out, &error.to_string());
                exit = DAMAGED;
            }
        }
    }
    exit
}

fn verify(
    disk: &dyn Disk,
    path: &Path,
    key: Option<&SecretKey>,
) -> Result<VerifiedDump, BackupError> {
    let name = path.display().to_string();
    let failed = |source: io::Error| {
        let (path, source) = (path.to_owned(), source.into());
        BackupError::Io { path, operation: "read", source }
    };
    let file = SequentialFile::open(disk, path).map_err(failed)?;
    verify_backup(file, &name, key.map(|key| &*key.0), &mut |_| true)
}

fn read_key(disk: &dyn Disk, file: &str) -> Result<SecretKey, String> {
    let read = disk.read_file(Path::new(file));
    let mut text = read.map_err(|error| format!("Cannot read the key {file}: {error}"))?;
    SecretKey::read(&mut text)
        .ok_or_else(|| format!("{file} is no key: it must have 32 bytes, or their base64"))
}

fn report(out: &mut dyn Write, path: &Path, verified: &VerifiedDump) {
    let (build, bytes) = (verified.build_version, verified.text_bytes);
    say(
        out,
        &format!("{} is good: written by build {build}, {bytes} bytes of text", path.display()),
    );
    for (section, count) in &verified.sections {
        say(out, &format!("  {count:>12} {section}"));
    }
    if 0 < verified.contents {
        say(out, &format!("  {:>12} of them contents of attachments", verified.contents));
    }
}

/// A closed pipe is not a failure.
fn say(out: &mut dyn Write, text: &str) {
    drop(writeln!(out, "{text}"));
}

#[cfg(test)]
mod tests {
    use platform::Access;

    use super::*;

    fn verified(text: &str) -> (u8, String) {
        let disk = Platform::memory().disk;
        disk.create_dir_all(Path::new("b")).unwrap();
        let file = disk.create(Path::new("b/x"), Access::Buffered).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        let mut out = Vec::new();
        let code = run_on(&*disk, &["verify".into(), "b/x".into()], &mut out);
        (code, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_good_file_is_described_and_a_damaged_one_is_named_with_the_place() {
        let content =
            r#"{"@metadata":{"@export-type":"Attachment"},"Hash":"HASH","Size":5,"Tag":"t"}hello"#;
        let hash = documents::hash_of(b"hello").to_string();
        let good = format!(
            r#"{{"BuildVersion":54178,"Docs":[{},{{"a":1}}],"Indexes":[]}}"#,
            content.replace("HASH", &hash)
        );
        let (code, text) = verified(&good);
        assert_eq!(code, GOOD, "{text}");
        assert!(
            text.contains("b/x is good: written by build 54178") && text.contains("2 Docs"),
            "{text}"
        );
        assert!(text.contains("1 of them contents"), "{text}");
        for (damaged, expected) in [
            (good.replace("hello", "hellO"), "the content at byte 30 has the hash"),
            (good[..good.len() - 3].to_owned(), "the text ends at byte"),
            (good.replace("{\"a\":1}", "{\"a\":1]"), "Docs"),
            (String::new(), "the whole dump is missing"),
        ] {
            let (code, text) = verified(&damaged);
            assert!(code == DAMAGED && text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn a_command_that_is_not_understood_shows_the_help() {
        let disk = Platform::memory().disk;
        for arguments in [&[][..], &["verify".into()], &["check".into(), "x".into()]] {
            let mut out = Vec::new();
            assert_eq!(run_on(&*disk, arguments, &mut out), NOT_UNDERSTOOD);
            assert!(String::from_utf8(out).unwrap().starts_with("Usage: corvus backup verify"));
        }
    }
}
