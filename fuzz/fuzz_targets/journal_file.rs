//! Recovery reads any journal file or rejects it: no panic, and no data that was never written.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use testkit::journal_bytes::SoundJournal;

static SOUND: LazyLock<SoundJournal> =
    LazyLock::new(|| SoundJournal::write(11).expect("a database that is populated"));

fuzz_target!(|input: &[u8]| {
    if let Err(fault) = SOUND.recover(input) {
        panic!("{fault}");
    }
});
