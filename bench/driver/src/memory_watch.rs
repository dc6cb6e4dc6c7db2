//! The highest memory of a process while something else goes on, asked for by a thread.

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

/// A thread that looks again and again.
pub(crate) struct MemoryWatch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl MemoryWatch {
    pub(crate) fn begin(process: Process) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut highest = 0.0_f64;
            while !told.load(Ordering::Relaxed) {
                highest = highest.max(process.memory().map_or(0.0, |memory| memory.anonymous));
                thread::sleep(INTERVAL);
            }
            highest
        });
        Self { is_over, thread }
    }

    /// The highest memory not backed by files that it saw, in MB.
    pub(crate) fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        // It does not panic; if it did, there would be nothing to tell.
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
