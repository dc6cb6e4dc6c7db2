//! Generated histories: writes on any node, links that are cut, messages that arrive twice, late or never, and power cuts.
//!
//! Whatever happens, all nodes are equal at the end, and what they agree on is what the naive model says: of all versions
//! of a document that no other one was written over, the highest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use model::{ChangeVector, Comparison, RevisionsConfiguration, RevisionsRule};

use crate::world::{
    World, append, content_of, delete, delete_attachment, delete_counter, delete_range, increment,
    put, put_attachment, version_of,
};

#[derive(Clone, Debug)]
enum Event {
    Put {
        node: usize,
        document: u8,
        value: u8,
    },
    Delete {
        node: usize,
        document: u8,
    },
    Increment {
        node: usize,
        document: u8,
        by: i64,
    },
    DeleteCounter {
        node: usize,
        document: u8,
    },
    /// A counter of a document that is never deleted, and that is itself never deleted.
    Count {
        node: usize,
        by: i64,
    },
    Attach {
        node: usize,
        document: u8,
        content: u8,
    },
    Detach {
        node: usize,
        document: u8,
    },
    Append {
        node: usize,
        document: u8,
        moment: i64,
        count: u8,
        value: u8,
    },
    DeleteRange {
        node: usize,
        document: u8,
        from: i64,
        length: i64,
    },
    /// Several changes as one transaction.
    Together {
        node: usize,
        documents: Vec<u8>,
        value: u8,
    },
    /// A message arrives, and its answer.
    Step {
        from: usize,
        to: usize,
    },
    /// A message arrives, and its answer does not.
    Unanswered {
        from: usize,
        to: usize,
    },
    /// A message is kept, to arrive later.
    Delay {
        from: usize,
        to: usize,
    },
    /// The oldest message that was kept arrives.
    Late {
        to: usize,
    },
    Restart {
        node: usize,
    },
    Skew {
        node: usize,
        ticks: i64,
    },
}

const NODES: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    let node = || 0..NODES;
    let document = || 0..4_u8;
    let pair = || (0..NODES, 1..NODES).prop_map(|(from, by)| (from, (from + by) % NODES));
    prop_oneof![
        4 => (node(), document(), 0..3_u8)
            .prop_map(|(node, document, value)| Event::Put { node, document, value }),
        1 => (node(), document()).prop_map(|(node, document)| Event::Delete { node, document }),
        1 => (node(), prop::collection::vec(document(), 1..8), 3..5_u8)
            .prop_map(|(node, documents, value)| Event::Together { node, documents, value }),
        2 => (node(), document(), 1..9_i64)
            .prop_map(|(node, document, by)| Event::Increment { node, document, by }),
        1 => (node(), document())
            .prop_map(|(node, document)| Event::DeleteCounter { node, document }),
        2 => (node(), 1..1000_i64).prop_map(|(node, by)| Event::Count { node, by }),
        2 => (node(), document(), 0..4_u8)
            .prop_map(|(node, document, content)| Event::Attach { node, document, content }),
        1 => (node(), document()).prop_map(|(node, document)| Event::Detach { node, document }),
        3 => (node(), document(), 0..30_i64, 1..6_u8, 0..9_u8).prop_map(
            |(node, document, moment, count, value)| Event::Append {
                node, document, moment, count, value
            }
        ),
        1 => (node(), document(), 0..30_i64, 0..9_i64).prop_map(
            |(node, document, from, length)| Event::DeleteRange { node, document, from, length }
        ),
        10 => pair().prop_map(|(from, to)| Event::Step { from, to }),
        1 => pair().prop_map(|(from, to)| Event::Unanswered { from, to }),
        1 => pair().prop_map(|(from, to)| Event::Delay { from, to }),
        1 => node().prop_map(|to| Event::Late { to }),
        1 => node().prop_map(|node| Event::Restart { node }),
        1 => (node(), -60..60_i64).prop_map(|(node, ticks)| Event::Skew { node, ticks }),
    ]
}

/// A document that every node has from the beginning, with a counter that is never deleted.
const COUNTED: &str = "counted";

/// With revisions, everything that is kept on one node is kept on all.
pub(crate) fn with_revisions() -> RevisionsConfiguration {
    RevisionsConfiguration::new(Some(RevisionsRule {
        is_disabled: false,
        count_to_keep: None,
        age_to_keep: None,
        purge_on_delete: false,
        removed_by_write_max: None,
    }))
}

/// The versions of documents that nodes have written: change vector, and time.
type Written = BTreeMap<String, Vec<(ChangeVector, i64)>>;

/// Notes what a node has now.
fn note(written: &mut Written, world: &World, node: usize) {
    let tx = world.nodes[node].read();
    for document in (0..4).map(|number| format!("d/{number}")) {
        let found = version_of(&tx, &document);
        let known = written.entry(document).or_default();
        if let Some(found) = found.filter(|found| !known.contains(found)) {
            known.push(found);
        }
    }
}

