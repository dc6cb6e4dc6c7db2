//! Patches of histories: a few scripts, and the effect of each on the model.

use std::sync::Arc;

use commands::{PatchCommand, PatchRequest, WhenMissing};
use documents::{ChangeCounters, CounterStep, ExpectedVersion};
use model::{CounterName, DocumentId};

use crate::{
    database::{json, parsed, version},
    naive::{Naive, Refused},
};

const SET: &str = "this.V = args.v";
const KEEP: &str = "var v = this.V; delete this.V; this.V = v";
const COPY: &str = "this.V = (load(args.other) ?? { V: 'nothing' }).V";
const REMOVE: &str = "del(args.other); this.V = 'removed'";
const PUT: &str =
    "put(args.other, { V: 'put', '@metadata': { '@collection': args.collection } }); this.V += '!'";
const COUNT: &str = "incrementCounter(args.other, 'likes', 2); deleteCounter(args.other, '_x')";
const FAIL: &str = "del(args.other); this.V = 1; throw new Error('no')";
const CAUGHT: &str = "try { del(args.other, 'A:1-wrong') } catch { this.V = 'caught' }";
/// Fills an empty document.
pub(crate) const CREATE: &str =
    "this.V = args.v; this['@metadata'] = { '@collection': args.collection }";

/// What histories change documents by.
pub(crate) const SCRIPTS: &[&str] = &[SET, KEEP, COPY, REMOVE, PUT, COUNT, FAIL, CAUGHT];

/// A script with its arguments.
pub(crate) fn patch_request(
    text: &str,
    other: &str,
    value: &str,
    collection: &str,
) -> Arc<PatchRequest> {
    let values = format!(r#"{{"other":"{other}","v":"{value}","collection":"{collection}"}}"#);
    PatchRequest::new(text.to_owned(), Some(parsed(&values)))
}

/// The values of a script of a history.
struct Values {
    other: String,
    value: String,
    collection: String,
}

impl Values {
    fn of(request: &PatchRequest) -> Values {
        let values = request.values.as_ref().expect("scripts of histories have values");
        let text = |name: &str| {
            let text = values.as_view().root().get_str(name).expect("it was just built");
            text.expect("all three are there").into_owned()
        };
        Values { other: text("other"), value: text("v"), collection: text("collection") }
    }
}

impl Naive {
    /// Changes a document as its script says.
    pub(crate) fn patch(&mut self, patch: &PatchCommand) -> Result<(), Refused> {
        let id = patch.id.as_str();
        let before = self.live(id).map(|row| (row.id.clone(), row.etag, row.body.clone()));
        if let ExpectedVersion::Exactly(expected) = &patch.expected
            && before.as_ref().map(|(_, etag, _)| version(*etag)).as_ref() != Some(expected)
        {
            return if patch.skips_other_versions { Ok(()) } else { Err(Refused) };
        }
        let Some((id, _, Some(body))) = before else { return self.patch_missing(patch) };
        let after = self.run(&patch.script, &body)?;
        match self.live(&id).and_then(|row| row.body.clone()) {
            Some(now) if *now != *after || self.is_touched(&id) => {
                self.put(&id, &ExpectedVersion::Any, after)
            }
            // It cannot be changed and deleted by one script.
            None if after != *body => Err(Refused),
            Some(_) | None => Ok(()),
        }
    }

    fn patch_missing(&mut self, patch: &PatchCommand) -> Result<(), Refused> {
        let body = match &patch.when_missing {
            WhenMissing::LeaveOut => return Ok(()),
            WhenMissing::Create(_) => json("Users", "created"),
            WhenMissing::Run(script) => {
                let Values { value, collection, .. } = Values::of(script);
                json(&collection, &value)
            }
        };
        self.put(patch.id.as_str(), &ExpectedVersion::Any, body)
    }

    /// The effect of a script on a body, and on other documents.
    fn run(&mut self, request: &PatchRequest, body: &str) -> Result<String, Refused> {
        let Values { other, value, collection } = Values::of(request);
        Ok(match request.text.text.as_str() {
            SET => with_value(body, &value),
            KEEP => body.to_owned(),
            COPY => {
                let other = self.live(&other).and_then(|row| row.body.clone());
                with_value(body, other.as_deref().map_or("nothing", value_of))
            }
            REMOVE => {
                self.delete(&other, &ExpectedVersion::Any)?;
                with_value(body, "removed")
            }
            PUT => {
                self.put(&other, &ExpectedVersion::Any, json(&collection, "put"))?;
                with_value(body, &format!("{}!", value_of(body)))
            }
            COUNT => {
                let name = |name: &str| CounterName::new(name).expect("it is short");
                self.change_counters(&ChangeCounters {
                    id: DocumentId::new(other).expect("a history's ids are short"),
                    ignores_missing: false,
                    steps: vec![
                        CounterStep::Increment { name: name("likes"), by: 2 },
                        CounterStep::Delete { name: name("_x") },
                    ],
                })?;
                body.to_owned()
            }
            FAIL | CAUGHT => return Err(Refused),
            other => unreachable!("no script of a history: {other}"),
        })
    }
}

fn value_of(body: &str) -> &str {
    let rest = body.strip_prefix(r#"{"V":""#).expect("bodies begin with their value");
    rest.split('"').next().expect("splitting yields at least one part")
}

fn with_value(body: &str, value: &str) -> String {
    body.replacen(&format!(r#""V":"{}""#, value_of(body)), &format!(r#""V":"{value}""#), 1)
}
