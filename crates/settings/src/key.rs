//! One row of the table of keys.
//!
//! Not here: the rows themselves (`active_keys`, `accepted_keys`) and the reading of values
//! (`value`). Invariant: the unit of a size or a duration is part of the name of its key.

use std::time::Duration;

/// One configuration key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The full dotted name in RavenDB's spelling; compared without regard to case.
    pub name: &'static str,
    /// What values look like and which are in range.
    pub value_type: ValueType,
    /// The value when none is set, written as a user would write it; `None` means unset.
    pub default: Option<&'static str>,
    /// Where the key may be set.
    pub scope: Scope,
    /// Whether Corvus reads the key.
    pub status: Status,
    /// Whose key it is.
    pub origin: Origin,
    /// The only value that may be set, if restricted, since it is what Corvus does.
    pub only: Option<Only>,
    /// Whether the value must never be shown.
    pub secret: bool,
    /// What the key does, in one or two sentences. Empty for keys without effect.
    pub help: &'static str,
}

/// A value that a key without effect may have, and why it may have no other.
#[derive(Debug, Clone, Copy)]
pub struct Only {
    /// The value; compared without regard to case.
    pub value: &'static str,
    /// What Corvus does and what to do instead, as a sentence without its full stop.
    pub reason: &'static str,
}

/// What the values of a key look like.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// Anything: the value is kept for display only, because nothing reads it.
    Unchecked,
    /// `true` or `false`.
    Bool,
    /// A whole number, which may be below zero.
    WholeNumber,
    /// A number.
    Number,
    /// A whole number, both ends included.
    Integer {
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// A whole number of units of memory or disk space, both ends included.
    Size {
        /// The unit named at the end of the key.
        unit: SizeUnit,
        /// Smallest permitted number of units.
        min: u64,
        /// Largest permitted number of units.
        max: u64,
    },
    /// A whole number of units of time, both ends included.
    Duration {
        /// The unit named at the end of the key.
        unit: TimeUnit,
        /// Smallest permitted number of units.
        min: u64,
        /// Largest permitted number of units.
        max: u64,
    },
    /// Addresses to listen on for HTTP, separated by `;`.
    HttpUrls,
    /// Addresses to listen on for RavenDB's TCP protocol, separated by `;`; a bare port is one too.
    TcpUrls,
    /// The address at which others reach this server over HTTP.
    PublicHttpUrl,
    /// The address at which others reach this server's TCP protocol.
    PublicTcpUrl,
    /// Names of hosts, separated by `;`.
    HostNames,
    /// Addresses of web sites, separated by `;`.
    Origins,
    /// Any text.
    Text,
    /// The arguments of a program, split like words of a shell: quotes keep one together.
    Arguments,
    /// SHA-1 hashes of certificates in hexadecimal digits, separated by `;`.
    Thumbprints,
    /// API keys as their id and the SHA-256 of their secret, separated by `;`.
    ApiKeyHashes,
    /// A path of the file system; relative ones start at the working directory.
    Path,
    /// Paths of the file system, separated by `;`.
    Paths,
    /// One of a few words, compared without regard to case.
    Choice(&'static [Choice]),
    /// The ranges of addresses that may be served without a certificate.
    UnsecuredAccess,
    /// Four numbers with dots between them.
    Version,
}

/// One permitted word of a [`ValueType::Choice`].
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Why Corvus refuses a value that RavenDB accepts, and what to do; `None` if it is supported.
    pub unavailable: Option<&'static str>,
}

/// The unit of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// 1,024 bytes (`...InKb`).
    Kilobytes,
    /// 1,048,576 bytes (`...InMb`).
    Megabytes,
}

impl SizeUnit {
    /// The number of bytes in one unit.
    pub const fn bytes(self) -> u64 {
        match self {
            SizeUnit::Kilobytes => 1 << 10,
            SizeUnit::Megabytes => 1 << 20,
        }
    }

