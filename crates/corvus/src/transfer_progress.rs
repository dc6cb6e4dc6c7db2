//! How far a transfer is: a bar on a terminal, and lines now and then anywhere else, on standard error.

use std::io::{self, IsTerminal, Read, Write};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const LINE_BYTES: u64 = 256 << 20;
const BAR: &str = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {bytes}, {bytes_per_sec}";

/// What is shown.
pub(crate) struct TransferProgress {
    bar: ProgressBar,
    is_terminal: bool,
    bytes: u64,
    shown: u64,
    total: Option<u64>,
}

impl TransferProgress {
    /// Of a transfer of that many bytes, if their number is known.
    pub(crate) fn begin(total: Option<u64>) -> TransferProgress {
        let is_terminal = io::stderr().is_terminal();
        let bar = match total {
            _ if !is_terminal => ProgressBar::hidden(),
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        let style = ProgressStyle::with_template(if total.is_some() { BAR } else { SPINNER });
        // Without the style there is the one of the library.
        if let Ok(style) = style {
            bar.set_style(style);
        }
        TransferProgress { bar, is_terminal, bytes: 0, shown: 0, total }
    }

    /// More bytes were transferred.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.bar.set_position(self.bytes);
        if !self.is_terminal && LINE_BYTES <= self.bytes - self.shown {
            self.shown = self.bytes;
            let of = self.total.map(|total| format!(" of {}", HumanBytes(total)));
            let line = format!("{}{}", HumanBytes(self.bytes), of.unwrap_or_default());
            // Without standard error there is nowhere to show it.
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// How many bytes were transferred.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A reader whose bytes are counted.
pub(crate) struct Counted<'p, R> {
    pub(crate) reader: R,
    pub(crate) progress: &'p mut TransferProgress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}
