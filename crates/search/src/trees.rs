//! The trees of an index in its environment, drawn.
//!
//! ```text
//! tree SearchState     "state" -> next entry, next list, live entries      (state.rs)
//! tree SearchFields    name    -> number, flags, words                     (fields.rs)
//! tree SearchTerms     field · kind · bytes -> postings                    (term.rs, postings/format.rs)
//! tree SearchPostings  list · base -> block                                (postings/format.rs)
//! tree SearchEntries   entry u64 big-endian -> its terms                   (record.rs)
//! tree SearchStored    entry u64 big-endian -> its stored values           (stored.rs)
//! tree SearchBoosts    entry u64 big-endian -> its boosts                  (boosts.rs)
//! ```

use storage::TreeName;

macro_rules! tree_names {
    ($($name:ident = $text:literal;)*) => {
        $(pub(crate) static $name: std::sync::LazyLock<TreeName> =
            std::sync::LazyLock::new(|| TreeName::from($text));)*
    };
}

tree_names! {
    STATE = "SearchState";
    FIELDS = "SearchFields";
    TERMS = "SearchTerms";
    POSTINGS = "SearchPostings";
    ENTRIES = "SearchEntries";
    STORED = "SearchStored";
    BOOSTS = "SearchBoosts";
}
