//! What a map-reduce index costs, in memory: documents into 1,000 keys, and one change inside of keys of
//! growing size. `cargo run --release -p indexing --example map_reduce [rows of the largest key]`
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on should stop")]
#![expect(clippy::print_stdout, reason = "its result is printed")]

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use blittable::{ParseLimits, parse_document};
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext, initialize,
};
use indexing::{DefinitionFormat, Index, IndexContext, IndexKind, IndexingPool, NoOutputs};
use model::{DatabaseId, DocumentId, IndexDefinition};
use platform::Platform;
use script::ScriptPool;
use storage::{Environment, EnvironmentOptions};

const MAP: &str = "from o in docs.Orders select new { o.Company, o.Total, Count = 1 }";
const REDUCE: &str = "from r in results group r by r.Company into g select new { \
                      Company = g.Key, Total = g.Sum(x => x.Total), Count = g.Sum(x => x.Count) }";
const MAP_IN_JAVASCRIPT: &str =
    "map('Orders', o => ({ Company: o.Company, Total: o.Total, Count: 1 }))";
const REDUCE_IN_JAVASCRIPT: &str = "groupBy(r => r.Company).aggregate(g => ({ Company: g.key, \
    Total: g.values.reduce((a, v) => a + v.Total, 0), \
    Count: g.values.reduce((a, v) => a + v.Count, 0) }))";
const ORDERS: u64 = 100_000;
const COMPANIES: u64 = 1_000;
/// Documents written in one transaction.
const WRITTEN_TOGETHER: u64 = 1_000;
const CHANGES: u64 = 200;

struct Stage {
    platform: Platform,
    documents: Arc<Environment>,
}

impl Stage {
    fn new() -> Self {
        let platform = Platform::memory();
        let documents = Environment::open(&platform, EnvironmentOptions::new("database")).unwrap();
        let mut tx = documents.write().unwrap();
        let database_id = DatabaseId([7; 16]);
        let identity = DatabaseIdentity { database_id, node_tag: "A".parse().unwrap() };
        initialize(&mut tx, identity).unwrap();
        tx.commit().unwrap();
        Self { platform, documents }
    }

    /// Writes orders with these numbers, each of the company that `company` says.
    fn write(&self, numbers: std::ops::Range<u64>, company: impl Fn(u64) -> u64, total: u64) {
        let numbers: Vec<_> = numbers.collect();
        for together in numbers.chunks(WRITTEN_TOGETHER as usize) {
            let mut tx = self.documents.write().unwrap();
            let entropy = self.platform.entropy.as_ref();
            let context = WriteContext::new(self.platform.clock.now(), entropy);
            let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
            for number in together {
                let json = format!(
                    r#"{{"Company":"companies/{}","Total":{total},"Lines":[{{"Product":"p/{}"}}],
                        "@metadata":{{"@collection":"Orders"}}}}"#,
                    company(*number),
                    number % 77
                );
                let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
                let id = DocumentId::new(format!("orders/{number}")).unwrap();
                let id = RequestedId::Exactly(id);
                writer.put(&id, &ExpectedVersion::Any, &body).unwrap();
            }
            writer.finish().unwrap();
            tx.commit().unwrap();
            drop(self.documents.flush());
        }
    }

    fn open(&self, map: &str, reduce: &str) -> Index {
        let definition = IndexDefinition {
            name: "I".to_owned(),
            maps: vec![map.to_owned()],
            reduce: Some(reduce.to_owned()),
            ..IndexDefinition::default()
        };
        let context = IndexContext {
            platform: Platform::memory(),
            documents: Arc::clone(&self.documents),
            values: None,
            environment: EnvironmentOptions::new("/index"),
            scripts: ScriptPool::new(Arc::clone(&self.platform.clock)),
            pool: IndexingPool::new(Arc::clone(&self.platform.clock), 1),
            outputs: Arc::new(NoOutputs),
            definition_format: DefinitionFormat {
                write: wire::index_definition_text,
                read: wire::index_definition_of_text,
            },
        };
        Index::open("I", IndexKind::Static(Box::new(definition)), context).unwrap()
    }

    /// Waits until the index has everything; returns the duration.
    fn follow(&self, index: &Index) -> Duration {
        let began = self.platform.clock.monotonic();
        index.notice_changes();
        let last = index.last_etag_in(&self.documents.read()).unwrap();
        let (sender, receiver) = mpsc::channel();
        index.when_indexed(last, Box::new(move |reached| sender.send(reached).unwrap_or(())));
        loop {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(reached) => {
                    assert!(reached, "{:?}", index.failure());
                    return self.platform.clock.monotonic() - began;
                }
                // Nothing else flushes here.
                Err(_) => drop(index.environment().flush()),
            }
        }
    }
}

fn main() {
    let rows_max: u64 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    for (language, map, reduce) in
        [("C#", MAP, REDUCE), ("JavaScript", MAP_IN_JAVASCRIPT, REDUCE_IN_JAVASCRIPT)]
    {
        let stage = Stage::new();
        stage.write(0..ORDERS, |number| number * 7919 % COMPANIES, 3);
        let index = stage.open(map, reduce);
        let took = stage.follow(&index);
        let rate = ORDERS as f64 / took.as_secs_f64();
        println!("{language}: {ORDERS} orders into {COMPANIES} keys: {took:?}, {rate:.0}/s");
    }
    let stage = Stage::new();
    let index = stage.open(MAP, REDUCE);
    let mut rows = 0;
    for wanted in [1_000, 10_000, 100_000, 1_000_000] {
        if rows_max < wanted {
            break;
        }
        stage.write(rows..wanted, |_| 1, 3);
        let built = stage.follow(&index);
        let rate = (wanted - rows) as f64 / built.as_secs_f64();
        rows = wanted;
        let mut took: Vec<_> = (0..CHANGES)
            .map(|change| {
                let number = change * 104_729 % rows;
                stage.write(number..number + 1, |_| 1, 4 + change);
                stage.follow(&index)
            })
            .collect();
        took.sort();
        let (median, slowest) = (took[took.len() / 2], took[took.len() * 99 / 100]);
        println!("a key of {rows} rows ({rate:.0}/s): one change {median:?}, p99 {slowest:?}");
    }
}
