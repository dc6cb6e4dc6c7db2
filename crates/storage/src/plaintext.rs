//! Decrypted pages for as long as transactions read them.
//!
//! An encrypted environment has one [`Plaintext`] at a time: a list of decrypted pages that only grows, in locked
//! memory. Each transaction holds the one that was current when it began, so what it has been lent stays where it is
//! until it ends, without a lock or a count per page. Once it is larger than its bound, later transactions share a
//! new, empty one; the old one is zeroed when its last transaction has ended. When no transaction has been open
//! for a moment, the current one is dropped too, and the keys with it ([`Encryption::release_when_quiet`]).
//!
//! A decrypted page is found by the nonce of the encrypted one, which is random and never repeated, and by its number.
//! So whatever an encrypted page comes from, the data file or a version in memory, a decrypted one found for it
//! is the one that was authenticated.
//!
//! Transactions that read without end renew their plaintext in between ([`ReadTransaction::renewed`]); a
//! transaction that does not draws from a budget for all that it reads and is refused when there is no more.
//!
//! [`ReadTransaction::renewed`]: crate::ReadTransaction::renewed

use std::{
    path::PathBuf,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
};

use platform::{Entropy, secret_memory::SecretMemory, wiping_allocator::WipesFreedMemory};
use rustc_hash::FxHashMap;

use crate::{
    cipher::{Keys, NONCE_BYTES, Nonce, page_nonce},
    encryption_key::EncryptionKey,
    error::{Corruption, StorageError},
    format::{PAGE_BYTES, PageNumber, VALUE_BYTES_MAX},
    memory_budget::{MemoryBudget, MemoryShare},
    page_buffer::PageBuffer,
};

/// Locks of the places, so that readers seldom wait for each other.
const SHARDS: usize = 16;
/// Memory is requested in pieces of this size at first, and of twice as much each time.
const CHUNK_BYTES_MIN: usize = 128 * 1024;
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A transaction that reads no more than this is never refused for lack of memory.
const ALWAYS_ALLOWED_BYTES: u64 = 1024 * 1024;

/// What an environment encrypts and decrypts with.
pub(crate) struct Encryption {
    source: Arc<KeySource>,
    entropy: Arc<dyn Entropy>,
    budget: Arc<MemoryBudget>,
    bytes_max: usize,
    state: Mutex<State>,
    _wipes: WipesFreedMemory,
}

struct State {
    current: Arc<Plaintext>,
    /// Whether a transaction has begun since the last look.
    has_begun: bool,
}

/// Where the keys of an environment come from.
struct KeySource {
    key: EncryptionKey,
    environment_id: u128,
    /// The directory of the environment, for errors.
    directory: PathBuf,
}

/// The keys of an environment, once they are needed.
#[derive(Default)]
struct DerivedKeys(OnceLock<Keys>);

impl Encryption {
    pub(crate) fn new(
        key: EncryptionKey,
        environment_id: u128,
        directory: PathBuf,
        entropy: Arc<dyn Entropy>,
        budget: Arc<MemoryBudget>,
        bytes_max: usize,
    ) -> Self {
        let source = Arc::new(KeySource { key, environment_id, directory });
        let current = Arc::new(Plaintext::new(source.clone(), Arc::default(), &budget));
        let state = Mutex::new(State { current, has_begun: false });
        let wipes = WipesFreedMemory::begin();
        Self { source, entropy, budget, bytes_max, state, _wipes: wipes }
    }

    /// The plaintext for a transaction that begins.
    pub(crate) fn plaintext(&self) -> Arc<Plaintext> {
        let mut state = lock(&self.state);
        state.has_begun = true;
        if self.bytes_max <= state.current.bytes() {
            state.current = Arc::new(state.current.renewed());
        }
        state.current.clone()
    }

