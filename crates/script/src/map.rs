//! Index definitions written in JavaScript: what they map, and running their functions.
//!
//! Knows nothing of terms or indexes. A definition is evaluated once per engine; its functions are then
//! called document by document. Invariant: a failed call leaves the definition usable for the next one.

use std::rc::Rc;

use blittable::BlittableBuf;
use rquickjs::{Array, Ctx, Function, Object, Value};

use crate::budget::{Budget, RESULT_BYTES_MAX_DEFAULT, TIME_MAX_DEFAULT};
use crate::convert::{Converter, well_formed};
use crate::engine::Engine;
use crate::error::{HostError, ScriptError};
use crate::host::{Host, NoHost};
use crate::index_field::{IndexEntry, push_entries};
use crate::object::DocumentObject;
use crate::program::{Program, ProgramBuilder};
use crate::source::ScriptDocument;
use crate::to_js::to_js;
use crate::value::ScriptValue;

const FRAME: &str = include_str!("map.js");

/// What a map runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Documents.
    Documents,
    /// Segments of time series.
    TimeSeries,
    /// Counters.
    Counters,
}

/// One map of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapInfo {
    /// What it runs over.
    pub kind: MapKind,
    /// The collection; `@all_docs` for every document.
    pub collection: String,
    /// The time series or counter, if it is bound to one.
    pub name: Option<String>,
}

/// The names of the fields that a function returns, found by running it over a document that has
/// every property and one that has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    /// The names found, in the order of the text; a branch that was not taken may have others.
    pub names: Vec<String>,
    /// Whether some names depend on documents, or the function could not be run without one.
    pub has_others: bool,
}

/// A compiled index definition; runs on any engine.
#[derive(Debug)]
pub struct MapScript {
    program: Program,
    maps: Vec<MapInfo>,
    fields: Vec<FieldNames>,
    reduced_fields: Option<FieldNames>,
    group_fields: Vec<String>,
}

/// What only index definitions have in their global scope.
const GLOBALS: [&str; 13] = [
    "map",
    "groupBy",
    "timeSeries",
    "counters",
    "load",
    "noTracking",
    "loadAttachment",
    "loadAttachments",
    "attachmentsFor",
    "counterNamesFor",
    "timeSeriesNamesFor",
    "recurse",
    "cmpxchg",
];
/// Limits on determining the names of fields. The steps are few, and the time is longer than they take on
/// the slowest machine: a definition has the same fields wherever it is compiled, whatever else runs there.
const PROBE_BUDGET: Budget = Budget {
    steps_max: 1_000,
    time_max: TIME_MAX_DEFAULT,
    result_bytes_max: RESULT_BYTES_MAX_DEFAULT,
};
/// The part of an engine's memory that compiling a definition may leave in use.
const KEPT_PART: usize = 16;
/// Represents a name, or a part of one, that is not known without a document.
const UNKNOWN: char = '\u{1}';

impl MapScript {
    /// Compiles and evaluates a definition: its maps, its reduce, and sources whose functions they use.
    ///
    /// Refused are texts that do not parse, throw, or define no map ([`ScriptError::Definition`]).
    pub fn compile(
        engine: &Engine,
        maps: &[&str],
        reduce: Option<&str>,
        additional_sources: &[&str],
    ) -> Result<MapScript, ScriptError> {
        let mut builder = ProgramBuilder::new();
        builder.frame("(function () { 'use strict';").frame(FRAME);
        builder.frame(&format!("(function ({}) {{", GLOBALS.join(", ")));
        for text in additional_sources.iter().chain(maps).copied().chain(reduce) {
            builder.part(text).frame(";");
        }
        let globals = GLOBALS.map(|name| format!("globals.{name}"));
        builder.frame(&format!("}})({});", globals.join(", ")));
        builder.frame("return definition; })()");
        let program = builder.finish();
        let found = engine.run(&program, Budget::default(), &mut NoHost, |ctx, definition| {
            inspect(ctx, definition)
        })?;
        let (maps, has_reduce) = found.map_err(ScriptError::Definition)?;
        if has_reduce != reduce.is_some() {
            let message = "a reduce must be groupBy(…).aggregate(…), and nothing else may be one";
            return Err(ScriptError::Definition(message.to_owned()));
        }
        let fields = (0..maps.len()).map(|map| probe(engine, &program, Some(map))).collect();
        let reduced_fields = has_reduce.then(|| probe(engine, &program, None));
        let group_fields = if has_reduce { probe_group(engine, &program) } else { Vec::new() };
        // State that the functions keep between calls must not include the search for names.
        engine.forget(&program);
        // Many threads compile, and each has an engine of its own.
        engine.shrink_to(engine.memory_bytes_max() / KEPT_PART);
        Ok(MapScript { program, maps, fields, reduced_fields, group_fields })
    }

