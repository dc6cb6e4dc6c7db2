//! A journal record: one transaction's changed pages.
//!
//! ```text
//!  0 magic u64 "CORVUSJR" · 8 environment u64 (low half of its id) · 16 transaction u64
//! 24 checksum of the previous record u128 (the chain)
//! 40 stored bytes u64 · 48 payload bytes u64 · 56 pages u32 · 60 flags u32 (1: LZ4 block, 2: encrypted)
//! 64 written at, ticks i64 · 72 checksum u128 (XXH3-128 of bytes 0..72 and the stored payload)
//! 88 payload as stored, zero padded to a whole sector
//!
//! encrypted: 72 MAC of bytes 0..72 and the payload, which is the chain's checksum · 88 nonce [24]
//! 112 payload, compressed if it is and then encrypted, zero padded to a whole sector
//!
//! payload, per page:  page u64 · bytes u32 · kind u8 · zero [3] · content
//!   kind 0, whole:       the page or run
//!   kind 1, difference:  (offset u16 · bytes u16 · content) …, against the page before this record
//! ```
//!
//! Invariant: after the floor of a flush, the first record of each page is a whole one, so that
//! replaying from the floor never needs a page of the data file, which a power cut may have torn.

use platform::{AlignedBuffer, SECTOR_BYTES, secret_memory::wipe};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    cipher::{Keys, NONCE_BYTES, Nonce},
    format::{
        PAGE_BYTES, PageKind, PageNumber, page_kind, page_number, read_u16, read_u32, read_u64,
        read_u128, to_u16, write_u32, write_u64, write_u128,
    },
    page_buffer::PageBuffer,
    page_mut::Lines,
    plaintext::Plaintext,
    snapshot::ROOT_PAGE,
    write_pages::ChangedPage,
};

/// The header of a record that is not encrypted; that of an encrypted one is longer by the nonce.
pub(super) const HEADER_BYTES: usize = 88;
const SEALED_HEADER_BYTES: usize = HEADER_BYTES + NONCE_BYTES;
const MAGIC: u64 = u64::from_le_bytes(*b"CORVUSJR");
const CHECKED: usize = 72;
const FLAG_LZ4: u32 = 1;
const FLAG_ENCRYPTED: u32 = 2;
const ENTRY_BYTES: usize = 16;
const WHOLE: u8 = 0;
const DIFFERENCE: u8 = 1;
/// Instead of a longer difference the whole page is written, since the difference would save
/// little.
const DIFFERENCE_BYTES_MAX: usize = PAGE_BYTES / 2;
/// Pages are compared in words.
const WORD: usize = 8;
/// Larger payloads are refused when read: no transaction is allowed to be that large.
const PAYLOAD_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// A byte of an LZ4 block expands to at most this many.
const LZ4_RATIO_MAX: usize = 255;
/// Shorter buffers double; longer ones grow only to the length needed, which is known.
const LARGE_BYTES: usize = 1 << 20;
/// No environment has this many pages: 8 PB.
const PAGES_MAX: u64 = 1 << 40;

/// What a record says besides its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) environment: u64,
    pub(super) transaction: u64,
    pub(super) previous: u128,
    pub(super) written_at: i64,
}

/// A record under construction, payload after header.
struct Record {
    bytes: AlignedBuffer,
    len: usize,
    /// Whether the bytes are wiped before they are released.
    is_secret: bool,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl Record {
    fn new(is_secret: bool) -> Self {
        Self {
            bytes: AlignedBuffer::zeroed(16 * SECTOR_BYTES),
            len: header_bytes(is_secret),
            is_secret,
        }
    }

    fn wipe(&mut self) {
        if self.is_secret {
            wipe(&mut self.bytes);
        }
    }

    /// Grows the buffer to at least this length, in whole sectors, and keeps its content.
    fn reserve(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            let enough = match bytes < LARGE_BYTES {
                true => bytes.next_power_of_two(),
                false => bytes.next_multiple_of(LARGE_BYTES),
            };
            let mut longer = AlignedBuffer::zeroed(enough);
            longer[..self.len].copy_from_slice(&self.bytes[..self.len]);
            self.wipe();
            self.bytes = longer;
        }
    }

