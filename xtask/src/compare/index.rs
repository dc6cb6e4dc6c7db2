//! Random definitions of indexes, in C# and JavaScript, and their terms.

use serde_json::{Value, json};

use super::{
    answers::Shown,
    case::{Case, Dice, Exchange, without_one},
};

const NAME: &str = "Compared";

const CSHARP: &[&str] = &[
    "i.N",
    "i.F",
    "i.S",
    "i.D",
    "i.B",
    "i.T",
    "i.Big",
    "i.Q",
    "i.W",
    "i.A",
    "i.O.X",
    "i.O.Y",
    "i.Missing",
    "i.N + 1",
    "i.N * i.F",
    "i.N / 2",
    "i.N % 3",
    "i.F * 2",
    "i.S.ToUpper()",
    "i.S.Length",
    "i.S + i.N",
    "i.S.Substring(0, 1)",
    "i.S.Split(' ')",
    "i.S.StartsWith(\"r\")",
    "i.S.Contains(\"e\")",
    "i.S.Replace(\"e\", \"3\")",
    "i.A.Length",
    "i.A.Count()",
    "i.A.Select(a => a)",
    "i.A.Where(a => a > 2)",
    "i.A.Any()",
    "i.A.FirstOrDefault()",
    "i.A.Sum(a => (int)a)",
    "i.L.Select(l => l.K)",
    "i.L.Count()",
    "i.N > 3 ? \"more\" : \"less\"",
    "i.W ?? \"none\"",
    "i.Q == null",
    "i.Q + 1",
    "(int)i.F",
    "(double)i.N",
    "Math.Round((double)i.F)",
    "Math.Abs((int)i.N)",
    "LoadDocument(i.R, \"Items\").S",
    "i.O.Y.ToLower()",
    "i.N.ToString()",
    "i.L.Max(l => l.V)",
    "i.S.ToCharArray().Length",
    "string.Join(\"-\", i.A)",
    "new[] { i.S, i.O.Y }",
    "i.R",
    "!i.B",
    "-i.N",
    "i.N == 3",
    "i.D.Year",
    "DateTime.Parse(i.D).Month",
    "i.S.IndexOf(\"e\")",
    "i.S.Trim()",
    "string.IsNullOrEmpty(i.W)",
    "i.A.Distinct().Count()",
    "i.A.OrderBy(a => a).First()",
    "i.A.Contains(2)",
    "i.L.SelectMany(l => l.K)",
];

const JAVASCRIPT: &[&str] = &[
    "i.N",
    "i.F",
    "i.S",
    "i.D",
    "i.B",
    "i.T",
    "i.Big",
    "i.Q",
    "i.W",
    "i.A",
    "i.O.X",
    "i.O.Y",
    "i.Missing",
    "i.N + 1",
    "i.N * i.F",
    "i.N / 2",
    "i.N % 3",
    "i.S.toUpperCase()",
    "i.S.length",
    "i.S + i.N",
    "i.S.substring(0, 1)",
    "i.S.split(' ')",
    "i.S.startsWith('r')",
    "i.A.length",
    "i.A.map(a => a)",
    "i.A.filter(a => a > 2)",
    "i.A[0]",
    "i.L.map(l => l.K)",
    "i.N > 3 ? 'more' : 'less'",
    "i.W || 'none'",
    "i.Q == null",
    "i.Q + 1",
    "Math.round(i.F)",
    "load(i.R, 'Items').S",
    "i.N.toString()",
    "[i.S, i.O.Y]",
    "id(i)",
    "!i.B",
    "-i.N",
    "i.N === 3",
    "new Date(i.D).getFullYear()",
    "i.S.trim()",
    "i.A.includes(2)",
    "i.A.reduce((a, b) => a + b, 0)",
    "i.O",
    "null",
    "i.L.length",
    "1 / 3",
    "i.F.toFixed(1)",
    "getMetadata(i)['@collection']",
];

