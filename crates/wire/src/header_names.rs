//! The names of the protocol's own HTTP headers, as spelled by clients.

/// The id of the database's cluster transactions; sent with every answer of a database route.
pub const DATABASE_CLUSTER_TX_ID: &str = "Database-Cluster-Tx-Id";
/// The name of the missing database.
pub const DATABASE_MISSING: &str = "Database-Missing";
/// The duration of a query in milliseconds.
pub const REQUEST_TIME: &str = "Request-Time";
/// `true` if an automatic index was created to answer the query. A Corvus extension: this answer includes the
/// time it took to build the index, the next one does not.
pub const INDEX_CREATED: &str = "Corvus-Index-Created";
/// The token of the snapshot to read from. A Corvus extension; repeated in the answer, so that a client can
/// detect a server that does not know it.
pub const SNAPSHOT: &str = "Corvus-Snapshot";
/// The etag of the topology known to the client.
pub const TOPOLOGY_ETAG: &str = "Topology-Etag";
/// Notifies the client that its topology is out of date.
pub const REFRESH_TOPOLOGY: &str = "Refresh-Topology";
/// The etag of the client configuration known to the client.
pub const CLIENT_CONFIGURATION_ETAG: &str = "Client-Configuration-Etag";
/// Notifies the client that its configuration is out of date.
pub const REFRESH_CLIENT_CONFIGURATION: &str = "Refresh-Client-Configuration";
/// The content type of almost all answers.
pub const JSON_CONTENT_TYPE: &str = "application/json; charset=utf-8";

/// Removes one pair of double quotes, which entity tags and the etags of clients have.
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
