//! Previewing a query, without a subscription and without side effects.

use cluster_state::DatabaseValues;
use model::Etag;
use query::{Includes, LogQuery, QueryError, Tried};
use script::ScriptPool;
use storage::Transaction;

use crate::batch_reader::{ReadError, changes, exception_text, write_documents};

/// The number of changes that are read; the results end there.
const CHANGES_MAX: usize = 100_000;
/// The results end with the row that exceeds this size; all of them are in memory.
const BYTES_MAX: usize = 4 << 20;

/// Appends `{"Results":[…],"Includes":{…}}` with the results of `query` for the first changes after
/// an etag.
///
/// # Errors
/// When the documents cannot be read, or the query cannot be executed.
pub fn preview(
    (tx, values): (&impl Transaction, Option<&DatabaseValues>),
    query: &LogQuery,
    after: Etag,
    rows_max: usize,
    pool: &ScriptPool,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    let scripts = query.scripts(pool).map_err(ReadError::Query)?;
    let bound = scripts.as_ref().map(|scripts| query.bind(scripts));
    let bound = bound.transpose().map_err(ReadError::Query)?;
    let mut included = Includes::default();
    let mut rows = 0;
    out.extend_from_slice(b"{\"Results\":[");
    for change in changes(tx, query, after)?.take(CHANGES_MAX) {
        if rows == rows_max || BYTES_MAX < out.len() {
            break;
        }
        let (change, start) = (change?, out.len());
        if 0 < rows {
            out.push(b',');
        }
        match change.try_query(tx, values, query, bound.as_ref(), &mut included, out) {
            Ok(Tried::Shown) => rows += 1,
            Ok(Tried::LeftOut) => out.truncate(start),
            Err(QueryError::Documents(error)) => return Err(error.into()),
            Err(error) => {
                out.truncate(start);
                if 0 < rows {
                    out.push(b',');
                }
                rows += 1;
                out.extend_from_slice(b"{\"Id\":");
                blittable::write_json_string(change.id(), out);
                out.extend_from_slice(b",\"ChangeVector\":");
                blittable::write_json_string(change.change_vector(), out);
                out.extend_from_slice(b",\"Exception\":");
                blittable::write_json_string(&exception_text(&error), out);
                out.push(b'}');
            }
        }
    }
    out.extend_from_slice(b"],\"Includes\":{");
    write_documents(included.ids(), tx, out)?;
    out.extend_from_slice(b"}}");
    Ok(())
}
