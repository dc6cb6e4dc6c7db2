//! The separator in ids that the server numbers.

use std::fmt;

/// A character between the name of a collection and a number, `/` unless a database is configured
/// otherwise. Invariant: it is not `|`, which requests an identity, and it is a single `char` in
/// .NET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSeparator(char);

impl IdSeparator {
    /// Ends an id that an identity is to number.
    pub const IDENTITY_SUFFIX: char = '|';

    /// A character, if it can be a separator.
    pub fn new(character: char) -> Option<Self> {
        let fits = character != Self::IDENTITY_SUFFIX && character.len_utf16() == 1;
        fits.then_some(Self(character))
    }

    /// The separator as a character.
    pub fn character(self) -> char {
        self.0
    }
}

impl Default for IdSeparator {
    fn default() -> Self {
        Self('/')
    }
}

impl fmt::Display for IdSeparator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_character_of_net_but_that_of_identities_separates() {
        let table =
            [('/', true), (':', true), ('ä', true), ('€', true), ('|', false), ('😀', false)];
        for (character, fits) in table {
            assert_eq!(IdSeparator::new(character).is_some(), fits, "{character}");
        }
        assert_eq!(IdSeparator::default().to_string(), "/");
    }
}
