//! Queries in either syntax become stages.
//!
//! A row is the variables of the query at one moment. Anonymous objects between two calls, which
//! clients write for `let` (`Select(this0 => new { this0 = this0, x = … })`), are never built:
//! their properties become variables.

use std::rc::Rc;

use crate::compile::expression::as_lambda;
use crate::compile::plan::{Constant, Known, Node, Op, Pipeline, Slot, Stage};
use crate::compile::scope::Binding;
use crate::compile::source::Source;
use crate::compile::{Compiled, Compiler, Role};
use crate::definition_error::DefinitionErrorKind;
use crate::limits::STAGES_MAX;
use crate::syntax::ast::{Clause, Expr, ExprKind, Query, QueryEnd};
use crate::syntax::span::Span;

/// A query as far as it is compiled.
pub(crate) struct Rows {
    pub(crate) stages: Vec<Stage>,
    pub(crate) current: Current,
    /// What the rows are grouped by, when they are.
    pub(crate) grouping: Option<Grouping>,
    /// How much more all fields of an output count.
    pub(crate) boost: Option<Node>,
    /// Whether anything was selected.
    pub(crate) has_select: bool,
    /// The rows are those of the definition, not of a query inside it.
    is_top: bool,
}

/// The current element of a query, as far as it is known.
pub(crate) enum Current {
    Bound(Binding),
    /// An anonymous object.
    Members(Vec<(String, Member)>),
    Node(Node),
}

/// A property of an anonymous object.
pub(crate) enum Member {
    Bound(Binding),
    /// Not evaluated yet.
    Pending(Node),
}

/// What a reduce groups by.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// The fields of the mapped values that form the key; empty when all belong together.
    pub(crate) fields: Vec<(String, Span)>,
    pub(crate) span: Span,
}

impl Rows {
    fn from_slot(slot: Slot, known: Known, is_top: bool) -> Rows {
        Rows {
            stages: Vec::new(),
            current: Current::Bound(Binding::Slot { slot, known }),
            grouping: None,
            boost: None,
            has_select: false,
            is_top,
        }
    }
}

