//! Maps and reduces: compiled once, shared by threads, evaluated for each document or group.

use std::fmt;

use crate::compile::plan::{Constant, Node, Op, Pipeline};
use crate::compile::rows::{Current, Rows};
use crate::compile::scope::Binding;
use crate::compile::source::{Source, SourceKind};
use crate::compile::{Compiler, Role};
use crate::definition_error::{DefinitionError, DefinitionErrorKind};
use crate::syntax::ast::{Expr, ExprKind};
use crate::syntax::parser;
use crate::syntax::span::Span;

/// What a map and a reduce have in common.
pub(crate) struct Definition {
    pub(crate) text: Box<str>,
    pub(crate) pipeline: Pipeline,
    pub(crate) fields: Box<[Box<str>]>,
    pub(crate) slots: usize,
    pub(crate) boost: Option<Node>,
}

/// A compiled map.
///
/// ```
/// let map = linq::Map::compile("from d in docs.Dogs select new { d.Name, Legs = 4 }")?;
/// assert_eq!(map.source().collections, ["Dogs"]);
/// assert_eq!(map.fields().collect::<Vec<_>>(), ["Name", "Legs"]);
/// # Ok::<(), linq::DefinitionError>(())
/// ```
pub struct Map {
    pub(crate) definition: Definition,
    source: Source,
}

/// A compiled reduce.
pub struct Reduce {
    pub(crate) definition: Definition,
    group_by: Vec<String>,
    group_by_spans: Vec<Span>,
}

impl Map {
    /// Compiles a map.
    ///
    /// # Errors
    /// When the text is not C#, or uses features that an index does not support.
    pub fn compile(text: &str) -> Result<Map, DefinitionError> {
        let expr = parse_definition(text, Role::Map)?;
        let mut compiler = Compiler::new(text, Role::Map);
        let Some((source, rows)) = compiler.definition(&expr)? else {
            return Err(no_source(&compiler, &expr, "'docs', 'timeSeries' or 'counters'"));
        };
        let definition = finish(compiler, rows, &expr)?;
        Ok(Map { definition, source })
    }

    /// What the map reads.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The collections the map reads, as written; empty means all. Case does not matter in them.
    pub fn collections(&self) -> &[String] {
        &self.source.collections
    }

    /// The kind of the source.
    pub fn source_kind(&self) -> SourceKind {
        self.source.kind
    }

    /// The names of the output's fields, in order. `_` represents fields whose names depend on the
    /// document.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.definition.fields.iter().map(|name| &**name)
    }

    /// The distinct collections that documents are loaded from, as far as the text shows.
    pub fn referenced_collections(&self) -> Vec<&str> {
        crate::compile::references::collections(&self.definition.pipeline)
    }

    /// Whether compare exchange values are loaded.
    pub fn loads_compare_exchange(&self) -> bool {
        crate::compile::references::loads_compare_exchange(&self.definition.pipeline)
    }
}

impl Reduce {
    /// Compiles a reduce.
    ///
    /// # Errors
    /// When the text is not C#, does not group, or uses features that a reduce does not support.
    pub fn compile(text: &str) -> Result<Reduce, DefinitionError> {
        let expr = parse_definition(text, Role::Reduce)?;
        let mut compiler = Compiler::new(text, Role::Reduce);
        let Some((_, rows)) = compiler.definition(&expr)? else {
            return Err(no_source(&compiler, &expr, "'results'"));
        };
        let Some(grouping) = rows.grouping.clone() else {
            let message = "a reduce groups its results: 'group … by …' or 'GroupBy' is missing";
            return Err(compiler.error(DefinitionErrorKind::NoGroupBy, message, expr.span));
        };
        let definition = finish(compiler, rows, &expr)?;
        let (group_by, group_by_spans) = grouping.fields.into_iter().unzip();
        let reduce = Reduce { definition, group_by, group_by_spans };
        reduce.check_group_by(grouping.span)?;
        Ok(reduce)
    }

    /// The fields that determine the group of a mapped value, in the order of the text; empty when
    /// all belong to one group.
    pub fn group_by(&self) -> &[String] {
        &self.group_by
    }

    /// The names of the output's fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.definition.fields.iter().map(|name| &**name)
    }

    /// Refuses maps that do not have the fields of the reduce.
    ///
    /// # Errors
    /// [`DefinitionErrorKind::DifferentFields`], naming the fields.
    pub fn check_maps(&self, maps: &[Map]) -> Result<(), DefinitionError> {
        maps.iter().try_for_each(|map| check_same_fields(&map.definition, &self.definition))
    }

    fn check_group_by(&self, whole: Span) -> Result<(), DefinitionError> {
        for (field, span) in self.group_by.iter().zip(&self.group_by_spans) {
            if !self.fields().any(|own| own == field) {
                let known = self.fields().collect::<Vec<_>>().join(", ");
                let message = format!(
                    "the reduce groups by '{field}', which is none of its fields ({known})"
                );
                let kind = DefinitionErrorKind::GroupByUnknownField;
                let span = if span.start == 0 { whole } else { *span };
                return Err(DefinitionError::new(kind, message, span, &self.definition.text));
            }
        }
        Ok(())
    }
}

