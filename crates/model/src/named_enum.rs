//! Enumerations whose values have names in the protocol.

use std::fmt;

/// An enumeration whose values clients and records name.
pub trait NamedEnum: Copy + fmt::Display {
    /// Its own name, for error messages.
    const TYPE_NAME: &'static str;

    /// The value with this name, in any case; `None` if there is none.
    fn named(text: &str) -> Option<Self>;

    /// The name of the value.
    fn name(self) -> &'static str;
}

/// Defines an enumeration whose values are named as they are spelled here.
macro_rules! named_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$variant_about:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_about])* $variant),+ }

        impl $crate::NamedEnum for $name {
            const TYPE_NAME: &'static str = stringify!($name);

            fn named(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case(stringify!($variant)) { return Some(Self::$variant); })+
                None
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($crate::NamedEnum::name(*self))
            }
        }
    };
}

pub(crate) use named_enum;

#[cfg(test)]
mod tests {
    use crate::{IndexLockMode, NamedEnum};

    #[test]
    fn values_have_names_in_any_case() {
        assert_eq!(IndexLockMode::named("LOCKEDerror"), Some(IndexLockMode::LockedError));
        assert_eq!(IndexLockMode::named("Locked"), None);
        assert_eq!(IndexLockMode::LockedIgnore.name(), "LockedIgnore");
        assert_eq!(IndexLockMode::Unlock.to_string(), "Unlock");
        assert_eq!(IndexLockMode::TYPE_NAME, "IndexLockMode");
    }
}
