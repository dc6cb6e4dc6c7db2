//! Generated documents, changes and queries: an index returns what scanning every document does, in
//! the same order, whether it was built in one go or followed the changes.

use indexing::{AutoField, AutoFieldWays, AutoIndexDefinition, Index};
use query::Paging;

use crate::fixture::Database;
use crate::naive::{
    By, Comparison, Condition, Document, Facts, Literal, LuceneClause, LuceneGroup, SortValue,
    Value,
};
use crate::naive_filter::Filter;

/// Histories; each has [`STEPS`] times [`QUERIES`] queries.
const HISTORIES: u64 = 170;
const STEPS: usize = 4;
const CHANGES: usize = 9;
const QUERIES: usize = 30;
const IDS: usize = 24;
/// Maximum nesting of conditions.
const DEPTH_MAX: usize = 3;

const TEXTS: [&str; 16] = [
    "",
    "a",
    "A",
    "abc",
    "ABC",
    "b",
    "Zoë",
    "zoë",
    "ÉCLAIR",
    "日本語",
    "alpha beta",
    "Beta gamma",
    "1",
    "1.5",
    "null",
    "true",
];
const NUMBERS: [&str; 11] = [
    "0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "1.9",
    "-1.5",
    "2",
    "10",
    "9223372036854775807",
    "100000000000000000000",
];
const DATES: [(&str, i64, &str); 4] = [
    ("2020-01-02T03:04:05Z", 637_135_310_450_000_000, "2020-01-02T03:04:05.0000000Z"),
    ("2020-01-02T03:04:05", 637_135_310_450_000_000, "2020-01-02T03:04:05.0000000"),
    ("2020-01-02T05:04:05+02:00", 637_135_310_450_000_000, "2020-01-02T03:04:05.0000000Z"),
    ("2020-01-03", 637_136_064_000_000_000, "2020-01-03"),
];

/// A small random number generator (xorshift); its seed determines the whole history.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(12) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2..=4 => Value::Number(self.pick(&NUMBERS)),
            5 => {
                let (text, ticks, indexed) = self.pick(&DATES);
                Value::Date(text, ticks, indexed)
            }
            6 | 7 if depth < 2 => {
                let count = self.below(4);
                Value::Array((0..count).map(|_| self.value(depth + 1)).collect())
            }
            _ => Value::Text(self.pick(&TEXTS)),
        }
    }

    fn document(&mut self) -> Document {
        let mut field = || (self.below(6) != 0).then(|| self.value(0));
        Document { a: field(), b: field() }
    }

    fn field(&mut self) -> char {
        self.pick(&['A', 'B'])
    }

    fn literal(&mut self) -> Literal {
        match self.below(8) {
            0 => Literal::Null,
            1 => Literal::Bool(self.below(2) == 0),
            2 | 3 => Literal::Long(self.pick(&[0, 1, -1, 2, 10, i64::MAX])),
            4 => Literal::Double(self.pick(&["0.0", "1.0", "1.5", "-1.5", "1.75"])),
            5 => {
                let (text, ticks, indexed) = self.pick(&DATES);
                Literal::Date(text, ticks, indexed)
            }
            _ => Literal::Text(self.pick(&TEXTS)),
        }
    }

    /// A value that may be the bound of a range.
    fn bound(&mut self) -> Literal {
        loop {
            let literal = self.literal();
            if literal != Literal::Null {
                return literal;
            }
        }
    }

    fn list(&mut self) -> Vec<Literal> {
        let first = self.literal();
        let count = self.below(4);
        let mut list = vec![first.clone()];
        while list.len() < count {
            let next = self.literal();
            let is_text = |one: &Literal| matches!(one, Literal::Text(_) | Literal::Date(..));
            let alike = std::mem::discriminant(&next) == std::mem::discriminant(&first)
                || (is_text(&next) && is_text(&first));
            if alike && !matches!(next, Literal::Bool(_)) {
                list.push(next);
            } else {
                break;
            }
        }
        list.truncate(count);
        list
    }

    fn comparison(&mut self) -> Comparison {
        self.pick(&[
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ])
    }

    /// Bounds of one field, often a lower and an upper one of one type.
    fn two_bounds(&mut self, field: char) -> Condition {
        let mut bound = || Box::new(Condition::Compare(field, self.comparison(), self.bound()));
        Condition::And(bound(), bound())
    }

    fn condition(&mut self, depth: usize) -> Condition {
        let field = self.field();
        let nested = |dice: &mut Dice| Box::new(dice.condition(depth + 1));
        match self.below(if depth < DEPTH_MAX { 19 } else { 14 }) {
            0 | 1 => Condition::Equal(field, self.literal()),
            2 => Condition::NotEqual(field, self.literal()),
            3 | 4 => Condition::Compare(field, self.comparison(), self.bound()),
            5 => match (self.bound(), self.bound()) {
                (low, high) if std::mem::discriminant(&low) == std::mem::discriminant(&high) => {
                    Condition::Between(field, low, high)
                }
                _ => Condition::True,
            },
            6 => Condition::In(field, self.list()),
            7 => Condition::AllIn(field, self.list()),
            8 => Condition::StartsWith(field, self.pick(&["", "a", "AB", "1", "é", "2020-", "t"])),
            9 => Condition::EndsWith(field, self.pick(&["", "c", "A", "5", "語", "e"])),
            10 => Condition::Exists(field),
            11 => Condition::Exact(self.pick(&["abc", "ABC", "Zoë", "1", ""])),
            12 => {
                let words = ["alpha", "BETA", "gamma", "abc", "zoë"];
                let count = 1 + self.below(2);
                let words = (0..count).map(|_| self.pick(&words)).collect();
                Condition::Search(words, self.below(2) == 0)
            }
            13 => Condition::Lucene(self.lucene(0)),
            14 => Condition::And(nested(self), nested(self)),
            15 => self.two_bounds(field),
            16 | 17 => Condition::Or(nested(self), nested(self)),
            _ => Condition::Not(nested(self)),
        }
    }
}

