//! What the text of a static definition shows before it is compiled.

use model::{CollectionName, IndexSourceType};

use crate::error::IndexError;

/// The prefix of the names of replacements.
pub const REPLACEMENT_PREFIX: &str = "ReplacementOf/";

/// The error for a definition that mixes maps over documents, counters or time series.
pub(crate) const MIXED_SOURCES: &str =
    "Index definition cannot contain Maps with different source types.";

/// A word that a C# map begins with; any other text is JavaScript.
struct Beginning {
    word: &'static str,
    /// Whether its case is ignored. JavaScript uses the same word in exactly this case.
    has_any_case: bool,
}

const BEGINNINGS: [Beginning; 4] = [
    Beginning { word: "from", has_any_case: false },
    Beginning { word: "docs", has_any_case: false },
    Beginning { word: "timeSeries", has_any_case: true },
    Beginning { word: "counters", has_any_case: true },
];

impl Beginning {
    /// The rest of a text that begins with the word.
    fn rest_of<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (start, rest) = text.split_at_checked(self.word.len())?;
        let is_it =
            start == self.word || (self.has_any_case && start.eq_ignore_ascii_case(self.word));
        (is_it && !rest.starts_with(is_part_of_a_name)).then_some(rest)
    }
}

/// The collections of these names, without duplicates.
///
/// # Errors
///
/// [`IndexError::Definition`] when a name is invalid.
pub(crate) fn collection_names<'n>(
    texts: impl Iterator<Item = &'n str>,
) -> Result<Vec<CollectionName>, IndexError> {
    let mut names: Vec<CollectionName> = Vec::new();
    for text in texts {
        let name = CollectionName::new(text)
            .map_err(|error| IndexError::Definition { message: error.to_string() })?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The source of a map's text, as far as it can be determined.
pub fn source_type_of(map: &str) -> IndexSourceType {
    if is_javascript(map) {
        let text = without_comments(map);
        return match text.split_once(".map(") {
            Some(("counters", _)) => IndexSourceType::Counters,
            Some(("timeSeries", _)) => IndexSourceType::TimeSeries,
            _ => IndexSourceType::Documents,
        };
    }
    match linq::Map::compile(map).map(|map| map.source_kind()) {
        Ok(linq::SourceKind::Counters) => IndexSourceType::Counters,
        Ok(linq::SourceKind::TimeSeries) => IndexSourceType::TimeSeries,
        Ok(linq::SourceKind::Documents) | Err(_) => IndexSourceType::Documents,
    }
}

/// Whether the text of a map is JavaScript.
pub fn is_javascript(map: &str) -> bool {
    let text = without_comments(map);
    // `timeSeries.map(…)` and `counters.map(…)` are JavaScript; `docs.Users.Select(…)` is not.
    let rest = BEGINNINGS.iter().find_map(|beginning| beginning.rest_of(text));
    rest.is_none_or(|rest| rest.starts_with(".map("))
}

/// Whether the character can be inside a name.
pub(crate) fn is_part_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// The text after white space and comments.
fn without_comments(text: &str) -> &str {
    let mut text = text.trim_start();
    loop {
        let behind = if let Some(line) = text.strip_prefix("//") {
            line.split_once('\n').map_or("", |(_, behind)| behind)
        } else if let Some(block) = text.strip_prefix("/*") {
            block.split_once("*/").map_or("", |(_, behind)| behind)
        } else {
            return text;
        };
        text = behind.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_map_is_over_shows_in_its_text() {
        let table = [
            ("from u in docs.Users select new { u.Name }", IndexSourceType::Documents),
            ("from c in counters.Users select new { c.Name }", IndexSourceType::Counters),
            ("counters.Users.likes.Select(c => new { c.Name })", IndexSourceType::Counters),
            ("// all\ncounters.map('Users', c => ({ N: c.Name }))", IndexSourceType::Counters),
            ("timeSeries.map('Users', 'HR', ts => ts)", IndexSourceType::TimeSeries),
            ("map('Users', u => ({ N: u.counters }))", IndexSourceType::Documents),
            ("from ts in TimeSeries.Users.HR select new { ts.Count }", IndexSourceType::TimeSeries),
            ("COUNTERS.Users.Select(c => new { c.Value })", IndexSourceType::Counters),
            ("no map at all", IndexSourceType::Documents),
        ];
        for (map, source) in table {
            assert_eq!(source_type_of(map), source, "{map}");
        }
    }

    #[test]
    fn the_language_of_a_map_shows_in_its_first_word() {
        for text in [
            "from u in docs.Users select new { u.Name }",
            " \r\n\t// all of them\n/* really */ docs.Users.Select(u => new { u.Name })",
            "docs.Select(u => new { u.Name })",
            "timeSeries.Users.SelectMany(ts => ts.Entries, (ts, e) => new { e.Value })",
            "counters.Users.Select(c => new { c.Value })",
            "timeseries.Users.HR.SelectMany(ts => ts.Entries, (ts, e) => new { e.Value })",
            "Counters.Select(c => new { c.Value })",
        ] {
            assert!(!is_javascript(text), "{text}");
        }
        for text in [
            "map('Users', u => ({ Name: u.Name }))",
            "timeSeries.map('Users', 'HR', ts => ts)",
            "fromage('Users')",
            "",
        ] {
            assert!(is_javascript(text), "{text}");
        }
    }
}
