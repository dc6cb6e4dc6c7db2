//! Generated definitions against naive evaluators, and texts that must not make anything panic.

use linq::{Budget, EvaluationErrorKind, Map, NoHost, Output, Reduce, Value};
use proptest::prelude::*;

use crate::fixture::{Fixture, TestDocument, json};

const SMALL: Budget = Budget {
    steps_max: 20_000,
    outputs_max: 1_000,
    memory_bytes_max: 1 << 20,
    sequence_length_max: 10_000,
    string_bytes_max: 100_000,
    content_bytes_max: 1024,
    recurse_length_max: 1_000,
};

/// An expression over the integers `A` and `B` of a document, and its expected value.
#[derive(Clone, Debug)]
enum Arithmetic {
    A,
    B,
    Missing,
    Literal(i64),
    Binary(Box<Arithmetic>, &'static str, Box<Arithmetic>),
    Choice(Box<Arithmetic>, &'static str, Box<Arithmetic>, Box<Arithmetic>, Box<Arithmetic>),
    Coalesce(Box<Arithmetic>, Box<Arithmetic>),
    Negated(Box<Arithmetic>),
}

fn arithmetic() -> impl Strategy<Value = Arithmetic> {
    let leaf = prop_oneof![
        Just(Arithmetic::A),
        Just(Arithmetic::B),
        Just(Arithmetic::Missing),
        (-9_i64..=9).prop_map(Arithmetic::Literal),
        any::<i32>().prop_map(|value| Arithmetic::Literal(i64::from(value))),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed(), prop::sample::select(&["+", "-", "*", "/", "%"][..]), boxed())
                .prop_map(|(left, sign, right)| Arithmetic::Binary(left, sign, right)),
            (boxed(), prop::sample::select(&["<", "<=", ">", ">="][..]), boxed(), boxed(), boxed())
                .prop_map(|(l, sign, r, yes, no)| Arithmetic::Choice(l, sign, r, yes, no)),
            (boxed(), boxed()).prop_map(|(left, right)| Arithmetic::Coalesce(left, right)),
            boxed().prop_map(Arithmetic::Negated),
        ]
    })
}

impl Arithmetic {
    fn text(&self) -> String {
        match self {
            Arithmetic::A => "d.A".to_owned(),
            Arithmetic::B => "d.B".to_owned(),
            Arithmetic::Missing => "d.Nope".to_owned(),
            Arithmetic::Literal(value) if *value < 0 => format!("({value})"),
            Arithmetic::Literal(value) => value.to_string(),
            Arithmetic::Binary(left, sign, right) => {
                format!("({} {sign} {})", left.text(), right.text())
            }
            Arithmetic::Choice(left, sign, right, yes, no) => format!(
                "({} {sign} {} ? {} : {})",
                left.text(),
                right.text(),
                yes.text(),
                no.text()
            ),
            Arithmetic::Coalesce(left, right) => format!("({} ?? {})", left.text(), right.text()),
            Arithmetic::Negated(inner) => format!("(-{})", inner.text()),
        }
    }

    /// `None` is what is missing.
    fn value(&self, a: i64, b: i64) -> Result<Option<i64>, EvaluationErrorKind> {
        Ok(match self {
            Arithmetic::A => Some(a),
            Arithmetic::B => Some(b),
            Arithmetic::Missing => None,
            Arithmetic::Literal(value) => Some(*value),
            Arithmetic::Negated(inner) => Some(inner.value(a, b)?.unwrap_or(0).wrapping_neg()),
            Arithmetic::Coalesce(left, right) => match left.value(a, b)? {
                Some(value) => Some(value),
                None => right.value(a, b)?,
            },
            Arithmetic::Choice(left, sign, right, yes, no) => {
                let holds = match (left.value(a, b)?, right.value(a, b)?) {
                    (Some(left), Some(right)) => match *sign {
                        "<" => left < right,
                        "<=" => left <= right,
                        ">" => left > right,
                        _ => left >= right,
                    },
                    _ => false,
                };
                if holds { yes.value(a, b)? } else { no.value(a, b)? }
            }
            Arithmetic::Binary(left, sign, right) => {
                match (left.value(a, b)?, *sign, right.value(a, b)?) {
                    (None, _, _) => None,
                    (Some(_), "/" | "%", None | Some(0)) => {
                        return Err(EvaluationErrorKind::DivideByZero);
                    }
                    (Some(i64::MIN), "/" | "%", Some(-1)) => {
                        return Err(EvaluationErrorKind::Overflow);
                    }
                    (Some(_), "*", None) => Some(0),
                    (Some(left), _, None) => Some(left),
                    (Some(left), sign, Some(right)) => Some(match sign {
                        "+" => left.wrapping_add(right),
                        "-" => left.wrapping_sub(right),
                        "*" => left.wrapping_mul(right),
                        "/" => left / right,
                        _ => left % right,
                    }),
                }
            }
        })
    }
}

