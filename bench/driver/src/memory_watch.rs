//! The highest memory of a process during a measurement, sampled by a thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::process::Process;

const INTERVAL: Duration = Duration::from_millis(2);

/// A thread that samples repeatedly.
pub(crate) struct MemoryWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl MemoryWatch {
    pub(crate) fn begin(process: Process) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut highest = 0.0_f64;
            while !stopped.load(Ordering::Relaxed) {
                highest = highest.max(process.memory().map_or(0.0, |memory| memory.anonymous));
                thread::sleep(INTERVAL);
            }
            highest
        });
        Self { is_over, thread }
    }

    /// The highest sampled memory not backed by files, in MB.
    pub(crate) fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread does not panic; if it did, there would be no value to report.
        self.thread.join().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_seen() {
        let own = Process::own();
        let before = own.memory().unwrap().anonymous;
        let watch = MemoryWatch::begin(own);
        let bytes = vec![1_u8; 64 << 20];
        thread::sleep(20 * INTERVAL);
        drop(bytes);
        assert!(watch.end() > before + 50.0);
    }
}
