//! The work on compare exchange.

use super::DATABASE;
use crate::{connection::write_request, generated::mixed};

/// A put of a new value, with the request id that clients send.
pub(crate) fn write_put(out: &mut Vec<u8>, number: u64) {
    let (high, low) = (mixed(number), mixed(!number));
    let path = format_args!(
        "/databases/{DATABASE}/cmpxchg?key=names/{number}&index=0&raft-request-id=\
         {:08x}-0000-4000-8000-{number:012x}",
        (high ^ low) & 0xFFFF_FFFF
    );
    write_request(out, "PUT", path, b"{\"Object\":{\"Name\":\"somebody\",\"Age\":42}}");
}
