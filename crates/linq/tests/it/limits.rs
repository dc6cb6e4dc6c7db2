//! Budgets and bounds: no definition or document uses unbounded resources.

use std::fmt::Write;

use linq::{
    Budget, DEFINITION_BYTES_MAX, DefinitionErrorKind, EvaluationErrorKind, Map, NESTING_DEPTH_MAX,
    TREE_DEPTH_MAX,
};

use crate::fixture::{Fixture, TestDocument};

const SMALL: Budget = Budget {
    steps_max: 20_000,
    outputs_max: 100,
    memory_bytes_max: 1 << 20,
    sequence_length_max: 1_000,
    string_bytes_max: 10_000,
    content_bytes_max: 1024,
    recurse_length_max: 50,
};

fn kind(text: &str, document: &TestDocument) -> Option<EvaluationErrorKind> {
    let map = Map::compile(text).unwrap();
    let result = map.evaluate(&document.input(), &mut linq::NoHost, &SMALL, &mut |_| {});
    result.err().map(|error| error.kind)
}

#[test]
fn what_takes_more_than_its_budget_is_stopped() {
    let fixture = Fixture::new();
    let loop_of = |inner: &str| {
        format!(
            "from d in docs.Docs from a in Enumerable.Range(0, 1000) {inner} select new {{ a }}"
        )
    };
    let cases = [
        loop_of(""),
        loop_of("from b in Enumerable.Range(0, 1000) where a == b - 2000"),
        "docs.Docs.Select(d => new { X = Enumerable.Range(0, 1001) })".to_owned(),
        "docs.Docs.Select(d => new { X = Enumerable.Repeat(1, int.MaxValue) })".to_owned(),
        "docs.Docs.Select(d => new { X = d.Name.PadLeft(10001) })".to_owned(),
        "docs.Docs.Select(d => new { X = new string('x', 10001) })".to_owned(),
        "docs.Docs.Select(d => new { X = Enumerable.Range(0, 1000).Aggregate(\"ab\", (a, b) => a + a) })".to_owned(),
        "docs.Docs.Select(d => new { X = Enumerable.Range(0, 900).SelectMany(a => Enumerable.Range(0, 900)) })".to_owned(),
        "docs.Docs.Select(d => new { X = Recurse(d, x => new { x }) })".to_owned(),
        "docs.Docs.Select(d => new { X = string.Join(d.Name.PadLeft(900), Enumerable.Range(0, 900)) })".to_owned(),
        "docs.Docs.Select(d => new { X = \"a\".PadLeft(100).Replace(\" \", d.Name.PadLeft(900)) })".to_owned(),
    ];
    for text in cases {
        let got = kind(&text, &fixture.documents[0]);
        assert_eq!(got, Some(EvaluationErrorKind::BudgetExceeded), "{text}");
    }
}

/// What exists at once is bounded, however it is put together; what is gone is not counted.
#[test]
fn what_exists_at_once_is_bounded() {
    let fixture = Fixture::new();
    let budget = Budget::within(1 << 20);
    let lists = "docs.Docs.Select(d => new { X = Enumerable.Range(0, 400).Select(a => Enumerable.Range(0, 400).ToList()).ToList() })";
    let texts = "docs.Docs.Select(d => new { X = Enumerable.Range(0, 400).Select(a => new string('x', 9000)).ToList() })";
    let groups = "from d in docs.Docs from a in Enumerable.Range(0, 400) group new { a, x = Enumerable.Range(0, 400).ToList() } by a into g select new { X = g.Key }";
    let one_after_the_other = "from d in docs.Docs from a in Enumerable.Range(0, 400) select new { X = Enumerable.Range(0, 400).Select(b => new string('x', 900).Length).Count() + a }";
    for (text, fits) in
        [(lists, false), (texts, false), (groups, false), (one_after_the_other, true)]
    {
        let map = Map::compile(text).unwrap();
        let document = fixture.documents[0].input();
        let ended = map.evaluate(&document, &mut linq::NoHost, &budget, &mut |_| {});
        assert_eq!(
            ended.map_err(|error| error.kind).err(),
            (!fits).then_some(EvaluationErrorKind::BudgetExceeded),
            "{text}"
        );
    }
}

#[test]
fn values_are_not_nested_without_end() {
    let fixture = Fixture::new();
    let grow = |step: &str| {
        format!(
            "docs.Docs.Select(d => new {{ X = Enumerable.Range(0, 900).Aggregate(d.Age, (a, b) => {step}) }})"
        )
    };
    let steps = [
        "new { a }",
        "new [] { a, b }",
        "new Dictionary<string, object> { { \"k\", a } }",
        "(a, b)",
        "a.Boost(1)",
        "CreateField(\"f\", a)",
        "CreateSpatialField(a)",
        "new [] { a }.GroupBy(x => x).First()",
        "new [] { a }.Select(x => new { x }).ToDictionary(x => 1)",
    ];
    for step in steps {
        let got = kind(&grow(step), &fixture.documents[0]);
        assert_eq!(got, Some(EvaluationErrorKind::BudgetExceeded), "{step}");
    }
    let wrap = "docs.Docs.Select(d => new { X = Recurse(d, x => new { x }).Count() })";
    let map = Map::compile(wrap).unwrap();
    let result = map.evaluate(
        &fixture.documents[0].input(),
        &mut linq::NoHost,
        &Budget::default(),
        &mut |_| {},
    );
    assert_eq!(result.unwrap_err().kind, EvaluationErrorKind::BudgetExceeded);
}

