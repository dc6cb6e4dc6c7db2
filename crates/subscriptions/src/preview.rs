//! Previewing a query, without a subscription and without side effects.

use std::rc::Rc;

use cluster_state::DatabaseValues;
use model::Etag;
use query::{Includes, LogQuery, LogSources, QueryError, Tried};
use script::ScriptPool;
use storage::{CountedOutput, Transaction};

use crate::batch_reader::{ReadError, changes, exception_text, write_documents};

/// The number of changes that are read; the results end there.
const CHANGES_MAX: usize = 100_000;
/// The results end with the row that exceeds this size; all of them are in memory.
const BYTES_MAX: usize = 4 << 20;
/// The buffer of a row keeps this much.
const ROW_BYTES_KEPT: usize = 64 << 10;

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
    output: &mut CountedOutput,
) -> Result<(), ReadError> {
    let memory = Rc::clone(output.memory());
    let sources = LogSources { documents: tx, values, memory: &memory };
    let scripts = query.scripts(pool).map_err(ReadError::Query)?;
    let bound = scripts.as_ref().map(|scripts| query.bind(scripts));
    let bound = bound.transpose().map_err(ReadError::Query)?;
    let mut included = Includes::default();
    let (mut rows, mut row) = (0, Vec::new());
    output.bytes.extend_from_slice(b"{\"Results\":[");
    for change in changes(tx, query, after)?.take(CHANGES_MAX) {
        if rows == rows_max || BYTES_MAX < output.bytes.len() {
            break;
        }
        let change = change?;
        row.clear();
        match change.try_query(sources, query, bound.as_ref(), &mut included, &mut row) {
            Ok(Tried::Shown) => {}
            Ok(Tried::LeftOut) => continue,
            Err(QueryError::Documents(error)) => return Err(error.into()),
            Err(error @ QueryError::Memory(_)) => return Err(ReadError::Query(error)),
            Err(error) => {
                row.clear();
                row.extend_from_slice(b"{\"Id\":");
                blittable::write_json_string(change.id(), &mut row);
                row.extend_from_slice(b",\"ChangeVector\":");
                blittable::write_json_string(change.change_vector(), &mut row);
                row.extend_from_slice(b",\"Exception\":");
                blittable::write_json_string(&exception_text(&error), &mut row);
                row.push(b'}');
            }
        }
        output.append(1 + row.len(), |out| {
            out.extend_from_slice(if 0 < rows { b"," } else { b"" });
            out.extend_from_slice(&row);
            Ok::<_, ReadError>(())
        })?;
        rows += 1;
        // A large row does not leave its room to the next.
        row.shrink_to(ROW_BYTES_KEPT);
    }
    output.bytes.extend_from_slice(b"],\"Includes\":{");
    write_documents(included.ids(), tx, output)?;
    output.bytes.extend_from_slice(b"}}");
    Ok(())
}