impl Dice {
    fn filter(&mut self, depth: usize) -> Filter {
        let field = self.field();
        let nested = |dice: &mut Dice| Box::new(dice.filter(depth + 1));
        match self.below(if depth < 2 { 12 } else { 8 }) {
            0..=3 => {
                let sign = self.pick(&["=", "!=", "<", "<=", ">", ">="]);
                Filter::Compare(field, sign, self.literal())
            }
            4 => Filter::In(field, self.list()),
            5 => {
                let (low, high) = (self.bound(), self.bound());
                let alike = std::mem::discriminant(&low) == std::mem::discriminant(&high);
                let high = if alike { high } else { low.clone() };
                Filter::Between(field, low, high)
            }
            6 => Filter::StartsWith(field, self.pick(&["", "a", "AB", "1", "é", "2020-"])),
            7 => Filter::Exists(field),
            8 | 9 => Filter::And(nested(self), nested(self)),
            10 => Filter::Or(nested(self), nested(self)),
            _ => Filter::Not(nested(self)),
        }
    }

    fn lucene(&mut self, depth: usize) -> LuceneGroup {
        let words = ["alpha", "BETA", "gamma", "abc", "zoë"];
        let count = 1 + self.below(3);
        let clauses = (0..count).map(|_| {
            let sign = self.pick(&["", "", "+", "-"]);
            let clause = match self.below(if depth < 2 { 9 } else { 7 }) {
                0..=2 => LuceneClause::Word(self.pick(&words)),
                3 => LuceneClause::Prefix(self.pick(&["a", "AB", "z", "1"])),
                4 => LuceneClause::Wildcard(self.pick(&["a", "B"]), self.pick(&["a", "c", "ta"])),
                5 => {
                    let low = self.pick(&["abc", "b", "1"]);
                    LuceneClause::Range(low, self.pick(&["beta", "c", "zoë"]))
                }
                6 => match self.below(2) {
                    0 => LuceneClause::Pair(self.pick(&words), self.pick(&words)),
                    _ => LuceneClause::Anything,
                },
                _ => LuceneClause::Group(self.lucene(depth + 1)),
            };
            (sign, clause)
        });
        LuceneGroup(clauses.collect())
    }
}