#[test]
fn copying_long_texts_again_and_again_is_stopped() {
    let fixture = Fixture::new();
    let text = "docs.Docs.Select(d => new { X = Enumerable.Range(0, 1000).Select(x => d.Name.PadLeft(9000)).Count() })";
    assert_eq!(kind(text, &fixture.documents[0]), Some(EvaluationErrorKind::BudgetExceeded));
}

#[test]
fn sorting_numbers_of_all_kinds_yields_some_order() {
    let numbers = [
        "9007199254740993",
        "9007199254740992",
        "9007199254740992.5",
        "1e300",
        "-1e300",
        "0.1",
        "123456789012345678901234567890",
        "1e-300",
        "7",
        "-7.25",
    ];
    let many: Vec<&str> = numbers.iter().cycle().take(500).copied().collect();
    let document = TestDocument::new("n/1", &format!("{{\"N\":[{}]}}", many.join(",")));
    for key in ["x", "x % 5", "(double)x", "(x, 1).Item1", "new { x }"] {
        let text =
            format!("docs.Select(d => new {{ X = d.N.OrderByDescending(x => {key}).First() }})");
        let got = kind(&text, &document);
        let fits = matches!(
            got,
            None | Some(
                EvaluationErrorKind::Overflow
                    | EvaluationErrorKind::NotComparable
                    | EvaluationErrorKind::BudgetExceeded
            )
        );
        assert!(fits, "{key}: {got:?}");
    }
}

#[test]
fn a_pattern_that_backtracks_endlessly_is_abandoned() {
    let fixture = Fixture::new();
    let text = "docs.Docs.Select(d => new { X = Regex.IsMatch(d.Name.PadLeft(5000, 'a'), \"(?=(a+)+$)(a+)+$\") })";
    let got = kind(text, &fixture.documents[0]);
    assert!(matches!(got, Some(EvaluationErrorKind::InvalidArgument) | None), "{got:?}");
}

#[test]
fn the_deepest_definition_that_is_taken_can_be_evaluated() {
    let fixture = Fixture::new();
    let deepest = |make: &dyn Fn(usize) -> String| {
        let depth = (1..400).rev().find(|depth| Map::compile(&make(*depth)).is_ok()).unwrap();
        let map = Map::compile(&make(depth)).unwrap();
        let document = fixture.documents[0].input();
        let mut count = 0;
        map.evaluate(&document, &mut linq::NoHost, &Budget::default(), &mut |_| count += 1)
            .unwrap();
        assert_eq!(count, 1);
        depth
    };
    let wrapped = |body: String| format!("docs.Docs.Select(d => new {{ X = {body} }})");
    let chain = deepest(&|depth| wrapped(format!("1{}", " + 1".repeat(depth))));
    let nested = deepest(&|depth| wrapped(format!("{}1{}", "(".repeat(depth), ")".repeat(depth))));
    let lambdas = deepest(&|depth| {
        let mut body = String::new();
        for level in 0..depth {
            write!(body, "new[] {{ 1 }}.Select(t{level} => ").unwrap();
        }
        wrapped(format!("{body}1{}", ")".repeat(depth)))
    });
    assert!(usize::from(TREE_DEPTH_MAX) / 2 < chain, "{chain}");
    assert!(usize::from(NESTING_DEPTH_MAX) / 2 < nested, "{nested}");
    assert!(8 < lambdas, "{lambdas}");
}

#[test]
fn texts_that_are_too_large_are_refused() {
    let kind = |text: &str| Map::compile(text).unwrap_err().kind;
    assert_eq!(kind(&" ".repeat(DEFINITION_BYTES_MAX + 1)), DefinitionErrorKind::TooLarge);
    let clauses = "let a = d.A ".repeat(10_000);
    assert_eq!(
        kind(&format!("from d in docs {clauses} select new {{ a }}")),
        DefinitionErrorKind::TooLarge
    );
    let filters = "where d.A == 1 ".repeat(1_000);
    assert_eq!(
        kind(&format!("from d in docs {filters} select new {{ d.A }}")),
        DefinitionErrorKind::TooLarge
    );
    let lambdas = "d.A.Select(x => x), ".repeat(5_000);
    let text = format!("from d in docs select new {{ X = new object[] {{ {lambdas} }} }}");
    assert_eq!(kind(&text), DefinitionErrorKind::TooLarge);
}

#[test]
fn documents_nested_deeply_are_walked() {
    let depth = 100;
    let json = format!("{}1{}", "{\"A\":".repeat(depth), "}".repeat(depth));
    let document = TestDocument::new("deep/1", &json);
    let map = Map::compile(
        "docs.Select(d => new { X = Recurse(d, x => x.A).Count(), Y = d.ToString() })",
    )
    .unwrap();
    let mut length = 0;
    map.evaluate(&document.input(), &mut linq::NoHost, &Budget::default(), &mut |output| {
        let Some(linq::Value::Text(text)) = output.get("Y") else { panic!() };
        length = text.len();
    })
    .unwrap_err();
    let map = Map::compile("docs.Select(d => new { Y = d.ToString() })").unwrap();
    map.evaluate(&document.input(), &mut linq::NoHost, &Budget::default(), &mut |output| {
        let Some(linq::Value::Text(text)) = output.get("Y") else { panic!() };
        length = text.len();
    })
    .unwrap();
    assert_eq!(length, json.len());
}
