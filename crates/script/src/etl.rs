//! Transformation scripts of ETL tasks: `this` is a document, `loadTo<Collection>(object)` sends one.
//!
//! Knows nothing of tasks or destinations: what a script loads is passed to its [`Host`]. A script may also declare
//! functions that the task asks, such as `deleteDocumentsOf<Collection>Behavior`. Invariant: a failed call leaves the
//! script usable for the next one.

use std::collections::BTreeSet;
use std::rc::Rc;

use rquickjs::function::Args;
use rquickjs::{Function, Object, Value};

use crate::budget::Budget;
use crate::convert::Converter;
use crate::engine::Engine;
use crate::error::ScriptError;
use crate::host::{Host, NoHost};
use crate::object::DocumentObject;
use crate::program::{Program, ProgramBuilder};
use crate::source::ScriptDocument;
use crate::to_js::to_js;
use crate::value::ScriptValue;

const FRAME: &str = include_str!("etl.js");
/// What only transformation scripts have in their global scope.
const GLOBALS: [&str; 10] = [
    "loadTo",
    "loadAttachment",
    "hasAttachment",
    "getAttachments",
    "loadCounter",
    "hasCounter",
    "getCounters",
    "loadTimeSeries",
    "hasTimeSeries",
    "getTimeSeries",
];
const LOAD_TO: &str = "loadTo";
const BEHAVIOR: &str = "Behavior";

/// A compiled transformation; runs on any engine.
#[derive(Debug)]
pub struct EtlScript {
    program: Program,
    collections: Vec<String>,
    behaviors: Vec<String>,
}

impl EtlScript {
    /// Compiles a script.
    ///
    /// # Errors
    /// It is not JavaScript.
    pub fn compile(engine: &Engine, text: &str) -> Result<EtlScript, ScriptError> {
        let words: BTreeSet<&str> = words_of(text).collect();
        let collections = collections_of(text, &words);
        let behaviors: Vec<String> = words
            .iter()
            .filter(|word| word.ends_with(BEHAVIOR) && BEHAVIOR.len() < word.len())
            .map(|word| (*word).to_owned())
            .collect();
        let named: Vec<&str> =
            words.iter().copied().filter(|word| named_collection(word).is_some()).collect();
        let parameters: Vec<&str> = GLOBALS.iter().chain(&named).copied().collect();
        let globals = GLOBALS.iter().map(|name| format!("globals.{name}"));
        let loaders = named
            .iter()
            .filter_map(|word| named_collection(word))
            .map(|collection| format!("loader('{collection}')"));
        let arguments: Vec<String> = globals.chain(loaders).collect();
        let cases = behaviors.iter().enumerate().map(|(number, name)| {
            // What is not declared as a function has no value before the text runs.
            format!(
                "case {number}: try {{ return typeof {name} === 'function' ? {name} : undefined; }} \
                 catch {{ return undefined; }}"
            )
        });
        let mut builder = ProgramBuilder::new();
        builder.frame("(function () { 'use strict';").frame(FRAME);
        builder.frame(&format!(
            "return transformation((function ({}) {{ return function ($behavior) {{ \
             switch ($behavior) {{ {} }}",
            parameters.join(", "),
            cases.collect::<String>()
        ));
        builder.part(text);
        builder.frame(&format!("}}; }})({}));", arguments.join(", ")));
        builder.frame("})()");
        let program = builder.finish();
        engine.run(&program, Budget::default(), &mut NoHost, |_, _| Ok(()))?;
        Ok(EtlScript { program, collections, behaviors })
    }

    /// The collections that its text loads to, in alphabetical order, each once without regard to case.
    pub fn collections(&self) -> &[String] {
        &self.collections
    }

    /// The names in its text that end with `Behavior`.
    pub fn behaviors(&self) -> &[String] {
        &self.behaviors
    }

    /// Whether its text mentions a function of this name.
    pub fn has_behavior(&self, name: &str) -> bool {
        self.behaviors.iter().any(|known| known == name)
    }

    /// Runs it over a document; what it loads goes to the host.
    pub fn run(
        &self,
        engine: &Engine,
        document: &ScriptDocument,
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<(), ScriptError> {
        engine.run(&self.program, budget, host, |ctx, transformation| {
            let this = DocumentObject::of_document(ctx, Rc::clone(&document.source))?;
            let run: Function<'_> = object(transformation)?.get("run")?;
            run.call::<_, Value<'_>>((this,)).map(drop)
        })
    }

    /// Calls the function of this name; `None` if the script declares none.
    pub fn call(
        &self,
        engine: &Engine,
        name: &str,
        arguments: &[ScriptValue],
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<Option<ScriptValue>, ScriptError> {
        let Some(number) = self.behaviors.iter().position(|known| known == name) else {
            return Ok(None);
        };
        engine.run(&self.program, budget, host, |ctx, transformation| {
            let call: Function<'_> = object(transformation)?.get("call")?;
            let mut values = Args::new(ctx.clone(), 1 + arguments.len());
            values.push_arg(number)?;
            for argument in arguments {
                values.push_arg(to_js(ctx, argument)?)?;
            }
            // A function answers in a list; without one there is none.
            let returned: Value<'_> = call.call_arg(values)?;
            match returned.as_array() {
                Some(answer) => Converter::new(ctx).convert(&answer.get(0)?).map(Some),
                None => Ok(None),
            }
        })
    }
}

fn object(value: Value<'_>) -> rquickjs::Result<Object<'_>> {
    value.into_object().ok_or(rquickjs::Error::Unknown)
}

/// The collections named by `loadTo<Collection>`, and by `loadTo('<Collection>', …)`.
fn collections_of(text: &str, words: &BTreeSet<&str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let in_words = words.iter().filter_map(|word| named_collection(word));
    for collection in in_words.chain(quoted_collections(text)) {
        if !found.iter().any(|known| known.eq_ignore_ascii_case(collection)) {
            found.push(collection.to_owned());
        }
    }
    found.sort_unstable();
    found
}

fn named_collection(word: &str) -> Option<&str> {
    word.strip_prefix(LOAD_TO).filter(|collection| !collection.is_empty())
}

/// The first arguments of calls of `loadTo` that are texts.
fn quoted_collections(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(LOAD_TO).filter_map(|(start, _)| {
        let rest = text[start + LOAD_TO.len()..].trim_start().strip_prefix('(')?.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"' | '`'))?;
        let (name, _) = rest[quote.len_utf8()..].split_once(quote)?;
        Some(name).filter(|name| !name.is_empty())
    })
}

/// The words of a text that may be names; those inside of texts and comments are among them.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.split(move |c: char| !is_word(c))
        .filter(|word| !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()))
}
