//! Cluster-wide transactions are kept until all nodes of a database have executed them.

use cluster_state::{ClusterTransaction, Command, DocumentChange, ExecutedCommand, Guard, Outcome};
use platform::Platform;

use crate::{DATABASE, Home};

fn transact(home: &Home, executed: u64) -> u64 {
    let document =
        DocumentChange { id: "users/1".to_owned(), body: None, guard: Guard::Off, replaces: None };
    let transaction = ClusterTransaction {
        database: DATABASE,
        values: Vec::new(),
        documents: vec![document],
        ticks: 1,
        executed,
    };
    home.cluster.submit_and_wait(&Command::Transaction(transaction)).unwrap().index
}

fn say(home: &Home, node_tag: &str, executed: u64, by_all: u64) {
    let node_tag = node_tag.to_owned();
    let command = ExecutedCommand { database: DATABASE, node_tag, executed, by_all };
    let applied = home.cluster.submit_and_wait(&Command::Executed(command)).unwrap();
    assert!(matches!(applied.outcome, Outcome::ExecutedNoted));
}

fn kept(home: &Home) -> Vec<u64> {
    let state = home.cluster.store().read();
    let stored = state.transactions_after(DATABASE, 0).unwrap();
    stored.map(|transaction| transaction.unwrap().index).collect()
}

#[test]
fn what_all_nodes_have_executed_is_removed() {
    let platform = Platform::memory();
    let home = Home::open(&platform);
    let (first, second) = (transact(&home, 0), transact(&home, 0));
    say(&home, "A", second, 0);
    assert_eq!(kept(&home), [first, second]);
    say(&home, "B", first, first);
    assert_eq!(kept(&home), [second]);
    home.close();
    let home = Home::open(&platform);
    let said = home.cluster.store().read().executed_transactions(DATABASE).unwrap();
    assert_eq!(
        said.into_iter().collect::<Vec<_>>(),
        [("A".to_owned(), second), ("B".to_owned(), first)]
    );
    let third = transact(&home, second);
    assert_eq!(kept(&home), [third]);
}
