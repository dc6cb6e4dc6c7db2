//! The flush: from journal to data file, so that journals can be reused and recovery stays short.
//!
//! One round: (1) start a floor, after which the journal's first record of every page is whole;
//! (2) write the versions of the oldest active snapshot F to the data file; (3) sync it; (4) move the
//! header to the newest floor at or before F and sync again; (5) release the journal files before it;
//! (6) forget the versions. A power cut at any step leaves a header whose floor is at or before every
//! page image that may be torn in the data file, and the journal from that floor on.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    environment::{Environment, lock},
    error::StorageError,
    format::PageNumber,
    header::{EnvironmentHeader, JournalPosition},
    page_table::PageVersion,
};

/// What one flush leaves for the next.
pub(crate) struct FlushState {
    header: EnvironmentHeader,
    /// Floors started and not yet passed by the header, oldest first.
    floors: VecDeque<JournalPosition>,
    /// Versions of transactions up to this one are in the data file.
    flushed_through: u64,
}

impl FlushState {
    /// `header` is on disk, and so is everything up to its floor.
    pub(crate) fn new(header: EnvironmentHeader) -> Self {
        let flushed_through = header.replay_from.transaction;
        Self { header, floors: VecDeque::new(), flushed_through }
    }
}

impl Environment {
    /// Copies what readers no longer need in its old form to the data file, syncs it and lets go of
    /// journals. Called by a background thread, by a writer that ran out of memory for versions, and
    /// by tests. One at a time; readers and the writer go on meanwhile.
    ///
    /// A full disk is not a failure: the versions stay in memory and in the journal. After any other
    /// failed write or sync the environment has failed.
    pub fn flush(&self) -> Result<(), StorageError> {
        let mut state = lock(&self.flush_state);
        self.check_failure()?;
        self.flush_begins();
        let floor = self.journal.begin_floor();
        if state.floors.back() != Some(&floor) {
            state.floors.push_back(floor);
        }
        let snapshot = self.oldest_snapshot();
        let versions: Vec<(PageNumber, Arc<PageVersion>)> = snapshot
            .table
            .versions()
            .into_iter()
            .filter(|(_, version)| version.transaction() > state.flushed_through)
            .collect();
        let reached = snapshot.transaction;
        self.data.grow_to(snapshot.root.next_page.get())?;
        drop(snapshot);
        if !versions.is_empty() {
            self.data
                .write(&versions, &self.meter)
                .and_then(|()| self.data.sync(&self.meter))
                .map_err(|error| self.fail(error))?;
        }
        state.flushed_through = reached;
        self.move_header(&mut state)?;
        let flushed =
            versions.iter().map(|(page, version)| (*page, version.transaction())).collect();
        drop(versions);
        self.versions_flushed(flushed);
        self.journal.prepare_spare()
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
        let revision = state.header.revision + 1;
        let header = EnvironmentHeader { revision, replay_from, ..state.header };
        header
            .write(self.data.file(), self.data.path())
            .and_then(|()| self.data.sync(&self.meter))
            .map_err(|error| self.fail(error))?;
        state.header = header;
        self.journal.release(replay_from.transaction)
    }
}
