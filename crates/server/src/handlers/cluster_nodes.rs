//! The nodes of the cluster: showing them, changing them, and answering what they send each other.

use std::{collections::BTreeMap, time::Duration};

use cluster::{Cluster, Contact, MembershipChange, Role, Topology};
use engine::{Engine, EngineError};
use http::StatusCode;
use model::NodeTag;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use wire::{
    ErrorKind, NodeAddress, guid_text,
    server_shapes::{ClusterTopology, ClusterTopologyAnswer, NodeInfo, NodeLicenseDetails},
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{cluster_debug::time_before, server_info::own_certificate},
    http::router::Answering,
    server_state::ServerState,
};

/// The version of the protocol's server-wide storage that clients compare.
const SERVER_SCHEMA_VERSION: u32 = 53_001;

const ALONE: &str = "Leader, I'm the only one in the cluster, so I'm the leader";

/// `POST /cluster/raft`: a request of another node.
pub(crate) fn raft(call: Call) -> Answering {
    Box::pin(async move {
        let answer = match Cluster::answer_blocks(&call.body) {
            false => call.state.engine.answer_node(&call.body).await,
            true => {
                let runtime = Handle::current();
                blocking(move || Ok(runtime.block_on(call.state.engine.answer_node(&call.body))))
                    .await?
            }
        };
        Ok(Answer::json(answer).with_content_type("application/octet-stream"))
    })
}

/// `PUT /admin/cluster/node`.
pub(crate) fn add(call: Call) -> Answering {
    Box::pin(async move {
        let change = {
            let query = call.query();
            let is_watcher = query.bool("watcher")?.unwrap_or(false);
            addition(query.single_non_empty("url")?, query.get("tag"), is_watcher)?
        };
        change_nodes(call, change).await
    })
}

/// Adding the server at a URL. Without a tag it is given the first free one.
pub(crate) fn addition(
    url: &str,
    tag: Option<&str>,
    is_watcher: bool,
) -> Result<MembershipChange, ApiError> {
    let invalid = |error: &dyn std::fmt::Display| {
        ApiError::new(ErrorKind::Argument, format!("'{url}' is not usable: {error}"))
    };
    let address: NodeAddress = url.parse().map_err(|error| invalid(&error))?;
    let tag = tag.filter(|tag| !tag.is_empty()).map(parse_tag).transpose()?;
    Ok(MembershipChange::Add { url: address.to_string(), tag, is_watcher })
}

/// `DELETE /admin/cluster/node`.
pub(crate) fn remove(call: Call) -> Answering {
    Box::pin(async move {
        let tag = named_tag(&call)?;
        change_nodes(call, MembershipChange::Remove { tag }).await
    })
}

/// `POST /admin/cluster/promote`.
pub(crate) fn promote(call: Call) -> Answering {
    Box::pin(async move {
        let tag = named_tag(&call)?;
        change_nodes(call, MembershipChange::Promote { tag }).await
    })
}

/// `POST /admin/cluster/demote`.
pub(crate) fn demote(call: Call) -> Answering {
    Box::pin(async move {
        let tag = named_tag(&call)?;
        change_nodes(call, MembershipChange::Demote { tag }).await
    })
}

