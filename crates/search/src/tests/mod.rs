//! Tests of whole indexes, on the simulated disk.

mod crashes;
mod damage;
mod model;
mod places;
mod stories;

use std::sync::Arc;

use platform::{Platform, simulated::Simulation};
use storage::{Environment, EnvironmentOptions, StorageError};

use crate::{
    Applied, EntryBuilder, Field, FieldOptions, FieldSet, IndexBatch, IndexReader, Indexing,
    PhraseWord, Query, SearchError, TermValue,
};

/// An index in a separate environment.
struct Bench {
    simulation: Simulation,
    options: EnvironmentOptions,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut options = EnvironmentOptions::new("/index");
        options.journal_bytes_max = 512 * 1024;
        Self { simulation: Platform::simulated(seed), options }
    }

    fn open(&self) -> Arc<Environment> {
        self.try_open().expect("opens")
    }

    fn try_open(&self) -> Result<Arc<Environment>, StorageError> {
        Environment::open(&self.simulation.platform, self.options.clone())
    }
}

/// The fields of the tests: `Name` and `Age` with the default, `Tag` exact, `Body` searched.
struct Fields {
    set: FieldSet,
    name: Field,
    age: Field,
    tag: Field,
    body: Field,
}

impl Fields {
    fn load(environment: &Arc<Environment>) -> Self {
        let mut set = FieldSet::load(&environment.read()).expect("loads");
        let mut define =
            |name, indexing| set.define(name, FieldOptions::new(indexing)).expect("defines");
        let name = define("Name", Indexing::Default);
        let age = define("Age", Indexing::Default);
        let tag = define("Tag", Indexing::Exact);
        let body = define("Body", Indexing::Search);
        Self { set, name, age, tag, body }
    }
}

fn apply(
    environment: &Arc<Environment>,
    fields: &mut Fields,
    batch: &mut IndexBatch,
) -> Result<Applied, SearchError> {
    let mut tx = environment.write()?;
    let applied = batch.apply(&mut tx, &mut fields.set)?;
    tx.commit()?;
    Ok(applied)
}

fn entry(fill: impl FnOnce(&mut EntryBuilder)) -> EntryBuilder {
    let mut entry = EntryBuilder::new();
    fill(&mut entry);
    entry
}

/// The documents of the matches in entry order.
fn documents(environment: &Arc<Environment>, query: &Query) -> Vec<String> {
    let tx = environment.read();
    let reader = IndexReader::open(&tx).expect("opens");
    let hits = reader.search(query, &[], 0, 1000, crate::Scoring::Off).expect("searches");
    assert_eq!(hits.total, hits.rows.len() as u64);
    assert_eq!(hits.total, reader.count(query).expect("counts"));
    let document =
        |hit: &crate::Hit| reader.document_id(hit.entry).expect("reads").expect("is there");
    hits.rows.iter().map(|hit| document(hit).to_owned()).collect()
}

fn text(text: &str) -> TermValue {
    TermValue::Text(text.to_owned())
}

fn phrase(field: &str, words: &[&str], slop: u32) -> Query {
    let words = words.iter().zip(0..);
    let words = words.map(|(text, position)| PhraseWord { text: (*text).to_owned(), position });
    Query::Phrase { field: field.to_owned(), words: words.collect(), slop }
}