    /// The maps, in the order of the text.
    pub fn maps(&self) -> &[MapInfo] {
        &self.maps
    }

    /// Whether it has a reduce.
    pub fn has_reduce(&self) -> bool {
        self.reduced_fields.is_some()
    }

    /// The fields of each map.
    pub fn fields(&self) -> &[FieldNames] {
        &self.fields
    }

    /// The fields that the reduce returns, if there is one.
    pub fn reduced_fields(&self) -> Option<&FieldNames> {
        self.reduced_fields.as_ref()
    }

    /// The fields of an entry that determine its key, as far as they are known without one.
    pub fn group_fields(&self) -> &[String] {
        &self.group_fields
    }

    /// Runs map number `map` over `document` and appends the resulting entries to `out`: none when
    /// it returns a value that is not an object, several when it returns an array.
    pub fn map(
        &self,
        engine: &Engine,
        map: usize,
        document: &ScriptDocument,
        budget: Budget,
        host: &mut dyn Host,
        out: &mut Vec<IndexEntry>,
    ) -> Result<(), ScriptError> {
        let document = Rc::clone(&document.source);
        let run = engine.run(&self.program, budget, host, |ctx, definition| {
            let argument = DocumentObject::of_document(ctx, document)?;
            call_map(ctx, &definition, map, argument)
        });
        push_entries(run?, self.has_reduce(), out).map_err(ScriptError::Corrupt)
    }

    /// As [`MapScript::map`], over something that is no document.
    pub fn map_value(
        &self,
        engine: &Engine,
        map: usize,
        value: &ScriptValue,
        budget: Budget,
        host: &mut dyn Host,
        out: &mut Vec<IndexEntry>,
    ) -> Result<(), ScriptError> {
        let run = engine.run(&self.program, budget, host, |ctx, definition| {
            call_map(ctx, &definition, map, to_js(ctx, value)?)
        });
        push_entries(run?, self.has_reduce(), out).map_err(ScriptError::Corrupt)
    }

    /// The key under which the reduce puts `entry`, a result of a map.
    pub fn group_key(
        &self,
        engine: &Engine,
        entry: &ScriptDocument,
        budget: Budget,
    ) -> Result<ScriptValue, ScriptError> {
        engine.run(&self.program, budget, &mut NoHost, |ctx, definition| {
            let group: Function<'_> = object(&definition)?.get("group")?;
            let argument = DocumentObject::of_document(ctx, Rc::clone(&entry.source))?;
            let key: Value<'_> = group.call((argument,))?;
            Converter::new(ctx).convert(&key)
        })
    }

    /// Runs the reduce over the entries of one key and appends its results to `out`. A reduce that
    /// returns anything but objects fails.
    pub fn aggregate(
        &self,
        engine: &Engine,
        key: &ScriptValue,
        values: &[ScriptDocument],
        budget: Budget,
        host: &mut dyn Host,
        out: &mut Vec<IndexEntry>,
    ) -> Result<(), ScriptError> {
        let result = engine.run(&self.program, budget, host, |ctx, definition| {
            let aggregate: Function<'_> = object(&definition)?.get("aggregate")?;
            let group = Object::new(ctx.clone())?;
            group.set("key", to_js(ctx, key)?)?;
            let entries = Array::new(ctx.clone())?;
            for (index, value) in values.iter().enumerate() {
                let value = DocumentObject::of_document(ctx, Rc::clone(&value.source))?;
                entries.set(index, value)?;
            }
            group.set("values", entries)?;
            let result: Value<'_> = aggregate.call((group,))?;
            Converter::new(ctx).convert(&result)
        })?;
        refuse_plain(&result)?;
        push_entries(result, true, out).map_err(ScriptError::Corrupt)
    }
}

fn call_map<'js>(
    ctx: &Ctx<'js>,
    definition: &Value<'js>,
    map: usize,
    argument: Value<'js>,
) -> rquickjs::Result<ScriptValue> {
    let functions: Array<'js> = object(definition)?.get("functions")?;
    let function: Function<'js> = functions.get(map)?;
    Converter::leaving_out_missing(ctx).convert(&function.call((argument,))?)
}

/// The host of maps while the names of their fields are determined: nothing exists besides the
/// document.
struct NothingThere;

