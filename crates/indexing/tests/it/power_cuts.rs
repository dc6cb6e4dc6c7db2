//! Indexing that is interrupted anywhere ends with the entries of an undisturbed index.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::BTreeMap;

use indexing::{Index, IndexKind};
use model::IndexDefinition;
use platform::simulated::Random;
use platform::{Platform, simulated::Simulation};
use search::{IndexReader, TermValue};

use crate::fixture::{Documents, cut_power_soon};

const HISTORIES: u64 = 50;
/// Power cuts of one history.
const CUTS: u64 = 10;
const USERS: u64 = 30;
const COMPANIES: u64 = 5;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 40;
/// Terms of a field, more than there can be.
const TERMS_MAX: usize = 10_000;

const MAP: &str = "from u in docs.Users \
                   let c = LoadDocument(u.Company, \"Companies\") \
                   from t in u.Tags \
                   select new { u.Name, Tag = t, c.City }";

impl Documents {
    fn change(&self, random: &mut Random) {
        let mut below = |limit: u64| random.next_u64() % limit;
        let is_company = below(4) == 0;
        let (collection, number) = match is_company {
            true => ("Companies", below(COMPANIES)),
            false => ("Users", below(USERS)),
        };
        let id = format!("{collection}/{number}");
        if below(6) == 0 {
            return self.delete(&id);
        }
        let tags: Vec<_> = (0..below(4)).map(|tag| format!("\"t{}\"", tag * 7 % 5)).collect();
        let (name, company, city) = (below(9), below(COMPANIES + 1), below(4));
        let json = format!(
            r#"{{"Name":"n{name}","Company":"companies/{company}","City":"c{city}",
                "Tags":[{}],"@metadata":{{"@collection":"{collection}"}}}}"#,
            tags.join(",")
        );
        self.put(&id, &json);
    }

    fn open_index(&self, platform: &Platform) -> Option<Index> {
        let definition = IndexDefinition {
            name: "I".to_owned(),
            maps: vec![MAP.to_owned()],
            ..IndexDefinition::default()
        };
        self.open(platform, &IndexKind::Static(Box::new(definition)))
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
            cut_power_soon(&simulation, &mut random, OPERATIONS_MAX);
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
