//! An engine, a document and a host that keeps notes, for the tests.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use blittable::{BlittableBuf, ParseLimits, parse_document};
use platform::real::RealClock;
use script::{
    Attachment, Budget, DocumentInfo, Engine, Host, HostError, PatchScript, PatchText, Patched,
    ScriptDocument, ScriptError, SeriesArgument, TimeSeriesEntry, TimeSeriesStats,
};

pub(crate) fn engine() -> Engine {
    Engine::new(Arc::new(RealClock::default()))
}

pub(crate) fn parse(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

pub(crate) fn json(document: &BlittableBuf) -> String {
    String::from_utf8(document.as_view().to_json().unwrap()).unwrap()
}

pub(crate) fn document(id: &str, json: &str) -> ScriptDocument {
    let info = DocumentInfo {
        id: Rc::from(id),
        change_vector: Rc::from("A:1-x"),
        last_modified_ticks: 638_997_402_513_225_393,
    };
    ScriptDocument::new(parse(json), info)
}

/// A host with a few documents, which records the calls it receives.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) documents: BTreeMap<String, String>,
    pub(crate) log: Vec<String>,
}

impl Host for Notes {
    fn load(
        &mut self,
        id: &str,
        collection: Option<&str>,
    ) -> Result<Option<ScriptDocument>, HostError> {
        self.log.push(format!("load {id} {}", collection.unwrap_or("-")));
        Ok(self.documents.get(id).map(|json| document(id, json)))
    }

    fn load_untracked(
        &mut self,
        id: &str,
        collection: &str,
    ) -> Result<Option<ScriptDocument>, HostError> {
        self.log.push(format!("load untracked {id} {collection}"));
        Ok(self.documents.get(id).map(|json| document(id, json)))
    }

    fn attachment(&mut self, id: &str, name: &str) -> Result<Option<Attachment>, HostError> {
        let mut found = self.attachments(id)?.into_iter();
        Ok(found.find(|attachment| attachment.name.eq_ignore_ascii_case(name)))
    }

    fn attachments(&mut self, id: &str) -> Result<Vec<Attachment>, HostError> {
        let attachment = |name: &str, content_bytes| Attachment {
            name: name.to_owned(),
            content_type: "text/plain".to_owned(),
            hash: "h".to_owned(),
            content_bytes,
        };
        let both = [attachment("A.txt", 6), attachment("b", 0)];
        Ok(if id == "d/1" { both.to_vec() } else { Vec::new() })
    }

    fn attachment_content(&mut self, attachment: &Attachment) -> Result<Vec<u8>, HostError> {
        Ok("hellö".as_bytes()[..attachment.content_bytes as usize].to_vec())
    }

    fn put(
        &mut self,
        id: Option<&str>,
        document: BlittableBuf,
        change_vector: Option<&str>,
    ) -> Result<String, HostError> {
        let id = id.unwrap_or("generated");
        self.log.push(format!("put {id} {} {}", json(&document), change_vector.unwrap_or("-")));
        self.documents.insert(id.to_owned(), json(&document));
        Ok(id.to_owned())
    }

    fn delete(&mut self, id: &str, _change_vector: Option<&str>) -> Result<bool, HostError> {
        if id == "locked" {
            return Err("the document is locked".into());
        }
        self.log.push(format!("delete {id}"));
        Ok(self.documents.remove(id).is_some())
    }

    fn include(&mut self, id: &str) -> Result<(), HostError> {
        self.log.push(format!("include {id}"));
        Ok(())
    }

    fn compare_exchange(&mut self, key: &str) -> Result<Option<BlittableBuf>, HostError> {
        Ok((key == "known").then(|| parse(r#"{"Object":{"a":[1]}}"#)))
    }

    fn output(&mut self, line: &str) {
        self.log.push(format!("output {line}"));
    }

    fn counter(&mut self, id: &str, name: &str) -> Result<Option<i64>, HostError> {
        Ok((name == "likes").then_some(id.len() as i64))
    }

    fn counter_raw(&mut self, _id: &str, name: &str) -> Result<Vec<(String, i64)>, HostError> {
        Ok(if name == "likes" { vec![("A-x".to_owned(), 7)] } else { Vec::new() })
    }

    fn increment_counter(&mut self, id: &str, name: &str, by: f64) -> Result<(), HostError> {
        self.log.push(format!("increment {id} {name} {by}"));
        Ok(())
    }

    fn delete_counter(&mut self, id: &str, name: &str) -> Result<(), HostError> {
        self.log.push(format!("delete counter {id} {name}"));
        Ok(())
    }

    fn time_series_get(
        &mut self,
        id: &str,
        name: &str,
        from: Option<f64>,
        to: Option<f64>,
    ) -> Result<Vec<TimeSeriesEntry>, HostError> {
        self.log.push(format!("series {id} {name} {from:?} {to:?}"));
        Ok(vec![TimeSeriesEntry {
            timestamp_millis: 0.0,
            tag: None,
            values: vec![1.5, 2.0],
            is_rollup: false,
        }])
    }

    fn time_series_stats(
        &mut self,
        _id: &str,
        name: &str,
    ) -> Result<Option<TimeSeriesStats>, HostError> {
        let stats = TimeSeriesStats { start_millis: 0.0, end_millis: 5.0, count: 2 };
        Ok((name != "none").then_some(stats))
    }

    fn time_series_query(
        &mut self,
        function: &str,
        arguments: Vec<SeriesArgument>,
    ) -> Result<Vec<u8>, HostError> {
        self.log.push(format!("query {function} {arguments:?}"));
        Ok(format!(r#"{{"Count":{}.0,"Results":[]}}"#, arguments.len()).into_bytes())
    }

    fn time_series_append(
        &mut self,
        id: &str,
        name: &str,
        entry: TimeSeriesEntry,
    ) -> Result<(), HostError> {
        let TimeSeriesEntry { timestamp_millis, tag, values, .. } = entry;
        self.log.push(format!("append {id} {name} {timestamp_millis} {tag:?} {values:?}"));
        Ok(())
    }
}

/// Runs `text` as a patch of `document`.
pub(crate) fn patch(
    engine: &Engine,
    document: &ScriptDocument,
    text: &str,
    host: &mut dyn Host,
) -> Result<Patched, ScriptError> {
    let script = PatchScript::compile(engine, &PatchText::of(text))?;
    script.run(engine, document, None, Budget::default(), host)
}

/// The JSON of `this.r` after `this.r = expression`, `absent` when it is not there, or the error.
pub(crate) fn outcome(engine: &Engine, document: &ScriptDocument, expression: &str) -> String {
    let text = format!("this.r = {expression}");
    match patch(engine, document, &text, &mut Notes::default()) {
        Ok(Patched { document: Some(changed), .. }) => {
            match changed.as_view().root().get("r").unwrap() {
                Some(value) => {
                    let mut json = Vec::new();
                    blittable::write_json(&value, &mut json).unwrap();
                    String::from_utf8(json).unwrap()
                }
                None => "absent".to_owned(),
            }
        }
        Ok(Patched { document: None, .. }) => "untouched".to_owned(),
        Err(error) => format!("error: {error}"),
    }
}
