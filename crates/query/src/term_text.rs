//! Terms as answers show them.

use search::TermValue;

/// How a null among terms is called.
const NULL_TERM: &str = "NULL_VALUE";
/// How an empty text among terms is called.
const EMPTY_TERM: &str = "EMPTY_STRING";

/// The text that stands for a term; `None` for a number, which always stands beside its text.
pub fn term_text(term: TermValue) -> Option<String> {
    match term {
        TermValue::Null => Some(NULL_TERM.to_owned()),
        TermValue::Text(text) if text.is_empty() => Some(EMPTY_TERM.to_owned()),
        TermValue::Text(text) => Some(text),
        TermValue::Long(_) | TermValue::Double(_) => None,
    }
}
