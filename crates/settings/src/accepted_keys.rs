//! The rows of the table for keys of RavenDB (5.4 and 7.1, and a few older spellings) that Corvus
//! accepts without effect, so that existing settings files, scripts and test drivers keep working.
//!
//! Which keys are here: those that tune how RavenDB does its work, those of features that Corvus does not have
//! and that no key here switches on, and those that ask for what Corvus does anyway. A key that would change
//! what clients are answered, or promises protection or a service, may be set to what Corvus does and to nothing
//! else ([`Key::only`]), or is refused (`active_keys`): operators who set it rely on it.
//!
//! Not here: keys that Corvus reads or refuses (`active_keys`), and families accepted by their
//! prefix (`table`). Values are checked although they are not used, as RavenDB checks them. Invariant:
//! sorted by name, without duplicates, none of them in `active_keys` (tests).

use crate::key::Scope::{Database, Server};
use crate::key::{Choice, Key, Scope, ValueType};

const EXPORT_ALGORITHMS: &[Choice] = &[works("Zstd"), works("Gzip")];
const COMPRESSION_LEVELS: &[Choice] =
    &[works("Optimal"), works("Fastest"), works("NoCompression"), works("SmallestSize")];
const SNAPSHOT_ALGORITHMS: &[Choice] = &[works("Zstd"), works("Deflate")];
const LISTENER_MODES: &[Choice] = &[works("None"), works("Off"), works("ToLogFile")];
const AVAILABILITIES: &[Choice] = &[works("Stable"), works("Experimental")];
const LATENCY_HINTS: &[Choice] = &[works("Default"), works("High")];
const HTTP2_PROFILES: &[Choice] = &[works("Performance"), works("Balanced"), works("Conservative")];
const ARCHIVED: &[Choice] =
    &[works("ExcludeArchived"), works("IncludeArchived"), works("ArchivedOnly")];
const DEPLOYMENT_MODES: &[Choice] = &[works("Parallel"), works("Rolling")];
const SEARCH_ENGINES: &[Choice] = &[works("None"), works("Corax"), works("Lucene")];
const COMPLEX_FIELDS: &[Choice] = &[works("None"), works("Throw"), works("Skip")];
const STARTS_OF_FAILED: &[Choice] = &[works("Default"), works("Start"), works("ResetAndStart")];
const STARTS: &[Choice] = &[works("Default"), works("Immediate"), works("Pause"), works("Delay")];
const INPUT_TYPES: &[Choice] = &[works("Standard"), works("Buffered")];
const RESET_MODES: &[Choice] = &[works("InPlace"), works("SideBySide")];
const LOG_LEVELS: &[Choice] = &[
    works("Trace"),
    works("Debug"),
    works("Info"),
    works("Warn"),
    works("Error"),
    works("Fatal"),
    works("Off"),
];
const EXPORT_PROCESSORS: &[Choice] = &[works("Simple"), works("Batch")];
const TELEMETRY_PROTOCOLS: &[Choice] = &[works("Grpc"), works("HttpProtobuf")];
const SNMP_AUTHENTICATION: &[Choice] = &[works("SHA1"), works("MD5")];
const SNMP_PRIVACY: &[Choice] = &[works("None"), works("DES"), works("AES")];
const UPDATE_CHANNELS: &[Choice] = &[works("Stable"), works("Patch"), works("Dev")];
const TRAFFIC_MODES: &[Choice] = &[
    works("Off"),
    works("None"),
    Choice {
        name: "ToLogFile",
        unavailable: Some(
            "Corvus logs requests from when a client asks for it, POST /admin/traffic-watch/configuration, \
             until it stops. Remove the setting",
        ),
    },
];

const NO_WRITES_WITHOUT_GUARDS: &str =
    "Corvus guards the documents of cluster-wide transactions always. Remove the setting";
const COMPRESSION_IN_RECORDS: &str = "Corvus compresses documents of the databases whose records say so: POST \
     /databases/{name}/documents-compression/config. Remove the setting";
const ANALYZERS_IN_DEFINITIONS: &str = "Corvus has the same default analyzers for all indexes. Remove the setting, \
     and name analyzers in the fields of the indexes that need others";
const GRAMS: &str =
    "The NGramAnalyzer of Corvus makes terms of 2 to 6 characters. Remove the setting";
const ARCHIVED_IN_DEFINITIONS: &str = "Corvus leaves archived documents out unless a definition says otherwise. \
     Remove the setting, and set ArchivedDataProcessingBehavior in the definitions that need them";
