//! Every route of the server, with what it requires.

use std::sync::LazyLock;

use ::security::Requirement::{
    Anyone, ClusterAdmin, DatabaseAdmin, Operator, Read, Sink, ValidUser, Write,
};

use crate::{
    handlers::{
        admin_console, api_keys, attachments, backups, bulk_docs, bulk_insert, certificates,
        changes, chosen_revisions, cluster_debug, cluster_nodes, collection_views, compaction,
        compare_exchange, configuration, conflicts, connection_strings, counters, custom_code,
        dashboards, database_administration, databases, debug, delete_by_query, documents,
        documents_compression, etl, hilo, identities, index_changes, index_debug, index_merging,
        index_performance, index_progress, index_repair, index_terms, index_tests, index_trials,
        indexes, io_metrics, log_download, logs, memory, metrics, migration, monitoring, multi_get,
        notification_center, notifications, ongoing_tasks, operations, patch, patch_by_query,
        pull_replication, queries, query_debug, replication, retention, revision_changes,
        revisions, sample_data, security, server_info, server_load, server_wide_backups,
        server_wide_replication, server_wide_tasks, settings_views, smuggler, snapshots,
        start_page, statistics, storage_report, streams, studio, studio_configuration,
        studio_statistics, studio_tasks, subscription_performance, subscription_workers,
        subscriptions, tail, time_series, time_series_policies, tombstones,
    },
    http::router::{
        BodyUse::{Ignored, Streamed, Whole, WholeOrParts},
        Handler::{Blocking, Endless, Inline, Waiting, WebSocket},
        Route, Router,
    },
};

macro_rules! routes {
    ($($method:literal $path:literal $requirement:ident $body:ident $handler:expr;)+) => {
        &[$(Route {
            method: $method,
            path: $path,
            requirement: $requirement,
            body: $body,
            handler: $handler,
        },)+]
    };
}

/// Finds the rows of the table.
pub(crate) static ROUTER: LazyLock<Router> = LazyLock::new(|| Router::new(ROUTES));

