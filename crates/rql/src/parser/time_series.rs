//! Queries over one time series.

use super::{Parsed, Parser};
use crate::ast::{Expression, FieldPath, Literal, MethodCall};
use crate::error::ParseError;
use crate::lexer::TokenKind;
use crate::time_series::{TimeSeriesGrouping, TimeSeriesQuery, TimeSeriesRange, TimeSeriesSource};

impl Parser<'_> {
    /// A query over one series up to the bracket after it, which is not consumed.
    pub(super) fn time_series(&mut self) -> Parsed<TimeSeriesQuery> {
        let clause = self.clause;
        if !self.take_word("from") {
            return Err(self.error("Unable to parse time series query, missing FROM"));
        }
        let query = TimeSeriesQuery {
            source: self.time_series_source()?,
            range: self.time_series_range()?,
            load_alias: self.tag_alias()?,
            condition: match self.take_clause("where", "WHERE")? {
                true => Some(self.condition()?),
                false => None,
            },
            grouping: match self.take_clause("group", "GROUP BY")? {
                true => Some(self.time_series_grouping()?),
                false => None,
            },
            select: match self.take_clause("select", "SELECT")? {
                true => self.list(Self::select_item)?,
                false => Vec::new(),
            },
            scale: self.value_after("scale")?,
            offset: self.value_after("offset")?,
        };
        self.clause = clause;
        Ok(query)
    }

    fn time_series_source(&mut self) -> Parsed<TimeSeriesSource> {
        let is_path = match self.token.kind {
            TokenKind::Word => self.at_name(),
            TokenKind::Quoted => self.peek_second().is_sign("."),
            _ => false,
        };
        if is_path {
            return Ok(TimeSeriesSource::Path(self.path()?));
        }
        match self.token.kind {
            TokenKind::Quoted | TokenKind::Parameter => match self.literal()? {
                Some(literal) => Ok(TimeSeriesSource::Literal(literal)),
                None => Err(self.no_series()),
            },
            _ => Err(self.no_series()),
        }
    }

    fn no_series(&self) -> ParseError {
        self.error("Expected the name of a time series after FROM")
    }

    fn time_series_range(&mut self) -> Parsed<TimeSeriesRange> {
        let mut range = TimeSeriesRange::Everything;
        loop {
            let offset = self.token.offset;
            let next = if self.take_word("between") {
                self.time_series_between()?
            } else if self.take_word("first") {
                TimeSeriesRange::First(self.period("FIRST")?)
            } else if self.take_word("last") {
                TimeSeriesRange::Last(self.period("LAST")?)
            } else {
                return Ok(range);
            };
            if range != TimeSeriesRange::Everything {
                let message = "A time series query has one range: BETWEEN, FIRST or LAST";
                return Err(self.invalid_at(offset, message));
            }
            range = next;
        }
    }

    fn time_series_between(&mut self) -> Parsed<TimeSeriesRange> {
        let Some(from) = self.value()? else {
            return Err(self.error("parsing Between, expected value (1st)"));
        };
        if !self.take_word("and") {
            return Err(self.error("parsing Between, expected AND"));
        }
        let Some(to) = self.value()? else {
            return Err(self.error("parsing Between, expected value (2nd)"));
        };
        Ok(TimeSeriesRange::Between { from, to })
    }

    /// A duration: a quoted text, a parameter, or a number followed by its unit.
    fn period(&mut self, clause: &str) -> Parsed<Literal> {
        let expected = format!("Could not parse the argument of {clause}: expected a time period");
        let number = self.token;
        if number.kind != TokenKind::Number {
            return match self.token.kind {
                TokenKind::Quoted | TokenKind::Parameter | TokenKind::Word => {
                    self.literal()?.ok_or_else(|| self.error(expected))
                }
                _ => Err(self.error(expected)),
            };
        }
        self.advance();
        if self.token.kind != TokenKind::Word {
            return Err(self.error(expected));
        }
        let unit = self.advance();
        Ok(Literal::String(format!("{} {}", number.text, unit.text)))
    }

    /// `load Tag as name`.
    fn tag_alias(&mut self) -> Parsed<Option<String>> {
        let offset = self.token.offset;
        if !self.take_clause("load", "LOAD")? {
            return Ok(None);
        }
        let items = self.load_items()?;
        let [item] = items.as_slice() else {
            let message = "Cannot have multiple LOAD fields in time series functions";
            return Err(self.invalid_at(offset, message));
        };
        if !item.path.text().eq_ignore_ascii_case("tag") || item.many {
            let message = format!(
                "Expected to find 'Tag' after LOAD in time series function, but got '{}'. The \
                 documents of tags are all that can be loaded there; others are loaded by the \
                 query around it",
                item.path.text()
            );
            return Err(self.invalid_at(offset, message));
        }
        Ok(Some(item.alias.clone()))
    }

    fn time_series_grouping(&mut self) -> Parsed<TimeSeriesGrouping> {
        let period = self.period("GROUP BY")?;
        let key = match self.take_sign(",") {
            true => Some(self.grouping_key()?),
            false => None,
        };
        let interpolation = match self.take_word("with") {
            true => Some(self.interpolation()?),
            false => None,
        };
        Ok(TimeSeriesGrouping { period, key, interpolation })
    }

    fn grouping_key(&mut self) -> Parsed<FieldPath> {
        match self.at_name() {
            true => self.path(),
            false => Err(self.error("Unable to get field for GROUP BY")),
        }
    }

    fn interpolation(&mut self) -> Parsed<MethodCall> {
        let expected = "Unable to parse WITH clause in time series function";
        if !self.at_name() {
            return Err(self.error(expected));
        }
        match self.path_or_method()? {
            Expression::Method(call) => Ok(call),
            _ => Err(self.error(expected)),
        }
    }

    fn value_after(&mut self, keyword: &str) -> Parsed<Option<Literal>> {
        if !self.take_word(keyword) {
            return Ok(None);
        }
        let offset = self.token.offset;
        match self.literal()? {
            Some(literal) => Ok(Some(literal)),
            None => {
                let keyword = keyword.to_ascii_uppercase();
                let message = format!(
                    "Failed to parse a value expression after {keyword} in time series function"
                );
                Err(self.invalid_at(offset, message))
            }
        }
    }
}