/// A step of a query over integers.
#[derive(Clone, Debug)]
enum Step {
    Above(i64),
    Times(i64),
    Twice,
    Distinct,
    Skip(usize),
    Take(usize),
    Reverse,
    Sorted,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (-5_i64..5).prop_map(Step::Above),
        (-3_i64..4).prop_map(Step::Times),
        Just(Step::Twice),
        Just(Step::Distinct),
        (0_usize..4).prop_map(Step::Skip),
        (0_usize..6).prop_map(Step::Take),
        Just(Step::Reverse),
        Just(Step::Sorted),
    ]
}

impl Step {
    fn text(&self) -> String {
        match self {
            Step::Above(least) => format!(".Where(x => x > {least})"),
            Step::Times(factor) => format!(".Select(x => x * {factor})"),
            Step::Twice => ".SelectMany(x => new[] { x, x })".to_owned(),
            Step::Distinct => ".Distinct()".to_owned(),
            Step::Skip(count) => format!(".Skip({count})"),
            Step::Take(count) => format!(".Take({count})"),
            Step::Reverse => ".Reverse()".to_owned(),
            Step::Sorted => ".OrderByDescending(x => x).ThenBy(x => x).AsEnumerable()".to_owned(),
        }
    }

    fn apply(&self, mut items: Vec<i64>) -> Vec<i64> {
        match self {
            Step::Above(least) => items.retain(|item| item > least),
            Step::Times(factor) => items.iter_mut().for_each(|item| *item *= factor),
            Step::Twice => items = items.iter().flat_map(|item| [*item, *item]).collect(),
            Step::Distinct => {
                let mut seen = Vec::new();
                items.retain(|item| {
                    let is_new = !seen.contains(item);
                    seen.push(*item);
                    is_new
                });
            }
            Step::Skip(count) => drop(items.drain(..(*count).min(items.len()))),
            Step::Take(count) => items.truncate(*count),
            Step::Reverse => items.reverse(),
            Step::Sorted => items.sort_by(|left, right| right.cmp(left)),
        }
        items
    }

    /// The step as a clause of a query, when it is one that keeps to single rows.
    fn clause(&self, index: usize) -> Option<String> {
        let (from, to) = (format!("x{index}"), format!("x{}", index + 1));
        match self {
            Step::Above(least) => Some(format!("where {from} > {least} let {to} = {from}")),
            Step::Times(factor) => Some(format!("let {to} = {from} * {factor}")),
            Step::Twice => Some(format!("from {to} in new[] {{ {from}, {from} }}")),
            _ => None,
        }
    }

    /// The same as a call on the whole query.
    fn call(&self, index: usize) -> Option<String> {
        let (from, to) = (format!("t{index}"), format!("t{}", index + 1));
        match self {
            Step::Above(least) => Some(format!(".Where({from} => {from}.x > {least})")),
            Step::Times(factor) => {
                Some(format!(".Select({from} => new {{ {from}, x = {from}.x * {factor} }})"))
            }
            Step::Twice => Some(format!(
                ".SelectMany({from} => new[] {{ {from}.x, {from}.x }}, ({from}, {to}) => new {{ {from}, x = {to} }})"
            )),
            _ => None,
        }
    }
}

fn integers(text: &str, document: &TestDocument) -> Result<Vec<String>, EvaluationErrorKind> {
    let map = Map::compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut shown = Vec::new();
    map.evaluate(&document.input(), &mut NoHost, &Budget::default(), &mut |output| {
        shown.push(match output.get("X") {
            Some(Value::Missing) => "missing".to_owned(),
            Some(value) => json(value),
            None => String::new(),
        });
    })
    .map_err(|error| error.kind)?;
    Ok(shown)
}

fn array_document(items: &[i64]) -> TestDocument {
    TestDocument::new("n/1", &format!("{{\"N\":{items:?}}}"))
}

