//! Revisions included with documents: `RevisionIncludes` of a response.

use model::date;
use query::{IncludedRevisions, RevisionIncludes};
use wire::QueryString;

use crate::{
    answers::{
        json_text::{JsonArray, JsonObject, write_revision_to},
        long_answer::Sink,
    },
    api_error::ApiError,
};

/// The revisions that the parameters of a load request. An invalid timestamp requests nothing.
pub(crate) fn of_query(query: &QueryString<'_>) -> RevisionIncludes {
    let mut wanted = RevisionIncludes::default();
    query.all("revisions").for_each(|path| wanted.add_path(path));
    for moment in query.all("revisionsBefore") {
        wanted.add_moment(moment);
    }
    wanted
}

/// Adds the revisions to a page; nothing when there are none. `false` when the sink requests to
/// stop.
pub(crate) async fn write(
    found: &IncludedRevisions<'_>,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    if found.iter().next().is_none() {
        return Ok(true);
    }
    let mut revisions = JsonArray::begin(page.name("RevisionIncludes"));
    for (moment, revision) in found.iter() {
        let mut object = JsonObject::begin(revisions.element());
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
        if !write_revision_to(sink, revision, object.name("Revision")).await? {
            return Ok(false);
        }
        object.end();
    }
    revisions.end();
    Ok(true)
}
