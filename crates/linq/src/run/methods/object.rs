//! Methods of objects and dictionaries, which are also sequences of their pairs.

use crate::compile::names::Method;
use crate::compile::plan::MethodCall;
use crate::run::compare::{Strictness, same};
use crate::run::convert::cast;
use crate::run::{Evaluated, Machine, property, wrong_arguments};
use crate::value::Value;

impl<'a> Machine<'a, '_> {
    /// Unknown methods of a document's object yield a missing value, as unknown properties do.
    #[inline(never)]
    pub(super) fn object_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        match method {
            Method::Select
            | Method::SelectMany
            | Method::Where
            | Method::GroupBy
            | Method::OrderBy
            | Method::OrderByDescending
            | Method::ToDictionary => self.sequence_method(call, method, target),
            Method::Value => {
                let name = self.argument(&call.arguments, 0)?;
                let value = property::at_index(&target, &name)?;
                match call.types.first() {
                    Some(to) => cast(value, *to),
                    None => Ok(value),
                }
            }
            Method::ContainsKey => {
                let name = self.text_argument(&call.arguments, 0)?;
                let object = target.as_object();
                let contains = object.map(|object| object.contains(&name)).transpose()?;
                Ok(Value::Bool(contains.unwrap_or(false)))
            }
            Method::Count => Err(wrong_arguments()),
            Method::ToString | Method::Equals | Method::GetHashCode => {
                self.scalar_method(call, method, target)
            }
            _ => Ok(Value::Missing),
        }
    }

    pub(super) fn dictionary_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        let Value::Dictionary(dictionary) = &target else { return Ok(Value::Missing) };
        match method {
            Method::ContainsKey | Method::ContainsValue => {
                let wanted = self.argument(&call.arguments, 0)?;
                let found = dictionary.entries.iter().any(|(key, value)| {
                    let candidate = if method == Method::ContainsKey { key } else { value };
                    same(candidate, &wanted, Strictness::Origin)
                });
                Ok(Value::Bool(found))
            }
            Method::ToString | Method::Equals | Method::GetHashCode => {
                self.scalar_method(call, method, target)
            }
            _ => self.sequence_method(call, method, target),
        }
    }
}
