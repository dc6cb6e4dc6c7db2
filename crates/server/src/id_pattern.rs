//! The wildcard patterns of `matches` and `exclude`: alternatives separated by `|`, in which `*`
//! stands for any text and `?` for one character. They are matched against what follows the prefix
//! of an id, case-insensitively.

/// Both patterns of a request.
#[derive(Debug, Default)]
pub(crate) struct IdPatterns {
    matches: Vec<Vec<char>>,
    excludes: Vec<Vec<char>>,
}

impl IdPatterns {
    /// From the two parameters; absent and empty ones match everything.
    pub(crate) fn new(matches: Option<&str>, exclude: Option<&str>) -> IdPatterns {
        IdPatterns { matches: alternatives(matches), excludes: alternatives(exclude) }
    }

    /// Whether an id matches; `rest` is its lower-cased text after the prefix.
    pub(crate) fn accept(&self, rest: &str) -> bool {
        if self.matches.is_empty() && self.excludes.is_empty() {
            return true;
        }
        let rest: Vec<char> = rest.chars().collect();
        let fits = |patterns: &[Vec<char>]| patterns.iter().any(|pattern| fits(pattern, &rest));
        (self.matches.is_empty() || fits(&self.matches)) && !fits(&self.excludes)
    }
}

fn alternatives(patterns: Option<&str>) -> Vec<Vec<char>> {
    let patterns = patterns.filter(|patterns| !patterns.is_empty());
    patterns.map_or(Vec::new(), |patterns| {
        let patterns = patterns.split('|').filter(|pattern| !pattern.is_empty());
        patterns.map(|pattern| model::lower_case(pattern).chars().collect()).collect()
    })
}

/// Greedy matching that backtracks to the last star only: at most pattern times text steps.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last_star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                last_star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star, from)) = last_star else { return false };
                last_star = Some((star, from + 1));
                p = star + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_ids() {
        let table = [
            (None, None, "x", true),
            (Some("1|2"), None, "2", true),
            (Some("1|2"), None, "12", false),
            (Some("a*b"), None, "axxb", true),
            (Some("a*b"), None, "ab", true),
            (Some("A?"), None, "ax", true),
            (Some("a?"), None, "a", false),
            (Some("*"), Some("1*"), "10", false),
            (None, Some("1*"), "20", true),
            (Some("*a*b*c"), None, "xxaxbxbxc", true),
            (Some("*a*b*c"), None, "xxaxbxbx", false),
            (Some(""), Some(""), "x", true),
            (Some("é?"), None, "éé", true),
        ];
        for (matches, exclude, rest, expected) in table {
            let patterns = IdPatterns::new(matches, exclude);
            assert_eq!(patterns.accept(rest), expected, "{matches:?} {exclude:?} {rest}");
        }
    }
}