const IN_CONFIGURATIONS: &str = "Corvus reads this from the configuration of an index only. Remove the setting, \
     and set it in each index that needs it";
const NO_ROLES: &str =
    "Clients that may put indexes may put those with JavaScript, too. Remove the setting";
const NO_POSTGRESQL: &str = "Corvus does not speak PostgreSQL's protocol. Remove the setting";
const NO_EXPORTERS: &str = "Corvus does not send its measures anywhere. Remove the setting, and read them from \
     /admin/monitoring/v1/prometheus";
const NO_TEXTS_AS_SCRIPTS: &str =
    "Scripts cannot run texts, with eval or Function. Remove the setting";
const STRICT: &str = "Scripts are always strict. Remove the setting";
const OPENS_WITHOUT_INDEX: &str = "Corvus opens a database without an index that cannot be opened, which then \
     says why. Remove the setting";

/// Keys without effect, sorted by name.
pub(crate) static ACCEPTED: &[Key] = &[
    whole("AcmeRenewalThresholdPercentage", Server),
    text("AcmeUrl", Server),
    whole("Ai.Agent.Tools.TokenUsageThreshold", Database),
    text("Ai.Agent.Trimming.Summarization.SummarizationResultPrefix", Database),
    text("Ai.Agent.Trimming.Summarization.SummarizationTaskBeginningPrompt", Database),
    text("Ai.Agent.Trimming.Summarization.SummarizationTaskEndPrompt", Database),
    whole("Ai.Embeddings.MaxBatchSize", Database),
    whole("Ai.Embeddings.MaxConcurrentBatches", Database),
    whole("Ai.Embeddings.MaxFallbackTimeInSec", Database),
    text("Backup.AllowedAwsRegions", Server),
    text("Backup.AllowedDestinations", Server),
    flag("Backup.Azure.Legacy", Server),
    whole("Backup.CloudStorageOperationTimeoutInMin", Database),
    word("Backup.Compression.Algorithm", Database, EXPORT_ALGORITHMS),
    word("Backup.Compression.Level", Database, COMPRESSION_LEVELS),
    whole("Backup.ConcurrentBackupsDelayInSec", Server),
    whole("Backup.LowMemoryBackupDelayInMin", Server),
    whole("Backup.MaxReadOpsPerSecond", Database),
    whole("Backup.MoveToNewResponsibleNodeGracePeriodInMin", Server),
    word("Backup.Snapshot.Compression.Algorithm", Database, SNAPSHOT_ALGORITHMS),
    word("Backup.Snapshot.Compression.Level", Database, COMPRESSION_LEVELS),
    text("Backup.TempPath", Database),
    whole("Cluster.CompareExchangeExpiredDeleteFrequencyInSec", Server),
    whole("Cluster.CompareExchangeTombstonesCleanupIntervalInMin", Server),
    flag("Cluster.DisableAtomicDocumentWrites", Database).only("false", NO_WRITES_WITHOUT_GUARDS),
    whole("Cluster.ElectionTimeoutInMs", Server),
    whole("Cluster.FullReportIntervalInMin", Server),
    whole("Cluster.LogHistoryMaxEntries", Server),
    whole("Cluster.MaxChangeVectorDistance", Server),
    whole("Cluster.MaxClusterTransactionBatchSize", Database),
    whole("Cluster.MaxClusterTransactionCompareExchangeTombstoneCheckIntervalInMin", Server),
    whole("Cluster.MaximalAllowedClusterVersion", Server),
    whole("Cluster.MaxSizeOfSingleRaftCommandInMb", Server),
    whole("Cluster.OnErrorDelayTimeInMs", Server),
    whole("Cluster.OperationTimeoutInSec", Server),
    whole("Cluster.ReceiveFromWorkerTimeoutInMs", Server),
    whole("Cluster.StatsStabilizationTimeInSec", Server),
    whole("Cluster.SupervisorSamplePeriodInMs", Server),
    whole("Cluster.TcpReceiveBufferSizeInBytes", Server),
    whole("Cluster.TcpSendBufferSizeInBytes", Server),
    whole("Cluster.TcpTimeoutInMs", Server),
    whole("Cluster.TimeBeforeRotatingPreferredNodeInSec", Server),
    whole("Cluster.WorkerSamplePeriodInMs", Server),
    whole("Databases.CollectionOperationTimeoutInSec", Database),
    flag("Databases.Compression.CompressAllCollectionsDefault", Server)
        .only("false", COMPRESSION_IN_RECORDS),
    flag("Databases.Compression.CompressRevisionsDefault", Server)
        .only("false", COMPRESSION_IN_RECORDS),
    whole("Databases.DeepCleanupThresholdInMin", Database),
    whole("Databases.OperationTimeoutInSec", Database),
    whole("Databases.PulseReadTransactionLimitInMb", Database),
    whole("Databases.QueryOperationTimeoutInSec", Database),
    whole("Databases.QueryTimeoutInSec", Database),
    whole("Databases.RegularCleanupThresholdInMin", Database),
    flag("DataDir.EnforcePath", Server),
    whole("Debug.EventListener.AllocationsLoggingCount", Server),
    whole("Debug.EventListener.AllocationsLoggingIntervalInMs", Server),
    text("Debug.EventListener.EventTypes", Server),
    whole("Debug.EventListener.MinimumDurationInMs", Server),
    word("Debug.EventListener.Mode", Server, LISTENER_MODES),
    whole("ETL.ExtractAndTransformTimeoutInSec", Database),
    whole("ETL.MaxBatchSizeInMb", Database),
    whole("ETL.MaxFallbackTimeInSec", Database),
    whole("ETL.MaxNumberOfExtractedDocuments", Database),
    whole("ETL.MaxNumberOfExtractedItems", Database),
    whole("ETL.OLAP.MaxNumberOfExtractedDocuments", Database),
    whole("ETL.Queue.AzureQueueStorage.TimeToLiveInSec", Database),
    whole("ETL.Queue.AzureQueueStorage.VisibilityTimeoutInSec", Database),
    whole("ETL.Queue.Kafka.InitTransactionsTimeoutInSec", Database),
    whole("ETL.SQL.CommandTimeoutInSec", Database),
    word("Export.Compression.Algorithm", Database, EXPORT_ALGORITHMS),
    word("Export.Compression.Level", Database, COMPRESSION_LEVELS),
    text("ExternalIp", Server),
    word("Features.Availability", Server, AVAILABILITIES),
    flag("Http.AllowResponseCompressionOverHttps", Server),
    flag("Http.AllowSynchronousIO", Server),
    whole("Http.Http2.InitialConnectionWindowSizeInKb", Server),
    whole("Http.Http2.InitialStreamWindowSizeInKb", Server),
    whole("Http.Http2.KeepAlivePingDelayInSec", Server),
    whole("Http.Http2.KeepAlivePingTimeoutInSec", Server),
    word("Http.Http2.LatencyHint", Server, LATENCY_HINTS),
    whole("Http.Http2.MaxFrameSizeInKb", Server),
    whole("Http.Http2.MaxStreamsPerConnection", Server),
    word("Http.Http2.Profile", Server, HTTP2_PROFILES),
    whole("Http.MaxRequestBufferSizeInKb", Server),
    text("Http.Protocols", Server),
    word("Http.StaticFilesResponseCompressionLevel", Server, COMPRESSION_LEVELS),
    flag("Indexing.AllowStringCompilation", Database).only("false", NO_TEXTS_AS_SCRIPTS),
    text("Indexing.Analyzers.Default", Database)
        .only("LowerCaseKeywordAnalyzer", ANALYZERS_IN_DEFINITIONS),
    text("Indexing.Analyzers.Exact.Default", Database)
        .only("KeywordAnalyzer", ANALYZERS_IN_DEFINITIONS),
    whole("Indexing.Analyzers.NGram.MaxGram", Database).only("6", GRAMS),
    whole("Indexing.Analyzers.NGram.MinGram", Database).only("2", GRAMS),
    text("Indexing.Analyzers.Search.Default", Database)
        .only("RavenStandardAnalyzer", ANALYZERS_IN_DEFINITIONS),
    word("Indexing.Auto.ArchivedDataProcessingBehavior", Database, ARCHIVED)
        .only("ExcludeArchived", ARCHIVED_IN_DEFINITIONS),
    word("Indexing.Auto.DeploymentMode", Database, DEPLOYMENT_MODES),
    word("Indexing.Auto.SearchEngineType", Database, SEARCH_ENGINES),
    whole("Indexing.CleanupIntervalInMin", Server),
    whole("Indexing.Corax.DocumentsLimitForCompressionDictionaryCreation", Database),
    flag("Indexing.Corax.IncludeDocumentScore", Database),
    flag("Indexing.Corax.IncludeSpatialDistance", Database),
    whole("Indexing.Corax.MaxAllocationsAtDictionaryTrainingInMb", Database),
    whole("Indexing.Corax.MaxMemoizationSizeInMb", Database),
    word("Indexing.Corax.Static.ComplexFieldIndexingBehavior", Database, COMPLEX_FIELDS),
    whole("Indexing.Corax.UnmanagedAllocationsBatchSizeLimitInMb", Database),
    number("Indexing.Corax.VectorSearch.DefaultMinimumSimilarity", Database),
    whole("Indexing.Corax.VectorSearch.DefaultNumberOfCandidatesForIndexing", Database),
    whole("Indexing.Corax.VectorSearch.DefaultNumberOfCandidatesForQuerying", Database),
    whole("Indexing.Corax.VectorSearch.DefaultNumberOfEdges", Database),
    whole("Indexing.Corax.VectorSearch.MaximumConcurrentBatchesForHnswAcceleration", Database),
    whole("Indexing.Corax.VectorSearch.MaxNumberOfThreadsForLocalEmbeddingsGeneration", Server),
    flag("Indexing.Corax.VectorSearch.OrderByScoreAutomatically", Database),
    flag("Indexing.DisableQueryOptimizerGeneratedIndexes", Database),
    whole("Indexing.ElapsedSinceQueriedPersistIntervalInMin", Database),
    whole("Indexing.Encrypted.TransactionSizeLimitInMb", Database),
    word("Indexing.ErrorIndexStartupBehavior", Database, STARTS_OF_FAILED),
    whole("Indexing.GlobalScratchSpaceLimitInMb", Server),
    whole("Indexing.History.NumberOfRevisions", Database),
    flag("Indexing.IndexEmptyEntries", Database).only("false", IN_CONFIGURATIONS),
    flag("Indexing.IndexMissingFieldsAsNull", Database).only("false", IN_CONFIGURATIONS),
    word("Indexing.IndexStartupBehavior", Database, STARTS),
    whole("Indexing.LargeSegmentSizeToMergeInMb", Database),
    whole("Indexing.Lucene.Analyzers.NGram.MaxGram", Database).only("6", GRAMS),
    whole("Indexing.Lucene.Analyzers.NGram.MinGram", Database).only("2", GRAMS),
    word("Indexing.Lucene.IndexInputType", Database, INPUT_TYPES),
    whole("Indexing.Lucene.LargeSegmentSizeToMergeInMb", Database),
    whole("Indexing.Lucene.MaximumSizePerSegmentInMb", Database),
    whole("Indexing.Lucene.MaxTimeForMergesToKeepRunningInSec", Database),
    whole("Indexing.Lucene.MergeFactor", Database),
    whole("Indexing.Lucene.NumberOfLargeSegmentsToMergeInSingleBatch", Database),
    whole("Indexing.Lucene.ReaderTermsIndexDivisor", Database),
    flag("Indexing.Lucene.UseCompoundFileInMerging", Database),
    whole("Indexing.ManagedAllocationsBatchSizeLimitInMb", Database),
    whole("Indexing.MapBatchSize", Database),
    whole("Indexing.MapTimeoutAfterEtagReachedInMin", Database),
    whole("Indexing.MapTimeoutInSec", Database),
    whole("Indexing.MaximumSizePerSegmentInMb", Database),
    whole("Indexing.MaxStepsForScript", Database),
    whole("Indexing.MaxTimeForDocumentTransactionToRemainOpenInSec", Database),
    whole("Indexing.MaxTimeForMergesToKeepRunningInSec", Database),
    whole("Indexing.MaxTimeToWaitAfterFlushAndSyncWhenExceedingScratchSpaceLimit", Server),
    whole("Indexing.MaxTimeToWaitAfterFlushAndSyncWhenExceedingScratchSpaceLimitInSec", Server),
    whole("Indexing.MaxTimeToWaitAfterFlushAndSyncWhenReplacingSideBySideIndexInSec", Database),
    whole("Indexing.MergeFactor", Database),
    flag("Indexing.Metrics.Enabled", Database),
    whole(
        "Indexing.MinimumTotalSizeOfJournalsToRunFlushAndSyncWhenReplacingSideBySideIndexInMb",
        Database,
    ),
    whole(
        "Indexing.MinNumberOfMapAttemptsAfterWhichBatchWillBeCanceledIfRunningLowOnMemory",
        Database,
    ),
    flag("Indexing.NuGet.AllowPreleasePackages", Server),
    flag("Indexing.NuGet.AllowPreReleasePackages", Server),
    text("Indexing.NuGet.PackageSourceUrl", Server),
    text("Indexing.NuGet.PackagesPath", Server),
    flag("Indexing.NuGetAllowPreleasePackages", Server),
    flag("Indexing.NuGetAllowPreReleasePackages", Server),
    text("Indexing.NuGetPackageSourceUrl", Server),
    text("Indexing.NuGetPackagesPath", Server),
    whole("Indexing.NumberOfConcurrentStoppedBatchesIfRunningLowOnMemory", Database),
    whole("Indexing.NumberOfLargeSegmentsToMergeInSingleBatch", Database),
    flag("Indexing.OrderByScoreAutomaticallyWhenBoostingIsInvolved", Database),
    flag("Indexing.OrderByTicksAutomaticallyWhenDatesAreInvolved", Database),
    flag("Indexing.QueryClauseCache.Disabled", Database),
    whole("Indexing.QueryClauseCache.ExpirationScanFrequencyInSec", Server),
    whole("Indexing.QueryClauseCache.RepeatedQueriesCount", Server),
    whole("Indexing.QueryClauseCache.RepeatedQueriesTimeFrameInSec", Database),
    whole("Indexing.QueryClauseCache.SizeInMb", Server),
    flag(
        "Indexing.Querying.UseSearchAnalyzerForDynamicFieldsIfNotSetExplicitlyInSearchQuery",
        Database,
    )
    .only("false", ANALYZERS_IN_DEFINITIONS),
    word("Indexing.ResetMode", Database, RESET_MODES),
    flag("Indexing.RunInMemory", Database),
    whole("Indexing.ScratchSpaceLimitInMb", Database),
    flag("Indexing.SkipDatabaseIdValidationOnIndexOpening", Database),
    word("Indexing.Static.ArchivedDataProcessingBehavior", Database, ARCHIVED)
        .only("ExcludeArchived", ARCHIVED_IN_DEFINITIONS),
    word("Indexing.Static.DeploymentMode", Database, DEPLOYMENT_MODES),
    flag("Indexing.Static.RequireAdminToDeployJavaScriptIndexes", Database).only("false", NO_ROLES),
    word("Indexing.Static.SearchEngineType", Database, SEARCH_ENGINES),
    text("Indexing.TempPath", Database),
    whole("Indexing.Throttling.TimeIntervalInMs", Database),
    whole("Indexing.TimeSinceLastQueryAfterWhichDeepCleanupCanBeExecutedInMin", Database),
    whole("Indexing.TransactionSizeLimitInMb", Database),
    flag("Indexing.UseCompoundFileInMerging", Database),
    flag("Integrations.PostgreSQL.Enabled", Server).only("false", NO_POSTGRESQL),
    whole("Integrations.PostgreSQL.Port", Server),
    text("LetsEncrypt.AcmeProfile", Server),
    text("License", Database).secret(),
    flag("License.CanActivate", Server),
    flag("License.CanForceUpdate", Server),
    flag("License.CanRenew", Server),
    flag("License.CanRenewLicense", Server),
    flag("License.DisableAutoUpdate", Server),
    flag("License.DisableAutoUpdateFromApi", Server),
    flag("License.DisableLicenseSupportCheck", Server),
    flag("License.Eula.Accepted", Server),
    text("License.Path", Database),
    flag("License.SkipLeasingErrorsLogging", Server),
    flag("License.ThrowOnInvalidOrMissingLicense", Server),
    whole("Logs.ArchiveAboveSizeInMb", Server),
    text("Logs.ConfigPath", Server),
    flag("Logs.EnableArchiveFileCompression", Server),
    text("Logs.FileName", Server),
    word("Logs.Internal.Level", Server, LOG_LEVELS),
    flag("Logs.Internal.LogToStandardError", Server),
    flag("Logs.Internal.LogToStandardOutput", Server),
    text("Logs.Internal.Path", Server),
    whole("Logs.MaxArchiveDays", Server),
    whole("Logs.MaxArchiveFiles", Server),
    text("Logs.Microsoft.ConfigurationPath", Server),
    flag("Logs.Microsoft.Disable", Server),
    flag("Logs.Microsoft.Enabled", Server),
    word("Logs.Microsoft.MinLevel", Server, LOG_LEVELS),
    text("Logs.NuGet.AdditionalPackages", Server),
    flag("Logs.NuGet.AllowPreReleasePackages", Server),
    text("Logs.NuGet.PackageSourceUrl", Server),
    text("Logs.NuGet.PackagesPath", Server),
    flag("Logs.ThrowConfigExceptions", Server),
    flag("Memory.EnableHighTemporaryDirtyMemoryUse", Server),
    number("Memory.GC.LargeObjectHeapCompactionThresholdPercentage", Server),
    whole("Memory.LowMemoryCommitLimitInMb", Server),
    whole("Memory.MaxContextSizeToKeepInMb", Server),
    whole("Memory.MaxFreeCommittedMemoryToKeepInMb", Server),
    number("Memory.MinimumFreeCommittedMemoryPercentage", Server),
    number("Memory.TemporaryDirtyMemoryAllowedPercentage", Server),
    whole("Memory.TemporaryDirtyMemoryChecksPeriodInSec", Server),
    flag("Memory.UseTotalDirtyMemInsteadOfMemUsage", Server),
    text("Migration.MigratorPath", Server),
    text("Monitoring.Cpu.Exec", Server),
    text("Monitoring.Cpu.Exec.Arguments", Server).secret(),
    whole("Monitoring.Disk.ReadStatsDebounceTimeInMs", Server),
    flag("Monitoring.OpenTelemetry.ConsoleExporter", Server),
    flag("Monitoring.OpenTelemetry.Enabled", Server).only("false", NO_EXPORTERS),
    flag("Monitoring.OpenTelemetry.Meters.AspNetCore.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Runtime.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.CPUCredits.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.GC.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.General.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.Requests.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.Resources.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.Storage.Enabled", Server),
    flag("Monitoring.OpenTelemetry.Meters.Server.TotalDatabases.Enabled", Server),
    flag("Monitoring.OpenTelemetry.OpenTelemetryProtocol.Enabled", Server),
    text("Monitoring.OpenTelemetry.OpenTelemetryProtocol.Endpoint", Server),
    word(
        "Monitoring.OpenTelemetry.OpenTelemetryProtocol.ExportProcessorType",
        Server,
        EXPORT_PROCESSORS,
    ),
    text("Monitoring.OpenTelemetry.OpenTelemetryProtocol.Headers", Server),
    word("Monitoring.OpenTelemetry.OpenTelemetryProtocol.Protocol", Server, TELEMETRY_PROTOCOLS),
    whole("Monitoring.OpenTelemetry.OpenTelemetryProtocol.Timeout", Server),
    text("Monitoring.OpenTelemetry.ServiceInstanceId", Server),
    text("Monitoring.Snmp.AuthenticationPassword", Server).secret(),
    text("Monitoring.Snmp.AuthenticationPassword.Secondary", Server).secret(),
    word("Monitoring.Snmp.AuthenticationProtocol", Server, SNMP_AUTHENTICATION),
    word("Monitoring.Snmp.AuthenticationProtocol.Secondary", Server, SNMP_AUTHENTICATION),
    text("Monitoring.Snmp.AuthenticationUser", Server),
    text("Monitoring.Snmp.AuthenticationUser.Secondary", Server),
    text("Monitoring.Snmp.Community", Server).secret(),
    flag("Monitoring.Snmp.DisableTimeWindowChecks", Server),
    flag("Monitoring.Snmp.Enabled", Server).only("false", NO_EXPORTERS),
    whole("Monitoring.Snmp.Port", Server),
    text("Monitoring.Snmp.PrivacyPassword", Server).secret(),
    text("Monitoring.Snmp.PrivacyPassword.Secondary", Server),
    word("Monitoring.Snmp.PrivacyProtocol", Server, SNMP_PRIVACY),
    word("Monitoring.Snmp.PrivacyProtocol.Secondary", Server, SNMP_PRIVACY),
    text("Monitoring.Snmp.SupportedVersions", Server),
    text("Notifications.FilterOut", Server),
    flag("Patching.AllowStringCompilation", Database).only("false", NO_TEXTS_AS_SCRIPTS),
    flag("Patching.StrictMode", Database).only("true", STRICT),
    flag("PerformanceHints.Indexing.AlertWhenSourceDocumentIncludedInOutput", Database),
    whole("PerformanceHints.Indexing.MaxDepthOfRecursionInLinqSelect", Database),
    whole("PerformanceHints.Indexing.MaxIndexOutputsPerDocument", Database),
    whole("PerformanceHints.Indexing.MaxNumberOfLoadsPerReference", Database),
    whole("PerformanceHints.MaxNumberOfResults", Database),
    whole("PerformanceHints.Memory.MinSwapSizeInMb", Server),
    whole("PerformanceHints.TooLongRequestThresholdInSec", Database),
    text("PublicServerUrl.Tcp.Cluster", Server),
    text("PublicServerUrl.Tcp.External", Server),
    whole("Query.MaxClauseCount", Server),
    whole("Query.RegexTimeoutInMs", Database),
    whole("QueueSink.MaxBatchSize", Database),
    whole("QueueSink.MaxFallbackTimeInSec", Database),
    whole("Replication.ActiveConnectionTimeoutInSec", Database),
    whole("Replication.MaxItemsCount", Database),
    whole("Replication.MaxNumberOfAttachmentsTrackedForDeduplication", Database),
    whole("Replication.MaxSizeToSendInMb", Database),
    whole("Replication.NumberOfEnumeratedDocumentsToCheckIfPulseLimitExceeded", Database),
    whole("Replication.ReplicationMinimalHeartbeatInSec", Database),
    whole("Replication.RetryMaxTimeoutInSec", Database),
    whole("Replication.RetryReplicateAfterInSec", Database),
    whole("Security.AuditLog.ArchiveAboveSizeInMb", Server),
    flag("Security.AuditLog.Compress", Server),
    flag("Security.AuditLog.EnableArchiveFileCompression", Server),
    text("Security.AuditLog.FileName", Server),
    whole("Security.AuditLog.MaxArchiveDays", Server),
    whole("Security.AuditLog.MaxArchiveFiles", Server),
    whole("Security.AuditLog.RetentionSizeInMb", Server),
    whole("Security.AuditLog.RetentionTimeInHours", Server),
    text("Security.Certificate.Change.Exec", Server),
    text("Security.Certificate.Change.Exec.Arguments", Server).secret(),
    text("Security.Certificate.Exec.Arguments", Server).secret(),
    whole("Security.Certificate.ExpiringThresholdInDays", Server),
    text("Security.Certificate.LetsEncrypt.Email", Server),
    text("Security.Certificate.Renew.Exec", Server),
    text("Security.Certificate.Renew.Exec.Arguments", Server).secret(),
    text("Security.Certificate.Validation.Exec", Server),
    text("Security.Certificate.Validation.Exec.Arguments", Server).secret(),
    whole("Security.Certificate.Validation.Exec.TimeoutInSec", Server),
    flag("Security.Certificate.Validation.KeyUsages", Server),
    text("Security.Csrf.AdditionalOriginHeaders", Server),
    flag("Security.Csrf.Enabled", Server),
    text("Security.Csrf.TrustedOrigins", Server),
    flag("Security.DisableHsts", Server),
    flag("Security.DisableHttpsRedirection", Server),
    flag("Security.DoNotConsiderMemoryLockFailureAsCatastrophicError", Database),
    text("Security.TlsCipherSuites", Server),
    whole("Security.TwoFactor.DefaultSessionDurationInMin", Server),
    whole("Security.TwoFactor.MaxSessionDurationInMin", Server),
    text("Security.WellKnownIssuerHashes.Admin", Server),
    text("Security.WellKnownIssuers.Admin", Server),
    flag("Security.WellKnownIssuers.Admin.ValidateCertificateNames", Server),
    flag("Server.AdminChannel.Disable", Server),
    number("Server.CpuCredits.Base", Server),
    text("Server.CpuCredits.Exec", Server),
    text("Server.CpuCredits.Exec.Arguments", Server).secret(),
    whole("Server.CpuCredits.Exec.SyncIntervalInMin", Server),
    whole("Server.CpuCredits.Exec.SyncIntervalInSec", Server),
    whole("Server.CpuCredits.Exec.TimeoutInSec", Server),
    number("Server.CpuCredits.ExhaustionBackgroundTasksThreshold", Server),
    whole("Server.CpuCredits.ExhaustionBackupDelayInMin", Server),
    number("Server.CpuCredits.ExhaustionBackupDelayThreshold", Server),
    number("Server.CpuCredits.ExhaustionFailoverThreshold", Server),
    number("Server.CpuCredits.Max", Server),
    whole("Server.IndexingAffinityMask", Server),
    flag("Server.LogsStream.Disable", Server),
    text("Server.Name", Server),
    whole("Server.NumberOfUnusedCoresByIndexes", Server),
    whole("Server.ProcessAffinityMask", Server),
    flag("Server.Tcp.Compression.Disable", Server),
    whole("Server.ThreadPool.MaxCompletionPortThreads", Server),
    whole("Server.ThreadPool.MaxWorkerThreads", Server),
    whole("Server.ThreadPool.MinCompletionPortThreads", Server),
    whole("Server.ThreadPool.MinWorkerThreads", Server),
    text("ServerUrl.Cluster", Server),
    text("Setup.Certificate.Path", Server),
    word("Sharding.Import.CompressionLevel", Database, COMPRESSION_LEVELS),
    whole("Sharding.OrchestratorTimeoutInMin", Server),
    flag("Sharding.ShardExecutor.UseHttpCompression", Server),
    flag("Sharding.ShardExecutor.UseHttpDecompression", Server),
    whole("Storage.CompressTxAboveSizeInKb", Database),
    flag("Storage.Dangerous.IgnoreInvalidJournalErrors", Server),
    flag("Storage.Dangerous.SkipChecksumValidationOnDatabaseLoading", Server),
    flag("Storage.DiscardVirtualMemory", Database),
    flag("Storage.EnablePrefetching", Server),
    flag("Storage.Encrypted.DisableBuffersPooling", Server),
    flag("Storage.ForceUsing32BitsPager", Server),
    flag("Storage.IgnoreDataIntegrityErrorsOfAlreadySyncedTransactions", Server),
    flag("Storage.IgnoreInvalidJournalErrors", Server),
    flag("Storage.IO.Metrics.Enabled", Server),
    whole("Storage.IoMetricsCleanupIntervalInHrs", Database),
    whole("Storage.MaxConcurrentFlushes", Database),
    whole("Storage.MaxNumberOfRecyclableJournals", Database),
    whole("Storage.MaxScratchBufferSizeInMb", Database),
    whole("Storage.NumberOfConcurrentSyncsPerPhysicalDrive", Server),
    text("Storage.OnCreateDirectory.Exec.Arguments", Database).secret(),
    whole("Storage.OnCreateDirectory.Exec.TimeoutInSec", Database),
    text("Storage.OnDirectoryInitialize.Exec.Arguments", Database).secret(),
    whole("Storage.OnDirectoryInitialize.Exec.TimeoutInSec", Database),
    whole("Storage.PrefetchBatchSizeInKb", Database),
    whole("Storage.PrefetchResetThresholdInGb", Database),
    whole("Storage.SyncJournalsCountThreshold", Database),
    text("Storage.TempPath", Database),
    whole("Storage.TimeToSyncAfterFlashInSec", Database),
    whole("Storage.TimeToSyncAfterFlushInSec", Database),
    whole("Storage.TransactionsModeDurationInMin", Database),
    word("Subscriptions.ArchivedDataProcessingBehavior", Database, ARCHIVED)
        .only("ExcludeArchived", ARCHIVED_IN_DEFINITIONS),
    whole("Subscriptions.MaxNumberOfConcurrentConnections", Database),
    whole("Testing.EchoSocket.Port", Server),
    flag("ThrowIfAnyIndexCannotBeOpened", Database).only("false", OPENS_WITHOUT_INDEX),
    whole("Tombstones.CleanupIntervalWithReplicationHubInMin", Database),
    whole("Tombstones.RetentionTimeWithReplicationHubInHrs", Database),
    text("TrafficWatch.CertificateThumbprints", Server),
    text("TrafficWatch.ChangeTypes", Server),
    text("TrafficWatch.Databases", Server),
    text("TrafficWatch.HttpMethods", Server),
    whole("TrafficWatch.MinimumDurationInMs", Server),
    whole("TrafficWatch.MinimumRequestSizeInBytes", Server),
    whole("TrafficWatch.MinimumResponseSizeInBytes", Server),
    word("TrafficWatch.Mode", Server, TRAFFIC_MODES),
    text("TrafficWatch.StatusCodes", Server),
    whole("TransactionMerger.MaxTimeToWaitForPreviousTxBeforeRejectingInMs", Database),
    whole("TransactionMerger.MaxTimeToWaitForPreviousTxInMs", Database),
    whole("TransactionMerger.MaxTxSizeInMb", Database),
    flag("Updates.BackgroundChecks.Disable", Server),
    word("Updates.Channel", Server, UPDATE_CHANNELS),
];

const fn works(name: &'static str) -> Choice {
    Choice { name, unavailable: None }
}

const fn text(name: &'static str, scope: Scope) -> Key {
    Key::accepted(name, scope, ValueType::Unchecked)
}

const fn flag(name: &'static str, scope: Scope) -> Key {
    Key::accepted(name, scope, ValueType::Bool)
}

const fn whole(name: &'static str, scope: Scope) -> Key {
    Key::accepted(name, scope, ValueType::WholeNumber)
}

const fn number(name: &'static str, scope: Scope) -> Key {
    Key::accepted(name, scope, ValueType::Number)
}

const fn word(name: &'static str, scope: Scope, words: &'static [Choice]) -> Key {
    Key::accepted(name, scope, ValueType::Choice(words))
}
