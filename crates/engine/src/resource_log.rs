//! Events of the monitoring of memory, disks and I/O in the server's log.

use std::path::Path;

use database::{DiskSpaceLevel, DiskSpaceReading, MemoryLevel, MemoryReading, ResourceEvent};
use platform::descriptors::OpenFiles;
use storage::IoOperation;

/// Writes an event of disks, memory, descriptors or slow I/O to the server's log.
pub(crate) fn log(event: &ResourceEvent) {
    match event {
        ResourceEvent::DiskSpace { database, reading } => log_disk_space(database, reading),
        ResourceEvent::Memory(reading) => log_memory(reading),
        ResourceEvent::OpenFiles(files) => log_open_files(*files),
        ResourceEvent::SlowIo { database, directory, operation } => {
            log_slow_io(database, directory, operation);
        }
    }
}

fn log_disk_space(database: &str, reading: &DiskSpaceReading) {
    let directory = reading.directory.display();
    let (free_bytes, total_bytes) = (reading.free_bytes, reading.total_bytes);
    match reading.level {
        DiskSpaceLevel::Refusing => tracing::error!(
            database, %directory, free_bytes, total_bytes,
            needed_bytes = reading.needed_bytes, was_full = reading.was_full,
            "the disk is too full: writes are refused until there is enough space again"
        ),
        DiskSpaceLevel::Low => tracing::warn!(
            database, %directory, free_bytes, total_bytes,
            "the disk is running full; writes are accepted"
        ),
        DiskSpaceLevel::Enough => tracing::info!(
            database, %directory, free_bytes, total_bytes,
            "the disk has enough space again"
        ),
    }
}

fn log_memory(reading: &MemoryReading) {
    let (left_bytes, usage) = (reading.left_bytes, reading.usage);
    let (taken_bytes, machine_free_bytes) = (usage.taken_bytes, usage.machine_free_bytes);
    match reading.level {
        MemoryLevel::Critical => tracing::error!(
            left_bytes,
            taken_bytes,
            machine_free_bytes,
            "memory is nearly used up: large requests are refused until there is more"
        ),
        MemoryLevel::Low => tracing::warn!(
            left_bytes,
            taken_bytes,
            machine_free_bytes,
            "memory is low: flushing immediately and closing unused databases early"
        ),
        MemoryLevel::Enough => tracing::info!(
            left_bytes,
            taken_bytes,
            machine_free_bytes,
            "there is enough memory again"
        ),
    }
}

fn log_open_files(files: OpenFiles) {
    let (open_files, open_files_max) = (files.open, files.limit);
    if files.is_short() {
        tracing::warn!(
            open_files,
            open_files_max,
            "file descriptors are running out: closing unused databases early. Raise the limit of \
             open files of the process"
        );
    } else {
        tracing::info!(open_files, open_files_max, "there are enough file descriptors again");
    }
}

fn log_slow_io(database: &str, directory: &Path, operation: &IoOperation) {
    tracing::warn!(
        database,
        path = %directory.join(&*operation.file).display(),
        kind = ?operation.kind,
        bytes = operation.bytes,
        milliseconds = operation.duration.as_millis() as u64,
        "I/O was slow"
    );
}
