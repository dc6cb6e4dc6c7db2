//! Random queries, as trees whose parts can be removed.

use serde_json::json;

use super::{
    answers::Shown,
    case::{Case, Dice, Exchange, without_one},
    documents::{COLLECTION, PATHS, SCALARS, id, literal},
};

/// A condition of `where`.
#[derive(Clone)]
enum Condition {
    Leaf(String),
    Not(Box<Condition>),
    /// Two conditions, and the operator between them.
    Both(Box<Condition>, &'static str, Box<Condition>),
}

/// A query. Its results have an order only where `order` is not empty; then they are ordered by the id last.
#[derive(Clone)]
pub(super) struct Query {
    condition: Option<Condition>,
    order: Vec<String>,
    selects: Selects,
    limit: Option<(u64, u64)>,
}

#[derive(Clone)]
enum Selects {
    Documents,
    Fields(Vec<String>),
    Distinct(Vec<String>),
    /// Properties of an object that a script creates from `x`.
    Object(Vec<(String, String)>),
    /// Groups by this field, with these columns.
    Groups(&'static str, Vec<String>),
}

/// Any query.
pub(super) fn any(dice: &mut Dice) -> Query {
    let selects = match dice.below(10) {
        0..=3 => Selects::Documents,
        4..=5 => Selects::Fields(some(dice, 3, field)),
        6 => Selects::Distinct(some(dice, 2, |dice| dice.of(SCALARS).to_owned())),
        7..=8 => Selects::Object(some(dice, 3, property)),
        _ => groups(dice),
    };
    let alias = selects.alias();
    let condition = (!dice.once_in(6)).then(|| condition(dice, alias, 2));
    let is_ordered =
        matches!(selects, Selects::Documents | Selects::Fields(_) | Selects::Object(_))
            && dice.once_in(2);
    let order = match is_ordered {
        true => some(dice, 2, |dice| ordering(dice, alias)),
        false => Vec::new(),
    };
    let limit = (is_ordered && dice.once_in(2)).then(|| (dice.below(6), dice.below(8)));
    Query { condition, order, selects, limit }
}

/// One to `most` of them.
fn some<T>(dice: &mut Dice, most: u64, mut one: impl FnMut(&mut Dice) -> T) -> Vec<T> {
    (0..=dice.below(most)).map(|_| one(dice)).collect()
}

impl Selects {
    /// The alias of documents, with a dot.
    fn alias(&self) -> &'static str {
        if matches!(self, Selects::Object(_)) { "x." } else { "" }
    }
}

fn field(dice: &mut Dice) -> String {
    let path = dice.of(PATHS);
    match dice.below(4) {
        0 => format!("{path} as Named{}", dice.below(3)),
        1 => "id() as Id".to_owned(),
        _ => path.to_owned(),
    }
}

fn groups(dice: &mut Dice) -> Selects {
    let by = dice.of(&["S", "N", "O.Y", "W", "B"]);
    let by = ["S", "N", "O.Y", "W", "B"].into_iter().find(|name| *name == by).unwrap_or("S");
    let mut columns = vec!["key() as Key".to_owned()];
    if dice.once_in(2) {
        columns.push("count() as Count".to_owned());
    }
    if dice.once_in(2) {
        columns.push(format!("sum({}) as Sum", dice.of(&["N", "O.X", "Q"])));
    }
    Selects::Groups(by, columns)
}

const EXPRESSIONS: &[&str] = &[
    "x.{}",
    "x.N + x.F",
    "x.S + x.N",
    "x.S.length",
    "x.A.length",
    "x.A.map(a => a * 2)",
    "x.A.filter(a => a > 2)",
    "x.L.map(l => l.K)",
    "x.O.X * x.F",
    "x.Q == null",
    "x.Missing === undefined",
    "id(x)",
    "x.D.substring(0, 4)",
    "new Date(x.D).getFullYear()",
    "x.S.toUpperCase()",
    "x.S.split(' ')",
    "x.W || 'none'",
    "load(x.R).S",
    "x.A.reduce((a, b) => a + b, 0)",
    "Math.round(x.F)",
    "x.F / 3",
    "x.N % 3",
    "x.N > 2 ? 'more' : 'less'",
    "getMetadata(x)['@collection']",
    "JSON.stringify(x.O)",
    "Object.keys(x.O)",
    "x.Big",
    "x.Big + 1",
    "typeof x.Q",
    "x.A.indexOf(2)",
    "x.S.localeCompare('red')",
    "x.T",
    "[x.N, x.S]",
    "{ In: x.N }",
    "x.A.some(a => a == 1)",
    "x.L.length > 0 ? x.L[0].V : -1",
    "String(x.F)",
    "Number(x.S)",
    "parseInt(x.S)",
    "x.S.replace('e', '3')",
    "x.F.toFixed(2)",
    "x.N.toString()",
    "x",
    "x.O",
    "null",
    "x.A[0]",
    "x.A[9]",
];

fn property(dice: &mut Dice) -> (String, String) {
    let template = dice.of(EXPRESSIONS);
    let expression = dice.fill(template, |dice| path_in_script(dice.of(PATHS)));
    (format!("P{}", dice.below(100)), expression)
}

/// A path as scripts write it: arrays are values there.
fn path_in_script(path: &str) -> String {
    path.split("[]").next().unwrap_or(path).to_owned()
}

fn ordering(dice: &mut Dice, alias: &str) -> String {
    let kind = dice.of(&["N as long", "F as double", "S", "D", "N as double", "S as alphanumeric"]);
    let direction = dice.of(&["", " desc"]);
    format!("{alias}{kind}{direction}")
}

fn condition(dice: &mut Dice, alias: &str, depth: u64) -> Condition {
    match dice.below(6) {
        0 if 0 < depth => Condition::Not(Box::new(condition(dice, alias, depth - 1))),
        1..=2 if 0 < depth => {
            let word = if dice.once_in(2) { "and" } else { "or" };
            let (one, other) =
                (condition(dice, alias, depth - 1), condition(dice, alias, depth - 1));
            Condition::Both(Box::new(one), word, Box::new(other))
        }
        _ => Condition::Leaf(leaf(dice, alias)),
    }
}

fn leaf(dice: &mut Dice, alias: &str) -> String {
    let path = dice.of(PATHS);
    let name = format!("{alias}{path}");
    let value = literal(dice, path);
    let other = literal(dice, path);
    let word = dice.of(&["red", "fox", "the fox", "RED", "gr*", "blue red", "a-b", "*ee*"]);
    let start = dice.of(&["r", "R", "gre", "über", "", "1", "the "]);
    match dice.below(16) {
        0..=5 => format!("{name} {} {value}", dice.of(&["=", "!=", "<", "<=", ">", ">="])),
        6 => format!("{name} between {value} and {other}"),
        7 => format!("{name} in ({value}, {other})"),
        8 => format!("{alias}{} all in ({}, {})", "A", dice.below(4), dice.below(4)),
        9 => format!("startsWith({alias}{}, '{start}')", dice.of(&["S", "W", "O.Y", "L[].K"])),
        10 => format!("endsWith({alias}{}, '{start}')", dice.of(&["S", "W", "O.Y"])),
        11 => format!("search({alias}{}, '{word}')", dice.of(&["S", "W", "O.Y", "L[].K"])),
        12 => format!("exists({name})"),
        13 => format!("exact({alias}{} = {value})", dice.of(&["S", "W", "O.Y"])),
        14 => format!("id() {} '{}'", dice.of(&["=", "!="]), id(dice)),
        _ => format!("startsWith(id(), 'items/{}')", dice.below(5)),
    }
}

impl Condition {
    fn text(&self) -> String {
        match self {
            Condition::Leaf(text) => text.clone(),
            Condition::Not(inner) => format!("true and not ({})", inner.text()),
            Condition::Both(one, word, other) => {
                format!("({}) {word} ({})", one.text(), other.text())
            }
        }
    }