/// `POST /admin/cluster/bootstrap`: a server is the first node of a cluster from its start.
pub(crate) fn bootstrap(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

async fn change_nodes(call: Call, change: MembershipChange) -> Result<Answer, ApiError> {
    let runtime = Handle::current();
    // It goes on if the client disconnects: a server that has joined is to be added, too.
    blocking(move || {
        change_nodes_blocking(&call.state.engine, &runtime, change)?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
    .await
}

/// Changes the nodes of the cluster. A node that is removed leaves its databases to the others.
pub(crate) fn change_nodes_blocking(
    engine: &Engine,
    runtime: &Handle,
    change: MembershipChange,
) -> Result<(), EngineError> {
    let removed = match &change {
        MembershipChange::Remove { tag } => Some(*tag),
        MembershipChange::Add { .. }
        | MembershipChange::Promote { .. }
        | MembershipChange::Demote { .. } => None,
    };
    if let Some(tag) = removed {
        engine.check_others_have_databases_of(tag)?;
    }
    runtime.block_on(engine.change_nodes(change))?;
    if let Some(tag) = removed {
        engine.take_databases_of(tag);
    }
    Ok(())
}

fn named_tag(call: &Call) -> Result<NodeTag, ApiError> {
    parse_tag(call.query().single_non_empty("nodeTag")?)
}

pub(crate) fn parse_tag(tag: &str) -> Result<NodeTag, ApiError> {
    tag.parse().map_err(|error| {
        ApiError::new(ErrorKind::Argument, format!("'{tag}' is no tag of a node: {error}"))
    })
}

/// `GET /cluster/node-info`.
pub(crate) fn node_info(call: &Call) -> Result<Answer, ApiError> {
    let state = &call.state;
    let topology = state.engine.cluster_topology()?;
    let part = Part::of(&topology);
    let info = NodeInfo {
        node_tag: state.node_tag(),
        topology_id: guid_text(topology.cluster),
        certificate: own_certificate(call),
        cluster_status: None,
        number_of_cores: state.machine.cores,
        installed_memory_in_gb: state.machine.memory_gb,
        usable_memory_in_gb: state.machine.memory_gb,
        build_info: state.build(),
        os_info: state.machine.os.clone(),
        server_id: guid_text(state.engine.server_id()),
        current_state: part.state.to_owned(),
        server_role: part.role.to_owned(),
        has_fixed_port: state.engine.settings().server_urls.iter().all(|url| url.port != 0),
        server_schema_version: SERVER_SCHEMA_VERSION,
        last_state_change_reason: part.reason,
    };
    Ok(Answer::shape(StatusCode::OK, &info))
}

/// `GET /cluster/topology`.
pub(crate) fn topology(call: &Call) -> Result<Answer, ApiError> {
    let address = call.state.address_for(&call.headers)?.into_owned();
    Ok(Answer::shape(StatusCode::OK, &topology_of(&call.state, &address)?))
}

/// The topology of the cluster in the first notification of the server.
pub(crate) fn topology_notification(state: &ServerState, address: &str) -> Value {
    let topology = topology_of(state, address).ok();
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

/// The part of this node in its cluster, in the protocol's words.
pub(super) struct Part {
    pub(super) state: &'static str,
    role: &'static str,
    pub(super) reason: String,
}

impl Part {
    pub(super) fn of(topology: &Topology) -> Self {
        let state = match topology.leader {
            Some(leader) if leader == topology.this => "Leader",
            Some(_) => "Follower",
            // It has just joined, or the cluster has removed it.
            None if topology.nodes.is_empty() => "Passive",
            None => "Candidate",
        };
        let own = topology.nodes.iter().find(|node| node.tag == topology.this);
        let role = match own.map(|node| node.role) {
            Some(Role::Member) => "Member",
            Some(Role::Promotable) => "Promotable",
            Some(Role::Watcher) => "Watcher",
            None => "None",
        };
        let reason = match (topology.nodes.len(), topology.leader) {
            (1, _) => ALONE.to_owned(),
            (_, Some(leader)) if leader == topology.this => {
                format!("Leader, elected in term {}", topology.term)
            }
            (_, Some(leader)) => format!("Follower of {leader} in term {}", topology.term),
            (_, None) => format!("{state}, no leader is known in term {}", topology.term),
        };
        Self { state, role, reason }
    }
}

/// `address` is this node's as the client sees it, which is shown while the node is alone.
fn topology_of(state: &ServerState, address: &str) -> Result<ClusterTopologyAnswer, ApiError> {
    let topology = state.engine.cluster_topology()?;
    let is_alone = topology.nodes.len() <= 1;
    let url = |tag: NodeTag, url: &str| match is_alone && tag == topology.this {
        true => address.to_owned(),
        false => url.to_owned(),
    };
    let nodes_with = |wanted: Option<Role>| -> BTreeMap<String, String> {
        let nodes =
            topology.nodes.iter().filter(|node| wanted.is_none_or(|role| node.role == role));
        nodes.map(|node| (node.tag.to_string(), url(node.tag, &node.url))).collect()
    };
    let part = Part::of(&topology);
    let up_time = state.engine.clock().monotonic().saturating_sub(state.started);
    let last =
        topology.nodes.iter().map(|node| node.tag).max_by_key(|tag| (tag.as_str().len(), *tag));
    Ok(ClusterTopologyAnswer {
        metadata: state.debug_metadata(),
        topology: ClusterTopology {
            topology_id: guid_text(topology.cluster),
            all_nodes: nodes_with(None),
            members: nodes_with(Some(Role::Member)),
            promotables: nodes_with(Some(Role::Promotable)),
            watchers: nodes_with(Some(Role::Watcher)),
            last_node_id: last.unwrap_or(topology.this).to_string(),
            etag: topology.index,
        },
        etag: topology.index,
        leader: topology.leader.map(|leader| leader.to_string()),
        leader_ship_duration: milliseconds(up_time),
        current_state: part.state.to_owned(),
        node_tag: topology.this.to_string(),
        server_role: part.role.to_owned(),
        current_term: topology.term,
        node_license_details: BTreeMap::from([(topology.this.to_string(), license_details(state))]),
        last_state_change_reason: part.reason,
        status: statuses(state, &topology),
    })
}

/// What a leader knows of reaching the others; other nodes show nothing.
fn statuses(state: &ServerState, topology: &Topology) -> BTreeMap<String, Value> {
    if topology.leader != Some(topology.this) {
        return BTreeMap::new();
    }
    let contacts = state.engine.node_contacts();
    let shown = contacts.iter().map(|one| (one.tag.to_string(), contact_json(state, one)));
    shown.collect()
}

/// What this node knows of reaching another one.
pub(super) fn contact_json(state: &ServerState, contact: &Contact) -> Value {
    json!({
        "Name": null,
        "Connected": contact.failing.is_none(),
        "ErrorDetails": contact.failing.as_ref().map(|(_, error)| error.clone()),
        "LastSent": time_before(state, contact.sent_before),
        "LastReply": contact.answered_before.map(|before| time_before(state, before)),
        "LastSentMessage": "Heartbeat",
        "LastMatchingIndex": contact.matched,
    })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
