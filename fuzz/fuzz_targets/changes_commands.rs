//! Messages of a client of the Changes API, which the server reads in arbitrary pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::changes::{ChangesCommand, NotACommand, take_commands};

/// All commands in the pieces, up to the first invalid one.
fn read(pieces: &[&str]) -> (Vec<ChangesCommand>, Result<String, NotACommand>) {
    let (mut unfinished, mut commands) = (String::new(), Vec::new());
    for piece in pieces {
        unfinished.push_str(piece);
        match take_commands(&mut unfinished) {
            Ok(more) => commands.extend(more),
            Err(error) => return (commands, Err(error)),
        }
    }
    (commands, Ok(unfinished))
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Some(middle) = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at)) else {
        return;
    };
    let (whole, whole_end) = read(&[&text]);
    let (cut, cut_end) = read(&[&text[..middle], &text[middle..]]);
    match (whole_end, cut_end) {
        (Ok(left), Ok(cut_left)) => {
            assert_eq!(whole, cut);
            // Blanks before a command may be consumed or not.
            assert_eq!(left.trim_start(), cut_left.trim_start());
        }
        // Commands before the error may have been executed already.
        (Err(_), _) => assert!(whole.is_empty()),
        (Ok(_), Err(_)) => panic!("a cut makes a command of the whole none"),
    }
});
