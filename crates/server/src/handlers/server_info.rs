//! The server.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use wire::guid_text;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, http::router::Answering};

/// Maximum delay of a response on request.
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Features that a studio looks up in a license, and that this server has without one.
const FEATURES: [&str; 11] = [
    "CanSetupDefaultRevisionsConfiguration",
    "HasClientConfiguration",
    "HasConcurrentDataSubscriptions",
    "HasDataArchival",
    "HasDocumentsCompression",
    "HasIndexCleanup",
    "HasMonitoringEndpoints",
    "HasRevisionsInSubscriptions",
    "HasStudioConfiguration",
    "HasTcpDataCompression",
    "HasTimeSeriesRollupsAndRetention",
];

/// Features that it does not have.
const MISSING_FEATURES: [&str; 35] = [
    "CanAutoRenewLetsEncryptCertificate",
    "DistributedCluster",
    "HasAdditionalAssembliesFromNuGet",
    "HasAiAgent",
    "HasCloudBackups",
    "HasDelayedExternalReplication",
    "HasDynamicNodesDistribution",
    "HasElasticSearchEtl",
    "HasEmbeddingsGeneration",
    "HasEncryptedBackups",
    "HasEncryption",
    "HasExternalReplication",
    "HasGenAi",
    "HasHighlyAvailableTasks",
    "HasMultiNodeSharding",
    "HasOlapEtl",
    "HasPeriodicBackup",
    "HasPostgreSqlIntegration",
    "HasPowerBI",
    "HasPullReplicationAsHub",
    "HasPullReplicationAsSink",
    "HasQueueEtl",
    "HasQueueSink",
    "HasRavenEtl",
    "HasReadOnlyCertificates",
    "HasServerWideAnalyzers",
    "HasServerWideBackups",
    "HasServerWideCustomSorters",
    "HasServerWideExternalReplications",
    "HasSnapshotBackups",
    "HasSnmpMonitoring",
    "HasSnowflakeEtl",
    "HasSqlEtl",
    "IsCloud",
    "IsIsv",
];

/// `GET /license/status`: there are no licenses, and nothing requires one.
pub(crate) fn license_status(call: &Call) -> Result<Answer, ApiError> {
    let mut status = json!({
        "Id": null,
        "LicensedTo": null,
        "Status": "Apache-2.0 - Open Source",
        "Expired": false,
        "Attributes": null,
        "ErrorMessage": null,
        "Type": "None",
        "Version": "-1",
        "Expiration": null,
        "SubscriptionExpiration": null,
        "MaxCores": call.state.machine.cores,
        "MaxMemory": call.state.machine.memory_gb,
        "MaxClusterSize": 1,
    });
    let there = FEATURES.iter().map(|name| (name, true));
    let missing = MISSING_FEATURES.iter().map(|name| (name, false));
    for (name, is_there) in there.chain(missing) {
        status[name] = is_there.into();
    }
    Ok(Answer::shape(StatusCode::OK, &status))
}

/// `GET /build/version`.
pub(crate) fn build_version(call: &Call) -> Result<Answer, ApiError> {
    let mut build = call.state.build();
    build.assembly_version = None;
    Ok(Answer::shape(StatusCode::OK, &build))
}

/// `GET /admin/test/delay`: responds after `value` milliseconds, at most [`DELAY_MAX`]; for testing
/// the timeouts of a client.
pub(crate) fn delay(call: Call) -> Answering {
    Box::pin(async move {
        let value = call.query().int("value")?.ok_or_else(|| {
            ApiError::argument("Query string value is mandatory, but wasn't specified.")
        })?;
        let wanted = Duration::from_millis(u64::try_from(value).unwrap_or(0));
        tokio::time::sleep(wanted.min(DELAY_MAX)).await;
        Ok(Answer::empty(StatusCode::OK))
    })
}

/// `GET /setup/alive`.
pub(crate) fn alive(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `GET /info/tcp`, of the server and of a database, and `GET /info/remote-task/tcp`.
pub(crate) fn tcp_info(call: &Call) -> Result<Answer, ApiError> {
    let url = call.state.tcp_address_for(&call.headers)?;
    let answer = json!({
        "Url": url, "Certificate": own_certificate(call), "NodeTag": call.state.node_tag(),
        "ServerId": guid_text(call.state.engine.server_id()), "Urls": [url]
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// The certificate of this server in base64; clients of the TCP protocol expect it there.
pub(crate) fn own_certificate(call: &Call) -> Option<String> {
    call.state.tls().map(|tls| model::base64_text(tls.key_pair().certificate().der()))
}

/// `GET /databases/*/healthcheck`.
pub(crate) fn health_check(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
