//! The lists after `group by`, `order by`, `load`, `select` and `include`.

use super::{Parsed, Parser};
use crate::ast::{
    Expression, GroupByItem, LoadItem, OrderByItem, Ordering, Select, SelectItem, Selection,
};
use crate::keyword::ORDERINGS;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// One or more items with commas between.
    pub(super) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_sign(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn no_field(&self) -> crate::error::ParseError {
        self.error(format!("Unable to get field for {}", self.clause))
    }

    pub(super) fn group_by_items(&mut self) -> Parsed<Vec<GroupByItem>> {
        self.list(|parser| {
            let Some(key) = parser.operand()? else { return Err(parser.no_field()) };
            Ok(GroupByItem { key, alias: parser.alias()? })
        })
    }

    pub(super) fn order_by_items(&mut self) -> Parsed<Vec<OrderByItem>> {
        self.list(|parser| {
            if !parser.at_name() {
                return Err(parser.no_field());
            }
            let key = parser.path_or_method()?;
            let ordering = parser.ordering()?;
            let descending = parser.direction();
            Ok(OrderByItem { key, ordering, descending })
        })
    }

    fn ordering(&mut self) -> Parsed<Option<Ordering>> {
        if !self.take_word("as") {
            return Ok(None);
        }
        let ordering = match self.token.text.to_ascii_lowercase().as_str() {
            "string" => Ordering::String,
            "long" => Ordering::Long,
            "double" => Ordering::Double,
            "alphanumeric" => Ordering::AlphaNumeric,
            _ => {
                let expected = "Expected string, long, double or alphaNumeric after AS";
                return Err(self.error_with_suggestion(expected, &ORDERINGS));
            }
        };
        self.advance();
        Ok(Some(ordering))
    }

    /// Whether the order is turned round.
    fn direction(&mut self) -> bool {
        if self.take_word("desc") || self.take_word("descending") {
            return true;
        }
        let _ = self.take_word("asc") || self.take_word("ascending");
        false
    }

    pub(super) fn load_items(&mut self) -> Parsed<Vec<LoadItem>> {
        self.list(|parser| {
            if !parser.at_name() {
                return Err(parser.no_field());
            }
            let offset = parser.token.offset;
            let path = parser.path()?;
            let named = match parser.token.is_word("as") {
                true => parser.alias()?,
                false => parser.bare_alias(),
            };
            let Some(alias) = named else {
                let message = format!("LOAD clause requires an alias but got: {}", path.text());
                return Err(parser.invalid_at(offset, message));
            };
            let many = parser.take_sign("[") && parser.expect_closing_square(&alias)?;
            Ok(LoadItem { path, alias, many })
        })
    }

    /// An alias without `as`.
    fn bare_alias(&mut self) -> Option<String> {
        let is_alias =
            self.token.kind == TokenKind::Word && self.at_name() && !self.token.is_word("filter");
        is_alias.then(|| self.advance().text.to_owned())
    }

    pub(super) fn expect_closing_square(&mut self, before: &str) -> Parsed<bool> {
        match self.take_sign("]") {
            true => Ok(true),
            false => {
                let message = format!("Expected to find closing ']' after '{before}['.");
                Err(self.invalid_at(self.token.offset, message))
            }
        }
    }

    pub(super) fn select(&mut self) -> Parsed<Select> {
        let distinct = self.take_word("distinct");
        let selection = if self.token.is_sign("{") {
            Selection::Script(self.braced("Unable to get field for SELECT")?)
        } else if self.token.text == "*" {
            self.advance();
            Selection::Everything
        } else {
            Selection::Items(self.list(Self::select_item)?)
        };
        Ok(Select { distinct, selection })
    }

    pub(super) fn select_item(&mut self) -> Parsed<SelectItem> {
        let Some(value) = self.operand()? else { return Err(self.no_field()) };
        Ok(SelectItem { value, alias: self.alias()? })
    }

    pub(super) fn include_items(&mut self) -> Parsed<Vec<Expression>> {
        self.list(|parser| match parser.operand()? {
            Some(item) => Ok(item),
            None => Err(parser.error("Unable to understand include clause expression")),
        })
    }
}
