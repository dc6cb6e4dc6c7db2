//! The machine from outside, over files in memory and on the simulated disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod compare_exchange;
mod executed;
mod machine;
mod nodes;
mod power_cuts;
mod records;
mod subscriptions;
mod value_log;

use std::sync::Arc;

use blittable::{BlittableBuf, ParseLimits, parse_document};
use cluster::{Cluster, ClusterOptions};
use cluster_state::{Command, CompareExchangeCommand, CompareExchangeOutcome, Outcome};
use model::DatabaseId;
use platform::Platform;
use storage::{Environment, EnvironmentOptions, StorageError};

const DATABASE: DatabaseId = DatabaseId([7; 16]);

/// A machine and the environment that it lives in.
struct Home {
    environment: Arc<Environment>,
    cluster: Cluster,
}

impl Home {
    fn open(platform: &Platform) -> Home {
        let environment = environment(platform).unwrap();
        let options = ClusterOptions::alone(Arc::clone(&environment), platform);
        let cluster = Cluster::start(options).unwrap();
        Home { environment, cluster }
    }

    fn close(self) {
        self.cluster.close();
        self.environment.close().unwrap();
    }

    fn change(&self, command: CompareExchangeCommand) -> CompareExchangeOutcome {
        let applied = self.cluster.submit_and_wait(&Command::CompareExchange(command)).unwrap();
        match applied.outcome {
            Outcome::CompareExchange(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn put(&self, key: &str, expected: u64, json: &str) -> CompareExchangeOutcome {
        self.change(put(key, expected, json))
    }

    fn delete(&self, key: &str, expected: u64) -> CompareExchangeOutcome {
        self.change(delete(key, expected))
    }

    fn listed(&self, prefix: &str) -> Vec<(String, u64, String)> {
        let state = self.cluster.store().read();
        let entries = state.compare_exchange_with_prefix(DATABASE, prefix, None).unwrap();
        let read = entries.map(|entry| {
            let entry = entry.unwrap();
            let json = String::from_utf8(entry.value.to_json().unwrap()).unwrap();
            (entry.key, entry.index, json)
        });
        read.collect()
    }
}

fn environment(platform: &Platform) -> Result<Arc<Environment>, StorageError> {
    let options = EnvironmentOptions::new("/data/System");
    Environment::open(platform, EnvironmentOptions { journal_bytes_max: 1 << 20, ..options })
}

fn value(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn put(key: &str, expected: u64, json: &str) -> CompareExchangeCommand {
    let (database, key) = (DATABASE, key.to_owned());
    CompareExchangeCommand::Put { database, key, expected, value: value(json) }
}

fn delete(key: &str, expected: u64) -> CompareExchangeCommand {
    CompareExchangeCommand::Delete { database: DATABASE, key: key.to_owned(), expected }
}
