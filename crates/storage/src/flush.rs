//! The flush: from journal to data file, so that journals can be reused and recovery stays short.
//!
//! One round: (1) start a floor, after which the journal's first record of every page is whole;
//! (2) write the versions of the oldest active snapshot F to the data file, portion by portion: write,
//! sync, forget the versions; (3) move the header to the newest floor at or before F and sync again;
//! (4) release the journal files before it. A power cut at any step leaves a header whose floor is at
//! or before every page image that may be torn in the data file, and the journal from that floor on.
//!
//! Each flush makes the journal write whole pages again, so flushes are worth delaying: a page that
//! many transactions change costs one whole image and one write to the data file for all of them.

use std::sync::Arc;

use crate::{
    environment::{Environment, lock},
    error::StorageError,
    flush_state::{FlushState, UnfinishedRecovery},
    format::PageNumber,
    header::{EnvironmentHeader, JournalPosition},
    invariant,
    page_table::PageVersion,
    plaintext::{Encryption, Plaintext},
};

/// Once this fraction of the memory limit has been written, those versions are released, so that
/// there is room for new ones long before a large flush is over.
const PORTION_DIVISOR: u64 = 8;

type Version = (PageNumber, Arc<PageVersion>);

impl Environment {
    /// Copies versions to the data file once no reader needs the pages they replace, syncs it and
    /// releases journals. Called by a background thread, by a writer that ran out of memory for
    /// versions, and by tests. One flush runs at a time; readers and the writer continue meanwhile.
    ///
    /// A full disk is not a failure: the versions stay in memory and in the journal. After any other
    /// failed write or sync the environment has failed.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.flush_unless(|| false)
    }

    /// Does the work that [`Environment::on_flush_wanted`] announced: flushes when enough has been
    /// written, and prepares the next journal file when the current one is half full.
    pub fn keep_up(&self) -> Result<(), StorageError> {
        if self.flush_is_due() {
            return self.flush_unless(|| !self.flush_is_due());
        }
        let _one_at_a_time = lock(&self.flush_state);
        self.check_failure()?;
        self.flush_begins();
        let outcome = self.journal.prepare_spare();
        self.note_full_disk(&outcome);
        outcome
    }

    /// Flushes, unless `no_longer` returns true after the flush in progress is over.
    pub(crate) fn flush_unless(&self, no_longer: impl Fn() -> bool) -> Result<(), StorageError> {
        let outcome = self.flush_now_unless(no_longer);
        self.note_full_disk(&outcome);
        outcome
    }

    fn flush_now_unless(&self, no_longer: impl Fn() -> bool) -> Result<(), StorageError> {
        let mut state = lock(&self.flush_state);
        self.check_failure()?;
        if no_longer() {
            return Ok(());
        }
        self.flush_begins();
        self.finish_recovery(&mut state)?;
        let floor = self.journal.begin_floor();
        if state.floors.back() != Some(&floor) {
            state.floors.push_back(floor);
        }
        let snapshot = self.oldest_snapshot();
        let versions: Vec<Version> = snapshot
            .table
            .versions()
            .into_iter()
            .filter(|(_, version)| version.transaction() > state.flushed_through)
            .collect();
        let reached = snapshot.transaction;
        self.check_round(&state, &versions, reached).map_err(|error| self.fail(error))?;
        self.data.grow_to(snapshot.root.next_page.get())?;
        drop(snapshot);
        self.write_versions(versions)?;
        state.flushed_through = reached;
        self.move_header(&mut state)?;
        self.journal.prepare_spare()
    }

    /// What a round relies on: recovery starts at the header's floor and trusts the data file before it.
    fn check_round(
        &self,
        state: &FlushState,
        versions: &[Version],
        reached: u64,
    ) -> Result<(), StorageError> {
        invariant!(state.flushed_through <= reached, "a flush never goes back");
        let newest = versions.iter().map(|(_, version)| version.transaction()).max();
        invariant!(
            newest.is_none_or(|newest| newest <= reached),
            "a snapshot contains no version of a later transaction"
        );
        Ok(())
    }

    /// Moves versions from memory to the data file, in portions.
    fn write_versions(&self, mut versions: Vec<Version>) -> Result<(), StorageError> {
        while !versions.is_empty() {
            let portion_bytes = self.options.unflushed_bytes_max / PORTION_DIVISOR;
            let rest = versions.split_off(portion_len(&versions, portion_bytes));
            let portion = std::mem::replace(&mut versions, rest);
            self.data
                .write(&portion, &self.meter)
                .and_then(|()| self.data.sync(&self.meter))
                .map_err(|error| self.fail(error))?;
            let flushed =
                portion.iter().map(|(page, version)| (*page, version.transaction())).collect();
            drop(portion);
            self.versions_flushed(flushed);
        }
        Ok(())
    }

    /// Moves the header to the newest floor whose transactions are all in the synced data file.
    fn move_header(&self, state: &mut FlushState) -> Result<(), StorageError> {
        let mut floor = None;
        while let Some(next) = state.floors.front()
            && next.transaction <= state.flushed_through
        {
            floor = state.floors.pop_front();
        }
        let Some(replay_from) = floor.filter(|floor| *floor != state.header.replay_from) else {
            return Ok(());
        };
        self.check_floor(state, &replay_from).map_err(|error| self.fail(error))?;
        let revision = state.header.revision + 1;
        // The file of a floor was created before the first transaction.
        let header =
            EnvironmentHeader { revision, replay_from, needs_journal: true, ..state.header };
        self.put_header(state, header).map_err(|error| self.fail(error))?;
        self.journal.release(replay_from)
    }

    fn check_floor(&self, state: &FlushState, next: &JournalPosition) -> Result<(), StorageError> {
        let now = &state.header.replay_from;
        invariant!(
            (now.journal, now.offset) <= (next.journal, next.offset),
            "recovery never starts earlier in the journal than before"
        );
        invariant!(
            next.transaction <= state.flushed_through,
            "recovery never skips a transaction that is not in the data file"
        );
        Ok(())
    }

    fn put_header(
        &self,
        state: &mut FlushState,
        header: EnvironmentHeader,
    ) -> Result<(), StorageError> {
        let plaintext = self.encryption.as_ref().map(Encryption::plaintext);
        let keys = plaintext.as_deref().map(Plaintext::keys).transpose()?;
        let signing = keys.zip(self.encryption.as_ref().map(Encryption::nonce));
        header.write(self.data.file(), self.data.path(), signing)?;
        self.data.sync(&self.meter)?;
        state.header = header;
        Ok(())
    }

    /// Brings the data file up to the end of the journals of the last process, if opening had no space
    /// for that, and removes them. Nothing else is written before.
    ///
    /// # Errors
    /// [`StorageError::DiskFull`] when there is still no space.
    fn finish_recovery(&self, state: &mut FlushState) -> Result<(), StorageError> {
        let Some(UnfinishedRecovery { position, .. }) = &state.unfinished else { return Ok(()) };
        let (position, header) = (*position, state.header.after_replay(*position));
        let snapshot = self.oldest_snapshot();
        invariant!(
            snapshot.transaction == position.transaction,
            "nothing is written before what was replayed is in the data file"
        );
        self.data.grow_to(snapshot.root.next_page.get())?;
        let versions = snapshot.table.versions();
        drop(snapshot);
        self.write_versions(versions)?;
        state.flushed_through = position.transaction;
        self.put_header(state, header).map_err(|error| self.fail(error))?;
        // Files that cannot be removed now are removed when the environment is next opened.
        match state.unfinished.take() {
            Some(UnfinishedRecovery { journals, .. }) => self.journal.remove_replayed(&journals),
            None => Ok(()),
        }
    }

    /// Creates the first journal file and names it in the header, before anything is written to it.
    /// The file named by the header so far may no longer exist.
    ///
    /// # Errors
    /// When there is no room for it; any other failure closes the write path.
    pub(crate) fn name_first_journal(&self) -> Result<(), StorageError> {
        let mut state = lock(&self.flush_state);
        self.finish_recovery(&mut state)?;
        let replay_from = self.journal.begin()?;
        let revision = state.header.revision + 1;
        let header =
            EnvironmentHeader { revision, replay_from, needs_journal: true, ..state.header };
        state.floors.clear();
        self.put_header(&mut state, header).map_err(|error| self.fail(error))
    }

    /// Removes the journal when nothing in it is needed, after the header records that. For
    /// closing.
    pub(crate) fn remove_journal(&self, state: &mut FlushState) {
        if !state.header.needs_journal {
            return;
        }
        let Some(replay_from) = self.journal.next_if_passed(state.header.replay_from) else {
            return;
        };
        let revision = state.header.revision + 1;
        let header =
            EnvironmentHeader { revision, replay_from, needs_journal: false, ..state.header };
        // Otherwise the journal stays and is replayed when the environment is reopened.
        if self.put_header(state, header).is_ok() {
            self.journal.remove_all();
        }
    }
}

/// How many of the versions make up a portion of `portion_bytes`; at least one.
fn portion_len(versions: &[Version], portion_bytes: u64) -> usize {
    let mut bytes = 0;
    let whole = versions.iter().position(|(_, version)| {
        bytes += version.bytes().len() as u64;
        bytes >= portion_bytes
    });
    whole.map_or(versions.len(), |last| last + 1)
}