/// What the naive model says that all have in the end: a version that contains all that were written, with the time of
/// the latest of those that no other one was written over.
fn check_latest(written: &Written, world: &World) {
    let tx = world.nodes[0].read();
    for (document, versions) in written {
        let Some((last, ticks)) = version_of(&tx, document) else {
            assert!(versions.is_empty(), "{document} is gone");
            continue;
        };
        let is_over = |later: &ChangeVector, earlier: &ChangeVector| {
            later.compare(earlier) == Comparison::Update
        };
        for (version, _) in versions {
            let is_contained = version.compare(&last) == Comparison::AlreadyMerged;
            assert!(is_contained, "{document}: {last} has lost {version}");
        }
        let highest = versions
            .iter()
            .filter(|(version, _)| !versions.iter().any(|(other, _)| is_over(other, version)));
        let highest = highest.map(|(_, ticks)| *ticks).max();
        assert_eq!(Some(ticks), highest, "{document} at {last}");
    }
}

fn run(events: &[Event], seed: u64, written: &mut Written) -> World {
    let mut world = World::new(NODES, seed);
    if seed.is_multiple_of(2) {
        world.nodes.iter_mut().for_each(|node| node.revisions = with_revisions());
    }
    world.execute(0, vec![put(COUNTED, "{}")]);
    world.settle();
    let mut kept: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for event in events {
        for node in 0..NODES {
            note(written, &world, node);
        }
        match event {
            Event::Put { node, document, value } => {
                world.execute(*node, put_of(*document, *value));
            }
            Event::Delete { node, document } => {
                world.execute(*node, vec![delete(&format!("d/{document}"))]);
            }
            Event::Together { node, documents, value } => {
                let commands = documents.iter().flat_map(|document| put_of(*document, *value));
                world.execute(*node, commands.collect());
            }
            Event::Increment { node, document, by } => {
                world.execute(*node, vec![increment(&format!("d/{document}"), "n", *by)]);
            }
            Event::DeleteCounter { node, document } => {
                // Without its document it is an error.
                drop(world.try_execute(*node, vec![delete_counter(&format!("d/{document}"), "n")]));
            }
            Event::Count { node, by } => {
                world.execute(*node, vec![increment(COUNTED, "sum", *by)]);
            }
            Event::Attach { node, document, content } => {
                let (id, content) = (format!("d/{document}"), format!("content {content}"));
                drop(world.try_execute(*node, vec![put_attachment(&id, "a", &content)]));
            }
            Event::Detach { node, document } => {
                world.execute(*node, vec![delete_attachment(&format!("d/{document}"), "a")]);
            }
            Event::Append { node, document, moment, count, value } => {
                let entries: Vec<(i64, f64)> = (0..i64::from(*count))
                    .map(|at| (moment + 2 * at, f64::from(*value) + at as f64))
                    .collect();
                world.execute(*node, vec![append(&format!("d/{document}"), "s", &entries)]);
            }
            Event::DeleteRange { node, document, from, length } => {
                let id = format!("d/{document}");
                world.execute(*node, vec![delete_range(&id, "s", *from, from + length)]);
            }
            Event::Step { from, to } => drop(world.step(*from, *to)),
            Event::Unanswered { from, to } => {
                if let Some(message) = world.next_message(*from, *to) {
                    world.deliver(*to, &message.bytes);
                }
                world.nodes[*from].senders.get_mut(to).unwrap().lost();
            }
            Event::Delay { from, to } => {
                if let Some(message) = world.next_message(*from, *to) {
                    kept.entry(*to).or_default().push(message.bytes);
                }
                world.nodes[*from].senders.get_mut(to).unwrap().lost();
            }
            Event::Late { to } => {
                if let Some(bytes) = kept.get_mut(to).filter(|kept| !kept.is_empty()) {
                    let bytes = bytes.remove(0);
                    world.deliver(*to, &bytes);
                }
            }
            Event::Restart { node } => world.nodes[*node].restart(),
            Event::Skew { node, ticks } => world.nodes[*node].skew = *ticks,
        }
    }
    for node in 0..NODES {
        note(written, &world, node);
    }
    world
}

fn put_of(document: u8, value: u8) -> Vec<commands::Command> {
    let id = format!("d/{document}");
    // A document whose collection may change, and others.
    let collection = if document == 3 { value % 2 } else { 0 };
    let json = format!(r#"{{"Value":{value},"@metadata":{{"@collection":"C{collection}"}}}}"#);
    match document {
        3 => vec![delete(&id), put(&id, &json)],
        _ => vec![put(&id, &json)],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn all_nodes_are_equal_at_the_end(
        events in prop::collection::vec(event(), 1..60), seed in any::<u32>()
    ) {
        let mut versions = Written::new();
        let mut world = run(&events, u64::from(seed), &mut versions);
        world.settle();
        let agreed = world.agreed();
        check_latest(&versions, &world);
        // Nothing was made up: every document that is there was written.
        let written: BTreeSet<u8> = events.iter().flat_map(|event| match event {
            Event::Put { document, .. } => vec![*document],
            Event::Together { documents, .. } => documents.clone(),
            _ => Vec::new(),
        }).collect();
        let documents: BTreeSet<u8> = agreed.documents.keys()
            .filter_map(|id| id.strip_prefix("d/")?.parse().ok()).collect();
        prop_assert_eq!(written, documents);
        let counted: i64 = events.iter().map(|event| match event {
            Event::Count { by, .. } => *by,
            _ => 0,
        }).sum();
        prop_assert_eq!(agreed.counted(COUNTED, "sum"), counted);
        // Once more everything, in another order: nothing changes.
        for node in &mut world.nodes {
            node.senders.values_mut().for_each(replication::Sender::lost);
        }
        world.settle();
        let again = content_of(&world.nodes[0].read()).unwrap();
        prop_assert_eq!(again.difference(&agreed), None);
    }
}
