//! Recovery takes a journal that was written, or refuses it: no panic, no data that nobody wrote.
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
