//! The text of a tree: keywords in lower case, one space between words, everything quoted that
//! could be misread. Parsing it yields an equal tree.

use std::fmt::{self, Display, Formatter, Write};

use crate::ast::{
    Comparison, Declaration, DeclarationBody, Expression, FieldPath, Literal, MethodCall,
    OrderByItem, Ordering, PathStep, Query, Select, SelectItem, Selection, Source, SourceKind,
};
use crate::keyword::is_reserved;
use crate::lexer::{TokenKind, token_at};
use crate::time_series::{TimeSeriesQuery, TimeSeriesRange, TimeSeriesSource};

impl Display for Query {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for declaration in &self.declarations {
            write!(out, "{declaration} ")?;
        }
        write!(out, "{}", self.source)?;
        write_list(out, " group by ", &self.group_by, |out, item| {
            write!(out, "{}", item.key)?;
            write_alias(out, item.alias.as_deref())
        })?;
        write_after(out, " where ", self.condition.as_ref())?;
        write_list(out, " order by ", &self.order_by, |out, item| write!(out, "{item}"))?;
        write_list(out, " load ", &self.load, |out, item| {
            write!(out, "{}", item.path)?;
            write_alias(out, Some(&item.alias))?;
            out.write_str(if item.many { "[]" } else { "" })
        })?;
        write_after(out, " filter ", self.filter.as_ref())?;
        write_after(out, " select ", self.select.as_ref())?;
        write_list(out, " include ", &self.include, |out, item| write!(out, "{item}"))?;
        if let Some(script) = &self.update {
            write_script(out, " update ", script)?;
        }
        write_after(out, " limit ", self.limit.as_ref())?;
        write_after(out, " offset ", self.offset.as_ref())?;
        write_after(out, " filter_limit ", self.filter_limit.as_ref())
    }
}

fn write_after(out: &mut Formatter<'_>, keyword: &str, part: Option<&impl Display>) -> fmt::Result {
    match part {
        Some(part) => write!(out, "{keyword}{part}"),
        None => Ok(()),
    }
}

fn write_list<T>(
    out: &mut Formatter<'_>,
    keyword: &str,
    items: &[T],
    write_item: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (number, item) in items.iter().enumerate() {
        out.write_str(if number == 0 { keyword } else { ", " })?;
        write_item(out, item)?;
    }
    Ok(())
}

fn write_alias(out: &mut Formatter<'_>, alias: Option<&str>) -> fmt::Result {
    match alias {
        Some(alias) => {
            out.write_str(" as ")?;
            write_name(out, alias)
        }
        None => Ok(()),
    }
}

/// A line break in front of the closing brace ends a line comment that the script may end with.
fn write_script(out: &mut Formatter<'_>, keyword: &str, script: &str) -> fmt::Result {
    write!(out, "{keyword}{{ {script}\n}}")
}

fn write_name(out: &mut Formatter<'_>, name: &str) -> fmt::Result {
    let token = token_at(name, 0);
    let plain = token.kind == TokenKind::Word && token.text.len() == name.len();
    match plain && !is_reserved(name) && !name.eq_ignore_ascii_case("index") {
        true => out.write_str(name),
        false => write_quoted(out, name),
    }
}

fn write_quoted(out: &mut Formatter<'_>, text: &str) -> fmt::Result {
    out.write_char('\'')?;
    for character in text.chars() {
        match character {
            '\'' => out.write_str("\\'")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            plain => out.write_char(plain)?,
        }
    }
    out.write_char('\'')
}

impl Display for Declaration {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.body {
            DeclarationBody::Function(_) => "function",
            DeclarationBody::TimeSeries(_) => "timeseries",
        };
        write!(out, "declare {kind} {}({})", self.name, self.parameters.join(", "))?;
        match &self.body {
            DeclarationBody::Function(script) => write_script(out, " ", script),
            DeclarationBody::TimeSeries(query) => write!(out, " {{ {query} }}"),
        }
    }
}

impl Display for Source {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::Graph(text) => return out.write_str(text),
            SourceKind::AllDocuments => out.write_str("from @all_docs")?,
            SourceKind::Collection(name) => {
                out.write_str("from ")?;
                write_name(out, name)?;
            }
            SourceKind::Index(name) => {
                out.write_str("from index ")?;
                write_quoted(out, name)?;
            }
        }
        if let Some(restriction) = &self.restriction {
            write!(out, " ({restriction})")?;
        }
        write_alias(out, self.alias.as_deref())
    }
}

