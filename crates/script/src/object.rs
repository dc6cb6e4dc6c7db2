//! Documents as JavaScript objects: an exotic class that reads the stored bytes on demand.
//!
//! Nothing is copied before the script reads it, and changes by the script are kept apart from the
//! bytes (copy on write), so that the rest can be copied as stored. Invariant: reading the same
//! property twice returns the same object.

use std::cell::RefCell;
use std::rc::Rc;

use blittable::{Object as StoredView, ObjectHandle, Value as Stored};
use rquickjs::class::{
    ClassKind, JsCell, JsClass, PropertyDescriptor, PropertyName, Readable, Trace, Tracer,
};
use rquickjs::function::Constructor;
use rquickjs::{Array, Atom, Class, Ctx, JsLifetime, Object, Result, String as JsString, Value};
use rustc_hash::FxHashMap;

use crate::convert::well_formed;
use crate::fault;
use crate::source::Source;

const METADATA: &str = "@metadata";

/// What a script did with a property.
#[derive(Clone)]
pub(crate) enum Slot<'js> {
    /// Read an object or array, which it may have changed inside.
    Read(Value<'js>),
    /// The script set a value.
    Set(Value<'js>),
    /// Removed it.
    Deleted,
}

/// From this many slots on they are found by hashing.
const SLOTS_SEARCHED_MAX: usize = 16;

/// What a script touched, in the order in which it did.
#[derive(Clone, Default)]
pub(crate) struct Slots<'js> {
    list: Vec<(Rc<str>, Slot<'js>)>,
    /// Where in the list a name is; empty while the list is short.
    places: FxHashMap<Rc<str>, usize>,
}

impl<'js> Slots<'js> {
    fn place(&self, name: &str) -> Option<usize> {
        if self.list.len() <= SLOTS_SEARCHED_MAX {
            return self.list.iter().position(|(key, _)| &**key == name);
        }
        self.places.get(name).copied()
    }

    /// The state of `name`, if the script accessed it.
    pub(crate) fn get(&self, name: &str) -> Option<&Slot<'js>> {
        self.place(name).map(|place| &self.list[place].1)
    }

    /// Accessed names and their states.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Rc<str>, Slot<'js>)> {
        self.list.iter()
    }

    fn put(&mut self, name: &str, slot: Slot<'js>) {
        if let Some(place) = self.place(name) {
            self.list[place].1 = slot;
            return;
        }
        self.list.push((Rc::from(name), slot));
        if self.list.len() > SLOTS_SEARCHED_MAX {
            let known = self.places.len();
            let new = self.list.iter().enumerate().skip(known);
            self.places.extend(new.map(|(place, (key, _))| (Rc::clone(key), place)));
        }
    }
}

/// An object of a document, as seen by a script.
pub(crate) struct DocumentObject<'js> {
    pub(crate) source: Rc<Source>,
    pub(crate) handle: ObjectHandle,
    slots: RefCell<Slots<'js>>,
}

#[expect(
    unsafe_code,
    reason = "the library asks for it; the lifetime is that of the values inside"
)]
// SAFETY: `'js` is the lifetime of the JavaScript values in `slots`, and `Changed` is the same type with
// only that lifetime replaced, which is what the trait demands.
unsafe impl<'js> JsLifetime<'js> for DocumentObject<'js> {
    type Changed<'to> = DocumentObject<'to>;
}

impl<'js> Trace<'js> for DocumentObject<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        // The collector runs between two accesses, never while the slots are borrowed for writing.
        if let Ok(slots) = self.slots.try_borrow() {
            for (_, slot) in slots.iter() {
                if let Slot::Read(value) | Slot::Set(value) = slot {
                    value.trace(tracer);
                }
            }
        }
    }
}

