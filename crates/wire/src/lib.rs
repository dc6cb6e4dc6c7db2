//! The shapes of RavenDB's HTTP protocol: requests and answers, without sockets.
//!
//! This crate does not know how documents are stored or how bytes travel. Bodies that contain documents are
//! read and written token by token; small ones go through serde.
//!
//! | module | what |
//! |---|---|
//! | [`ErrorKind`], [`ProtocolError`] | status, .NET type and body of each error |
//! | [`QueryString`] | the clients' lenient query strings and .NET values |
//! | [`header_names`] | the protocol's headers |
//! | [`server_shapes`], [`database_shapes`], [`statistics_shapes`], [`index_shapes`], [`index_performance`], [`operation_state`] | answers |
//! | [`read_bulk_docs`], [`read_bulk_insert_element`], [`read_multi_get`], [`read_patch`], [`read_query`], [`read_attachments_request`], [`read_counters`] | request bodies |
//! | [`read_index_definition`], [`csharp_class_of`] | an index as defined by clients, and as a C# class |
//! | [`read_revisions_configuration`] | which revisions of documents are kept |
//! | [`read_documents_compression`] | which documents are compressed |
//! | [`read_client_configuration`] | the configuration that clients load from the server |
//! | [`read_studio_configuration`] | what the studio shows of a server or a database |
//! | [`read_retention_configuration`] | when documents expire, or are refreshed or archived |
//! | [`RecordBody`], [`sections_of`] | the record of a database: to change it, and to interpret it |
//! | [`StoredSection`], [`TimeSeriesSectionChange`] | a section of a record, valid as it is stored; a change of a part of one |
//! | [`SmugglerOptions`], [`CsvImportOptions`], [`smuggler_result`] | what an export or an import is to contain, and what it has done |
//! | [`MigrationConfiguration`] | from where a database is migrated |
//! | [`BackupConfiguration`], [`PeriodicBackup`], [`ServerWideBackup`], [`RestoreConfiguration`], [`BackupStatusShape`], [`backup_result`] | what is backed up and restored, and what was |
//! | [`ConnectionString`], [`RavenEtl`] | where tasks send documents, and which |
//! | [`changes`] | the messages of the Changes API |
//! | [`SubscriptionBody`] | subscriptions as created and changed by clients |
//! | [`tcp_shapes`], [`ObjectSplitter`] | the TCP protocol |
//! | [`HashEtag`] | the entity tag of an answer that contains several documents |

#![forbid(unsafe_code)]

mod attachments_body;
mod backup_configuration;
mod backup_status;
mod batch_command;
mod bulk_docs_body;
mod bulk_insert_element;
mod client_configuration;
mod cloud_settings;
mod command_properties;
mod conflict_solver;
mod connection_string;
mod counters_body;
mod csharp_class;
mod csv_import_options;
mod documents_compression;
mod error_body;
mod error_kind;
mod etl_configuration;
mod external_replication;
mod guid;
mod hash_etag;
mod index_definition;
mod json_body;
mod json_form;
mod migration_configuration;
mod multi_get_body;
mod node_address;
mod object_splitter;
mod patch_body;
mod pull_replication;
mod query_body;
mod query_string;
mod record_body;
mod record_sections;
mod recorded_indexes;
mod retention_configuration;
mod revisions_configuration;
mod sent_properties;
mod server_wide_backup;
mod server_wide_replication;
mod size_text;
mod smuggler_options;
mod spatial_options;
mod stored_section;
mod studio_configuration;
mod subscription_body;
mod time_series_body;
mod time_series_configuration;
mod time_series_policy;
mod time_series_section_change;

pub mod backup_result;
pub mod changes;
pub mod database_shapes;
pub mod header_names;
pub mod index_performance;
pub mod index_shapes;
pub mod operation_state;
pub mod server_shapes;
pub mod smuggler_result;
pub mod statistics_shapes;
pub mod tcp_shapes;

pub use crate::{
    attachments_body::{
        AttachmentOwner, AttachmentRequest, read_attachment_request, read_attachments_request,
    },
    backup_configuration::{
        BackupConfiguration, BackupEncryption, BackupType, PeriodicBackup, RestoreConfiguration,
        RestoreSource,
    },
    backup_status::BackupStatusShape,
    batch_command::{
        AttachmentCommand, BatchCommand, CompareExchangeChange, DocumentCommand, PatchCommand,
        TimeSeriesCommand,
    },
    bulk_docs_body::{BatchBody, read_bulk_docs},
    bulk_insert_element::{BulkInsertCommand, read_bulk_insert_element},
    client_configuration::{ClientConfiguration, read_client_configuration},
    cloud_settings::{
        CloudSecret, HIDDEN, S3Settings, hide_cloud_secrets, keep_cloud_secrets, names_cloud_server,
    },
    conflict_solver::{ConflictSolver, read_conflict_solver},
    connection_string::{ConnectionString, ConnectionStringKind, RavenConnectionString},
    counters_body::{
        CounterOperation, CounterOperationKind, CountersBody, DocumentCounters, read_counters,
    },
    csharp_class::csharp_class_of,
    csv_import_options::CsvImportOptions,
    documents_compression::read_documents_compression,
    error_body::{ConcurrencyFields, ConcurrencyViolation, ErrorFields, ProtocolError},
    error_kind::ErrorKind,
    etl_configuration::{EtlTransformation, RavenEtl},
    external_replication::ExternalReplication,
    guid::guid_text,
    hash_etag::HashEtag,
    index_definition::{
        index_definition_json, index_definition_of_text, index_definition_text,
        read_index_definition,
    },
    json_body::{read_document_body, read_ids},
    migration_configuration::MigrationConfiguration,
    multi_get_body::{InnerRequest, read_multi_get},
    node_address::{InvalidNodeAddress, NodeAddress},
    object_splitter::{NotAnObject, ObjectSplitter},
    patch_body::{MissingDocument, PatchBody, PatchDocumentBody, PatchTarget, read_patch},
    pull_replication::{HubAccess, PullReplicationHub, PullReplicationMode, PullReplicationSink},
    query_body::{QueryRequest, read_query, read_update_query},
    query_string::{QueryString, percent_decode, percent_encode},
    record_body::{RecordBody, check_record_settings},
    record_sections::sections_of,
    retention_configuration::read_retention_configuration,
    revisions_configuration::{
        default_conflict_revisions, read_conflict_revisions, read_revisions_configuration,
    },
    server_wide_backup::{ServerWideBackup, is_name_of_server_wide_backup},
    server_wide_replication::{
        ServerWideReplication, is_name_of_server_wide_replication, is_server_wide_string,
        is_server_wide_task, put_server_wide_tasks,
    },
    size_text::{SizeText, humane_size},
    smuggler_options::{SmugglerCompression, SmugglerKey, SmugglerOptions, SmugglerType},
    stored_section::{SectionKind, StoredSection, read_settings_section},
    studio_configuration::{StudioOf, read_studio_configuration, studio_environment_of_record},
    subscription_body::{SubscriptionBody, SubscriptionStart},
    time_series_body::{DeletedRange, TimeSeriesBody, TimeSeriesCopyBody, read_time_series},
    time_series_configuration::read_time_series_configuration,
    time_series_section_change::TimeSeriesSectionChange,
};
