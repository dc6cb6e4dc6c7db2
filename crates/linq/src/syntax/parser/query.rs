//! Query syntax: `from … where … select …`.

use crate::syntax::ast::{Clause, Expr, ExprKind, Join, Query, QueryEnd, QueryRest};
use crate::syntax::lexer::TokenKind;
use crate::syntax::parser::expression::is_clause_word;
use crate::syntax::parser::{Parsed, Parser};

impl Parser<'_> {
    /// `from x in`, `from T x in`; also a malformed `from` that is recognizable as one.
    pub(super) fn starts_query(&self) -> bool {
        let is_word = |count: usize| matches!(self.ahead(count).kind, TokenKind::Word { .. });
        self.token().is_word("from") && is_word(1)
    }

    pub(super) fn query(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        let (variable, source) = self.source_clause()?;
        let QueryRest { clauses, end } = self.query_rest()?;
        let query = Query { variable, source, clauses, end };
        self.make(ExprKind::Query(Box::new(query)), start.to(self.last_span()))
    }

    fn source_clause(&mut self) -> Parsed<(String, Expr)> {
        self.expect_word("from")?;
        if !self.ahead(1).is_word("in") {
            self.attempt(|parser| {
                parser.type_name()?;
                Ok(parser.ahead(1).is_word("in").then_some(()))
            });
        }
        let variable = self.name()?;
        self.expect_word("in")?;
        Ok((variable, self.expression()?))
    }

    fn query_rest(&mut self) -> Parsed<QueryRest> {
        let mut clauses = Vec::new();
        loop {
            let token = self.token().clone();
            clauses.push(if token.is_word("from") {
                let (variable, source) = self.source_clause()?;
                Clause::From { variable, source }
            } else if self.take_word("let") {
                let variable = self.name()?;
                self.expect_sign("=")?;
                Clause::Let { variable, value: self.expression()? }
            } else if self.take_word("where") {
                Clause::Where(self.expression()?)
            } else if self.take_word("orderby") {
                let keys = self.order_keys()?;
                Clause::OrderBy { keys, span: token.span.to(self.last_span()) }
            } else if self.take_word("join") {
                Clause::Join(Box::new(self.join()?))
            } else {
                return Ok(QueryRest { clauses, end: self.query_end()? });
            });
        }
    }

    fn order_keys(&mut self) -> Parsed<Vec<(Expr, bool)>> {
        let mut keys = Vec::new();
        loop {
            let key = self.expression()?;
            let descending = self.take_word("descending");
            if !descending {
                self.take_word("ascending");
            }
            keys.push((key, descending));
            if !self.take_sign(",") {
                return Ok(keys);
            }
        }
    }

    fn join(&mut self) -> Parsed<Join> {
        let variable = self.name()?;
        self.expect_word("in")?;
        let source = self.expression()?;
        self.expect_word("on")?;
        let left = self.expression()?;
        self.expect_word("equals")?;
        let right = self.expression()?;
        let into = match self.take_word("into") {
            true => Some(self.name()?),
            false => None,
        };
        Ok(Join { variable, source, left, right, into })
    }

    fn query_end(&mut self) -> Parsed<QueryEnd> {
        let start = self.token().span;
        if self.take_word("select") {
            let value = self.expression()?;
            return Ok(QueryEnd::Select { value, into: self.continuation()? });
        }
        if self.take_word("group") {
            let element = self.expression()?;
            self.expect_word("by")?;
            let key = self.expression()?;
            let span = start.to(self.last_span());
            return Ok(QueryEnd::Group { element, key, span, into: self.continuation()? });
        }
        match &self.token().kind {
            TokenKind::Word { name, .. } if !is_clause_word(name) => {
                Err(self.unexpected("an operator or a clause of the query"))
            }
            _ => Err(self.unexpected("'select' or 'group'")),
        }
    }

    fn continuation(&mut self) -> Parsed<Option<(String, Box<QueryRest>)>> {
        if !self.take_word("into") {
            return Ok(None);
        }
        let variable = self.name()?;
        let rest = self.deeper(Parser::query_rest)?;
        Ok(Some((variable, Box::new(rest))))
    }
}