impl Compiler<'_> {
    /// The whole definition: its source and its rows. `None` when it starts with no source.
    pub(crate) fn definition(&mut self, expr: &Expr) -> Compiled<Option<(Source, Rows)>> {
        if let Some(source) = self.source_of(expr)? {
            return Ok(Some((source, self.root_rows(expr.span)?)));
        }
        match &expr.kind {
            ExprKind::Query(query) => {
                let Some((source, rows)) = self.definition(&query.source)? else { return Ok(None) };
                Ok(Some((source, self.query(rows, query)?)))
            }
            ExprKind::Call { target, arguments } => {
                if let Some(source) = self.entity_collections(target, arguments)? {
                    return Ok(Some((source, self.root_rows(expr.span)?)));
                }
                let ExprKind::Member { target: receiver, name, .. } = &target.kind else {
                    return Ok(None);
                };
                let Some((source, rows)) = self.definition(receiver)? else { return Ok(None) };
                Ok(Some((source, self.chained(rows, name, arguments, expr.span)?)))
            }
            _ => Ok(None),
        }
    }

    fn root_rows(&mut self, span: Span) -> Compiled<Rows> {
        let slot = self.new_slot(span)?;
        Ok(Rows::from_slot(slot, Known::Dynamic, true))
    }

    /// A query inside an expression.
    pub(super) fn nested_query(&mut self, query: &Query, span: Span) -> Compiled<Node> {
        let mark = self.scope.enter();
        self.nesting += 1;
        let rows = self.rows_over(&query.source).and_then(|rows| self.query(rows, query));
        self.nesting -= 1;
        self.scope.leave(mark);
        let rows = rows?;
        let result = self.element(rows.current, span);
        let pipeline = Box::new(Pipeline { stages: rows.stages.into(), result });
        Ok(Node { op: Op::Sequence(pipeline), span, known: Known::Other })
    }

    fn rows_over(&mut self, source: &Expr) -> Compiled<Rows> {
        let node = self.node(source)?;
        let slot = self.new_slot(source.span)?;
        let mut rows = Rows::from_slot(slot, Known::Dynamic, false);
        rows.stages.push(Stage::Each { slot, source: node });
        Ok(rows)
    }

    /// The node that yields the current element.
    fn element(&self, current: Current, span: Span) -> Node {
        match current {
            Current::Bound(binding) => self.read(&binding, span),
            Current::Node(node) => node,
            Current::Members(members) => {
                let names = members.iter().map(|(name, _)| name.as_str().into()).collect();
                let values =
                    members.into_iter().map(|(_, member)| self.member_node(member, span)).collect();
                Node { op: Op::Record { names, values }, span, known: Known::Other }
            }
        }
    }

    pub(crate) fn member_node(&self, member: Member, span: Span) -> Node {
        match member {
            Member::Bound(binding) => self.read(&binding, span),
            Member::Pending(node) => node,
        }
    }

    fn push(&self, rows: &mut Rows, stage: Stage, span: Span) -> Compiled<()> {
        if STAGES_MAX <= rows.stages.len() {
            let message = format!("a query has at most {STAGES_MAX} steps");
            return Err(self.error(DefinitionErrorKind::TooLarge, message, span));
        }
        rows.stages.push(stage);
        Ok(())
    }

    /// Puts a node's value into a new variable.
    fn set(&mut self, rows: &mut Rows, value: Node) -> Compiled<Binding> {
        let (span, known) = (value.span, value.known);
        let slot = self.new_slot(span)?;
        self.push(rows, Stage::Set { slot, value }, span)?;
        Ok(Binding::Slot { slot, known })
    }

    /// Binds the current element, evaluating what of it is pending.
    fn bind_current(&mut self, rows: &mut Rows) -> Compiled<Binding> {
        let placeholder = Current::Members(Vec::new());
        let binding = match std::mem::replace(&mut rows.current, placeholder) {
            Current::Bound(binding) => binding,
            Current::Node(node) => self.set(rows, node)?,
            Current::Members(members) => {
                let mut bound = Vec::with_capacity(members.len());
                for (name, member) in members {
                    let binding = match member {
                        Member::Bound(binding) => binding,
                        Member::Pending(node) => self.set(rows, node)?,
                    };
                    bound.push((name, binding));
                }
                Binding::Members(Rc::new(bound))
            }
        };
        rows.current = Current::Bound(binding.clone());
        Ok(binding)
    }

    /// The result of a `select` or of the lambda of `Select`.
    fn selected(&mut self, rows: &mut Rows, value: &Expr) -> Compiled<()> {
        rows.has_select = true;
        rows.current = match &value.kind {
            ExprKind::Anonymous(members) => {
                self.check_members(members)?;
                let mut compiled = Vec::with_capacity(members.len());
                for member in members {
                    self.refuse_loose_order(&member.value)?;
                    let value = match self.binding_of(&member.value) {
                        Some(binding) => Member::Bound(binding),
                        None => Member::Pending(self.node(&member.value)?),
                    };
                    compiled.push((member.name.clone(), value));
                }
                Current::Members(compiled)
            }
            ExprKind::Call { target, arguments } if rows.is_top => {
                match (&target.kind, arguments.as_slice()) {
                    (ExprKind::Member { target: object, name, .. }, [factor])
                        if name == "Boost" && matches!(object.kind, ExprKind::Anonymous(_)) =>
                    {
                        rows.boost = Some(self.node(factor)?);
                        return self.selected(rows, object);
                    }
                    _ => Current::Node(self.node(value)?),
                }
            }
            ExprKind::New { what, .. } if rows.is_top && what.short() != "Dictionary" => {
                let message = "what is selected is neither 'new { … }' nor a dictionary";
                return Err(self.error(DefinitionErrorKind::OutputNotObject, message, value.span));
            }
            _ => match self.binding_of(value) {
                Some(binding) => Current::Bound(binding),
                None => Current::Node(self.node(value)?),
            },
        };
        Ok(())
    }

    /// Continues `rows` with a query in query syntax whose first source they are.
    fn query(&mut self, mut rows: Rows, query: &Query) -> Compiled<Rows> {
        let mark = self.scope.enter();
        let (mut variable, mut clauses, mut end) =
            (query.variable.as_str(), &query.clauses, &query.end);
        loop {
            let binding = self.bind_current(&mut rows)?;
            self.scope.declare(variable, binding);
            for clause in clauses {
                self.clause(&mut rows, clause)?;
            }
            let into = match end {
                QueryEnd::Select { value, into } => {
                    self.selected(&mut rows, value)?;
                    into
                }
                QueryEnd::Group { element, key, span, into } => {
                    self.group(&mut rows, element, key, *span)?;
                    into
                }
            };
            let Some((name, rest)) = into else { break };
            let binding = self.bind_current(&mut rows)?;
            // After `into` the variables before it are out of scope.
            self.scope.leave(mark);
            rows.current = Current::Bound(binding);
            (variable, clauses, end) = (name, &rest.clauses, &rest.end);
        }
        self.scope.leave(mark);
        Ok(rows)
    }

    fn clause(&mut self, rows: &mut Rows, clause: &Clause) -> Compiled<()> {
        match clause {
            Clause::From { variable, source } => {
                self.refuse_loose_order(source)?;
                let binding = self.each(rows, source)?;
                self.scope.declare(variable, binding);
            }
            Clause::Let { variable, value } => {
                self.refuse_loose_order(value)?;
                let binding = match self.binding_of(value) {
                    Some(binding) => binding,
                    None => {
                        let value = self.node(value)?;
                        self.set(rows, value)?
                    }
                };
                self.scope.declare(variable, binding);
            }
            Clause::Where(condition) => self.filter(rows, condition)?,
            Clause::OrderBy { keys, span } => {
                if self.role == Role::Map && rows.is_top {
                    return Err(self.order_error(*span));
                }
                let mut compiled = Vec::with_capacity(keys.len());
                for (key, descending) in keys {
                    compiled.push((self.node(key)?, *descending));
                }
                let live = self.scope.slots().into();
                self.push(rows, Stage::Order { keys: compiled.into(), live }, *span)?;
            }
            Clause::Join(join) => {
                return Err(self.not_supported("'join'", join.source.span));
            }
        }
        Ok(())
    }

    fn each(&mut self, rows: &mut Rows, source: &Expr) -> Compiled<Binding> {
        let node = self.node(source)?;
        let slot = self.new_slot(source.span)?;
        self.push(rows, Stage::Each { slot, source: node }, source.span)?;
        Ok(Binding::Slot { slot, known: Known::Dynamic })
    }

    fn filter(&mut self, rows: &mut Rows, condition: &Expr) -> Compiled<()> {
        let condition_node = self.node(condition)?;
        let keeps_null = rows.is_top && self.role == Role::Map;
        let stage = Stage::Filter { condition: condition_node, keeps_null };
        self.push(rows, stage, condition.span)
    }

    fn group(&mut self, rows: &mut Rows, element: &Expr, key: &Expr, span: Span) -> Compiled<()> {
        if self.role == Role::Reduce && rows.is_top && rows.grouping.is_none() {
            rows.grouping = Some(self.grouping(key, span)?);
        }
        let (element, key) = (self.node(element)?, self.node(key)?);
        let slot = self.new_slot(span)?;
        self.push(rows, Stage::Group { slot, element, key }, span)?;
        rows.current = Current::Bound(Binding::Slot { slot, known: Known::Other });
        rows.has_select = true;
        Ok(())
    }

    /// The fields that form the key of a reduce.
    fn grouping(&self, key: &Expr, span: Span) -> Compiled<Grouping> {
        let field = |expr: &Expr| match &expr.kind {
            ExprKind::Member { target, name, .. } if self.binding_of(target).is_some() => {
                Ok((name.clone(), expr.span))
            }
            _ => {
                let message = "a reduce can only group by fields of its maps: compute the key in the \
                               maps";
                Err(self.error(DefinitionErrorKind::GroupBy, message, expr.span))
            }
        };
        let fields = match &key.kind {
            ExprKind::Anonymous(members) => {
                members.iter().map(|member| field(&member.value)).collect::<Compiled<_>>()?
            }
            ExprKind::Integer(_) | ExprKind::String(_) | ExprKind::Bool(_) => Vec::new(),
            _ => vec![field(key)?],
        };
        Ok(Grouping { fields, span })
    }

    /// Continues `rows` with a call in method syntax.
    fn chained(
        &mut self,
        mut rows: Rows,
        name: &str,
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Rows> {
        let mark = self.scope.enter();
        match name {
            "Select" => self.chained_select(&mut rows, name, arguments, span)?,
            "Where" => {
                let body = self.only_lambda(&mut rows, name, arguments, span)?;
                self.filter(&mut rows, body)?;
            }
            "SelectMany" => rows = self.chained_select_many(rows, arguments, span)?,
            "GroupBy" => self.chained_group(&mut rows, arguments, span)?,
            "OrderBy" | "OrderByDescending" | "ThenBy" | "ThenByDescending" => {
                if self.role == Role::Map {
                    return Err(self.order_error(span));
                }
                let body = self.only_lambda(&mut rows, name, arguments, span)?;
                let keys = Box::new([(self.node(body)?, name.ends_with("Descending"))]);
                let live = self.scope.slots().into();
                self.push(&mut rows, Stage::Order { keys, live }, span)?;
            }
            _ => {
                let what = format!("'{name}' on all documents at once");
                return Err(self.not_supported(what, span));
            }
        }
        self.scope.leave(mark);
        Ok(rows)
    }

    fn chained_select(
        &mut self,
        rows: &mut Rows,
        name: &str,
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<()> {
        let body = self.only_lambda(rows, name, arguments, span)?;
        self.selected(rows, body)
    }

    /// Declares the parameters of the only argument, a lambda, and returns its body.
    fn only_lambda<'e>(
        &mut self,
        rows: &mut Rows,
        name: &str,
        arguments: &'e [Expr],
        span: Span,
    ) -> Compiled<&'e Expr> {
        let [argument] = arguments else { return Err(self.wrong_arguments(name, span)) };
        self.declare_lambda(rows, name, argument)
    }

    fn declare_lambda<'e>(
        &mut self,
        rows: &mut Rows,
        name: &str,
        argument: &'e Expr,
    ) -> Compiled<&'e Expr> {
        let (parameter, index, body) = match as_lambda(argument) {
            Some(([parameter], body)) => (parameter, None, body),
            Some(([parameter, index], body)) => (parameter, Some(index), body),
            _ => return Err(self.wrong_arguments(name, argument.span)),
        };
        let binding = self.bind_current(rows)?;
        self.scope.declare(parameter, binding);
        if let Some(index) = index {
            // Documents come one at a time, so each is the first.
            let zero = self.constant(Constant::Integer(0), argument.span);
            let binding = self.set(rows, zero)?;
            self.scope.declare(index, binding);
        }
        Ok(body)
    }

    fn wrong_arguments(&self, name: &str, span: Span) -> crate::DefinitionError {
        let message = format!("'{name}' needs a lambda here");
        self.error(DefinitionErrorKind::UnknownMethod, message, span)
    }

    fn chained_select_many(
        &mut self,
        mut rows: Rows,
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Rows> {
        let Some((collection, result)) = arguments.split_first() else {
            return Err(self.wrong_arguments("SelectMany", span));
        };
        let body = self.declare_lambda(&mut rows, "SelectMany", collection)?;
        self.refuse_loose_order(body)?;
        let outer = self.bind_current(&mut rows)?;
        if result.is_empty() {
            if let ExprKind::Query(_) = body.kind {
                return Err(self.not_supported("a query as what 'SelectMany' flattens", body.span));
            }
            return self.inlined(rows, body);
        }
        let inner = self.each(&mut rows, body)?;
        let Some(([left, right], body)) = as_lambda(&result[0]).filter(|_| result.len() == 1)
        else {
            return Err(self.wrong_arguments("SelectMany", span));
        };
        self.scope.declare(left, outer);
        self.scope.declare(right, inner);
        self.selected(&mut rows, body)?;
        Ok(rows)
    }

    /// Continues `rows` with the elements of `source`; a chain of `Select` and `Where` on them
    /// becomes stages, so that what it selects is known.
    fn inlined(&mut self, mut rows: Rows, source: &Expr) -> Compiled<Rows> {
        if let ExprKind::Call { target, arguments } = &source.kind
            && let ExprKind::Member { target: receiver, name, .. } = &target.kind
            && matches!(name.as_str(), "Select" | "Where")
            && let [argument] = arguments.as_slice()
            && let Some(([_], _)) = as_lambda(argument)
            && self.class_of(receiver).is_none()
        {
            let mut rows = self.inlined(rows, receiver)?;
            let is_top = std::mem::replace(&mut rows.is_top, false);
            let mut rows = self.chained(rows, name, arguments, source.span)?;
            rows.is_top = is_top;
            return Ok(rows);
        }
        let binding = self.each(&mut rows, source)?;
        rows.current = Current::Bound(binding);
        Ok(rows)
    }

    fn chained_group(&mut self, rows: &mut Rows, arguments: &[Expr], span: Span) -> Compiled<()> {
        let [key] = arguments else {
            let message = "'GroupBy' takes one lambda here: what to group by";
            return Err(self.error(DefinitionErrorKind::GroupBy, message, span));
        };
        let (parameter, body) = match as_lambda(key) {
            Some(([parameter], body)) => (parameter, body),
            _ => return Err(self.wrong_arguments("GroupBy", span)),
        };
        let binding = self.bind_current(rows)?;
        let whole = self.read(&binding, span);
        self.scope.declare(parameter, binding);
        if self.role == Role::Reduce && rows.is_top && rows.grouping.is_none() {
            rows.grouping = Some(self.grouping(body, span)?);
        }
        let key = self.node(body)?;
        let slot = self.new_slot(span)?;
        self.push(rows, Stage::Group { slot, element: whole, key }, span)?;
        rows.current = Current::Bound(Binding::Slot { slot, known: Known::Other });
        rows.has_select = true;
        Ok(())
    }

    /// Refuses a sorted sequence of a map unless only its first element or the like is used. The
    /// result of a reduce is a document, whose lists have an order.
    fn refuse_loose_order(&self, expr: &Expr) -> Compiled<()> {
        if self.role == Role::Reduce {
            return Ok(());
        }
        let ExprKind::Call { target, .. } = &expr.kind else { return Ok(()) };
        let ExprKind::Member { name, .. } = &target.kind else { return Ok(()) };
        let sorts = ["OrderBy", "OrderByDescending", "ThenBy", "ThenByDescending"];
        if sorts.contains(&name.as_str()) { Err(self.order_error(expr.span)) } else { Ok(()) }
    }

    fn order_error(&self, span: Span) -> crate::DefinitionError {
        let message = "an index does not keep an order, so sorting in it has no effect: sort in the \
                       query instead";
        self.error(DefinitionErrorKind::OrderBy, message, span)
    }
}
