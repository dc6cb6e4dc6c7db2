//! Notes about rows, at the end of a page: `Highlightings` and `Explanations`.

use query::Notes;

use crate::answers::json_text::{JsonObject, write_texts};

/// Adds the notes to a page.
pub(crate) fn write(notes: &Notes, page: &mut JsonObject<'_>) {
    if let Some(fields) = &notes.highlights {
        let mut highlights = JsonObject::begin(page.name("Highlightings"));
        for field in fields.iter().filter(|field| !field.rows.is_empty()) {
            let mut rows = JsonObject::begin(highlights.key(&field.field));
            for (name, fragments) in &field.rows {
                write_texts(fragments, rows.key(name));
            }
            rows.end();
        }
        highlights.end();
    }
    if let Some(explanations) = &notes.explanations {
        let mut explained = JsonObject::begin(page.name("Explanations"));
        for (name, text) in explanations {
            write_texts([text], explained.key(name));
        }
        explained.end();
    }
}
