//! The built executable from outside: its command line, its exit codes, its log.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the tests start processes and look at their files, as a user would"
)]

mod command_line;
mod encryption;
mod logs;
mod process;
mod secrets;
mod transfer;
