//! Names of types and lists of type arguments.

use crate::limits::TYPE_DEPTH_MAX;
use crate::syntax::ast::TypeName;
use crate::syntax::parser::{Parsed, Parser};

impl Parser<'_> {
    /// `A.B<C, D>?[]`
    pub(super) fn type_name(&mut self) -> Parsed<TypeName> {
        self.type_name_within(0)
    }

    fn type_name_within(&mut self, depth: u32) -> Parsed<TypeName> {
        if TYPE_DEPTH_MAX <= depth {
            return Err(self.too_deep());
        }
        let start = self.token().span;
        let mut name = self.name()?;
        let mut arguments = Vec::new();
        loop {
            if self.token().is_sign("<") && arguments.is_empty() {
                self.advance();
                arguments = self.type_list(depth)?;
            } else if self.token().is_sign(".") || self.token().is_sign("::") {
                self.advance();
                name = format!("{name}.{}", self.name()?);
            } else {
                break;
            }
        }
        let nullable = self.take_sign("?");
        let mut is_array = false;
        while self.token().is_sign("[") && self.ahead(1).is_sign("]") {
            self.advance();
            self.advance();
            is_array = true;
        }
        Ok(TypeName { name, arguments, nullable, is_array, span: start.to(self.last_span()) })
    }

    /// The types after `<`, which is already consumed, and the `>`.
    fn type_list(&mut self, depth: u32) -> Parsed<Vec<TypeName>> {
        let mut types = vec![self.type_name_within(depth + 1)?];
        while self.take_sign(",") {
            types.push(self.type_name_within(depth + 1)?);
        }
        self.expect_sign(">")?;
        Ok(types)
    }

    /// `<A, B>` after a name, when what follows can only follow type arguments.
    pub(super) fn type_arguments(&mut self) -> Vec<TypeName> {
        if !self.token().is_sign("<") {
            return Vec::new();
        }
        let arguments = self.attempt(|parser| {
            parser.advance();
            let types = parser.type_list(0)?;
            let follows = ["(", ")", "]", "}", ":", ";", ",", ".", "?", "==", "!="];
            let ends = follows.iter().any(|sign| parser.token().is_sign(sign));
            Ok(ends.then_some(types))
        });
        arguments.unwrap_or_default()
    }
}