/// The documents, those written last at the end.
type Documents = Vec<(String, Document)>;

fn change(dice: &mut Dice, database: &Database, documents: &mut Documents) {
    let id = format!("users/{}", dice.below(IDS));
    documents.retain(|(known, _)| *known != id);
    if dice.below(5) == 0 {
        database.delete(&id);
        return;
    }
    let document = dice.document();
    let property = |name: &str, value: &Option<Value>| {
        value.as_ref().map(|value| format!("\"{name}\":{}", value.json()))
    };
    let properties: Vec<_> =
        [property("A", &document.a), property("B", &document.b)].into_iter().flatten().collect();
    database.put(&id, "Users", &properties.join(","));
    documents.push((id, document));
}

fn compare(
    dice: &mut Dice,
    database: &Database,
    indexes: &[&Index],
    documents: &Documents,
    seed: u64,
) {
    let condition = dice.condition(0);
    let order = (dice.below(2) == 0)
        .then(|| (dice.field(), dice.pick(&[By::Text, By::Long, By::Double]), dice.below(2) == 0));
    let mut text = format!("from Users where {}", condition.rql());
    let facts = Facts::of(documents.iter().map(|(_, document)| document));
    let mut expected: Vec<_> =
        documents.iter().filter(|(_, document)| document.matches(&condition, facts)).collect();
    if let Some((field, by, descending)) = order {
        let ordering = match by {
            By::Text => "string",
            By::Long => "long",
            By::Double => "double",
        };
        let direction = if descending { " desc" } else { "" };
        text.push_str(&format!(" order by {field} as {ordering}{direction}"));
        expected.sort_by(|(_, left), (_, right)| {
            let value = |document: &Document| -> SortValue { document.sort_value(field, by) };
            let order = value(left).partial_cmp(&value(right)).expect("no number is NaN");
            if descending { order.reverse() } else { order }
        });
    }
    let filter = (dice.below(8) == 0).then(|| dice.filter(0));
    let start = if dice.below(4) == 0 { dice.below(5) } else { 0 };
    let page_size = if dice.below(4) == 0 { dice.below(6) } else { usize::MAX };
    let paging = Paging { start: start as i64, page_size: i64::try_from(page_size).ok() };
    if let Some(filter) = &filter {
        text.push_str(&format!(" filter {}", filter.rql()));
    }
    // A filter scans rows from the start of the page on.
    let passing = expected
        .iter()
        .skip(start)
        .filter(|(_, document)| filter.as_ref().is_none_or(|filter| filter.passes(document)));
    let page: Vec<&str> = passing.take(page_size).map(|(id, _)| id.as_str()).collect();
    for index in indexes {
        let answer = database.ask_index(index, &text, paging);
        let answer = answer.unwrap_or_else(|error| panic!("seed {seed}, {text}: {error}"));
        assert_eq!(answer.ids, page, "seed {seed}, {text}, over {documents:#?}");
        assert_eq!(answer.total, expected.len() as i64, "seed {seed}, {text}");
    }
}

fn definition() -> AutoIndexDefinition {
    let ways = AutoFieldWays { search: true, exact: true, ..AutoFieldWays::default() };
    let a = AutoField { ways, ..AutoField::of_path("A") };
    AutoIndexDefinition::new("Users", [a, AutoField::of_path("B")])
}

#[test]
fn an_index_answers_what_looking_at_every_document_does() {
    for seed in 1..=HISTORIES {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let database = Database::new();
        let following = database.open_index("following", &definition());
        let mut documents = Documents::new();
        for step in 0..STEPS {
            for _ in 0..CHANGES {
                change(&mut dice, &database, &mut documents);
            }
            database.catch_up(&following);
            let fresh = database.open_index(&format!("fresh-{step}"), &definition());
            database.catch_up(&fresh);
            for _ in 0..QUERIES {
                compare(&mut dice, &database, &[&following, &fresh], &documents, seed);
            }
        }
    }
}
