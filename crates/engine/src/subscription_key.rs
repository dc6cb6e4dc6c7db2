//! How a request identifies a subscription.

use std::fmt;

/// How a request identifies a subscription of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionKey {
    /// By its name, in any case.
    Name(String),
    /// By its number.
    Id(u64),
}

impl fmt::Display for SubscriptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubscriptionKey::Name(name) => write!(f, "name '{name}'"),
            SubscriptionKey::Id(id) => write!(f, "id '{id}'"),
        }
    }
}
