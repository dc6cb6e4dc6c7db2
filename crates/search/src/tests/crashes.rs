//! Power cuts: an index recovers completely, at the end of a batch.

use platform::simulated::{Random, Survival};

use super::{Bench, Fields, apply, entry};
use crate::{IndexBatch, IndexReader, SearchError, check};

/// Power cuts per run of the test.
const CUTS: u64 = 500;

/// Batch `number` puts and deletes some documents.
fn index(
    environment: &std::sync::Arc<storage::Environment>,
    number: u64,
) -> Result<(), SearchError> {
    let mut fields = Fields::load(environment);
    let mut batch = IndexBatch::new();
    let (name, age, body) = (fields.name.clone(), fields.age.clone(), fields.body.clone());
    for change in 0..(number * 7 % 40 + 1) {
        let document = (number * 13 + change * 29) % 97;
        let id = format!("d/{document}");
        if (number + change) % 5 == 4 {
            batch.delete(&id)?;
            continue;
        }
        let entries: Vec<_> = (0..1 + change % 3)
            .map(|part| {
                entry(|entry| {
                    entry.text(&name, &format!("name {}", document % 7));
                    entry.number(&age, &number.to_string(), number as i64, number as f64);
                    entry.text(&body, &format!("word{part} word{} common common", change % 11));
                })
            })
            .collect();
        batch.put(&id, &entries)?;
    }
    batch.put("number", &[entry(|entry| entry.text(&name, &number.to_string()))])?;
    apply(environment, &mut fields, &mut batch).map(drop)
}

/// The last batch that is in the index.
fn last_batch(environment: &std::sync::Arc<storage::Environment>) -> u64 {
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let entries = reader.entries_of("number").expect("reads");
    let Some(entry) = entries.first() else { return 0 };
    let terms = reader.entry(*entry).expect("reads").expect("is there").fields().expect("reads");
    match &terms[0].terms[0] {
        crate::TermValue::Text(number) => number.parse().expect("a number"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_index_survives_power_cuts_whole() {
    let mut random = Random::new(4712);
    for seed in 0..CUTS / 10 {
        let bench = Bench::new(seed);
        let mut acknowledged = 0;
        for _cut in 0..10 {
            let survivals =
                [Survival::Nothing, Survival::Prefix, Survival::RandomSubset, Survival::Garbled];
            let survival = survivals[(random.next_u64() % 4) as usize];
            let disk = &bench.simulation.disk;
            disk.cut_power_at_operation(1 + random.next_u64() % 60, survival);
            if let Ok(environment) = bench.try_open() {
                for number in acknowledged + 1..acknowledged + 40 {
                    if index(&environment, number).is_err() {
                        break;
                    }
                    acknowledged = number;
                    if random.next_u64().is_multiple_of(6) && environment.flush().is_err() {
                        break;
                    }
                }
            }
            disk.restart().expect("restarts");
            let environment = bench.open();
            check(&environment.read()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let last = last_batch(&environment);
            assert!(
                last == acknowledged || last == acknowledged + 1,
                "{last} after {acknowledged}"
            );
            acknowledged = last;
        }
    }
}
