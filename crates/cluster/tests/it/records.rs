//! Records of databases: what is stored, checked against a simple model, and what readers see of it.

use std::collections::BTreeMap;

use cluster_state::{
    ClusterStore, Command, NewDatabase, Outcome, RecordChange, RecordCommand, RecordDraft,
    RecordOutcome, pending_removals,
};
use model::{DatabaseId, DatabaseName};
use platform::Platform;
use proptest::prelude::*;

use crate::Home;

/// A record in the model: etag, index of the topology and of the client configuration, body.
type Row = (u64, u64, u64, Vec<u8>);

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
    Remove {
        name: u8,
        removes_files: bool,
    },
    EndRemovals,
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
        2 => (0..3_u8, any::<bool>())
            .prop_map(|(name, removes_files)| Step::Remove { name, removes_files }),
        1 => Just(Step::EndRemovals),
        1 => Just(Step::Restart),
    ]
}

/// The whole state as a simple model.
#[derive(Default)]
struct Model {
    records: BTreeMap<u8, Row>,
    /// Database and request → the index it was answered with.
    requests: BTreeMap<(u8, u8), u64>,
    pending: Vec<u8>,
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
            (RecordChange::Create(_), None) if self.pending.contains(&name) => {
                return RecordOutcome::BeingDeleted;
            }
            (RecordChange::Create(new), None) => (index, index, index, new.body.clone()),
            (_, None) => return RecordOutcome::Missing,
            (RecordChange::Replace { expected, .. }, Some(row)) if row.0 != *expected => {
                return RecordOutcome::OtherVersion { actual: row.0 };
            }
            (RecordChange::Replace { draft, .. }, Some(row)) => {
                let topology = if draft.changes_topology { index } else { row.1 };
                let client = if draft.changes_client { index } else { row.2 };
                (index, topology, client, draft.body.clone())
            }
            (RecordChange::Remove { removes_files }, Some(_)) => {
                self.records.remove(&name);
                self.requests.retain(|(database, _), _| *database != name);
                self.pending.extend(removes_files.then_some(name));
                return RecordOutcome::Removed;
            }
        };
        self.records.insert(name, row);
        if let Some(request) = request {
            self.requests.insert((name, request), index);
        }
        RecordOutcome::Stored { index }
    }
}

fn name_of(name: u8) -> DatabaseName {
    DatabaseName::new(&format!("Db{name}")).unwrap()
}

fn seen(store: &ClusterStore) -> Vec<(String, Row)> {
    let row = |record: &std::sync::Arc<cluster_state::DatabaseRecord>| {
        let indexes = (record.etag, record.topology_index, record.client_index);
        let row = (indexes.0, indexes.1, indexes.2, record.body.clone());
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
                let change = RecordChange::Create(NewDatabase {
                    disabled: false,
                    keeps_files: false,
                    created_ticks: 1,
                    topology_id: DatabaseId([1; 16]),
                    cluster_transaction_id: DatabaseId([2; 16]),
                    body,
                });
                (name, request, change)
            }
            Step::Replace { name, stale, topology, client, request } => {
                let etag = model.records.get(&name).map_or(0, |row| row.0);
                let expected = if stale { etag.saturating_sub(1) } else { etag };
                let draft = RecordDraft {
                    disabled: false,
                    body,
                    changes_topology: topology,
                    changes_client: client,
                };
                (name, request, RecordChange::Replace { expected, draft })
            }
            Step::Remove { name, removes_files } => {
                (name, None, RecordChange::Remove { removes_files })
            }
            Step::EndRemovals => {
                let mut tx = home.environment.write().unwrap();
                for removal in pending_removals(&tx).unwrap() {
                    cluster_state::end_removal(&mut tx, removal.index).unwrap();
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
        let pending = pending_removals(&home.environment.read()).unwrap();
        assert_eq!(pending.len(), model.pending.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn records_change_as_a_naive_model_says(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}
