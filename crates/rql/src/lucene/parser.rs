//! The recursive-descent parser of the query syntax of Lucene.

use super::error::LuceneError;
use super::lexer::{Placed, Token, number_at, range_token_at, token_at};
use super::{Clause, Group, Occur, PatternPart, Sought};

/// The longest text, in bytes.
pub const LUCENE_BYTES_MAX: usize = 64 * 1024;

/// How deep parentheses may be nested.
pub const LUCENE_DEPTH_MAX: usize = 64;

/// The minimum similarity of a term when `~` has no number.
const SIMILARITY_DEFAULT: f32 = 0.5;

/// What a clause may begin with.
const CLAUSE: &[&str] = &["NOT", "+", "-", "(", "*", "a quoted text", "a term", "[", "{"];
/// What may follow a clause.
const BEHIND: &[&str] =
    &["AND", "OR", "NOT", "+", "-", "(", "*", "^", "~", "a quoted text", "a term", "[", "{"];

/// Parses a text.
///
/// # Errors
///
/// [`LuceneError`] when the text is no query, is longer than [`LUCENE_BYTES_MAX`] or nests deeper than
/// [`LUCENE_DEPTH_MAX`].
pub fn parse(text: &str) -> Result<Group, LuceneError> {
    if LUCENE_BYTES_MAX < text.len() {
        let bytes = text.len();
        let problem = format!("it has {bytes} bytes, more than the {LUCENE_BYTES_MAX} allowed");
        return Err(LuceneError::new(text, problem, &[]));
    }
    let mut parser = Parser { text, next: token_at(text, 0)?, depth: 0 };
    let group = parser.group()?;
    match parser.next.token {
        Token::End => Ok(group),
        _ => Err(parser.unexpected(BEHIND)),
    }
}

struct Parser<'t> {
    text: &'t str,
    /// The next token, not yet consumed.
    next: Placed<'t>,
    depth: usize,
}

/// How a clause is joined with the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conjunction {
    None,
    And,
    Or,
}

