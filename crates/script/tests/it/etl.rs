//! Transformations of ETL tasks: what they load, and the functions that they declare.

use blittable::BlittableBuf;
use script::{Budget, EtlScript, Host, HostError, ScriptError, ScriptValue};

use crate::world::{document, engine, json};

const DOCUMENT: &str = r#"{"Name":"x","Price":2.50,"@metadata":{"@collection":"Users","@attachments":[{"Name":"a.txt","Size":5}],"@counters":["likes"],"@timeseries":["hr"]}}"#;

/// A host that notes the calls.
#[derive(Default)]
struct Loads {
    count: u32,
    log: Vec<String>,
}

impl Host for Loads {
    fn load_to(
        &mut self,
        collection: &str,
        document: BlittableBuf,
        is_stored: bool,
    ) -> Result<u32, HostError> {
        let whose = if is_stored { "stored" } else { "made" };
        self.log.push(format!("{collection} {whose} {}", json(&document)));
        self.count += 1;
        Ok(self.count - 1)
    }

    fn add_attachment(&mut self, number: u32, name: &str, new: &str) -> Result<(), HostError> {
        self.log.push(format!("{number} attachment {name} {new}"));
        Ok(())
    }

    fn add_counter(&mut self, number: u32, name: &str) -> Result<(), HostError> {
        self.log.push(format!("{number} counter {name}"));
        Ok(())
    }

    fn add_time_series(
        &mut self,
        number: u32,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<(), HostError> {
        self.log.push(format!("{number} series {name} {from:?} {to:?}"));
        Ok(())
    }

    fn output(&mut self, line: &str) {
        self.log.push(format!("output {line}"));
    }
}

fn run(text: &str) -> Result<Vec<String>, ScriptError> {
    let (engine, mut host) = (engine(), Loads::default());
    let script = EtlScript::compile(&engine, text)?;
    // Twice: a run must not see what an earlier one left.
    for _ in 0..2 {
        host = Loads::default();
        script.run(&engine, &document("users/1", DOCUMENT), Budget::default(), &mut host)?;
    }
    Ok(host.log)
}

#[test]
fn what_a_script_loads_goes_to_its_host() {
    let table: &[(&str, &[&str])] = &[
        ("if (this.Name == 'q') loadToUsers(this)", &[]),
        ("loadToUsers({ N: this.Name, u: undefined })", &[r#"Users made {"N":"x","u":null}"#]),
        ("loadTo('People', { P: this.Price })", &[r#"People made {"P":2.5}"#]),
        ("loadToPeople({ A: id(this) }); return; loadToUsers({})", &[r#"People made {"A":"users/1"}"#]),
        (
            "const p = loadToPeople({}); const u = loadToUsers({}); u.addAttachment(loadAttachment('A.TXT'));
             p.addAttachment('b', loadAttachment('a.txt')); p.addAttachment(loadAttachment('nope'))",
            &["People made {}", "Users made {}", "1 attachment A.TXT A.TXT", "0 attachment a.txt b"],
        ),
        (
            "const p = loadToPeople({}); p.addCounter(loadCounter('likes')); p.addCounter(loadCounter('nope'));
             p.addTimeSeries(loadTimeSeries('hr')); p.addTimeSeries(loadTimeSeries('hr', '1970-01-01T00:00:01Z', new Date(2000)))",
            &["People made {}", "0 counter likes", "0 series hr None None", "0 series hr Some(1000.0) Some(2000.0)"],
        ),
        (
            "output(hasAttachment('A.txt')); output(hasCounter('no')); output(getTimeSeries()); output(getAttachments()[0].Size)",
            &["output True", "output False", r#"output ["hr"]"#, "output 5"],
        ),
    ];
    for (text, expected) in table {
        assert_eq!(run(text).unwrap(), *expected, "{text}");
    }
    let whole = run("this.New = 1; loadToUsers(this)").unwrap();
    assert!(whole[0].starts_with(r#"Users stored {"Name":"x","Price":2.50,"#), "{whole:?}");
}

#[test]
fn calls_that_cannot_be_followed_say_why() {
    for (text, expected) in [
        ("loadToUsers(5)", "loadToUsers(obj) argument must be an object"),
        ("loadToUsers([])", "loadToUsers(obj) argument must be an object"),
        ("loadToUsers()", "loadToUsers(obj) must be called with exactly 1 parameter"),
        ("loadTo(5, {})", "loadTo(name) must be called with a non-empty string"),
        ("loadToA({}).addAttachment('x')", "must be what loadAttachment(name) returned"),
        ("loadToA({}).addAttachment()", "one or two arguments"),
        (
            "loadToA({}).addCounter(loadAttachment('a.txt'))",
            "must be what loadCounter(name) returned",
        ),
        ("loadTimeSeries('hr', 'soon'); loadToA({})", "a moment must be a Date"),
        ("put('a', {}); loadToA({})", "put cannot be called here"),
        ("load('a'); loadToA({})", "load cannot be called here"),
    ] {
        let error = run(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(matches!(run("loadToA({}"), Err(ScriptError::Parse { .. })));
}

#[test]
fn collections_and_functions_are_found_in_the_text() {
    let engine = engine();
    let text = "loadToUsers(this); loadTousers({}); loadTo ( \"Big Orders\", {}); // loadToNobody
        function deleteDocumentsOfUsersBehavior(id, isDeleted) { return id === 'users/1' && isDeleted; }
        const notAFunctionBehavior = 5;";
    let script = EtlScript::compile(&engine, text).unwrap();
    assert_eq!(script.collections(), ["Big Orders", "Nobody", "Users"]);
    let call = |name: &str, id: &str, is_deleted: bool| {
        let arguments = [ScriptValue::String(id.into()), ScriptValue::Bool(is_deleted)];
        script.call(&engine, name, &arguments, Budget::default(), &mut Loads::default()).unwrap()
    };
    let name = "deleteDocumentsOfUsersBehavior";
    assert!(script.has_behavior(name) && !script.has_behavior("deleteDocumentsBehavior"));
    assert!(matches!(call(name, "users/1", true), Some(ScriptValue::Bool(true))));
    assert!(matches!(call(name, "users/2", true), Some(ScriptValue::Bool(false))));
    assert!(call("notAFunctionBehavior", "users/1", true).is_none());
    assert!(call("deleteDocumentsBehavior", "users/2", true).is_none());
}
