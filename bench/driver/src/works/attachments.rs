//! The works that store attachments and read them.

use std::time::Duration;

use super::{DATABASE, Target, write_request};
use crate::{
    connection::Connection, error::DriverError, generated::incompressible,
    memory_watch::MemoryWatch, outcome::Outcome,
};

const CONTENT_BYTES: usize = 10_000_000;
/// The number of attachments that are written and read in turn.
const ATTACHMENTS: u64 = 8;

/// The attachment of that number, as a request.
fn write_attachment_request(out: &mut Vec<u8>, method: &str, number: u64, content: &[u8]) {
    let document = number % ATTACHMENTS + 1;
    let path = format_args!("/databases/{DATABASE}/attachments?id=smalls/{document}&name=content");
    write_request(out, method, path, content);
}

/// Changes the content, so that it differs from all earlier ones.
fn renew(content: &mut [u8], number: u64) {
    content[..8].copy_from_slice(&number.to_le_bytes());
}

impl Target {
    /// Stores all attachments, so that the first operation of a work meets the same state as the
    /// others.
    pub(super) async fn prepare_attachments(&self) -> Result<(), DriverError> {
        let mut connection = Connection::open(self.address).await?;
        let (mut request, mut content) = (Vec::new(), incompressible(CONTENT_BYTES));
        self.memory_before.set(self.process.memory().map(|memory| memory.anonymous));
        for _ in 0..ATTACHMENTS {
            let number = self.take(1);
            renew(&mut content, number);
            request.clear();
            write_attachment_request(&mut request, "PUT", number, &content);
            connection.succeed(&request).await?;
        }
        Ok(())
    }

    pub(super) fn put_attachments(&self, duration: Duration) -> Result<Outcome, DriverError> {
        let mut content = incompressible(CONTENT_BYTES);
        self.watched_load(duration, &mut |out| {
            let number = self.take(1);
            renew(&mut content, number);
            write_attachment_request(out, "PUT", number, &content);
        })
    }

    pub(super) fn get_attachments(&self, duration: Duration) -> Result<Outcome, DriverError> {
        self.watched_load(duration, &mut |out| {
            write_attachment_request(out, "GET", self.take(1), b"");
        })
    }

    /// On one connection, with the growth of the server's memory.
    fn watched_load(
        &self,
        duration: Duration,
        next: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Result<Outcome, DriverError> {
        let watch = MemoryWatch::begin(self.process);
        let outcome = self.load(1, duration, 1, next);
        let highest = watch.end();
        let before = self.memory_before.get().unwrap_or(highest);
        Ok(Outcome { memory_growth_megabytes: (highest - before).max(0.0), ..outcome? })
    }
}