    /// The ending that the name of a key with this unit has.
    pub const fn suffix(self) -> &'static str {
        match self {
            SizeUnit::Kilobytes => "InKb",
            SizeUnit::Megabytes => "InMb",
        }
    }

    /// The unit in words.
    pub const fn word(self) -> &'static str {
        match self {
            SizeUnit::Kilobytes => "kilobytes",
            SizeUnit::Megabytes => "megabytes",
        }
    }
}

/// The unit of a duration. RavenDB has more (`InMin`, `InHrs`); no key that Corvus reads does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// `...InMs`.
    Milliseconds,
    /// `...InSec`.
    Seconds,
    /// `...InMin`.
    Minutes,
    /// `...InHrs`.
    Hours,
}

impl TimeUnit {
    /// That many units.
    pub const fn duration(self, count: u64) -> Duration {
        match self {
            TimeUnit::Milliseconds => Duration::from_millis(count),
            TimeUnit::Seconds => Duration::from_secs(count),
            TimeUnit::Minutes => Duration::from_secs(60 * count),
            TimeUnit::Hours => Duration::from_secs(3600 * count),
        }
    }

    /// The ending that the name of a key with this unit has.
    pub const fn suffix(self) -> &'static str {
        match self {
            TimeUnit::Milliseconds => "InMs",
            TimeUnit::Seconds => "InSec",
            TimeUnit::Minutes => "InMin",
            TimeUnit::Hours => "InHrs",
        }
    }

    /// The unit in words.
    pub const fn word(self) -> &'static str {
        match self {
            TimeUnit::Milliseconds => "milliseconds",
            TimeUnit::Seconds => "seconds",
            TimeUnit::Minutes => "minutes",
            TimeUnit::Hours => "hours",
        }
    }
}

/// Where a key may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For the whole server only.
    Server,
    /// For the whole server, and differently for one database in its record.
    Database,
}

/// Whether Corvus reads a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Corvus reads it.
    Active,
    /// A key of RavenDB; Corvus accepts it without effect.
    Accepted,
    /// A key of RavenDB with a guarantee that Corvus would silently break by ignoring it.
    Refused {
        /// What is missing and what to do instead.
        reason: &'static str,
    },
}

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// RavenDB has it under the same name.
    RavenDb,
    /// Corvus added it.
    Corvus,
}

impl Key {
    /// The part of the name before the first dot, or the whole name.
    pub fn family(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(family, _)| family)
    }

    /// A key that Corvus reads, for the whole server.
    pub(crate) const fn active(
        name: &'static str,
        value_type: ValueType,
        default: Option<&'static str>,
        help: &'static str,
    ) -> Key {
        let (scope, status, origin) = (Scope::Server, Status::Active, Origin::RavenDb);
        let (only, secret) = (None, false);
        Key { name, value_type, default, scope, status, origin, only, secret, help }
    }

    /// A key of RavenDB that has no effect here.
    pub(crate) const fn accepted(name: &'static str, scope: Scope, value_type: ValueType) -> Key {
        Key { scope, status: Status::Accepted, ..Key::active(name, value_type, None, "") }
    }

    /// A key of RavenDB that must not be ignored and cannot be obeyed.
    pub(crate) const fn refused(name: &'static str, reason: &'static str) -> Key {
        Key {
            status: Status::Refused { reason },
            ..Key::active(name, ValueType::Unchecked, None, "")
        }
    }

    pub(crate) const fn per_database(self) -> Key {
        Key { scope: Scope::Database, ..self }
    }

    pub(crate) const fn added_by_corvus(self) -> Key {
        Key { origin: Origin::Corvus, ..self }
    }

    /// With a single allowed value.
    pub(crate) const fn only(self, value: &'static str, reason: &'static str) -> Key {
        Key { only: Some(Only { value, reason }), ..self }
    }

    pub(crate) const fn secret(self) -> Key {
        Key { secret: true, ..self }
    }
}
