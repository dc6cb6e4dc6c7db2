//! Tokens to syntax tree: recursive descent for what starts an expression, precedence climbing for
//! what follows.
//!
//! Invariant: recursion is bounded by the depth of nesting, which is counted on the way down, and by
//! the depth of the tree, which [`Expr::new`] checks.

mod expression;
mod primary;
mod query;
mod type_name;

use crate::definition_error::{DefinitionError, DefinitionErrorKind};
use crate::limits::{DEFINITION_BYTES_MAX, NESTING_DEPTH_MAX};
use crate::syntax::ast::{Expr, ExprKind};
use crate::syntax::lexer::{Token, TokenKind, cut, syntax_error};
use crate::syntax::span::Span;

type Parsed<T> = Result<T, DefinitionError>;

/// Parses one expression that is all of `text`, except for a `;` at the end.
pub(crate) fn parse(text: &str) -> Parsed<Expr> {
    if DEFINITION_BYTES_MAX < text.len() {
        let message = format!("a definition has at most {DEFINITION_BYTES_MAX} bytes");
        let span = Span::new(0, 0);
        return Err(DefinitionError::new(DefinitionErrorKind::TooLarge, message, span, text));
    }
    let mut parser = Parser::over(text, 0, text.len(), 0)?;
    let expression = parser.expression()?;
    while parser.take_sign(";") {}
    parser.expect_end()?;
    Ok(expression)
}

/// The position in a list of tokens.
pub(crate) struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    /// Expressions that are being parsed around this place.
    depth: u16,
}

impl<'t> Parser<'t> {
    fn over(text: &'t str, start: usize, end: usize, depth: u16) -> Parsed<Parser<'t>> {
        Ok(Parser { text, tokens: cut(text, start, end)?, at: 0, depth })
    }

    fn token(&self) -> &Token {
        self.ahead(0)
    }

    /// The token `count` places ahead; the end stays the end.
    fn ahead(&self, count: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + count).min(last)]
    }

    fn advance(&mut self) -> Token {
        let token = self.token().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// The place before the current token's predecessor ended, for spans that end here.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.token().is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.token().is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(&format!("'{sign}'"))) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(&format!("'{word}'"))) }
    }

    fn expect_end(&self) -> Parsed<()> {
        match self.token().kind {
            TokenKind::End => Ok(()),
            _ => Err(self.unexpected("the end of the definition")),
        }
    }

    /// A name that is no keyword of expressions.
    fn name(&mut self) -> Parsed<String> {
        match &self.token().kind {
            TokenKind::Word { name, escaped } if *escaped || !is_reserved(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn unexpected(&self, expected: &str) -> DefinitionError {
        let span = self.token().span;
        let message = match span.of(self.text) {
            "" => format!("{expected} is expected, but the text ends"),
            found => {
                let found = crate::definition_error::excerpt(found);
                format!("{expected} is expected, not '{found}'")
            }
        };
        syntax_error(self.text, span, message)
    }

    fn not_supported(&self, span: Span, what: &str) -> DefinitionError {
        let message = format!("{what} is not supported in an index");
        DefinitionError::new(DefinitionErrorKind::NotSupported, message, span, self.text)
    }

    fn too_deep(&self) -> DefinitionError {
        let message = "expressions are nested too deeply";
        let span = self.token().span;
        DefinitionError::new(DefinitionErrorKind::TooLarge, message, span, self.text)
    }

    fn make(&self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        Expr::new(kind, span).map_err(|_| self.too_deep())
    }

    /// Runs `parse` one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if NESTING_DEPTH_MAX <= self.depth {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Tries `parse`; when it fails, or returns `None`, the position is restored.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<Option<T>>) -> Option<T> {
        let start = self.at;
        let parsed = parse(self).ok().flatten();
        if parsed.is_none() {
            self.at = start;
        }
        parsed
    }

    /// `item, item, …` up to `close`, which is consumed; a comma may precede it.
    fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        loop {
            if self.take_sign(close) {
                return Ok(items);
            }
            items.push(item(self)?);
            if !self.take_sign(",") {
                self.expect_sign(close)?;
                return Ok(items);
            }
        }
    }
}

