//! What queries mean, defined without an index: every condition is evaluated on every document.
#![expect(clippy::unwrap_used, reason = "a value that cannot be made should stop the test")]

use std::{cmp::Ordering, mem::discriminant};

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// Its digits.
    Number(&'static str),
    Text(&'static str),
    /// A string, the ticks that it means and how an index writes it.
    Date(&'static str, i64, &'static str),
    Array(Vec<Value>),
}

/// A value that is compared with, as the query writes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Long(i64),
    Double(&'static str),
    Text(&'static str),
    Date(&'static str, i64, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn is_upper(self) -> bool {
        matches!(self, Comparison::Less | Comparison::LessOrEqual)
    }

    fn fits(self, leaf: &Value, value: &Literal, has_dates: bool) -> bool {
        order_of(leaf, value, has_dates).is_some_and(|order| match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        })
    }
}

/// A condition over the fields `A` and `B`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    True,
    Equal(char, Literal),
    NotEqual(char, Literal),
    Compare(char, Comparison, Literal),
    Between(char, Literal, Literal),
    In(char, Vec<Literal>),
    AllIn(char, Vec<Literal>),
    StartsWith(char, &'static str),
    EndsWith(char, &'static str),
    Exists(char),
    /// `exact(A = …)`.
    Exact(&'static str),
    /// `search(A, …)`.
    Search(Vec<&'static str>, bool),
    /// `lucene(A, …)`.
    Lucene(LuceneGroup),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

/// Clauses of a `lucene()` text, each with `+`, `-` or nothing in front.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LuceneGroup(pub(crate) Vec<(&'static str, LuceneClause)>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LuceneClause {
    Word(&'static str),
    Prefix(&'static str),
    Wildcard(&'static str, &'static str),
    Range(&'static str, &'static str),
    Pair(&'static str, &'static str),
    Anything,
    Group(LuceneGroup),
}

/// A document: the values of its fields, none for a missing one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document {
    pub(crate) a: Option<Value>,
    pub(crate) b: Option<Value>,
}

impl Value {
    pub(crate) fn json(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(digits) => (*digits).to_owned(),
            Value::Text(text) | Value::Date(text, ..) => format!("{text:?}"),
            Value::Array(values) => {
                let values: Vec<_> = values.iter().map(Value::json).collect();
                format!("[{}]", values.join(","))
            }
        }
    }

    fn flatten<'v>(&'v self, leaves: &mut Vec<&'v Value>) {
        match self {
            Value::Array(values) => values.iter().for_each(|value| value.flatten(leaves)),
            leaf => leaves.push(leaf),
        }
    }

    /// The text that it is found by, case preserved.
    fn text(&self) -> Option<String> {
        Some(match self {
            Value::Null | Value::Array(_) => return None,
            Value::Bool(value) => value.to_string(),
            Value::Number(digits) if digits.contains('.') => {
                digits.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            Value::Number(digits) => (*digits).to_owned(),
            Value::Text(text) => (*text).to_owned(),
            Value::Date(_, _, text) => (*text).to_owned(),
        })
    }

    /// The text in the case in which it is compared.
    fn folded(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.to_lowercase()),
            other => other.text(),
        }
    }

    fn long(&self) -> Option<i64> {
        let Value::Number(digits) = self else { return None };
        Some(digits.parse().unwrap_or(digits.parse::<f64>().unwrap() as i64))
    }

    fn double(&self) -> Option<f64> {
        let Value::Number(digits) = self else { return None };
        Some(digits.parse().unwrap())
    }

    fn ticks(&self) -> Option<i64> {
        let Value::Date(_, ticks, _) = self else { return None };
        Some(*ticks)
    }
}

impl Literal {
    pub(crate) fn rql(&self) -> String {
        match self {
            Literal::Null => "null".to_owned(),
            Literal::Bool(value) => value.to_string(),
            Literal::Long(value) => value.to_string(),
            Literal::Double(digits) => (*digits).to_owned(),
            Literal::Text(text) | Literal::Date(text, ..) => format!("'{text}'"),
        }
    }

    /// The text that lists compare with.
    fn listed(&self) -> Option<String> {
        match self {
            Literal::Null => None,
            Literal::Bool(value) => Some(value.to_string()),
            Literal::Long(value) => Some(value.to_string()),
            Literal::Double(digits) => Value::Number(digits).text(),
            Literal::Text(text) => Some(text.to_lowercase()),
            Literal::Date(_, _, text) => Some((*text).to_owned()),
        }
    }
}

impl Condition {
    pub(crate) fn rql(&self) -> String {
        let list =
            |values: &[Literal]| values.iter().map(Literal::rql).collect::<Vec<_>>().join(", ");
        match self {
            Condition::True => "true".to_owned(),
            Condition::Equal(field, value) => format!("{field} = {}", value.rql()),
            Condition::NotEqual(field, value) => format!("{field} != {}", value.rql()),
            Condition::Compare(field, comparison, value) => {
                let sign = match comparison {
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                format!("{field} {sign} {}", value.rql())
            }
            Condition::Between(field, low, high) => {
                format!("{field} between {} and {}", low.rql(), high.rql())
            }
            Condition::In(field, values) => format!("{field} in ({})", list(values)),
            Condition::AllIn(field, values) => format!("{field} all in ({})", list(values)),
            Condition::StartsWith(field, text) => format!("startsWith({field}, '{text}')"),
            Condition::EndsWith(field, text) => format!("endsWith({field}, '{text}')"),
            Condition::Exists(field) => format!("exists({field})"),
            Condition::Exact(text) => format!("exact(A = '{text}')"),
            Condition::Search(words, all) => {
                let operator = if *all { ", and" } else { "" };
                format!("search(A, '{}'{operator})", words.join(" "))
            }
            Condition::Lucene(group) => format!("lucene(A, '{}')", group.text()),
            Condition::And(left, right) => format!("({} and {})", left.rql(), right.rql()),
            Condition::Or(left, right) => format!("({} or {})", left.rql(), right.rql()),
            Condition::Not(inner) => format!("(true and not ({}))", inner.rql()),
        }
    }
}

impl LuceneGroup {
    fn text(&self) -> String {
        let clause = |(sign, clause): &(&str, LuceneClause)| {
            let text = match clause {
                LuceneClause::Word(word) => (*word).to_owned(),
                LuceneClause::Prefix(start) => format!("{start}*"),
                LuceneClause::Wildcard(start, end) => format!("{start}*{end}"),
                LuceneClause::Range(low, high) => format!("[{low} TO {high}]"),
                LuceneClause::Pair(left, right) => format!("\"{left} {right}\""),
                LuceneClause::Anything => "*".to_owned(),
                LuceneClause::Group(group) => format!("({})", group.text()),
            };
            format!("{sign}{text}")
        };
        self.0.iter().map(clause).collect::<Vec<_>>().join(" ")
    }

    /// Whether a field with these words, or with something that is not a word, matches.
    fn matches(&self, words: &[String], has_anything: bool) -> bool {
        let found = |sign: &str| {
            let of_sign = self.0.iter().filter(move |(own, _)| *own == sign);
            of_sign.map(|(_, clause)| clause.matches(words, has_anything)).collect::<Vec<_>>()
        };
        let (wanted, unwanted, others) = (found("+"), found("-"), found(""));
        let is_found = match wanted.as_slice() {
            [] => others.contains(&true),
            wanted => !wanted.contains(&false),
        };
        is_found && !unwanted.contains(&true)
    }
}

impl LuceneClause {
    fn matches(&self, words: &[String], has_anything: bool) -> bool {
        let any = |test: &dyn Fn(&str) -> bool| words.iter().any(|word| test(word));
        match self {
            LuceneClause::Word(word) => any(&|own| own == word.to_lowercase()),
            LuceneClause::Prefix(start) => any(&|own| own.starts_with(&start.to_lowercase())),
            LuceneClause::Wildcard(start, end) => any(&|own| {
                let (start, end) = (start.to_lowercase(), end.to_lowercase());
                start.len() + end.len() <= own.len()
                    && own.starts_with(&start)
                    && own.ends_with(&end)
            }),
            LuceneClause::Range(low, high) => any(&|own| *low <= own && own <= *high),
            LuceneClause::Pair(left, right) => words
                .windows(2)
                .any(|pair| pair[0] == left.to_lowercase() && pair[1] == right.to_lowercase()),
            LuceneClause::Anything => has_anything,
            LuceneClause::Group(group) => group.matches(words, has_anything),
        }
    }
}

/// A field's value tokenized as `search()` does.
fn words_of(leaves: &[&Value]) -> Vec<String> {
    leaves
        .iter()
        .filter_map(|leaf| leaf.text())
        .flat_map(|text| {
            let text = text.to_lowercase();
            text.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

/// Facts about all documents together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) a_has_dates: bool,
    pub(crate) b_has_dates: bool,
}

impl Facts {
    pub(crate) fn of<'d>(documents: impl Iterator<Item = &'d Document> + Clone) -> Facts {
        let has_dates = |field: char| {
            documents
                .clone()
                .any(|document| document.leaves(field).iter().any(|leaf| leaf.ticks().is_some()))
        };
        Facts { a_has_dates: has_dates('A'), b_has_dates: has_dates('B') }
    }

    fn has_dates(self, field: char) -> bool {
        if field == 'A' { self.a_has_dates } else { self.b_has_dates }
    }
}

impl Document {
    pub(crate) fn value(&self, field: char) -> Option<&Value> {
        if field == 'A' { self.a.as_ref() } else { self.b.as_ref() }
    }

    fn leaves(&self, field: char) -> Vec<&Value> {
        let mut leaves = Vec::new();
        if let Some(value) = self.value(field) {
            value.flatten(&mut leaves);
        }
        leaves
    }

    pub(crate) fn matches(&self, condition: &Condition, facts: Facts) -> bool {
        let any =
            |field: char, test: &dyn Fn(&Value) -> bool| self.leaves(field).into_iter().any(test);
        match condition {
            Condition::True => true,
            Condition::Equal(field, value) => {
                any(*field, &|leaf| is_equal(leaf, value, facts.has_dates(*field)))
            }
            Condition::NotEqual(field, value) => {
                !any(*field, &|leaf| is_equal(leaf, value, facts.has_dates(*field)))
            }
            Condition::Compare(field, comparison, value) => {
                any(*field, &|leaf| comparison.fits(leaf, value, facts.has_dates(*field)))
            }
            Condition::Between(field, low, high) => any(*field, &|leaf| {
                let has_dates = facts.has_dates(*field);
                order_of(leaf, low, has_dates).is_some_and(Ordering::is_ge)
                    && order_of(leaf, high, has_dates).is_some_and(Ordering::is_le)
            }),
            Condition::In(field, values) => {
                values.iter().any(|value| any(*field, &|leaf| is_listed(leaf, value)))
            }
            Condition::AllIn(field, values) => {
                !values.is_empty()
                    && values.iter().all(|value| any(*field, &|leaf| is_listed(leaf, value)))
            }
            Condition::StartsWith(field, "") | Condition::EndsWith(field, "") => {
                any(*field, &|_| true)
            }
            Condition::StartsWith(field, text) => any(*field, &|leaf| {
                leaf.folded().is_some_and(|own| own.starts_with(&text.to_lowercase()))
            }),
            Condition::EndsWith(field, text) => any(*field, &|leaf| {
                leaf.folded().is_some_and(|own| own.ends_with(&text.to_lowercase()))
            }),
            Condition::Exists(field) => any(*field, &|_| true),
            Condition::Exact(text) => any('A', &|leaf| leaf.text().as_deref() == Some(*text)),
            Condition::Search(words, all) => {
                let own = words_of(&self.leaves('A'));
                let has = |word: &&str| own.contains(&word.to_lowercase());
                if *all { words.iter().all(has) } else { words.iter().any(has) }
            }
            Condition::Lucene(group) => {
                let leaves = self.leaves('A');
                let mut words = words_of(&leaves);
                // English stop words are not indexed.
                words.retain(|word| word != "a");
                // In an array, null is not a word.
                let has_anything = self.a == Some(Value::Null)
                    || !words.is_empty()
                    || leaves.contains(&&Value::Text(""));
                group.matches(&words, has_anything)
            }
            Condition::And(left, right) => match (&**left, &**right) {
                // One value lies between two bounds of its field.
                (Condition::Compare(field, one, low), Condition::Compare(other, two, high))
                    if field == other
                        && one.is_upper() != two.is_upper()
                        && discriminant(low) == discriminant(high) =>
                {
                    let has_dates = facts.has_dates(*field);
                    any(*field, &|leaf| {
                        one.fits(leaf, low, has_dates) && two.fits(leaf, high, has_dates)
                    })
                }
                (left, right) => self.matches(left, facts) && self.matches(right, facts),
            },
            Condition::Or(left, right) => self.matches(left, facts) || self.matches(right, facts),
            Condition::Not(inner) => !self.matches(inner, facts),
        }
    }
}

fn is_equal(leaf: &Value, value: &Literal, has_dates: bool) -> bool {
    match value {
        Literal::Null => *leaf == Value::Null,
        Literal::Bool(value) => leaf.folded() == Some(value.to_string()),
        Literal::Long(value) => leaf.long() == Some(*value),
        Literal::Double(digits) => leaf.double() == Some(digits.parse().unwrap()),
        Literal::Date(_, ticks, _) if has_dates => leaf.ticks() == Some(*ticks),
        Literal::Date(_, _, text) => leaf.folded().as_deref() == Some(*text),
        Literal::Text(text) => leaf.folded() == Some(text.to_lowercase()),
    }
}

/// How a value compares with that of the query; `None` when they cannot be compared.
fn order_of(leaf: &Value, value: &Literal, has_dates: bool) -> Option<Ordering> {
    match value {
        Literal::Null => None,
        Literal::Bool(value) => Some(leaf.folded()?.as_str().cmp(value.to_string().as_str())),
        Literal::Long(value) => Some(leaf.long()?.cmp(value)),
        Literal::Double(digits) => leaf.double()?.partial_cmp(&digits.parse().unwrap()),
        Literal::Date(_, ticks, _) if has_dates => Some(leaf.ticks()?.cmp(ticks)),
        Literal::Date(_, _, text) => Some(leaf.folded()?.as_str().cmp(text)),
        Literal::Text(text) => Some(leaf.folded()?.cmp(&text.to_lowercase())),
    }
}

fn is_listed(leaf: &Value, value: &Literal) -> bool {
    match value.listed() {
        None => *leaf == Value::Null,
        Some(text) => leaf.folded() == Some(text),
    }
}

/// An order of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum By {
    Text,
    Long,
    Double,
}

/// What a document is sorted by, in ascending order: nothing, null, no number, a value.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(crate) enum SortValue {
    Missing,
    Null,
    NoNumber,
    Text(String),
    Long(i64),
    Double(f64),
}

impl Document {
    pub(crate) fn sort_value(&self, field: char, by: By) -> SortValue {
        let leaves = self.leaves(field);
        if leaves.is_empty() {
            return SortValue::Missing;
        }
        let values = leaves.iter().filter_map(|leaf| match by {
            By::Text => leaf.folded().map(SortValue::Text),
            By::Long => leaf.long().map(SortValue::Long),
            By::Double => leaf.double().map(SortValue::Double),
        });
        let greatest = values.reduce(|left, right| if left < right { right } else { left });
        match greatest {
            Some(value) => value,
            None if leaves.iter().all(|leaf| **leaf == Value::Null) => SortValue::Null,
            None => SortValue::NoNumber,
        }
    }
}
