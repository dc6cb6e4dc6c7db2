//! Records of databases: what is stored, checked against a simple model, and what readers see of it.

use std::collections::BTreeMap;

use cluster::{Cluster, ClusterOptions};
use cluster_state::{
    ClusterStore, Command, NewDatabase, Outcome, RecordChange, RecordCommand, RecordDraft,
    RecordOutcome, end_deletion, pending_deletions,
};
use model::{DatabaseId, DatabaseName, DatabaseTopology, NodeTag};
use platform::Platform;
use proptest::prelude::*;
use storage::TreeName;

use crate::Home;

/// A record in the model: etag, index of the topology, index of the client configuration and whether it has changed
/// since the creation, body, tags of the nodes.
type Row = (u64, u64, (u64, bool), Vec<u8>, String);

#[derive(Clone, Debug)]
enum Step {
    Create {
        name: u8,
        request: Option<u8>,
    },
    /// `stale` replaces an older version than there is.
    Replace {
        name: u8,
        stale: bool,
        topology: bool,
        client: bool,
        request: Option<u8>,
    },
    /// Takes it from node A, which this is.
    Leave {
        name: u8,
        removes_files: bool,
    },
    /// `stale` deletes an older version than there is.
    Delete {
        name: u8,
        stale: bool,
        removes_files: bool,
    },
    /// Removes what the deleted databases have left in the shared state.
    RemoveEntries,
    EndDeletions,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let request = || prop::option::of(0..3_u8);
    prop_oneof![
        3 => (0..3_u8, request()).prop_map(|(name, request)| Step::Create { name, request }),
        6 => (0..3_u8, any::<bool>(), any::<bool>(), any::<bool>(), request()).prop_map(
            |(name, stale, topology, client, request)| {
                Step::Replace { name, stale, topology, client, request }
            }
        ),
        2 => (0..3_u8, any::<bool>(), any::<bool>())
            .prop_map(|(name, stale, removes_files)| Step::Delete { name, stale, removes_files }),
        1 => (0..3_u8, any::<bool>())
            .prop_map(|(name, removes_files)| Step::Leave { name, removes_files }),
        1 => Just(Step::RemoveEntries),
        1 => Just(Step::EndDeletions),
        1 => Just(Step::Restart),
    ]
}

/// The whole state as a simple model.
#[derive(Default)]
struct Model {
    records: BTreeMap<u8, Row>,
    /// Database and request → the index it was answered with.
    requests: BTreeMap<(u8, u8), u64>,
    /// The indexes of the deletions whose files are still to be removed.
    pending: Vec<u64>,
    /// Deletions of which the shared state still has entries, by index.
    deleted: BTreeMap<u64, u8>,
}

impl Model {
    fn apply(
        &mut self,
        index: u64,
        name: u8,
        request: Option<u8>,
        change: &RecordChange,
    ) -> RecordOutcome {
        let repeated = request.and_then(|request| self.requests.get(&(name, request)));
        if let Some(&index) = repeated {
            return RecordOutcome::Stored { index };
        }
        let row = match (change, self.records.get(&name)) {
            (RecordChange::Create(_), Some(_)) => return RecordOutcome::AlreadyExists,
            (RecordChange::Create(new), None) => {
                (index, index, (index, false), new.body.clone(), "A".to_owned())
            }
            (_, None) => return RecordOutcome::Missing,
            (
                RecordChange::Replace { expected, .. }
                | RecordChange::Leave { expected, .. }
                | RecordChange::Delete { expected: Some(expected), .. },
                Some(row),
            ) if row.0 != *expected => {
                return RecordOutcome::OtherVersion { actual: row.0 };
            }
            (RecordChange::Replace { draft, .. }, Some(row)) => {
                let topology = if draft.changes_topology { index } else { row.1 };
                let client = if draft.changes_client { (index, true) } else { row.2 };
                let nodes = draft.topology.as_ref().map_or(row.4.clone(), nodes_of);
                let topology = if nodes == row.4 { topology } else { index };
                (index, topology, client, draft.body.clone(), nodes)
            }
            (RecordChange::Leave { removes_files, .. }, Some(row)) if row.4.starts_with('A') => {
                self.pending.extend(removes_files.then_some(index));
                let nodes = row.4.trim_start_matches('A').to_owned();
                (index, index, row.2, row.3.clone(), nodes)
            }
            (RecordChange::Leave { .. }, Some(row)) => {
                (index, row.1, row.2, row.3.clone(), row.4.clone())
            }
            (RecordChange::Delete { removes_files, .. }, Some(_)) => {
                self.records.remove(&name);
                self.requests.retain(|(database, _), _| *database != name);
                self.pending.extend(removes_files.then_some(index));
                self.deleted.insert(index, name);
                return RecordOutcome::Deleted;
            }
        };
        self.records.insert(name, row);
        if let Some(request) = request {
            self.requests.insert((name, request), index);
        }
        RecordOutcome::Stored { index }
    }
}

