//! The functions available in every RavenDB index.

use std::collections::HashSet;
use std::rc::Rc;

use crate::compile::names::{Function, NetType};
use crate::compile::plan::{Argument, FunctionCall};
use crate::document::{AttachmentInput, DocumentInput, Tracking};
use crate::run::convert::try_convert;
use crate::run::display::display;
use crate::run::elements::{Elements, from_document};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::methods::{as_double, lambda};
use crate::run::{Evaluated, Machine, over_budget, wrong_arguments};
use crate::value::{Names, SpatialValue, Text, Value};

/// Where metadata list the attachments.
const ATTACHMENTS: &str = "@attachments";

impl<'a> Machine<'a, '_> {
    pub(super) fn index_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        match call.function {
            Function::LoadDocument => self.load_document(arguments, Tracking::Followed),
            Function::NoTrackingLoadDocument => self.load_document(arguments, Tracking::Ignored),
            Function::LoadAttachment => self.load_attachment(arguments),
            Function::LoadAttachments => self.load_attachments(arguments),
            Function::Recurse => self.recurse(arguments),
            Function::CreateField => self.create_field(call),
            Function::CreateSpatialField => self.create_spatial_field(arguments),
            Function::LoadCompareExchangeValue => self.load_compare_exchange(call),
            Function::TryConvert => {
                let value = self.argument(arguments, 0)?;
                let to = call.types.first().ok_or_else(wrong_arguments)?;
                try_convert(&value, *to)
            }
            Function::AsJson => self.argument(arguments, 0),
            function => match self.argument(arguments, 0)? {
                Value::Document(document) => self.of_document(function, &document),
                _ => Ok(match function {
                    Function::Id | Function::MetadataFor => Value::Missing,
                    _ => Value::list(Vec::new()),
                }),
            },
        }
    }

    fn of_document(
        &mut self,
        function: Function,
        document: &Rc<DocumentInput<'a>>,
    ) -> Evaluated<'a> {
        let id = document.id;
        let names = match function {
            Function::Id => return Ok(Value::Text(Text::of_document(id))),
            Function::MetadataFor => return Ok(Value::Metadata(Rc::clone(document))),
            Function::AttachmentsFor => return attachments_for(document),
            Function::CounterNamesFor => self.host.counter_names(id),
            _ => self.host.time_series_names(id),
        };
        let names = names.map_err(Fault::host)?;
        let texts = names.into_iter().map(|name| Value::Text(Text::of_document(name)));
        Ok(Value::list(texts.collect()))
    }

    /// `LoadAttachment(document, name)`; missing when there is none of that name.
    fn load_attachment(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let document = self.argument(arguments, 0)?;
        let name = self.argument(arguments, 1)?;
        let Some(document) = owner(&document, "LoadAttachment")? else { return Ok(Value::Missing) };
        let Value::Text(name) = &name else {
            let message = format!(
                "LoadAttachment may only be called with a string, but was called with a {}",
                name.type_name()
            );
            return Err(Fault::new(EvaluationErrorKind::InvalidArgument, message));
        };
        let found = self.host.attachment(document.id, name).map_err(Fault::host)?;
        Ok(found.map_or(Value::Missing, attachment))
    }

    /// `LoadAttachments(document)`
    fn load_attachments(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let document = self.argument(arguments, 0)?;
        let found = match owner(&document, "LoadAttachments")? {
            Some(document) => self.host.attachments(document.id).map_err(Fault::host)?,
            None => Vec::new(),
        };
        self.list(found.into_iter().map(attachment).collect())
    }

    /// `LoadDocument(id, collection)`; several ids yield a sequence.
    fn load_document(&mut self, arguments: &'a [Argument], tracking: Tracking) -> Evaluated<'a> {
        let ids = self.argument(arguments, 0)?;
        let collection = self.argument(arguments, 1)?;
        let collection = display(&collection)?.into_owned();
        match &ids {
            Value::Array(_) | Value::List(_) => {
                let mut items = Vec::new();
                for id in Elements::of(&ids)? {
                    self.step()?;
                    items.push(self.load_one(&id?, &collection, tracking)?);
                }
                // An empty list of ids yields a missing value, not an empty sequence.
                if items.is_empty() { Ok(Value::Missing) } else { self.list(items) }
            }
            id => self.load_one(id, &collection, tracking),
        }
    }

    fn load_one(&mut self, id: &Value<'a>, collection: &str, tracking: Tracking) -> Evaluated<'a> {
        let id = match id {
            Value::Text(id) => id,
            null if null.is_null() => return Ok(Value::Missing),
            other => {
                let message =
                    format!("a document is loaded by its id, not by {}", other.type_name());
                return Err(Fault::new(EvaluationErrorKind::InvalidArgument, message));
            }
        };
        let loaded = self.host.load_document(id, collection, tracking).map_err(Fault::host)?;
        Ok(loaded.map_or(Value::Missing, |document| Value::Document(Rc::new(document))))
    }

    /// The value, what the lambda returns for it, what it returns for that, and so on, depth first.
    /// A branch ends with the null that the lambda returns at its tip, or at a document already
    /// visited: loaded documents may refer to each other in cycles.
    fn recurse(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let children = lambda(arguments, 1).ok_or_else(wrong_arguments)?;
        let (mut items, mut documents) = (Vec::new(), HashSet::new());
        let mut waiting = vec![self.argument(arguments, 0)?];
        while let Some(item) = waiting.pop() {
            if let Value::Document(document) = &item
                && !documents.insert(document.id.to_lowercase())
            {
                continue;
            }
            if self.budget.recurse_length_max <= items.len() {
                return Err(over_budget("elements of Recurse"));
            }
            items.push(item.clone());
            if item.is_null() {
                continue;
            }
            let below = self.call(children, [item])?;
            match &below {
                Value::Array(_) | Value::List(_) | Value::Group(_) => {
                    let mut below = Elements::of(&below)?.collect::<Result<Vec<_>, _>>()?;
                    below.reverse();
                    waiting.append(&mut below);
                }
                _ => waiting.push(below),
            }
        }
        self.list(items)
    }

    fn create_field(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let name = self.argument(&call.arguments, 0)?;
        let name = match &name {
            Value::Text(name) => name.clone(),
            null if null.is_null() => {
                let message = "the name of a created field is null";
                return Err(Fault::new(EvaluationErrorKind::ArgumentNull, message));
            }
            other => Text::shared(display(other)?.into()),
        };
        let value = self.argument(&call.arguments, 1)?;
        Ok(Value::field(name, value, call.options))
    }

    fn create_spatial_field(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let first = self.argument(arguments, 0)?;
        if arguments.len() == 1 {
            return Ok(Value::Spatial(Rc::new(SpatialValue::Shape(first))));
        }
        let second = self.argument(arguments, 1)?;
        let point = coordinate(&first)?.zip(coordinate(&second)?);
        Ok(Value::Spatial(Rc::new(SpatialValue::Point(point))))
    }

    fn load_compare_exchange(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let key = self.argument(&call.arguments, 0)?;
        match &key {
            Value::Array(_) | Value::List(_) => {
                let mut items = Vec::new();
                for key in Elements::of(&key)? {
                    self.step()?;
                    items.push(self.load_exchange_value(&key?)?);
                }
                return self.list(items);
            }
            _ => {}
        }
        let value = self.load_exchange_value(&key)?;
        let needs_value = call.types.first().is_some_and(|to| {
            !to.nullable
                && matches!(to.to, NetType::Integer { .. } | NetType::Double | NetType::Bool)
        });
        if value.is_null() && needs_value {
            let message = "there is no such compare exchange value";
            return Err(Fault::new(EvaluationErrorKind::NullReference, message));
        }
        Ok(value)
    }

    fn load_exchange_value(&mut self, key: &Value<'a>) -> Evaluated<'a> {
        let Value::Text(key) = key else {
            if key.is_null() {
                return Ok(Value::Missing);
            }
            let message = format!(
                "LoadCompareExchangeValue may only be called with a string or an enumerable, but was \
                 called with a {}",
                key.type_name()
            );
            return Err(Fault::new(EvaluationErrorKind::InvalidArgument, message));
        };
        let value = self.host.compare_exchange_value(key).map_err(Fault::host)?;
        Ok(value.map(from_document).transpose()?.unwrap_or(Value::Missing))
    }
}

/// The document whose attachments are requested; `None` for null.
fn owner<'v, 'a>(
    value: &'v Value<'a>,
    function: &str,
) -> Result<Option<&'v DocumentInput<'a>>, Fault> {
    match value {
        Value::Document(document) => Ok(Some(document)),
        null if null.is_null() => Ok(None),
        other => {
            let message = format!(
                "{function} may only be called with a non-null entity as a first parameter, but was \
                 called with a {}",
                other.type_name()
            );
            Err(Fault::new(EvaluationErrorKind::InvalidArgument, message))
        }
    }
}

fn attachment(found: AttachmentInput<'_>) -> Value<'_> {
    let values = vec![
        Value::Text(Text::of_document(found.name)),
        Value::Text(Text::of_document(found.content_type)),
        Value::Text(Text::unpacked(found.hash)),
        Value::Integer(found.size),
    ];
    Value::record(Names::Attachment, values)
}

/// The attachments listed in the metadata of a document.
fn attachments_for<'a>(document: &DocumentInput<'a>) -> Evaluated<'a> {
    let listed =
        document.stored_metadata().map(|metadata| metadata.get(ATTACHMENTS)).transpose()?;
    Ok(match listed.flatten() {
        Some(listed @ blittable::Value::Array(_)) => from_document(listed)?,
        _ => Value::list(Vec::new()),
    })
}

/// A coordinate; `None` for null.
fn coordinate(value: &Value<'_>) -> Result<Option<f64>, Fault> {
    match value {
        null if null.is_null() => Ok(None),
        Value::Text(text) => match text.trim().parse() {
            Ok(coordinate) => Ok(Some(coordinate)),
            Err(_) => Err(crate::run::convert::not_a_number(text)),
        },
        other => match as_double(other) {
            Some(coordinate) => Ok(Some(coordinate)),
            None => Err(wrong_arguments()),
        },
    }
}
