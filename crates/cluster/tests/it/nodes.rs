//! Several nodes in one process, over a network that can be cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use cluster::{Cluster, ClusterOptions, MembershipChange, PeerAnswer, Peers, Role, Topology};
use cluster_state::{ClusterError, Command, CompareExchangeCommand, Outcome};
use platform::Platform;
use storage::Environment;
use tokio::time::{Instant, sleep};

use crate::{DATABASE, environment, machine::hash, put};

const PATIENCE: Duration = Duration::from_secs(20);

/// The nodes that can be reached, by URL, and the pairs that cannot reach each other.
#[derive(Default)]
struct Wires {
    nodes: Mutex<BTreeMap<String, Weak<Cluster>>>,
    cut: Mutex<BTreeSet<(String, String)>>,
    /// A node that neither answers nor asks.
    paused: Mutex<Option<String>>,
}

struct Wire {
    wires: Arc<Wires>,
    from: String,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wires {
    fn cut_off(&self, url: &str) {
        let others: Vec<String> = lock(&self.nodes).keys().cloned().collect();
        for other in others {
            lock(&self.cut).insert((url.to_owned(), other.clone()));
            lock(&self.cut).insert((other, url.to_owned()));
        }
    }

    fn mend(&self) {
        lock(&self.cut).clear();
    }

    fn pause(&self, url: &str) {
        *lock(&self.paused) = Some(url.to_owned());
    }

    fn resume(&self) {
        *lock(&self.paused) = None;
    }
}

impl Peers for Wire {
    fn call(&self, url: &str, request: Vec<u8>) -> PeerAnswer {
        let (wires, from, url) = (Arc::clone(&self.wires), self.from.clone(), url.to_owned());
        Box::pin(async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let is_cut = || lock(&wires.cut).contains(&(from.clone(), url.clone()));
            if is_cut() {
                return Err(refused());
            }
            let is_paused =
                || lock(&wires.paused).as_ref().is_some_and(|one| [&from, &url].contains(&one));
            if is_paused() {
                std::future::pending::<()>().await;
            }
            let node = lock(&wires.nodes).get(&url).and_then(Weak::upgrade).ok_or_else(refused)?;
            let answer = node.answer(&request).await;
            if is_cut() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Ok(answer)
        })
    }
}

struct Node {
    platform: Platform,
    url: String,
    cluster: Arc<Cluster>,
    environment: Arc<Environment>,
}

impl Node {
    fn start(wires: &Arc<Wires>, number: u8, platform: Platform) -> Node {
        let url = format!("http://node{number}");
        let environment = environment(&platform).unwrap();
        let alone = ClusterOptions::alone(Arc::clone(&environment), &platform);
        let peers = Arc::new(Wire { wires: Arc::clone(wires), from: url.clone() });
        let options = ClusterOptions { peers, cluster: [number; 16], ..alone };
        let cluster = Arc::new(Cluster::start(options).unwrap());
        cluster.set_url(url.clone());
        lock(&wires.nodes).insert(url.clone(), Arc::downgrade(&cluster));
        Node { platform, url, cluster, environment }
    }

