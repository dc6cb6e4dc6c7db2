//! Attachments in scripts: objects with the properties of the attachment and a function that reads
//! its content.

use std::rc::Rc;

use dotnet::text_encoding::TextEncoding;
use rquickjs::prelude::Opt;
use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};

use crate::convert::well_formed;
use crate::host::Attachment;
use crate::natives::call_host;

const UNKNOWN_ENCODING: &str = "getContentAsString(encoding): the encoding must be one of utf8, ascii, \
                                unicode, bigEndianUnicode, utf32";

/// Adds the functions that the prelude calls.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("attachment", Function::new(ctx.clone(), attachment)?)?;
    host.set("attachments", Function::new(ctx.clone(), attachments)?)
}

fn attachment<'js>(ctx: Ctx<'js>, id: String, name: String) -> Result<Option<Object<'js>>> {
    let found = call_host(&ctx, |host| host.attachment(&id, &name))?;
    found.map(|found| object_of(&ctx, found)).transpose()
}

fn attachments<'js>(ctx: Ctx<'js>, id: String) -> Result<Array<'js>> {
    let all = Array::new(ctx.clone())?;
    for (index, found) in call_host(&ctx, |host| host.attachments(&id))?.into_iter().enumerate() {
        all.set(index, object_of(&ctx, found)?)?;
    }
    Ok(all)
}

/// The function is not converted when the object is indexed or stored.
fn object_of<'js>(ctx: &Ctx<'js>, found: Attachment) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("Name", found.name.as_str())?;
    object.set("ContentType", found.content_type.as_str())?;
    object.set("Hash", found.hash.as_str())?;
    object.set("Size", found.content_bytes as f64)?;
    let found = Rc::new(found);
    let read = move |ctx: Ctx<'js>, encoding: Opt<Value<'js>>| content_text(&ctx, &found, encoding);
    object.prop("getContentAsString", Function::new(ctx.clone(), read)?)?;
    Ok(object)
}

fn content_text<'js>(
    ctx: &Ctx<'js>,
    attachment: &Attachment,
    encoding: Opt<Value<'js>>,
) -> Result<String> {
    let encoding = match encoding.0.filter(|encoding| !encoding.is_undefined()) {
        None => TextEncoding::default(),
        Some(encoding) => {
            let name = encoding.as_string().map(|name| well_formed(ctx, name)).transpose()?;
            let known = name.as_deref().and_then(TextEncoding::named);
            known.ok_or_else(|| Exception::throw_message(ctx, UNKNOWN_ENCODING))?
        }
    };
    Ok(encoding.decode(&call_host(ctx, |host| host.attachment_content(attachment))?))
}
