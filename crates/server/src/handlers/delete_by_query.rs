//! `DELETE /queries`: deletes the documents that a query selects.

use engine::BulkWork;

use crate::{
    call::Call,
    handlers::bulk_operations::{begin, options_of},
    http::router::Answering,
};

/// `DELETE /queries`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let options = options_of(&call)?;
        let request = call.state.with_builder(|builder| wire::read_query(&call.body, builder))?;
        let mut query = query::parse(&request.text)?;
        // Whole documents are deleted, whatever the query returns of them.
        query.select = None;
        query.include.clear();
        begin(&call, options, query, request, BulkWork::Delete).await
    })
}
