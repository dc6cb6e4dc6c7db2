//! What analyzers make of texts.
