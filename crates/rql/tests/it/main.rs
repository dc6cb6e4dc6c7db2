//! The language seen from outside: what parses to what, what is refused with which words, and the
//! laws that hold for any text.

mod laws;
mod queries;
mod refusals;
