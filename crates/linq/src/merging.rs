//! Maps so plain that two of them may become one: a collection, and a value for each field.

use std::collections::BTreeMap;

use crate::definition::Map;
use crate::definition_error::DefinitionError;
use crate::syntax::ast::{Clause, Expr, ExprKind, Member, Query, QueryEnd};
use crate::syntax::parser;

/// What the document is called in the fields of a [`PlainMap`].
const DOCUMENT: &str = "doc";

/// A map that yields exactly one entry for each document of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainMap {
    /// The text of what it reads, such as `docs.Users`.
    pub source: String,
    /// The value of each field, with the document called `doc`.
    pub fields: BTreeMap<String, String>,
}

/// Why a map is not plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPlain {
    /// It leaves documents out.
    Where,
    /// It has names for parts of the document.
    Let,
    /// It yields several entries for a document.
    SeveralFroms,
    /// It has an unsupported form.
    Other,
}

impl PlainMap {
    /// Reads a map that compiles.
    ///
    /// # Errors
    /// When it is no map.
    pub fn of(text: &str) -> Result<Result<PlainMap, NotPlain>, DefinitionError> {
        Map::compile(text)?;
        Ok(plain(text, &parser::parse(text)?))
    }

    /// The text of a map with the fields of this one.
    pub fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!("    {name} = {value}"));
        let fields = fields.collect::<Vec<_>>().join(",\r\n");
        format!("from {DOCUMENT} in {}\r\nselect new\r\n{{\r\n{fields}\r\n}}", self.source)
    }
}

fn plain(text: &str, expr: &Expr) -> Result<PlainMap, NotPlain> {
    let (variable, source, members) = match &expr.kind {
        ExprKind::Query(query) => of_query(query)?,
        ExprKind::Call { target, arguments } => of_call(target, arguments)?,
        _ => return Err(NotPlain::Other),
    };
    let mut fields = BTreeMap::new();
    for member in members {
        fields.insert(member.name.clone(), renamed(text, &member.value, variable)?);
    }
    Ok(PlainMap { source: source.span.of(text).to_owned(), fields })
}

type Parts<'e> = (&'e str, &'e Expr, &'e [Member]);

fn of_query(query: &Query) -> Result<Parts<'_>, NotPlain> {
    if let Some(clause) = query.clauses.first() {
        return Err(match clause {
            Clause::Where(_) => NotPlain::Where,
            Clause::Let { .. } => NotPlain::Let,
            Clause::From { .. } => NotPlain::SeveralFroms,
            Clause::OrderBy { .. } | Clause::Join(_) => NotPlain::Other,
        });
    }
    let QueryEnd::Select { value, into: None } = &query.end else { return Err(NotPlain::Other) };
    let ExprKind::Anonymous(members) = &value.kind else { return Err(NotPlain::Other) };
    match is_source(&query.source) {
        true => Ok((&query.variable, &query.source, members)),
        false => Err(NotPlain::Other),
    }
}

/// `docs.Users.Select(u => new { … })`
fn of_call<'e>(target: &'e Expr, arguments: &'e [Expr]) -> Result<Parts<'e>, NotPlain> {
    let ExprKind::Member { target: source, name, .. } = &target.kind else {
        return Err(NotPlain::Other);
    };
    match name.as_str() {
        "Where" => return Err(NotPlain::Where),
        "SelectMany" => return Err(NotPlain::SeveralFroms),
        "Select" => {}
        _ => return Err(NotPlain::Other),
    }
    if let ExprKind::Call { target, arguments } = &source.kind {
        // A plain map has nothing between the source and the last `Select`.
        return of_call(target, arguments).and(Err(NotPlain::Let));
    }
    let [argument] = arguments else { return Err(NotPlain::Other) };
    let ExprKind::Lambda { parameters, body } = &argument.kind else { return Err(NotPlain::Other) };
    let ([variable], ExprKind::Anonymous(members)) = (parameters.as_slice(), &body.kind) else {
        return Err(NotPlain::Other);
    };
    if is_source(source) { Ok((variable, source, members)) } else { Err(NotPlain::Other) }
}

