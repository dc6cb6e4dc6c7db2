//! What the disk itself allows: 4 KB written directly and durably (`O_DIRECT|O_DSYNC`) into a
//! preallocated file, one after the other. The speed of a shared disk drifts within minutes, so
//! every report contains its speed at the time of the run.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, open};

const WRITE_BYTES: usize = 4096;
const FILE_BYTES: usize = 64 << 20;
const FILE_NAME: &str = "bare-disk";

/// The result of writing for some time.
#[derive(Clone, Debug)]
pub struct DurableWrites {
    /// The time from the first write to the last.
    pub elapsed: Duration,
    /// The latency of each write in nanoseconds, in order.
    pub latencies: Vec<u32>,
}

impl DurableWrites {
    /// Writes per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Writes for the given time, at least once, into a file in the directory, and removes the file.
/// Fails if the file system does not support direct writes.
pub fn durable_writes(directory: &Path, duration: Duration) -> io::Result<DurableWrites> {
    let path = directory.join(FILE_NAME);
    let written = write_zeros(&path).and_then(|()| write_until(&path, duration));
    fs::remove_file(&path)?;
    written
}

fn write_until(path: &Path, duration: Duration) -> io::Result<DurableWrites> {
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    // Direct writes need an aligned address.
    let buffer = vec![0x5A; 2 * WRITE_BYTES];
    let begin = buffer.as_ptr().align_offset(WRITE_BYTES);
    let block = &buffer[begin..begin + WRITE_BYTES];
    let mut latencies = Vec::new();
    let began = Instant::now();
    let mut before = began;
    for offset in (0..FILE_BYTES).step_by(WRITE_BYTES).cycle() {
        file.write_all_at(block, offset as u64)?;
        let after = Instant::now();
        latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
        if after - began >= duration {
            break;
        }
    }
    Ok(DurableWrites { elapsed: before - began, latencies })
}

/// Written, not only reserved: the first write into a reserved block changes the file's metadata.
fn write_zeros(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..FILE_BYTES / zeros.len() {
        file.write_all(&zeros)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_is_counted_and_the_file_is_gone() {
        let directory = tempfile::tempdir_in(".").unwrap();
        let writes = durable_writes(directory.path(), Duration::from_millis(5)).unwrap();
        assert!(!writes.latencies.is_empty() && writes.rate() > 0.0);
        let sum: u64 = writes.latencies.iter().map(|one| u64::from(*one)).sum();
        assert_eq!(u128::from(sum), writes.elapsed.as_nanos());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