    fn append(&mut self, content: &[u8]) {
        let end = self.len + content.len();
        self.reserve(end);
        self.bytes[self.len..end].copy_from_slice(content);
        self.len = end;
    }

    /// The record with zeroes up to the end of its last sector.
    fn whole_sectors(&mut self) -> &[u8] {
        let end = self.len.next_multiple_of(SECTOR_BYTES);
        self.reserve(end);
        self.bytes[self.len..end].fill(0);
        &self.bytes[..end]
    }
}

/// Builds records in reusable buffers.
pub(super) struct RecordBuilder {
    /// With the payload as it is.
    plain: Record,
    /// With the payload compressed.
    compressed: Record,
    pages: u32,
    header_bytes: usize,
}

fn header_bytes(is_encrypted: bool) -> usize {
    if is_encrypted { SEALED_HEADER_BYTES } else { HEADER_BYTES }
}

impl RecordBuilder {
    /// For records that are encrypted, or for records that are not.
    pub(super) fn new(is_encrypted: bool) -> Self {
        Self {
            plain: Record::new(is_encrypted),
            compressed: Record::new(is_encrypted),
            pages: 0,
            header_bytes: header_bytes(is_encrypted),
        }
    }

    /// Begins a record with at most this many bytes of payload.
    pub(super) fn start(&mut self, payload_bytes_max: usize) {
        self.plain.len = self.header_bytes;
        self.pages = 0;
        if LARGE_BYTES <= payload_bytes_max {
            // A difference may be abandoned up to a page past the end.
            self.plain.reserve(self.header_bytes + payload_bytes_max + 2 * PAGE_BYTES);
        }
    }

    /// Adds a page, as a difference to its base when `difference` allows and that is shorter.
    /// `plaintext` decrypts the base.
    pub(super) fn add(
        &mut self,
        page: &ChangedPage,
        difference: bool,
        plaintext: Option<&Plaintext>,
    ) {
        let at = self.plain.len;
        self.plain.append(&[0; ENTRY_BYTES]);
        let new = page.content();
        let base = page.base.as_ref().filter(|_| difference).and_then(|base| match plaintext {
            // Without memory for the base, the page is written whole.
            Some(plaintext) => plaintext.open(page.number, base.bytes()).ok(),
            None => Some(base.bytes()),
        });
        let kind = match base {
            Some(base) if write_difference(base, new, page.lines, &mut self.plain) => DIFFERENCE,
            _ => {
                self.plain.len = at + ENTRY_BYTES;
                self.plain.append(new);
                WHOLE
            }
        };
        let bytes = self.plain.len - at - ENTRY_BYTES;
        let entry = &mut self.plain.bytes[at..at + ENTRY_BYTES];
        write_u64(entry, 0, page.number.0);
        write_u32(entry, 8, bytes as u32);
        entry[12] = kind;
        self.pages += 1;
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.plain.len - self.header_bytes
    }

    /// Upper bound on the payload of these pages, in bytes.
    pub(super) fn payload_bytes_max(changed: &[ChangedPage]) -> usize {
        changed.iter().map(|page| ENTRY_BYTES + page.version.bytes().len()).sum()
    }

