//! Commands on standard input: the test drivers of the clients stop the server that way.
//!
//! They write `shutdown no-confirmation` without a line end. The end of standard input is ignored:
//! a server without a terminal has none from the start.

use std::io::{self, Read};

use tokio::sync::oneshot;

const SHUTDOWN: &[u8] = b"shutdown no-confirmation";
/// Longer texts are not commands; only their end is kept.
const KEPT_BYTES: usize = 256;

/// Waits until the command to stop arrives; forever when it does not.
pub(crate) async fn shutdown_requested() {
    let (sender, receiver) = oneshot::channel();
    // Reading standard input blocks, and cannot be interrupted: it gets a dedicated thread, which
    // ends with the process.
    let reader = std::thread::Builder::new().name("console".into()).spawn(move || {
        if stop_was_requested(&mut io::stdin().lock()) {
            // The server may already be stopping.
            let _sent = sender.send(());
        }
    });
    if reader.is_err() || receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether the command arrives before the input ends.
fn stop_was_requested(input: &mut impl Read) -> bool {
    let mut text = Vec::new();
    let mut piece = [0; 128];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return false,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
        if text.to_ascii_lowercase().windows(SHUTDOWN.len()).any(|part| part == SHUTDOWN) {
            return true;
        }
        let surplus = text.len().saturating_sub(KEPT_BYTES);
        text.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, as a slow writer does.
    struct Slow<'t>(&'t [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn the_command_is_understood_without_a_line_end_and_in_pieces() {
        let long = [b"x".repeat(1000), SHUTDOWN.to_vec()].concat();
        let table: [(&[u8], bool); 5] = [
            (b"shutdown no-confirmation", true),
            (b"\nShutdown No-Confirmation\n", true),
            (&long, true),
            (b"shutdown", false),
            (b"", false),
        ];
        for (input, expected) in table {
            assert_eq!(stop_was_requested(&mut Slow(input)), expected);
            assert_eq!(stop_was_requested(&mut &input[..]), expected);
        }
    }
}
