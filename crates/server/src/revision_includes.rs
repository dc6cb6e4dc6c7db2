//! Revisions that are given along with documents: `RevisionIncludes` of an answer.

use model::date;
use query::{IncludedRevisions, RevisionIncludes};
use wire::QueryString;

use crate::{api_error::ApiError, handlers::revisions::write_revision, json_text::JsonObject};

/// What the parameters of a load ask for. A moment that is none asks for nothing.
pub(crate) fn of_query(query: &QueryString<'_>) -> RevisionIncludes {
    let mut wanted = RevisionIncludes::default();
    query.all("revisions").for_each(|path| wanted.add_path(path));
    for moment in query.all("revisionsBefore") {
        wanted.add_moment(moment);
    }
    wanted
}

/// Writes the revisions as the last property of the object that `out` ends with; nothing when there
/// are none.
pub(crate) fn write_behind(
    found: &IncludedRevisions<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    if found.iter().next().is_none() {
        return Ok(());
    }
    out.pop();
    out.extend_from_slice(b",\"RevisionIncludes\":[");
    for (index, (moment, revision)) in found.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut object = JsonObject::begin(out);
        match moment {
            Some(moment) => {
                object.text("Id", revision.id());
                object.text("ChangeVector", revision.change_vector());
                object.text("Before", &date::format(moment));
            }
            None => {
                object.text("ChangeVector", revision.change_vector());
                object.text("Id", revision.id());
            }
        }
        write_revision(revision, false, object.name("Revision"))?;
        object.end();
    }
    out.extend_from_slice(b"]}");
    Ok(())
}