/// Compiles and, when it compiles, evaluates; the results do not matter.
fn try_everything(text: &str, fixture: &Fixture) {
    let ignore = &mut |output: Output<'_, '_>| {
        output.fields().for_each(|(_, value)| drop(json(value)));
    };
    if let Ok(map) = Map::compile(text) {
        let _ = map.fields().count();
        let _ = map.referenced_collections();
        for document in &fixture.documents {
            let _ = map.evaluate(&document.input(), &mut fixture.host(), &SMALL, ignore);
        }
    }
    if let Ok(reduce) = Reduce::compile(text) {
        let mut items = fixture.documents.iter().map(|document| document.body.as_view().root());
        let _ = reduce.evaluate(&mut items, &SMALL, ignore);
    }
}

/// Pieces of definitions to shuffle.
const PIECES: [&str; 70] = [
    "from",
    " d ",
    "in",
    "docs",
    ".Docs",
    "select",
    "new",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "=>",
    "=",
    ".",
    ",",
    "?",
    ":",
    "??",
    "?.",
    "!",
    "&&",
    "||",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    ">",
    "==",
    "1",
    "2.5",
    "3m",
    "\"a\"",
    "'c'",
    "$\"{d.A:F2}\"",
    "null",
    "true",
    "d.Name",
    "d.Age",
    "d.Lines",
    "d.Date",
    "x",
    ".Select(",
    ".Where(",
    ".Sum(",
    ".First()",
    ".ToString(",
    ".Length",
    "where",
    "let",
    "group",
    "by",
    "into",
    "orderby",
    "(int)",
    "(double?)",
    "is",
    "as",
    "typeof(",
    "Enumerable.",
    "Math.Round(",
    "string.Format(",
    "LoadDocument(",
    "Recurse(d, x => ",
    "Regex.",
    "results",
    ".GroupBy(",
];

const TABLES: [&str; 3] = [
    include_str!("definitions.txt"),
    include_str!("measured_definitions.txt"),
    include_str!("expressions.txt"),
];

