//! JavaScript values to values that outlive them.
//!
//! Untouched objects of documents stay references into the document. Runs inside of the script's
//! budget, because getters and `toJSON`-like tricks of the script run here, too. Invariant: the
//! result nests no deeper than [`DEPTH_MAX`], and an object inside of itself becomes null. Its size
//! is counted while it is built: a script may refer to one string a thousand times, and each is a
//! separate copy.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use blittable::{Array as StoredArray, JsonReader, Value as Stored, prints_within};
use rquickjs::function::This;
use rquickjs::object::Filter;
use rquickjs::{Array, Ctx, Function, Object, Value};

use crate::budget::Meter;
use crate::error::ScriptError;
use crate::fault;
use crate::host::CURRENT;
use crate::number::whole;
use crate::object::{DocumentObject, Slot};
use crate::source::{ADDED_NAMES, Source};
use crate::value::{ScriptValue, StoredObject};

/// How deep results may nest.
pub const DEPTH_MAX: usize = 128;
/// How many elements an array in a result may have, holes included.
pub const ARRAY_LENGTH_MAX: usize = 4_000_000;

/// The meter and the host are checked each time a result grows by this many bytes.
const QUESTION_BYTES: u64 = 64 << 10;
/// Approximate bytes of a value besides its text.
const VALUE_BYTES: u64 = 16;
/// Approximate bytes of a property besides its name and its value.
const PROPERTY_BYTES: u64 = 32;

/// Converts the values of one result.
pub(crate) struct Converter<'js> {
    ctx: Ctx<'js>,
    /// The objects around the one that is being converted.
    around: Vec<Value<'js>>,
    /// Found when the first object needs them.
    constructors: Option<Constructors<'js>>,
    meter: Option<Rc<Meter>>,
    /// Whether values missing in a document become undefined; otherwise they become null.
    leaves_out_missing: bool,
    /// Of the result so far.
    bytes: u64,
    /// The size at which the meter is checked next.
    asks_at: u64,
}

struct Constructors<'js> {
    object_prototype: Object<'js>,
    date: Object<'js>,
    error: Object<'js>,
    regexp: Object<'js>,
}

impl<'js> Constructors<'js> {
    fn find(ctx: &Ctx<'js>) -> rquickjs::Result<Self> {
        let globals = ctx.globals();
        let object: Object<'js> = globals.get("Object")?;
        Ok(Constructors {
            object_prototype: object.get("prototype")?,
            date: globals.get("Date")?,
            error: globals.get("Error")?,
            regexp: globals.get("RegExp")?,
        })
    }
}