    /// Bytes of the buffers it keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.plain.bytes.len() + self.compressed.bytes.len()
    }

    /// Whether the payload is long enough for compression to save anything.
    pub(super) fn can_compress(&self) -> bool {
        self.plain.len > SECTOR_BYTES
    }

    /// The finished record, in whole sectors, and its checksum; compressed when `compress` asks for
    /// it and it saves half a sector, and encrypted with `sealing`.
    pub(super) fn finish(
        &mut self,
        header: RecordHeader,
        compress: bool,
        sealing: Option<(&Keys, Nonce)>,
    ) -> (&[u8], u128) {
        let payload_bytes = self.payload_bytes();
        let header_bytes = self.header_bytes;
        let is_compressed = compress && self.compress();
        let record = if is_compressed { &mut self.compressed } else { &mut self.plain };
        let stored = record.len - header_bytes;
        let bytes = &mut record.bytes;
        write_u64(bytes, 0, MAGIC);
        write_u64(bytes, 8, header.environment);
        write_u64(bytes, 16, header.transaction);
        write_u128(bytes, 24, header.previous);
        write_u64(bytes, 40, stored as u64);
        write_u64(bytes, 48, payload_bytes as u64);
        write_u32(bytes, 56, self.pages);
        let compressed = if is_compressed { FLAG_LZ4 } else { 0 };
        let encrypted = if sealing.is_some() { FLAG_ENCRYPTED } else { 0 };
        write_u32(bytes, 60, compressed | encrypted);
        write_u64(bytes, 64, header.written_at as u64);
        let (head, payload) = bytes[..header_bytes + stored].split_at_mut(header_bytes);
        let sum = match sealing {
            Some((keys, nonce)) => {
                head[HEADER_BYTES..].copy_from_slice(&nonce);
                u128::from_le_bytes(keys.seal_record(&nonce, &head[..CHECKED], payload))
            }
            None => checksum(&head[..CHECKED], payload),
        };
        write_u128(bytes, CHECKED, sum);
        (record.whole_sectors(), sum)
    }

    /// Builds the compressed record; false when that saves less than half a sector.
    fn compress(&mut self) -> bool {
        let header_bytes = self.header_bytes;
        let payload = &self.plain.bytes[header_bytes..self.plain.len];
        let room = lz4_flex::block::get_maximum_output_size(payload.len());
        self.compressed.len = header_bytes;
        self.compressed.reserve(header_bytes + room);
        match lz4_flex::block::compress_into(payload, &mut self.compressed.bytes[header_bytes..]) {
            Ok(stored) if stored + SECTOR_BYTES / 2 < payload.len() => {
                self.compressed.len = header_bytes + stored;
                true
            }
            _ => false,
        }
    }
}

fn checksum(header: &[u8], stored: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(header);
    hash.update(stored);
    hash.digest128()
}

/// Appends what changed from `old` to `new` within `lines`, outside of which they agree, in whole
/// words; false (with rubbish left in `out`) when that is too long.
fn write_difference(old: &[u8], new: &[u8], lines: Lines, out: &mut Record) -> bool {
    if old.len() != PAGE_BYTES || new.len() != PAGE_BYTES {
        return false;
    }
    debug_assert!(agree_outside(old, new, lines), "a change of a page was not marked");
    let limit = out.len + DIFFERENCE_BYTES_MAX;
    for range in lines.ranges() {
        let mut at = range.start;
        let (old, new) = (&old[..range.end], &new[..range.end]);
        while let Some(start) = next_word(old, new, at, |old, new| old != new) {
            let end = next_word(old, new, start, |old, new| old == new).unwrap_or(range.end);
            out.append(&to_u16(start).to_le_bytes());
            out.append(&to_u16(end - start).to_le_bytes());
            out.append(&new[start..end]);
            if out.len > limit {
                return false;
            }
            at = end;
        }
    }
    true
}

/// Whether the pages are equal outside of `lines`.
fn agree_outside(old: &[u8], new: &[u8], lines: Lines) -> bool {
    let mut end = 0;
    let before = lines.ranges().all(|range| {
        let from = std::mem::replace(&mut end, range.end);
        old[from..range.start] == new[from..range.start]
    });
    before && old[end..] == new[end..]
}

