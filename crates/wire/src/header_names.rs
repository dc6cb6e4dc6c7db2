//! The names of the protocol's own HTTP headers, in the spelling that clients know.

/// The version of the protocol that the server speaks; on every answer.
pub const RAVEN_SERVER_VERSION: &str = "Raven-Server-Version";
/// The id of the database's cluster transactions; on every answer of a database route.
pub const DATABASE_CLUSTER_TX_ID: &str = "Database-Cluster-Tx-Id";
/// The name of a database that does not exist.
pub const DATABASE_MISSING: &str = "Database-Missing";
/// How long a query took, in milliseconds.
pub const REQUEST_TIME: &str = "Request-Time";
/// `true` on the answer to a query that an automatic index was made for. Ours: the answer took the time
/// that building takes, the next one does not.
pub const INDEX_CREATED: &str = "Corvus-Index-Created";
/// The token of the snapshot that a read is answered from. Ours; on the answer, too, so that a client can
/// tell a server that knows it from one that does not.
pub const SNAPSHOT: &str = "Corvus-Snapshot";
/// The topology the client knows.
pub const TOPOLOGY_ETAG: &str = "Topology-Etag";
/// Tells the client that its topology is old.
pub const REFRESH_TOPOLOGY: &str = "Refresh-Topology";
/// The client configuration the client knows.
pub const CLIENT_CONFIGURATION_ETAG: &str = "Client-Configuration-Etag";
/// Tells the client that its configuration is old.
pub const REFRESH_CLIENT_CONFIGURATION: &str = "Refresh-Client-Configuration";
/// The content type of nearly every answer.
pub const JSON_CONTENT_TYPE: &str = "application/json; charset=utf-8";

/// Removes one pair of double quotes, as entity tags and the etags of clients carry them.
pub fn unquote(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_of_quotes_is_removed_and_half_a_pair_is_not() {
        for (value, expected) in
            [("\"a\"", "a"), ("a", "a"), ("\"a", "\"a"), ("\"\"", ""), ("\"", "\"")]
        {
            assert_eq!(unquote(value), expected);
        }
    }
}