fn known_texts() -> Vec<String> {
    let lines = TABLES.iter().flat_map(|table| table.lines());
    let texts =
        lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split('\t').next());
    texts
        .flat_map(|text| text.split(" ||| "))
        .map(|text| match text.starts_with(['f', 'd', 'r', 't', 'c']) && text.contains("select") {
            true => text.to_owned(),
            false => format!("docs.Docs.Select(d => new {{ X = {text} }})"),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arithmetic_agrees_with_a_naive_evaluator(
        expression in arithmetic(),
        a in any::<i64>(),
        b in -20_i64..20,
    ) {
        let document = TestDocument::new("a/1", &format!("{{\"A\":{a},\"B\":{b}}}"));
        let text = format!("docs.Select(d => new {{ X = {} }})", expression.text());
        let got = integers(&text, &document).map(|mut shown| shown.remove(0));
        let expected = expression
            .value(a, b)
            .map(|value| value.map_or("missing".to_owned(), |value| value.to_string()));
        prop_assert_eq!(got, expected, "{}", text);
    }

    #[test]
    fn sequences_agree_with_a_naive_evaluator(
        items in prop::collection::vec(-9_i64..10, 0..12),
        steps in prop::collection::vec(step(), 0..7),
    ) {
        let document = array_document(&items);
        let calls: String = steps.iter().map(Step::text).collect();
        let expected = steps.iter().fold(items, |items, step| step.apply(items));
        let shown = |text: String| integers(&text, &document);
        let whole = format!("docs.Select(d => new {{ X = d.N{calls}.ToArray() }})");
        let joined: Vec<String> = expected.iter().map(i64::to_string).collect();
        prop_assert_eq!(shown(whole.clone()), Ok(vec![format!("[{}]", joined.join(","))]), "{}", whole);
        let sum: i64 = expected.iter().sum();
        let text = format!("docs.Select(d => new {{ X = d.N{calls}.Sum(x => (long)x) }})");
        prop_assert_eq!(shown(text), Ok(vec![sum.to_string()]));
        let text = format!("docs.Select(d => new {{ X = Enumerable.Max(d.N{calls}, x => x) }})");
        let greatest = expected.iter().max().map_or("null".to_owned(), i64::to_string);
        prop_assert_eq!(shown(text), Ok(vec![greatest]));
        let text = format!("from d in docs from x in d.N{calls} select new {{ X = x }}");
        if !calls.ends_with("AsEnumerable()") {
            prop_assert_eq!(shown(text), Ok(joined));
        }
    }

    #[test]
    fn both_syntaxes_say_the_same(
        items in prop::collection::vec(-9_i64..10, 0..10),
        steps in prop::collection::vec(step(), 0..7),
    ) {
        let document = array_document(&items);
        let steps: Vec<Step> = steps.into_iter().filter(|step| step.clause(0).is_some()).collect();
        let clauses: Vec<String> =
            steps.iter().enumerate().filter_map(|(index, step)| step.clause(index)).collect();
        let calls: String =
            steps.iter().enumerate().filter_map(|(index, step)| step.call(index)).collect();
        let count = steps.len();
        let expected = steps.iter().fold(items, |items, step| step.apply(items));
        let expected: Vec<String> = expected.iter().map(i64::to_string).collect();
        let query = format!("from d in docs from x0 in d.N {} select new {{ X = x{count} }}", clauses.join(" "));
        prop_assert_eq!(integers(&query, &document), Ok(expected.clone()), "{}", query);
        let chain = format!(
            "docs.SelectMany(d => d.N, (d, x) => new {{ d, x }}){calls}.Select(z => new {{ X = z.x }})"
        );
        prop_assert_eq!(integers(&chain, &document), Ok(expected.clone()), "{}", chain);
        let nested = format!(
            "docs.Select(d => new {{ X = from x0 in d.N {} select x{count} }})", clauses.join(" ")
        );
        let whole = format!("[{}]", expected.join(","));
        prop_assert_eq!(integers(&nested, &document), Ok(vec![whole]), "{}", nested);
    }

    #[test]
    fn groups_hold_what_a_naive_grouping_holds(
        items in prop::collection::vec(-9_i64..10, 0..20),
        modulus in 1_i64..5,
    ) {
        let document = array_document(&items);
        let mut groups: Vec<(i64, i64)> = Vec::new();
        for item in &items {
            let key = item % modulus;
            match groups.iter_mut().find(|(own, _)| *own == key) {
                Some((_, sum)) => *sum += item,
                None => groups.push((key, *item)),
            }
        }
        let expected: Vec<String> =
            groups.iter().map(|(key, sum)| (key * 1000 + sum).to_string()).collect();
        let texts = [
            format!("from d in docs from x in d.N group x by x % {modulus} into g select new {{ X = g.Key * 1000 + g.Sum(x => (long)x) }}"),
            format!("from d in docs from g in d.N.GroupBy(x => x % {modulus}) select new {{ X = g.Key * 1000 + g.Sum(x => (long)x) }}"),
        ];
        for text in texts {
            prop_assert_eq!(integers(&text, &document), Ok(expected.clone()), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_anything_panic(text in "\\PC{0,120}") {
        try_everything(&text, &Fixture::new());
    }

    #[test]
    fn no_shuffled_definition_makes_anything_panic(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40),
    ) {
        let fixture = Fixture::new();
        try_everything(&pieces.concat(), &fixture);
        try_everything(&format!("docs.Docs.Select(d => new {{ X = {} }})", pieces.join(" ")), &fixture);
    }

    #[test]
    fn no_damaged_definition_makes_anything_panic(
        text in prop::sample::select(known_texts()),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(&PIECES[..])), 1..4),
    ) {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, removed, inserted) in cuts {
            let place = place.index(characters.len() + 1);
            let end = (place + removed).min(characters.len());
            characters.splice(place..end, inserted.chars());
        }
        try_everything(&characters.into_iter().collect::<String>(), &Fixture::measured());
    }

    #[test]
    fn no_mixture_of_expressions_makes_anything_panic(
        parts in prop::collection::vec(prop::sample::select(known_expressions()), 2..4),
        sign in prop::sample::select(&["+", "-", "*", "/", "==", "<", "&&", "??", ".Equals", "is"][..]),
    ) {
        let fixture = Fixture::measured();
        let joined = parts.iter().map(|part| format!("({part})")).collect::<Vec<_>>().join(sign);
        try_everything(&format!("docs.Docs.Select(d => new {{ X = {joined} }})"), &fixture);
        let nested = format!("({}).Select(x => {})", parts[0], parts[1]);
        try_everything(&format!("docs.Docs.Select(d => new {{ X = {nested} }})"), &fixture);
    }
}

fn known_expressions() -> Vec<String> {
    let lines = TABLES[2].lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}