/// The first word at or after `from`, a multiple of the word, for which the pages compare as `wanted`.
fn next_word(
    old: &[u8],
    new: &[u8],
    from: usize,
    wanted: impl Fn(&[u8; WORD], &[u8; WORD]) -> bool,
) -> Option<usize> {
    let (old_words, new_words) = (old[from..].as_chunks().0, new[from..].as_chunks().0);
    let found = old_words.iter().zip(new_words).position(|(old, new)| wanted(old, new))?;
    Some(from + found * WORD)
}

/// A record found in a journal file: its header, its checksum, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundRecord {
    pub(super) header: RecordHeader,
    pub(super) checksum: u128,
    stored: usize,
    payload: usize,
    flags: u32,
}

impl FoundRecord {
    /// The header in the first bytes of a sector; `None` when no record of that environment starts
    /// there or it cannot fit in the `room` bytes left in the file.
    pub(super) fn parse(bytes: &[u8], environment: u64, room: u64) -> Option<Self> {
        let stored = read_u64(bytes, 40);
        let payload = read_u64(bytes, 48);
        if read_u64(bytes, 0) != MAGIC
            || read_u64(bytes, 8) != environment
            || stored > room.saturating_sub(header_bytes(is_encrypted(bytes)) as u64)
            || payload > PAYLOAD_BYTES_MAX
        {
            return None;
        }
        Some(Self {
            header: RecordHeader {
                environment,
                transaction: read_u64(bytes, 16),
                previous: read_u128(bytes, 24),
                written_at: read_u64(bytes, 64) as i64,
            },
            checksum: read_u128(bytes, CHECKED),
            stored: stored as usize,
            payload: payload as usize,
            flags: read_u32(bytes, 60),
        })
    }

    /// Bytes of header and stored payload.
    pub(super) fn bytes(&self) -> usize {
        self.header_bytes() + self.stored
    }

    fn header_bytes(&self) -> usize {
        header_bytes(self.flags & FLAG_ENCRYPTED != 0)
    }

    /// Bytes in the file, padding included.
    pub(super) fn sectors_bytes(&self) -> u64 {
        self.bytes().next_multiple_of(SECTOR_BYTES) as u64
    }

    /// Whether `record` (of [`FoundRecord::bytes`]) is what was written. Its payload is decrypted, once. With
    /// `keys`, only encrypted records are sound, without only others.
    pub(super) fn is_sound(&self, record: &mut [u8], keys: Option<&Keys>) -> bool {
        let (head, payload) = record.split_at_mut(self.header_bytes());
        match (keys, head[HEADER_BYTES..].try_into()) {
            (Some(keys), Ok(nonce)) => {
                keys.open_record(&nonce, &head[..CHECKED], &self.checksum.to_le_bytes(), payload)
            }
            (None, Err(_)) => checksum(&head[..CHECKED], payload) == self.checksum,
            (Some(_), Err(_)) | (None, Ok(_)) => false,
        }
    }

    /// The payload of a sound record; `None` when it contradicts itself.
    pub(super) fn payload(&self, record: &[u8]) -> Option<PageBuffer> {
        let is_secret = self.flags & FLAG_ENCRYPTED != 0;
        let stored = &record[self.header_bytes()..];
        if self.flags & FLAG_LZ4 == 0 {
            return (self.stored == self.payload).then(|| PageBuffer::new(stored, is_secret));
        }
        if !may_unpack_to(self.payload, self.stored) {
            return None;
        }
        lz4_flex::block::decompress(stored, self.payload)
            .ok()
            .filter(|payload| payload.len() == self.payload)
            .map(|payload| PageBuffer::new(payload, is_secret))
    }
}

fn is_encrypted(header: &[u8]) -> bool {
    read_u32(header, 60) & FLAG_ENCRYPTED != 0
}

/// Whether a block can be so long unpacked: memory is allocated before the block is read.
fn may_unpack_to(payload: usize, stored: usize) -> bool {
    payload / LZ4_RATIO_MAX <= stored
}

