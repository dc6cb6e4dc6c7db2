//! The clauses of a query, in the order in which they may appear.

use super::{Parsed, Parser, Purpose};
use crate::ast::{Declaration, DeclarationBody, Literal, Query, QueryText, Source, SourceKind};
use crate::error::ParseError;
use crate::keyword::{CLAUSES, is_reserved, nearest};
use crate::lexer::TokenKind;
use crate::position::Offset;
use crate::script_text;
use crate::time_series::TimeSeriesQuery;

/// Words that may come first in a query.
const OPENERS: [&str; 3] = ["from", "declare", "select"];

impl Parser<'_> {
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let declarations = self.declarations()?;
        let mut query = Query {
            text: QueryText::default(),
            declarations,
            source: self.source()?,
            group_by: Vec::new(),
            condition: None,
            order_by: Vec::new(),
            load: Vec::new(),
            filter: None,
            select: None,
            include: Vec::new(),
            update: None,
            limit: None,
            offset: None,
            filter_limit: None,
        };
        self.rows(&mut query)?;
        self.shape(&mut query)?;
        self.paging(&mut query)?;
        match self.token.kind {
            TokenKind::End => Ok(query),
            _ => Err(self.unexpected_rest(&query)),
        }
    }

    /// The clauses that choose and order rows.
    fn rows(&mut self, query: &mut Query) -> Parsed<()> {
        if self.take_clause("group", "GROUP BY")? {
            query.group_by = self.group_by_items()?;
        }
        if self.take_clause("where", "WHERE")? {
            query.condition = Some(self.condition()?);
        }
        if self.take_clause("order", "ORDER BY")? {
            query.order_by = self.order_by_items()?;
        }
        if self.take_clause("load", "LOAD")? {
            query.load = self.load_items()?;
        }
        if self.take_clause("filter", "FILTER")? {
            query.filter = Some(self.condition()?);
        }
        Ok(())
    }

    /// The clauses that shape the rows.
    fn shape(&mut self, query: &mut Query) -> Parsed<()> {
        if self.purpose == Purpose::Update {
            query.update = Some(self.update()?);
            return Ok(());
        }
        if self.take_clause("select", "SELECT")? {
            query.select = Some(self.select()?);
        }
        if self.take_clause("include", "INCLUDE")? {
            query.include = self.include_items()?;
        }
        Ok(())
    }

    /// Consumes the keyword of a clause, with its `by` where it has one.
    pub(super) fn take_clause(&mut self, keyword: &str, clause: &'static str) -> Parsed<bool> {
        if !self.take_word(keyword) {
            return Ok(false);
        }
        self.clause = clause;
        if clause.ends_with(" BY") && !self.take_word("by") {
            let expected = format!("Expected BY after {}", keyword.to_ascii_uppercase());
            return Err(self.error(expected));
        }
        Ok(true)
    }

    fn declarations(&mut self) -> Parsed<Vec<Declaration>> {
        let mut declarations: Vec<Declaration> = Vec::new();
        while self.take_word("declare") {
            let offset = self.token.offset;
            let declaration = self.declaration()?;
            if declarations.iter().any(|earlier| earlier.name == declaration.name) {
                let message = format!("{} function was declared multiple times", declaration.name);
                return Err(self.error_at(offset, message));
            }
            declarations.push(declaration);
        }
        Ok(declarations)
    }

    fn declaration(&mut self) -> Parsed<Declaration> {
        let is_function = self.take_word("function");
        if !is_function && !self.take_word("timeseries") {
            let expected = "DECLARE clause found but missing 'function' keyword";
            return Err(self.error_with_suggestion(expected, &["function", "timeseries"]));
        }
        if self.token.kind != TokenKind::Word {
            let expected = "DECLARE functions require a name and cannot be anonymous";
            return Err(self.error(expected));
        }
        let name = self.advance().text.to_owned();
        let parameters = self.declared_parameters(&name)?;
        let expected = format!("Unable to get body for {name}");
        let body = match is_function {
            true => DeclarationBody::Function(self.braced(&expected)?),
            false => DeclarationBody::TimeSeries(Box::new(self.braced_time_series(&expected)?)),
        };
        Ok(Declaration { name, parameters, body })
    }

    fn braced_time_series(&mut self, expected: &str) -> Parsed<TimeSeriesQuery> {
        if !self.take_sign("{") {
            return Err(self.error(expected));
        }
        let query = self.time_series()?;
        match self.take_sign("}") {
            true => Ok(query),
            false => Err(self.error("Expected the end of the time series function")),
        }
    }

    fn declared_parameters(&mut self, name: &str) -> Parsed<Vec<String>> {
        if !self.take_sign("(") {
            return Err(self.error(format!("Unable to parse {name} signature")));
        }
        let mut parameters = Vec::new();
        if self.take_sign(")") {
            return Ok(parameters);
        }
        loop {
            if self.token.kind != TokenKind::Word {
                return Err(self.error("parsing method, expected an argument"));
            }
            parameters.push(self.advance().text.to_owned());
            if self.take_sign(")") {
                return Ok(parameters);
            }
            if !self.take_sign(",") {
                return Err(self.error("parsing method, expected ','"));
            }
        }
    }

    /// The raw text between the brace that comes next and the one that closes it.
    pub(super) fn braced(&mut self, expected: &str) -> Parsed<String> {
        let open = self.token.offset;
        let close = match self.token.is_sign("{") {
            true => script_text::closing(self.text, open),
            false => None,
        };
        let close = close.ok_or_else(|| self.error(expected))?;
        self.token = crate::lexer::token_at(self.text, close);
        Ok(self.text[open + 1..close - 1].trim().to_owned())
    }

    fn source(&mut self) -> Parsed<Source> {
        let offset = self.here();
        if self.token.is_word("match") || self.token.is_word("with") {
            let kind = SourceKind::Graph(self.rest_of_text());
            return Ok(Source { kind, restriction: None, alias: None, offset });
        }
        if !self.take_word("from") {
            return Err(self.error_with_suggestion("Expected FROM clause", &OPENERS));
        }
        let offset = self.here();
        let kind = self.source_kind()?;
        let restriction = match &kind {
            SourceKind::Collection(_) | SourceKind::AllDocuments => self.restriction()?,
            SourceKind::Index(_) | SourceKind::Graph(_) => None,
        };
        let alias = self.source_alias()?;
        Ok(Source { kind, restriction: restriction.map(Box::new), alias, offset })
    }

    fn source_kind(&mut self) -> Parsed<SourceKind> {
        if self.take_word("index") {
            if !self.at_name() {
                return Err(self.error("Invalid syntax. Expected 'INDEX source' expression."));
            }
            return Ok(SourceKind::Index(self.path()?.text()));
        }
        if !self.at_name() {
            return Err(self.error("Unable to parse identifier in FROM clause"));
        }
        let name = self.path()?.text();
        match name.eq_ignore_ascii_case("@all_docs") {
            true => Ok(SourceKind::AllDocuments),
            false => Ok(SourceKind::Collection(name)),
        }
    }

    fn restriction(&mut self) -> Parsed<Option<crate::ast::Expression>> {
        if !self.take_sign("(") {
            return Ok(None);
        }
        let condition = self.condition()?;
        if !self.take_sign(")") {
            return Err(self.error("Unmatched parenthesis, expected ')'"));
        }
        Ok(Some(condition))
    }

    fn source_alias(&mut self) -> Parsed<Option<String>> {
        if self.token.is_word("as") {
            return self.alias();
        }
        // `filter` is not a reserved word, but after a source it opens the clause.
        let is_alias = self.token.kind == TokenKind::Word
            && !is_reserved(self.token.text)
            && !self.token.is_word("filter");
        Ok(is_alias.then(|| self.advance().text.to_owned()))
    }

    fn rest_of_text(&mut self) -> String {
        let rest = &self.text[self.token.offset..];
        self.token = crate::lexer::token_at(self.text, self.text.len());
        rest.trim_end().to_owned()
    }

    fn update(&mut self) -> Parsed<String> {
        if !self.take_word("update") {
            let expected = "Update operations must end with UPDATE clause";
            return Err(self.error_with_suggestion(expected, &["update"]));
        }
        self.braced("Unable to get the script of the UPDATE clause")
    }

    fn paging(&mut self, query: &mut Query) -> Parsed<()> {
        if self.take_clause("limit", "LIMIT")? {
            let first = self.paging_value("Limit must contain a value")?;
            if self.take_sign(",") {
                query.offset = Some(first);
                query.limit = Some(self.paging_value("Limit must contain a second value")?);
            } else {
                query.limit = Some(first);
            }
        }
        if self.token.is_word("offset") {
            let keyword = self.advance();
            if query.offset.is_some() {
                let message = "Cannot use 'offset' after 'limit $skip,$take'";
                return Err(self.invalid_at(keyword.offset, message));
            }
            query.offset = Some(self.paging_value("Offset must contain a value")?);
        }
        if query.filter.is_some() && self.take_word("filter_limit") {
            query.filter_limit = Some(self.paging_value("FILTER_LIMIT must contain a value")?);
        }
        Ok(())
    }

    fn paging_value(&mut self, message: &str) -> Parsed<Literal> {
        match self.literal()? {
            Some(literal) => Ok(literal),
            None => Err(self.invalid_at(self.token.offset, message)),
        }
    }

    /// The error for text after the last clause. A misspelt clause word was read as the alias of
    /// the source, so the alias is checked when the rest itself resembles nothing.
    fn unexpected_rest(&self, query: &Query) -> ParseError {
        let mut error = self.error_with_suggestion("Expected end of query", &CLAUSES);
        let alias = query.source.alias.as_deref().unwrap_or_default();
        error.suggestion = error.suggestion.or_else(|| nearest(alias, &CLAUSES));
        error
    }

    /// Whether a name (of a source, field or method) comes next.
    pub(super) fn at_name(&self) -> bool {
        match self.token.kind {
            TokenKind::Word => !is_reserved(self.token.text),
            TokenKind::Quoted => true,
            TokenKind::End
            | TokenKind::Number
            | TokenKind::Parameter
            | TokenKind::Sign
            | TokenKind::Broken => false,
        }
    }

    /// `as name`, where the name may be quoted; `None` without `as`.
    pub(super) fn alias(&mut self) -> Parsed<Option<String>> {
        if !self.take_word("as") {
            return Ok(None);
        }
        if !self.at_name() {
            return Err(self.error("Expected field alias after AS in SELECT"));
        }
        let token = self.advance();
        match token.kind {
            TokenKind::Quoted => self.unquote(&token).map(Some),
            _ => Ok(Some(token.text.to_owned())),
        }
    }

    pub(super) fn offset_of(token: &crate::lexer::Token<'_>) -> Offset {
        Offset::new(token.offset)
    }
}