/// `docs` or `docs.Users`.
fn is_source(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Member { target, .. } => target.as_name() == Some("docs"),
        _ => expr.as_name() == Some("docs"),
    }
}

/// The text of an expression with the document under its common name. An expression that declares
/// names itself is refused: they might collide.
fn renamed(text: &str, expr: &Expr, variable: &str) -> Result<String, NotPlain> {
    let mut places = Vec::new();
    collect(expr, variable, &mut places)?;
    places.sort_unstable();
    let (mut out, mut from) = (String::new(), expr.span.start as usize);
    for (start, end) in places {
        out.push_str(text.get(from..start).unwrap_or_default());
        out.push_str(DOCUMENT);
        from = end;
    }
    out.push_str(text.get(from..expr.span.end as usize).unwrap_or_default());
    Ok(out)
}

/// The depth is bounded by that of the tree.
fn collect(expr: &Expr, variable: &str, places: &mut Vec<(usize, usize)>) -> Result<(), NotPlain> {
    match &expr.kind {
        ExprKind::Query(_) => return Err(NotPlain::Other),
        // Its pieces have no positions in the text.
        ExprKind::Interpolated(_) => return Err(NotPlain::Other),
        ExprKind::Lambda { parameters, .. }
            if parameters.iter().any(|name| name == variable || name == DOCUMENT) =>
        {
            return Err(NotPlain::Other);
        }
        _ if expr.as_name() == Some(variable) => {
            places.push((expr.span.start as usize, expr.span.end as usize));
        }
        _ => {}
    }
    let mut result = Ok(());
    expr.kind.each_child(&mut |child| {
        if result.is_ok() {
            result = collect(child, variable, places);
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source, and the values of fields.
    type Shown<'s> = (&'s str, &'s [(&'s str, &'s str)]);

    fn check(text: &str, expected: Result<Shown<'_>, NotPlain>) {
        let found = PlainMap::of(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected = expected.map(|(source, fields)| PlainMap {
            source: source.to_owned(),
            fields: fields
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        });
        assert_eq!(found, expected, "{text}");
        if let Ok(map) = found {
            assert_eq!(PlainMap::of(&map.text()).unwrap(), Ok(map), "{text}");
        }
    }

    #[test]
    fn plain_maps_are_read_whatever_they_call_the_document() {
        check(
            "from u in docs.Users select new { u.Name, Age = u.Age + 1, N = u.Name.ToLower() }",
            Ok((
                "docs.Users",
                &[("Age", "doc.Age + 1"), ("N", "doc.Name.ToLower()"), ("Name", "doc.Name")],
            )),
        );
        check(
            "docs.Users.Select(user => new { Lines = user.Lines.Select(u => u.A), D = 1 })",
            Ok(("docs.Users", &[("D", "1"), ("Lines", "doc.Lines.Select(u => u.A)")])),
        );
        check("from d in docs select new { d.Name }", Ok(("docs", &[("Name", "doc.Name")])));
        check(
            "from u in docs.Users select new { X = LoadDocument(u.C, \"u\").u }",
            Ok(("docs.Users", &[("X", "LoadDocument(doc.C, \"u\").u")])),
        );
    }

    #[test]
    fn what_is_more_than_plain_is_said() {
        let check = |text: &str, why| check(text, Err(why));
        check("from u in docs.Users where u.Age > 1 select new { u.Name }", NotPlain::Where);
        check("from u in docs.Users let n = u.Name select new { n }", NotPlain::Let);
        check("from u in docs.Users from x in u.L select new { x }", NotPlain::SeveralFroms);
        check("docs.Users.SelectMany(u => u.L, (u, x) => new { x })", NotPlain::SeveralFroms);
        check("docs.Users.Where(u => u.A).Select(u => new { u.A })", NotPlain::Where);
        check(
            "from u in docs.Users select new { A = u.L.Select(doc => doc.X + u.Y) }",
            NotPlain::Other,
        );
        check("from u in docs.Users select new { A = $\"{u.Name}\" }", NotPlain::Other);
    }
}
