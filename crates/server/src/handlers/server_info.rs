//! The server and its cluster of one node.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use serde_json::{Value, json};
use wire::{
    guid_text,
    server_shapes::{ClusterTopology, ClusterTopologyAnswer, NodeInfo, NodeLicenseDetails},
};

use crate::{
    answers::answer::Answer, api_error::ApiError, call::Call, http::router::Answering,
    server_state::ServerState,
};

/// The version of the protocol's server-wide storage that clients compare.
const SERVER_SCHEMA_VERSION: u32 = 53_001;

/// Maximum delay of a response on request.
const DELAY_MAX: Duration = Duration::from_secs(60);

const STATE_REASON: &str = "Leader, I'm the only one in the cluster, so I'm the leader";

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

/// `GET /cluster/node-info`.
pub(crate) fn node_info(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let info = NodeInfo {
        node_tag: call.state.node_tag().to_owned(),
        topology_id: guid_text(state.engine.topology_id()),
        certificate: own_certificate(call),
        cluster_status: None,
        number_of_cores: state.machine.cores,
        installed_memory_in_gb: state.machine.memory_gb,
        usable_memory_in_gb: state.machine.memory_gb,
        build_info: state.build(),
        os_info: state.machine.os.clone(),
        server_id: guid_text(state.engine.server_id()),
        current_state: "Leader".to_owned(),
        server_role: "Member".to_owned(),
        has_fixed_port: state.engine.settings().server_urls.iter().all(|url| url.port != 0),
        server_schema_version: SERVER_SCHEMA_VERSION,
        last_state_change_reason: STATE_REASON.to_owned(),
    };
    Ok(Answer::shape(StatusCode::OK, &info))
}

/// `GET /cluster/topology`.
pub(crate) fn cluster_topology(call: &Call) -> Result<Answer, ApiError> {
    let address = call.state.address_for(&call.headers)?.into_owned();
    Ok(Answer::shape(StatusCode::OK, &topology_of(&call.state, address)))
}

/// The topology of the cluster in the first notification of the server.
pub(crate) fn topology_notification(state: &ServerState, address: &str) -> Value {
    let topology = topology_of(state, address.to_owned());
    let mut shape = json!({
        "Id": "ClusterTopologyChanged", "CreatedAt": state.debug_metadata().date_time,
        "Type": "ClusterTopologyChanged", "Title": "Cluster topology was changed", "Message": null,
        "Severity": "Info", "IsPersistent": false, "Database": null
    });
    let shown = ["Topology", "Leader", "NodeTag", "Status", "CurrentTerm", "NodeLicenseDetails"];
    let mut all = serde_json::to_value(topology).unwrap_or_default();
    for name in shown {
        shape[name] = all[name].take();
    }
    shape
}

fn topology_of(state: &ServerState, address: String) -> ClusterTopologyAnswer {
    let nodes = BTreeMap::from([(state.node_tag().to_owned(), address)]);
    let up_time = state.engine.clock().monotonic().saturating_sub(state.started);
    ClusterTopologyAnswer {
        metadata: state.debug_metadata(),
        topology: ClusterTopology {
            topology_id: guid_text(state.engine.topology_id()),
            all_nodes: nodes.clone(),
            members: nodes,
            promotables: BTreeMap::new(),
            watchers: BTreeMap::new(),
            last_node_id: state.node_tag().to_owned(),
            etag: 1,
        },
        etag: 1,
        leader: state.node_tag().to_owned(),
        leader_ship_duration: u64::try_from(up_time.as_millis()).unwrap_or(u64::MAX),
        current_state: "Leader".to_owned(),
        node_tag: state.node_tag().to_owned(),
        server_role: "Member".to_owned(),
        current_term: 1,
        node_license_details: BTreeMap::from([(
            state.node_tag().to_owned(),
            license_details(state),
        )]),
        last_state_change_reason: STATE_REASON.to_owned(),
        status: BTreeMap::new(),
    }
}

fn license_details(state: &ServerState) -> NodeLicenseDetails {
    NodeLicenseDetails {
        utilized_cores: state.machine.cores,
        max_utilized_cores: None,
        number_of_cores: state.machine.cores,
        installed_memory_in_gb: state.machine.memory_gb,
        usable_memory_in_gb: state.machine.memory_gb,
        build_info: state.build(),
        os_info: state.machine.os.clone(),
    }
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
fn own_certificate(call: &Call) -> Option<String> {
    call.state.tls().map(|tls| model::base64_text(tls.key_pair().certificate().der()))
}

/// `GET /databases/*/healthcheck`.
pub(crate) fn health_check(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