/// The routing table: method, path, requirement, body and handler of every route.
#[rustfmt::skip]
pub(crate) const ROUTES: &[Route] = routes! {
    "GET"    "/"                                       Anyone        Ignored  Inline(start_page::start_page);
    "GET"    "/studio/index.html"                      Anyone        Ignored  Inline(studio::file);
    "GET"    "/studio/$"                               Anyone        Ignored  Inline(studio::file);
    "GET"    "/license/status"                         ValidUser     Ignored  Inline(server_info::license_status);
    "GET"    "/build/version"                          Anyone        Ignored  Inline(server_info::build_version);
    "GET"    "/admin/test/delay"                       Operator      Ignored  Waiting(server_info::delay);
    "GET"    "/setup/alive"                            Anyone        Ignored  Inline(server_info::alive);
    "GET"    "/cluster/node-info"                      ValidUser     Ignored  Inline(cluster_nodes::node_info);
    "GET"    "/cluster/topology"                       ValidUser     Ignored  Inline(cluster_nodes::topology);
    "POST"   "/cluster/raft"                           ClusterAdmin  Whole    Waiting(cluster_nodes::raft);
    "POST"   "/admin/console"                          ClusterAdmin  Whole    Waiting(admin_console::run);
    "POST"   "/admin/cluster/bootstrap"                ClusterAdmin  Ignored  Inline(cluster_nodes::bootstrap);
    "PUT"    "/admin/cluster/node"                     ClusterAdmin  Ignored  Waiting(cluster_nodes::add);
    "DELETE" "/admin/cluster/node"                     ClusterAdmin  Ignored  Waiting(cluster_nodes::remove);
    "GET"    "/admin/cluster/log"                      ClusterAdmin  Ignored  Inline(cluster_debug::log);
    "GET"    "/admin/cluster/log/entry"                ClusterAdmin  Ignored  Inline(cluster_debug::log_entry);
    "GET"    "/admin/cluster/maintenance-stats"        ClusterAdmin  Ignored  Waiting(cluster_debug::maintenance);
    "GET"    "/admin/cluster/observer/decisions"       Operator      Ignored  Inline(cluster_debug::decisions);
    "POST"   "/admin/cluster/observer/suspend"         Operator      Ignored  Inline(cluster_debug::suspend);
    "POST"   "/admin/cluster/reelect"                  ClusterAdmin  Ignored  Waiting(cluster_debug::reelect);
    "POST"   "/admin/cluster/timeout"                  ClusterAdmin  Ignored  Inline(cluster_debug::timeout);
    "GET"    "/admin/debug/node/clear-http-clients-pool" Operator    Ignored  Inline(cluster_debug::clear_clients);
    "GET"    "/admin/debug/node/engine-logs"           Operator      Ignored  Inline(cluster_debug::engine_logs);
    "GET"    "/admin/debug/node/ping"                  Operator      Ignored  Waiting(cluster_debug::ping);
    "GET"    "/admin/debug/node/remote-connections"    Operator      Ignored  Inline(cluster_debug::remote_connections);
    "GET"    "/admin/debug/node/state-change-history"  Operator      Ignored  Inline(cluster_debug::state_history);
    "GET"    "/databases/*/admin/debug/cluster/txinfo" DatabaseAdmin Ignored  Inline(cluster_debug::pending_transactions);
    "POST"   "/admin/databases/dynamic-node-distribution" Operator   Ignored  Waiting(database_administration::set_dynamic_nodes);
    "POST"   "/admin/cluster/promote"                  ClusterAdmin  Ignored  Waiting(cluster_nodes::promote);
    "POST"   "/admin/cluster/demote"                   ClusterAdmin  Ignored  Waiting(cluster_nodes::demote);
    "GET"    "/topology"                               ValidUser     Ignored  Inline(databases::topology);
    "GET"    "/info/tcp"                               ValidUser     Ignored  Inline(server_info::tcp_info);
    "GET"    "/info/remote-task/tcp"                   ValidUser     Ignored  Inline(server_info::tcp_info);
    "GET"    "/debug/server-id"                        ValidUser     Ignored  Inline(debug::server_id);
    "GET"    "/debug/is-loaded"                        ValidUser     Ignored  Inline(databases::is_loaded);
    "GET"    "/operations/state"                       Operator      Ignored  Inline(operations::server_state);
    "GET"    "/admin/operations/next-operation-id"     Operator      Ignored  Inline(operations::next_server_id);
    "POST"   "/admin/operations/kill"                  Operator      Ignored  Inline(operations::kill_of_server);
    "GET"    "/admin/debug/memory/stats"               Operator      Ignored  Inline(memory::stats);
    "GET"    "/admin/debug/memory/low-mem-log"         Operator      Ignored  Inline(memory::changes);
    "GET"    "/admin/logs/configuration"               Operator      Ignored  Inline(logs::configuration);
    "POST"   "/admin/logs/configuration"               Operator      Whole    Inline(logs::set_configuration);
    "GET"    "/admin/logs/download"                    Operator      Ignored  Inline(log_download::download);
    "GET"    "/admin/logs/watch"                       Operator      Ignored  WebSocket(logs::watch);
    "GET"    "/configuration/client"                   ValidUser     Ignored  Inline(configuration::of_server);
    "PUT"    "/admin/configuration/client"             Operator      Whole    Waiting(configuration::put_of_server);

    "GET"    "/server/notification-center/watch"       Operator      Ignored  WebSocket(notification_center::watch_server);
    "POST"   "/server/notification-center/dismiss"     Operator      Ignored  Inline(notification_center::dismiss_of_server);
    "POST"   "/server/notification-center/postpone"    Operator      Ignored  Inline(notification_center::postpone_of_server);
    "GET"    "/cluster-dashboard/watch"                Operator      Ignored  WebSocket(dashboards::watch_cluster);
    "GET"    "/server-dashboard/watch"                 Operator      Ignored  WebSocket(dashboards::watch_server);
    "GET"    "/admin/stats"                            Operator      Ignored  Inline(server_load::statistics);
    "GET"    "/admin/traffic-watch"                    Operator      Ignored  WebSocket(server_load::watch_traffic);
    "GET"    "/admin/metrics"                          Operator      Ignored  Inline(metrics::of_server);
    "GET"    "/admin/monitoring/v1/server"             Operator      Ignored  Blocking(monitoring::server);
    "GET"    "/admin/monitoring/v1/databases"          Operator      Ignored  Blocking(monitoring::databases);
    "GET"    "/admin/monitoring/v1/indexes"            Operator      Ignored  Blocking(monitoring::indexes);
    "GET"    "/admin/monitoring/v1/collections"        Operator      Ignored  Blocking(monitoring::collections);
    "GET"    "/admin/monitoring/v1/prometheus"         Operator      Ignored  Blocking(monitoring::prometheus);
    "GET"    "/admin/traffic-watch/configuration"      Operator      Ignored  Inline(server_load::traffic_configuration);
    "POST"   "/admin/traffic-watch/configuration"      Operator      Whole    Inline(server_load::configure_traffic);
    "GET"    "/admin/debug/cpu/stats"                  Operator      Ignored  Inline(server_load::processor);
    "GET"    "/admin/configuration/settings"           Operator      Ignored  Inline(settings_views::of_server);
    "GET"    "/configuration/studio"                   ValidUser     Ignored  Inline(studio_configuration::of_server);
    "PUT"    "/admin/configuration/studio"             Operator      Whole    Waiting(studio_configuration::put_of_server);
    "GET"    "/certificates/whoami"                    ValidUser     Ignored  Inline(certificates::who_am_i);
    "GET"    "/admin/certificates"                     Operator      Ignored  Inline(certificates::list);
    "POST"   "/admin/certificates"                     Operator      Whole    Waiting(certificates::generate);
    "PUT"    "/admin/certificates"                     Operator      Whole    Waiting(certificates::put);
    "DELETE" "/admin/certificates"                     Operator      Ignored  Waiting(certificates::delete);
    "POST"   "/admin/certificates/edit"                Operator      Whole    Waiting(certificates::edit);
    "POST"   "/admin/certificates/refresh"             ClusterAdmin  Ignored  Waiting(certificates::refresh);
    "POST"   "/admin/certificates/replace-cluster-cert"  ClusterAdmin  Whole  Waiting(certificates::replace_server);
    "GET"    "/admin/certificates/mode"                ClusterAdmin  Ignored  Inline(certificates::mode);
    "GET"    "/admin/certificates/cluster-domains"     ClusterAdmin  Ignored  Inline(certificates::cluster_domains);
    "GET"    "/admin/certificates/replacement/status"  ClusterAdmin  Ignored  Inline(certificates::replacement_status);
    "GET"    "/admin/api-keys"                         Operator      Ignored  Blocking(api_keys::list);
    "POST"   "/admin/api-keys"                         Operator      Whole    Waiting(api_keys::generate);
    "DELETE" "/admin/api-keys"                         Operator      Ignored  Waiting(api_keys::delete);
    "POST"   "/admin/api-keys/edit"                    Operator      Whole    Waiting(api_keys::edit);
    "GET"    "/secrets/generate"                       ValidUser     Ignored  Inline(security::generate);
    "GET"    "/admin/secrets/generate"                 Operator      Ignored  Inline(security::generate);
    "GET"    "/admin/secrets"                          Operator      Ignored  Blocking(security::names);
    "POST"   "/admin/secrets"                          Operator      Whole    Waiting(security::put);
    "POST"   "/admin/secrets/distribute"               Operator      Whole    Waiting(security::distribute);
    "POST"   "/admin/secrets/rotate"                   Operator      Whole    Waiting(security::rotate);
    "GET"    "/debug/routes"                           ValidUser     Ignored  Inline(debug::routes);
    "GET"    "/studio-tasks/bootstrap"                 ValidUser     Ignored  Inline(studio_tasks::bootstrap);
    "GET"    "/studio-tasks/databases"                 ValidUser     Ignored  Inline(studio_tasks::databases);
    "GET"    "/studio-tasks/databases/state"           ValidUser     Ignored  Blocking(studio_tasks::database_states);
    "GET"    "/studio-tasks/is-valid-name"             ValidUser     Ignored  Inline(studio_tasks::is_valid_name);
    "GET"    "/studio-tasks/next-cron-expression-occurrence" ValidUser Ignored Inline(studio_tasks::next_occurrence);
    "GET"    "/admin/studio-tasks/full-data-directory" Operator      Ignored  Blocking(studio_tasks::full_data_directory);
    "POST"   "/admin/studio-tasks/folder-path-options" Operator      Ignored  Blocking(studio_tasks::folder_options);

    "GET"    "/databases"                              ValidUser     Ignored  Inline(databases::list);
    "GET"    "/admin/databases"                        Operator      Ignored  Inline(databases::get);
    "PUT"    "/admin/databases"                        Operator      Whole    Waiting(databases::put);
    "DELETE" "/admin/databases"                        Operator      Whole    Waiting(databases::delete);
    "POST"   "/admin/databases/leave"                  Operator      Ignored  Waiting(databases::leave);
    "POST"   "/admin/databases/enable"                 Operator      Whole    Waiting(databases::enable);
    "POST"   "/admin/databases/disable"                Operator      Whole    Waiting(databases::disable);
    "POST"   "/admin/databases/set-lock"               Operator      Whole    Waiting(database_administration::set_lock);
    "POST"   "/admin/databases/reorder"                Operator      Whole    Waiting(database_administration::reorder);
    "POST"   "/admin/databases/promote"                Operator      Ignored  Waiting(database_administration::promote);
    "PUT"    "/admin/databases/node"                   Operator      Ignored  Waiting(database_administration::add_node);
    "POST"   "/admin/compact"                          Operator      Whole    Waiting(compaction::compact);
    "GET"    "/admin/remote-server/build/version"      Operator      Ignored  Waiting(migration::remote_server);
    "POST"   "/admin/restore/points"                   Operator      Whole    Waiting(backups::restore_points);
    "POST"   "/admin/restore/database"                 Operator      Whole    Waiting(backups::restore);
    "GET"    "/periodic-backup"                        ValidUser     Ignored  Inline(backups::task);
    "GET"    "/periodic-backup/status"                 ValidUser     Ignored  Inline(backups::status);
    "GET"    "/admin/configuration/server-wide"        Operator      Ignored  Inline(backups::limits);
    "PUT"    "/admin/configuration/server-wide/backup" ClusterAdmin  Whole    Waiting(server_wide_backups::put);
    "GET"    "/admin/configuration/server-wide/backup" ClusterAdmin  Ignored  Inline(server_wide_backups::list);
    "DELETE" "/admin/configuration/server-wide/backup" ClusterAdmin  Ignored  Waiting(server_wide_backups::delete);
    "PUT"    "/admin/configuration/server-wide/external-replication" ClusterAdmin Whole Waiting(server_wide_replication::put);
    "GET"    "/admin/configuration/server-wide/tasks"  ClusterAdmin  Ignored  Inline(server_wide_tasks::definitions);
    "POST"   "/admin/configuration/server-wide/state"  ClusterAdmin  Ignored  Waiting(server_wide_tasks::set_state);
    "DELETE" "/admin/configuration/server-wide/task"   ClusterAdmin  Ignored  Waiting(server_wide_tasks::delete);
    "GET"    "/admin/server-wide/tasks"                ClusterAdmin  Ignored  Inline(server_wide_tasks::list);
    "POST"   "/databases/*/admin/backup"               DatabaseAdmin Whole    Waiting(backups::back_up_once);
    "POST"   "/databases/*/admin/backup/database"      DatabaseAdmin Ignored  Waiting(backups::run_task);
    "POST"   "/databases/*/admin/periodic-backup"      DatabaseAdmin Whole    Waiting(backups::put_task);
    "GET"    "/databases/*/admin/periodic-backup/config" DatabaseAdmin Ignored Inline(backups::limits);
    "GET"    "/databases/*/admin/configuration/settings" DatabaseAdmin Ignored Inline(settings_views::of_database);
    "PUT"    "/databases/*/admin/configuration/settings" DatabaseAdmin Whole  Waiting(database_administration::put_settings);
    "GET"    "/databases/*/documents-compression/config" DatabaseAdmin Ignored Inline(documents_compression::configuration);
    "POST"   "/databases/*/admin/documents-compression/config" DatabaseAdmin Whole Waiting(documents_compression::configure);
    "GET"    "/databases/*/admin/connection-strings"   DatabaseAdmin Ignored  Inline(connection_strings::list);
    "PUT"    "/databases/*/admin/connection-strings"   Operator      Whole    Waiting(connection_strings::put);
    "DELETE" "/databases/*/admin/connection-strings"   DatabaseAdmin Ignored  Waiting(connection_strings::delete);
    "POST"   "/admin/test-connection"                  Operator      Ignored  Waiting(connection_strings::test);
    "PUT"    "/databases/*/admin/etl"                  Operator      Whole    Waiting(etl::put);
    "RESET"  "/databases/*/admin/etl"                  DatabaseAdmin Ignored  Waiting(etl::reset);
    "POST"   "/databases/*/admin/etl/raven/test"       DatabaseAdmin Whole    Waiting(etl::test);
    "GET"    "/databases/*/etl/stats"                  Read          Ignored  Inline(etl::stats);
    "GET"    "/databases/*/etl/debug/stats"            Read          Ignored  Inline(etl::debug_stats);
    "GET"    "/databases/*/etl/performance"            Read          Ignored  Inline(etl::performance);
    "GET"    "/databases/*/etl/progress"               Read          Ignored  Blocking(etl::progress);
    "GET"    "/databases/*/tasks"                      Read          Ignored  Inline(ongoing_tasks::list);
    "GET"    "/databases/*/admin/record"               DatabaseAdmin Ignored  Inline(databases::record);
    "GET"    "/databases/*/info/tcp"                   Read          Ignored  Inline(server_info::tcp_info);
    "GET"    "/databases/*/healthcheck"                Read          Ignored  Inline(server_info::health_check);
    "GET"    "/databases/*/debug/storage/compression-dictionaries" DatabaseAdmin Ignored Inline(documents_compression::dictionaries);
    "GET"    "/databases/*/configuration/client"       Read          Ignored  Inline(configuration::of_database);
    "PUT"    "/databases/*/admin/configuration/client" DatabaseAdmin Whole    Waiting(configuration::put_of_database);

    "GET"    "/databases/*/configuration/studio"       Read          Ignored  Inline(studio_configuration::of_database);
    "PUT"    "/databases/*/admin/configuration/studio" DatabaseAdmin Whole    Waiting(studio_configuration::put_of_database);
    "POST"   "/databases/*/admin/studio-tasks/folder-path-options" Operator Ignored Blocking(studio_tasks::folder_options);
    "GET"    "/databases/*/studio-tasks/indexes/configuration/defaults" Read Ignored Inline(studio_tasks::index_defaults);
    "GET"    "/databases/*/studio/collections/preview" Read          Ignored  Blocking(collection_views::preview);
    "GET"    "/databases/*/studio/collections/fields"  Read          Ignored  Blocking(collection_views::fields);
    "DELETE" "/databases/*/studio/collections/docs"    Write         Whole    Waiting(collection_views::delete);
    "GET"    "/databases/*/metrics"                    Read          Ignored  Inline(metrics::of_database);
    "GET"    "/databases/*/metrics/puts"               Read          Ignored  Inline(metrics::puts);
    "GET"    "/databases/*/metrics/bytes"              Read          Ignored  Inline(metrics::bytes);
    "GET"    "/databases/*/studio/footer/stats"        Read          Ignored  Inline(studio_statistics::footer);
    "GET"    "/databases/*/studio/indexes/errors-count" Read         Ignored  Inline(studio_statistics::index_errors);
    "GET"    "/databases/*/studio/revisions/ids"       Read          Ignored  Blocking(studio_statistics::revised_ids);
    "GET"    "/databases/*/studio/revisions/preview"   Read          Ignored  Blocking(studio_statistics::revisions);

    "GET"    "/databases/*/docs"                       Read          Ignored  Inline(documents::get);
    "POST"   "/databases/*/docs"                       Read          Whole    Inline(documents::post);
    "HEAD"   "/databases/*/docs"                       Read          Ignored  Inline(documents::head);
    "PUT"    "/databases/*/docs"                       Write         Whole    Waiting(documents::put);
    "DELETE" "/databases/*/docs"                       Write         Ignored  Waiting(documents::delete);
    "PATCH"  "/databases/*/docs"                       Write         Whole    Waiting(patch::patch);
    "PATCH"  "/databases/*/json-patch"                 Write         Whole    Waiting(patch::json_patch);
    "GET"    "/databases/*/docs/size"                  Read          Ignored  Inline(documents::size);
    "POST"   "/databases/*/bulk_docs"                  Write         WholeOrParts Waiting(bulk_docs::bulk_docs);
    "POST"   "/databases/*/bulk_insert"                Write         Streamed Waiting(bulk_insert::bulk_insert);
    "GET"    "/databases/*/attachments"                Read          Ignored  Inline(attachments::get);
    "POST"   "/databases/*/attachments"                Read          Whole    Inline(attachments::post);
    "HEAD"   "/databases/*/attachments"                Read          Ignored  Inline(attachments::head);
    "PUT"    "/databases/*/attachments"                Write         Streamed Waiting(attachments::put);
    "DELETE" "/databases/*/attachments"                Write         Ignored  Waiting(attachments::delete);
    "POST"   "/databases/*/attachments/bulk"           Read          Whole    Inline(attachments::many);
    "GET"    "/databases/*/debug/attachments/hash"     Read          Ignored  Blocking(attachments::hash);
    "GET"    "/databases/*/debug/attachments/metadata" Read          Ignored  Blocking(attachments::metadata);
    "GET"    "/databases/*/timeseries"                 Read          Ignored  Waiting(time_series::get);
    "POST"   "/databases/*/timeseries"                 Write         Whole    Waiting(time_series::post);
    "GET"    "/databases/*/timeseries/ranges"          Read          Ignored  Waiting(time_series::ranges);
    "GET"    "/databases/*/timeseries/config"          Read          Ignored  Inline(time_series_policies::configuration);
    "POST"   "/databases/*/admin/timeseries/config"    DatabaseAdmin Whole    Waiting(time_series_policies::configure);
    "PUT"    "/databases/*/admin/timeseries/policy"    DatabaseAdmin Whole    Waiting(time_series_policies::put_policy);
    "DELETE" "/databases/*/admin/timeseries/policy"    DatabaseAdmin Ignored  Waiting(time_series_policies::delete_policy);
    "POST"   "/databases/*/timeseries/names/config"    Read          Whole    Waiting(time_series_policies::name_values);
    "GET"    "/databases/*/timeseries/stats"           Read          Ignored  Inline(time_series::stats);
    "POST"   "/databases/*/multi_get"                  Read          Whole    Waiting(multi_get::multi_get);

    "GET"    "/databases/*/changes"                    Read          Ignored  WebSocket(changes::connect);
    "GET"    "/databases/*/tail"                       Read          Ignored  Endless(tail::tail);
    "DELETE" "/databases/*/changes"                    Read          Ignored  Inline(changes::disconnect);
    "GET"    "/databases/*/changes/debug"              Read          Ignored  Inline(changes::connections);

    "GET"    "/databases/*/queries"                    Read          Ignored  Waiting(queries::query);
    "POST"   "/databases/*/queries"                    Read          Whole    Waiting(queries::query);
    "DELETE" "/databases/*/queries"                    Write         Whole    Waiting(delete_by_query::delete);
    "PATCH"  "/databases/*/queries"                    Write         Whole    Waiting(patch_by_query::patch);
    "PATCH"  "/databases/*/queries/test"               Write         Whole    Waiting(patch_by_query::test);
    "POST"   "/databases/*/smuggler/export"            Read          Whole    Waiting(smuggler::export);
    "POST"   "/databases/*/smuggler/import"            Write         Streamed Waiting(smuggler::import);
    "POST"   "/databases/*/smuggler/import/csv"        Write         Streamed Waiting(smuggler::import_csv);
    "POST"   "/databases/*/smuggler/import/jsonl"      Write         Streamed Waiting(smuggler::import_lines);
    "POST"   "/databases/*/admin/smuggler/migrate/ravendb" Operator   Whole    Waiting(migration::migrate);
    "POST"   "/databases/*/smuggler/validate-options"  Read          Whole    Inline(smuggler::validate_options);
    "GET"    "/databases/*/streams/docs"               Read          Ignored  Inline(streams::documents);
    "GET"    "/databases/*/streams/timeseries"         Read          Ignored  Inline(time_series::stream);
    "GET"    "/databases/*/streams/queries"            Read          Ignored  Waiting(queries::stream);
    "HEAD"   "/databases/*/streams/queries"            Read          Ignored  Waiting(queries::stream);
    "POST"   "/databases/*/streams/queries"            Read          Whole    Waiting(queries::stream);

    "GET"    "/databases/*/indexes"                    Read          Ignored  Inline(indexes::list);
    "PUT"    "/databases/*/indexes"                    Write         Whole    Waiting(index_changes::put_javascript);
    "PUT"    "/databases/*/admin/indexes"              DatabaseAdmin Whole    Waiting(index_changes::put);
    "DELETE" "/databases/*/indexes"                    Write         Ignored  Waiting(index_changes::delete);
    "RESET"  "/databases/*/indexes"                    Write         Ignored  Waiting(index_changes::reset);
    "GET"    "/databases/*/indexes/stats"              Read          Ignored  Inline(indexes::stats);
    "GET"    "/databases/*/indexes/errors"             Read          Ignored  Inline(indexes::errors);
    "DELETE" "/databases/*/indexes/errors"             Write         Ignored  Waiting(index_changes::clear_errors);
    "GET"    "/databases/*/indexes/status"             Read          Ignored  Inline(indexes::status);
    "GET"    "/databases/*/indexes/staleness"          Read          Ignored  Inline(index_progress::staleness);
    "GET"    "/databases/*/indexes/terms"              Read          Ignored  Inline(index_terms::terms);
    "GET"    "/databases/*/indexes/progress"           Read          Ignored  Inline(index_progress::progress);
    "GET"    "/databases/*/indexes/performance"        Read          Ignored  Inline(index_performance::performance);
    "GET"    "/databases/*/indexes/total-time"         Read          Ignored  Inline(index_performance::total_time);
    "GET"    "/databases/*/indexes/performance/live"   Read          Ignored  WebSocket(index_performance::live);
    "GET"    "/databases/*/indexes/source"             Read          Ignored  Inline(index_debug::source);
    "GET"    "/databases/*/indexes/c-sharp-index-definition" Read    Ignored  Inline(index_debug::class);
    "GET"    "/databases/*/indexes/debug"              Read          Ignored  Blocking(index_debug::debug);
    "GET"    "/databases/*/indexes/debug/metadata"     Read          Ignored  Inline(index_debug::metadata);
    "GET"    "/databases/*/indexes/suggest-index-merge" Read         Ignored  Inline(index_merging::suggestions);
    "POST"   "/databases/*/studio/sample-data"         Write         Ignored  Waiting(sample_data::create);
    "GET"    "/databases/*/studio/sample-data/classes" Read          Ignored  Inline(sample_data::classes);
    "POST"   "/databases/*/indexes/try"                Read          Whole    Waiting(index_trials::try_out);
    "POST"   "/databases/*/indexes/test"               Read          Whole    Waiting(index_tests::test);
    "POST"   "/databases/*/studio/index-type"          Read          Whole    Blocking(index_trials::kind);
    "POST"   "/databases/*/studio/index-fields"        Read          Whole    Blocking(index_trials::fields);
    "POST"   "/databases/*/index/open-faulty-index"    Write         Ignored  Waiting(index_repair::open_faulty);
    "POST"   "/databases/*/admin/indexes/optimize"     DatabaseAdmin Ignored  Inline(index_repair::optimize);
    "POST"   "/databases/*/indexes/has-changed"        Read          Whole    Blocking(index_changes::has_changed);
    "POST"   "/databases/*/indexes/replace"            Write         Ignored  Waiting(index_changes::replace);
    "GET"    "/databases/*/indexes/history"            Read          Ignored  Inline(index_changes::history);
    "POST"   "/databases/*/indexes/set-lock"           Write         Whole    Waiting(index_changes::set_lock);
    "POST"   "/databases/*/indexes/set-priority"       Write         Whole    Waiting(index_changes::set_priority);
    "POST"   "/databases/*/admin/indexes/stop"         DatabaseAdmin Ignored  Inline(index_changes::pause);
    "POST"   "/databases/*/admin/indexes/start"        DatabaseAdmin Ignored  Inline(index_changes::resume);
    "POST"   "/databases/*/admin/indexes/enable"       DatabaseAdmin Ignored  Waiting(index_changes::enable);
    "POST"   "/databases/*/admin/indexes/disable"      DatabaseAdmin Ignored  Waiting(index_changes::disable);

    "GET"    "/databases/*/analyzers"                  Read          Ignored  Inline(custom_code::analyzers);
    "PUT"    "/databases/*/admin/analyzers"            DatabaseAdmin Whole    Inline(custom_code::put_analyzers);
    "DELETE" "/databases/*/admin/analyzers"            DatabaseAdmin Ignored  Inline(custom_code::delete);
    "GET"    "/databases/*/sorters"                    Read          Ignored  Inline(custom_code::sorters);
    "PUT"    "/databases/*/admin/sorters"              DatabaseAdmin Whole    Inline(custom_code::put_sorters);
    "DELETE" "/databases/*/admin/sorters"              DatabaseAdmin Ignored  Inline(custom_code::delete);
    "GET"    "/analyzers"                              ValidUser     Ignored  Inline(custom_code::analyzers);
    "PUT"    "/admin/analyzers"                        Operator      Whole    Inline(custom_code::put_analyzers);
    "DELETE" "/admin/analyzers"                        Operator      Ignored  Inline(custom_code::delete);
    "GET"    "/sorters"                                ValidUser     Ignored  Inline(custom_code::sorters);
    "PUT"    "/admin/sorters"                          Operator      Whole    Inline(custom_code::put_sorters);
    "DELETE" "/admin/sorters"                          Operator      Ignored  Inline(custom_code::delete);
    "GET"    "/databases/*/revisions"                  Read          Ignored  Waiting(revisions::list);
    "GET"    "/databases/*/revisions/count"            Read          Ignored  Inline(revisions::count);
    "GET"    "/databases/*/revisions/size"             Read          Ignored  Inline(revisions::size);
    "GET"    "/databases/*/revisions/bin"              Read          Ignored  Blocking(revisions::bin);
    "GET"    "/databases/*/revisions/difference"       Read          Ignored  Blocking(revisions::difference);
    "GET"    "/databases/*/revisions/resolved"         Read          Ignored  Blocking(revisions::resolved);
    "GET"    "/databases/*/debug/documents/huge"       Read          Ignored  Inline(documents::huge);
    "GET"    "/databases/*/debug/documents/get-revisions" Read       Ignored  Blocking(revisions::log);
    "GET"    "/databases/*/revisions/config"           Read          Ignored  Inline(revision_changes::configuration);
    "POST"   "/databases/*/admin/revisions/config"     DatabaseAdmin Whole    Waiting(revision_changes::configure);
    "GET"    "/databases/*/revisions/conflicts/config" Read          Ignored  Inline(revision_changes::of_conflicts);
    "POST"   "/databases/*/admin/revisions/conflicts/config" DatabaseAdmin Whole Waiting(revision_changes::configure_conflicts);
    "POST"   "/databases/*/admin/revisions/config/enforce" DatabaseAdmin Whole Inline(revision_changes::enforce);
    "POST"   "/databases/*/revisions/revert/docs"      Write         Whole    Waiting(chosen_revisions::revert);
    "POST"   "/databases/*/revisions/revert"           Write         Whole    Inline(revision_changes::revert);
    "GET"    "/databases/*/expiration/config"          Read          Ignored  Inline(retention::expiration);
    "POST"   "/databases/*/admin/expiration/config"    DatabaseAdmin Whole    Waiting(retention::configure_expiration);
    "GET"    "/databases/*/refresh/config"             Read          Ignored  Inline(retention::refresh);
    "POST"   "/databases/*/admin/refresh/config"       DatabaseAdmin Whole    Waiting(retention::configure_refresh);
    "GET"    "/databases/*/data-archival/config"       Read          Ignored  Inline(retention::archival);
    "POST"   "/databases/*/admin/data-archival/config" DatabaseAdmin Whole    Waiting(retention::configure_archival);
    "GET"    "/databases/*/replication/conflicts"      Read          Ignored  Blocking(conflicts::list);
    "POST"   "/admin/replication/conflicts/solver"     Operator      Whole    Waiting(conflicts::configure);
    "GET"    "/databases/*/studio-tasks/suggest-conflict-resolution" Read     Ignored Blocking(conflicts::suggest);
    "GET"    "/databases/*/replication/conflicts/solver" Read        Ignored  Inline(conflicts::solver);
    "GET"    "/databases/*/replication/active-connections" Read      Ignored  Inline(replication::active_connections);
    "GET"    "/databases/*/replication/performance"    Read          Ignored  Inline(replication::performance);
    "GET"    "/databases/*/replication/tombstones"     Read          Ignored  Blocking(replication::tombstones);
    "POST"   "/databases/*/replication/messages"       Write         Whole    Waiting(replication::receive);
    "GET"    "/databases/*/replication/debug/incoming-last-activity-time" Read Ignored Inline(replication::incoming_activity);
    "GET"    "/databases/*/replication/debug/incoming-rejection-info" Read Ignored Inline(replication::incoming_rejections);
    "GET"    "/databases/*/replication/debug/outgoing-failures" Read Ignored  Inline(replication::outgoing_failures);
    "GET"    "/databases/*/replication/debug/outgoing-reconnect-queue" Read Ignored Inline(replication::reconnect_queue);
    "POST"   "/databases/*/admin/tasks/external-replication" Operator Whole   Waiting(replication::put_external);
    "POST"   "/databases/*/replication/hub"            Sink          Whole    Waiting(pull_replication::sink_message);
    "PUT"    "/databases/*/admin/tasks/pull-replication/hub" DatabaseAdmin Whole Waiting(pull_replication::put_hub);
    "GET"    "/databases/*/tasks/pull-replication/hub" Read          Ignored  Inline(pull_replication::hub);
    "PUT"    "/databases/*/admin/tasks/pull-replication/hub/access" DatabaseAdmin Whole Waiting(pull_replication::register_access);
    "DELETE" "/databases/*/admin/tasks/pull-replication/hub/access" DatabaseAdmin Ignored Blocking(pull_replication::unregister_access);
    "GET"    "/databases/*/admin/tasks/pull-replication/hub/access" DatabaseAdmin Ignored Inline(pull_replication::accesses);
    "POST"   "/databases/*/admin/pull-replication/generate-certificate" DatabaseAdmin Ignored Waiting(pull_replication::generate_certificate);
    "POST"   "/databases/*/admin/tasks/sink-pull-replication" Operator Whole  Waiting(pull_replication::put_sink);
    "POST"   "/databases/*/admin/tombstones/cleanup"   DatabaseAdmin Ignored  Blocking(tombstones::clean);
    "GET"    "/databases/*/admin/tombstones/state"     DatabaseAdmin Ignored  Blocking(tombstones::state);
    "DELETE" "/databases/*/admin/revisions"            DatabaseAdmin Whole    Waiting(chosen_revisions::delete);

    "GET"    "/databases/*/counters"                   Read          Ignored  Inline(counters::get);
    "POST"   "/databases/*/counters"                   Write         Whole    Waiting(counters::post);

    "POST"   "/databases/*/snapshots"                  Read          Ignored  Inline(snapshots::open);
    "DELETE" "/databases/*/snapshots"                  Read          Ignored  Inline(snapshots::release);

    "GET"    "/databases/*/hilo/next"                  Write         Ignored  Waiting(hilo::next);
    "PUT"    "/databases/*/hilo/return"                Write         Ignored  Waiting(hilo::give_back);
    "GET"    "/databases/*/cmpxchg"                    Read          Ignored  Waiting(compare_exchange::get);
    "PUT"    "/databases/*/cmpxchg"                    Write         Whole    Waiting(compare_exchange::put);
    "DELETE" "/databases/*/cmpxchg"                    Write         Ignored  Waiting(compare_exchange::delete);

    "POST"   "/databases/*/identity/next"              Write         Ignored  Waiting(identities::next);
    "POST"   "/databases/*/identity/seed"              Write         Ignored  Waiting(identities::seed);
    "GET"    "/databases/*/debug/identities"           Read          Ignored  Inline(identities::list);

    "GET"    "/databases/*/stats"                      Read          Ignored  Inline(statistics::database);
    "GET"    "/databases/*/stats/detailed"             Read          Ignored  Inline(statistics::detailed);
    "GET"    "/databases/*/stats/essential"            Read          Ignored  Inline(statistics::essential);
    "GET"    "/databases/*/collections/stats"          Read          Ignored  Inline(statistics::collections);
    "GET"    "/databases/*/collections/stats/detailed" Read          Ignored  Inline(statistics::detailed_collections);
    "GET"    "/databases/*/collections/docs"           Read          Ignored  Inline(statistics::collection_documents);
    "GET"    "/databases/*/debug/io-metrics"           DatabaseAdmin Ignored  Inline(io_metrics::all);
    "GET"    "/databases/*/debug/io-metrics/live"      DatabaseAdmin Ignored  WebSocket(io_metrics::live);
    "GET"    "/databases/*/debug/queries/running"      Read          Ignored  Inline(query_debug::running);
    "POST"   "/databases/*/debug/queries/kill"         Write         Ignored  Inline(query_debug::kill);
    "GET"    "/databases/*/notification-center/watch"  Read          Ignored  WebSocket(notification_center::watch_database);
    "GET"    "/databases/*/notification-center/stats"  Read          Ignored  Inline(notification_center::numbers);
    "POST"   "/databases/*/notification-center/dismiss" Read         Ignored  Inline(notification_center::dismiss_of_database);
    "POST"   "/databases/*/notification-center/postpone" Read        Ignored  Inline(notification_center::postpone_of_database);
    "GET"    "/databases/*/notifications"              Read          Ignored  Inline(notifications::list);
    "GET"    "/databases/*/debug/storage/report"       DatabaseAdmin Ignored  Blocking(storage_report::totals);
    "GET"    "/databases/*/debug/storage/all-environments/report" DatabaseAdmin Ignored Blocking(storage_report::all_environments);
    "GET"    "/databases/*/debug/storage/environment/report" DatabaseAdmin Ignored Blocking(storage_report::one_environment);

    "PUT"    "/databases/*/subscriptions"              Write         Whole    Blocking(subscriptions::create);
    "GET"    "/databases/*/subscriptions"              Read          Ignored  Inline(subscriptions::list);
    "DELETE" "/databases/*/subscriptions"              Write         Ignored  Blocking(subscriptions::delete);
    "POST"   "/databases/*/subscriptions/update"       Write         Whole    Blocking(subscriptions::update);
    "GET"    "/databases/*/subscriptions/state"        Read          Ignored  Inline(subscriptions::state);
    "GET"    "/databases/*/subscriptions/connection-details" Read    Ignored  Inline(subscription_workers::details);
    "POST"   "/databases/*/subscriptions/drop"         Write         Ignored  Inline(subscription_workers::drop_workers);
    "GET"    "/databases/*/subscriptions/performance/live" Read      Ignored  WebSocket(subscription_performance::live);
    "POST"   "/databases/*/subscriptions/try"          Read          Whole    Waiting(subscription_workers::try_out);
    "GET"    "/databases/*/debug/subscriptions/running" Read         Ignored  Blocking(subscription_workers::running);
    "DELETE" "/databases/*/subscription-tasks"         Write         Ignored  Blocking(ongoing_tasks::delete_subscription);
    "POST"   "/databases/*/subscription-tasks/state"   Write         Ignored  Blocking(ongoing_tasks::set_subscription_state);
    "GET"    "/databases/*/task"                       Read          Ignored  Inline(ongoing_tasks::get);
    "POST"   "/databases/*/admin/tasks/state"          DatabaseAdmin Ignored  Blocking(ongoing_tasks::set_state);
    "DELETE" "/databases/*/admin/tasks"                DatabaseAdmin Ignored  Blocking(ongoing_tasks::delete);

    "GET"    "/databases/*/operations"                 Read          Ignored  Inline(operations::list);
    "GET"    "/databases/*/operations/next-operation-id" Read        Ignored  Inline(operations::next_id);
    "GET"    "/databases/*/operations/state"           Read          Ignored  Inline(operations::state);
    "POST"   "/databases/*/operations/kill"            Write         Ignored  Inline(operations::kill);
};

/// Every route as method, path and what it requires; for the documentation
/// and for audits of what is reachable.
pub fn route_requirements() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.method, route.path, route.requirement.name()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_route_is_there_twice() {
        let mut seen = HashSet::new();
        for route in ROUTES {
            assert!(seen.insert((route.method, route.path)), "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn what_administers_needs_more_than_reading() {
        for route in ROUTES.iter().filter(|route| route.path.contains("/admin/")) {
            let is_enough = matches!(route.requirement, ClusterAdmin | Operator | DatabaseAdmin);
            assert!(is_enough, "{}", route.path);
        }
        for route in ROUTES.iter().filter(|route| route.path.starts_with("/databases/*")) {
            assert!(!matches!(route.requirement, Anyone | ValidUser), "{}", route.path);
        }
    }
}
