//! Sizes in bytes with a human-readable text.

use serde::Serialize;

/// A size in the protocol's shape.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "PascalCase")]
pub struct SizeText {
    /// For people: `17.55 MBytes`.
    pub humane_size: String,
    /// In bytes.
    pub size_in_bytes: u64,
}

impl SizeText {
    /// The size with its text.
    pub fn of(bytes: u64) -> SizeText {
        SizeText { humane_size: humane_size(bytes), size_in_bytes: bytes }
    }
}

/// The size in the largest unit that leaves at least one, with up to two decimals: `120 KBytes`.
pub fn humane_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TBytes"), (1 << 30, "GBytes"), (1 << 20, "MBytes"), (1 << 10, "KBytes")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} Bytes");
    };
    // Hundredths of the unit; u128 because a terabyte count times a hundred may not fit.
    let hundredths = (u128::from(bytes) * 100 + u128::from(unit) / 2) / u128::from(unit);
    let (whole, fraction) = (hundredths / 100, hundredths % 100);
    match fraction {
        0 => format!("{whole} {name}"),
        tenths if tenths % 10 == 0 => format!("{whole}.{} {name}", tenths / 10),
        _ => format!("{whole}.{fraction:02} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_the_protocol_shows_them() {
        let table = [
            (0, "0 Bytes"),
            (134, "134 Bytes"),
            (122_880, "120 KBytes"),
            (18_399_232, "17.55 MBytes"),
            (84_344_832, "80.44 MBytes"),
            (u64::MAX, "16777216 TBytes"),
        ];
        for (bytes, expected) in table {
            assert_eq!(humane_size(bytes), expected);
        }
    }
}
