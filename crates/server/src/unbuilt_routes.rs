//! The routes of RavenDB that this server does not implement yet, by feature.
//!
//! Invariant: every route of RavenDB is either in the routing table or here, and never in both. The
//! purpose and the plans of each feature are in `docs/compatibility.md`, section "Routes that are
//! not there yet".

use wire::ErrorKind;

use crate::{api_error::ApiError, http::route_path::split_database};

/// Where the state of each feature can be followed.
const FOLLOWED_IN: &str = "docs/compatibility.md, \"Routes that are not implemented yet\"";

/// A feature, and its routes as method and path. `*` stands for the name of a database, and `$` for
/// the rest of a path.
type Feature = (&'static str, &'static [&'static str]);

/// A route that is not implemented yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnbuiltRoute {
    /// Method and path, separated by a space.
    pub(crate) name: &'static str,
    /// The feature that it belongs to.
    pub(crate) feature: &'static str,
}

impl UnbuiltRoute {
    /// The route of a request, if it is one of those. `path` has no query.
    pub(crate) fn find(method: &str, path: &str) -> Option<UnbuiltRoute> {
        let (prefix, rest) = match split_database(path) {
            Some((_, rest)) => ("/databases/*", rest),
            None => ("", path),
        };
        let is_asked_for = |route: &str| {
            let (of_method, of_path) = route.split_once(' ')?;
            let of_rest = of_path.strip_prefix(prefix)?;
            let is_path = match of_rest.strip_suffix('$') {
                Some(begin) => rest.get(..begin.len())?.eq_ignore_ascii_case(begin),
                None => of_rest.eq_ignore_ascii_case(rest),
            };
            (is_path && of_method.eq_ignore_ascii_case(method)).then_some(())
        };
        let find_in = |(feature, routes): &Feature| {
            let name = routes.iter().find(|route| is_asked_for(route).is_some())?;
            Some(UnbuiltRoute { name, feature })
        };
        FEATURES.iter().find_map(find_in)
    }

    /// The response to a client that requests it.
    pub(crate) fn refusal(self) -> ApiError {
        let UnbuiltRoute { name, feature } = self;
        let message = format!(
            "'{name}' is not supported by this server yet: it belongs to the feature '{feature}'. \
             See {FOLLOWED_IN}."
        );
        ApiError::new(ErrorKind::NotSupported, message)
    }
}

/// The routes that are not implemented yet, by feature.
#[rustfmt::skip]
const FEATURES: &[Feature] = &[
    ("Artificial intelligence", &[
        "DELETE /databases/*/admin/ai/agent",
        "GET /databases/*/admin/ai/agent",
        "PUT /databases/*/admin/ai/agent",
        "POST /databases/*/admin/ai/embeddings/test",
        "POST /databases/*/admin/ai/gen-ai/test",
        "POST /databases/*/admin/ai/test-connection",
        "POST /databases/*/ai/agent",
        "POST /databases/*/ai/agent/test",
        "POST /studio-tasks/ai/models",
    ]),
    ("Backup and restore", &[
        "POST /admin/backup-task/delay",
        "GET /admin/debug/periodic-backup/timers",
        "GET /admin/server-wide/backup-data-directory",
        "GET /databases/*/admin/backup-data-directory",
        "GET /databases/*/admin/backup/running",
        "GET /databases/*/admin/debug/periodic-backup/timers",
        "POST /studio-tasks/periodic-backup/test-credentials",
    ]),
    ("Certificates and secrets", &[
        "GET /2fa/$",
        "GET /2fa/index.html",
        "GET /admin/certificates/2fa/generate",
        "GET /admin/certificates/export",
        "GET /admin/certificates/for-communication/export",
        "POST /admin/certificates/letsencrypt/force-renew",
        "GET /admin/certificates/letsencrypt/renewal-date",
        "DELETE /admin/certificates/local-state",
        "GET /admin/certificates/local-state",
        "POST /admin/certificates/local-state/apply",
        "DELETE /admin/certificates/purge",
        "POST /admin/certificates/replacement/reset",
        "GET /auth-error.html",
        "DELETE /authentication/2fa",
        "POST /authentication/2fa",
        "GET /authentication/2fa/configuration",
    ]),
    ("Clusters of several nodes", &[
        "POST /admin/cluster/remove-entry-from-log",
        "POST /admin/databases/topology/modify",
        "GET /admin/debug/cluster/history-logs",
        "POST /admin/rachis/send",
        "POST /databases/*/admin/rachis/wait-for-index-notifications",
        "POST /databases/*/indexes/finish-rolling",
        "GET /info/remote-task/topology",
        "GET /rachis/waitfor",
    ]),
    ("Diagnostics", &[
        "GET /admin/debug/cluster-info-package",
        "GET /admin/debug/databases/idle",
        "GET /admin/debug/dump",
        "GET /admin/debug/gcdump",
        "GET /admin/debug/info-package",
        "GET /admin/debug/memory/allocations",
        "GET /admin/debug/memory/encryption-buffer-pool",
        "GET /admin/debug/memory/gc",
        "GET /admin/debug/memory/gc-events",
        "GET /admin/debug/memory/smaps",
        "GET /admin/debug/remote-cluster-info-package",
        "GET /admin/debug/script-runners",
        "GET /admin/debug/storage/environment/report",
        "GET /admin/debug/storage/environment/scratch-buffer-info",
        "GET /admin/debug/threads/contention",
        "GET /admin/debug/threads/runaway",
        "GET /admin/debug/threads/stack-trace",
        "GET /admin/debug/txinfo",
        "GET /admin/memory/gc",
        "GET /admin/test/empty-message",
        "GET /admin/test/sized-message",
        "GET /databases/*/admin/debug/txinfo",
        "POST /databases/*/admin/restart",
        "POST /databases/*/admin/storage/manual-flush",
        "POST /databases/*/admin/storage/manual-sync",
        "GET /databases/*/debug/info-package",
        "GET /databases/*/debug/queries/cache/list",
        "GET /databases/*/debug/script-runners",
        "GET /databases/*/debug/storage/btree-structure",
        "GET /databases/*/debug/storage/environment/debug-only/pages",
        "GET /databases/*/debug/storage/environment/free-space-snapshot",
        "GET /databases/*/debug/storage/environment/scratch-buffer-info",
        "GET /databases/*/debug/storage/fst-structure",
        "GET /databases/*/debug/storage/trees",
        "GET /databases/*/debug/subscriptions/resend",
        "GET /debug/info-package/analyzer/cluster/log",
        "GET /debug/info-package/analyzer/cluster/observer/decisions",
        "GET /debug/info-package/analyzer/cluster/topology",
        "GET /debug/info-package/analyzer/databases/configuration/settings",
        "GET /debug/info-package/analyzer/databases/indexes",
        "GET /debug/info-package/analyzer/databases/indexes/errors",
        "GET /debug/info-package/analyzer/databases/indexes/performance",
        "GET /debug/info-package/analyzer/databases/indexes/stats",
        "GET /debug/info-package/analyzer/databases/overview",
        "GET /debug/info-package/analyzer/databases/record",
        "GET /debug/info-package/analyzer/databases/stats",
        "GET /debug/info-package/analyzer/memory",
        "GET /debug/info-package/analyzer/network",
        "DELETE /debug/info-package/analyzer/remove",
        "GET /debug/info-package/analyzer/summary",
        "GET /debug/info-package/analyzer/summary/node",
        "GET /debug/info-package/analyzer/threads/runaway",
        "GET /debug/info-package/analyzer/threads/stack-trace",
        "POST /debug/info-package/analyzer/upload",
        "GET /debug/queries/running/live",
        "GET /threads-info/watch",
    ]),
    ("Documents", &[
        "POST /databases/*/admin/revisions/bin-cleaner/config",
        "POST /databases/*/admin/revisions/orphaned/adopt",
        "GET /databases/*/collections/last-change-vector",
        "GET /databases/*/debug/attachments/missing",
        "GET /databases/*/debug/documents/export-all-ids",
        "GET /databases/*/debug/documents/scan-corrupted-ids",
        "GET /databases/*/revisions/bin-cleaner/config",
        "GET /databases/*/revisions/collections/stats",
        "GET /databases/*/timeseries/debug/segments-summary",
        "POST /databases/*/timeseries/ranges",
    ]),
    ("ETL and queue sinks", &[
        "POST /databases/*/admin/etl/elasticsearch/test",
        "POST /databases/*/admin/etl/elasticsearch/test-connection",
        "POST /databases/*/admin/etl/olap/test",
        "POST /databases/*/admin/etl/queue/amazonsqs/test-connection",
        "POST /databases/*/admin/etl/queue/azurequeuestorage/test-connection",
        "POST /databases/*/admin/etl/queue/kafka/test-connection",
        "POST /databases/*/admin/etl/queue/rabbitmq/test-connection",
        "POST /databases/*/admin/etl/queue/test",
        "POST /databases/*/admin/etl/snowflake/test",
        "POST /databases/*/admin/etl/snowflake/test-connection",
        "POST /databases/*/admin/etl/sql/test",
        "POST /databases/*/admin/etl/sql/test-connection",
        "PUT /databases/*/admin/queue-sink",
        "POST /databases/*/admin/queue-sink/test",
        "GET /databases/*/etl/performance/live",
        "GET /databases/*/queue-sink/performance/live",
    ]),
    ("Import, export and migration", &[
        "POST /admin/migrate",
        "POST /admin/migrate/offline",
        "GET /admin/studio-tasks/offline-migration-test",
        "GET /databases/*/admin/smuggler/import",
        "GET /databases/*/admin/smuggler/import-dir",
        "GET /databases/*/admin/smuggler/import-s3-dir",
        "POST /databases/*/admin/smuggler/migrate",
        "POST /databases/*/admin/sql-migration/import",
        "POST /databases/*/admin/sql-migration/schema",
        "POST /databases/*/admin/sql-migration/test",
        "GET /databases/*/migrate/get-migrated-server-urls",
        "GET /studio-tasks/admin/migrator-path",
    ]),
    ("Index maintenance", &[
        "POST /admin/databases/indexing",
        "GET /admin/indexes/lucene/query-clause-cache",
        "POST /databases/*/admin/indexes/dump",
        "GET /databases/*/indexes/auto/convert",
        "POST /databases/*/indexes/last-queried",
        "PUT /databases/*/side-by-side-indexes",
        "DELETE /databases/*/transformers/$",
        "PUT /databases/*/transformers/$",
    ]),
    ("Licensing", &[
        "POST /admin/license/activate",
        "POST /admin/license/forceUpdate",
        "POST /admin/license/renew",
        "POST /admin/license/set-limit",
        "GET /databases/*/studio/license/limits-usage",
        "GET /license-server/connectivity",
        "GET /license/configuration",
        "GET /license/limits-usage",
        "GET /license/support",
    ]),
    ("Logs", &[
        "GET /admin/event-listener/configuration",
        "POST /admin/event-listener/configuration",
        "GET /admin/logs/microsoft/configuration",
        "POST /admin/logs/microsoft/configuration",
        "POST /admin/logs/microsoft/disable",
        "POST /admin/logs/microsoft/enable",
        "GET /admin/logs/microsoft/loggers",
        "GET /admin/logs/microsoft/state",
    ]),
    ("Monitoring", &[
        "POST /admin/cpu-credits",
        "POST /admin/cpu-credits/sync",
        "GET /admin/debug/info/tcp/active-connections",
        "GET /admin/debug/info/tcp/stats",
        "GET /admin/debug/io-metrics",
        "GET /admin/debug/io-metrics/live",
        "GET /admin/debug/proc/meminfo",
        "GET /admin/debug/proc/stats",
        "GET /admin/debug/proc/status",
        "GET /databases/*/debug/perf-metrics",
        "GET /debug/cpu-credits",
        "GET /monitoring/snmp",
        "GET /monitoring/snmp/bulk",
        "POST /monitoring/snmp/bulk",
        "GET /monitoring/snmp/mib",
        "GET /monitoring/snmp/oids",
    ]),
    ("Notification center and dashboards", &[
        "GET /admin/cluster-dashboard/remote/watch",
    ]),
    ("PostgreSQL protocol", &[
        "POST /databases/*/admin/integrations/postgresql/config",
        "GET /databases/*/admin/integrations/postgresql/server/status",
        "DELETE /databases/*/admin/integrations/postgresql/user",
        "PUT /databases/*/admin/integrations/postgresql/user",
        "GET /databases/*/admin/integrations/postgresql/users",
    ]),
    ("Recording of transactions", &[
        "GET /databases/*/admin/transactions-mode",
        "POST /databases/*/admin/transactions/start-recording",
        "POST /databases/*/admin/transactions/stop-recording",
        "POST /databases/*/transactions/replay",
    ]),
    ("Replication", &[
        "POST /admin/databases/unused-ids",
        "POST /databases/*/admin/validate-unused-ids",
        "GET /databases/*/debug/replication/all-items",
        "POST /databases/*/replication/heartbeat",
        "GET /databases/*/replication/internal/outgoing/progress",
        "GET /databases/*/replication/lastEtag",
        "GET /databases/*/replication/performance/live",
        "GET /databases/*/replication/progress",
        "GET /databases/*/replication/pulses/live",
        "POST /databases/*/replication/replicateAttachments",
        "POST /databases/*/replication/replicateDocs",
        "DELETE /databases/*/tcp",
        "GET /databases/*/tcp",
    ]),
    ("Setup wizard", &[
        "POST /admin/license/eula/accept",
        "GET /eula/$",
        "GET /eula/index.html",
        "GET /license/eula",
        "POST /setup/continue",
        "POST /setup/continue/extract",
        "POST /setup/continue/unsecured",
        "POST /setup/dns-n-cert",
        "POST /setup/finish",
        "POST /setup/hosts",
        "GET /setup/ips",
        "POST /setup/letsencrypt",
        "GET /setup/letsencrypt/agreement",
        "GET /setup/parameters",
        "POST /setup/populate-ips",
        "POST /setup/secured",
        "POST /setup/unsecured/package",
        "POST /setup/user-domains",
        "GET /wizard/$",
        "GET /wizard/index.html",
    ]),
    ("Sharding", &[
        "DELETE /admin/databases/orchestrator",
        "PUT /admin/databases/orchestrator",
        "PUT /admin/databases/shard",
        "POST /admin/resharding/start",
        "DELETE /databases/*/admin/sharding/prefixed",
        "POST /databases/*/admin/sharding/prefixed",
        "PUT /databases/*/admin/sharding/prefixed",
        "POST /databases/*/admin/sharding/resharding/cleanup",
        "GET /databases/*/debug/sharding/bucket",
        "GET /databases/*/debug/sharding/buckets",
        "GET /debug/sharding/find/bucket",
    ]),
    ("Studio", &[
        "POST /build/version/updates",
        "POST /databases/*/admin/studio-tasks/restart",
        "GET /databases/*/docs/class",
        "GET /favicon.ico",
        "POST /studio-tasks/convert-to-json-schema",
        "POST /studio-tasks/format",
        "POST /studio/feedback",
        "GET /studio/upgrade-info",
    ]),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::routes::ROUTES;

    /// The routes that RavenDB 5.4 and 7.1 list at `/debug/routes`: method, path, versions.
    const OF_RAVENDB: &str = include_str!("../tests/recorded/routes.txt");
    const COMPATIBILITY: &str = include_str!("../../../docs/compatibility.md");

    fn unbuilt() -> impl Iterator<Item = &'static str> {
        FEATURES.iter().flat_map(|(_, routes)| routes.iter().copied())
    }

    #[test]
    fn every_route_of_ravendb_is_answered_or_named_as_unbuilt() {
        let answered: HashSet<String> = ROUTES
            .iter()
            .map(|route| format!("{} {}", route.method, route.path).to_ascii_lowercase())
            .collect();
        let mut unbuilt: HashSet<String> = unbuilt().map(str::to_ascii_lowercase).collect();
        for line in OF_RAVENDB.lines() {
            let route: Vec<&str> = line.split(' ').take(2).collect();
            let route = route.join(" ").to_ascii_lowercase();
            let is_unbuilt = unbuilt.remove(&route);
            assert!(answered.contains(&route) != is_unbuilt, "{route}");
        }
        assert!(unbuilt.is_empty(), "RavenDB has no such routes: {unbuilt:?}");
    }

    #[test]
    fn every_feature_is_described() {
        let (_, section) =
            COMPATIBILITY.split_once("## Routes that are not implemented yet").unwrap();
        for (feature, routes) in FEATURES {
            assert!(!routes.is_empty() && section.contains(&format!("| {feature} |")), "{feature}");
        }
    }

    #[test]
    fn a_request_finds_its_unbuilt_route() {
        let table = [
            (
                "POST",
                "/databases/x/admin/sql-migration/TEST",
                Some("POST /databases/*/admin/sql-migration/test"),
            ),
            ("GET", "/databases/x/admin/sql-migration/test", None),
            ("GET", "/wizard/a/b.js", Some("GET /wizard/$")),
            ("GET", "/databases/*/docs", None),
            ("GET", "", None),
        ];
        for (method, path, expected) in table {
            let found = UnbuiltRoute::find(method, path).map(|route| route.name);
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}
