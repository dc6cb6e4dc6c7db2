//! Which listener is notified of what, checked against a model that asks every listener about every event.

use documents::{CounterChange, CounterChangeKind, DocumentChange, DocumentChangeKind};
use indexing::IndexChange;
use model::{CollectionName, DocumentId};
use platform::{Timestamp, simulated::Random};

use super::*;

const HISTORIES: u64 = 300;
const STEPS: u64 = 120;
const IDS: [&str; 5] = ["a", "A/1", "a/12", "b/1", "b/é"];
const NAMES: [&str; 3] = ["One", "oNE", "Two"];

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[(random.next_u64() % of.len() as u64) as usize]
}

fn some_event(random: &mut Random) -> Event {
    let id = DocumentId::new(pick(random, &IDS)).unwrap();
    let name = pick(random, &NAMES);
    match random.next_u64() % 4 {
        0 => Event::Index { name: name.to_owned(), change: IndexChange::BatchCompleted },
        1 => Event::Data(Change::Counter(CounterChange {
            kind: CounterChangeKind::Put,
            name: name.to_owned(),
            value: 1,
            document_id: id,
            collection: CollectionName::new(name).unwrap(),
            change_vector: "A:1-x".to_owned(),
        })),
        _ => Event::Data(Change::Document(DocumentChange {
            kind: DocumentChangeKind::Put,
            id,
            collection: CollectionName::new(name).unwrap(),
            change_vector: None,
        })),
    }
}

fn some_watch(random: &mut Random) -> Watch {
    let id = pick(random, &["a", "a/1", "b/é", "none"]).to_owned();
    let name = pick(random, &["one", "two"]).to_owned();
    match random.next_u64() % 12 {
        0..=3 => Watch::Documents,
        4 => Watch::Document(id),
        5 => Watch::Prefix(pick(random, &["", "a", "a/", "b/é", "b/é/", "A"]).to_lowercase()),
        6 => Watch::Collection(name),
        7 => Watch::Indexes,
        8 => Watch::Index(name),
        9 => Watch::Counters,
        10 => Watch::CountersOf(id),
        _ => Watch::CounterOf(id, name),
    }
}

fn concerns(watch: &Watch, event: &Event) -> bool {
    match (watch, event) {
        (Watch::Documents, Event::Data(Change::Document(_)))
        | (Watch::Indexes, Event::Index { .. })
        | (Watch::Counters, Event::Data(Change::Counter(_))) => true,
        (Watch::Document(id), Event::Data(Change::Document(change))) => {
            change.id.lower_cased() == id
        }
        (Watch::Prefix(prefix), Event::Data(Change::Document(change))) => {
            change.id.lower_cased().starts_with(prefix)
        }
        (Watch::Collection(name), Event::Data(Change::Document(change))) => {
            change.collection.as_str().to_lowercase() == *name
        }
        (Watch::Index(watched), Event::Index { name, .. }) => name.to_lowercase() == *watched,
        (Watch::CountersOf(id), Event::Data(Change::Counter(change))) => {
            change.document_id.lower_cased() == id
        }
        (Watch::CounterOf(id, name), Event::Data(Change::Counter(change))) => {
            change.document_id.lower_cased() == id && change.name.to_lowercase() == *name
        }
        _ => false,
    }
}

/// A listener, its watches, and the notifications it should have received.
struct Modelled {
    listener: Arc<Listener>,
    watches: Vec<Watch>,
    expected: Vec<String>,
}

impl Modelled {
    fn take_received(&self) -> Vec<String> {
        let mut received = Vec::new();
        while let Some(message) = self.listener.take_message(50, false) {
            let message = message.strip_prefix('[').unwrap().strip_suffix(']').unwrap();
            received
                .extend(message.split("},{").map(|one| one.trim_matches(['{', '}']).to_owned()));
        }
        received
    }
}

fn listen(hub: &Arc<ChangesHub>, dispatcher: &mut Option<Dispatcher>) -> Modelled {
    listen_within(hub, dispatcher, &ListenerBudget::new(usize::MAX))
}

fn listen_within(
    hub: &Arc<ChangesHub>,
    dispatcher: &mut Option<Dispatcher>,
    budget: &Arc<ListenerBudget>,
) -> Modelled {
    let options = ListenerOptions {
        queued_bytes_max: usize::MAX,
        budget: ListenerBudget::new(usize::MAX),
        watch_budget: Arc::clone(budget),
        only_last: false,
        began: Timestamp::from_ticks(0),
    };
    let begin = |begun| -> Wake {
        *dispatcher = Some(begun);
        Box::new(|| ())
    };
    let listener = hub.listen(options, Box::new(|| ()), begin).unwrap();
    Modelled { listener, watches: Vec::new(), expected: Vec::new() }
}