    fn smaller(&self) -> Vec<Condition> {
        match self {
            Condition::Leaf(_) => Vec::new(),
            Condition::Not(inner) => {
                let not = |inner| Condition::Not(Box::new(inner));
                std::iter::once((**inner).clone())
                    .chain(inner.smaller().into_iter().map(not))
                    .collect()
            }
            Condition::Both(one, word, other) => {
                let mut smaller = vec![(**one).clone(), (**other).clone()];
                smaller.extend(
                    one.smaller()
                        .into_iter()
                        .map(|one| Condition::Both(Box::new(one), word, other.clone())),
                );
                smaller.extend(
                    other
                        .smaller()
                        .into_iter()
                        .map(|other| Condition::Both(one.clone(), word, Box::new(other))),
                );
                smaller
            }
        }
    }
}

impl Query {
    fn rql(&self) -> String {
        let mut text = format!("from '{COLLECTION}'");
        match &self.selects {
            Selects::Object(_) => text.push_str(" as x"),
            Selects::Groups(by, _) => text.push_str(&format!(" group by {by}")),
            Selects::Documents | Selects::Fields(_) | Selects::Distinct(_) => {}
        }
        if let (Some(condition), false) =
            (&self.condition, matches!(self.selects, Selects::Groups(..)))
        {
            text.push_str(&format!(" where {}", condition.text()));
        }
        if !self.order.is_empty() {
            text.push_str(&format!(" order by {}, id()", self.order.join(", ")));
        }
        match &self.selects {
            Selects::Documents => {}
            Selects::Fields(fields) => text.push_str(&format!(" select {}", fields.join(", "))),
            Selects::Distinct(fields) => {
                text.push_str(&format!(" select distinct {}", fields.join(", ")));
            }
            Selects::Object(properties) => {
                let properties: Vec<_> =
                    properties.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                text.push_str(&format!(" select {{ {} }}", properties.join(", ")));
            }
            Selects::Groups(_, columns) => {
                text.push_str(&format!(" select {}", columns.join(", ")))
            }
        }
        if let Some((start, count)) = self.limit {
            text.push_str(&format!(" limit {start}, {count}"));
        }
        text
    }
}

impl Case for Query {
    fn kind(&self) -> &'static str {
        "queries"
    }