impl<'js> Converter<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Self {
        let (around, constructors) = (Vec::new(), None);
        let (ctx, meter) = (ctx.clone(), Meter::current());
        let leaves_out_missing = false;
        let (bytes, asks_at) = (0, QUESTION_BYTES);
        Converter { ctx, around, constructors, meter, leaves_out_missing, bytes, asks_at }
    }

    /// Converts values missing in a document, such as a member of a null there, to undefined.
    pub(crate) fn leaving_out_missing(ctx: &Ctx<'js>) -> Self {
        Converter { leaves_out_missing: true, ..Converter::new(ctx) }
    }

    /// Counts bytes of the result, before they are allocated.
    fn count(&mut self, bytes: u64) -> rquickjs::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(VALUE_BYTES);
        if self.bytes < self.asks_at {
            return Ok(());
        }
        self.asks_at = self.bytes.saturating_add(QUESTION_BYTES);
        if let Some(meter) = &self.meter
            && meter.must_stop_at(self.bytes)
        {
            // The meter has the reason.
            return Err(self.refuse("the result cannot be built"));
        }
        let held = match CURRENT.is_set() {
            true => CURRENT.with(|host| host.hold_result(self.bytes)),
            false => Ok(()),
        };
        held.map_err(|source| fault::raise(&self.ctx, ScriptError::Host(source)))
    }

    /// Counts a stored value, before it is copied.
    fn count_stored(&mut self, stored: &Stored<'_>) -> rquickjs::Result<()> {
        let mut bytes = QUESTION_BYTES;
        // Approximately: sizes are rounded up to a power of two.
        while !prints_within(stored, bytes).map_err(|error| self.corrupt(error))? {
            self.count(bytes)?;
            bytes = bytes.saturating_mul(2);
        }
        self.count(0)
    }

    /// Converts `value`.
    pub(crate) fn convert(&mut self, value: &Value<'js>) -> rquickjs::Result<ScriptValue> {
        self.convert_with_stored(value, None)
    }

    /// Converts `value`, which the script read from `stored`: an equal number keeps its text.
    fn convert_with_stored(
        &mut self,
        value: &Value<'js>,
        stored: Option<(&Rc<Source>, Stored<'_>)>,
    ) -> rquickjs::Result<ScriptValue> {
        self.count(0)?;
        if let Some(number) = value.as_number() {
            return Ok(number_with_stored(number, stored));
        }
        if let Some(text) = value.as_string() {
            let text = well_formed(&self.ctx, text)?;
            self.count(text.len() as u64)?;
            return Ok(ScriptValue::String(Rc::from(text)));
        }
        if let Some(value) = value.as_bool() {
            return Ok(ScriptValue::Bool(value));
        }
        if value.is_undefined() || (self.leaves_out_missing && is_missing(value)) {
            return Ok(ScriptValue::Undefined);
        }
        if value.is_symbol() {
            return Err(self.refuse("a symbol cannot become JSON"));
        }
        match value.as_object() {
            Some(object) if !value.is_function() => self.convert_object(object, stored),
            Some(_) | None => Ok(ScriptValue::Null),
        }
    }

    fn convert_object(
        &mut self,
        object: &Object<'js>,
        stored: Option<(&Rc<Source>, Stored<'_>)>,
    ) -> rquickjs::Result<ScriptValue> {
        let document = DocumentObject::of(object);
        if let Some(document) = &document
            && document.borrow().is_untouched()
        {
            let document = document.borrow();
            let view = document.source.document().object_at(document.handle);
            self.count_stored(&Stored::Object(view.map_err(|error| self.corrupt(error))?))?;
            return Ok(stored_object(&document));
        }
        let value = object.as_value();
        if self.around.contains(value) {
            return Ok(ScriptValue::Null);
        }
        if self.around.len() >= DEPTH_MAX {
            return Err(self.refuse("the result nests too deeply"));
        }
        self.around.push(value.clone());
        let converted = if let Some(document) = document {
            self.convert_document(&document.borrow())
        } else if let Some(array) = object.as_array() {
            self.convert_array(array, stored)
        } else {
            self.convert_plain(object)
        };
        self.around.pop();
        converted
    }

    fn convert_array(
        &mut self,
        array: &Array<'js>,
        stored: Option<(&Rc<Source>, Stored<'_>)>,
    ) -> rquickjs::Result<ScriptValue> {
        let length = length_of(array)?;
        if length > ARRAY_LENGTH_MAX {
            return Err(self.refuse("an array of the result is too long"));
        }
        let stored: Option<(&Rc<Source>, StoredArray<'_>)> =
            stored.and_then(|(source, value)| value.as_array().map(|array| (source, array)));
        let mut items = Vec::with_capacity(length.min(1024));
        for index in 0..length {
            let item: Value<'js> = array.get(index)?;
            if item.is_undefined() && !array.as_object().contains_key(index as u32)? {
                continue;
            }
            let stored = stored.and_then(|(source, array)| {
                array.get(index).ok().flatten().map(|value| (source, value))
            });
            items.push(self.convert_with_stored(&item, stored)?);
        }
        Ok(ScriptValue::Array(items))
    }

    /// A part of a document that the script accessed: unchanged properties stay as stored.
    fn convert_document(
        &mut self,
        document: &DocumentObject<'js>,
    ) -> rquickjs::Result<ScriptValue> {
        let source = &document.source;
        let slots = document.slots();
        let view = source.document().object_at(document.handle).map_err(|e| self.corrupt(e))?;
        let mut properties = Vec::with_capacity(view.len());
        for property in view.iter() {
            let (name, stored) = property.map_err(|e| self.corrupt(e))?;
            let value = match slots.get(name) {
                Some(Slot::Deleted) => continue,
                Some(Slot::Read(value)) if name == "@metadata" && document.is_root() => {
                    self.convert_metadata(source, value, stored)?
                }
                Some(Slot::Read(value)) => {
                    self.convert_with_stored(value, Some((source, stored)))?
                }
                Some(Slot::Set(value)) => {
                    let value = self.convert_with_stored(value, Some((source, stored)))?;
                    // An existing property set to undefined becomes null: only `delete` removes it.
                    match value {
                        ScriptValue::Undefined => ScriptValue::Null,
                        value => value,
                    }
                }
                None => {
                    self.count_stored(&stored)?;
                    ScriptValue::of_stored(source, stored).map_err(|e| self.corrupt(e))?
                }
            };
            self.count(name.len() as u64)?;
            properties.push((Rc::from(name), value));
        }
        for (name, slot) in slots.iter() {
            // A slot that was read but is not stored is the metadata of a document that has none.
            let Slot::Set(value) = slot else { continue };
            if view.contains(name).map_err(|e| self.corrupt(e))? {
                continue;
            }
            self.count(name.len() as u64)?;
            let value = self.convert(value)?;
            if !matches!(value, ScriptValue::Undefined) {
                properties.push((Rc::clone(name), value));
            }
        }
        Ok(ScriptValue::Object(properties))
    }

    /// Metadata inside of its document, without what the server only shows there.
    fn convert_metadata(
        &mut self,
        source: &Rc<Source>,
        value: &Value<'js>,
        stored: Stored<'_>,
    ) -> rquickjs::Result<ScriptValue> {
        let as_stored = ScriptValue::of_stored(source, stored).map_err(|e| self.corrupt(e))?;
        match self.convert(value)? {
            ScriptValue::Object(mut properties) => {
                properties.retain(|(name, _)| !ADDED_NAMES.contains(&&**name));
                Ok(ScriptValue::Object(properties))
            }
            _ => Ok(as_stored),
        }
    }

    fn convert_plain(&mut self, object: &Object<'js>) -> rquickjs::Result<ScriptValue> {
        if self.constructors.is_none() {
            self.constructors = Some(Constructors::find(&self.ctx)?);
        }
        if let Some(known) = &self.constructors
            && object.get_prototype().as_ref() != Some(&known.object_prototype)
        {
            if object.is_instance_of(&known.date) {
                return self.convert_date(object);
            }
            if object.is_instance_of(&known.error) {
                let message: Value<'js> = object.get("message")?;
                return Ok(single("message", self.convert(&message)?));
            }
            if object.is_instance_of(&known.regexp) {
                let index: Value<'js> = object.get("lastIndex")?;
                return Ok(single("lastIndex", self.convert(&index)?));
            }
            if let Some(number) = raw_number(object)? {
                return Ok(number);
            }
        }
        let mut properties = Vec::new();
        for property in object.own_props::<rquickjs::String<'js>, Value<'js>>(Filter::default()) {
            let (name, value) = property?;
            let name = well_formed(&self.ctx, &name)?;
            self.count(name.len() as u64 + PROPERTY_BYTES)?;
            properties.push((Rc::from(name), self.convert(&value)?));
        }
        Ok(ScriptValue::Object(properties))
    }

    fn convert_date(&self, date: &Object<'js>) -> rquickjs::Result<ScriptValue> {
        let get_time: Function<'js> = date.get("getTime")?;
        let millis: f64 = get_time.call((This(date.clone()),))?;
        if millis.is_nan() {
            return Err(self.refuse("an invalid date cannot become JSON: its value is NaN"));
        }
        Ok(ScriptValue::Date(millis))
    }

    fn refuse(&self, message: &str) -> rquickjs::Error {
        fault::raise(&self.ctx, ScriptError::Result(message.to_owned()))
    }

    fn corrupt(&self, source: blittable::Corrupt) -> rquickjs::Error {
        fault::raise(&self.ctx, source.into())
    }
}

/// The bits next to the tag of the null of a missing value, see
/// `third_party/rquickjs-sys/CORVUS.md`.
const MISSING: u64 = 1 << 32;

/// Whether this is the null of a value missing in a document.
fn is_missing(value: &Value<'_>) -> bool {
    // The wrapper exposes the bits of a value only through hashing.
    struct Bits(u64);
    impl Hasher for Bits {
        fn write(&mut self, _: &[u8]) {}

        fn write_u64(&mut self, bits: u64) {
            self.0 = bits;
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
    if !value.is_null() {
        return false;
    }
    let mut bits = Bits(0);
    value.hash(&mut bits);
    bits.finish() == MISSING
}

/// The name of the symbol under which the prelude keeps the digits of a number read as stored.
const RAW_DIGITS: &str = "digits of a stored number";

/// The number that a script read as stored.
fn raw_number(object: &Object<'_>) -> rquickjs::Result<Option<ScriptValue>> {
    let symbols: Object<'_> = object.ctx().globals().get("Symbol")?;
    let symbol_for: Function<'_> = symbols.get("for")?;
    let key: Value<'_> = symbol_for.call((RAW_DIGITS,))?;
    let digits: Value<'_> = object.get(key)?;
    let Some(digits) = digits.as_string() else { return Ok(None) };
    // A script may have created the object itself, so its digits are not trusted.
    let digits = digits.to_string()?;
    let mut reader = JsonReader::new(digits.as_bytes());
    let (Ok(number), Ok(())) = (reader.read_number(), reader.finish()) else { return Ok(None) };
    Ok(Some(match number.parse() {
        Ok(integer) => ScriptValue::Integer(integer),
        Err(_) => ScriptValue::Number(Rc::from(number)),
    }))
}

fn single(name: &str, value: ScriptValue) -> ScriptValue {
    ScriptValue::Object(vec![(Rc::from(name), value)])
}

fn stored_object(document: &DocumentObject<'_>) -> ScriptValue {
    ScriptValue::Stored(StoredObject {
        source: Rc::clone(&document.source),
        handle: document.handle,
    })
}

/// A number; the stored one when the script returned what it read.
fn number_with_stored(number: f64, stored: Option<(&Rc<Source>, Stored<'_>)>) -> ScriptValue {
    if let Some((_, stored)) = stored
        && stored.as_f64() == Some(number)
    {
        match stored {
            Stored::Integer(value) => return ScriptValue::Integer(value),
            Stored::Number(text) => return ScriptValue::Number(Rc::from(text)),
            _ => {}
        }
    }
    match whole(number) {
        Some(integer) => ScriptValue::Integer(integer),
        None => ScriptValue::Double(number),
    }
}

/// The text of a string. A half of a surrogate pair, which UTF-8 does not have, becomes U+FFFD.
pub(crate) fn well_formed<'js>(
    ctx: &Ctx<'js>,
    text: &rquickjs::String<'js>,
) -> rquickjs::Result<String> {
    match text.to_string() {
        Ok(text) => Ok(text),
        Err(rquickjs::Error::Utf8(_)) => {
            let value = text.as_value().clone();
            let string: Object<'js> = ctx.globals().get("String")?;
            let prototype: Object<'js> = string.get("prototype")?;
            let to_well_formed: Function<'js> = prototype.get("toWellFormed")?;
            to_well_formed.call((This(value),))
        }
        Err(other) => Err(other),
    }
}

/// The length of an array, which scripts may set to anything below 2³²: the library's own function panics from 2³¹ on.
fn length_of(array: &Array<'_>) -> rquickjs::Result<usize> {
    let length: f64 = array.as_object().get("length")?;
    // Lengths are whole numbers, and not negative.
    Ok(length as usize)
}