impl<'t> Parser<'t> {
    fn advance(&mut self) -> Result<Token<'t>, LuceneError> {
        let consumed = self.next;
        self.next = token_at(self.text, consumed.end)?;
        Ok(consumed.token)
    }

    fn take(&mut self, token: Token<'_>) -> Result<bool, LuceneError> {
        let is_there = self.next.token == token;
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn unexpected(&self, expected: &[&'static str]) -> LuceneError {
        self.unexpected_at(&self.next, expected)
    }

    fn unexpected_at(&self, at: &Placed<'_>, expected: &[&'static str]) -> LuceneError {
        let shown = at.token.shown(&self.text[at.start..at.end]);
        let place = LuceneError::place(self.text, at.start);
        let problem = format!("Encountered \"{shown}\" at {place}.");
        LuceneError::new(self.text, problem, expected)
    }

    fn refused(&self, problem: impl Into<String>) -> LuceneError {
        LuceneError::new(self.text, problem.into(), &[])
    }

    /// Clauses up to a closing parenthesis or the end.
    fn group(&mut self) -> Result<Group, LuceneError> {
        let mut clauses: Vec<Clause> = Vec::new();
        let mut conjunction = Conjunction::None;
        loop {
            let clause = self.clause(conjunction)?;
            // `a AND b` requires both, whatever preceded the first.
            if conjunction == Conjunction::And
                && let Some(before) = clauses.last_mut()
                && before.occur == Occur::Should
            {
                before.occur = Occur::Must;
            }
            clauses.push(clause);
            conjunction = match self.next.token {
                Token::End | Token::Close => return Ok(Group { clauses }),
                Token::And => Conjunction::And,
                Token::Or => Conjunction::Or,
                _ => Conjunction::None,
            };
            if conjunction != Conjunction::None {
                self.advance()?;
            }
        }
    }

    fn clause(&mut self, conjunction: Conjunction) -> Result<Clause, LuceneError> {
        let occur = match self.next.token {
            Token::Plus => Some(Occur::Must),
            Token::Minus | Token::Not => Some(Occur::MustNot),
            _ => None,
        };
        if occur.is_some() {
            self.advance()?;
        }
        let occur = occur.unwrap_or(match conjunction {
            Conjunction::And => Occur::Must,
            Conjunction::None | Conjunction::Or => Occur::Should,
        });
        let mut field = None;
        if let Token::Term(_) | Token::Star = self.next.token
            && let behind = token_at(self.text, self.next.end)?
            && behind.token == Token::Colon
        {
            let named = self.advance()?;
            self.advance()?;
            field = Some(match named {
                Token::Term(name) => unescaped(name),
                _ => "*".to_owned(),
            });
        }
        let mut sought = self.sought()?;
        // However the star before the colon is written.
        if sought == Sought::Anything && field.as_deref() == Some("*") {
            (field, sought) = (None, Sought::Everything);
        }
        Ok(Clause { occur, field, sought, boost: self.boost()? })
    }

    fn sought(&mut self) -> Result<Sought, LuceneError> {
        match self.next.token {
            Token::Open => self.parenthesized(),
            Token::RangeOpen { inclusive } => self.range(inclusive),
            Token::Star => {
                self.advance()?;
                Ok(Sought::Anything)
            }
            Token::Term(term) => {
                self.advance()?;
                match self.next.token {
                    Token::Tilde(number) => {
                        self.advance()?;
                        let similarity = self.similarity(number)?;
                        Ok(Sought::Fuzzy { text: unescaped(term), similarity })
                    }
                    _ => Ok(Sought::Text(unescaped(term))),
                }
            }
            Token::Prefix(term) => {
                self.advance()?;
                self.without_similarity(Sought::Prefix(unescaped(term)))
            }
            Token::Wildcard(pattern) => {
                self.advance()?;
                self.without_similarity(Sought::Wildcard(pattern_parts(pattern)))
            }
            Token::Quoted(text) => {
                self.advance()?;
                let slop = match self.next.token {
                    Token::Tilde(number) => {
                        self.advance()?;
                        slop_of(number)
                    }
                    _ => 0,
                };
                Ok(Sought::Phrase { text: unescaped(text), slop })
            }
            _ => Err(self.unexpected(CLAUSE)),
        }
    }

    /// Lucene accepts `~` after a wildcard and ignores it.
    fn without_similarity(&mut self, sought: Sought) -> Result<Sought, LuceneError> {
        if let Token::Tilde(_) = self.next.token {
            self.advance()?;
        }
        Ok(sought)
    }

    fn parenthesized(&mut self) -> Result<Sought, LuceneError> {
        if self.depth == LUCENE_DEPTH_MAX {
            let problem = format!("it is nested deeper than {LUCENE_DEPTH_MAX} levels");
            return Err(self.refused(problem));
        }
        self.advance()?;
        self.depth += 1;
        let group = self.group()?;
        self.depth -= 1;
        match self.take(Token::Close)? {
            true => Ok(Sought::Group(group)),
            false => Err(self.unexpected(&[BEHIND, &[")"]].concat())),
        }
    }

    fn range(&mut self, inclusive: bool) -> Result<Sought, LuceneError> {
        let close = if inclusive { ']' } else { '}' };
        let low = range_token_at(self.text, self.next.end, close)?;
        let low_text = self.range_end(&low)?;
        let mut behind = range_token_at(self.text, low.end, close)?;
        if behind.token == Token::RangeTo {
            behind = range_token_at(self.text, behind.end, close)?;
        }
        let high_text = self.range_end(&behind)?;
        let end = range_token_at(self.text, behind.end, close)?;
        if end.token != Token::RangeClose {
            let expected = if inclusive { "\"]\"" } else { "\"}\"" };
            return Err(self.unexpected_at(&end, &[expected]));
        }
        self.next = token_at(self.text, end.end)?;
        Ok(Sought::Range { low: low_text, high: high_text, inclusive })
    }

    /// One end of a range; `None` when it is open.
    fn range_end(&self, at: &Placed<'_>) -> Result<Option<String>, LuceneError> {
        match at.token {
            Token::Term("*") => Ok(None),
            Token::Term(text) | Token::Quoted(text) => Ok(Some(unescaped(text))),
            _ => Err(self.unexpected_at(at, &["a quoted text", "a term"])),
        }
    }

    fn boost(&mut self) -> Result<Option<f32>, LuceneError> {
        if self.next.token != Token::Caret {
            return Ok(None);
        }
        let number = number_at(self.text, self.next.end);
        let Token::Term(digits) = number.token else { return Ok(None) };
        if digits.is_empty() {
            let at = token_at(self.text, self.next.end)?;
            return Err(self.unexpected_at(&at, &["a number"]));
        }
        self.next = token_at(self.text, number.end)?;
        // A term may have its similarity after its boost, where it is ignored.
        if let Token::Tilde(_) = self.next.token {
            self.advance()?;
        }
        Ok(digits.parse().ok().filter(|boost: &f32| boost.is_finite()))
    }

    fn similarity(&self, number: &str) -> Result<f32, LuceneError> {
        if number.is_empty() {
            return Ok(SIMILARITY_DEFAULT);
        }
        match number.parse() {
            Ok(similarity) if (0.0..1.0).contains(&similarity) => Ok(similarity),
            _ => {
                let problem =
                    "Minimum similarity for a FuzzyQuery has to be between 0.0f and 1.0f !";
                Err(self.refused(problem))
            }
        }
    }
}

/// A fractional slop is truncated; without a number it is 0.
fn slop_of(number: &str) -> u32 {
    number.split('.').next().unwrap_or_default().parse().unwrap_or_default()
}

/// The text without its escaping backslashes.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain
}

fn pattern_parts(pattern: &str) -> Vec<PatternPart> {
    let mut parts = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '*' => {
                parts.push(PatternPart::Many);
                continue;
            }
            '?' => {
                parts.push(PatternPart::One);
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        match parts.last_mut() {
            Some(PatternPart::Text(text)) => text.extend(literal),
            _ => parts.push(PatternPart::Text(literal.into_iter().collect())),
        }
    }
    parts
}
