//! Plain values to JavaScript values.

use std::rc::Rc;

use rquickjs::function::Constructor;
use rquickjs::{Array, Ctx, Object, Result, String as JsString, Value};

use crate::object::{DocumentObject, stored_to_js};
use crate::value::{ScriptValue, StoredObject};

/// Converts `value` to a value of the engine; parts of documents are read when the script accesses
/// them.
pub(crate) fn to_js<'js>(ctx: &Ctx<'js>, value: &ScriptValue) -> Result<Value<'js>> {
    Ok(match value {
        ScriptValue::Undefined => Value::new_undefined(ctx.clone()),
        ScriptValue::Null => Value::new_null(ctx.clone()),
        ScriptValue::Bool(value) => Value::new_bool(ctx.clone(), *value),
        ScriptValue::Integer(_) | ScriptValue::Double(_) | ScriptValue::Number(_) => {
            Value::new_number(ctx.clone(), value.as_f64().unwrap_or(f64::NAN))
        }
        ScriptValue::String(text) => JsString::from_str(ctx.clone(), text)?.into_value(),
        ScriptValue::Date(millis) => {
            let date: Constructor<'js> = ctx.globals().get("Date")?;
            date.construct((*millis,))?
        }
        ScriptValue::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                array.set(index, to_js(ctx, item)?)?;
            }
            array.into_value()
        }
        ScriptValue::Object(properties) => {
            let object = Object::new(ctx.clone())?;
            for (name, value) in properties {
                object.set(&**name, to_js(ctx, value)?)?;
            }
            object.into_value()
        }
        ScriptValue::Stored(StoredObject { source, handle }) => {
            let root = source.document().root();
            if root.handle() == *handle {
                return DocumentObject::of_document(ctx, Rc::clone(source));
            }
            match source.document().object_at(*handle) {
                Ok(part) => stored_to_js(ctx, source, blittable::Value::Object(part))?,
                Err(corrupt) => return Err(crate::fault::raise(ctx, corrupt.into())),
            }
        }
    })
}
