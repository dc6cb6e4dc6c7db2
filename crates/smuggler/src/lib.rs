//! The formats in which databases are exported and imported: readers and writers over bytes.
//!
//! A *dump* (`.ravendbdump`) is the file that RavenDB's smuggler and logical backups write, after
//! decompression: one JSON object with a section for each kind of data, see
//! `docs/internals/smuggler.md`. No database, no files, no threads.
//!
//! Invariant: readers take the text in pieces of any length, hold at most one element of it, and
//! never panic.
//!
//! | file | what |
//! |---|---|
//! | `section` | the sections of a dump, and older names of them |
//! | `dump_reader` | a dump that arrives in pieces |
//! | `dump_writer` | the frame of a dump |
//! | `compression` | how a dump is compressed |
//! | `segment` | segments of time series |
//! | `encryption` | encrypted dumps |
//! | `snapshot` | the file of a snapshot backup |
//! | `row_reader` | documents in files of CSV and of JSON lines that arrive in pieces |
//! | `csv_reader`, `line_reader` | rows, and lines |
//! | `csv_document` | the document of a row |
//! | `error` | why a dump or a row cannot be read |
#![forbid(unsafe_code)]

mod compression;
mod csv_document;
mod csv_reader;
mod dump_reader;
mod dump_writer;
mod encryption;
mod error;
mod line_reader;
mod row_reader;
mod section;
mod segment;
mod snapshot;

pub use compression::{DumpCompression, DumpEncoder, DumpText, GZIP_MAGIC, ZSTD_MAGIC};
pub use csv_reader::CsvFormat;
pub use dump_reader::{DumpEvent, DumpReader};
pub use dump_writer::DumpWriter;
pub use encryption::{
    DUMP_HEADER_BYTES, DUMP_KEY_BYTES, DecryptedDump, DumpDecryptor, DumpEncryptor, WrongKey,
};
pub use error::{CsvHeaderError, DumpError, RowFormatError};
pub use row_reader::{RowEvent, RowFormat, RowReader};
pub use section::{BACKUP_FILE, Section};
pub use segment::{
    DamagedSegment, OFFSET_MS_MAX, SEGMENT_BYTES_MAX, SegmentEncoder, SegmentEntry, decode_segment,
    fitting_tag,
};
pub use snapshot::{PartReader, SnapshotEnd, SnapshotPart, SnapshotReader, SnapshotWriter};
