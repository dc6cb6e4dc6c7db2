//! What a definition that an application wrote says before anything is compiled.

use model::CollectionName;

use crate::error::IndexError;

/// Names of indexes that are to take another one's place begin so.
pub const REPLACEMENT_PREFIX: &str = "ReplacementOf/";

/// The words that a map in C# begins with; any other text is JavaScript.
const BEGINNINGS: [&str; 4] = ["from", "docs", "timeSeries", "counters"];

/// The collections of these names, each once.
///
/// # Errors
///
/// [`IndexError::Definition`] when a name is none of a collection.
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

/// Whether the text of a map is JavaScript.
pub fn is_javascript(map: &str) -> bool {
    let text = without_comments(map);
    !BEGINNINGS.iter().any(|beginning| {
        let behind = text.strip_prefix(beginning);
        // `timeSeries.map(…)` and `counters.map(…)` are JavaScript; `docs.Users.Select(…)` is not.
        behind.is_some_and(|behind| {
            !behind.starts_with(is_part_of_a_name) && !behind.starts_with(".map(")
        })
    })
}

fn is_part_of_a_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The text behind white space and comments.
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
    fn the_language_of_a_map_shows_in_its_first_word() {
        for text in [
            "from u in docs.Users select new { u.Name }",
            " \r\n\t// all of them\n/* really */ docs.Users.Select(u => new { u.Name })",
            "docs.Select(u => new { u.Name })",
            "timeSeries.Users.SelectMany(ts => ts.Entries, (ts, e) => new { e.Value })",
            "counters.Users.Select(c => new { c.Value })",
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
