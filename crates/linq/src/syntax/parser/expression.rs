//! Operators, casts and lambdas.

use crate::syntax::ast::{BinaryOperator, Expr, ExprKind, Pattern, TypeName, UnaryOperator};
use crate::syntax::lexer::TokenKind;
use crate::syntax::parser::{Parsed, Parser, is_reserved};

/// How tightly the operators bind, from loose to tight.
mod power {
    pub(super) const COALESCE: u8 = 1;
    pub(super) const OR: u8 = 2;
    pub(super) const AND: u8 = 3;
    pub(super) const BIT_OR: u8 = 4;
    pub(super) const BIT_XOR: u8 = 5;
    pub(super) const BIT_AND: u8 = 6;
    pub(super) const EQUALITY: u8 = 7;
    pub(super) const RELATION: u8 = 8;
    pub(super) const SHIFT: u8 = 9;
    pub(super) const SUM: u8 = 10;
    pub(super) const PRODUCT: u8 = 11;
}

impl Parser<'_> {
    /// Any expression, lambdas and queries among them.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            if let Some(parameters) = parser.attempt(Parser::lambda_head) {
                return parser.lambda(parameters);
            }
            if parser.starts_query() {
                return parser.query();
            }
            parser.choice()
        })
    }

    fn choice(&mut self) -> Parsed<Expr> {
        let condition = self.binary(0)?;
        if !self.take_sign("?") {
            return self.no_assignment(condition);
        }
        let when_true = Box::new(self.expression()?);
        self.expect_sign(":")?;
        let when_false = Box::new(self.expression()?);
        let span = condition.span.to(when_false.span);
        self.make(ExprKind::Choice { condition: Box::new(condition), when_true, when_false }, span)
    }

    fn no_assignment(&self, expression: Expr) -> Parsed<Expr> {
        let token = self.token();
        for sign in ["=", "+=", "-=", "*=", "/=", "??=", "++", "--"] {
            if token.is_sign(sign) {
                return Err(self.not_supported(token.span, "an assignment"));
            }
        }
        if token.is_word("switch") {
            return Err(self.not_supported(token.span, "a switch expression"));
        }
        Ok(expression)
    }

    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        loop {
            if let Some(expression) = self.type_test(&left, least)? {
                left = expression;
                continue;
            }
            let Some((operator, power, signs)) = self.binary_operator() else { return Ok(left) };
            if power < least {
                return Ok(left);
            }
            for _ in 0..signs {
                self.advance();
            }
            // `??` groups to the right.
            let next = if power == power::COALESCE { power } else { power + 1 };
            let right = self.right_operand(power, next)?;
            let span = left.span.to(right.span);
            let (left_box, right) = (Box::new(left), Box::new(right));
            left = self.make(ExprKind::Binary { operator, left: left_box, right }, span)?;
        }
    }

    fn right_operand(&mut self, power: u8, next: u8) -> Parsed<Expr> {
        if power == power::COALESCE && self.token().is_word("throw") {
            return Err(self.not_supported(self.token().span, "throw"));
        }
        self.deeper(|parser| parser.binary(next))
    }

    /// The operator here, its binding power, and its number of tokens.
    fn binary_operator(&self) -> Option<(BinaryOperator, u8, usize)> {
        use BinaryOperator as B;
        let TokenKind::Sign(sign) = self.token().kind else { return None };
        let next = self.ahead(1);
        let touches = next.span.start == self.token().span.end;
        Some(match sign {
            "??" => (B::Coalesce, power::COALESCE, 1),
            "||" => (B::Or, power::OR, 1),
            "&&" => (B::And, power::AND, 1),
            "|" => (B::BitOr, power::BIT_OR, 1),
            "^" => (B::BitXor, power::BIT_XOR, 1),
            "&" => (B::BitAnd, power::BIT_AND, 1),
            "==" => (B::Equal, power::EQUALITY, 1),
            "!=" => (B::NotEqual, power::EQUALITY, 1),
            ">" if touches && next.is_sign(">") => (B::ShiftRight, power::SHIFT, 2),
            "<" => (B::Less, power::RELATION, 1),
            "<=" => (B::LessOrEqual, power::RELATION, 1),
            ">" => (B::Greater, power::RELATION, 1),
            ">=" => (B::GreaterOrEqual, power::RELATION, 1),
            "<<" => (B::ShiftLeft, power::SHIFT, 1),
            "+" => (B::Add, power::SUM, 1),
            "-" => (B::Subtract, power::SUM, 1),
            "*" => (B::Multiply, power::PRODUCT, 1),
            "/" => (B::Divide, power::PRODUCT, 1),
            "%" => (B::Remainder, power::PRODUCT, 1),
            _ => return None,
        })
    }

    /// `is` and `as` after `left`.
    fn type_test(&mut self, left: &Expr, least: u8) -> Parsed<Option<Expr>> {
        if power::RELATION < least {
            return Ok(None);
        }
        let operand = || Box::new(left.clone());
        let kind = if self.take_word("as") {
            ExprKind::As { to: self.tested_type()?, operand: operand() }
        } else if self.take_word("is") {
            let negated = self.take_word("not");
            let what = match self.take_word("null") {
                true => Pattern::Null,
                false => Pattern::Type(self.tested_type()?),
            };
            self.refuse_pattern_variable()?;
            ExprKind::Is { operand: operand(), what, negated }
        } else {
            return Ok(None);
        };
        self.make(kind, left.span.to(self.last_span())).map(Some)
    }

    /// The type after `is` or `as`; a `?` followed by an operand belongs to a conditional
    /// expression.
    fn tested_type(&mut self) -> Parsed<TypeName> {
        let mut tested = self.type_name()?;
        if tested.nullable && !tested.is_array && self.starts_operand(true) {
            self.at -= 1;
            tested.nullable = false;
        }
        Ok(tested)
    }

    fn refuse_pattern_variable(&self) -> Parsed<()> {
        let token = self.token();
        match &token.kind {
            TokenKind::Word { name, .. } if !is_clause_word(name) && !is_reserved(name) => {
                Err(self.not_supported(token.span, "a pattern with a variable"))
            }
            _ => Ok(()),
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        let operator = match self.token().kind {
            TokenKind::Sign("!") => UnaryOperator::Not,
            TokenKind::Sign("-") => UnaryOperator::Negate,
            TokenKind::Sign("+") => UnaryOperator::Plus,
            TokenKind::Sign("~") => UnaryOperator::Complement,
            TokenKind::Sign("++" | "--") => return Err(self.not_supported(start, "an assignment")),
            TokenKind::Sign("(") => return self.cast_or_postfix(),
            _ => return self.postfix(),
        };
        self.advance();
        let operand = Box::new(self.deeper(Parser::unary)?);
        let span = start.to(operand.span);
        self.make(ExprKind::Unary { operator, operand }, span)
    }

    fn cast_or_postfix(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        let cast = self.attempt(|parser| {
            parser.advance();
            let to = parser.type_name()?;
            parser.expect_sign(")")?;
            let sure = to.nullable || to.is_array || is_type_keyword(&to.name);
            Ok((parser.starts_operand(sure)).then_some(to))
        });
        let Some(to) = cast else { return self.postfix() };
        let operand = Box::new(self.deeper(Parser::unary)?);
        let span = start.to(operand.span);
        self.make(ExprKind::Cast { to, operand }, span)
    }

    /// Whether what follows `(T)` makes it a cast; `sure` when T can only be a type.
    fn starts_operand(&self, sure: bool) -> bool {
        match &self.token().kind {
            TokenKind::Literal(_) | TokenKind::Interpolated(_) => true,
            TokenKind::Word { name, escaped } => {
                *escaped
                    || !matches!(name.as_str(), "is" | "as" | "in" | "switch")
                        && !self.ends_operand(name)
            }
            TokenKind::Sign(sign) => match *sign {
                "(" | "!" | "~" => true,
                "+" | "-" => sure,
                _ => false,
            },
            TokenKind::End => false,
        }
    }

    /// Whether a word after `(x)` continues a query instead of starting an operand.
    fn ends_operand(&self, word: &str) -> bool {
        is_clause_word(word) && !self.ahead(1).is_sign(".")
    }

    /// `x =>`, `(a, b) =>`, `(int a) =>`: the names of the parameters.
    fn lambda_head(&mut self) -> Parsed<Option<Vec<String>>> {
        let parameters = if self.take_sign("(") {
            self.list(")", |parser| {
                let behind = parser.ahead(1);
                if !behind.is_sign(",") && !behind.is_sign(")") {
                    parser.type_name()?;
                }
                parser.name()
            })?
        } else {
            vec![self.name()?]
        };
        Ok(self.take_sign("=>").then_some(parameters))
    }

    fn lambda(&mut self, parameters: Vec<String>) -> Parsed<Expr> {
        let start = self.last_span();
        let body = if self.take_sign("{") { self.block()? } else { self.expression()? };
        let span = start.to(body.span);
        self.make(ExprKind::Lambda { parameters, body: Box::new(body) }, span)
    }

    /// A body that is just `return …;`.
    fn block(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        if !self.take_word("return") {
            return Err(self.not_supported(start, "a statement"));
        }
        let value = self.expression()?;
        self.expect_sign(";")?;
        self.expect_sign("}")?;
        Ok(value)
    }
}

/// Words that continue a query.
pub(super) fn is_clause_word(word: &str) -> bool {
    const WORDS: [&str; 13] = [
        "from",
        "where",
        "select",
        "let",
        "group",
        "into",
        "orderby",
        "join",
        "on",
        "equals",
        "by",
        "ascending",
        "descending",
    ];
    WORDS.contains(&word)
}

pub(super) fn is_type_keyword(name: &str) -> bool {
    const KEYWORDS: [&str; 18] = [
        "bool", "byte", "sbyte", "char", "decimal", "double", "float", "int", "uint", "long",
        "ulong", "short", "ushort", "object", "string", "dynamic", "nint", "nuint",
    ];
    KEYWORDS.contains(&name)
}