    /// Drops the decrypted pages and the keys when no transaction is open and none has begun since the last call.
    /// Returns whether there is nothing left to drop.
    pub(crate) fn release_when_quiet(&self) -> bool {
        let mut state = lock(&self.state);
        let has_begun = std::mem::take(&mut state.has_begun);
        if has_begun || Arc::strong_count(&state.current) > 1 {
            return false;
        }
        if state.current.is_untouched() {
            return true;
        }
        let (source, keys) = (self.source.clone(), Arc::default());
        let old = std::mem::replace(
            &mut state.current,
            Arc::new(Plaintext::new(source, keys, &self.budget)),
        );
        drop(state);
        drop(old);
        true
    }

    /// So many nonces that were never used.
    pub(crate) fn nonces(&self, count: usize) -> Vec<Nonce> {
        let mut nonces = vec![[0; NONCE_BYTES]; count];
        self.entropy.fill(nonces.as_flattened_mut());
        nonces
    }

    /// A nonce that was never used.
    pub(crate) fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_BYTES];
        self.entropy.fill(&mut nonce);
        nonce
    }
}

/// Where a decrypted page is.
struct Place {
    page: PageNumber,
    nonce: Nonce,
    start: NonNull<u8>,
    len: usize,
}

/// Memory that is handed out from its beginning to its end.
struct Chunks {
    all: Vec<SecretMemory>,
    /// Bytes of the last one that are in use.
    used: usize,
    /// Bytes of all.
    bytes: usize,
    /// Places that turned out not to be needed.
    free: Vec<(NonNull<u8>, usize)>,
    share: MemoryShare,
}

/// Decrypted pages and the keys, for the transactions that share it.
pub(crate) struct Plaintext {
    source: Arc<KeySource>,
    keys: Arc<DerivedKeys>,
    places: [RwLock<FxHashMap<Nonce, Place>>; SHARDS],
    chunks: Mutex<Chunks>,
}

// SAFETY: the pointers lead into chunks that this value owns and that are `Send`; a place is written only by the
// thread that reserved it, before others can find it, and only read from then on.
unsafe impl Send for Plaintext {}
// SAFETY: as above; the maps and the list of chunks are behind locks.
unsafe impl Sync for Plaintext {}

impl Plaintext {
    fn new(source: Arc<KeySource>, keys: Arc<DerivedKeys>, budget: &Arc<MemoryBudget>) -> Self {
        let share = budget.share(ALWAYS_ALLOWED_BYTES);
        let (all, free) = Default::default();
        let chunks = Mutex::new(Chunks { all, used: 0, bytes: 0, free, share });
        Self { source, keys, places: Default::default(), chunks }
    }

    /// An empty one of the same environment.
    pub(crate) fn renewed(&self) -> Plaintext {
        let budget = lock(&self.chunks).share.budget().clone();
        Plaintext::new(self.source.clone(), self.keys.clone(), &budget)
    }

    fn bytes(&self) -> usize {
        lock(&self.chunks).bytes
    }

    /// Whether it holds neither a page nor a key.
    fn is_untouched(&self) -> bool {
        self.bytes() == 0 && self.keys.0.get().is_none()
    }

    /// The keys of the environment.
    ///
    /// # Errors
    /// The kernel does not return the database's key, or there is no memory.
    pub(crate) fn keys(&self) -> Result<&Keys, StorageError> {
        if let Some(keys) = self.keys.0.get() {
            return Ok(keys);
        }
        let KeySource { key, environment_id, directory } = &*self.source;
        let keys = Keys::derive(key, *environment_id)
            .map_err(|error| StorageError::io(directory, "read the encryption key of", error))?;
        Ok(self.keys.0.get_or_init(|| keys))
    }

