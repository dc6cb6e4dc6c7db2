//! `new`: anonymous objects, arrays, lists, dictionaries, and the few classes that have constructors.

use crate::compile::names::{Function, NetType};
use crate::compile::plan::{Constant, FunctionCall, Known, Node, Op, Style};
use crate::compile::{Compiled, Compiler};
use crate::definition_error::DefinitionErrorKind;
use crate::syntax::ast::{Expr, ExprKind, Initializer, Member, TypeName};
use crate::syntax::span::Span;
use crate::value::CreatedFieldOptions;

impl Compiler<'_> {
    pub(super) fn anonymous(&mut self, members: &[Member], span: Span) -> Compiled<Node> {
        self.check_members(members)?;
        let names = members.iter().map(|member| member.name.as_str().into()).collect();
        let values = members.iter().map(|member| self.node(&member.value));
        let values = values.collect::<Compiled<_>>()?;
        Ok(Node { op: Op::Record { names, values }, span, known: Known::Other })
    }

    /// Refuses duplicate names and nulls without a type.
    pub(super) fn check_members(&self, members: &[Member]) -> Compiled<()> {
        for (index, member) in members.iter().enumerate() {
            let span = member.value.span;
            if members[..index].iter().any(|other| other.name == member.name) {
                let message = format!("the object has two properties '{}'", member.name);
                return Err(self.error(DefinitionErrorKind::Syntax, message, span));
            }
            match member.value.kind {
                ExprKind::Null => {
                    let message = "null alone has no type: write '(string)null'";
                    return Err(self.error(DefinitionErrorKind::NotSupported, message, span));
                }
                ExprKind::Conditionally { .. } if self.is_unnamed(member) => {
                    let message = "a value after '?.' needs a name: write 'Name = value'";
                    return Err(self.error(DefinitionErrorKind::NoFields, message, span));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the member's text is its value alone.
    fn is_unnamed(&self, member: &Member) -> bool {
        let before = self.text.get(..member.value.span.start as usize).unwrap_or_default();
        !before.trim_end().ends_with('=')
    }

    pub(super) fn new_array(
        &mut self,
        element: Option<&TypeName>,
        length: Option<&Expr>,
        items: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        if let Some(element) = element {
            self.net_type(element)?;
        }
        let zero_length = matches!(length.map(|length| &length.kind), Some(ExprKind::Integer(0)));
        if length.is_some() && items.is_empty() && !zero_length {
            return Err(self.not_supported("an array of empty places", span));
        }
        let is_plain =
            element.is_some_and(|element| matches!(element.short(), "string" | "String"));
        let items = items.iter().map(|item| self.node(item)).collect::<Compiled<_>>()?;
        let op = Op::List { items, plain: is_plain, distinct: false };
        Ok(Node { op, span, known: Known::Other })
    }

    /// A tuple has no fields that an index could see, but its items can be read.
    pub(super) fn tuple(&mut self, items: &[Expr], span: Span) -> Compiled<Node> {
        let items = items.iter().map(|item| self.node(item)).collect::<Compiled<_>>()?;
        Ok(Node { op: Op::Tuple(items), span, known: Known::Other })
    }

    pub(super) fn new_object(
        &mut self,
        what: &TypeName,
        arguments: &[Expr],
        initializer: Option<&Initializer>,
        span: Span,
    ) -> Compiled<Node> {
        match what.short() {
            "Dictionary" => return self.new_dictionary(arguments, initializer, span),
            "List" | "HashSet" => return self.new_list(what, arguments, initializer, span),
            "Random" => {
                let message = "'Random' returns a different result each time";
                return Err(self.error(DefinitionErrorKind::NotDeterministic, message, span));
            }
            _ => {}
        }
        if initializer.is_some() {
            return Err(self.not_supported(format!("an object of type '{}'", what.name), span));
        }
        let function = match NetType::from_name(what.short()) {
            Some(NetType::DateTime) => Function::DateTimeNew,
            Some(NetType::DateTimeOffset) => Function::DateTimeOffsetNew,
            Some(NetType::TimeSpan) => Function::TimeSpanNew,
            Some(NetType::Guid) => Function::GuidNew,
            Some(NetType::String) => Function::StringNew,
            _ if what.short() == "Regex" => {
                return Err(
                    self.not_supported("a Regex object: use Regex.IsMatch and its kind", span)
                );
            }
            _ => return Err(self.not_supported(format!("an object of type '{}'", what.name), span)),
        };
        let arguments = self.arguments(arguments)?;
        let options = CreatedFieldOptions::default();
        let call = FunctionCall { function, arguments, types: Box::new([]), options, regex: None };
        Ok(Node { op: Op::Function(Box::new(call)), span, known: Known::Other })
    }

    fn new_dictionary(
        &mut self,
        arguments: &[Expr],
        initializer: Option<&Initializer>,
        span: Span,
    ) -> Compiled<Node> {
        let pairs = match initializer {
            Some(Initializer::Pairs(pairs)) => pairs.as_slice(),
            Some(Initializer::Items(items)) if items.is_empty() => &[],
            None => &[],
            Some(Initializer::Items(_) | Initializer::Properties(_)) => {
                return Err(self.not_supported("this initialiser of a dictionary", span));
            }
        };
        if !arguments.is_empty() {
            return Err(self.not_supported("a dictionary made from another", span));
        }
        let mut compiled = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            compiled.push((self.node(key)?, self.node(value)?));
        }
        Ok(Node { op: Op::Dictionary(compiled.into()), span, known: Known::Other })
    }

    fn new_list(
        &mut self,
        what: &TypeName,
        arguments: &[Expr],
        initializer: Option<&Initializer>,
        span: Span,
    ) -> Compiled<Node> {
        let distinct = what.short() == "HashSet";
        let items = match (arguments, initializer) {
            ([], Some(Initializer::Items(items))) => items.as_slice(),
            ([], None) => &[],
            ([source], None) => {
                let target = self.node(source)?;
                let method = if distinct { "ToHashSet" } else { "ToList" };
                return Ok(self.static_method(
                    target,
                    method,
                    Box::new([]),
                    Style::Enumerable,
                    span,
                ));
            }
            _ => return Err(self.not_supported("this initialiser of a list", span)),
        };
        let items = items.iter().map(|item| self.node(item)).collect::<Compiled<_>>()?;
        Ok(Node { op: Op::List { items, plain: false, distinct }, span, known: Known::Other })
    }
}

/// The text of a constant, if it is one.
pub(super) fn constant_text(node: &Node) -> Option<&str> {
    match &node.op {
        Op::Constant(Constant::Text(text)) => Some(text),
        _ => None,
    }
}
