//! Compressed documents: compression is invisible to readers, and small documents gain from it.

use std::{cell::RefCell, collections::BTreeMap};

use documents::{
    Compression, DatabaseIdentity, DocumentError, DocumentWriter, ExpectedVersion, RequestedId,
    WriteContext,
    log::{self, EntryKind, EntryKinds, Selection},
};
use model::{
    CollectionName, DatabaseId, DocumentId, DocumentsCompression, Etag, IdSeparator, NodeTag,
    RevisionsConfiguration, RevisionsRule,
};
use platform::{
    Platform,
    simulated::{Random, Simulation},
};
use storage::{Environment, EnvironmentOptions, TableSchema};

use crate::database::body;

struct Ward {
    simulation: Simulation,
    environment: RefCell<std::sync::Arc<Environment>>,
    compression: RefCell<Compression>,
    revisions: RevisionsConfiguration,
}

fn everything() -> DocumentsCompression {
    let mut rules = DocumentsCompression::nothing();
    (rules.all_collections, rules.revisions) = (true, true);
    rules
}

fn open(simulation: &Simulation) -> std::sync::Arc<Environment> {
    let options = EnvironmentOptions::new("/database");
    Environment::open(&simulation.platform, options).unwrap()
}

impl Ward {
    fn new(seed: u64) -> Self {
        let simulation = Platform::simulated(seed);
        let environment = open(&simulation);
        let mut tx = environment.write().unwrap();
        let wanted = DatabaseIdentity { database_id: DatabaseId([0; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, wanted).unwrap();
        tx.commit().unwrap();
        Self {
            simulation,
            environment: RefCell::new(environment),
            compression: RefCell::new(Compression::new(everything())),
            revisions: RevisionsConfiguration::new(Some(RevisionsRule::default())),
        }
    }

    fn follow(&self, rules: DocumentsCompression) {
        *self.compression.borrow_mut() = Compression::new(rules);
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&mut DocumentWriter<'_>) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        let environment = self.environment.borrow();
        let mut tx = environment.write().unwrap();
        let platform = &self.simulation.platform;
        let compression = self.compression.borrow();
        let plain = WriteContext::new(platform.clock.now(), &*platform.entropy);
        let context =
            WriteContext { revisions: &self.revisions, compression: &compression, ..plain };
        let mut writer = DocumentWriter::open(&mut tx, context)?;
        let result = work(&mut writer)?;
        writer.finish()?;
        tx.commit().unwrap();
        Ok(result)
    }

    fn put(&self, number: u64, json: &str) {
        let id = RequestedId::parse(Some(&id(number)), IdSeparator::default()).unwrap();
        self.write(|writer| writer.put(&id, &ExpectedVersion::Any, &body(json))).unwrap();
    }

    fn delete(&self, number: u64) {
        let id = DocumentId::new(id(number)).unwrap();
        self.write(|writer| writer.delete(&id, &ExpectedVersion::Any)).unwrap();
    }

    /// Trains a dictionary for the first collection; whether there is one more.
    fn train(&self) -> bool {
        let tx = self.environment.borrow().read();
        let Some(trained) = documents::train_dictionary(&tx, 1).unwrap() else { return false };
        self.write(|writer| writer.add_dictionary(&trained)).unwrap()
    }

    fn read(&self) -> storage::ReadTransaction {
        self.environment.borrow().read()
    }

    fn check(&self) {
        documents::check(&self.read()).unwrap();
        self.read().check().unwrap();
    }

    /// Documents by id; the bytes that they take, and those that they would take.
    fn stored(&self) -> (BTreeMap<String, String>, usize, usize) {
        let (mut found, mut stored, mut plain) = (BTreeMap::new(), 0, 0);
        let tx = self.read();
        for row in documents::by_prefix(&tx, "", None).unwrap() {
            let row = row.unwrap();
            let json = String::from_utf8(row.body().unwrap().to_json().unwrap()).unwrap();
            stored += row.size_bytes();
            plain += row.uncompressed_bytes();
            assert_eq!(row.is_compressed(), row.size_bytes() != row.uncompressed_bytes());
            assert_eq!(row.body_bytes(), row.body().unwrap().as_bytes().len());
            found.insert(row.id().to_owned(), json);
        }
        (found, stored, plain)
    }

    /// The newest revisions of a document.
    fn revisions(&self, number: u64) -> Vec<String> {
        let tx = self.read();
        let id = DocumentId::new(id(number)).unwrap();
        let rows = documents::revisions_newest_first(&tx, &id).unwrap();
        rows.map(|row| String::from_utf8(row.unwrap().body().unwrap().to_json().unwrap()).unwrap())
            .collect()
    }

    /// Removes copies of the dictionaries, as damage would.
    fn lose_copies(&self, copies: &[u8]) {
        let schema: &'static TableSchema =
            documents::TABLES.iter().find(|table| table.name == "Dictionaries").unwrap();
        let environment = self.environment.borrow();
        let mut tx = environment.write().unwrap();
        for copy in copies {
            assert!(tx.table_mut(schema).delete(&[0, 0, 0, 1, 0, 1, *copy]).unwrap());
        }
        tx.commit().unwrap();
    }
}

fn id(number: u64) -> String {
    format!("users/{number}")
}

fn json(random: &mut Random, number: u64) -> String {
    let (age, zip, name) = (random.below(90), random.below(99_999), random.below(1 << 40));
    // Some are so small that nothing is won, some so large that they lie on pages of their own.
    let text = match random.below(20) {
        0 => return r#"{"@metadata":{"@collection":"Users"}}"#.to_owned(),
        1 => (0..random.below(3000)).map(|_| char::from(b'a' + random.below(26) as u8)).collect(),
        2 => "repeated ".repeat(random.below(2000) as usize),
        _ => String::new(),
    };
    format!(
        r#"{{"FirstName":"Name {name:x}","LastName":"Surname {number}","Age":{age},"Address":{{"Street":"Main street {zip}","City":"London","PostalCode":"{zip}","Country":"United Kingdom"}},"Active":true,"Text":"{text}","@metadata":{{"@collection":"Users","Raven-Clr-Type":"Orders.User, Orders"}}}}"#
    )
}

fn plain_json(number: u64) -> String {
    let mut random = Random::new(number + 7);
    loop {
        let json = json(&mut random, number);
        if json.contains(r#""Text":"""#) {
            return json;
        }
    }
}

#[test]
fn nobody_sees_whether_documents_are_compressed() {
    for seed in 0..12 {
        let ward = Ward::new(seed);
        let mut random = Random::new(seed);
        let mut naive: BTreeMap<String, String> = BTreeMap::new();
        let mut versions: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut trained = 0;
        for step in 0..250 {
            let number = random.below(40);
            match random.below(24) {
                0 => {
                    let mut rules = DocumentsCompression::nothing();
                    rules.revisions = random.below(2) == 0;
                    if random.below(3) != 0 {
                        rules.insert(&CollectionName::new("uSERS").unwrap());
                    }
                    ward.follow(rules);
                }
                1 => trained += u64::from(ward.train()),
                2 => {
                    let again = open_again(&ward);
                    *ward.environment.borrow_mut() = again;
                }
                3 | 4 => {
                    ward.delete(number);
                    if naive.remove(&id(number)).is_some() {
                        let deletion = r#"{"@metadata":{"@collection":"Users"}}"#.to_owned();
                        versions.entry(number).or_default().insert(0, deletion);
                    }
                }
                _ => {
                    let json = json(&mut random, number);
                    ward.put(number, &json);
                    if naive.insert(id(number), json.clone()).as_ref() != Some(&json) {
                        versions.entry(number).or_default().insert(0, json);
                    }
                }
            }
            if step % 50 == 49 {
                ward.check();
                assert_eq!(ward.stored().0, naive, "seed {seed} step {step}");
                for (number, versions) in &versions {
                    assert_eq!(ward.revisions(*number), *versions, "seed {seed} step {step}");
                }
            }
        }
        let count = documents::dictionaries_count(&ward.read()).unwrap();
        assert_eq!(count, trained, "seed {seed}");
        assert!(count <= u64::from(documents::DICTIONARIES_MAX));
    }
}

fn open_again(ward: &Ward) -> std::sync::Arc<Environment> {
    ward.environment.borrow().close().unwrap();
    open(&ward.simulation)
}

/// A ward with a dictionary, and documents that were written with it.
fn with_dictionary(documents: u64) -> Ward {
    let ward = Ward::new(1);
    for number in 0..documents {
        ward.put(number, &plain_json(number));
    }
    assert!(ward.train());
    for number in 0..documents {
        ward.put(number, &plain_json(number + documents));
    }
    ward
}

#[test]
fn small_documents_win_by_a_dictionary() {
    let ward = with_dictionary(400);
    let (_, stored, plain) = ward.stored();
    assert!(2 * stored < plain, "{stored} of {plain}");
    assert!(!ward.train(), "another one from the same documents is no better");
    ward.check();
}

#[test]
fn one_copy_of_a_dictionary_will_do_and_without_any_the_damage_is_told() {
    let ward = with_dictionary(300);
    let before = ward.stored().0;
    ward.lose_copies(&[0]);
    assert_eq!(ward.stored().0, before);
    assert!(documents::check(&ward.read()).is_err(), "the other copy is missed");
    ward.lose_copies(&[1]);
    let tx = ward.read();
    let one = DocumentId::new(id(1)).unwrap();
    let row = documents::get(&tx, &one).unwrap().unwrap();
    assert_eq!(row.id(), id(1), "what is not compressed can be read");
    let error = row.body().err().unwrap();
    assert!(matches!(error, DocumentError::DictionaryMissing { collection: 1, number: 1 }));
    let mut damaged = 0;
    documents::damaged_rows(&tx, &mut |_| damaged += 1).unwrap();
    assert!(300 <= damaged, "{damaged}");
    drop(row);
    drop(tx);
    let tx = ward.read();
    let mut log =
        log::read(&tx, &[Selection::all(EntryKinds::of(&EntryKind::ALL))], Etag::ZERO).unwrap();
    assert!(log.all(|entry| entry.is_ok()));
}