#[test]
fn every_listener_is_notified_of_what_it_watches_once_and_in_order() {
    for seed in 0..HISTORIES {
        let mut random = Random::new(seed);
        let hub = Arc::new(ChangesHub::default());
        let mut dispatcher = None;
        let mut listeners = vec![listen(&hub, &mut dispatcher)];
        for _ in 0..STEPS {
            match random.next_u64() % 10 {
                0 => listeners.push(listen(&hub, &mut dispatcher)),
                1 if listeners.len() > 1 => {
                    let place = (random.next_u64() % listeners.len() as u64) as usize;
                    let gone = listeners.swap_remove(place);
                    hub.leave(&gone.listener);
                }
                2..=4 => {
                    let place = (random.next_u64() % listeners.len() as u64) as usize;
                    let (one, watch) = (&mut listeners[place], some_watch(&mut random));
                    if random.next_u64().is_multiple_of(3) {
                        hub.unwatch(&one.listener, &watch);
                        one.watches.retain(|known| *known != watch);
                    } else {
                        hub.watch(&one.listener, watch.clone()).unwrap();
                        one.watches.push(watch);
                    }
                }
                _ => {
                    let count = 1 + random.next_u64() % 5;
                    let events: Vec<_> = (0..count).map(|_| some_event(&mut random)).collect();
                    for event in &events {
                        let text = event.text().trim_matches(['{', '}']).to_owned();
                        for one in &mut listeners {
                            if one.watches.iter().any(|watch| concerns(watch, event)) {
                                one.expected.push(text.clone());
                            }
                        }
                    }
                    hub.put(events);
                    // The dispatcher may be late; a later watch does not cover these events.
                    if random.next_u64().is_multiple_of(2) {
                        let dispatched = dispatcher.as_mut().unwrap().dispatch();
                        assert_ne!(dispatched, Dispatched::Over);
                    }
                }
            }
            let of = |family| {
                listeners.iter().any(|one| {
                    one.watches.iter().any(|watch: &Watch| Family::concerns(family, watch))
                })
            };
            for family in Family::ALL {
                assert_eq!(hub.is_wanted(family), of(family), "seed {seed} {family:?}");
            }
        }
        dispatcher.as_mut().unwrap().dispatch();
        for one in &listeners {
            assert_eq!(one.take_received(), one.expected, "seed {seed} {:?}", one.watches);
            hub.leave(&one.listener);
        }
        assert_eq!(dispatcher.as_mut().unwrap().dispatch(), Dispatched::Over);
        let state = lock(&hub.state);
        assert!(state.index.is_empty(), "seed {seed}: nothing is left of removed listeners");
    }
}

#[test]
fn events_beyond_the_limit_end_every_listener_that_may_have_missed_one() {
    let hub = Arc::new(ChangesHub::default());
    let mut dispatcher = None;
    let one = listen(&hub, &mut dispatcher);
    hub.watch(&one.listener, Watch::Indexes).unwrap();
    let event = Event::Index { name: "I".to_owned(), change: IndexChange::Added };
    hub.put(vec![event.clone(); WAITING_EVENTS_MAX + 1]);
    hub.put([event.clone()]);
    assert!(lock(&hub.inbox).events.is_empty());
    let mut dispatcher = dispatcher.unwrap();
    dispatcher.dispatch();
    assert_eq!(one.listener.end(), Some(ListenerEnd::TooSlow));
    // Later listeners are notified again.
    let mut no_dispatcher = None;
    let other = listen(&hub, &mut no_dispatcher);
    hub.watch(&other.listener, Watch::Indexes).unwrap();
    hub.put([event]);
    dispatcher.dispatch();
    assert_eq!(other.listener.pending(), 1);
    drop(dispatcher);
    assert_eq!(
        other.listener.end(),
        Some(ListenerEnd::DatabaseClosed),
        "no dispatcher would notify it"
    );
}

#[test]
fn a_watch_begins_when_batches_that_note_nothing_have_ended() {
    let hub = Arc::new(ChangesHub::default());
    let mut dispatcher = None;
    let [one, other] = [(); 2].map(|()| listen(&hub, &mut dispatcher));
    let watch = |one: &Modelled, watch| hub.watch(&one.listener, watch).unwrap();
    assert_eq!(watch(&one, Watch::Indexes), WatchBegins::Now);
    assert!(!hub.is_listening());
    assert_eq!(watch(&one, Watch::Documents), WatchBegins::WhenSettled(1));
    assert!(hub.is_listening());
    assert_eq!(watch(&other, Watch::Documents), WatchBegins::WhenSettled(1));
    hub.settled(1);
    assert_eq!(watch(&other, Watch::Counters), WatchBegins::Now);
    hub.leave(&one.listener);
    hub.leave(&other.listener);
    assert!(!hub.is_listening());
    // A confirmation for the first beginning does not count for the second.
    let again = listen(&hub, &mut dispatcher);
    assert_eq!(watch(&again, Watch::Documents), WatchBegins::WhenSettled(2));
    hub.settled(1);
    assert_eq!(watch(&again, Watch::Counters), WatchBegins::WhenSettled(2));
}

#[test]
fn watches_of_all_listeners_share_a_budget() {
    let (hub, mut dispatcher) = (Arc::new(ChangesHub::default()), None);
    let budget = ListenerBudget::new(4 << 20);
    let watch = |number: usize| Watch::Document(format!("{number:-<1000}"));
    let mut listeners = Vec::new();
    let mut accepted = 0;
    for _ in 0..20 {
        let one = listen_within(&hub, &mut dispatcher, &budget);
        accepted += (0..1000).take_while(|n| hub.watch(&one.listener, watch(*n)).is_ok()).count();
        listeners.push(one);
    }
    assert!((1_900..2_200).contains(&accepted), "the budget, and a few of each: {accepted}");
    let newcomer = listen_within(&hub, &mut dispatcher, &budget);
    let few = (0..1000).take_while(|n| hub.watch(&newcomer.listener, watch(*n)).is_ok()).count();
    assert!((1..10).contains(&few), "a newcomer may have a few, not {few}");
    listeners.iter().for_each(|one| hub.leave(&one.listener));
    let many = (few..1000).take_while(|n| hub.watch(&newcomer.listener, watch(*n)).is_ok()).count();
    assert!(400 < many, "what the others had is free again, but {many}");
}