/// Refuses maps of one index whose fields differ.
///
/// # Errors
/// [`DefinitionErrorKind::DifferentFields`], naming the fields.
pub fn check_same_maps(maps: &[Map]) -> Result<(), DefinitionError> {
    let Some((first, rest)) = maps.split_first() else { return Ok(()) };
    rest.iter().try_for_each(|map| check_same_fields(&first.definition, &map.definition))
}

fn check_same_fields(baseline: &Definition, other: &Definition) -> Result<(), DefinitionError> {
    let lacks = |one: &Definition, two: &Definition| {
        let names = one.fields.iter().filter(|name| !two.fields.contains(name));
        names.map(|name| &**name).collect::<Vec<_>>().join(", ")
    };
    let (missing, additional) = (lacks(baseline, other), lacks(other, baseline));
    if missing.is_empty() && additional.is_empty() {
        return Ok(());
    }
    let message = format!(
        "all maps and the reduce of an index have the same fields; missing here: [{missing}], \
         additional: [{additional}]"
    );
    let span = Span::new(0, other.text.len());
    Err(DefinitionError::new(DefinitionErrorKind::DifferentFields, message, span, &other.text))
}

fn parse_definition(text: &str, role: Role) -> Result<Expr, DefinitionError> {
    match parser::parse(text) {
        Ok(expr) => Ok(expr),
        Err(error) => Err(explain_syntax(error, text, role)),
    }
}

/// A text that stops in `select` lacks its output rather than an expression.
fn explain_syntax(error: DefinitionError, text: &str, role: Role) -> DefinitionError {
    let stops = error.construct.is_empty() && error.kind == DefinitionErrorKind::Syntax;
    if role == Role::Map && stops && text.trim_end().ends_with("select") {
        let message = "what is selected is missing: write 'select new { … }'";
        let span = Span::new(text.len(), text.len());
        return DefinitionError::new(DefinitionErrorKind::OutputNotObject, message, span, text);
    }
    error
}

fn no_source(compiler: &Compiler<'_>, expr: &Expr, expected: &str) -> DefinitionError {
    let message = format!("a definition starts with {expected}");
    compiler.error(DefinitionErrorKind::NoSource, message, expr.span)
}

fn finish(
    mut compiler: Compiler<'_>,
    rows: Rows,
    expr: &Expr,
) -> Result<Definition, DefinitionError> {
    let Rows { stages, current, boost, has_select, .. } = rows;
    let (fields, values) = match current {
        Current::Members(members) => members
            .into_iter()
            .map(|(name, member)| (name.into_boxed_str(), compiler.member_node(member, expr.span)))
            .unzip(),
        Current::Node(Node { op: Op::Dictionary(pairs), .. }) => {
            dictionary_fields(&compiler, pairs)?
        }
        Current::Bound(Binding::Members(members)) if has_select => members
            .iter()
            .map(|(name, member)| (name.as_str().into(), compiler.read(member, expr.span)))
            .unzip(),
        Current::Bound(_) | Current::Node(_) => {
            return Err(not_an_object(&compiler, expr, has_select));
        }
    };
    let fields: Vec<Box<str>> = fields;
    if fields.is_empty() {
        let message = "the output has no fields";
        return Err(compiler.error(DefinitionErrorKind::NoFields, message, expr.span));
    }
    let values: Vec<Node> = values;
    let known = crate::compile::plan::Known::Other;
    let names = fields.clone().into();
    let op = Op::Record { names, values: values.into() };
    let result = Node { op, span: expr.span, known };
    compiler.new_slot(expr.span)?;
    Ok(Definition {
        text: compiler.text.into(),
        pipeline: Pipeline { stages: stages.into(), result },
        fields: fields.into(),
        slots: compiler.slot_count(),
        boost,
    })
}

type Fields = (Vec<Box<str>>, Vec<Node>);

fn dictionary_fields(
    compiler: &Compiler<'_>,
    pairs: Box<[(Node, Node)]>,
) -> Result<Fields, DefinitionError> {
    let mut fields = Vec::with_capacity(pairs.len());
    let mut values = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let Op::Constant(Constant::Text(name)) = key.op else {
            let message = "the keys of an output's dictionary are string literals";
            return Err(compiler.error(DefinitionErrorKind::NoFields, message, key.span));
        };
        fields.push(name);
        values.push(value);
    }
    Ok((fields, values))
}

fn not_an_object(compiler: &Compiler<'_>, expr: &Expr, has_select: bool) -> DefinitionError {
    let is_bare = !matches!(expr.kind, ExprKind::Query(_) | ExprKind::Call { .. });
    if is_bare && !has_select {
        let message = "the definition selects nothing";
        return compiler.error(DefinitionErrorKind::NoFields, message, expr.span);
    }
    let message = "what is selected is neither 'new { … }' nor a dictionary";
    compiler.error(DefinitionErrorKind::OutputNotObject, message, expr.span)
}

impl fmt::Debug for Map {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Map").field(&self.definition.text).finish()
    }
}

impl fmt::Debug for Reduce {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Reduce").field(&self.definition.text).finish()
    }
}

/// A plan is shared by the threads that evaluate it.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Map>();
    is_shared::<Reduce>();
};
