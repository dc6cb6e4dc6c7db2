//! Terms as responses show them.

use search::TermValue;

/// How a null is shown among terms.
const NULL_TERM: &str = "NULL_VALUE";
/// How an empty string is shown among terms.
const EMPTY_TERM: &str = "EMPTY_STRING";

/// The text of a term; `None` for a number, which always accompanies its own text.
pub fn term_text(term: TermValue) -> Option<String> {
    match term {
        TermValue::Null => Some(NULL_TERM.to_owned()),
        TermValue::Text(text) if text.is_empty() => Some(EMPTY_TERM.to_owned()),
        TermValue::Text(text) => Some(text),
        TermValue::Long(_) | TermValue::Double(_) => None,
    }
}
