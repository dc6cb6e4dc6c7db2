//! A parsed query as a text that parses to the same.

use std::fmt;

use super::{Clause, Group, Occur, PatternPart, Sought};

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, clause) in self.clauses.iter().enumerate() {
            if 0 < number {
                out.write_str(" ")?;
            }
            write!(out, "{clause}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.occur {
            Occur::Must => "+",
            Occur::Should => "",
            Occur::MustNot => "-",
        })?;
        match self.field.as_deref() {
            None => {}
            Some("*") => out.write_str("*:")?,
            Some(field) => write!(out, "{}:", escaped(field))?,
        }
        write!(out, "{}", self.sought)?;
        match self.boost {
            None => Ok(()),
            Some(boost) => write!(out, "^{boost}"),
        }
    }
}

impl fmt::Display for Sought {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sought::Text(text) => out.write_str(&escaped(text)),
            Sought::Phrase { text, slop: 0 } => write!(out, "\"{}\"", quoted(text)),
            Sought::Phrase { text, slop } => write!(out, "\"{}\"~{slop}", quoted(text)),
            Sought::Prefix(text) => write!(out, "{}*", escaped(text)),
            Sought::Wildcard(parts) => parts.iter().try_for_each(|part| match part {
                PatternPart::Text(text) => out.write_str(&escaped(text)),
                PatternPart::One => out.write_str("?"),
                PatternPart::Many => out.write_str("*"),
            }),
            Sought::Fuzzy { text, similarity } => write!(out, "{}~{similarity}", escaped(text)),
            Sought::Range { low, high, inclusive } => {
                let end = |end: &Option<String>| match end {
                    None => "*".to_owned(),
                    Some(text) => format!("\"{}\"", quoted(text)),
                };
                let (open, close) = if *inclusive { ("[", "]") } else { ("{", "}") };
                write!(out, "{open}{} TO {}{close}", end(low), end(high))
            }
            Sought::Anything => out.write_str("*"),
            Sought::Everything => out.write_str("*:*"),
            Sought::Group(group) => write!(out, "({group})"),
        }
    }
}

/// Escapes every special character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for character in text.chars() {
        if !character.is_alphanumeric() || character.is_ascii_uppercase() {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
