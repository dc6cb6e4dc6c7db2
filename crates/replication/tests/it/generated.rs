//! Generated histories: writes on any node, links that are cut, messages that arrive twice, late or never, and power cuts.
//!
//! Whatever happens, all nodes are equal at the end, and what they agree on is what the naive model says: of all versions
//! of a document that no other one was written over, the highest.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::world::{World, content_of, delete, put};

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
        8 => pair().prop_map(|(from, to)| Event::Step { from, to }),
        1 => pair().prop_map(|(from, to)| Event::Unanswered { from, to }),
        1 => pair().prop_map(|(from, to)| Event::Delay { from, to }),
        1 => node().prop_map(|to| Event::Late { to }),
        1 => node().prop_map(|node| Event::Restart { node }),
        1 => (node(), -60..60_i64).prop_map(|(node, ticks)| Event::Skew { node, ticks }),
    ]
}

fn run(events: &[Event], seed: u64) -> World {
    let mut world = World::new(NODES, seed);
    let mut kept: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for event in events {
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
        let mut world = run(&events, u64::from(seed));
        world.settle();
        let agreed = world.agreed();
        // Nothing was made up: every document that is there was written.
        let written: BTreeSet<u8> = events.iter().flat_map(|event| match event {
            Event::Put { document, .. } => vec![*document],
            Event::Together { documents, .. } => documents.clone(),
            _ => Vec::new(),
        }).collect();
        let documents: BTreeSet<u8> = agreed.documents.keys()
            .map(|id| id.strip_prefix("d/").unwrap().parse().unwrap()).collect();
        prop_assert_eq!(written, documents);
        // Once more everything, in another order: nothing changes.
        for node in &mut world.nodes {
            node.senders.values_mut().for_each(replication::Sender::lost);
        }
        world.settle();
        prop_assert_eq!(content_of(&world.nodes[0].read()).unwrap(), agreed);
    }
}
