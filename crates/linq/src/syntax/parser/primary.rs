//! What an expression starts with, and the calls, members and indexes after it.

use crate::syntax::ast::{Expr, ExprKind, Initializer, Member, Piece, TypeName};
use crate::syntax::lexer::{Literal, RawPiece, TokenKind};
use crate::syntax::parser::expression::is_type_keyword;
use crate::syntax::parser::{Parsed, Parser, is_reserved};
use crate::syntax::span::Span;

impl Parser<'_> {
    pub(super) fn postfix(&mut self) -> Parsed<Expr> {
        let primary = self.primary()?;
        self.links(primary)
    }

    /// Everything after `target` that binds to it.
    fn links(&mut self, mut target: Expr) -> Parsed<Expr> {
        loop {
            target = match self.token().kind {
                TokenKind::Sign(".") => {
                    self.advance();
                    self.member(target)?
                }
                TokenKind::Sign("(") => {
                    self.advance();
                    let arguments = self.list(")", Parser::argument)?;
                    let span = target.span.to(self.last_span());
                    self.make(ExprKind::Call { target: Box::new(target), arguments }, span)?
                }
                TokenKind::Sign("[") => self.index(target)?,
                TokenKind::Sign("?") if self.is_conditional_access() => {
                    return self.conditional_access(target);
                }
                TokenKind::Sign("!") if !self.ahead(1).is_sign("=") => {
                    // `x!` only asserts to a compiler that x is not null.
                    self.advance();
                    target
                }
                _ => return Ok(target),
            };
        }
    }

    fn member(&mut self, target: Expr) -> Parsed<Expr> {
        let name = match &self.token().kind {
            // Any word may follow a dot.
            TokenKind::Word { name, .. } => name.clone(),
            _ => return Err(self.unexpected("a name")),
        };
        self.advance();
        let type_arguments = self.type_arguments();
        let span = target.span.to(self.last_span());
        self.make(ExprKind::Member { target: Box::new(target), name, type_arguments }, span)
    }

    fn index(&mut self, target: Expr) -> Parsed<Expr> {
        self.advance();
        let arguments = self.list("]", Parser::argument)?;
        let span = target.span.to(self.last_span());
        if arguments.is_empty() {
            return Err(self.unexpected("an index"));
        }
        self.make(ExprKind::Index { target: Box::new(target), arguments }, span)
    }

    fn argument(&mut self) -> Parsed<Expr> {
        let is_word = matches!(self.token().kind, TokenKind::Word { .. });
        if is_word && self.ahead(1).is_sign(":") {
            // The options of `CreateField` may be named, but are always in this order.
            if !self.token().is_word("stored") && !self.token().is_word("analyzed") {
                return Err(self.not_supported(self.token().span, "a named argument"));
            }
            self.advance();
            self.advance();
        }
        self.expression()
    }

    /// `?.x` and `?[`, which touch; `a ? [1] : b` is a choice.
    fn is_conditional_access(&self) -> bool {
        let next = self.ahead(1);
        let touches = next.span.start == self.token().span.end;
        touches && (next.is_sign(".") || next.is_sign("["))
    }

    fn conditional_access(&mut self, target: Expr) -> Parsed<Expr> {
        self.advance();
        let receiver = self.make(ExprKind::Receiver, target.span)?;
        let first = match self.take_sign(".") {
            true => self.member(receiver)?,
            false => self.index(receiver)?,
        };
        let rest = Box::new(self.deeper(|parser| parser.links(first))?);
        let span = target.span.to(rest.span);
        self.make(ExprKind::Conditionally { target: Box::new(target), rest }, span)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token().clone();
        match token.kind {
            TokenKind::Literal(literal) => {
                self.advance();
                self.make(literal_kind(literal), token.span)
            }
            TokenKind::Interpolated(pieces) => {
                self.advance();
                self.interpolated(pieces, token.span)
            }
            TokenKind::Sign("(") => self.parenthesised(),
            TokenKind::Word { name, escaped: false } if is_reserved(&name) => self.keyword(&name),
            TokenKind::Word { name, .. } => {
                self.advance();
                let type_arguments = self.type_arguments();
                let span = token.span.to(self.last_span());
                self.make(ExprKind::Name { name, type_arguments }, span)
            }
            TokenKind::Sign(_) | TokenKind::End => Err(self.unexpected("an expression")),
        }
    }

    fn keyword(&mut self, word: &str) -> Parsed<Expr> {
        let start = self.token().span;
        let kind = match word {
            "null" => ExprKind::Null,
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "new" => return self.new_expression(),
            "this" => ExprKind::Name { name: "this".to_owned(), type_arguments: Vec::new() },
            "typeof" => {
                self.advance();
                self.expect_sign("(")?;
                let name = self.type_name()?;
                self.expect_sign(")")?;
                return self.make(ExprKind::TypeOf(name), start.to(self.last_span()));
            }
            "default" => return self.default_value(),
            "checked" | "unchecked" => {
                // Arithmetic here does not wrap, so both mean the expression itself.
                self.advance();
                self.expect_sign("(")?;
                let value = self.expression()?;
                self.expect_sign(")")?;
                return Ok(value);
            }
            "throw" => return Err(self.not_supported(start, "throw")),
            _ => return Err(self.unexpected("an expression")),
        };
        self.advance();
        self.make(kind, start)
    }

    fn default_value(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        self.advance();
        let name = match self.take_sign("(") {
            true => {
                let name = self.type_name()?;
                self.expect_sign(")")?;
                Some(name)
            }
            false => None,
        };
        self.make(ExprKind::Default(name), start.to(self.last_span()))
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        self.advance();
        let mut first = self.expression()?;
        if self.take_sign(",") {
            let mut items = self.list(")", Parser::expression)?;
            items.insert(0, first);
            return self.make(ExprKind::Tuple(items), start.to(self.last_span()));
        }
        self.expect_sign(")")?;
        first.span = start.to(self.last_span());
        Ok(first)
    }

    fn interpolated(&mut self, raw: Vec<RawPiece>, span: Span) -> Parsed<Expr> {
        let mut pieces = Vec::with_capacity(raw.len());
        for piece in raw {
            pieces.push(match piece {
                RawPiece::Text(text) => Piece::Text(text),
                RawPiece::Hole { start, end, alignment, format } => {
                    let value = self.deeper(|parser| {
                        let mut inner = Parser::over(parser.text, start, end, parser.depth)?;
                        let value = inner.expression()?;
                        inner.expect_end()?;
                        Ok(value)
                    })?;
                    Piece::Hole { value, alignment, format }
                }
            });
        }
        self.make(ExprKind::Interpolated(pieces), span)
    }

    fn new_expression(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        self.advance();
        if self.take_sign("{") {
            let members = self.list("}", Parser::anonymous_member)?;
            return self.make(ExprKind::Anonymous(members), start.to(self.last_span()));
        }
        if self.take_sign("[") {
            self.expect_sign("]")?;
            self.expect_sign("{")?;
            let items = self.list("}", Parser::expression)?;
            return self.new_array(None, None, items, start);
        }
        let what = self.type_name()?;
        if what.is_array {
            self.expect_sign("{")?;
            let items = self.list("}", Parser::expression)?;
            return self.new_array(Some(TypeName { is_array: false, ..what }), None, items, start);
        }
        if self.take_sign("[") {
            let length = Box::new(self.expression()?);
            self.expect_sign("]")?;
            let items = match self.take_sign("{") {
                true => self.list("}", Parser::expression)?,
                false => Vec::new(),
            };
            return self.new_array(Some(what), Some(length), items, start);
        }
        self.new_object(what, start)
    }

    fn new_array(
        &mut self,
        element: Option<TypeName>,
        length: Option<Box<Expr>>,
        items: Vec<Expr>,
        start: Span,
    ) -> Parsed<Expr> {
        self.make(ExprKind::NewArray { element, length, items }, start.to(self.last_span()))
    }

    fn new_object(&mut self, what: TypeName, start: Span) -> Parsed<Expr> {
        let has_arguments = self.take_sign("(");
        let arguments = match has_arguments {
            true => self.list(")", Parser::argument)?,
            false => Vec::new(),
        };
        let initializer = match self.take_sign("{") {
            true => Some(self.initializer()?),
            false if has_arguments => None,
            false => return Err(self.unexpected("'(' or '{'")),
        };
        let span = start.to(self.last_span());
        self.make(ExprKind::New { what, arguments, initializer }, span)
    }

    /// The initializer after `{`, including the `}`.
    fn initializer(&mut self) -> Parsed<Initializer> {
        if self.token().is_sign("{") || self.token().is_sign("[") {
            return Ok(Initializer::Pairs(self.list("}", Parser::pair)?));
        }
        let is_property =
            matches!(self.token().kind, TokenKind::Word { .. }) && self.ahead(1).is_sign("=");
        if !is_property {
            return Ok(Initializer::Items(self.list("}", Parser::expression)?));
        }
        let properties = self.list("}", |parser| {
            let name = parser.name()?;
            parser.expect_sign("=")?;
            Ok(Member { name, value: parser.expression()? })
        })?;
        Ok(Initializer::Properties(properties))
    }

    /// `{ key, value }` or `[key] = value`
    fn pair(&mut self) -> Parsed<(Expr, Expr)> {
        if self.take_sign("[") {
            let key = self.expression()?;
            self.expect_sign("]")?;
            self.expect_sign("=")?;
            return Ok((key, self.expression()?));
        }
        self.expect_sign("{")?;
        let key = self.expression()?;
        self.expect_sign(",")?;
        let value = self.expression()?;
        self.expect_sign("}")?;
        Ok((key, value))
    }

    /// `Name = value`, or a value whose last name is the property's.
    fn anonymous_member(&mut self) -> Parsed<Member> {
        if self.ahead(1).is_sign("=") {
            let name = self.name()?;
            self.advance();
            return Ok(Member { name, value: self.expression()? });
        }
        let start = self.token().clone();
        let value = self.expression()?;
        match last_name(&value) {
            Some(name) => Ok(Member { name: name.to_owned(), value }),
            None => {
                let message = "this value has no implicit name: write 'Name = value'";
                Err(crate::syntax::lexer::syntax_error(self.text, start.span, message))
            }
        }
    }
}

fn last_name(value: &Expr) -> Option<&str> {
    match &value.kind {
        ExprKind::Name { name, .. } if !is_type_keyword(name) => Some(name),
        ExprKind::Member { name, .. } => Some(name),
        ExprKind::Conditionally { rest, .. } => last_name(rest),
        _ => None,
    }
}

fn literal_kind(literal: Literal) -> ExprKind {
    match literal {
        Literal::Integer(value) => ExprKind::Integer(value),
        Literal::Unsigned(value) => ExprKind::Unsigned(value),
        Literal::Double(value) => ExprKind::Double(value),
        Literal::Decimal(digits) => ExprKind::Decimal(digits),
        Literal::Char(value) => ExprKind::Char(value),
        Literal::String(value) => ExprKind::String(value),
    }
}
