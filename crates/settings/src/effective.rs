//! What holds in the end and why: for `--print-config` and for showing to administrators.
//!
//! Invariant: secret values, and values of keys that are not in the table and so might be secret,
//! are replaced before they get here.

use std::fmt::Write as _;

use crate::key::Status;
use crate::source::Source;

/// One setting as it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The name of the key.
    pub name: String,
    /// The value as it was written, or a placeholder if it is secret; `None` if unset.
    pub value: Option<String>,
    /// Where the value came from.
    pub source: Source,
    /// The values that lost, the one that would hold next first.
    pub overridden: Vec<Overridden>,
    /// Whether the key has an effect.
    pub status: Status,
}

/// A value that lost against one of higher precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overridden {
    /// The value as it was written, or a placeholder if it is secret; `None` for a default of
    /// unset.
    pub value: Option<String>,
    /// Where it came from.
    pub source: Source,
}

/// Prints settings one to a line, for people: `name = value (source; overrides value (source),
/// ...)`.
pub fn effective_text(settings: &[Effective]) -> String {
    let mut text = String::new();
    for setting in settings {
        let value = setting.value.as_deref().unwrap_or("(unset)");
        write!(text, "{} = {value} ({}", setting.name, setting.source)
            .expect("writing to a String cannot fail");
        for (index, lost) in setting.overridden.iter().enumerate() {
            let joint = if index == 0 { "; overrides" } else { "," };
            let value = lost.value.as_deref().unwrap_or("(unset)");
            write!(text, "{joint} {value} ({})", lost.source)
                .expect("writing to a String cannot fail");
        }
        if setting.status != Status::Active {
            text.push_str("; accepted, has no effect");
        }
        text.push_str(")\n");
    }
    text
}
