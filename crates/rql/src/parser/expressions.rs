//! Conditions, values, paths and method calls.
//!
//! `and` binds tighter than `or`, `not` tighter than both. A chain of the same joint is one node,
//! so a long chain is not a deep one.

use super::{Parsed, Parser};
use crate::ast::{Comparison, Expression, FieldPath, Literal, MethodCall, Number, PathStep};
use crate::error::ParseError;
use crate::keyword::{OPERATORS, nearest};
use crate::lexer::{Token, TokenKind, path_step_at, token_at};

const VALID_OPERATORS: &str = "'in', 'between', =, <, >, <=, >=, !=";

impl Parser<'_> {
    /// A condition: a lone field or value is refused.
    pub(super) fn condition(&mut self) -> Parsed<Expression> {
        let offset = self.token.offset;
        let condition = self.expression()?;
        self.require_condition(&condition, offset)?;
        Ok(condition)
    }

    /// A condition or, for arguments of methods, a value.
    fn expression(&mut self) -> Parsed<Expression> {
        self.chain("or", "Or", Self::conjunction, Expression::Or)
    }

    fn conjunction(&mut self) -> Parsed<Expression> {
        self.chain("and", "And", Self::term, Expression::And)
    }

    /// `part joint part joint part …`, or a single part.
    fn chain(
        &mut self,
        joint: &str,
        joint_name: &str,
        part: fn(&mut Self) -> Parsed<Expression>,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Parsed<Expression> {
        let offset = self.token.offset;
        let first = part(self)?;
        if !self.token.is_word(joint) {
            return Ok(first);
        }
        self.require_condition(&first, offset)?;
        let mut parts = vec![first];
        while self.take_word(joint) {
            let second = if self.token.is_word("not") { self.peek_second() } else { self.token };
            if second.kind == TokenKind::End {
                let expected = format!("Failed to find second part of {joint_name} expression");
                return Err(self.error_at(second.offset, expected));
            }
            let offset = self.token.offset;
            let next = part(self)?;
            self.require_condition(&next, offset)?;
            parts.push(next);
        }
        Ok(join(parts))
    }

    fn term(&mut self) -> Parsed<Expression> {
        self.nested(|parser| {
            if parser.at_negation() {
                parser.advance();
                let offset = parser.token.offset;
                let negated = parser.term()?;
                parser.require_condition(&negated, offset)?;
                return Ok(Expression::Not(Box::new(negated)));
            }
            if parser.take_sign("(") {
                let inner = parser.condition()?;
                return match parser.take_sign(")") {
                    true => Ok(inner),
                    false => Err(parser.error("Unmatched parenthesis, expected ')'")),
                };
            }
            parser.comparison()
        })
    }

    /// Whether `not` comes next as a negation and not as the name of a field or method.
    fn at_negation(&self) -> bool {
        if !self.token.is_word("not") {
            return false;
        }
        let next = self.peek_second();
        let is_operator = ["in", "between", "all"].iter().any(|word| next.is_word(word))
            || comparison_of(&next).is_some();
        // `not in (…)` is a field named "not"; `not in = 1` negates a field named "in".
        !is_operator || comparison_of(&token_at(self.text, next.end())).is_some()
    }

    fn comparison(&mut self) -> Parsed<Expression> {
        let start = self.token;
        let Some(left) = self.operand()? else {
            return Err(self.error(format!("Unable to parse {} clause", self.clause)));
        };
        if !self.at_operator() {
            return Ok(left);
        }
        let left = Box::new(self.compared_side(left, &start)?);
        if let Some(comparison) = comparison_of(&self.token) {
            self.advance();
            let Some(right) = self.value()? else {
                return Err(self.error(format!("Unable to parse {} clause", self.clause)));
            };
            return Ok(Expression::Compare { left, comparison, right: Box::new(right) });
        }
        if self.take_word("between") {
            return self.between(left);
        }
        let all = self.take_word("all");
        self.advance();
        Ok(Expression::In { value: left, list: self.in_list()?, all })
    }

    fn at_operator(&self) -> bool {
        comparison_of(&self.token).is_some()
            || self.token.is_word("in")
            || self.token.is_word("between")
            || (self.token.is_word("all") && self.peek_second().is_word("in"))
    }

    /// The left side of an operator: a quoted text there names a field, other literals are refused.
    fn compared_side(&self, left: Expression, start: &Token<'_>) -> Parsed<Expression> {
        match left {
            Expression::Literal(Literal::String(name)) => Ok(Expression::Field(FieldPath {
                steps: vec![PathStep::Name { name, quoted: true }],
                offset: Self::offset_of(start),
            })),
            Expression::Literal(_) | Expression::TimeSeries(_) => {
                let expected = format!("Unable to parse {} clause", self.clause);
                Err(self.error_at(start.offset, expected))
            }
            other => Ok(other),
        }
    }

    fn between(&mut self, value: Box<Expression>) -> Parsed<Expression> {
        let Some(low) = self.value_without_call()? else {
            return Err(self.error("parsing Between, expected value (1st)"));
        };
        if !self.take_word("and") {
            return Err(self.error("parsing Between, expected AND"));
        }
        let Some(high) = self.value_without_call()? else {
            return Err(self.error("parsing Between, expected value (2nd)"));
        };
        Ok(Expression::Between { value, low: Box::new(low), high: Box::new(high) })
    }

    fn in_list(&mut self) -> Parsed<Vec<Expression>> {
        if !self.take_sign("(") {
            return Err(self.error("parsing In, expected '('"));
        }
        let mut list = Vec::new();
        if self.take_sign(")") {
            return Ok(list);
        }
        loop {
            let Some(value) = self.value_without_call()? else {
                return Err(self.error("parsing In, expected a value"));
            };
            list.push(value);
            if self.take_sign(")") {
                return Ok(list);
            }
            if !self.take_sign(",") {
                return Err(self.error("parsing In expression, expected ','"));
            }
        }
    }

    /// As [`Parser::value`], but without methods, which are not allowed among several values.
    fn value_without_call(&mut self) -> Parsed<Option<Expression>> {
        match self.at_name() && self.peek_second().is_sign("(") {
            true => Ok(None),
            false => self.value(),
        }
    }

    /// The right side of an operator: a literal, a parameter, a method or a field.
    pub(super) fn value(&mut self) -> Parsed<Option<Expression>> {
        if let Some(literal) = self.literal()? {
            return Ok(Some(Expression::Literal(literal)));
        }
        match self.at_name() {
            true => self.path_or_method().map(Some),
            false => Ok(None),
        }
    }

    /// As [`Parser::value`], but a quoted text may start a path. `None` when neither comes next.
    pub(super) fn operand(&mut self) -> Parsed<Option<Expression>> {
        if self.token.kind == TokenKind::Quoted {
            let next = self.peek_second();
            if next.is_sign(".") || next.is_sign("[") {
                return self.path().map(Expression::Field).map(Some);
            }
        }
        self.value()
    }

    /// A literal or a parameter, when one comes next.
    pub(super) fn literal(&mut self) -> Parsed<Option<Literal>> {
        let token = self.token;
        let literal = match token.kind {
            TokenKind::Quoted => Literal::String(self.unquote(&token)?),
            TokenKind::Number => Literal::Number(Number { text: token.text.replace('_', "") }),
            TokenKind::Parameter if token.text.len() == 1 => {
                let after = token_at(self.text, token.end());
                return Err(self.error_at(after.offset, "Expected parameter name"));
            }
            TokenKind::Parameter => Literal::Parameter(token.text[1..].to_owned()),
            TokenKind::Word => match self.literal_word(&token) {
                Some(literal) => literal,
                None => return Ok(None),
            },
            TokenKind::End | TokenKind::Sign | TokenKind::Broken => return Ok(None),
        };
        self.advance();
        Ok(Some(literal))
    }

    /// `true`, `false` and `null`, unless they start a path or a call.
    fn literal_word(&self, token: &Token<'_>) -> Option<Literal> {
        let literal = match token.text.to_ascii_lowercase().as_str() {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "null" => Literal::Null,
            _ => return None,
        };
        let next = self.peek_second();
        let starts_name = next.is_sign(".") || next.is_sign("[") || next.is_sign("(");
        (!starts_name).then_some(literal)
    }

    pub(super) fn path_or_method(&mut self) -> Parsed<Expression> {
        let start = self.token;
        let path = self.path()?;
        let plain =
            path.steps.iter().all(|step| matches!(step, PathStep::Name { quoted: false, .. }));
        if !plain || !self.token.is_sign("(") {
            return Ok(Expression::Field(path));
        }
        let name = path.text();
        let arguments = self.nested(|parser| parser.arguments(&name))?;
        let offset = Self::offset_of(&start);
        Ok(Expression::Method(MethodCall { name, arguments, alias: None, offset }))
    }

    fn arguments(&mut self, method: &str) -> Parsed<Vec<Expression>> {
        self.advance();
        if method.eq_ignore_ascii_case("timeseries") && self.token.is_word("from") {
            let query = self.time_series()?;
            if !self.take_sign(")") {
                let expected =
                    "Failed to find closing parentheses ) for time series select function";
                return Err(self.error(expected));
            }
            return Ok(vec![Expression::TimeSeries(Box::new(query))]);
        }
        let mut arguments = Vec::new();
        if self.take_sign(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.argument()?);
            if self.take_sign(")") {
                return Ok(arguments);
            }
            if !self.take_sign(",") {
                return Err(self.error(format!("parsing method {method}, expected ',' or ')'")));
            }
        }
    }

    fn argument(&mut self) -> Parsed<Expression> {
        let starts = self.at_name()
            || self.token.is_sign("(")
            || matches!(self.token.kind, TokenKind::Number | TokenKind::Parameter);
        if !starts {
            return Err(self.error("parsing method, expected an argument"));
        }
        let mut argument = self.expression()?;
        if let Expression::Method(call) = &mut argument {
            call.alias = self.alias()?;
        }
        Ok(argument)
    }

    /// A path; the caller has seen that a name comes next.
    pub(super) fn path(&mut self) -> Parsed<FieldPath> {
        let first = self.advance();
        let mut path =
            FieldPath { steps: vec![self.name_step(&first)?], offset: Self::offset_of(&first) };
        loop {
            if self.token.is_sign(".") {
                let dot = self.token;
                let step = path_step_at(self.text, dot.end());
                if !matches!(step.kind, TokenKind::Word | TokenKind::Quoted) {
                    let expected = format!("Unable to parse {} clause", self.clause);
                    return Err(self.error_at(step.offset, expected));
                }
                path.steps.push(self.name_step(&step)?);
                self.token = token_at(self.text, step.end());
            } else if self.token.is_sign("[") {
                self.advance();
                let step = self.element_step();
                self.expect_closing_square(&path.text())?;
                path.steps.push(step);
            } else {
                return Ok(path);
            }
        }
    }

    fn name_step(&self, token: &Token<'_>) -> Parsed<PathStep> {
        match token.kind {
            TokenKind::Quoted => Ok(PathStep::Name { name: self.unquote(token)?, quoted: true }),
            _ => Ok(PathStep::Name { name: token.text.to_owned(), quoted: false }),
        }
    }

    /// The text between square brackets: nothing or an index.
    fn element_step(&mut self) -> PathStep {
        match self.token.text.parse() {
            Ok(index) => {
                self.advance();
                PathStep::Index(index)
            }
            Err(_) => PathStep::Each,
        }
    }

    /// Refuses a lone field or value where a condition is required. `offset` is its start.
    fn require_condition(&self, expression: &Expression, offset: usize) -> Parsed<()> {
        match expression {
            Expression::Field(path) => Err(self.missing_operator(&path.text())),
            Expression::Literal(Literal::Bool(_)) => Ok(()),
            Expression::Literal(Literal::String(name)) => Err(self.missing_operator(name)),
            Expression::Literal(_) | Expression::TimeSeries(_) => {
                Err(self.error_at(offset, format!("Unable to parse {} clause", self.clause)))
            }
            Expression::And(_)
            | Expression::Or(_)
            | Expression::Not(_)
            | Expression::Compare { .. }
            | Expression::Between { .. }
            | Expression::In { .. }
            | Expression::Method(_) => Ok(()),
        }
    }

    fn missing_operator(&self, field: &str) -> ParseError {
        let found = match self.token.text.chars().next() {
            Some(first) => format!("'{first}'"),
            None => "nothing".to_owned(),
        };
        let message = format!(
            "Expected operator after '{field}' field, but found {found}. \
             Valid operators are: {VALID_OPERATORS}"
        );
        let suggestion = match self.token.kind {
            TokenKind::Word => nearest(self.token.text, &OPERATORS),
            _ => None,
        };
        ParseError { suggestion, ..self.invalid_at(self.token.offset, message) }
    }
}

fn comparison_of(token: &Token<'_>) -> Option<Comparison> {
    if token.kind != TokenKind::Sign {
        return None;
    }
    match token.text {
        "=" | "==" => Some(Comparison::Equal),
        "!=" | "<>" => Some(Comparison::NotEqual),
        "<" => Some(Comparison::Less),
        "<=" => Some(Comparison::LessOrEqual),
        ">" => Some(Comparison::Greater),
        ">=" => Some(Comparison::GreaterOrEqual),
        _ => None,
    }
}