/// An index with one map.
#[derive(Clone)]
pub(super) struct Index {
    is_script: bool,
    fields: Vec<(String, &'static str)>,
    /// Groups by the first field, and counts.
    reduces: bool,
}

/// Any index.
pub(super) fn any(dice: &mut Dice) -> Index {
    let is_script = dice.once_in(3);
    let expressions = if is_script { JAVASCRIPT } else { CSHARP };
    let field = |dice: &mut Dice, at| {
        let expression = expressions[dice.below(expressions.len() as u64) as usize];
        (format!("X{at}"), expression)
    };
    let count = 1 + dice.below(4);
    let fields = (0..count).map(|at| field(dice, at)).collect();
    Index { is_script, fields, reduces: dice.once_in(4) }
}

impl Index {
    fn names(&self) -> impl Iterator<Item = &str> {
        let of_map = self.fields.iter().map(|(name, _)| name.as_str());
        of_map.take(if self.reduces { 1 } else { usize::MAX })
    }

    fn definition(&self) -> Value {
        let separator = if self.is_script { ": " } else { " = " };
        let mut fields: Vec<_> =
            self.fields.iter().map(|(name, value)| format!("{name}{separator}{value}")).collect();
        if self.reduces {
            fields.truncate(1);
            fields.push(format!("Count{separator}1"));
        }
        let fields = fields.join(", ");
        let map = match self.is_script {
            true => format!("map('Items', i => ({{ {fields} }}))"),
            false => format!("from i in docs.Items select new {{ {fields} }}"),
        };
        let reduce = match (self.reduces, self.is_script) {
            (false, _) => Value::Null,
            (true, true) => json!(
                "groupBy(r => r.X0).aggregate(g => ({ X0: g.key, Count: g.values.reduce((c, v) => c + v.Count, 0) }))"
            ),
            (true, false) => json!(
                "from r in results group r by r.X0 into g select new { X0 = g.Key, Count = g.Sum(r => r.Count) }"
            ),
        };
        json!({"Name": NAME, "Maps": [map], "Reduce": reduce})
    }
}

impl Case for Index {
    fn kind(&self) -> &'static str {
        "indexes"
    }

    fn text(&self) -> String {
        let Value::Object(definition) = self.definition() else { return String::new() };
        let reduce = definition["Reduce"].as_str().map(|text| format!(" reduce {text}"));
        format!(
            "index {}{}",
            definition["Maps"][0].as_str().unwrap_or_default(),
            reduce.unwrap_or_default()
        )
    }

    fn exchanges(&self) -> Vec<Exchange> {
        let get = |path, shown| Exchange { method: "GET", path, body: None, shown };
        let put = json!({"Indexes": [self.definition()]});
        let query = |shown| {
            let text = format!("from index '{NAME}'");
            let body = Some(json!({"Query": text, "WaitForNonStaleResults": true}));
            Exchange { method: "POST", path: "/queries".into(), body, shown }
        };
        let mut exchanges = vec![
            Exchange {
                method: "PUT",
                path: "/admin/indexes".into(),
                body: Some(put),
                shown: Shown::Outcome,
            },
            query(Shown::Nothing),
            get(format!("/indexes/stats?name={NAME}"), Shown::Counted),
        ];
        if self.reduces {
            exchanges.push(query(Shown::InAnyOrder));
        }
        for name in self.names() {
            exchanges.push(get(format!("/indexes/terms?name={NAME}&field={name}"), Shown::Terms));
        }
        exchanges.push(get(format!("/indexes/errors?name={NAME}"), Shown::HasErrors));
        let path = format!("/indexes?name={NAME}");
        exchanges.push(Exchange { method: "DELETE", path, body: None, shown: Shown::Outcome });
        exchanges
    }

    fn smaller(&self) -> Vec<Box<dyn Case>> {
        let mut smaller: Vec<Box<dyn Case>> = Vec::new();
        if self.reduces {
            smaller.push(Box::new(Index { reduces: false, ..self.clone() }));
        }
        for fields in without_one(&self.fields).filter(|fields| !fields.is_empty()) {
            let is_grouped = fields[0].0 == "X0";
            if is_grouped || !self.reduces {
                smaller.push(Box::new(Index { fields, ..self.clone() }));
            }
        }
        smaller
    }
}
