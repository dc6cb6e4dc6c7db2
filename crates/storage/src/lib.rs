//! storage: an embedded, ordered, transactional engine.
//!
//! One [`Environment`] is one directory: a data file of 8 KB pages, read through a memory mapping,
//! and a journal in which each transaction becomes durable before it is acknowledged. One writer at
//! a time, any number of readers, each on a snapshot that never blocks and is never blocked.
//!
//! What it stores: trees with variable keys ([`Tree`]), trees with 8-byte keys ([`FixedTree`]) and
//! tables of rows with any number of indexes ([`Table`]), all found by name. It knows nothing of
//! documents, starts no threads, and accesses the disk through `platform` only.
//!
//! Reading order: format (the page) → page_table, snapshot (what a reader sees) → write_pages,
//! free_space (what a writer changes) → tree, fixed_tree, rows, table (what pages hold) → journal,
//! flush, header, history, open (how it survives) → environment (how it fits together).

mod bulk_writer;
mod catalog;
mod check;
mod cipher;
mod compact;
mod counted_output;
mod data_file;
mod encryption_key;
mod environment;
mod error;
mod fixed_tree;
mod flush;
mod flush_state;
mod format;
mod free_space;
mod header;
mod history;
mod image;
mod image_restore;
mod invariant;
mod io_statistics;
mod journal;
mod memory_budget;
mod open;
mod origin;
mod page_buffer;
mod page_mut;
mod page_table;
mod pass_over;
mod plaintext;
mod prepared;
mod remove;
mod report;
mod rows;
mod salvage;
mod sealed;
mod snapshot;
mod table;
mod table_mut;
mod transaction;
mod tree;
mod tree_name;
mod unfinished;
mod working_memory;
mod write_pages;
mod write_transaction;

#[cfg(test)]
mod tests;
/// The same tests on encrypted environments.
#[cfg(test)]
#[expect(clippy::duplicate_mod, reason = "a test asks which of the two modules it is in")]
#[path = "tests/mod.rs"]
mod tests_encrypted;

pub use crate::{
    bulk_writer::BulkWriter,
    check::CheckReport,
    compact::{
        CompactObserver, CompactOutcome, CompactProgress, CompactReport, CompactStep, compact,
        compact_in_place,
    },
    counted_output::CountedOutput,
    encryption_key::EncryptionKey,
    environment::{Environment, EnvironmentOptions, EnvironmentStatistics},
    error::{Corruption, StorageError},
    format::{KEY_BYTES_MAX, PAGE_BYTES, PageNumber, VALUE_BYTES_MAX},
    history::{History, HistoryMismatch, HistoryPoint, IncarnationWitness},
    image::{ImageEnd, ImagePages, ImageReader, ImageStep, TakePage},
    image_restore::ImageRestore,
    io_statistics::{FileIo, IoKind, IoOperation, IoPosition, IoSummary},
    journal::Recovery,
    memory_budget::{MemoryBudget, MemoryExhausted, MemoryShare, Uncounted},
    open::{environment_id_in, is_encrypted_in},
    pass_over::pass_over,
    prepared::{prepare_copy, settle_prepared},
    remove::{Removal, has_journal_of, remove_environment, remove_unfinished},
    report::{JournalReport, StorageReport, TableReport, TreeReport},
    rows::{RowId, allocated_row_bytes},
    salvage::{DAMAGED_PAGES_NAMED_MAX, Found, Salvage, SalvageFindings, SalvagedTree},
    sealed::SealedTransaction,
    table::{
        FixedIndexSchema, FixedRows, IndexSchema, IndexTree, KeyOf, RowBy, Table, TableSchema,
    },
    table_mut::TableMut,
    transaction::{
        FixedEntry, FixedTree, ReadTransaction, ScannedEntry, Transaction, Tree, TreeEntry,
        TreeScan,
    },
    tree_name::TreeName,
    unfinished::UnfinishedEnvironment,
    working_memory::{Held, WorkingMemory, WorkingScope},
    write_transaction::{FixedTreeMut, Savepoint, TreeMut, WriteTransaction},
};
