//! The language seen from outside: what parses to what, the errors of invalid texts, and the laws
//! that hold for any text.

mod laws;
mod queries;
mod refusals;
