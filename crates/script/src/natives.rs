//! The functions of the prelude's `host` object, through which JavaScript reaches the [`Host`] of
//! the call.
//!
//! Arguments are checked in the prelude, where it is easier to read; here they are only converted.

use blittable::BlittableBuf;
use rquickjs::prelude::Opt;
use rquickjs::{Array, Class, Ctx, Function, Object, Result, Value};

use crate::attachments;
use crate::convert::{Converter, well_formed};
use crate::dotnet_texts;
use crate::error::{HostError, ScriptError};
use crate::fault;
use crate::host::{CURRENT, Host, SeriesArgument, TimeSeriesEntry, TimeSeriesStats};
use crate::object::{DocumentObject, stored_to_js};
use crate::source::ScriptDocument;
use crate::to_js::to_js;
use crate::value::ScriptValue;

/// Creates the object.
pub(crate) fn host_object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("documentPrototype", Class::<DocumentObject<'js>>::prototype(ctx)?)?;
    add_documents(ctx, &host)?;
    attachments::add(ctx, &host)?;
    add_counters(ctx, &host)?;
    add_time_series(ctx, &host)?;
    add_loading(ctx, &host)?;
    host.set("operate", Function::new(ctx.clone(), operate)?)?;
    dotnet_texts::add(ctx, &host)?;
    Ok(host)
}

fn add_documents<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("id", Function::new(ctx.clone(), id)?)?;
    host.set("storedDigits", Function::new(ctx.clone(), stored_digits)?)?;
    host.set("metadata", Function::new(ctx.clone(), metadata)?)?;
    host.set("lastModified", Function::new(ctx.clone(), last_modified)?)?;
    host.set("load", Function::new(ctx.clone(), load)?)?;
    host.set("loadUntracked", Function::new(ctx.clone(), load_untracked)?)?;
    host.set("put", Function::new(ctx.clone(), put)?)?;
    host.set("del", Function::new(ctx.clone(), del)?)?;
    host.set("include", Function::new(ctx.clone(), include)?)?;
    host.set("includeValue", Function::new(ctx.clone(), include_value)?)?;
    host.set("cmpxchg", Function::new(ctx.clone(), compare_exchange)?)?;
    host.set("output", Function::new(ctx.clone(), output)?)
}

/// What transformations of ETL tasks call.
fn add_loading<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("loadTo", Function::new(ctx.clone(), load_to)?)?;
    host.set("addAttachment", Function::new(ctx.clone(), add_attachment)?)?;
    host.set("addCounter", Function::new(ctx.clone(), add_counter)?)?;
    host.set("addTimeSeries", Function::new(ctx.clone(), add_loaded_series)?)
}

fn add_counters<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("counter", Function::new(ctx.clone(), counter)?)?;
    host.set("counterRaw", Function::new(ctx.clone(), counter_raw)?)?;
    host.set("incrementCounter", Function::new(ctx.clone(), increment_counter)?)?;
    host.set("deleteCounter", Function::new(ctx.clone(), delete_counter)?)
}

fn add_time_series<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("timeSeriesGet", Function::new(ctx.clone(), time_series_get)?)?;
    host.set("timeSeriesStats", Function::new(ctx.clone(), time_series_stats)?)?;
    host.set("timeSeriesQuery", Function::new(ctx.clone(), time_series_query)?)?;
    host.set("timeSeriesAppend", Function::new(ctx.clone(), time_series_append)?)?;
    host.set("timeSeriesIncrement", Function::new(ctx.clone(), time_series_increment)?)?;
    host.set("timeSeriesDelete", Function::new(ctx.clone(), time_series_delete)?)
}

/// Calls the host of the current call; fails outside of one.
pub(crate) fn call_host<R>(
    ctx: &Ctx<'_>,
    question: impl FnOnce(&mut dyn Host) -> std::result::Result<R, HostError>,
) -> Result<R> {
    let answer = if CURRENT.is_set() {
        CURRENT.with(|host| question(host))
    } else {
        Err("nothing outside of the script can be called here".into())
    };
    answer.map_err(|source| fault::raise(ctx, ScriptError::Host(source)))
}

