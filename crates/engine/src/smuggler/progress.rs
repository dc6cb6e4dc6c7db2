//! What an export or an import has done, shared with the operation that clients poll.

use std::sync::Arc;

use database::Operation;
use platform::Clock;
use wire::{
    operation_state::OperationProgress,
    smuggler_result::{MessageLevel, SmugglerCounts, SmugglerPart, SmugglerResult},
};

/// How many items are read between two announcements of the progress.
const ANNOUNCED_ITEMS: u64 = 4096;

/// The result so far, and the operation whose watchers are notified of it.
pub struct SmugglerProgress {
    result: SmugglerResult,
    operation: Option<Arc<Operation>>,
    clock: Arc<dyn Clock>,
    began_ticks: i64,
    unannounced: u64,
}

impl SmugglerProgress {
    /// Nothing is done yet. Watchers of the operation are notified of what is.
    pub fn new(operation: Option<Arc<Operation>>, clock: Arc<dyn Clock>) -> SmugglerProgress {
        let began_ticks = clock.now().ticks();
        let result = SmugglerResult::default();
        SmugglerProgress { result, operation, clock, began_ticks, unannounced: 0 }
    }

    /// Passes on what was counted; nothing is counted here until it comes back.
    pub(crate) fn take(&mut self) -> SmugglerProgress {
        let empty = SmugglerProgress {
            result: SmugglerResult::default(),
            operation: None,
            clock: Arc::clone(&self.clock),
            began_ticks: self.began_ticks,
            unannounced: 0,
        };
        std::mem::replace(self, empty)
    }

    /// The result so far.
    pub fn result(&self) -> &SmugglerResult {
        &self.result
    }

    /// Adds a message.
    pub fn report(&mut self, level: MessageLevel, text: &str) {
        self.result.add_message(level, text, self.clock.now().ticks());
        self.announce();
    }

    /// A part begins.
    pub fn begin(&mut self, part: SmugglerPart, name: &str) {
        let now = self.clock.now().ticks();
        self.result.counts_mut(part).started_ticks.get_or_insert(now);
        self.report(MessageLevel::Info, &format!("Started processing {name}."));
    }

    /// A part is complete.
    pub fn finish(&mut self, part: SmugglerPart, name: &str) {
        self.result.counts_mut(part).is_processed = true;
        let text = format!("Finished processing {name}. {}", self.counted(part));
        self.report(MessageLevel::Info, &text);
    }

    fn counted(&self, part: SmugglerPart) -> String {
        let counts = self.result.counts(part);
        let SmugglerCounts { read, errored, skipped, .. } = counts;
        let mut text = match part.has_skipped() {
            true => format!("Skipped: {skipped}. Read: {read}. Errored: {errored}."),
            false => format!("Read: {read}. Errored: {errored}."),
        };
        if part.has_attachments() {
            let SmugglerCounts { attachments_read, attachments_errored, .. } = counts;
            text +=
                &format!(" Attachments: Read: {attachments_read}. Errored: {attachments_errored}.");
        }
        text
    }

    /// All of a part is left out.
    pub fn skip(&mut self, part: SmugglerPart, name: &str) {
        self.result.counts_mut(part).is_skipped = true;
        self.report(MessageLevel::Info, &format!("Skipping '{name}' processing."));
    }

    /// A part that was left out is over.
    pub fn skipped(&mut self, part: SmugglerPart, name: &str) {
        let counts = self.result.counts_mut(part);
        counts.is_processed = true;
        let text = format!("Skipped '{name}' processing. Skipped {} items.", counts.read);
        self.report(MessageLevel::Info, &text);
    }

    /// One item was read.
    pub fn count(&mut self, part: SmugglerPart) -> &mut SmugglerCounts {
        self.unannounced += 1;
        if ANNOUNCED_ITEMS <= self.unannounced {
            self.announce();
        }
        let counts = self.result.counts_mut(part);
        counts.read += 1;
        counts
    }

    /// The counts of a part, to change them.
    pub fn counts(&mut self, part: SmugglerPart) -> &mut SmugglerCounts {
        self.result.counts_mut(part)
    }

    /// Notes a part of the database's record that was changed.
    pub fn note_record_part(&mut self, name: &'static str) {
        self.result.record_parts.push(name);
    }

    /// The whole result; parts that were not there were left out.
    pub fn end(&mut self) -> SmugglerResult {
        for part in SmugglerPart::ALL {
            let counts = self.result.counts_mut(part);
            if !counts.is_processed {
                counts.is_processed = true;
                counts.is_skipped = counts.started_ticks.is_none();
            }
        }
        self.result.elapsed_ticks = self.clock.now().ticks() - self.began_ticks;
        self.result.clone()
    }

    fn announce(&mut self) {
        self.unannounced = 0;
        if let Some(operation) = &self.operation {
            operation.set_progress(OperationProgress::Smuggler(Box::new(self.result.clone())));
        }
    }
}
