//! rql
