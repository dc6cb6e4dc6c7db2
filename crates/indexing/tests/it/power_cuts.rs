//! Indexing that is interrupted anywhere goes on to the entries that an undisturbed index has.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::BTreeMap;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use blittable::{ParseLimits, parse_document};
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext, initialize,
};
use indexing::{Index, IndexContext, IndexKind};
use model::{DatabaseId, DocumentId};
use platform::simulated::{Random, Survival};
use platform::{Platform, simulated::Simulation};
use script::ScriptPool;
use search::{IndexReader, TermValue};
use storage::{Environment, EnvironmentOptions};
use wire::IndexDefinition;

const HISTORIES: u64 = 50;
/// Power cuts of one history.
const CUTS: u64 = 10;
const USERS: u64 = 30;
const COMPANIES: u64 = 5;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 40;
/// How long an index waits for room before somebody makes some.
const FLUSH_INTERVAL: Duration = Duration::from_millis(20);
/// Terms of a field, more than there can be.
const TERMS_MAX: usize = 10_000;

const MAP: &str = "from u in docs.Users \
                   let c = LoadDocument(u.Company, \"Companies\") \
                   from t in u.Tags \
                   select new { u.Name, Tag = t, c.City }";

/// The documents; they are never lost.
struct Documents {
    platform: Platform,
    environment: Arc<Environment>,
}

impl Documents {
    fn new() -> Self {
        let platform = Platform::memory();
        let options = EnvironmentOptions::new("database");
        let environment = Environment::open(&platform, options).unwrap();
        let mut tx = environment.write().unwrap();
        let identity =
            DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: "A".parse().unwrap() };
        initialize(&mut tx, identity).unwrap();
        tx.commit().unwrap();
        Self { platform, environment }
    }

    fn write(&self, work: impl FnOnce(&mut DocumentWriter<'_>)) {
        let mut tx = self.environment.write().unwrap();
        let entropy = self.platform.entropy.as_ref();
        let context = WriteContext { now: self.platform.clock.now(), entropy };
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        work(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    fn change(&self, random: &mut Random) {
        let mut below = |limit: u64| random.next_u64() % limit;
        let is_company = below(4) == 0;
        let (collection, number) = match is_company {
            true => ("Companies", below(COMPANIES)),
            false => ("Users", below(USERS)),
        };
        let id = format!("{collection}/{number}");
        if below(6) == 0 {
            let id = DocumentId::new(id).unwrap();
            self.write(|writer| drop(writer.delete(&id, &ExpectedVersion::Any).unwrap()));
            return;
        }
        let tags: Vec<_> = (0..below(4)).map(|tag| format!("\"t{}\"", tag * 7 % 5)).collect();
        let (name, company, city) = (below(9), below(COMPANIES + 1), below(4));
        let json = format!(
            r#"{{"Name":"n{name}","Company":"companies/{company}","City":"c{city}",
                "Tags":[{}],"@metadata":{{"@collection":"{collection}"}}}}"#,
            tags.join(",")
        );
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        self.write(|writer| drop(writer.put(&id, &ExpectedVersion::Any, &body).unwrap()));
    }

    fn open_index(&self, platform: &Platform) -> Option<Index> {
        let definition = IndexDefinition {
            name: "I".to_owned(),
            maps: vec![MAP.to_owned()],
            ..IndexDefinition::default()
        };
        let context = IndexContext {
            platform: platform.clone(),
            documents: Arc::clone(&self.environment),
            environment: EnvironmentOptions {
                journal_bytes_max: 256 << 10,
                ..EnvironmentOptions::new("/index")
            },
            scripts: ScriptPool::new(Arc::clone(&self.platform.clock)),
        };
        Index::open("I", IndexKind::Static(Box::new(definition)), context).ok()
    }

    /// Waits until the index has everything, or has failed.
    fn follow(&self, index: &Index) -> bool {
        index.notice_changes();
        let last = index.last_etag_in(&self.environment.read()).unwrap();
        let (sender, receiver) = mpsc::channel();
        index.when_indexed(last, Box::new(move |reached| sender.send(reached).unwrap_or(())));
        loop {
            match receiver.recv_timeout(FLUSH_INTERVAL) {
                Ok(reached) => return reached,
                Err(RecvTimeoutError::Disconnected) => return false,
                // Nobody else flushes here; a disk without power is told by the next commit.
                Err(RecvTimeoutError::Timeout) => drop(index.environment().flush()),
            }
        }
    }
}

/// All that an index says: the terms of each field with their counts, and the terms of each document.
fn content_of(index: &Index) -> (Vec<String>, BTreeMap<String, Vec<Vec<TermValue>>>) {
    let tx = index.read();
    search::check(&tx).unwrap();
    let reader = IndexReader::open(&tx).unwrap();
    let (mut terms, mut documents) = (Vec::new(), BTreeMap::new());
    for name in ["Name", "Tag", "City"] {
        let Some(field) = reader.field(name).unwrap() else { continue };
        for term in reader.terms(field, None, TERMS_MAX).unwrap() {
            terms.push(format!("{name} {:?} {}", term.value, term.entries));
        }
        for number in 0..USERS {
            let id = format!("users/{number}");
            for entry in reader.entries_of(&id).unwrap() {
                let view = reader.entry(entry).unwrap().unwrap();
                let own: &mut Vec<_> = documents.entry(format!("{id} {name}")).or_default();
                own.push(view.terms(field).unwrap());
            }
        }
    }
    documents.values_mut().for_each(|entries| entries.sort_by_key(|terms| format!("{terms:?}")));
    (terms, documents)
}

#[test]
fn indexing_that_is_interrupted_anywhere_comes_to_the_same_entries() {
    let mut interrupted = 0;
    for seed in 1..=HISTORIES {
        let mut random = Random::new(seed);
        let simulation: Simulation = Platform::simulated(seed);
        let documents = Documents::new();
        for _ in 0..CUTS {
            (0..20).for_each(|_| documents.change(&mut random));
            let survivals = [
                Survival::Nothing,
                Survival::Everything,
                Survival::Prefix,
                Survival::RandomSubset,
                Survival::Garbled,
            ];
            let survival = survivals[(random.next_u64() % 5) as usize];
            let operations = 1 + random.next_u64() % OPERATIONS_MAX;
            simulation.disk.cut_power_at_operation(operations, survival);
            if let Some(index) = documents.open_index(&simulation.platform) {
                while documents.follow(&index) && !simulation.disk.is_power_lost() {
                    documents.change(&mut random);
                }
                index.close();
            }
            interrupted += 1;
            simulation.disk.restart().unwrap();
        }
        let resumed = documents.open_index(&simulation.platform).unwrap();
        assert!(documents.follow(&resumed), "seed {seed}: {:?}", resumed.failure());
        let undisturbed = documents.open_index(&Platform::memory()).unwrap();
        assert!(documents.follow(&undisturbed));
        assert_eq!(content_of(&resumed), content_of(&undisturbed), "seed {seed}");
    }
    assert_eq!(interrupted, HISTORIES * CUTS);
}