/// The tags of the nodes, one after another.
fn nodes_of(topology: &DatabaseTopology) -> String {
    topology.nodes().map(|node| node.to_string()).collect()
}

fn name_of(name: u8) -> DatabaseName {
    DatabaseName::new(&format!("Db{name}")).unwrap()
}

fn seen(store: &ClusterStore) -> Vec<(String, Row)> {
    let row = |record: &std::sync::Arc<model::DatabaseRecord>| {
        let client = (record.client_index, record.is_client_changed);
        let row =
            (record.etag, record.topology_index, client, record.configuration.json().to_vec());
        let row = (row.0, row.1, row.2, row.3, nodes_of(&record.topology));
        (record.name.as_str().to_owned(), row)
    };
    store.records().iter().map(row).collect()
}

fn run(steps: Vec<Step>) {
    let platform = Platform::memory();
    let mut home = Home::open(&platform);
    let mut model = Model::default();
    for (number, step) in steps.into_iter().enumerate() {
        let body = format!("{{\"Step\":{number}}}").into_bytes();
        let (name, request, change) = match step {
            Step::Create { name, request } => {
                let mut topology_id = [0; 16];
                topology_id[..8].copy_from_slice(&number.to_be_bytes());
                let change = RecordChange::Create(NewDatabase {
                    topology: None,
                    disabled: false,
                    adopts_files: false,
                    created_ticks: 1,
                    topology_id: DatabaseId(topology_id),
                    cluster_transaction_id: DatabaseId([2; 16]),
                    body,
                });
                (name, request, change)
            }
            Step::Replace { name, stale, topology, client, request } => {
                let etag = model.records.get(&name).map_or(0, |row| row.0);
                let expected = if stale { etag.saturating_sub(1) } else { etag };
                let draft = RecordDraft {
                    topology: topology
                        .then(|| DatabaseTopology::of(vec![NodeTag::A, "B".parse().unwrap()])),
                    disabled: false,
                    body,
                    changes_topology: false,
                    changes_client: client,
                };
                (name, request, RecordChange::Replace { expected, draft })
            }
            Step::Leave { name, removes_files } => {
                let expected = model.records.get(&name).map_or(0, |row| row.0);
                (name, None, RecordChange::Leave { expected, node: NodeTag::A, removes_files })
            }
            Step::Delete { name, stale, removes_files } => {
                let etag = model.records.get(&name).map_or(0, |row| row.0);
                let expected = Some(if stale { etag.saturating_sub(1) } else { etag });
                (name, None, RecordChange::Delete { expected, removes_files })
            }
            Step::RemoveEntries => {
                for deleted in home.cluster.store().read().deleted_databases().unwrap() {
                    let command = Command::RemoveDatabase { database: deleted.database };
                    home.cluster.submit_and_wait(&command).unwrap();
                }
                model.deleted.clear();
                continue;
            }
            Step::EndDeletions => {
                let mut tx = home.environment.write().unwrap();
                for deletion in pending_deletions(&tx).unwrap() {
                    end_deletion(&mut tx, &deletion.unwrap()).unwrap();
                }
                tx.commit().unwrap();
                model.pending.clear();
                continue;
            }
            Step::Restart => {
                home.close();
                home = Home::open(&platform);
                continue;
            }
        };
        let request_id = request.map(|request| format!("request {request}"));
        let command = RecordCommand { name: name_of(name), request_id, change: change.clone() };
        let applied = home.cluster.submit_and_wait(&Command::Record(command)).unwrap();
        let Outcome::Record(outcome) = applied.outcome else { panic!() };
        assert_eq!(outcome, model.apply(applied.index, name, request, &change));
        let expected: Vec<_> = model
            .records
            .iter()
            .map(|(name, row)| (name_of(*name).as_str().to_owned(), row.clone()))
            .collect();
        assert_eq!(seen(home.cluster.store()), expected);
        let stored = ClusterStore::open(std::sync::Arc::clone(&home.environment)).unwrap();
        assert_eq!(seen(&stored), expected, "memory and disk say the same");
        let pending = pending_deletions(&home.environment.read()).unwrap();
        let pending: Vec<u64> =
            pending.into_iter().map(|deletion| deletion.unwrap().index).collect();
        assert_eq!(pending, model.pending);
        let deleted = home.cluster.store().read().deleted_databases().unwrap();
        let deleted: BTreeMap<_, _> =
            deleted.into_iter().map(|deleted| (deleted.index, deleted.key)).collect();
        let expected = model.deleted.iter();
        let expected: BTreeMap<_, _> = expected
            .map(|(index, name)| (*index, name_of(*name).lower_cased().to_owned()))
            .collect();
        assert_eq!(deleted, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn records_change_as_a_naive_model_says(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}

/// Creates a database, and returns the etag of its record.
fn create(home: &Home, name: u8) -> u64 {
    let change = RecordChange::Create(NewDatabase {
        topology: None,
        disabled: false,
        adopts_files: false,
        created_ticks: 1,
        topology_id: DatabaseId([name; 16]),
        cluster_transaction_id: DatabaseId([name; 16]),
        body: b"{}".to_vec(),
    });
    match apply(home, name, change) {
        RecordOutcome::Stored { index } => index,
        other => panic!("{other:?}"),
    }
}

fn apply(home: &Home, name: u8, change: RecordChange) -> RecordOutcome {
    let command = RecordCommand { name: name_of(name), request_id: None, change };
    let applied = home.cluster.submit_and_wait(&Command::Record(command)).unwrap();
    let Outcome::Record(outcome) = applied.outcome else { panic!() };
    outcome
}

#[test]
fn damage_in_the_trees_of_one_node_does_not_change_what_all_nodes_decide() {
    let home = Home::open(&Platform::memory());
    let etag = create(&home, 1);
    let mut tx = home.environment.write().unwrap();
    tx.tree_mut(&TreeName::from("Environments")).unwrap().put(b"db1", b"damaged").unwrap();
    tx.tree_mut(&TreeName::from("Deletions")).unwrap().put(b"damaged", b"too").unwrap();
    tx.commit().unwrap();
    let deletion = RecordChange::Delete { expected: Some(etag), removes_files: true };
    assert_eq!(apply(&home, 1, deletion), RecordOutcome::Deleted);
    create(&home, 1);
    let pending = pending_deletions(&home.environment.read()).unwrap();
    let errors: Vec<String> =
        pending.into_iter().map(|deletion| deletion.unwrap_err().to_string()).collect();
    let key = format!("{:016x}", etag + 1);
    assert!(errors[0].contains(&key) && errors[0].contains("Deletions"), "{errors:?}");
    assert!(errors[1].contains("64616d61676564"), "{errors:?}");
}

#[test]
fn a_damaged_record_is_named_when_the_machine_starts() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    create(&home, 1);
    let mut tx = home.environment.write().unwrap();
    tx.tree_mut(&TreeName::from("Databases")).unwrap().put(b"db1", b"damaged").unwrap();
    tx.commit().unwrap();
    home.close();
    let refused =
        Cluster::start(ClusterOptions::alone(crate::environment(&platform).unwrap(), &platform));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("'db1'") && refused.contains("Databases"), "{refused}");
}