fn document_of<'js>(value: &Value<'js>) -> Option<Class<'js, DocumentObject<'js>>> {
    value.as_object().and_then(DocumentObject::of)
}

fn undefined<'js>(ctx: &Ctx<'js>) -> Value<'js> {
    Value::new_undefined(ctx.clone())
}

fn text<'js>(ctx: &Ctx<'js>, value: Option<&Value<'js>>) -> Result<Option<String>> {
    value.and_then(Value::as_string).map(|text| well_formed(ctx, text)).transpose()
}

fn id<'js>(ctx: Ctx<'js>, document: Value<'js>) -> Result<Value<'js>> {
    let Some(document) = document_of(&document).filter(|document| document.borrow().is_root())
    else {
        // An undefined document has an undefined id, any other value has none.
        return Ok(if document.is_undefined() { document } else { Value::new_null(ctx) });
    };
    match document.borrow().source.id() {
        Some(id) => Ok(rquickjs::String::from_str(ctx, id)?.into_value()),
        None => Ok(Value::new_null(ctx)),
    }
}

/// The digits of a number of a document, or of a part of one, as they are stored.
fn stored_digits<'js>(ctx: Ctx<'js>, part: Value<'js>, name: String) -> Result<Option<String>> {
    let Some(part) = document_of(&part) else { return Ok(None) };
    let part = part.borrow();
    part.stored_digits(&name).map_err(|source| fault::raise(&ctx, source.into()))
}

fn metadata<'js>(ctx: Ctx<'js>, document: Value<'js>) -> Result<Value<'js>> {
    match document_of(&document) {
        Some(document) if document.borrow().is_root() => {
            Ok(document.borrow().metadata(&ctx)?.unwrap_or_else(|| undefined(&ctx)))
        }
        Some(_) | None => Ok(undefined(&ctx)),
    }
}

fn last_modified<'js>(ctx: Ctx<'js>, document: Value<'js>) -> Option<f64> {
    let _ = ctx;
    let document = document_of(&document)?;
    document.borrow().source.info()?.last_modified_millis()
}

fn load<'js>(ctx: Ctx<'js>, id: String, collection: Opt<Value<'js>>) -> Result<Value<'js>> {
    let collection = text(&ctx, collection.0.as_ref())?;
    match call_host(&ctx, |host| host.load(&id, collection.as_deref()))? {
        Some(ScriptDocument { source }) => DocumentObject::of_document(&ctx, source),
        None => Ok(undefined(&ctx)),
    }
}

fn load_untracked<'js>(ctx: Ctx<'js>, id: String, collection: String) -> Result<Value<'js>> {
    match call_host(&ctx, |host| host.load_untracked(&id, &collection))? {
        Some(ScriptDocument { source }) => DocumentObject::of_document(&ctx, source),
        None => Ok(undefined(&ctx)),
    }
}

fn put<'js>(
    ctx: Ctx<'js>,
    id: Value<'js>,
    document: Value<'js>,
    change_vector: Opt<Value<'js>>,
) -> Result<String> {
    let id = text(&ctx, Some(&id))?;
    let change_vector = text(&ctx, change_vector.0.as_ref())?;
    let mut value = Converter::new(&ctx).convert(&document)?;
    if let ScriptValue::Object(properties) = &mut value {
        properties.retain(|(_, value)| !matches!(value, ScriptValue::Undefined));
    }
    let document = stored_form(&ctx, &value, "put")?;
    call_host(&ctx, |host| host.put(id.as_deref(), document, change_vector.as_deref()))
}

/// An object as a document.
fn stored_form<'js>(ctx: &Ctx<'js>, value: &ScriptValue, call: &str) -> Result<BlittableBuf> {
    let document = value.to_document().map_err(|source| fault::raise(ctx, source.into()))?;
    document.ok_or_else(|| {
        let refusal = ScriptError::Result(format!("{call} needs an object"));
        fault::raise(ctx, refusal)
    })
}

