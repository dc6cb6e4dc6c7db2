//! A hub, from which sinks pull, and to which they send: with filters, cuts and power cuts.

use std::collections::BTreeMap;

use documents::Source;
use model::{AllowedPaths, AttachmentName, ChangeVector, NodeTag};
use proptest::prelude::*;
use replication::{Arrived, LinkFilter, LinkKind, Message, Pull, Puller, Sender};
use storage::MemoryBudget;

use crate::world::{
    Content, LIMITS, World, append, content_of, delete, delete_range, id, id_of, increment, put,
    put_attachment,
};

/// The database of the hub.
const HUB: usize = 0;

/// A hub, and a link in each direction to each sink.
struct Star {
    world: World,
    pullers: BTreeMap<usize, Puller>,
    filters: BTreeMap<usize, LinkFilter>,
}

fn paths(paths: &[&str]) -> LinkFilter {
    LinkFilter::new([Some(AllowedPaths::new(paths.iter().copied()).unwrap())], false)
}

fn puller_of(sink: usize) -> Puller {
    Puller::new(Source { database_id: id_of(sink), node_tag: NodeTag::A }, None)
}

impl Star {
    fn new(filters: Vec<LinkFilter>, seed: u64) -> Star {
        let world = World::new(filters.len() + 1, seed);
        let filters: BTreeMap<usize, LinkFilter> = (1..).zip(filters).collect();
        let pullers = filters.keys().map(|sink| (*sink, puller_of(*sink))).collect();
        let mut star = Star { world, pullers, filters };
        let sinks: Vec<usize> = star.filters.keys().copied().collect();
        sinks.into_iter().for_each(|sink| star.begin(sink));
        star
    }

    /// A sink begins to send, with the filter that it has now.
    fn begin(&mut self, sink: usize) {
        let sender =
            Sender::new(LinkKind::SinkToHub, id_of(sink), "edge".to_owned(), String::new());
        let sender = sender.filtered(self.filters[&sink].clone());
        self.world.nodes[sink].senders.insert(HUB, sender);
    }

    /// A sink asks, and receives the answer, unless that is lost; `false` if there was nothing.
    fn pull(&mut self, sink: usize, is_lost: bool) -> bool {
        let bytes = self.pullers[&sink].next_pull().to_bytes();
        let Ok(Message::Pull(pull)) = Message::read(&bytes) else { panic!("another message") };
        let outgoing = {
            let tx = self.world.nodes[HUB].read();
            let sender =
                Sender::new(LinkKind::HubToSink, id_of(HUB), "hub".to_owned(), String::new());
            let sender = sender.filtered(self.filters[&sink].clone());
            let mut share = MemoryBudget::unlimited().share(0);
            sender.resumed(id_of(HUB), &pull).next_message(&tx, None, LIMITS, &mut share).unwrap()
        };
        let Some(outgoing) = outgoing else { return false };
        let message = Message::read(&outgoing.bytes).unwrap();
        if let Message::Batch(batch) = &message {
            assert!(self.filters[&sink].admits(batch));
        }
        let arrived = Arrived::of(&message);
        let reply = self.world.deliver(sink, &outgoing.bytes);
        let puller = self.pullers.get_mut(&sink).unwrap();
        match is_lost {
            true => puller.lost(),
            false => puller.take(arrived, reply).unwrap(),
        }
        true
    }

    fn settle(&mut self) {
        let sinks: Vec<usize> = self.filters.keys().copied().collect();
        for _ in 0..1000 {
            let mut has_moved = false;
            for sink in &sinks {
                while self.pull(*sink, false) {
                    has_moved = true;
                }
                while self.world.step(*sink, HUB).is_some() {
                    has_moved = true;
                }
            }
            if !has_moved {
                return;
            }
        }
        panic!("it never ends");
    }

    fn content(&self, node: usize) -> Content {
        content_of(&self.world.nodes[node].read()).unwrap()
    }

    fn has(&self, node: usize, document: &str) -> bool {
        let content = self.content(node);
        content.documents.get(document).is_some_and(|version| version.json.is_some())
    }

    fn contained(&self, node: usize) -> ChangeVector {
        documents::contained(&self.world.nodes[node].read()).unwrap()
    }

    fn write(&mut self, node: usize, document: &str) {
        self.world.execute(node, vec![put(document, "{}")]);
    }
}

