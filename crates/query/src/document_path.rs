//! Paths of a query as paths in documents.

use documents::{FieldPath as DocumentPath, FieldStep};
use rql::{FieldPath, PathStep};

/// The path in documents, where an array index and a member name are written alike.
pub(crate) fn document_path(path: &FieldPath) -> DocumentPath {
    let step = |step: &PathStep| match step {
        PathStep::Name { name, .. } => FieldStep::Member(name.clone()),
        PathStep::Index(index) => FieldStep::Member(index.to_string()),
        PathStep::Each => FieldStep::Each,
    };
    DocumentPath::new(path.steps.iter().map(step).collect())
}