impl<'js> DocumentObject<'js> {
    /// The JavaScript object of a whole document.
    pub(crate) fn of_document(ctx: &Ctx<'js>, source: Rc<Source>) -> Result<Value<'js>> {
        let handle = source.document().root().handle();
        DocumentObject::of_part(ctx, source, handle)
    }

    fn of_part(ctx: &Ctx<'js>, source: Rc<Source>, handle: ObjectHandle) -> Result<Value<'js>> {
        let object = DocumentObject { source, handle, slots: RefCell::default() };
        Ok(Class::instance(ctx.clone(), object)?.into_inner().into_value())
    }

    /// `object` as an instance of this class. Its prototype is checked first: the library's own
    /// check is slow when it fails.
    pub(crate) fn of(object: &Object<'js>) -> Option<Class<'js, Self>> {
        let prototype = Class::<Self>::prototype(object.ctx()).ok()?;
        if object.get_prototype() != prototype {
            return None;
        }
        Class::from_object(object)
    }

    /// Whether this is the document itself.
    pub(crate) fn is_root(&self) -> bool {
        self.source.document().root().handle() == self.handle
    }

    /// What the script touched.
    pub(crate) fn slots(&self) -> Slots<'js> {
        self.slots.borrow().clone()
    }

    /// Whether the script has touched nothing.
    pub(crate) fn is_untouched(&self) -> bool {
        self.slots.borrow().list.is_empty()
    }

    /// The metadata object of the document, the same one at every call.
    pub(crate) fn metadata(&self, ctx: &Ctx<'js>) -> Result<Option<Value<'js>>> {
        self.read(ctx, METADATA)
    }

    /// The digits of the stored number `name`; `None` when it is not a number, or the script set
    /// it.
    pub(crate) fn stored_digits(
        &self,
        name: &str,
    ) -> std::result::Result<Option<String>, blittable::Corrupt> {
        if self.slot(name).is_some() {
            return Ok(None);
        }
        let view = self.source.document().object_at(self.handle)?;
        Ok(match view.get(name)? {
            Some(Stored::Integer(value)) => Some(value.to_string()),
            Some(Stored::Number(digits)) => Some(digits.to_owned()),
            _ => None,
        })
    }

    fn slot(&self, name: &str) -> Option<Slot<'js>> {
        self.slots.borrow().get(name).cloned()
    }

    fn put_slot(&self, name: &str, slot: Slot<'js>) {
        self.slots.borrow_mut().put(name, slot);
    }

    fn read(&self, ctx: &Ctx<'js>, name: &str) -> Result<Option<Value<'js>>> {
        match self.slot(name) {
            Some(Slot::Read(value) | Slot::Set(value)) => return Ok(Some(value)),
            Some(Slot::Deleted) => return Ok(None),
            None => {}
        }
        if name == METADATA && self.is_root() {
            return self.read_metadata(ctx);
        }
        let stored = self.with_view(ctx, |view| view.get(name))?;
        let Some(stored) = stored else { return Ok(None) };
        let value = stored_to_js(ctx, &self.source, stored)?;
        if value.is_object() {
            self.put_slot(name, Slot::Read(value.clone()));
        }
        Ok(Some(value))
    }

    fn read_metadata(&self, ctx: &Ctx<'js>) -> Result<Option<Value<'js>>> {
        let metadata = self.source.metadata().map_err(|source| fault::raise(ctx, source.into()))?;
        let Some(metadata) = metadata else { return Ok(None) };
        let value = DocumentObject::of_document(ctx, metadata)?;
        self.put_slot(METADATA, Slot::Read(value.clone()));
        Ok(Some(value))
    }

    fn with_view<'a, R>(
        &'a self,
        ctx: &Ctx<'js>,
        read: impl FnOnce(StoredView<'a>) -> std::result::Result<R, blittable::Corrupt>,
    ) -> Result<R> {
        let view = self.source.document().object_at(self.handle);
        view.and_then(read).map_err(|source| fault::raise(ctx, source.into()))
    }

    fn has(&self, ctx: &Ctx<'js>, name: &str) -> Result<bool> {
        match self.slot(name) {
            Some(Slot::Read(_) | Slot::Set(_)) => Ok(true),
            Some(Slot::Deleted) => Ok(false),
            None => self.with_view(ctx, |view| view.contains(name)),
        }
    }

    /// The names in their order: those of the document that are left, then the new ones.
    fn names(&self, ctx: &Ctx<'js>) -> Result<Vec<Rc<str>>> {
        let slots = self.slots();
        let deleted = |name: &str| matches!(slots.get(name), Some(Slot::Deleted));
        self.with_view(ctx, |view| {
            let mut names = Vec::with_capacity(view.len());
            for property in view.iter() {
                let (name, _) = property?;
                if !deleted(name) {
                    names.push(Rc::from(name));
                }
            }
            for (name, slot) in slots.iter() {
                if !matches!(slot, Slot::Deleted) && !view.contains(name)? {
                    names.push(Rc::clone(name));
                }
            }
            Ok(names)
        })
    }
}

/// A stored value in JavaScript. Arrays are created in full, with their objects still unread.
pub(crate) fn stored_to_js<'js>(
    ctx: &Ctx<'js>,
    source: &Rc<Source>,
    stored: Stored<'_>,
) -> Result<Value<'js>> {
    Ok(match stored {
        Stored::Null => Value::new_null(ctx.clone()),
        Stored::Bool(value) => Value::new_bool(ctx.clone(), value),
        Stored::Integer(value) => match i32::try_from(value) {
            Ok(small) => Value::new_int(ctx.clone(), small),
            Err(_) => Value::new_number(ctx.clone(), value as f64),
        },
        Stored::Number(_) => {
            Value::new_number(ctx.clone(), stored.as_f64().unwrap_or(f64::INFINITY))
        }
        Stored::String(text) => {
            let text = text.as_cow().map_err(|source| fault::raise(ctx, source.into()))?;
            JsString::from_str(ctx.clone(), &text)?.into_value()
        }
        Stored::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                let item = item.map_err(|source| fault::raise(ctx, source.into()))?;
                array.set(index, stored_to_js(ctx, source, item)?)?;
            }
            array.into_value()
        }
        Stored::Object(object) => DocumentObject::of_part(ctx, Rc::clone(source), object.handle())?,
    })
}

