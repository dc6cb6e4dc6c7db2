//! The table of keys as a whole: looking up names, families known by their prefix, nearest names.
//!
//! Invariant: names are unique without regard to case, also after dots became underscores, so that
//! an environment variable maps to exactly one key (test).

use crate::accepted_keys::ACCEPTED;
use crate::active_keys::{ACTIVE, REFUSED};
use crate::key::{Key, Status};

/// What other programs call the address to listen on, in lower case.
const ADDRESS_WORDS: [&str; 6] = ["address", "bind", "host", "listen", "port", "url"];

/// A shorter prefix of a name is too ambiguous.
const BEGINNING_BYTES_MIN: usize = 4;

/// How similar two names must be, from 0 to 1, for one to be suggested in place of the other.
const LIKENESS_MIN: f64 = 0.75;

/// A group of RavenDB's keys of which names missing from the table are accepted too.
///
/// Families of which Corvus reads keys are not among them: there an unlisted name is most likely a
/// misspelt one, and must be refused.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// What the names begin with, including the final dot.
    pub prefix: &'static str,
    /// What the family is about.
    pub about: &'static str,
}

/// The families accepted by their prefix, sorted.
pub static FAMILIES: &[Family] = &[
    family("Ai.", "RavenDB's AI integration"),
    family("Cluster.", "timing of the cluster"),
    family("Debug.", "diagnostics of the .NET runtime"),
    family("ETL.", "copying to other systems"),
    family("Export.", "compression of exports"),
    family("ExternalPublicTcpServerUrl.", "addresses for nodes outside the cluster"),
    family("Features.", "switching on experimental features"),
    family("Indexing.", "indexing"),
    family("Integrations.", "other protocols than RavenDB's"),
    family("LetsEncrypt.", "automatic certificates"),
    family("License.", "the licence; Corvus needs none"),
    family("Migration.", "moving data from other databases"),
    family("Monitoring.", "SNMP and OpenTelemetry"),
    family("Notifications.", "notifications in RavenDB's Studio"),
    family("PerformanceHints.", "thresholds for performance hints"),
    family("Query.", "limits of queries"),
    family("QueueSink.", "reading from queues"),
    family("Replication.", "replication"),
    family("Sharding.", "sharded databases"),
    family("Studio.", "RavenDB's Studio"),
    family("Subscriptions.", "subscriptions"),
    family("TrafficWatch.", "recording of requests"),
    family("TransactionMerger.", "RavenDB's merging of write transactions"),
    family("Updates.", "looking for new versions of RavenDB"),
];

const fn family(prefix: &'static str, about: &'static str) -> Family {
    Family { prefix, about }
}

/// All rows of the table: first the keys that Corvus reads, then those it refuses, then those
/// without effect.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    ACTIVE.iter().chain(REFUSED).chain(ACCEPTED)
}

/// The row with this name, compared without regard to case.
pub fn find_key(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name.eq_ignore_ascii_case(name))
}

/// The row that the rest of an environment variable's name refers to: as [`find_key`], but every
/// underscore may stand for a dot.
pub(crate) fn find_key_with_underscores(name: &str) -> Option<&'static Key> {
    keys().find(|key| {
        key.name.len() == name.len()
            && key.name.bytes().zip(name.bytes()).all(|(of_key, raw)| {
                of_key.eq_ignore_ascii_case(&raw) || (of_key == b'.' && raw == b'_')
            })
    })
}

/// The family that `name` belongs to by its prefix, compared without regard to case.
pub(crate) fn find_family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| {
        name.len() > family.prefix.len()
            && name
                .get(..family.prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(family.prefix))
    })
}

/// No name is this long, in bytes; a longer one gets no suggestion.
const NAME_BYTES_MAX: usize = 128;

/// The name in the table that `name` was most likely meant to be, if one is near enough.
///
/// Keys that Corvus reads win over keys without effect that are equally near.
pub fn nearest_name(name: &str) -> Option<&'static str> {
    // The time grows with the length.
    if NAME_BYTES_MAX < name.len() {
        return None;
    }
    let name = name.to_lowercase();
    let offered = || keys().filter(|key| !matches!(key.status, Status::Refused { .. }));
    let mut nearest = None;
    let mut likeness_best = LIKENESS_MIN;
    for key in offered() {
        let likeness = strsim::normalized_damerau_levenshtein(&key.name.to_lowercase(), &name);
        if likeness > likeness_best {
            likeness_best = likeness;
            nearest = Some(key.name);
        }
    }
    let by_its_end = || offered().find(|key| ends_with_segments(key.name, &name));
    let by_its_beginning = || offered().find(|key| shares_beginning(key.name, &name));
    nearest
        .or_else(|| ADDRESS_WORDS.contains(&name.as_str()).then_some("ServerUrl"))
        .or_else(|| by_its_end().map(|key| key.name))
        .or_else(|| by_its_beginning().map(|key| key.name))
}

