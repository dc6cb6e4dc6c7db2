//! What is sent of changes, compared with what RavenDB 5.4 shows for the same documents and scripts in its test of
//! transformations. Where ids of loaded documents are numbered here, RavenDB leaves that to the destination.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::sync::Arc;

use blittable::{ParseLimits, parse_document};
use documents::{
    ChangeCounters, CounterStep, DatabaseIdentity, DeleteAttachment, DocumentWriter,
    ExpectedVersion, NewContent, PutAttachment, RequestedId, WriteContext,
    time_series::{Entry, MomentRange, TimeSeriesChange, YEAR_1970_MS},
};
use etl::{BatchLimits, EtlBatch, Pace, Plan, ScriptRun, read_batch};
use model::{AttachmentName, CounterName, DatabaseId, DocumentId, Etag, NodeTag, TimeSeriesName};
use platform::{Platform, real::RealClock};
use script::{Budget, Engine};
use serde_json::Value;
use storage::{Environment, EnvironmentOptions, MemoryBudget};
use wire::EtlTransformation;

const DOCUMENT_BYTES_MAX: usize = 4 << 20;

struct Stage {
    platform: Platform,
    environment: Arc<Environment>,
    engine: std::rc::Rc<Engine>,
}

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

impl Stage {
    fn new() -> Stage {
        let platform = Platform::memory();
        let environment =
            Environment::open(&platform, EnvironmentOptions::new("/database")).unwrap();
        let mut tx = environment.write().unwrap();
        let wanted = DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: NodeTag::A };
        documents::initialize(&mut tx, wanted).unwrap();
        tx.commit().unwrap();
        let engine = Engine::new(Arc::new(RealClock::default())).into();
        Stage { platform, environment, engine }
    }

    fn write(&self, work: impl FnOnce(&mut DocumentWriter<'_>)) {
        let mut tx = self.environment.write().unwrap();
        let context = WriteContext::new(self.platform.clock.now(), &*self.platform.entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        work(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    fn put(&self, of: &str, json: &str) {
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        self.write(|writer| {
            let of = RequestedId::Exactly(id(of));
            writer.put(&of, &ExpectedVersion::Any, &body).unwrap();
        });
    }

    fn delete(&self, of: &str) {
        self.write(|writer| drop(writer.delete(&id(of), &ExpectedVersion::Any).unwrap()));
    }

    fn attach(&self, of: &str, name: &str, content: &[u8]) {
        let content =
            NewContent::Bytes { hash: documents::hash_of(content), bytes: content.to_vec() };
        let put = PutAttachment {
            id: id(of),
            name: AttachmentName::new(name).unwrap(),
            content_type: "text/plain".to_owned(),
            content,
            expected: ExpectedVersion::Any,
        };
        self.write(|writer| drop(writer.put_attachment(&put).unwrap()));
    }

    fn count(&self, of: &str, name: &str, by: i64) {
        let name = CounterName::new(name).unwrap();
        let steps = vec![CounterStep::Increment { name, by }];
        let change = ChangeCounters { id: id(of), steps, ignores_missing: false };
        self.write(|writer| drop(writer.change_counters(&change).unwrap()));
    }

    fn series(&self, of: &str, name: &str, moments: &[i64], deleted: Option<(i64, i64)>) {
        let mut change = TimeSeriesChange::new(id(of), TimeSeriesName::new(name).unwrap());
        for moment in moments {
            let timestamp_ms = YEAR_1970_MS + moment;
            change.appends.push(Entry { timestamp_ms, values: &[*moment as f64], tag: None });
        }
        let range = |(from, to)| MomentRange { from: YEAR_1970_MS + from, to: YEAR_1970_MS + to };
        change.deletes.extend(deleted.map(range));
        self.write(|writer| drop(writer.change_time_series(&change).unwrap()));
    }

    fn read(
        &self,
        collections: &[&str],
        script: &str,
        after: Etag,
        changes_max: usize,
    ) -> EtlBatch {
        let transform = EtlTransformation {
            name: "s".to_owned(),
            is_disabled: false,
            reads_all: collections.is_empty(),
            collections: collections.iter().map(|name| (*name).to_owned()).collect(),
            script: Some(script.to_owned()).filter(|script| !script.is_empty()),
        };
        let plan = Plan::compile(&self.engine, &transform).unwrap();
        let run = ScriptRun {
            engine: std::rc::Rc::clone(&self.engine),
            budget: Budget::default(),
            node_tag: "A",
        };
        let mut share = MemoryBudget::unlimited().share(0);
        let limits =
            BatchLimits { changes_max, bytes_max: 1 << 20, document_bytes_max: DOCUMENT_BYTES_MAX };
        let tx = self.environment.read();
        read_batch(&tx, &plan, &run, after, limits, &mut share, &|| Pace::GoOn).unwrap()
    }

    fn last(&self) -> Etag {
        documents::progress(&self.environment.read()).unwrap().last_etag
    }

    /// One line for each command.
    fn sent(&self, collections: &[&str], script: &str, after: Etag) -> Vec<String> {
        let batch = self.read(collections, script, after, usize::MAX);
        assert!(batch.is_last && batch.problems.is_empty(), "{:?}", batch.problems);
        lines(&batch)
    }
}

fn lines(batch: &EtlBatch) -> Vec<String> {
    let json = [b"[", batch.commands.commands(), b"]"].concat();
    let commands: Vec<Value> = serde_json::from_slice(&json).unwrap();
    commands.iter().map(line).collect()
}

fn line(command: &Value) -> String {
    let (id, name) = (command["Id"].as_str().unwrap(), &command["Name"]);
    match command["Type"].as_str().unwrap() {
        "PUT" => format!("{id} {}", command["Document"]),
        "DELETE" if command["IdPrefixed"] == true => format!("-{id}*"),
        "DELETE" => format!("-{id}"),
        "AttachmentPUT" => format!("{id} @{}", name.as_str().unwrap()),
        "AttachmentDELETE" => format!("-{id} @{}", name.as_str().unwrap()),
        "Counters" => {
            let counters = &command["Counters"];
            assert_eq!(counters["DocumentId"], id);
            format!("{id} {}", counters["Operations"])
        }
        "TimeSeries" => format!("{id} {}", command["TimeSeries"]),
        other => panic!("{other}"),
    }
}

const USER: &str = r#"{"Name":"x","@metadata":{"@collection":"Users"}}"#;

/// Collections, the script, and the commands: of the document, and of its tombstone.
type Case =
    (&'static [&'static str], &'static str, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip]
const SCRIPTS: &[Case] = &[
    (&["Users"], "", &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&[], "", &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&["Users"], "loadToUsers(this)", &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&[], "loadToUsers(this)", &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&["Users"], "loadToUsers({N: this.Name})", &[r#"users/1 {"N":"x","@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&["Users"], "loadToPeople({N: this.Name})", &["-users/1/people/*", r#"users/1/people/0000000000000000001-A {"N":"x","@metadata":{"@collection":"People"}}"#], &["-users/1/people/*"]),
    (&["Users"], "loadToPeople({A: 1}); loadToPeople({A: 2})", &["-users/1/people/*", r#"users/1/people/0000000000000000001-A {"A":1,"@metadata":{"@collection":"People"}}"#, r#"users/1/people/0000000000000000002-A {"A":2,"@metadata":{"@collection":"People"}}"#], &["-users/1/people/*"]),
    (&["Users"], "loadToUsers(this); loadToUsers({B: 2})", &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#, r#"users/1 {"B":2,"@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&["Users"], "if (this.Name == 'q') loadToUsers(this)", &["-users/1"], &["-users/1"]),
    (&[], "if (this.Name == 'q') loadToUsers(this)", &["-users/1"], &["-users/1"]),
    (&["Users"], "if (this.Name == 'q') loadToPeople(this)", &["-users/1/people/*"], &["-users/1/people/*"]),
    (&["Users"], "loadTo('People', this)", &["-users/1/people/*", r#"users/1/people/0000000000000000001-A {"Name":"x","@metadata":{"@collection":"People"}}"#], &["-users/1/people/*"]),
    (&["Users"], "loadToUsers({'@metadata': {'@id': 'foo/1', '@collection': 'Other', X: 1}, A: 1})", &[r#"users/1 {"A":1,"@metadata":{"@collection":"Other","X":1}}"#], &["-users/1"]),
    (&["Users"], "loadToUsers({a: this.nope})", &[r#"users/1 {"a":null,"@metadata":{"@collection":"Users"}}"#], &["-users/1"]),
    (&["Users"], "loadToUsers(this); loadToPeople(this); function deleteDocumentsOfUsersBehavior(id) { return false }",
        &[r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#, r#"users/1/people/ {"Name":"x","@metadata":{"@collection":"People"}}"#], &[]),
    (&["Users"], "if (this.Q) loadToUsers(this); function deleteDocumentsOfUsersBehavior(id, d) { return d }", &[], &["-users/1"]),
    (&[], "if (this.Q) loadToUsers(this); function deleteDocumentsBehavior(id, c, d) { return c == 'Users' && id == 'users/1' && !d }", &["-users/1"], &[]),
    (&["Users", "People"], "if (this.Q) loadToUsers(this); loadToPeople({})", &["-users/1/people/*", "-users/1", r#"users/1/people/0000000000000000001-A {"@metadata":{"@collection":"People"}}"#], &["-users/1/people/*", "-users/1"]),
];

#[test]
fn documents_and_deletions_are_sent_as_the_script_says() {
    for (collections, script, of_document, of_tombstone) in SCRIPTS {
        let stage = Stage::new();
        stage.put("orders/1", r#"{"@metadata":{"@collection":"Orders"}}"#);
        let before = stage.last();
        stage.put("users/1", USER);
        assert_eq!(stage.sent(collections, script, before), *of_document, "{script}");
        let before = stage.last();
        stage.delete("users/1");
        assert_eq!(stage.sent(collections, script, before), *of_tombstone, "{script}");
    }
}

/// A document with an attachment, counters and a series.
fn with_everything() -> Stage {
    let stage = Stage::new();
    stage.put("users/1", USER);
    stage.attach("users/1", "a.txt", b"hello");
    stage.count("users/1", "dl", 3);
    stage.count("users/1", "likes", 5);
    stage.series("users/1", "hr", &[0, 60_000], None);
    stage
}

const DOCUMENT: &str = r#"users/1 {"Name":"x","@metadata":{"@collection":"Users"}}"#;
const COUNTERS: &str = r#"users/1 [{"Type":"Put","CounterName":"dl","Delta":3},{"Type":"Put","CounterName":"likes","Delta":5}]"#;
const LIKES: &str = r#"[{"Type":"Put","CounterName":"likes","Delta":5}]"#;
const SERIES: &str = r#"{"Name":"hr","Appends":[{"Timestamp":"1970-01-01T00:00:00.0000000Z","Values":[0.0]},{"Timestamp":"1970-01-01T00:01:00.0000000Z","Values":[60000.0]}]}"#;
const SECOND: &str =
    r#"{"Name":"hr","Appends":[{"Timestamp":"1970-01-01T00:01:00.0000000Z","Values":[60000.0]}]}"#;

#[test]
fn attachments_counters_and_series_are_sent_with_their_document() {
    let of = |rest: &str| format!("users/1 {rest}");
    let made = r#"users/1/people/0000000000000000001-A {"@metadata":{"@collection":"People"}}"#;
    let table: &[(&str, Vec<String>)] = &[
        ("", vec![DOCUMENT.to_owned(), of("@a.txt"), COUNTERS.to_owned(), of(SERIES)]),
        ("loadToUsers(this)", vec![DOCUMENT.to_owned()]),
        (
            "const u = loadToUsers(this); u.addAttachment(loadAttachment('a.txt')); u.addAttachment('z', loadAttachment('A.txt'))",
            vec!["-users/1".to_owned(), DOCUMENT.to_owned(), of("@a.txt"), of("@z")],
        ),
        (
            "const p = loadToPeople({}); p.addAttachment(loadAttachment('a.txt')); p.addCounter(loadCounter('likes'))",
            vec![
                "-users/1/people/*".to_owned(),
                made.to_owned(),
                "users/1/people/0000000000000000001-A @a.txt".to_owned(),
                format!("users/1/people/0000000000000000001-A {LIKES}"),
            ],
        ),
        (
            "const u = loadToUsers(this); u.addCounter(loadCounter('LIKES')); u.addTimeSeries(loadTimeSeries('hr', '1970-01-01T00:00:30Z'))",
            vec!["-users/1".to_owned(), DOCUMENT.to_owned(), of(LIKES), of(SECOND)],
        ),
        (
            "loadToUsers(this); function loadCountersOfUsersBehavior(id, name) { return name == 'likes' }
             function loadTimeSeriesOfUsersBehavior(id, name) { return { from: new Date(1) } }",
            vec![DOCUMENT.to_owned(), of(LIKES), of(SECOND)],
        ),
    ];
    for (script, expected) in table {
        assert_eq!(with_everything().sent(&["Users"], script, Etag::ZERO), *expected, "{script}");
    }
}

#[test]
fn changes_of_parts_are_sent_by_themselves() {
    let stage = with_everything();
    let before = stage.last();
    stage.count("users/1", "likes", 2);
    stage.series("users/1", "hr", &[120_000], Some((0, 59_000)));
    let sent = stage.sent(&["Users"], "", before);
    assert_eq!(sent[0], r#"users/1 [{"Type":"Put","CounterName":"likes","Delta":7}]"#);
    assert!(sent.iter().any(|line| line.contains(r#""Deletes":[{"From":"1970-01-01T00:00:00.0000000Z","To":"1970-01-01T00:00:59.0000000Z"}]"#)), "{sent:?}");
    assert!(
        sent.iter().any(|line| line.contains(r#""Timestamp":"1970-01-01T00:02:00.0000000Z""#)),
        "{sent:?}"
    );
    assert_eq!(stage.sent(&["Users"], "loadToUsers(this)", before), [""; 0]);
    let before = stage.last();
    stage.write(|writer| {
        let name = CounterName::new("dl").unwrap();
        let steps = vec![CounterStep::Delete { name }];
        writer
            .change_counters(&ChangeCounters { id: id("users/1"), steps, ignores_missing: false })
            .unwrap();
        let (name, expected) = (AttachmentName::new("a.txt").unwrap(), ExpectedVersion::Any);
        writer.delete_attachment(&DeleteAttachment { id: id("users/1"), name, expected }).unwrap();
    });
    let sent = stage.sent(&[], "", before);
    for expected in [r#"users/1 [{"Type":"Delete","CounterName":"dl"}]"#, "-users/1 @a.txt"] {
        assert!(sent.iter().any(|line| line == expected), "{expected}: {sent:?}");
    }
}

#[test]
fn a_document_that_moves_is_deleted_only_where_it_is_no_longer_read() {
    let stage = Stage::new();
    stage.put("a", r#"{"@metadata":{"@collection":"Users"}}"#);
    let before = stage.last();
    stage.delete("a");
    stage.put("a", r#"{"@metadata":{"@collection":"Orders"}}"#);
    assert_eq!(stage.sent(&["Users"], "", before), ["-a"]);
    let put = r#"a {"@metadata":{"@collection":"Orders"}}"#;
    assert_eq!(stage.sent(&["Users", "Orders"], "", before), [put]);
    assert_eq!(stage.sent(&[], "", before), [put]);
}

/// What a script loads depends on the collection, so what it has loaded of a document in another one goes.
#[test]
fn a_document_that_moves_leaves_nothing_of_what_scripts_loaded_of_it() {
    let script = "loadToUsers({ N: this.N }); loadToParts({ Of: id(this) })";
    let stage = Stage::new();
    stage.put("a", r#"{"N":1,"@metadata":{"@collection":"Users"}}"#);
    let before = stage.last();
    stage.delete("a");
    stage.put("a", r#"{"N":2,"@metadata":{"@collection":"People"}}"#);
    let moved = [
        "-a",
        "-a/parts/*",
        "-a/parts/*",
        "-a/users/*",
        r#"a/users/0000000000000000001-A {"N":2,"@metadata":{"@collection":"Users"}}"#,
        r#"a/parts/0000000000000000001-A {"Of":"a","@metadata":{"@collection":"Parts"}}"#,
    ];
    let mut sent = stage.sent(&["Users", "People"], script, before);
    sent[..4].sort();
    assert_eq!(sent, moved);
    stage.delete("a");
    stage.put("a", r#"{"N":3,"@metadata":{"@collection":"People"}}"#);
    let again = stage.sent(&["People"], script, before);
    assert_eq!(again.iter().filter(|line| line.starts_with('-')).count(), 2, "{again:?}");
}

/// What an earlier version has added stays unless the document is deleted first.
#[test]
fn a_script_that_may_add_something_replaces_what_it_added_before() {
    let stage = Stage::new();
    stage.put("a", r#"{"N":0,"@metadata":{"@collection":"Users"}}"#);
    let script = "const loaded = loadToUsers({ N: this.N });
        if (this.N) loaded.addCounter(loadCounter('c'))";
    let put = r#"a {"N":0,"@metadata":{"@collection":"Users"}}"#;
    assert_eq!(stage.sent(&["Users"], script, Etag::ZERO), ["-a", put]);
    assert_eq!(stage.sent(&["Users"], "loadToUsers({ N: this.N })", Etag::ZERO), [put]);
}

#[test]
fn values_that_are_not_finite_are_sent_as_the_protocol_has_them() {
    let stage = Stage::new();
    stage.put("a", r#"{"@metadata":{"@collection":"Users"}}"#);
    let values = [f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e308, 5e-324];
    let mut change = TimeSeriesChange::new(id("a"), TimeSeriesName::new("s").unwrap());
    change.appends.push(Entry { timestamp_ms: YEAR_1970_MS, values: &values, tag: None });
    stage.write(|writer| drop(writer.change_time_series(&change).unwrap()));
    let batch = stage.read(&[], "", Etag::ZERO, usize::MAX);
    let json = [b"[", batch.commands.commands(), b"]"].concat();
    let commands: Value = serde_json::from_slice(&json).unwrap();
    let sent = &commands[1]["TimeSeries"]["Appends"][0]["Values"];
    assert_eq!(sent.to_string(), r#"["Infinity","-Infinity",-0.0,1e+308,5e-324]"#);
}

/// A document with much attached neither takes memory without a limit nor holds back what follows.
#[test]
fn a_document_with_too_much_attached_is_a_problem() {
    let stage = Stage::new();
    let content = vec![7; DOCUMENT_BYTES_MAX / 8];
    for number in 0..6 {
        stage.put("a", r#"{"@metadata":{"@collection":"Users"}}"#);
        stage.attach("a", &number.to_string(), &content);
    }
    stage.put("b", r#"{"@metadata":{"@collection":"Users"}}"#);
    let batch = stage.read(&[], "", Etag::ZERO, usize::MAX);
    assert_eq!((batch.problems_count, batch.problems[0].id.as_str()), (1, "a"));
    assert!(batch.problems[0].message.contains("4194304 bytes"), "{:?}", batch.problems);
    assert_eq!(lines(&batch), [r#"b {"@metadata":{"@collection":"Users"}}"#]);
}

/// Memory is asked for before contents are read, and the work can be stopped between them.
#[test]
fn a_document_takes_no_memory_that_is_not_there_and_can_be_stopped() {
    let stage = Stage::new();
    let content = vec![7; 1 << 20];
    stage.put("a", r#"{"@metadata":{"@collection":"Users"}}"#);
    stage.attach("a", "x", &content);
    let transform = EtlTransformation {
        name: "s".to_owned(),
        is_disabled: false,
        reads_all: true,
        collections: Vec::new(),
        script: None,
    };
    let plan = Plan::compile(&stage.engine, &transform).unwrap();
    let engine = std::rc::Rc::clone(&stage.engine);
    let run = ScriptRun { engine, budget: Budget::default(), node_tag: "A" };
    let limits = BatchLimits { changes_max: 10, bytes_max: 16 << 20, document_bytes_max: 16 << 20 };
    let tx = stage.environment.read();
    // The content and its copy in the request do not fit.
    let budget = MemoryBudget::new((3 << 20) / 2);
    let mut share = budget.share(0);
    let refused = read_batch(&tx, &plan, &run, Etag::ZERO, limits, &mut share, &|| Pace::GoOn);
    assert!(refused.is_err());
    assert_eq!(share.bytes(), 0, "nothing was taken");
    let asked = std::cell::Cell::new(0);
    let pace = || {
        asked.set(asked.get() + 1);
        if asked.get() < 2 { Pace::GoOn } else { Pace::Stop }
    };
    let mut share = MemoryBudget::unlimited().share(0);
    let stopped = read_batch(&tx, &plan, &run, Etag::ZERO, limits, &mut share, &pace).unwrap();
    assert_eq!((stopped.changes, stopped.is_last, stopped.commands.len()), (0, false, 0));
}

#[test]
fn a_batch_ends_at_its_limit_and_the_next_one_continues() {
    let stage = Stage::new();
    for number in 0..7 {
        stage.put(&format!("users/{number}"), USER);
    }
    let (mut after, mut ids) = (Etag::ZERO, Vec::new());
    loop {
        let batch = stage.read(&["Users"], "loadToUsers({})", after, 3);
        assert!(batch.commands.len() <= 3);
        ids.extend(lines(&batch).iter().map(|line| line.split(' ').next().unwrap().to_owned()));
        after = batch.last_etag;
        if batch.is_last {
            break;
        }
    }
    assert_eq!(ids, (0..7).map(|number| format!("users/{number}")).collect::<Vec<_>>());
    let large = stage.read(&["Users"], "loadToUsers({ a: 'x'.repeat(400000) })", Etag::ZERO, 100);
    assert_eq!((large.commands.len(), large.is_last), (3, false), "a request has a limit");
}

#[test]
fn a_document_whose_script_fails_is_left_out_and_named() {
    let stage = Stage::new();
    for number in 0..3 {
        let body = format!(r#"{{"N":{number},"@metadata":{{"@collection":"Users"}}}}"#);
        stage.put(&format!("users/{number}"), &body);
    }
    stage.series("users/2", "INC:x", &[], None);
    let script = "loadToUsers(this); if (this.N == 1) throw new Error('not this one')";
    let batch = stage.read(&["Users"], script, Etag::ZERO, 100);
    let ids: Vec<_> =
        lines(&batch).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ids, ["users/0", "users/2"]);
    let [problem] = &batch.problems[..] else { panic!("{:?}", batch.problems) };
    assert_eq!((problem.id.as_str(), batch.problems_count), ("users/1", 1));
    assert!(problem.message.contains("not this one"), "{}", problem.message);
}
