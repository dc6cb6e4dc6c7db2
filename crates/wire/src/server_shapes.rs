//! Answers about the server and its (one-node) cluster.
//!
//! The only node is called A, is the leader and has member rights: clients ask for these before they use a
//! database.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// `/build/version`, also part of other answers.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
pub struct BuildVersion {
    /// The five digits of the build.
    pub build_version: u32,
    /// `5.4`.
    pub product_version: String,
    /// The commit that this program was built from.
    pub commit_hash: String,
    /// `5.4.207`.
    pub full_version: String,
    /// `5.4.207.54178`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly_version: Option<String>,
}

impl BuildVersion {
    /// Parses the four numbers of the protocol version, `5.4.207.54178`.
    pub fn of(version: &str, commit_hash: &str) -> BuildVersion {
        let mut parts = version.split('.');
        let mut next = || parts.next().unwrap_or("0");
        let (major, minor, patch, build) = (next(), next(), next(), next());
        BuildVersion {
            build_version: build.parse().unwrap_or(0),
            product_version: format!("{major}.{minor}"),
            commit_hash: commit_hash.to_owned(),
            full_version: format!("{major}.{minor}.{patch}"),
            assembly_version: Some(version.to_owned()),
        }
    }
}

/// The operating system, as shown in topologies.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
pub struct OsInfo {
    /// `Linux`.
    pub r#type: String,
    /// Name of the distribution.
    pub full_name: String,
    /// Version of the distribution.
    pub version: String,
    /// Version of the kernel.
    pub build_version: String,
    /// Always true.
    pub is64_bit: bool,
}

/// `/cluster/node-info`.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct NodeInfo {
    pub node_tag: String,
    pub topology_id: String,
    pub certificate: Option<String>,
    pub cluster_status: Option<String>,
    pub number_of_cores: usize,
    pub installed_memory_in_gb: f64,
    pub usable_memory_in_gb: f64,
    pub build_info: BuildVersion,
    pub os_info: OsInfo,
    pub server_id: String,
    pub current_state: String,
    pub server_role: String,
    pub has_fixed_port: bool,
    pub server_schema_version: u32,
    pub last_state_change_reason: String,
}

/// The property that comes first in diagnostic answers.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct DebugMetadata {
    pub date_time: String,
    pub web_url: String,
    pub node_tag: String,
}

/// `/cluster/topology`.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct ClusterTopologyAnswer {
    #[serde(rename = "@metadata")]
    pub metadata: DebugMetadata,
    pub topology: ClusterTopology,
    pub etag: u64,
    pub leader: Option<String>,
    pub leader_ship_duration: u64,
    pub current_state: String,
    pub node_tag: String,
    pub server_role: String,
    pub current_term: u64,
    pub node_license_details: BTreeMap<String, NodeLicenseDetails>,
    pub last_state_change_reason: String,
    pub status: BTreeMap<String, Value>,
}

/// The nodes of the cluster by tag.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct ClusterTopology {
    pub topology_id: String,
    pub all_nodes: BTreeMap<String, String>,
    pub members: BTreeMap<String, String>,
    pub promotables: BTreeMap<String, String>,
    pub watchers: BTreeMap<String, String>,
    pub last_node_id: String,
    pub etag: u64,
}

/// A node's description of its machine.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct NodeLicenseDetails {
    pub utilized_cores: usize,
    pub max_utilized_cores: Option<usize>,
    pub number_of_cores: usize,
    pub installed_memory_in_gb: f64,
    pub usable_memory_in_gb: f64,
    pub build_info: BuildVersion,
    pub os_info: OsInfo,
}

/// `/info/tcp`.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the names are those of the protocol and say what they hold")]
pub struct TcpInfo {
    pub url: String,
    pub certificate: Option<String>,
    pub node_tag: String,
    pub server_id: String,
    pub urls: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_read_from_the_protocol_version() {
        let json = serde_json::to_value(BuildVersion::of("5.4.207.54178", "abc")).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"BuildVersion": 54178, "ProductVersion": "5.4", "CommitHash": "abc",
                "FullVersion": "5.4.207", "AssemblyVersion": "5.4.207.54178"})
        );
    }

    #[test]
    fn protocol_names_come_out_as_clients_read_them() {
        let os = OsInfo {
            r#type: "Linux".into(),
            full_name: String::new(),
            version: String::new(),
            build_version: String::new(),
            is64_bit: true,
        };
        let json = serde_json::to_value(os).unwrap();
        assert_eq!(json["Type"], "Linux");
        assert_eq!(json["Is64Bit"], true);
    }
}
