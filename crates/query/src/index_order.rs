//! The order of a query that runs on an index.

use rql::{Expression, Literal, MethodCall, OrderByItem, Ordering};
use search::{SortBy, SortKey};
use xxhash_rust::xxh3::xxh3_64;

use crate::condition::is_id;
use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::searched_fields::{MatchMode, SearchedFields};

impl<'a> QueryContext<'a> {
    /// The sort keys, the primary one first. `random()` without a seed takes `seed`. Without an
    /// explicit order, `moreLikeThis()`, a boosted condition or a boosted entry implies order by
    /// score.
    pub(crate) fn index_order(
        &self,
        fields: &dyn SearchedFields,
        seed: u64,
    ) -> Result<Vec<SortKey>, QueryError> {
        if self.query.order_by.is_empty() && self.compares_documents() {
            return Ok(vec![SortKey { by: SortBy::Score, descending: false }]);
        }
        let key = |item: &'a OrderByItem| {
            let by = self.sort_by(fields, item, seed)?;
            Ok(SortKey { by, descending: item.descending })
        };
        let is_boosted = || {
            let condition = self.query.condition.as_ref();
            condition.is_some_and(|condition| fields.has_boosts() || boosts(condition))
        };
        if self.query.order_by.is_empty() && is_boosted() {
            return Ok(vec![SortKey { by: SortBy::Score, descending: false }]);
        }
        self.query.order_by.iter().map(key).collect()
    }

    fn sort_by(
        &self,
        fields: &dyn SearchedFields,
        item: &'a OrderByItem,
        seed: u64,
    ) -> Result<SortBy, QueryError> {
        let name = match &item.key {
            Expression::Field(path) => self.searched_field(fields, path, MatchMode::Default)?.name,
            id if is_id(id) => self.id_field(fields)?.name,
            Expression::Method(call) if call.is("spatial.distance") => {
                return self.distance_order(fields, call);
            }
            Expression::Method(call) => match self.aggregate_field(call)? {
                Some(path) => self.searched_entry_field(fields, path, MatchMode::Default)?.name,
                None => return self.sort_by_method(call, seed),
            },
            other => return Err(self.invalid(format!("Unable to sort by '{other}'"))),
        };
        Ok(match item.ordering {
            None | Some(Ordering::String) => SortBy::Text(name),
            Some(Ordering::Long) => SortBy::Long(name),
            Some(Ordering::Double) => SortBy::Double(name),
            Some(Ordering::AlphaNumeric) => SortBy::AlphaNumeric(name),
        })
    }

    fn sort_by_method(&self, call: &'a MethodCall, seed: u64) -> Result<SortBy, QueryError> {
        match (call.name.to_ascii_lowercase().as_str(), call.arguments.as_slice()) {
            ("score", []) => Ok(SortBy::Score),
            ("random", []) => Ok(SortBy::Random(seed)),
            ("random", [Expression::Literal(literal)]) => {
                let seed = match literal {
                    Literal::String(text) => text.clone(),
                    other => other.to_string(),
                };
                Ok(SortBy::Random(xxh3_64(seed.as_bytes())))
            }
            // Sorters cannot be deployed here.
            ("custom", [_, Expression::Literal(Literal::String(name))]) => {
                let message = format!("There is no sorter with '{name}' name.");
                Err(QueryError::MissingSorter { message })
            }
            ("custom", arguments) => {
                let count = arguments.len();
                let message = format!(
                    "Invalid ORDER BY 'custom()' call, expected two arguments, got {count}"
                );
                Err(self.invalid(message))
            }
            ("count" | "sum", _) => {
                Err(self.not_yet(format!("'order by {}()'", call.name), Some(call.offset)))
            }
            _ => Err(self.invalid(format!("Invalid ORDER BY method call {}", call.name))),
        }
    }
}

/// Whether a condition contains `boost()`. The parser's nesting limit bounds the recursion.
fn boosts(condition: &Expression) -> bool {
    match condition {
        Expression::And(parts) | Expression::Or(parts) => parts.iter().any(boosts),
        Expression::Not(inner) => boosts(inner),
        Expression::Method(call) => {
            call.is("boost")
                || ((call.is("exact") || call.is("intersect")) && call.arguments.iter().any(boosts))
        }
        _ => false,
    }
}
