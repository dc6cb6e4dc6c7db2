//! The target figures, as data.

use report::{Bound, Limit};

use crate::works::{LOAD, MANY_WRITERS, ONE_WRITER, READ};

pub(crate) const BARE_DISK: &str = "bare disk";
pub(crate) const COMMITS: &str = "commits/s";
pub(crate) const ENTRIES: &str = "entries/s";

const ALL_PEERS: &[&str] = &["lmdb", "redb", "fjall", "sqlite"];

pub(crate) static LIMITS: &[Limit] = &[
    Limit {
        work: ONE_WRITER,
        figure: COMMITS,
        mode: Some("disk"),
        bound: Bound::AtLeastTimes(0.7, &[BARE_DISK]),
    },
    Limit {
        work: MANY_WRITERS,
        figure: COMMITS,
        mode: Some("disk"),
        bound: Bound::AtLeastTimes(1.5, ALL_PEERS),
    },
    Limit {
        work: LOAD,
        figure: ENTRIES,
        mode: None,
        bound: Bound::AtLeastTimes(1.0, &["lmdb", "redb", "sqlite"]),
    },
    Limit {
        work: READ,
        figure: ENTRIES,
        mode: None,
        bound: Bound::AtLeastTimes(1.0 / 1.3, ALL_PEERS),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CONTESTANTS;

    #[test]
    fn every_limit_names_columns_that_exist() {
        for limit in LIMITS {
            let (Bound::AtLeastTimes(_, names) | Bound::AtMostTimes(_, names)) = limit.bound else {
                continue;
            };
            for name in names {
                let is_engine = CONTESTANTS.iter().any(|contestant| contestant.name == *name);
                assert!(is_engine || *name == BARE_DISK, "{}: {name}", limit.work);
            }
        }
    }
}
