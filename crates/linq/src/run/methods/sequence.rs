//! Methods of sequences.

use crate::compile::names::Method;
use crate::compile::plan::{Argument, Lambda, MethodCall, Op, Style};
use crate::run::compare::{Strictness, same};
use crate::run::convert::is_of;
use crate::run::elements::Elements;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::methods::lambda;
use crate::run::property::{no_such, position};
use crate::run::sets::{Groups, ValueSet, dictionary, distinct};
use crate::run::sorting::sort_by_keys;
use crate::run::{Evaluated, Machine, overflow_index, wrong_arguments};
use crate::value::{ListKind, Value};

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn sequence_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        match method {
            Method::ToString | Method::Equals | Method::GetHashCode => {
                return self.scalar_method(call, method, target);
            }
            Method::ThenBy | Method::ThenByDescending => return self.ordered(call),
            Method::OrderBy | Method::OrderByDescending => return self.ordered(call),
            _ => {}
        }
        let elements = Elements::of(&target)?;
        let arguments = &*call.arguments;
        match method {
            Method::Select => self.select(elements, arguments),
            Method::SelectMany => self.select_many(elements, arguments),
            Method::Where => self.filtered(elements, arguments),
            Method::Any | Method::All | Method::Count | Method::LongCount => {
                self.quantified(method, elements, arguments)
            }
            Method::First | Method::FirstOrDefault | Method::Last | Method::LastOrDefault => {
                self.chosen(call, method, elements, &target)
            }
            Method::Single | Method::SingleOrDefault => {
                self.chosen(call, method, elements, &target)
            }
            Method::ElementAt | Method::ElementAtOrDefault => {
                self.element_at(call, method, elements, &target)
            }
            Method::Sum | Method::Average | Method::Min | Method::Max | Method::Aggregate => {
                self.aggregated(call, method, elements, &target)
            }
            Method::Contains | Method::IndexOf => self.found(method, elements, arguments),
            Method::Skip | Method::Take | Method::SkipWhile | Method::TakeWhile => {
                self.partial(method, elements, arguments)
            }
            Method::Concat
            | Method::Union
            | Method::Intersect
            | Method::Except
            | Method::SequenceEqual
            | Method::Append
            | Method::Prepend => self.combined(method, elements, arguments),
            Method::Zip => self.zipped(elements, arguments),
            Method::GroupBy | Method::ToLookup => self.grouped(elements, arguments),
            Method::ToDictionary => self.keyed(elements, arguments),
            _ => self.reshaped(call, method, elements, target),
        }
    }

    /// Methods that only change the form of the sequence.
    fn reshaped(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        elements: Elements<'a>,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        let items = match method {
            Method::AsEnumerable | Method::Cast => return Ok(target),
            Method::Distinct | Method::ToHashSet => distinct(self.collect(elements)?),
            Method::ToArray | Method::ToList => {
                let items = self.collect(elements)?;
                return Ok(Value::list_of(ListKind::Objects, items));
            }
            Method::Reverse => {
                let mut items = self.collect(elements)?;
                items.reverse();
                items
            }
            Method::OfType => {
                let to = call.types.first().copied().ok_or_else(wrong_arguments)?;
                let mut items = self.collect(elements)?;
                items.retain(|item| is_of(item, to));
                items
            }
            Method::DefaultIfEmpty if elements.remaining() == 0 => match call.arguments.first() {
                Some(_) => vec![self.argument(&call.arguments, 0)?],
                None => vec![Value::Missing],
            },
            Method::DefaultIfEmpty => return Ok(target),
            _ => return Err(no_such(&target, &call.name)),
        };
        self.list(items)
    }

    fn collect(&mut self, elements: Elements<'a>) -> Result<Vec<Value<'a>>, Fault> {
        self.check_length(elements.remaining())?;
        elements.collect()
    }

    /// Calls a lambda with an element and, if it takes two parameters, its index.
    fn call_indexed(
        &mut self,
        lambda: &'a Lambda,
        element: Value<'a>,
        index: usize,
    ) -> Evaluated<'a> {
        match lambda.parameters.len() {
            2 => self.call(lambda, [element, Value::Integer(index as i64)]),
            _ => self.call(lambda, [element]),
        }
    }

    fn select(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let lambda = lambda(arguments, 0).ok_or_else(wrong_arguments)?;
        let mut items = Vec::with_capacity(elements.remaining().min(1024));
        for (index, element) in elements.enumerate() {
            items.push(self.call_indexed(lambda, element?, index)?);
        }
        self.list(items)
    }

    fn select_many(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let collection = lambda(arguments, 0).ok_or_else(wrong_arguments)?;
        let result = lambda(arguments, 1);
        let mut items = Vec::new();
        for (index, element) in elements.enumerate() {
            let element = element?;
            let inner = self.call_indexed(collection, element.clone(), index)?;
            for item in Elements::of(&inner).map_err(|fault| fault.at(collection.body.span))? {
                items.push(match result {
                    Some(result) => self.call(result, [element.clone(), item?])?,
                    None => item?,
                });
            }
            self.check_length(items.len())?;
        }
        self.list(items)
    }

    fn filtered(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let lambda = lambda(arguments, 0).ok_or_else(wrong_arguments)?;
        let mut items = Vec::new();
        for (index, element) in elements.enumerate() {
            let element = element?;
            let answer = self.call_indexed(lambda, element.clone(), index)?;
            if crate::run::operators::truth(&answer).map_err(|f| f.at(lambda.body.span))? {
                items.push(element);
            }
        }
        self.list(items)
    }

    fn quantified(
        &mut self,
        method: Method,
        elements: Elements<'a>,
        arguments: &'a [Argument],
    ) -> Evaluated<'a> {
        let Some(lambda) = lambda(arguments, 0) else {
            return Ok(match method {
                Method::Any => Value::Bool(0 < elements.remaining()),
                Method::All => return Err(wrong_arguments()),
                _ => Value::Integer(elements.remaining() as i64),
            });
        };
        let mut count = 0;
        for element in elements {
            let passes = self.test(lambda, element?)?;
            match method {
                Method::Any if passes => return Ok(Value::Bool(true)),
                Method::All if !passes => return Ok(Value::Bool(false)),
                _ => count += i64::from(passes),
            }
        }
        Ok(match method {
            Method::Any => Value::Bool(false),
            Method::All => Value::Bool(true),
            _ => Value::Integer(count),
        })
    }

    /// The result of `…OrDefault` on an empty sequence: null for .NET's own sequences.
    fn default_element(call: &MethodCall, target: &Value<'a>) -> Value<'a> {
        let is_plain = match target {
            Value::List(list) => list.kind != ListKind::Dynamic,
            _ => false,
        };
        if call.style == Style::Enumerable || is_plain { Value::Null } else { Value::Missing }
    }

    fn chosen(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        elements: Elements<'a>,
        target: &Value<'a>,
    ) -> Evaluated<'a> {
        let lambda = lambda(&call.arguments, 0);
        let is_single = matches!(method, Method::Single | Method::SingleOrDefault);
        let is_last = matches!(method, Method::Last | Method::LastOrDefault);
        let mut elements = elements;
        if is_last && lambda.is_none() {
            elements.pass_over(elements.remaining().saturating_sub(1));
        }
        let mut chosen = None;
        for element in elements {
            let element = element?;
            if let Some(lambda) = lambda
                && !self.test(lambda, element.clone())?
            {
                continue;
            }
            if is_single && chosen.is_some() {
                let message = "the sequence has more than one such element";
                return Err(Fault::new(EvaluationErrorKind::ManyElements, message));
            }
            chosen = Some(element);
            if !is_single && !is_last {
                break;
            }
        }
        let has_default = matches!(
            method,
            Method::FirstOrDefault | Method::LastOrDefault | Method::SingleOrDefault
        );
        match chosen {
            Some(element) => Ok(element),
            None if has_default => Ok(Self::default_element(call, target)),
            None => Err(empty_sequence()),
        }
    }

    fn element_at(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        mut elements: Elements<'a>,
        target: &Value<'a>,
    ) -> Evaluated<'a> {
        let index = self.argument(&call.arguments, 0)?;
        elements.pass_over(position(&index)?);
        match elements.next() {
            Some(element) => element,
            None if method == Method::ElementAtOrDefault => Ok(Self::default_element(call, target)),
            None => Err(overflow_index()),
        }
    }

    fn found(
        &mut self,
        method: Method,
        elements: Elements<'a>,
        arguments: &'a [Argument],
    ) -> Evaluated<'a> {
        let wanted = self.argument(arguments, 0)?;
        let mut found = None;
        for (index, element) in elements.enumerate() {
            let element = element?;
            // A document's null is never found as an element.
            let is_null = element.is_null() || wanted.is_null();
            if !is_null && same(&element, &wanted, Strictness::Characters) {
                found = Some(index);
                break;
            }
        }
        Ok(match method {
            Method::Contains => Value::Bool(found.is_some()),
            _ => Value::Integer(found.map_or(-1, |index| index as i64)),
        })
    }

    fn partial(
        &mut self,
        method: Method,
        mut elements: Elements<'a>,
        arguments: &'a [Argument],
    ) -> Evaluated<'a> {
        if let Some(lambda) = lambda(arguments, 0) {
            return self.partial_while(method, elements, lambda);
        }
        let count = usize::try_from(self.integer_argument(arguments, 0)?).unwrap_or_default();
        let items = match method {
            Method::Skip => {
                elements.pass_over(count);
                self.collect(elements)?
            }
            Method::Take => elements.take(count).collect::<Result<_, _>>()?,
            _ => return Err(wrong_arguments()),
        };
        self.list(items)
    }

    fn partial_while(
        &mut self,
        method: Method,
        elements: Elements<'a>,
        lambda: &'a Lambda,
    ) -> Evaluated<'a> {
        let mut items = Vec::new();
        let mut is_before = true;
        for element in elements {
            let element = element?;
            is_before = is_before && self.test(lambda, element.clone())?;
            match method {
                Method::TakeWhile if !is_before => break,
                Method::SkipWhile if is_before => {}
                _ => items.push(element),
            }
        }
        self.list(items)
    }

    fn combined(
        &mut self,
        method: Method,
        elements: Elements<'a>,
        arguments: &'a [Argument],
    ) -> Evaluated<'a> {
        let other = self.argument(arguments, 0)?;
        let mut items = self.collect(elements)?;
        match method {
            Method::Append => items.push(other),
            Method::Prepend => items.insert(0, other),
            _ => {
                let others = Elements::of(&other)?;
                let others = self.collect(others)?;
                match method {
                    Method::Concat => items.extend(others),
                    Method::Union => {
                        items.extend(others);
                        items = distinct(items);
                    }
                    Method::SequenceEqual => {
                        let mut pairs = items.iter().zip(&others);
                        let all = pairs.all(|(one, two)| same(one, two, Strictness::Origin));
                        return Ok(Value::Bool(all && items.len() == others.len()));
                    }
                    _ => {
                        let mut set = ValueSet::default();
                        others.into_iter().for_each(|other| {
                            set.insert(other);
                        });
                        let keeps = method == Method::Intersect;
                        items.retain(|item| set.contains(item) == keeps);
                        items = distinct(items);
                    }
                }
            }
        }
        self.list(items)
    }

    fn zipped(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let other = self.argument(arguments, 0)?;
        let lambda = lambda(arguments, 1).ok_or_else(wrong_arguments)?;
        let mut items = Vec::new();
        for (left, right) in elements.zip(Elements::of(&other)?) {
            items.push(self.call(lambda, [left?, right?])?);
        }
        self.list(items)
    }

    fn grouped(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let key = lambda(arguments, 0).ok_or_else(wrong_arguments)?;
        let (element, result) = match (lambda(arguments, 1), lambda(arguments, 2)) {
            (Some(result), None) if result.parameters.len() == 2 => (None, Some(result)),
            (element, result) => (element, result),
        };
        let mut groups = Groups::default();
        for item in elements {
            let item = item?;
            let key = self.call(key, [item.clone()])?;
            let item = match element {
                Some(element) => self.call(element, [item])?,
                None => item,
            };
            groups.add(key, item);
        }
        let mut items = Vec::new();
        for (key, members) in groups.into_groups() {
            let group = Value::group(key.clone(), members);
            items.push(match result {
                Some(result) => self.call(result, [key, group])?,
                None => group,
            });
        }
        self.list(items)
    }

    fn keyed(&mut self, elements: Elements<'a>, arguments: &'a [Argument]) -> Evaluated<'a> {
        let key = lambda(arguments, 0).ok_or_else(wrong_arguments)?;
        let value = lambda(arguments, 1);
        let mut entries = Vec::new();
        for element in elements {
            let element = element?;
            let key = self.call(key, [element.clone()])?;
            let value = match value {
                Some(value) => self.call(value, [element])?,
                None => element,
            };
            entries.push((key, value));
        }
        self.check_length(entries.len())?;
        dictionary(entries)
    }

    /// `OrderBy(…)` with the `ThenBy(…)` calls after it, sorted once by all keys.
    fn ordered(&mut self, last: &'a MethodCall) -> Evaluated<'a> {
        let mut keys = Vec::new();
        let mut call = last;
        let source = loop {
            let key = lambda(&call.arguments, 0).ok_or_else(wrong_arguments)?;
            let descending =
                matches!(call.method, Some(Method::OrderByDescending | Method::ThenByDescending));
            keys.insert(0, (key, descending));
            let is_first = matches!(call.method, Some(Method::OrderBy | Method::OrderByDescending));
            match &call.target.op {
                _ if is_first => break &call.target,
                Op::Method(inner) => call = inner,
                _ => return Err(wrong_arguments()),
            }
        };
        let source = self.eval(source)?;
        let mut rows = Vec::new();
        for element in Elements::of(&source)? {
            let element = element?;
            let mut values = Vec::with_capacity(keys.len());
            for (key, _) in &keys {
                values.push(self.call(key, [element.clone()])?);
            }
            rows.push((values, element));
        }
        let descending: Vec<bool> = keys.iter().map(|(_, descending)| *descending).collect();
        let rows = sort_by_keys(rows, &descending)?;
        self.list(rows.into_iter().map(|(_, element)| element).collect())
    }
}

#[cold]
pub(crate) fn empty_sequence() -> Fault {
    let message = "the sequence has no such element";
    Fault::new(EvaluationErrorKind::EmptySequence, message)
}
