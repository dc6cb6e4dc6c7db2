//! How many files, sockets among them, the process may have open at once.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of open files, before and after [`raise_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// What the process was started with; `None` for no limit.
    pub before: Option<u64>,
    /// What counts now; `None` for no limit.
    pub now: Option<u64>,
}

/// Raises the limit of open files as far as the system lets the process do so. Systems start processes with
/// 1,024 for the sake of programs that cannot use more; many connections and databases need more.
#[cfg(unix)]
pub fn raise_limit() -> Raised {
    let Rlimit { current: before, maximum } = getrlimit(Resource::Nofile);
    if before != maximum {
        // What the system refuses leaves the limit as it was.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    Raised { before, now: limit() }
}

/// Elsewhere there is no such limit.
#[cfg(not(unix))]
pub fn raise_limit() -> Raised {
    Raised { before: None, now: None }
}

/// The limit that counts now; `None` for no limit.
pub fn limit() -> Option<u64> {
    #[cfg(unix)]
    return getrlimit(Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_the_system_allows() {
        let raised = raise_limit();
        assert_eq!(raised.now, getrlimit(Resource::Nofile).maximum);
        assert_eq!(raised.now, limit());
        assert_eq!(raise_limit(), Raised { before: raised.now, now: raised.now });
    }
}
