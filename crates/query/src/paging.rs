//! Which rows of a result are requested, and which totals are reported.

use rql::Query;

use crate::error::QueryError;
use crate::parameters::QueryContext;

/// The page of a request, besides what its query text says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// How many rows to skip.
    pub start: i64,
    /// Maximum number of rows to return; `None` for all.
    pub page_size: Option<i64>,
}

/// The rows that a query returns, after its own `limit` and `offset` are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWindow {
    /// How many rows to skip: the greater of the request's and the text's.
    pub start: u64,
    /// Maximum number of rows to return: the smaller of the request's and the text's.
    pub page_size: u64,
    limit: Option<u64>,
    offset: u64,
    is_limited_by_text: bool,
}

impl PageWindow {
    pub(crate) fn of(context: &QueryContext<'_>, paging: Paging) -> Result<PageWindow, QueryError> {
        let Query { limit, offset, .. } = context.query;
        let count = |value: i64, name: &str| {
            u64::try_from(value).map_err(|_| {
                context.invalid(format!("{name} cannot be negative, but was {value}."))
            })
        };
        let start = count(paging.start, "Start")?;
        let page_size = paging.page_size.map(|size| count(size, "PageSize")).transpose()?;
        let is_limited_by_text = limit.is_some() || offset.is_some();
        let limit = match limit {
            Some(limit) => context.count(limit, "Limit (PageSize)")?,
            None => None,
        };
        let offset = match offset {
            Some(offset) => context.count(offset, "Offset (Start)")?.unwrap_or(0),
            None => 0,
        };
        Ok(PageWindow {
            start: start.max(offset),
            page_size: page_size.unwrap_or(u64::MAX).min(limit.unwrap_or(u64::MAX)),
            limit,
            offset,
            is_limited_by_text,
        })
    }

    /// How many rows the text's own `limit` and `offset` leave of `total` rows, as clients expect
    /// it: absent without either, negative past the end, and the limit itself (or the unknown
    /// total) when the total is not counted.
    pub fn capped_max_results(&self, total: Option<u64>) -> Option<i64> {
        if !self.is_limited_by_text {
            return None;
        }
        let limit = self.limit.map(as_long);
        match total {
            None => Some(limit.unwrap_or(UNKNOWN_TOTAL)),
            Some(total) => {
                let left = as_long(total).saturating_sub(as_long(self.offset));
                Some(limit.map_or(left, |limit| limit.min(left)))
            }
        }
    }
}

/// Reported in place of a total that is not counted.
pub(crate) const UNKNOWN_TOTAL: i64 = -1;

pub(crate) fn as_long(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, start: i64, page_size: Option<i64>) -> Result<PageWindow, String> {
        let query = rql::parse(text).unwrap();
        let context = QueryContext::new(&query, None);
        PageWindow::of(&context, Paging { start, page_size }).map_err(|error| error.to_string())
    }

    #[test]
    fn text_and_request_share_the_paging() {
        for (text, start, page_size, expected, capped) in [
            ("from C", 0, None, (0, u64::MAX), None),
            ("from C", 18, Some(5), (18, 5), None),
            ("from C limit 3", 0, None, (0, 3), Some(3)),
            ("from C limit 2, 3", 0, None, (2, 3), Some(3)),
            ("from C limit 10", 0, Some(3), (0, 3), Some(10)),
            ("from C limit 5 offset 2", 3, Some(10), (3, 5), Some(5)),
            ("from C offset 4", 0, None, (4, u64::MAX), Some(16)),
            ("from C offset 5", 3, None, (5, u64::MAX), Some(15)),
            ("from C limit 3 offset 19", 0, None, (19, 3), Some(1)),
            ("from C offset 23", 0, None, (23, u64::MAX), Some(-3)),
            ("from C limit 0", 0, None, (0, 0), Some(0)),
            ("from C limit null", 0, None, (0, u64::MAX), Some(20)),
        ] {
            let window = window(text, start, page_size).unwrap();
            assert_eq!((window.start, window.page_size), expected, "{text}");
            assert_eq!(window.capped_max_results(Some(20)), capped, "{text}");
        }
    }

    #[test]
    fn an_uncounted_total_caps_at_the_limit() {
        for (text, expected) in
            [("from C", None), ("from C limit 5 offset 1", Some(5)), ("from C offset 1", Some(-1))]
        {
            let window = window(text, 0, None).unwrap();
            assert_eq!(window.capped_max_results(None), expected, "{text}");
        }
    }

    #[test]
    fn paging_values_are_checked() {
        let tail = |text: &str| format!("\nQuery: {text}");
        for (text, start, page_size, message) in [
            ("from C", -1, None, "Start cannot be negative, but was -1."),
            ("from C", 0, Some(-2), "PageSize cannot be negative, but was -2."),
            ("from C limit -1", 0, None, "Limit (PageSize) cannot be negative, but was -1."),
            ("from C offset -1", 0, None, "Offset (Start) cannot be negative, but was -1."),
        ] {
            let refused = window(text, start, page_size).unwrap_err();
            assert_eq!(refused, format!("{message}{}", tail(text)), "{text}");
        }
        let refused = window("from C limit 1.5", 0, None).unwrap_err();
        assert_eq!(refused, "Value should be a 'Long' but was 'Double'.");
        let refused = window("from C limit 'x'", 0, None).unwrap_err();
        assert_eq!(refused, "Value should be a 'Long' but was 'String'.");
    }
}
