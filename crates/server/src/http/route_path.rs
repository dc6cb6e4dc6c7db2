//! The name of a database in the path of a request.

use std::borrow::Cow;

use wire::percent_decode;

const DATABASE_PREFIX: &str = "/databases/";

/// The name of the database and what follows it, with its slash.
pub(crate) fn split_database(path: &str) -> Option<(&str, &str)> {
    let prefix = path.get(..DATABASE_PREFIX.len())?;
    if !prefix.eq_ignore_ascii_case(DATABASE_PREFIX) {
        return None;
    }
    let rest = &path[DATABASE_PREFIX.len()..];
    let slash = rest.find('/')?;
    (slash > 0).then(|| rest.split_at(slash))
}

/// The database that a path names, whether or not there is such a route.
pub(crate) fn named_database(path: &str) -> Option<Cow<'_, str>> {
    split_database(path).map(|(name, _)| percent_decode_path(name))
}

/// In a path, unlike in a query string, a plus is literal.
pub(crate) fn percent_decode_path(name: &str) -> Cow<'_, str> {
    if name.contains('+') {
        return Cow::Owned(percent_decode(&name.replace('+', "%2B")).into_owned());
    }
    percent_decode(name)
}
