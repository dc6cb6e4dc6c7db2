//! How many files, sockets among them, the process may have open at once.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of open files, before and after [`raise_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The limit with which the process was started; `None` for no limit.
    pub before: Option<u64>,
    /// The limit now; `None` for no limit.
    pub now: Option<u64>,
}

/// Raises the limit of open files as far as the system lets the process do so. Systems start
/// processes with a limit of 1,024 for the sake of programs that cannot handle more; many
/// connections and databases need more.
#[cfg(unix)]
pub fn raise_limit() -> Raised {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum {
        // If the system refuses, the limit stays as it was.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    Raised { before, now: limit() }
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub fn raise_limit() -> Raised {
    Raised { before: None, now: None }
}

/// The number of open files and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// Files, sockets among them, that are open.
    pub open: u64,
    /// How many may be open.
    pub limit: u64,
}

impl OpenFiles {
    /// Whether less than an eighth of the limit is left.
    pub fn is_short(self) -> bool {
        self.limit.saturating_sub(self.open) < self.limit / 8
    }
}

/// Whether something failed because no more files can be open at once, in this process or on the machine.
pub fn are_exhausted(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    let exhausted = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    #[cfg(not(unix))]
    let exhausted = false;
    exhausted
}

/// The files open now; `None` where there is no limit, or the system does not report them.
pub fn open_files() -> Option<OpenFiles> {
    let limit = limit()?;
    // The directory that is read to count the others is one of them.
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some(OpenFiles { open: open as u64, limit })
}

/// The current limit; `None` for no limit.
pub fn limit() -> Option<u64> {
    #[cfg(unix)]
    return getrlimit(Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_limit_is_as_high_as_the_system_allows() {
        let raised = raise_limit();
        assert_eq!(raised.now, getrlimit(Resource::Nofile).maximum);
        assert_eq!(raised.now, limit());
        assert_eq!(raise_limit(), Raised { before: raised.now, now: raised.now });
    }

    #[test]
    fn files_are_short_when_less_than_an_eighth_is_left() {
        for (open, limit, expected) in
            [(56, 64, false), (57, 64, true), (64, 64, true), (99, 64, true), (0, 0, false)]
        {
            assert_eq!(OpenFiles { open, limit }.is_short(), expected, "{open} of {limit}");
        }
    }

    #[test]
    fn an_open_file_is_counted() {
        // Other tests of the process open and close files meanwhile.
        let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
        let open = open_files().unwrap().open;
        assert!(2 * pairs.len() as u64 <= open, "{open}");
    }
}
