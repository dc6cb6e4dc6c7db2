//! Notes about rows, at the end of a page: `Highlightings` and `Explanations`.

use blittable::write_json_string;
use query::Notes;

use crate::handlers::query_pages::write_texts;

/// Appends the notes as the last property of an object that is closed already.
pub(crate) fn write(notes: &Notes, out: &mut Vec<u8>) {
    if let Some(fields) = &notes.highlights {
        begin("Highlightings", out);
        let found = fields.iter().filter(|field| !field.rows.is_empty());
        let found = found.map(|field| (&field.field, &field.rows));
        write_members(found, out, |rows, out| {
            let rows = rows.iter().map(|(name, fragments)| (name, fragments));
            write_members(rows, out, |fragments, out| write_texts(fragments, out));
        });
        out.push(b'}');
    }
    if let Some(explanations) = &notes.explanations {
        begin("Explanations", out);
        let explanations = explanations.iter().map(|(name, text)| (name, text));
        write_members(explanations, out, |text, out| {
            write_texts(std::slice::from_ref(text), out);
        });
        out.push(b'}');
    }
}

/// Opens the object again, for one more property.
fn begin(name: &str, out: &mut Vec<u8>) {
    out.pop();
    out.push(b',');
    write_json_string(name, out);
    out.push(b':');
}

fn write_members<'n, V: 'n>(
    members: impl Iterator<Item = (&'n String, &'n V)>,
    out: &mut Vec<u8>,
    write_value: impl Fn(&V, &mut Vec<u8>),
) {
    out.push(b'{');
    for (number, (name, value)) in members.enumerate() {
        if 0 < number {
            out.push(b',');
        }
        write_json_string(name, out);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}