    fn text(&self) -> String {
        self.rql()
    }

    fn exchanges(&self) -> Vec<Exchange> {
        let body = json!({"Query": self.rql(), "WaitForNonStaleResults": true});
        let shown = match &self.selects {
            Selects::Distinct(_) => Shown::Values,
            _ if self.order.is_empty() => Shown::InAnyOrder,
            _ => Shown::All,
        };
        vec![Exchange { method: "POST", path: "/queries".to_owned(), body: Some(body), shown }]
    }

    fn smaller(&self) -> Vec<Box<dyn Case>> {
        let mut smaller = Vec::new();
        let mut add = |query: Query| smaller.push(Box::new(query) as Box<dyn Case>);
        if let Some(condition) = &self.condition {
            add(Query { condition: None, ..self.clone() });
            for condition in condition.smaller() {
                add(Query { condition: Some(condition), ..self.clone() });
            }
        }
        if self.limit.is_some() {
            add(Query { limit: None, ..self.clone() });
        }
        if !self.order.is_empty() && self.limit.is_none() {
            add(Query { order: Vec::new(), ..self.clone() });
        }
        for order in without_one(&self.order).filter(|order| !order.is_empty()) {
            add(Query { order, ..self.clone() });
        }
        let fewer: Vec<Selects> = match &self.selects {
            Selects::Documents => Vec::new(),
            Selects::Fields(fields) => {
                let fewer = without_one(fields).filter(|fields| !fields.is_empty());
                std::iter::once(Selects::Documents).chain(fewer.map(Selects::Fields)).collect()
            }
            Selects::Distinct(fields) => {
                let fewer = without_one(fields).filter(|fields| !fields.is_empty());
                fewer.map(Selects::Distinct).collect()
            }
            Selects::Object(properties) => {
                let fewer = without_one(properties).filter(|properties| !properties.is_empty());
                fewer.map(Selects::Object).collect()
            }
            Selects::Groups(by, columns) => {
                let fewer = without_one(columns).filter(|columns| !columns.is_empty());
                fewer.map(|columns| Selects::Groups(by, columns)).collect()
            }
        };
        fewer.into_iter().for_each(|selects| add(Query { selects, ..self.clone() }));
        smaller
    }
}