    /// The decrypted form of a page, or of a whole run.
    ///
    /// # Errors
    /// [`Corruption::PageAuthentication`] when it is not what was written there; no memory.
    pub(crate) fn open(&self, page: PageNumber, sealed: &[u8]) -> Result<&[u8], StorageError> {
        let nonce = page_nonce(sealed);
        if VALUE_BYTES_MAX + PAGE_BYTES < sealed.len() {
            return Err(Corruption::PageAuthentication { page }.into());
        }
        if let Some(found) = self.find(page, &nonce) {
            return Ok(found);
        }
        let keys = self.keys()?;
        let start = self.reserve(sealed.len())?;
        // SAFETY: a reserved place has that length, stays for as long as this value, and is known to this thread
        // alone.
        let place = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), sealed.len()) };
        place.copy_from_slice(sealed);
        if !keys.open_page(page, place) {
            lock(&self.chunks).free.push((start, sealed.len()));
            return Err(Corruption::PageAuthentication { page }.into());
        }
        Ok(self.publish(Place { page, nonce, start, len: sealed.len() }))
    }

    /// The length of a page, or of a whole run, in bytes, if it is what was written there. Nothing of it is kept.
    ///
    /// # Errors
    /// Those of [`Plaintext::open`], but none for lack of memory.
    pub(crate) fn verify(&self, page: PageNumber, sealed: &[u8]) -> Result<usize, StorageError> {
        if self.find(page, &page_nonce(sealed)).is_none() {
            let mut opened = PageBuffer::new(sealed, true);
            if VALUE_BYTES_MAX + PAGE_BYTES < sealed.len()
                || !self.keys()?.open_page(page, &mut opened)
            {
                return Err(Corruption::PageAuthentication { page }.into());
            }
        }
        Ok(sealed.len())
    }

    /// Keeps a page that was just encrypted, if there is memory for it: it will likely be read soon.
    pub(crate) fn keep(&self, page: PageNumber, nonce: &Nonce, plain: &[u8]) {
        let Ok(start) = self.reserve(plain.len()) else { return };
        // SAFETY: as in `open`.
        let place = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), plain.len()) };
        place.copy_from_slice(plain);
        self.publish(Place { page, nonce: *nonce, start, len: plain.len() });
    }

    fn shard(&self, nonce: &Nonce) -> &RwLock<FxHashMap<Nonce, Place>> {
        &self.places[usize::from(nonce[0]) % SHARDS]
    }

    fn find(&self, page: PageNumber, nonce: &Nonce) -> Option<&[u8]> {
        let places = self.shard(nonce).read().unwrap_or_else(PoisonError::into_inner);
        let place = places.get(nonce).filter(|place| place.page == page)?;
        Some(self.slice(place))
    }

    fn slice(&self, place: &Place) -> &[u8] {
        // SAFETY: a place that is published is never written again, and its chunk is not released before this value
        // is dropped.
        unsafe { std::slice::from_raw_parts(place.start.as_ptr(), place.len) }
    }

    /// Makes a place that has been written findable. Of two threads that decrypt the same page, the first is found.
    fn publish(&self, place: Place) -> &[u8] {
        let mut places = self.shard(&place.nonce).write().unwrap_or_else(PoisonError::into_inner);
        match places.get(&place.nonce) {
            Some(other) if other.page == place.page => {
                lock(&self.chunks).free.push((place.start, place.len));
                self.slice(other)
            }
            _ => {
                let bytes = self.slice(&place);
                places.insert(place.nonce, place);
                bytes
            }
        }
    }

    /// Memory for a page, which nobody else knows.
    fn reserve(&self, bytes: usize) -> Result<NonNull<u8>, StorageError> {
        let mut chunks = lock(&self.chunks);
        if let Some(at) = chunks.free.iter().position(|(_, len)| *len == bytes) {
            return Ok(chunks.free.swap_remove(at).0);
        }
        let room = chunks.all.last().map_or(0, |last| last.len() - chunks.used);
        if room < bytes {
            let wanted = chunks.bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX).max(bytes);
            let total = chunks.bytes + wanted;
            chunks.share.try_grow_to(total as u64).map_err(StorageError::NoMemoryToDecrypt)?;
            let directory = &self.source.directory;
            let chunk = SecretMemory::zeroed(wanted)
                .map_err(|error| StorageError::io(directory, "decrypt pages of", error))?;
            chunks.bytes += chunk.len();
            chunks.all.push(chunk);
            chunks.used = 0;
        }
        let at = chunks.used;
        chunks.used += bytes;
        let last = chunks.all.last().expect("there is one with room");
        // SAFETY: at most the length of the chunk, as checked above.
        Ok(unsafe { last.as_ptr().add(at) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use platform::Platform;

    use super::*;
    use crate::format::{PAGE_HEADER_BYTES, PageKind, init_page};

    fn encryption(budget: &Arc<MemoryBudget>, bytes_max: usize) -> Encryption {
        let key = EncryptionKey::take(&mut [3; EncryptionKey::BYTES]).expect("kept");
        let entropy = Platform::simulated(1).platform.entropy;
        Encryption::new(key, 7, "/db".into(), entropy, budget.clone(), bytes_max)
    }

    fn sealed(encryption: &Encryption, number: u64, fill: u8) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        init_page(&mut page, PageNumber(number), PageKind::TreeLeaf);
        page[PAGE_HEADER_BYTES..].fill(fill);
        let plaintext = encryption.plaintext();
        let keys = plaintext.keys().expect("keys");
        keys.seal_page(PageNumber(number), &encryption.nonce(), &mut page);
        page
    }

    #[test]
    fn a_page_is_decrypted_once_and_stays_in_place() {
        let encryption = encryption(&MemoryBudget::unlimited(), 1 << 20);
        let plaintext = encryption.plaintext();
        let (first, second) = (sealed(&encryption, 5, 1), sealed(&encryption, 5, 2));
        let lent = plaintext.open(PageNumber(5), &first).expect("opens");
        for number in 100..200 {
            plaintext.open(PageNumber(number), &sealed(&encryption, number, 9)).expect("opens");
        }
        let newer = plaintext.open(PageNumber(5), &second).expect("opens");
        assert_eq!((lent[PAGE_BYTES - 1], newer[PAGE_BYTES - 1]), (1, 2));
        let again = plaintext.open(PageNumber(5), &first).expect("opens");
        assert_eq!(again.as_ptr(), lent.as_ptr());
    }

    #[test]
    fn a_known_page_in_the_place_of_another_is_refused_and_costs_no_memory() {
        let encryption = encryption(&MemoryBudget::unlimited(), 1 << 20);
        let plaintext = encryption.plaintext();
        let page = sealed(&encryption, 5, 1);
        plaintext.open(PageNumber(5), &page).expect("opens");
        let used = lock(&plaintext.chunks).used;
        for _ in 0..100 {
            let error = plaintext.open(PageNumber(6), &page).expect_err("it is page 5");
            assert!(matches!(
                error,
                StorageError::Corrupt(Corruption::PageAuthentication { page: PageNumber(6) })
            ));
        }
        assert_eq!(lock(&plaintext.chunks).used, used + PAGE_BYTES);
    }

    #[test]
    fn beyond_its_bound_it_is_replaced_and_beyond_the_budget_refused() {
        let budget = MemoryBudget::new(4 << 20);
        let encryption = encryption(&budget, 1 << 20);
        let open = |plaintext: &Plaintext, pages: std::ops::Range<u64>| {
            pages.into_iter().find_map(|number| {
                plaintext.open(PageNumber(number), &sealed(&encryption, number, 1)).err()
            })
        };
        let first = encryption.plaintext();
        assert!(open(&first, 0..200).is_none());
        let second = encryption.plaintext();
        assert!(!Arc::ptr_eq(&first, &second), "it was replaced");
        let refused = open(&first, 200..2000).expect("the budget ends");
        assert!(matches!(refused, StorageError::NoMemoryToDecrypt(_)), "{refused}");
        let third = encryption.plaintext();
        assert!(open(&third, 0..64).is_none(), "a little is always allowed");
        drop((first, second, third));
        while !encryption.release_when_quiet() {}
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn everything_is_dropped_when_it_has_been_quiet() {
        let encryption = encryption(&MemoryBudget::unlimited(), 1 << 20);
        let page = sealed(&encryption, 5, 1);
        let open = encryption.plaintext();
        open.open(PageNumber(5), &page).expect("opens");
        assert!(!encryption.release_when_quiet(), "one has begun");
        assert!(!encryption.release_when_quiet(), "one is open");
        drop(open);
        assert!(encryption.release_when_quiet());
        assert!(lock(&encryption.state).current.is_untouched());
        assert!(encryption.plaintext().open(PageNumber(5), &page).is_ok(), "it goes on");
    }
}
