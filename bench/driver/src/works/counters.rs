//! The work on counters.

use super::{DATABASE, random_numbers};
use crate::connection::write_request;

/// The number of counters, each of a different document.
const COUNTERS: u64 = 1_000;

/// Increments of random counters.
pub(super) fn next_increment() -> impl FnMut(&mut Vec<u8>) {
    let mut next = random_numbers();
    let mut body = String::new();
    move |out| {
        let number = next() % COUNTERS + 1;
        body.clear();
        body.push_str(&format!(
            "{{\"Documents\":[{{\"DocumentId\":\"smalls/{number}\",\"Operations\":[{{\"Type\":\
             \"Increment\",\"CounterName\":\"likes\",\"Delta\":1}}]}}]}}"
        ));
        let path = format_args!("/databases/{DATABASE}/counters");
        write_request(out, "POST", path, body.as_bytes());
    }
}