/// Words that are never a name in an expression. The words of queries may be names.
fn is_reserved(word: &str) -> bool {
    const RESERVED: [&str; 14] = [
        "new",
        "null",
        "true",
        "false",
        "this",
        "is",
        "as",
        "typeof",
        "default",
        "checked",
        "unchecked",
        "in",
        "switch",
        "throw",
    ];
    RESERVED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (DefinitionErrorKind, u32) {
        let error = parse(text).unwrap_err();
        (error.kind, error.position.column)
    }

    #[test]
    fn what_csharp_has_and_an_index_needs_is_parsed() {
        let texts = [
            "from d in docs.Docs select new { d.Name, Age = d.Age, }",
            "from d in docs[\"Docs\"] let x = d.A where x > 1 && !d.B select new { x };",
            "docs.Docs.Select(d => new { X = (double?)d.A ?? (d.B + 1) * -d.C })",
            "from d in docs.D select new { X = ((double ? ) d.A), Y = (System.DateTime) d.B }",
            "docs.D.Select(d => new { X = d?.A?[0].B ?? \"n\", Y = d.A > 1 ? d.A < 2 ? 1 : 2 : 3 })",
            "docs.D.SelectMany(d => d.Lines, (d, l) => new { d = d, l })",
            "docs.D.Select((d, i) => new { X = new[] { 1, 2 }, Y = new string[0], Z = new object[] { } })",
            "docs.D.Select(d => new { X = new List<string> { \"a\" }, Y = new Dictionary<string, List<int>> { { \"a\", null } } })",
            "from d in docs group d by d.X into g let y = g.Key where y select new { y }",
            "from d in docs join e in docs.E on d.A equals e.B into es select new { d }",
            "from d in docs select new { X = $\"{d.A,5:F2}-{(d.B ? \"a\" : 'b')}\" }",
            "from d in docs select new { X = d.A is string, Y = d.B as DateTime?, Z = d.C is not null }",
            "from d in docs select new { X = typeof(string).Name, Y = nameof(d.A), Z = default(int) }",
            "from d in docs select new { X = checked(d.A + 1), Y = (d.A, d.B), Z = (string)null }",
            "from d in docs select new { X = d.A.Value<DateTime>(\"b\"), Y = Enumerable.ToArray<string>(d.B) }",
            "from d in docs select new { X = a < b, Y = (c > (d)), Z = a >> 2 << 3 }",
            "docs.D.Select(d => { return new { d.A }; })",
            "docs.D.Select(delegate)",
            "from d in docs select new { X = d.A is int ? 1 : 2, Y = d.A as int? ?? 5, Z = d.B is DateTime ? (d.B) : -1 }",
            "from @from in docs select new { @from.where, value = @from.@new }",
        ];
        for text in texts {
            assert!(parse(text).is_ok(), "{text}\n{}", parse(text).unwrap_err());
        }
    }

    #[test]
    fn other_texts_are_refused_where_they_break() {
        use DefinitionErrorKind::{NotSupported, Syntax};
        let cases = [
            ("", Syntax, 1),
            ("from d in docs select new { Name = d.Name Age = 1 }", Syntax, 43),
            ("from d in docs select", Syntax, 22),
            ("from in docs", Syntax, 6),
            ("from d in docs where", Syntax, 21),
            ("docs.D.Select(d => new { d.A + 1 })", Syntax, 26),
            ("docs.D.Select(d => )", Syntax, 20),
            ("docs.D)", Syntax, 7),
            ("docs.D.Select(d => d = 1)", NotSupported, 22),
            ("docs.D.Select(d => d.A++)", NotSupported, 23),
            ("docs.D.Select(d => d switch { 1 => 2 })", NotSupported, 22),
            ("docs.D.Select(d => throw d)", NotSupported, 20),
            ("docs.D.Select(x: 1)", NotSupported, 15),
        ];
        for (text, kind, column) in cases {
            assert_eq!(refused(text), (kind, column), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_in_every_direction() {
        let many = 100_000;
        let deep = [
            "(".repeat(many),
            format!("a{}", "+a".repeat(many)),
            format!("a{}", ".b".repeat(many)),
            format!("a{}", "?.b".repeat(many)),
            format!("a{}", "??a".repeat(many)),
            "!".repeat(many),
            "x=>".repeat(many / 2),
            "(int)".repeat(many / 3),
            format!("new A<{}", "B<".repeat(many)),
            "new{a=".repeat(many / 3),
            "from a in b select a into c ".repeat(many / 20),
            "from a in ".repeat(many / 20),
            "$\"{".repeat(many / 10),
        ];
        for text in deep {
            assert!(parse(&text).is_err());
        }
    }
}