impl Host for NothingThere {
    fn load(&mut self, _: &str, _: Option<&str>) -> Result<Option<ScriptDocument>, HostError> {
        Ok(None)
    }

    fn compare_exchange(&mut self, _: &str) -> Result<Option<BlittableBuf>, HostError> {
        Ok(None)
    }
}

/// The names of the fields of a map, or of the reduce.
fn probe(engine: &Engine, program: &Program, map: Option<usize>) -> FieldNames {
    let found = engine.run(program, PROBE_BUDGET, &mut NothingThere, |_, definition| {
        let definition = object(&definition)?;
        let fields_of: Function<'_> = definition.get("fieldsOf")?;
        let function: Function<'_> = match map {
            Some(map) => definition.get::<_, Array<'_>>("functions")?.get(map)?,
            None => definition.get("aggregate")?,
        };
        fields_of.call::<_, Vec<String>>((function,))
    });
    let Ok(found) = found else { return FieldNames { names: Vec::new(), has_others: true } };
    let (known, unknown): (Vec<String>, Vec<String>) =
        found.into_iter().partition(|name| !name.contains(UNKNOWN));
    FieldNames { names: known, has_others: !unknown.is_empty() }
}

/// The names of the members that the grouping reads of an entry.
fn probe_group(engine: &Engine, program: &Program) -> Vec<String> {
    let found = engine.run(program, PROBE_BUDGET, &mut NoHost, |_, definition| {
        let definition = object(&definition)?;
        let names_of: Function<'_> = definition.get("groupFieldsOf")?;
        let group: Function<'_> = definition.get("group")?;
        names_of.call::<_, Vec<String>>((group,))
    });
    // A grouping that cannot be run without an entry is evaluated for each.
    found.unwrap_or_default()
}

/// Refuses a result of a reduce that is neither an object nor an array of objects.
fn refuse_plain(result: &ScriptValue) -> Result<(), ScriptError> {
    let found = match result {
        ScriptValue::Object(_) | ScriptValue::Stored(_) => return Ok(()),
        ScriptValue::Array(items) => return items.iter().try_for_each(refuse_plain),
        ScriptValue::Undefined => "undefined",
        ScriptValue::Null => "null",
        ScriptValue::Bool(_) => "a boolean",
        ScriptValue::Integer(_) | ScriptValue::Number(_) | ScriptValue::Double(_) => "a number",
        ScriptValue::String(_) => "a text",
        ScriptValue::Date(_) => "a date",
    };
    Err(ScriptError::Result(format!("the reduce returns {found} instead of an object")))
}

fn object<'a, 'js>(value: &'a Value<'js>) -> rquickjs::Result<&'a Object<'js>> {
    value.as_object().ok_or(rquickjs::Error::Unknown)
}

/// The contents of a definition; `Err` is what is wrong with it.
type Inspected = Result<(Vec<MapInfo>, bool), String>;

fn inspect<'js>(ctx: &Ctx<'js>, definition: Value<'js>) -> rquickjs::Result<Inspected> {
    let definition = object(&definition)?;
    let maps: Array<'js> = definition.get("maps")?;
    let functions: Array<'js> = definition.get("functions")?;
    let mut found = Vec::with_capacity(maps.len());
    for index in 0..maps.len() {
        let map: Object<'js> = maps.get(index)?;
        let function: Value<'js> = functions.get(index)?;
        if !function.is_function() {
            return Ok(Err(format!("map function #{index} is not a function")));
        }
        let kind: String = map.get("kind")?;
        let collection: Value<'js> = map.get("collection")?;
        let name: Value<'js> = map.get("series")?;
        let Some(collection) = collection.as_string() else {
            return Ok(Err(format!("map function #{index} collection name isn't a string")));
        };
        found.push(MapInfo {
            kind: match kind.as_str() {
                "timeSeries" => MapKind::TimeSeries,
                "counters" => MapKind::Counters,
                _ => MapKind::Documents,
            },
            collection: well_formed(ctx, collection)?,
            name: name.as_string().map(|name| well_formed(ctx, name)).transpose()?,
        });
    }
    if found.is_empty() {
        return Ok(Err("the definition doesn't contain any map functions".to_owned()));
    }
    let group: Value<'js> = definition.get("group")?;
    let aggregate: Value<'js> = definition.get("aggregate")?;
    if group.is_undefined() && aggregate.is_undefined() {
        return Ok(Ok((found, false)));
    }
    if !group.is_function() || !aggregate.is_function() {
        return Ok(Err("groupBy(…) and aggregate(…) both need a function".to_owned()));
    }
    Ok(Ok((found, true)))
}
