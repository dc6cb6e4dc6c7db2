//! The simulated disk itself: every operation asks the schedule for its outcome, then changes what
//! processes see, what is durable, or nothing.
//!
//! A single lock makes the order of operations, and so the outcome of a seed, deterministic as long
//! as the code under test issues them from one thread. Only the copying of bytes that are read
//! happens outside it.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    disk::{Access, DirectoryLock, Disk, DiskSpace, File, Mapping, check_direct},
    memory::{
        found,
        tree::{self, NodeId, ROOT},
    },
    simulated::{
        faults::{
            Description, FaultKind, FaultSpan, LoggedOperation, OperationFilter, OperationKind,
            PowerLost, Schedule, Verdict,
        },
        names::{Names, SharedFile},
        power::{self, Survival},
        random::Random,
    },
};

/// The free space reported by a disk without a limit, in bytes.
const UNLIMITED_BYTES: u64 = 1 << 50;

/// A disk in memory in which a test can inject faults. Clones of the `Arc` around it control the
/// same disk.
pub struct SimulatedDisk {
    shared: Arc<Mutex<State>>,
}

struct State {
    names: Names,
    schedule: Schedule,
    random: Random,
    powered: bool,
    /// Grows with every power cut; handles of an earlier epoch are dead.
    epoch: u64,
    sequence: u64,
    space_limit: Option<u64>,
    locked: BTreeSet<NodeId>,
}

impl SimulatedDisk {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> Self {
        let state = State {
            names: Names::new(),
            schedule: Schedule::empty(),
            random: Random::new(seed),
            powered: true,
            epoch: 0,
            sequence: 0,
            space_limit: None,
            locked: BTreeSet::new(),
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Cuts the power now and turns it on again: open files and locks are dead, and unsynced changes
    /// survive as the policy says.
    ///
    /// # Errors
    /// When the machine that runs the simulation has no memory left; true of all methods here.
    pub fn power_cut(&self, survival: Survival) -> io::Result<()> {
        self.state().restart(survival)
    }

    /// Cuts the power in the middle of the `nth` mutating operation from now (1 is the next one).
    /// That operation and all later ones fail with [`PowerLost`]. It counts as unsynced: it may
    /// survive, even in part, and even if it bypasses the page cache.
    ///
    /// # Panics
    /// When `nth` is zero.
    pub fn cut_power_at_operation(&self, nth: u64, survival: Survival) {
        self.state().schedule.cut_power(nth, survival);
    }

    /// Turns the power on again after a scheduled cut. When the cut was not reached, the power is cut
    /// now instead, with the policy of the schedule or [`Survival::Random`].
    pub fn restart(&self) -> io::Result<()> {
        let mut state = self.state();
        let survival = state.schedule.take_power_cut().unwrap_or(Survival::Random);
        state.restart(survival)
    }

    /// Whether a scheduled power cut was reached and the disk was not restarted since.
    pub fn is_power_lost(&self) -> bool {
        !self.state().powered
    }

    /// Makes the `nth` matching operation from now (1 is the next one) fail. A failed write may have
    /// written nothing, a part or all; a failed sync of a file leaves what was unsynced visible but
    /// forgotten, so that no later sync makes it durable; other failed operations have done nothing.
    ///
    /// # Panics
    /// When `nth` is zero.
    pub fn fail_operation(
        &self,
        nth: u64,
        filter: OperationFilter,
        kind: FaultKind,
        span: FaultSpan,
    ) {
        self.state().schedule.fail(nth, filter, kind, span);
    }

    /// Removes all injected faults, including those that have not occurred yet.
    pub fn clear_faults(&self) {
        self.state().schedule.clear_faults();
    }

    /// Limits the space of all files together, in bytes; `None` removes the limit. Space is used in
    /// blocks of 4096 bytes by writing and allocating, and freed by truncating and removing.
    pub fn space_limit(&self, bytes: Option<u64>) {
        self.state().space_limit = bytes;
    }

    /// Inverts one bit (0 to 7) of a byte of a file, for processes and durably.
    ///
    /// # Errors
    /// `NotFound`, or `UnexpectedEof` when the file has no such byte.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let file = self.state().names.tree().find_file(path)?;
        lock(&file).flip_bit(offset, bit % 8)
    }

    /// What processes see in a file.
    pub fn file_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.state().names.tree().find_file(path)?;
        lock(&file).content().to_vec()
    }

    /// What a power cut would leave of a file now if nothing unsynced survived it.
    pub fn durable_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.state().names.find_durable_file(path)?;
        lock(&file).durable().to_vec()
    }

    /// How many matching operations were issued so far, including those that failed.
    pub fn operation_count(&self, filter: OperationFilter) -> u64 {
        self.state().schedule.count(filter)
    }

    /// The last operations, oldest first (at most 1000), to be printed when a test fails.
    pub fn log(&self) -> Vec<LoggedOperation> {
        self.state().schedule.log()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    fn file(&self, state: &State, file: SharedFile, path: &Path, access: Access) -> Arc<dyn File> {
        let shared = Arc::clone(&self.shared);
        Arc::new(SimulatedFile { shared, file, path: path.into(), access, epoch: state.epoch })
    }
}

