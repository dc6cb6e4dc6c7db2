//! Cultures: how a country writes numbers and moments.

/// A supported culture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culture {
    /// The culture-independent one, which .NET uses when none is named.
    Invariant,
    /// The United States', `en-US`. Forms as ICU has them, which .NET uses since its version 5.
    EnglishUs,
}

impl Culture {
    /// The culture of a name, whatever its case; `None` for an unsupported one.
    pub fn named(name: &str) -> Option<Culture> {
        match name.to_ascii_lowercase().as_str() {
            "" => Some(Culture::Invariant),
            "en" | "en-us" => Some(Culture::EnglishUs),
            _ => None,
        }
    }

    /// Digits after the point where a format does not specify them.
    pub(crate) fn decimals(self) -> usize {
        match self {
            Culture::Invariant => 2,
            Culture::EnglishUs => 3,
        }
    }

    pub(crate) fn percent(self, number: &str) -> String {
        match self {
            Culture::Invariant => format!("{number} %"),
            Culture::EnglishUs => format!("{number}%"),
        }
    }

    pub(crate) fn currency(self, number: &str) -> String {
        let magnitude = number.trim_start_matches('-');
        let is_negative = magnitude.len() < number.len();
        match (self, is_negative) {
            (Culture::Invariant, false) => format!("¤{magnitude}"),
            (Culture::Invariant, true) => format!("(¤{magnitude})"),
            (Culture::EnglishUs, false) => format!("${magnitude}"),
            (Culture::EnglishUs, true) => format!("-${magnitude}"),
        }
    }

    /// The custom format of a standard date format, where cultures differ.
    pub(crate) fn moment_format(self, letter: char) -> Option<&'static str> {
        Some(match (self, letter) {
            (Culture::Invariant, 'd') => "MM/dd/yyyy",
            (Culture::Invariant, 'D') => "dddd, dd MMMM yyyy",
            (Culture::Invariant, 'f') => "dddd, dd MMMM yyyy HH:mm",
            (Culture::Invariant, 'F' | 'U') => "dddd, dd MMMM yyyy HH:mm:ss",
            (Culture::Invariant, 'g') => "MM/dd/yyyy HH:mm",
            (Culture::Invariant, 'G') => "MM/dd/yyyy HH:mm:ss",
            (Culture::Invariant, 'm' | 'M') => "MMMM dd",
            (Culture::Invariant, 't') => "HH:mm",
            (Culture::Invariant, 'T') => "HH:mm:ss",
            (Culture::Invariant, 'y' | 'Y') => "yyyy MMMM",
            // Between a time and AM or PM there is a narrow no-break space.
            (Culture::EnglishUs, 'd') => "M/d/yyyy",
            (Culture::EnglishUs, 'D') => "dddd, MMMM d, yyyy",
            (Culture::EnglishUs, 'f') => "dddd, MMMM d, yyyy h:mm\u{202f}tt",
            (Culture::EnglishUs, 'F' | 'U') => "dddd, MMMM d, yyyy h:mm:ss\u{202f}tt",
            (Culture::EnglishUs, 'g') => "M/d/yyyy h:mm\u{202f}tt",
            (Culture::EnglishUs, 'G') => "M/d/yyyy h:mm:ss\u{202f}tt",
            (Culture::EnglishUs, 'm' | 'M') => "MMMM d",
            (Culture::EnglishUs, 't') => "h:mm\u{202f}tt",
            (Culture::EnglishUs, 'T') => "h:mm:ss\u{202f}tt",
            (Culture::EnglishUs, 'y' | 'Y') => "MMMM yyyy",
            _ => return None,
        })
    }
}
