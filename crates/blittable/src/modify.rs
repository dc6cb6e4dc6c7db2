//! Edits a document into a new one by copying values instead of printing and parsing them.
//!
//! Invariant: whatever no edit names is copied unchanged, in its order, with its stored bytes.

use crate::copy::copy_entry;
use crate::error::BuildError;
use crate::format::HEADER_BYTES;
use crate::name_table::NameTable;
use crate::object_builder::{Item, finish_writer, write_item};
use crate::view::{BlittableBuf, Document, Object, Value};
use crate::writer::{Container, Writer};

/// The most names that the path of an edit may have.
pub const EDIT_PATH_LENGTH_MAX: usize = 64;

/// One change of a document. Paths are property names from the root; they do not enter arrays.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// Sets the property at the path, in its old place or, when it is new, after the last property.
    /// Steps that are missing or not objects become objects.
    Set {
        /// Names from the root.
        path: &'a [&'a str],
        /// The new value.
        item: Item<'a>,
    },
    /// Removes the property at the path; nothing happens when it is missing.
    Remove {
        /// Names from the root.
        path: &'a [&'a str],
    },
}

/// Copies `document` with `edits` applied in order. A property that is removed and then set again
/// keeps its old place.
///
/// ```
/// use blittable::{Edit, Item, ParseLimits, modify, parse_document};
///
/// let old = parse_document(br#"{"a":1,"b":{"c":2,"d":3}}"#, &ParseLimits::default())?;
/// let new = modify(
///     &old.as_view(),
///     &[
///         Edit::Set { path: &["a"], item: Item::String("x") },
///         Edit::Remove { path: &["b", "c"] },
///         Edit::Set { path: &["e"], item: Item::Null },
///     ],
/// )?;
/// assert_eq!(new.as_view().to_json()?, br#"{"a":"x","b":{"d":3},"e":null}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn modify(document: &Document<'_>, edits: &[Edit<'_>]) -> Result<BlittableBuf, BuildError> {
    modify_with(document, edits, &mut Writer::new())
}

/// [`modify`] in the arenas of `writer`, which has been reset.
pub(crate) fn modify_with(
    document: &Document<'_>,
    edits: &[Edit<'_>],
    writer: &mut Writer,
) -> Result<BlittableBuf, BuildError> {
    let mut root = Plan::keep();
    for edit in edits {
        root.add(edit)?;
    }
    writer.begin(Container::Object);
    write_members(Some(document.root()), &root.inner, writer)?;
    writer.end();
    finish_writer(writer)
}

/// The edits of one property: its base is kept, replaced or dropped, then `inner` is applied.
struct Plan<'a> {
    base: Base<'a>,
    /// An edit sets something inside, which turns the base into an object.
    becomes_object: bool,
    inner: Vec<(&'a str, Plan<'a>)>,
}

#[derive(Clone, Copy)]
enum Base<'a> {
    Keep,
    Replace(Item<'a>),
    Drop,
}

impl<'a> Plan<'a> {
    fn keep() -> Plan<'a> {
        Plan { base: Base::Keep, becomes_object: false, inner: Vec::new() }
    }

    fn add(&mut self, edit: &Edit<'a>) -> Result<(), BuildError> {
        let (path, base) = match *edit {
            Edit::Set { path, item } => (path, Base::Replace(item)),
            Edit::Remove { path } => (path, Base::Drop),
        };
        if path.is_empty() || path.len() > EDIT_PATH_LENGTH_MAX {
            return Err(BuildError::InvalidPath);
        }
        let is_set = matches!(base, Base::Replace(_));
        let mut plan = self;
        for name in path {
            plan.becomes_object |= is_set;
            let known = plan.inner.iter().position(|(known, _)| known == name);
            let index = known.unwrap_or_else(|| {
                plan.inner.push((name, Plan::keep()));
                plan.inner.len() - 1
            });
            plan = &mut plan.inner[index].1;
        }
        *plan = Plan { base, ..Plan::keep() };
        Ok(())
    }
}

/// Writes the properties of `object` with `plans` applied, then the new ones.
fn write_members<'a>(
    object: Option<Object<'a>>,
    plans: &[(&str, Plan<'a>)],
    writer: &mut Writer,
) -> Result<(), BuildError> {
    let mut met = vec![false; plans.len()];
    if let Some(object) = object {
        copy_members(&object, plans, &mut met, writer)?;
    }
    for ((name, plan), _) in plans.iter().zip(met).filter(|(_, met)| !met) {
        write_planned(name, None, plan, writer)?;
    }
    Ok(())
}

/// Copies the properties of `object`, marking in `met` the plans that were applied.
fn copy_members<'a>(
    object: &Object<'a>,
    plans: &[(&str, Plan<'a>)],
    met: &mut [bool],
    writer: &mut Writer,
) -> Result<(), BuildError> {
    let Object { bytes, block } = *object;
    let names = NameTable::open(bytes)?;
    let mut cursor = HEADER_BYTES;
    for index in 0..object.len() {
        let entry = block.entry(bytes, index)?;
        let name = names.name(entry.name)?;
        match plans.iter().position(|(planned, _)| planned.as_bytes() == name) {
            Some(planned) => {
                met[planned] = true;
                let (name, plan) = &plans[planned];
                write_planned(name, Some(object.value(entry)?), plan, writer)?;
            }
            None => {
                writer.name(name);
                cursor = copy_entry(bytes, &names, entry, cursor, writer)?;
            }
        }
    }
    Ok(())
}

/// Writes one property as `plan` changes it; writes nothing when it is removed.
fn write_planned<'a>(
    name: &str,
    existing: Option<Value<'a>>,
    plan: &Plan<'a>,
    writer: &mut Writer,
) -> Result<(), BuildError> {
    let base = match plan.base {
        Base::Keep => existing.map(Item::Copy),
        Base::Replace(item) => Some(item),
        Base::Drop => None,
    };
    let object = match base {
        Some(Item::Copy(Value::Object(object))) => Some(object),
        _ => None,
    };
    if plan.becomes_object || (object.is_some() && !plan.inner.is_empty()) {
        writer.name(name.as_bytes());
        writer.begin(Container::Object);
        write_members(object, &plan.inner, writer)?;
        writer.end();
    } else if let Some(item) = base {
        writer.name(name.as_bytes());
        write_item(item, writer)?;
    }
    Ok(())
}