/// Locks even after a panic elsewhere: a failing test still needs to inspect the disk.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn power_lost() -> io::Error {
    io::Error::other(PowerLost)
}

impl State {
    fn check_power(&self) -> io::Result<()> {
        if self.powered { Ok(()) } else { Err(power_lost()) }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Runs an atomic operation, which does nothing when a fault is injected. When the power is cut
    /// in the middle it does happen, initially unsynced like every change.
    fn run<T>(
        &mut self,
        description: Description,
        effect: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check_power()?;
        match self.schedule.judge(description) {
            Verdict::Proceed => effect(self),
            Verdict::Fail(fault) => Err(fault.error()),
            Verdict::LosePower => {
                self.powered = false;
                // Whatever its outcome, the caller only sees the power loss.
                drop(effect(self));
                Err(power_lost())
            }
        }
    }

    /// Applies the loss, and turns the power on.
    fn restart(&mut self, survival: Survival) -> io::Result<()> {
        let files: Vec<SharedFile> =
            self.names.tree().files().map(|(_, file)| Arc::clone(file)).collect();
        let mut changes: Vec<u64> = self.names.unsynced().collect();
        for file in &files {
            changes.extend(lock(file).unsynced());
        }
        changes.sort_unstable();
        changes.dedup();
        let fates = power::decide(survival, &changes, &mut self.random);
        for file in &files {
            lock(file).lose(&fates, &mut self.random)?;
        }
        self.names.lose(&fates);
        self.schedule.take_power_cut();
        self.locked.clear();
        self.epoch += 1;
        self.powered = true;
        Ok(())
    }

    /// Bytes of space left. A removed file takes space while it is open.
    fn space_left(&self) -> u64 {
        let Some(limit) = self.space_limit else { return UNLIMITED_BYTES };
        let tree = self.names.tree();
        let named: BTreeSet<NodeId> = tree.below(ROOT).into_iter().collect();
        let counted = tree.files().filter(|(id, file)| {
            // The tree holds one reference; every other one is an open handle.
            named.contains(id) || Arc::strong_count(file) > 1
        });
        let taken: u64 = counted.map(|(_, file)| lock(file).space()).sum();
        limit.saturating_sub(taken)
    }

    /// Fails when there is not enough space left.
    fn check_space(&self, file: &SharedFile, start: u64, end: u64) -> io::Result<()> {
        if self.space_limit.is_none() {
            return Ok(());
        }
        let wanted = lock(file).space_wanted(start, end);
        if wanted > self.space_left() {
            return Err(FaultKind::StorageFull.error());
        }
        Ok(())
    }

    /// Creates one directory and makes its entry durable.
    fn create_directory(&mut self, parent: NodeId, name: &str, dir: &Path) -> io::Result<NodeId> {
        let description = Description::new(OperationKind::Create, "create_dir", dir);
        self.run(description, |state| {
            let sequence = state.next_sequence();
            let node = state.names.create_directory(sequence, parent, name);
            if state.powered {
                state.names.sync(parent);
            }
            Ok(node)
        })
    }

    fn create_file(&mut self, path: &Path) -> io::Result<SharedFile> {
        self.run(Description::new(OperationKind::Create, "create", path), |state| {
            let sequence = state.next_sequence();
            state.names.create(sequence, path)
        })
    }
}

impl Disk for SimulatedDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check_power()?;
        let mut directory = ROOT;
        for name in tree::names(dir)? {
            let existing = state.names.tree().entries(directory)?.get(name).copied();
            directory = match existing {
                Some(existing) => existing,
                None => state.create_directory(directory, name, dir)?,
            };
        }
        state.names.tree().entries(directory).map(|_| ())
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let file = state.create_file(path)?;
        Ok(self.file(&state, file, path, access))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let description = Description::new(OperationKind::Open, "open", path);
        let file = state.run(description, |state| state.names.tree().find_file(path))?;
        Ok(self.file(&state, file, path, access))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        state.check_power()?;
        found(state.names.tree().find(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_power()?;
        let tree = state.names.tree();
        Ok(tree.entries(tree.find(dir)?)?.keys().cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().run(Description::new(OperationKind::Rename, "rename", from), |state| {
            let sequence = state.next_sequence();
            state.names.rename(sequence, from, to)
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.state().run(Description::new(OperationKind::Remove, "remove_file", path), |state| {
            let sequence = state.next_sequence();
            state.names.remove_file(sequence, path)
        })
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.state().run(Description::new(OperationKind::Remove, "remove_dir_all", dir), |state| {
            let sequence = &mut state.sequence;
            let next = || {
                *sequence += 1;
                *sequence
            };
            state.names.remove_all(next, dir)
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.state().run(Description::new(OperationKind::Sync, "sync_dir", dir), |state| {
            let tree = state.names.tree();
            let directory = tree.find(dir)?;
            tree.entries(directory)?;
            if state.powered {
                state.names.sync(directory);
            }
            Ok(())
        })
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut state = self.state();
        state.check_power()?;
        let node = state.names.tree().find(dir)?;
        state.names.tree().entries(node)?;
        if !state.locked.insert(node) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(SimulatedLock { shared, node, epoch: state.epoch }))
    }

    fn space(&self, _dir: &Path) -> io::Result<DiskSpace> {
        let state = self.state();
        state.check_power()?;
        let total_bytes = state.space_limit.unwrap_or(UNLIMITED_BYTES);
        Ok(DiskSpace { free_bytes: state.space_left(), total_bytes })
    }
}

struct SimulatedLock {
    shared: Arc<Mutex<State>>,
    node: NodeId,
    epoch: u64,
}

impl DirectoryLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        if state.epoch == self.epoch {
            state.locked.remove(&self.node);
        }
    }
}

struct SimulatedFile {
    shared: Arc<Mutex<State>>,
    file: SharedFile,
    path: Arc<Path>,
    access: Access,
    epoch: u64,
}

impl SimulatedFile {
    /// The disk, unless a power cut has invalidated this handle.
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.shared);
        state.check_power()?;
        if state.epoch == self.epoch { Ok(state) } else { Err(power_lost()) }
    }

    fn description(&self, kind: OperationKind, name: &'static str) -> Description {
        Description { kind, name, path: Arc::clone(&self.path), offset: None, len: None }
    }

    fn length_description(&self, name: &'static str, len: u64) -> Description {
        Description { len: Some(len), ..self.description(OperationKind::Allocate, name) }
    }

    fn write(&self, state: &mut State, bytes: &[u8], offset: u64) -> io::Result<()> {
        state.check_space(&self.file, offset, offset + bytes.len() as u64)?;
        match self.access {
            Access::Buffered => lock(&self.file).write(state.next_sequence(), bytes, offset),
            Access::DirectSync => lock(&self.file).write_durably(bytes, offset),
        }
    }

    /// A write that failed: none, some or all of it is there, and not safe.
    fn write_in_part(&self, state: &mut State, bytes: &[u8], offset: u64) -> io::Result<()> {
        let written = match state.random.below(3) {
            0 => 0,
            1 => state.random.below(bytes.len() as u64 + 1) as usize,
            _ => bytes.len(),
        };
        lock(&self.file).write(state.next_sequence(), &bytes[..written], offset)
    }
}

impl File for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let _state = self.state()?;
        lock(&self.file).content().len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state()?.run(self.length_description("set_len", len), |state| {
            lock(&self.file).set_len(state.next_sequence(), len)
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.state()?.run(self.length_description("allocate", len), |state| {
            state.check_space(&self.file, 0, len)?;
            lock(&self.file).allocate(state.next_sequence(), len)
        })
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, buffer, offset)?;
        let description = Description {
            offset: Some(offset),
            len: Some(buffer.len() as u64),
            ..self.description(OperationKind::Read, "read_exact_at")
        };
        let content =
            self.state()?.run(description, |_| Ok(Arc::clone(lock(&self.file).content())))?;
        content.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_direct(self.access, bytes, offset)?;
        let description = Description {
            offset: Some(offset),
            len: Some(bytes.len() as u64),
            ..self.description(OperationKind::Write, "write_all_at")
        };
        let mut state = self.state()?;
        match state.schedule.judge(description) {
            Verdict::Proceed => self.write(&mut state, bytes, offset),
            Verdict::Fail(fault) => {
                self.write_in_part(&mut state, bytes, offset)?;
                Err(fault.error())
            }
            Verdict::LosePower => {
                state.powered = false;
                lock(&self.file).write(state.next_sequence(), bytes, offset)?;
                Err(power_lost())
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        let description = self.description(OperationKind::Sync, "sync_data");
        match state.schedule.judge(description) {
            Verdict::Proceed => lock(&self.file).sync(),
            Verdict::Fail(fault) => {
                lock(&self.file).forget_unsynced();
                Err(fault.error())
            }
            Verdict::LosePower => {
                state.powered = false;
                Err(power_lost())
            }
        }
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        let _state = self.state()?;
        let (shared, description) =
            (Arc::clone(&self.shared), self.description(OperationKind::Load, "load"));
        let before_load = move |offset, len| {
            let description =
                Description { offset: Some(offset), len: Some(len), ..description.clone() };
            // What is mapped stays readable when the power is gone: the process that reads is gone, too.
            match lock(&shared).schedule.judge(description) {
                Verdict::Fail(fault) => Err(fault.error()),
                Verdict::Proceed | Verdict::LosePower => Ok(()),
            }
        };
        Ok(lock(&self.file).content().map(len)?.with_faults(Box::new(before_load)))
    }
}