#[test]
fn a_sink_pulls_everything_of_a_document() {
    let mut star = Star::new(vec![LinkFilter::default()], 1);
    star.world.execute(HUB, vec![put("a/1", r#"{"N":1}"#)]);
    star.world.execute(HUB, vec![put_attachment("a/1", "photo", "content")]);
    star.world.execute(HUB, vec![increment("a/1", "likes", 3)]);
    star.world.execute(HUB, vec![append("a/1", "beat", &[(1, 2.0), (3, 4.0)])]);
    star.settle();
    star.world.execute(1, vec![increment("a/1", "likes", 4)]);
    star.settle();
    assert_eq!(star.world.agreed().counted("a/1", "likes"), 7);
    // Without a filter each knows what the other one contains.
    let (hub, sink) = (star.contained(HUB), star.contained(1));
    assert!(hub.covers(&sink) && sink.covers(&hub));
    star.world.execute(HUB, vec![delete("a/1")]);
    star.settle();
    assert!(!star.has(1, "a/1"));
}

#[test]
fn what_is_not_let_through_stays_and_nobody_claims_to_have_it() {
    let mut star = Star::new(vec![paths(&["a/*"]), paths(&["b/*"])], 2);
    for (node, document) in [(HUB, "a/1"), (HUB, "b/1"), (HUB, "c/1"), (1, "a/2"), (1, "c/2")] {
        star.write(node, document);
    }
    star.settle();
    assert!(star.has(1, "a/1") && !star.has(1, "b/1") && !star.has(1, "c/1"));
    assert!(star.has(2, "b/1") && !star.has(2, "a/1") && !star.has(2, "a/2"));
    assert!(star.has(HUB, "a/2") && !star.has(HUB, "c/2"));
    for (one, other) in [(HUB, 1), (1, HUB), (2, HUB)] {
        assert_eq!(star.contained(one).etag_of(id_of(other)), model::Etag::ZERO);
    }
    // A filter that lets more through begins again.
    star.filters.insert(1, paths(&["a/*", "c/*"]));
    star.begin(1);
    star.settle();
    assert!(star.has(1, "c/1") && star.has(HUB, "c/2") && !star.has(1, "b/1"));
}

/// Whoever knows a hash gets its content with what passes alone.
#[test]
fn a_content_is_sent_with_something_that_passes_alone() {
    let mut star = Star::new(vec![paths(&["a/*"])], 4);
    star.write(HUB, "a/1");
    star.world.execute(HUB, vec![put_attachment("a/1", "photo", "open")]);
    star.write(HUB, "b/1");
    star.world.execute(HUB, vec![put_attachment("b/1", "photo", "secret")]);
    star.settle();
    let hash = |document: &str| {
        let (tx, name) = (star.world.nodes[HUB].read(), AttachmentName::new("photo").unwrap());
        let attachment = documents::attachment(&tx, &id(document), &name).unwrap().unwrap();
        attachment.hash()
    };
    for (document, is_sent) in [("a/1", true), ("b/1", false)] {
        let pull = Pull {
            accepted: model::Etag::ZERO,
            change_vector: ChangeVector::empty(),
            wanted: Some((hash(document), 0)),
            ..star.pullers[&1].next_pull()
        };
        let tx = star.world.nodes[HUB].read();
        let sender = Sender::new(LinkKind::HubToSink, id_of(HUB), "hub".to_owned(), String::new());
        let sender = sender.filtered(star.filters[&1].clone());
        let mut share = MemoryBudget::unlimited().share(0);
        let mut sender = sender.resumed(id_of(HUB), &pull);
        let answer = sender.next_message(&tx, None, LIMITS, &mut share).unwrap().unwrap();
        match Message::read(&answer.bytes).unwrap() {
            Message::Content(piece) => assert!(is_sent && piece.bytes == b"open"),
            Message::Batch(_) => assert!(!is_sent, "{document}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn deletions_that_are_not_taken_are_not_sent() {
    let filter = LinkFilter::new([None], true);
    let mut star = Star::new(vec![filter], 3);
    star.write(1, "a/1");
    star.settle();
    star.world.execute(1, vec![delete("a/1"), put("a/2", "{}")]);
    star.settle();
    assert!(star.has(HUB, "a/1") && star.has(HUB, "a/2") && !star.has(1, "a/1"));
}

/// What is appended later is in a segment that no longer has what was deleted before.
#[test]
fn entries_that_a_sink_has_deleted_stay_at_a_hub_that_takes_no_deletions() {
    let mut star = Star::new(vec![LinkFilter::new([None], true)], 3);
    star.world.refuses_deletions = true;
    star.write(1, "a/1");
    star.world.execute(1, vec![append("a/1", "heart", &[(10, 1.0), (20, 2.0), (30, 3.0)])]);
    star.settle();
    star.world.execute(1, vec![delete_range("a/1", "heart", 15, 25)]);
    star.world.execute(1, vec![append("a/1", "heart", &[(5, 0.5), (30, 9.0), (40, 4.0)])]);
    star.settle();
    let series = content_of(&star.world.nodes[HUB].read()).unwrap().series;
    let moments: Vec<i64> = series.values().flatten().map(|entry| entry.0).collect();
    assert_eq!(moments, [5, 10, 20, 30, 40]);
}

#[derive(Clone, Debug)]
enum Event {
    Put { node: usize, document: usize, value: u8 },
    Delete { node: usize, document: usize },
    Count { node: usize, document: usize },
    Attach { node: usize, document: usize, content: u8 },
    Pull { sink: usize, is_lost: bool },
    Send { sink: usize },
    Unanswered { sink: usize },
    Restart { node: usize },
}

const DOCUMENTS: [&str; 4] = ["a/1", "a/2", "b/1", "c/1"];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (node, sink, document) = (0..3_usize, 1..3_usize, 0..DOCUMENTS.len());
    let event = prop_oneof![
        4 => (node.clone(), document.clone(), any::<u8>())
            .prop_map(|(node, document, value)| Event::Put { node, document, value }),
        1 => (node.clone(), document.clone())
            .prop_map(|(node, document)| Event::Delete { node, document }),
        1 => (node.clone(), document.clone())
            .prop_map(|(node, document)| Event::Count { node, document }),
        1 => (node.clone(), document, 0..3_u8)
            .prop_map(|(node, document, content)| Event::Attach { node, document, content }),
        4 => (sink.clone(), prop::bool::weighted(0.2))
            .prop_map(|(sink, is_lost)| Event::Pull { sink, is_lost }),
        3 => sink.clone().prop_map(|sink| Event::Send { sink }),
        1 => sink.prop_map(|sink| Event::Unanswered { sink }),
        1 => node.prop_map(|node| Event::Restart { node }),
    ];
    prop::collection::vec(event, 1..60)
}

fn run(star: &mut Star, event: &Event) {
    match event {
        Event::Put { node, document, value } => {
            let json = format!("{{\"N\":{value}}}");
            star.world.execute(*node, vec![put(DOCUMENTS[*document], &json)]);
        }
        Event::Delete { node, document } => {
            star.world.execute(*node, vec![delete(DOCUMENTS[*document])]);
        }
        // Without its document it is an error.
        Event::Count { node, document } => {
            drop(star.world.try_execute(*node, vec![increment(DOCUMENTS[*document], "n", 1)]));
        }
        Event::Attach { node, document, content } => {
            let put = put_attachment(DOCUMENTS[*document], "x", &format!("content {content}"));
            drop(star.world.try_execute(*node, vec![put]));
        }
        Event::Pull { sink, is_lost } => drop(star.pull(*sink, *is_lost)),
        Event::Send { sink } => drop(star.world.step(*sink, HUB)),
        Event::Unanswered { sink } => {
            if let Some(message) = star.world.next_message(*sink, HUB) {
                star.world.deliver(HUB, &message.bytes);
            }
            star.world.nodes[*sink].senders.get_mut(&HUB).unwrap().lost();
        }
        Event::Restart { node } => {
            star.world.nodes[*node].restart();
            match star.pullers.get_mut(node) {
                Some(puller) => puller.lost(),
                None => star.pullers.values_mut().for_each(Puller::lost),
            }
        }
    }
}

/// What a node has of the documents under a prefix, without flags, which say where a version came from.
fn part(content: &Content, prefix: &str) -> Vec<String> {
    let of = |id: &str| id.starts_with(prefix);
    let documents = content.documents.iter().filter(|(id, _)| of(id));
    let documents = documents.map(|(id, version)| format!("{id} {:?}", version.json));
    let attachments = content.attachments.iter().filter(|(key, _)| of(&key.0));
    let attachments = attachments.map(|(key, (_, hash))| format!("{key:?} {hash:?}"));
    let counters = content.counters.iter().filter(|(key, _)| of(&key.0));
    let counters = counters.map(|(key, values)| format!("{key:?} {values:?}"));
    documents.chain(attachments).chain(counters).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_is_let_through_is_equal_and_the_rest_stays(events in events(), seed in 0..1000_u64) {
        let mut star = Star::new(vec![paths(&["a/*"]), paths(&["a/*", "b/*"])], seed);
        for event in &events {
            run(&mut star, event);
        }
        star.settle();
        let hub = star.content(HUB);
        for (sink, prefixes) in [(1, vec!["a/"]), (2, vec!["a/", "b/"])] {
            let content = star.content(sink);
            for prefix in prefixes {
                prop_assert_eq!(part(&hub, prefix), part(&content, prefix), "{} at {}", prefix, sink);
            }
        }
        let wrote = |node: usize, document: usize| events.iter().any(|event| {
            matches!(event, Event::Put { node: of, document: at, .. } if (*of, *at) == (node, document))
        });
        for sink in 1..3 {
            let c = wrote(sink, 3);
            prop_assert!(c || !star.has(sink, "c/1"), "c/1 at {}", sink);
        }
        prop_assert!(wrote(HUB, 3) || !star.has(HUB, "c/1"));
    }
}