    fn put(&self, key: &str, expected: u64) -> Result<u64, ClusterError> {
        // On a busy machine a leader is deposed now and then.
        for attempt in 0.. {
            match self.cluster.submit_and_wait(&command(put(key, expected, "{}"))) {
                Ok(applied) => match applied.outcome {
                    Outcome::CompareExchange(outcome) if outcome.is_successful || 0 < attempt => {
                        return Ok(outcome.index);
                    }
                    other => panic!("{other:?}"),
                },
                Err(ClusterError::NoLeader { .. } | ClusterError::Unfinished { .. })
                    if attempt < 10 => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last attempt returns")
    }

    fn keys(&self) -> Vec<String> {
        let state = self.cluster.store().read();
        let entries = state.compare_exchange_with_prefix(DATABASE, "", None).unwrap();
        entries.map(|entry| entry.unwrap().key).collect()
    }

    fn topology(&self) -> Topology {
        self.cluster.topology().unwrap()
    }

    fn stop(self) -> Platform {
        self.cluster.close();
        self.environment.close().unwrap();
        self.platform
    }

    fn crash(self) -> Platform {
        drop(self.cluster);
        self.platform
    }
}

fn command(command: CompareExchangeCommand) -> Command {
    Command::CompareExchange(command)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap().block_on(future)
}

fn add(leader: &Node, url: &str, is_watcher: bool) -> Result<String, ClusterError> {
    let change = MembershipChange::Add { url: url.to_owned(), tag: None, is_watcher };
    block_on(leader.cluster.change_nodes(change)).map(|tag| tag.to_string())
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        block_on(async { sleep(Duration::from_millis(10)).await });
    }
}

/// A cluster of three, which the first leads.
fn three() -> (Arc<Wires>, Vec<Node>) {
    let wires = Arc::new(Wires::default());
    let nodes: Vec<_> = (1..=3).map(|n| Node::start(&wires, n, Platform::memory())).collect();
    nodes[0].put("before", 0).unwrap();
    assert_eq!(add(&nodes[0], "http://node2", false).unwrap(), "B");
    assert_eq!(add(&nodes[0], "http://node3", false).unwrap(), "C");
    (wires, nodes)
}

fn leader_of(nodes: &[Node]) -> usize {
    let mut leader = None;
    eventually("the nodes agree on a leader", || {
        let leaders: Vec<_> = nodes.iter().map(|node| node.topology().leader).collect();
        leader = leaders[0];
        leader.is_some() && leaders.iter().all(|other| *other == leader)
    });
    nodes.iter().position(|node| Some(node.cluster.node_tag()) == leader).unwrap()
}

#[test]
fn three_nodes_agree_and_any_of_them_takes_commands() {
    let (_wires, nodes) = three();
    for (number, node) in nodes.iter().enumerate() {
        let topology = node.topology();
        assert_eq!(topology.cluster, [1; 16]);
        assert_eq!(topology.this.as_str(), ["A", "B", "C"][number]);
        assert!(topology.nodes.iter().all(|node| node.role == Role::Member), "{topology:?}");
        // What was acknowledged here is seen here.
        node.put(&format!("of {number}"), 0).unwrap();
        assert!(node.keys().contains(&format!("of {number}")));
    }
    let all = ["before", "of 0", "of 1", "of 2"];
    for node in &nodes {
        block_on(node.cluster.catch_up()).unwrap();
        assert_eq!(node.keys(), all);
    }
}

#[test]
fn a_majority_goes_on_without_its_leader_and_a_minority_refuses() {
    let (wires, mut nodes) = three();
    let leader = leader_of(&nodes);
    wires.cut_off(&nodes[leader].url);
    let alone = nodes.remove(leader);
    eventually("the others elect a leader", || nodes[0].put("others", 0).is_ok());
    let refused = |node: &Node| match node.cluster.submit_and_wait(&command(put("alone", 0, "{}")))
    {
        Err(ClusterError::NoLeader { .. }) => true,
        Err(ClusterError::Unfinished { .. }) => false,
        other => panic!("{other:?}"),
    };
    eventually("a leader without a majority refuses", || refused(&alone));
    assert!(matches!(block_on(alone.cluster.catch_up()), Err(ClusterError::NoLeader { .. })));
    let term = nodes[0].topology().term;
    wires.mend();
    eventually("it follows again", || alone.keys().contains(&"others".to_owned()));
    assert!(alone.put("again", 0).is_ok());
    let raised = nodes[0].topology().term - term;
    assert!(raised <= 1, "the one that came back deposed nobody, but the term rose by {raised}");
}

#[test]
fn a_node_that_lags_far_behind_is_sent_the_state() {
    let (wires, mut nodes) = three();
    let leader = leader_of(&nodes);
    let away = nodes.remove((leader + 1) % 3);
    let leader = leader_of(&nodes);
    wires.cut_off(&away.url);
    let mut index = 0;
    for _ in 0..3000 {
        index = nodes[leader].put("often", index).unwrap();
    }
    nodes[leader].put("last", 0).unwrap();
    let url = away.url.clone();
    let platform = away.stop();
    wires.mend();
    let away = Node::start(&wires, url.as_bytes()[url.len() - 1] - b'0', platform);
    eventually("the node follows again", || away.keys() == nodes[leader].keys());
    away.put("of the node that came back", 0).unwrap();
}

#[test]
fn what_a_server_had_before_it_joined_is_gone_and_indexes_are_the_same_everywhere() {
    let wires = Arc::new(Wires::default());
    let nodes: Vec<_> = (1..=2).map(|n| Node::start(&wires, n, Platform::memory())).collect();
    nodes[0].put("of the cluster", 0).unwrap();
    for number in 0..5 {
        nodes[1].put(&format!("before {number}"), 0).unwrap();
    }
    add(&nodes[0], "http://node2", false).unwrap();
    let index = nodes[1].put("together", 0).unwrap();
    assert_eq!(index, 2, "the leader's count goes on");
    for node in &nodes {
        eventually("both have the same", || node.keys() == ["of the cluster", "together"]);
        assert_eq!(node.cluster.store().read().last_index().unwrap(), index);
    }
}

#[test]
fn a_node_that_comes_back_with_the_same_log_deposes_nobody() {
    let (wires, nodes) = three();
    let leader = leader_of(&nodes);
    let term = nodes[leader].topology().term;
    let away = (leader + 1) % 3;
    wires.cut_off(&nodes[away].url);
    // Long enough to lose patience several times, with a log that is as new as that of the others.
    block_on(async { sleep(Duration::from_secs(3)).await });
    wires.mend();
    block_on(async { sleep(Duration::from_secs(2)).await });
    assert_eq!(leader_of(&nodes), leader);
    assert_eq!(nodes[away].topology().term, term);
}

#[test]
fn nodes_that_were_killed_come_back_with_everything() {
    let (wires, nodes) = three();
    let keys: Vec<_> = (0..20).map(|number| format!("key {number:02}")).collect();
    for (number, key) in keys.iter().enumerate() {
        nodes[number % 3].put(key, 0).unwrap();
    }
    let platforms: Vec<_> = nodes.into_iter().map(Node::crash).collect();
    let numbered = platforms.into_iter().zip(1..);
    let nodes: Vec<_> = numbered.map(|(platform, n)| Node::start(&wires, n, platform)).collect();
    leader_of(&nodes);
    eventually("every node has everything", || {
        nodes.iter().all(|node| keys.iter().all(|key| node.keys().contains(key)))
    });
    nodes[2].put("after", 0).unwrap();
}

#[test]
fn a_node_whose_disk_was_full_follows_again_without_being_asked() {
    let wires = Arc::new(Wires::default());
    let simulations: Vec<_> = (1..=3).map(Platform::simulated).collect();
    let platforms = simulations.iter().map(|simulation| simulation.platform.clone());
    let nodes: Vec<_> = platforms.zip(1..).map(|(one, n)| Node::start(&wires, n, one)).collect();
    nodes[0].put("before", 0).unwrap();
    for url in ["http://node2", "http://node3"] {
        add(&nodes[0], url, false).unwrap();
    }
    let leader = leader_of(&nodes);
    let full = (leader + 1) % nodes.len();
    simulations[full].disk.space_limit(Some(0));
    let mut index = 0;
    eventually("the consensus of the node stops", || {
        // Values of different bytes, so that the compression of the journal does not help for long.
        let text: String = (0..2000).map(|at| format!("{:x}", hash(index * 2000 + at))).collect();
        let value = put("often", index, &format!(r#"{{"Object":"{text}"}}"#));
        let applied = nodes[leader].cluster.submit_and_wait(&command(value)).unwrap();
        let Outcome::CompareExchange(outcome) = applied.outcome else { panic!("{applied:?}") };
        index = outcome.index;
        nodes[full].topology().leader.is_none()
    });
    simulations[full].disk.space_limit(None);
    nodes[leader].put("after", 0).unwrap();
    eventually("the node follows again", || nodes[full].keys().contains(&"after".to_owned()));
}

#[test]
fn watchers_follow_and_never_vote() {
    let wires = Arc::new(Wires::default());
    let nodes: Vec<_> = (1..=2).map(|n| Node::start(&wires, n, Platform::memory())).collect();
    add(&nodes[0], "http://node2", true).unwrap();
    nodes[1].put("through the watcher", 0).unwrap();
    let role = |node: &Node| node.topology().nodes[1].role;
    assert_eq!(role(&nodes[0]), Role::Watcher);
    let b = nodes[1].cluster.node_tag();
    block_on(nodes[1].cluster.change_nodes(MembershipChange::Promote { tag: b })).unwrap();
    assert_eq!(role(&nodes[0]), Role::Member);
    block_on(nodes[0].cluster.change_nodes(MembershipChange::Demote { tag: b })).unwrap();
    assert_eq!(role(&nodes[0]), Role::Watcher);
    wires.cut_off(&nodes[1].url);
    nodes[0].put("without it", 0).unwrap();
    block_on(nodes[0].cluster.change_nodes(MembershipChange::Remove { tag: b })).unwrap();
    assert_eq!(nodes[0].topology().nodes.len(), 1);
}

#[test]
fn the_last_voter_leads_when_the_leader_removes_itself() {
    let wires = Arc::new(Wires::default());
    let first = Node::start(&wires, 1, Platform::memory());
    let second = Node::start(&wires, 2, Platform::memory());
    let watcher = Node::start(&wires, 3, Platform::memory());
    add(&first, &second.url, false).unwrap();
    add(&first, &watcher.url, true).unwrap();
    let index = first.put("kept", 0).unwrap();
    let remove = |tag: &str| MembershipChange::Remove { tag: tag.parse().unwrap() };

    block_on(first.cluster.change_nodes(remove("A"))).unwrap();
    eventually("the last voter leads", || {
        second.topology().leader.is_some_and(|leader| leader.as_str() == "B")
    });
    let index = second.put("kept", index).unwrap();
    block_on(second.cluster.change_nodes(remove("C"))).unwrap();
    second.put("kept", index).unwrap();
    assert_eq!(second.topology().nodes.len(), 1);
}

#[test]
fn a_server_that_would_lose_something_does_not_join() {
    let (wires, nodes) = three();
    let refusal = |added: Result<String, ClusterError>| match added {
        Err(ClusterError::Membership { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let other = Node::start(&wires, 4, Platform::memory());
    let joined = refusal(add(&other, "http://node1", false));
    assert!(joined.contains("it belongs to a cluster with the nodes B, C"), "{joined}");
    let twice = refusal(add(&nodes[0], "http://node2", false));
    assert!(twice.contains("is the node B of this cluster already"), "{twice}");
    let itself = refusal(add(&other, "http://node4", false));
    assert!(itself.contains("is this node itself"), "{itself}");
    let absent = refusal(add(&nodes[0], "http://node9", false));
    assert!(absent.contains("http://node9 cannot be reached"), "{absent}");
    let tag = Some("C".parse().unwrap());
    let url = "http://node4".to_owned();
    let taken = MembershipChange::Add { url, tag, is_watcher: false };
    let taken = block_on(nodes[0].cluster.change_nodes(taken)).map(|tag| tag.to_string());
    let taken = refusal(taken);
    assert!(taken.contains("the cluster has a node C already"), "{taken}");
}

#[test]
fn a_node_does_not_join_itself_under_another_url() {
    let wires = Arc::new(Wires::default());
    let node = Node::start(&wires, 1, Platform::memory());
    node.put("before", 0).unwrap();
    lock(&wires.nodes).insert("http://localhost".to_owned(), Arc::downgrade(&node.cluster));
    let added = add(&node, "http://localhost", false).unwrap_err().to_string();
    assert!(added.contains("it is the node A of this cluster already"), "{added}");
    node.put("after", 0).unwrap();
    assert_eq!(node.keys(), ["after", "before"]);
}

#[test]
fn a_server_that_two_clusters_add_at_once_joins_one_of_them() {
    let wires = Arc::new(Wires::default());
    let [first, second, new] =
        [1, 2, 3].map(|number| Node::start(&wires, number, Platform::memory()));
    let added = std::thread::scope(|scope| {
        let adding = [&first, &second].map(|node| scope.spawn(|| add(node, "http://node3", false)));
        adding.map(|adding| adding.join().unwrap())
    });
    let refused: Vec<String> =
        added.iter().filter_map(|added| Some(added.as_ref().err()?.to_string())).collect();
    assert!(refused.len() == 1 && refused[0].contains("cluster"), "{added:?}");
    eventually("it has a leader", || new.topology().leader.is_some());
    let joined = if added[0].is_ok() { &first } else { &second };
    assert_eq!(new.topology().cluster, joined.topology().cluster);
    let other = if added[0].is_ok() { &second } else { &first };
    assert_eq!(other.topology().nodes.len(), 1);
}

#[test]
fn servers_that_are_added_at_once_all_become_nodes() {
    let wires = Arc::new(Wires::default());
    let nodes = [1, 2, 3, 4, 5].map(|number| Node::start(&wires, number, Platform::memory()));
    let tags = std::thread::scope(|scope| {
        let adding = [2, 3, 4, 5].map(|number| {
            let first = &nodes[0];
            scope.spawn(move || add(first, &format!("http://node{number}"), false).unwrap())
        });
        adding.map(|adding| adding.join().unwrap())
    });
    let tags: BTreeSet<String> = tags.into_iter().collect();
    assert_eq!(tags.into_iter().collect::<Vec<_>>(), ["B", "C", "D", "E"]);
    eventually("all vote", || {
        let topology = nodes[0].topology();
        topology.nodes.iter().filter(|node| node.role == Role::Member).count() == 5
    });
}

#[test]
fn reads_wait_for_the_next_leader_and_what_has_an_id_is_sent_to_it() {
    let (wires, mut nodes) = three();
    let leader = leader_of(&nodes);
    let other = (leader + 1) % nodes.len();
    // A paused leader takes connections and never answers.
    wires.pause(&nodes[leader].url);
    let began = Instant::now();
    let value = command(put("paused", 0, "{}"));
    let submission = nodes[other].cluster.submit(&value, Some("the request")).unwrap();
    block_on(nodes[other].cluster.catch_up()).unwrap();
    let applied = submission.wait().unwrap();
    let Outcome::CompareExchange(outcome) = applied.outcome else { panic!("{applied:?}") };
    assert!(outcome.is_successful, "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    wires.resume();
    assert!(nodes[other].keys().contains(&"paused".to_owned()));
    // A leader that is gone refuses connections.
    let leader = leader_of(&nodes);
    nodes.remove(leader).crash();
    for node in &nodes {
        block_on(node.cluster.catch_up()).unwrap();
    }
}