/// A page inside a payload.
pub(crate) enum PageChange<'a> {
    Whole(&'a [u8]),
    Difference(&'a [u8]),
}

/// The pages of a payload; `None` when it contradicts itself.
pub(super) fn page_changes(payload: &[u8]) -> Option<Vec<(PageNumber, PageChange<'_>)>> {
    let mut changes = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let (entry, after) = rest.split_at_checked(ENTRY_BYTES)?;
        let (content, after) = after.split_at_checked(read_u32(entry, 8) as usize)?;
        let number = PageNumber(read_u64(entry, 0));
        let (change, pages) = match entry[12] {
            WHOLE if is_page_or_run(content, number) => {
                (PageChange::Whole(content), content.len() / PAGE_BYTES)
            }
            DIFFERENCE => (PageChange::Difference(content), 1),
            _ => return None,
        };
        if number < ROOT_PAGE || PAGES_MAX - (pages as u64) < number.0 {
            return None;
        }
        changes.push((number, change));
        rest = after;
    }
    Some(changes)
}

/// Only a run has more than one page, and each carries its own page number.
fn is_page_or_run(content: &[u8], number: PageNumber) -> bool {
    let is_long_enough = match content.len() / PAGE_BYTES {
        0 => false,
        1 => true,
        _ => page_kind(content) == Some(PageKind::Run),
    };
    is_long_enough && content.len().is_multiple_of(PAGE_BYTES) && page_number(content) == number
}