impl Display for OrderByItem {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.key)?;
        out.write_str(match self.ordering {
            None => "",
            Some(Ordering::String) => " as string",
            Some(Ordering::Long) => " as long",
            Some(Ordering::Double) => " as double",
            Some(Ordering::AlphaNumeric) => " as alphaNumeric",
        })?;
        out.write_str(if self.descending { " desc" } else { "" })
    }
}

impl Display for Select {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let distinct = if self.distinct { "distinct " } else { "" };
        match &self.selection {
            Selection::Everything => write!(out, "{distinct}*"),
            Selection::Script(script) => write_script(out, distinct, script),
            Selection::Items(items) => {
                write_list(out, distinct, items, |out, item| write!(out, "{item}"))
            }
        }
    }
}

impl Display for SelectItem {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.value)?;
        write_alias(out, self.alias.as_deref())
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::And(parts) => write_chain(out, " and ", parts),
            Expression::Or(parts) => write_chain(out, " or ", parts),
            Expression::Not(negated) => {
                out.write_str("not ")?;
                write_part(out, negated)
            }
            Expression::Compare { left, comparison, right } => {
                write!(out, "{left} {} {right}", comparison.sign())
            }
            Expression::Between { value, low, high } => {
                write!(out, "{value} between {low} and {high}")
            }
            Expression::In { value, list, all } => {
                let operator = if *all { "all in" } else { "in" };
                write!(out, "{value} {operator} (")?;
                write_list(out, "", list, |out, value| write!(out, "{value}"))?;
                out.write_char(')')
            }
            Expression::Method(call) => write!(out, "{call}"),
            Expression::Field(path) => write!(out, "{path}"),
            Expression::Literal(literal) => write!(out, "{literal}"),
            Expression::TimeSeries(query) => write!(out, "{query}"),
        }
    }
}

impl Display for TimeSeriesQuery {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match &self.source {
            TimeSeriesSource::Path(path) => write!(out, "from {path}")?,
            TimeSeriesSource::Literal(literal) => write!(out, "from {literal}")?,
        }
        match &self.range {
            TimeSeriesRange::Everything => {}
            TimeSeriesRange::Between { from, to } => write!(out, " between {from} and {to}")?,
            TimeSeriesRange::First(period) => write!(out, " first {period}")?,
            TimeSeriesRange::Last(period) => write!(out, " last {period}")?,
        }
        if let Some(alias) = &self.load_alias {
            out.write_str(" load Tag")?;
            write_alias(out, Some(alias))?;
        }
        write_after(out, " where ", self.condition.as_ref())?;
        if let Some(grouping) = &self.grouping {
            write!(out, " group by {}", grouping.period)?;
            write_after(out, ", ", grouping.key.as_ref())?;
            write_after(out, " with ", grouping.interpolation.as_ref())?;
        }
        write_list(out, " select ", &self.select, |out, item| write!(out, "{item}"))?;
        write_after(out, " scale ", self.scale.as_ref())?;
        write_after(out, " offset ", self.offset.as_ref())
    }
}

fn write_chain(out: &mut Formatter<'_>, joint: &str, parts: &[Expression]) -> fmt::Result {
    for (number, part) in parts.iter().enumerate() {
        out.write_str(if number == 0 { "" } else { joint })?;
        write_part(out, part)?;
    }
    Ok(())
}

/// A part of a chain; chains inside chains keep their parentheses.
fn write_part(out: &mut Formatter<'_>, part: &Expression) -> fmt::Result {
    match part {
        Expression::And(_) | Expression::Or(_) => write!(out, "({part})"),
        _ => write!(out, "{part}"),
    }
}

impl Comparison {
    /// The sign of the comparison.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl Display for MethodCall {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.name)?;
        write_list(out, "", &self.arguments, |out, argument| write!(out, "{argument}"))?;
        out.write_char(')')?;
        write_alias(out, self.alias.as_deref())
    }
}

impl Display for FieldPath {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                PathStep::Each => out.write_str("[]")?,
                PathStep::Index(index) => write!(out, "[{index}]")?,
                PathStep::Name { name, quoted } => {
                    out.write_str(if number == 0 { "" } else { "." })?;
                    match quoted {
                        true => write_quoted(out, name)?,
                        false => out.write_str(name)?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl Display for Literal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => out.write_str("null"),
            Literal::Bool(value) => write!(out, "{value}"),
            Literal::Number(number) => out.write_str(number.text()),
            Literal::String(text) => write_quoted(out, text),
            Literal::Parameter(name) => write!(out, "${name}"),
        }
    }
}