/// Whether `name`, of one part, begins as `full` does, or is its beginning.
fn shares_beginning(full: &str, name: &str) -> bool {
    let (full, shorter) = (full.to_lowercase(), full.len().min(name.len()));
    !name.contains('.')
        && BEGINNING_BYTES_MIN <= shorter
        && full.get(..shorter) == name.get(..shorter)
}

/// Whether `name` is what remains of `full` when some leading parts are left out.
fn ends_with_segments(full: &str, name: &str) -> bool {
    full.to_lowercase().strip_suffix(name).is_some_and(|start| start.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::key::ValueType;
    use crate::value::parse_value;

    #[test]
    fn no_two_rows_share_a_name() {
        let mut names = BTreeSet::new();
        for key in keys() {
            assert!(names.insert(key.name.to_lowercase().replace('.', "_")), "{}", key.name);
            assert!(key.name.len() < NAME_BYTES_MAX, "{}", key.name);
        }
    }

    #[test]
    fn accepted_rows_and_families_are_sorted() {
        let names: Vec<String> = ACCEPTED.iter().map(|key| key.name.to_lowercase()).collect();
        assert!(names.is_sorted());
        assert!(FAMILIES.iter().map(|family| family.prefix.to_lowercase()).is_sorted());
    }

    #[test]
    fn every_default_is_a_valid_value_of_its_key() {
        for key in keys() {
            if let Some(text) = key.default {
                assert!(parse_value(key.value_type, text).is_ok(), "{}: {text}", key.name);
            }
        }
    }

    #[test]
    fn every_unit_is_named_by_its_key() {
        for key in keys() {
            match key.value_type {
                ValueType::Size { unit, .. } => {
                    assert!(key.name.ends_with(unit.suffix()), "{}", key.name)
                }
                ValueType::Duration { unit, .. } => {
                    assert!(key.name.ends_with(unit.suffix()), "{}", key.name);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn every_key_that_is_read_has_a_help_text_that_ends_a_sentence() {
        for key in ACTIVE {
            assert!(key.help.ends_with('.') && !key.help.contains("  "), "{}", key.name);
        }
    }

    #[test]
    fn no_family_accepted_by_prefix_holds_a_key_that_is_refused() {
        for key in REFUSED {
            assert!(find_family(key.name).is_none(), "{}", key.name);
        }
    }

    #[test]
    fn only_four_families_hold_keys_that_are_read() {
        // RavenDB has so many keys that a mistake in one must not keep a server from starting; it
        // causes a warning with the nearest name.
        for key in ACTIVE {
            let family = find_family(key.name).map(|family| family.prefix);
            assert!(
                matches!(
                    family,
                    None | Some("Cluster." | "Indexing." | "PerformanceHints." | "Studio.")
                ),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn names_are_found_without_regard_to_case() {
        assert_eq!(find_key("storage.JOURNALSPATH").unwrap().name, "Storage.JournalsPath");
        assert!(find_key("Storage_JournalsPath").is_none());
        assert!(find_key("").is_none());
        for name in ["security_unsecuredaccessallowed", "Security.UnsecuredAccessAllowed"] {
            let key = find_key_with_underscores(name).unwrap();
            assert_eq!(key.name, "Security.UnsecuredAccessAllowed");
        }
        assert!(find_key_with_underscores("Security-UnsecuredAccessAllowed").is_none());
    }

    #[test]
    fn a_family_needs_something_after_its_prefix() {
        assert!(find_family("studio.x").is_some());
        assert!(find_family("Studio.").is_none());
        assert!(find_family("Studiox").is_none());
        assert!(find_family("étL.x").is_none());
    }

    #[test]
    fn the_nearest_name_is_offered() {
        for (raw, offered) in [
            ("Storage.JournalPath", Some("Storage.JournalsPath")),
            ("storage.journalpath", Some("Storage.JournalsPath")),
            ("Sevrer.MaxConnections", Some("Server.MaxConnections")),
            ("SecurityUnsecuredAccessAllowed", Some("Security.UnsecuredAccessAllowed")),
            ("UnsecuredAccessAllowed", Some("Security.UnsecuredAccessAllowed")),
            ("ServerURLs", Some("ServerUrl")),
            ("DataDirectory", Some("DataDir")),
            ("data", Some("DataDir")),
            ("port", Some("ServerUrl")),
            ("dat", None),
            ("Completely.Different", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(raw), offered, "{raw}");
        }
    }
}