/// Applies a difference; `None` when it contradicts itself.
pub(crate) fn apply_difference(page: &mut [u8], mut difference: &[u8]) -> Option<()> {
    while !difference.is_empty() {
        let (place, after) = difference.split_at_checked(4)?;
        let (start, bytes) = (usize::from(read_u16(place, 0)), usize::from(read_u16(place, 2)));
        let (content, after) = after.split_at_checked(bytes)?;
        page.get_mut(start..start + bytes)?.copy_from_slice(content);
        difference = after;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        format::init_page,
        memory_budget::MemoryBudget,
        page_table::{PageVersion, VersionBytes},
    };

    fn page(bytes: Vec<u8>) -> Arc<PageVersion> {
        let held = VersionBytes::within(MemoryBudget::unlimited());
        Arc::new(PageVersion::new(1, bytes.into_boxed_slice(), &held))
    }

    fn changed_page(
        number: u64,
        version: Arc<PageVersion>,
        base: Option<Arc<PageVersion>>,
    ) -> ChangedPage {
        let plain = None;
        ChangedPage { number: PageNumber(number), version, plain, base, lines: Lines::ALL }
    }

    proptest! {
        #[test]
        fn a_difference_turns_the_old_page_into_the_new_one(
            changes in prop::collection::vec((0usize..PAGE_BYTES, any::<u8>()), 0..60)
        ) {
            let old = vec![3; PAGE_BYTES];
            let mut new = old.clone();
            for (at, byte) in changes {
                new[at] = byte;
            }
            let mut difference = Record::new(false);
            prop_assert!(write_difference(&old, &new, Lines::ALL, &mut difference));
            let mut patched = old;
            apply_difference(&mut patched, &difference.bytes[HEADER_BYTES..difference.len])
                .expect("well formed");
            prop_assert_eq!(patched, new);
        }

        #[test]
        fn payloads_of_any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            page_changes(&bytes);
            apply_difference(&mut [0; PAGE_BYTES], &bytes);
        }
    }

    /// An entry of a payload.
    fn entry(number: u64, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_BYTES];
        write_u64(&mut entry, 0, number);
        write_u32(&mut entry, 8, content.len() as u32);
        entry[12] = kind;
        entry.extend_from_slice(content);
        entry
    }

    #[test]
    fn entries_that_lead_nowhere_are_refused_as_a_contradiction() {
        let content = |number, kind, pages| {
            let mut content = vec![0; pages * PAGE_BYTES];
            init_page(&mut content, PageNumber(number), kind);
            content
        };
        let leaf = |number| content(number, PageKind::TreeLeaf, 1);
        let run = |number, pages| content(number, PageKind::Run, pages);
        let right =
            [entry(2, WHOLE, &leaf(2)), entry(9, WHOLE, &run(9, 3)), entry(9, DIFFERENCE, b"")];
        for right in right {
            assert!(page_changes(&right).is_some(), "{:?}", &right[..ENTRY_BYTES]);
        }
        let end = PAGES_MAX - 1;
        let wrong = [
            ("a header", entry(1, WHOLE, &leaf(1))),
            ("a part of a header", entry(0, DIFFERENCE, b"")),
            ("another page's place", entry(9, WHOLE, &leaf(8))),
            ("two pages in one", entry(9, WHOLE, &content(9, PageKind::TreeLeaf, 2))),
            ("half a page", entry(9, WHOLE, &leaf(9)[..PAGE_BYTES / 2])),
            ("no page", entry(9, WHOLE, b"")),
            ("past any end", entry(end + 1, DIFFERENCE, b"")),
            ("a run past any end", entry(end, WHOLE, &run(end, 3))),
            ("past all numbers", entry(u64::MAX, WHOLE, &leaf(u64::MAX))),
            ("no kind", entry(9, 2, &leaf(9))),
        ];
        for (what, wrong) in wrong {
            assert!(page_changes(&wrong).is_none(), "{what}");
        }
    }

    #[test]
    fn a_block_is_not_believed_to_be_longer_than_any_block_can_be() {
        for bytes in [1, 1000, 1_000_000] {
            let stored = lz4_flex::block::compress(&vec![0; bytes]).len();
            assert!(may_unpack_to(bytes, stored), "{bytes} zeroes in {stored} bytes");
        }
        assert!(!may_unpack_to(PAYLOAD_BYTES_MAX as usize, SECTOR_BYTES));
    }

    #[test]
    fn a_record_reads_back_and_any_flip_is_noticed() {
        let mut builder = RecordBuilder::new(false);
        builder.start(0);
        let mut bytes = vec![5; PAGE_BYTES];
        write_u64(&mut bytes, 0, 11);
        let base = page(bytes.clone());
        bytes[4000] = 6;
        let changed = changed_page(9, page(bytes), Some(base.clone()));
        let fresh = changed_page(11, base, None);
        builder.add(&changed, true, None);
        builder.add(&fresh, true, None);
        let header = RecordHeader { environment: 7, transaction: 3, previous: 1, written_at: 2 };
        let (record, sum) = builder.finish(header, true, None);
        let mut record = record.to_vec();
        assert_eq!(record.len() % SECTOR_BYTES, 0);

        let found = FoundRecord::parse(&record, 7, record.len() as u64).expect("a record");
        assert_eq!((found.header, found.checksum), (header, sum));
        record.truncate(found.bytes());
        assert!(found.is_sound(&mut record, None));
        let payload = found.payload(&record).expect("sound");
        let changes = page_changes(&payload).expect("well formed");
        assert!(
            matches!(changes[0], (PageNumber(9), PageChange::Difference(d)) if d.len() == 4 + WORD)
        );
        assert!(
            matches!(changes[1], (PageNumber(11), PageChange::Whole(w)) if w.len() == PAGE_BYTES)
        );

        for at in (0..CHECKED).chain(HEADER_BYTES..record.len()) {
            record[at] ^= 4;
            let unnoticed =
                FoundRecord::parse(&record, 7, record.len() as u64).is_some_and(|found| {
                    found.bytes() == record.len() && found.is_sound(&mut record, None)
                });
            assert!(!unnoticed, "a flip at {at} goes unnoticed");
            record[at] ^= 4;
        }
    }
}
