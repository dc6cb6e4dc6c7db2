//! Generated changes and queries against a naive evaluator, which looks at every entry.
