//! The named maximums of this crate: limits on a text, and on one evaluation.
//!
//! Invariant: every loop and every recursion that a definition or a document can drive is stopped by
//! one of these.

use crate::value::Value;

/// Bytes of one definition's text.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1024;

/// Levels of a syntax tree, a chain of calls or operators counting one per link.
pub const TREE_DEPTH_MAX: u16 = 160;

/// Expressions that may be open around a place in the text: parentheses, lambdas, operands.
pub const NESTING_DEPTH_MAX: u16 = 64;

/// Type arguments, array ranks and `?` that may be nested in one type.
pub(crate) const TYPE_DEPTH_MAX: u32 = 16;

/// Characters of the offending text that an error repeats.
pub(crate) const EXCERPT_CHARACTERS_MAX: usize = 120;

/// Variables, lambda parameters and intermediate results of one definition.
pub(crate) const VARIABLES_MAX: u32 = 1024;

/// Clauses and chained calls of one query.
pub(crate) const STAGES_MAX: usize = 64;

/// Nesting depth of containers that a definition creates, for example by aggregating into one.
pub(crate) const VALUE_DEPTH_MAX: u16 = 200;

/// Backtracking steps after which a regular expression is abandoned.
pub(crate) const REGEX_BACKTRACK_MAX: usize = 100_000;

/// Compiled patterns that are not constants, kept per evaluation.
pub(crate) const REGEX_CACHE_MAX: usize = 16;

/// One text or sequence may take this part of the memory of an evaluation: the next is created before it is
/// counted.
const SEQUENCE_PART: usize = 2;

/// Limits on the evaluation of one document, or of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Evaluated expressions, each element of a sequence counting again.
    pub steps_max: u64,
    /// Outputs of one document.
    pub outputs_max: u32,
    /// Approximate bytes of the values created by the definition that exist at once.
    pub memory_bytes_max: u64,
    /// Elements of one sequence created by the definition.
    pub sequence_length_max: usize,
    /// Bytes of one string created by the definition.
    pub string_bytes_max: usize,
    /// Bytes of attachments that it may read, each reading counting again.
    pub content_bytes_max: u64,
    /// Elements that one `Recurse` may reach.
    pub recurse_length_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            steps_max: 50_000_000,
            outputs_max: 1_000_000,
            memory_bytes_max: 256 * 1024 * 1024,
            sequence_length_max: 4_000_000,
            string_bytes_max: 64 * 1024 * 1024,
            content_bytes_max: 64 * 1024 * 1024,
            recurse_length_max: 1_000_000,
        }
    }
}

impl Budget {
    /// The standard limits for an evaluation that may hold `memory_bytes_max`: no text and no sequence may be
    /// larger than a part of that.
    pub fn within(memory_bytes_max: usize) -> Budget {
        let standard = Budget::default();
        let elements_max = memory_bytes_max / SEQUENCE_PART / size_of::<Value<'_>>();
        Budget {
            memory_bytes_max: memory_bytes_max as u64,
            sequence_length_max: standard.sequence_length_max.min(elements_max),
            string_bytes_max: standard.string_bytes_max.min(memory_bytes_max / SEQUENCE_PART),
            ..standard
        }
    }
}