fn load_to<'js>(ctx: Ctx<'js>, collection: String, object: Value<'js>) -> Result<u32> {
    let is_stored = document_of(&object).is_some_and(|object| object.borrow().is_root());
    let document = stored_form(&ctx, &Converter::new(&ctx).convert(&object)?, "loadTo")?;
    call_host(&ctx, |host| host.load_to(&collection, document, is_stored))
}

fn add_attachment(ctx: Ctx<'_>, number: u32, name: String, new_name: String) -> Result<()> {
    call_host(&ctx, |host| host.add_attachment(number, &name, &new_name))
}

fn add_counter(ctx: Ctx<'_>, number: u32, name: String) -> Result<()> {
    call_host(&ctx, |host| host.add_counter(number, &name))
}

fn add_loaded_series(
    ctx: Ctx<'_>,
    number: u32,
    name: String,
    from: Opt<Option<f64>>,
    to: Opt<Option<f64>>,
) -> Result<()> {
    let (from, to) = (from.0.flatten(), to.0.flatten());
    call_host(&ctx, |host| host.add_time_series(number, &name, from, to))
}

/// An operation of the console, with its arguments in an array.
fn operate<'js>(ctx: Ctx<'js>, operation: String, arguments: Array<'js>) -> Result<Value<'js>> {
    let mut converter = Converter::new(&ctx);
    let values = arguments.iter::<Value<'js>>().map(|value| converter.convert(&value?));
    let values = values.collect::<Result<Vec<_>>>()?;
    let answer = call_host(&ctx, |host| host.operate(&operation, values))?;
    to_js(&ctx, &answer)
}

fn del<'js>(ctx: Ctx<'js>, id: String, change_vector: Opt<Value<'js>>) -> Result<bool> {
    let change_vector = text(&ctx, change_vector.0.as_ref())?;
    call_host(&ctx, |host| host.delete(&id, change_vector.as_deref()))
}

fn include(ctx: Ctx<'_>, id: String) -> Result<()> {
    call_host(&ctx, |host| host.include(&id))
}

fn include_value(ctx: Ctx<'_>, key: String) -> Result<()> {
    call_host(&ctx, |host| host.include_value(&key))
}

fn compare_exchange<'js>(ctx: Ctx<'js>, key: String) -> Result<Value<'js>> {
    let Some(wrapped) = call_host(&ctx, |host| host.compare_exchange(&key))? else {
        return Ok(Value::new_undefined(ctx));
    };
    let wrapped = ScriptDocument::unstored(wrapped);
    let value = wrapped.document().root().get("Object");
    match value.map_err(|source| fault::raise(&ctx, source.into()))? {
        Some(value) => stored_to_js(&ctx, &wrapped.source, value),
        None => Ok(Value::new_undefined(ctx)),
    }
}

fn output<'js>(ctx: Ctx<'js>, line: Value<'js>) -> Result<()> {
    let value = Converter::new(&ctx).convert(&line)?;
    let line = match &value {
        ScriptValue::Undefined => "undefined".to_owned(),
        ScriptValue::Bool(true) => "True".to_owned(),
        ScriptValue::Bool(false) => "False".to_owned(),
        ScriptValue::String(text) => text.to_string(),
        other => other.to_json().map_err(|source| fault::raise(&ctx, source.into()))?,
    };
    call_host(&ctx, |host| {
        host.output(&line);
        Ok(())
    })
}