/// The text of a property's name; `None` for a symbol.
fn text_of(atom: &Atom<'_>) -> Result<Option<String>> {
    let value = atom.to_value()?;
    match value.as_string() {
        Some(text) => well_formed(value.ctx(), text).map(Some),
        None if value.is_symbol() => Ok(None),
        None => atom.to_string().map(Some),
    }
}

impl<'js> JsClass<'js> for DocumentObject<'js> {
    const NAME: &'static str = "Object";
    const KIND: ClassKind = ClassKind::Exotic;
    type Mutable = Readable;

    fn constructor(_ctx: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }

    fn exotic_get_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
        _receiver: Value<'js>,
    ) -> Result<Value<'js>> {
        if let Some(name) = text_of(&atom)?
            && let Some(value) = this.borrow().read(ctx, &name)?
        {
            return Ok(value);
        }
        match Class::<Self>::prototype(ctx)? {
            Some(prototype) => prototype.get(atom),
            None => Ok(Value::new_undefined(ctx.clone())),
        }
    }

    fn exotic_set_property(
        this: &JsCell<'js, Self>,
        _ctx: &Ctx<'js>,
        atom: Atom<'js>,
        _receiver: Value<'js>,
        value: Value<'js>,
    ) -> Result<bool> {
        let Some(name) = text_of(&atom)? else { return Ok(false) };
        this.borrow().put_slot(&name, Slot::Set(value));
        Ok(true)
    }

    fn exotic_delete_property(
        this: &JsCell<'js, Self>,
        _ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<bool> {
        if let Some(name) = text_of(&atom)? {
            this.borrow().put_slot(&name, Slot::Deleted);
        }
        Ok(true)
    }

    fn exotic_has_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<bool> {
        if let Some(name) = text_of(&atom)?
            && this.borrow().has(ctx, &name)?
        {
            return Ok(true);
        }
        match Class::<Self>::prototype(ctx)? {
            Some(prototype) => prototype.contains_key(atom),
            None => Ok(false),
        }
    }

    fn exotic_get_own_property(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<Option<PropertyDescriptor<'js>>> {
        let Some(name) = text_of(&atom)? else { return Ok(None) };
        let value = this.borrow().read(ctx, &name)?;
        Ok(value.map(|value| PropertyDescriptor::new_value(value, true, true, true)))
    }

    fn exotic_get_own_property_names(
        this: &JsCell<'js, Self>,
        ctx: &Ctx<'js>,
    ) -> Result<Vec<PropertyName<'js>>> {
        let names = this.borrow().names(ctx)?;
        let named = |name: Rc<str>| {
            let atom = Atom::from_str(ctx.clone(), &name)?;
            Ok(PropertyName { atom, is_enumerable: true })
        };
        names.into_iter().map(named).collect()
    }
}
