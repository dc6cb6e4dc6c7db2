//! Whether a database may be deleted.

use crate::named_enum::named_enum;

named_enum! {
    /// Whether a database is protected from deletion.
    DatabaseLockMode {
        /// It can be deleted.
        Unlock,
        /// Requests to delete it have no effect.
        PreventDeletesIgnore,
        /// Requests to delete it fail.
        PreventDeletesError,
    }
}