fn counter(ctx: Ctx<'_>, id: String, name: String) -> Result<Value<'_>> {
    match call_host(&ctx, |host| host.counter(&id, &name))? {
        Some(total) => Ok(Value::new_number(ctx, total as f64)),
        None => Ok(Value::new_null(ctx)),
    }
}

fn counter_raw(ctx: Ctx<'_>, id: String, name: String) -> Result<Object<'_>> {
    let values = Object::new(ctx.clone())?;
    for (node, value) in call_host(&ctx, |host| host.counter_raw(&id, &name))? {
        values.set(node, value as f64)?;
    }
    Ok(values)
}

fn increment_counter(ctx: Ctx<'_>, id: String, name: String, by: f64) -> Result<bool> {
    call_host(&ctx, |host| host.increment_counter(&id, &name, by)).map(|()| true)
}

fn delete_counter(ctx: Ctx<'_>, id: String, name: String) -> Result<bool> {
    call_host(&ctx, |host| host.delete_counter(&id, &name)).map(|()| true)
}

fn time_series_get<'js>(
    ctx: Ctx<'js>,
    id: String,
    name: String,
    from: Opt<Option<f64>>,
    to: Opt<Option<f64>>,
) -> Result<Array<'js>> {
    let found =
        call_host(&ctx, |host| host.time_series_get(&id, &name, from.0.flatten(), to.0.flatten()))?;
    let entries = Array::new(ctx.clone())?;
    for (index, found) in found.into_iter().enumerate() {
        let entry = Object::new(ctx.clone())?;
        entry.set("Timestamp", crate::date::date_text(found.timestamp_millis))?;
        entry.set("Tag", found.tag)?;
        entry.set("Values", found.values)?;
        entry.set("IsRollup", found.is_rollup)?;
        entries.set(index, entry)?;
    }
    Ok(entries)
}

/// The moments of a series without entries are those of the year 1.
fn time_series_stats(ctx: Ctx<'_>, id: String, name: String) -> Result<Object<'_>> {
    const YEAR_1_MILLIS: f64 = -62_135_596_800_000.0;
    let found = call_host(&ctx, |host| host.time_series_stats(&id, &name))?;
    let none = TimeSeriesStats { start_millis: YEAR_1_MILLIS, end_millis: YEAR_1_MILLIS, count: 0 };
    let found = found.unwrap_or(none);
    let stats = Object::new(ctx)?;
    stats.set("Start", found.start_millis)?;
    stats.set("End", found.end_millis)?;
    stats.set("Count", found.count as f64)?;
    Ok(stats)
}

fn time_series_query<'js>(
    ctx: Ctx<'js>,
    function: String,
    values: Array<'js>,
) -> Result<Value<'js>> {
    let mut arguments = Vec::with_capacity(values.len());
    for value in values.iter::<Value<'js>>() {
        let value = value?;
        let document = document_of(&value).filter(|document| document.borrow().is_root());
        let id = document.and_then(|document| document.borrow().source.id().map(str::to_owned));
        arguments.push(match id {
            Some(id) => SeriesArgument::Document(id),
            None => SeriesArgument::Value(Converter::new(&ctx).convert(&value)?),
        });
    }
    let json = call_host(&ctx, |host| host.time_series_query(&function, arguments))?;
    ctx.json_parse(json)
}

fn time_series_append<'js>(
    ctx: Ctx<'js>,
    id: String,
    name: String,
    at: f64,
    values: Vec<f64>,
    tag: Opt<Value<'js>>,
) -> Result<()> {
    let tag = text(&ctx, tag.0.as_ref())?;
    let entry = TimeSeriesEntry { timestamp_millis: at, tag, values, is_rollup: false };
    call_host(&ctx, |host| host.time_series_append(&id, &name, entry))
}

fn time_series_increment(
    ctx: Ctx<'_>,
    id: String,
    name: String,
    at: f64,
    values: Vec<f64>,
) -> Result<()> {
    let entry = TimeSeriesEntry { timestamp_millis: at, tag: None, values, is_rollup: false };
    call_host(&ctx, |host| host.time_series_increment(&id, &name, entry))
}

fn time_series_delete(
    ctx: Ctx<'_>,
    id: String,
    name: String,
    from: Opt<Option<f64>>,
    to: Opt<Option<f64>>,
) -> Result<()> {
    call_host(&ctx, |host| host.time_series_delete(&id, &name, from.0.flatten(), to.0.flatten()))
}
