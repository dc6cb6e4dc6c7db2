//! Random patches of one document, as dry runs that store nothing, so that they can be shrunk.

use serde_json::json;

use super::{
    answers::Shown,
    case::{Case, Dice, Exchange, without_one},
    documents::{SCALARS, id, literal},
};

const STATEMENTS: &[&str] = &[
    "this.X = {};",
    "this.N = this.N + {};",
    "this.F *= 3;",
    "delete this.S;",
    "this.A.push({});",
    "this.A.sort();",
    "this.A = this.A.map(a => a + 1);",
    "this.A = this.A.filter(a => a != 2);",
    "this.O.Z = {};",
    "this.New = this.L;",
    "this.S = this.S.toUpperCase();",
    "this.S += ' and more';",
    "this.Len = this.S.length;",
    "this.Q = this.Q + 1;",
    "if (this.Q == null) this.Q = 'none';",
    "for (const l of this.L) { l.V++; }",
    "this.Keys = Object.keys(this.O);",
    "this.Loaded = load(this.R);",
    "const d = load('items/3'); if (d) this.FromOther = d.S;",
    "this.D2 = new Date(this.D);",
    "this.Sum = this.A.reduce((a, b) => a + b, 0);",
    "this.Id = id(this);",
    "put('others/1', { From: id(this), N: this.N });",
    "del('items/2');",
    "output(this.N, this.S);",
    "output(this.O);",
    "this.Text = JSON.stringify(this.O);",
    "this.Parsed = JSON.parse('{\"a\":[1,2.5,null]}');",
    "this.Big = this.Big + 1;",
    "this.Half = this.N / 2;",
    "this.Round = Math.round(this.F);",
    "this.Fixed = this.F.toFixed(2);",
    "this.NaN = Number(this.S);",
    "this.Inf = 1 / 0;",
    "this.Undef = undefined;",
    "this.Same = this.N === 3;",
    "this.Type = typeof this.Missing;",
    "this.M = getMetadata(this)['@collection'];",
    "this.Words = this.S.split(' ');",
    "this.A.length = 1;",
    "this.Nested = { a: { b: [ { c: this.N } ] } };",
    "this.Map = [...new Map([['k', 1]]).entries()];",
    "this.Rx = this.S.replace(/e/g, '3');",
    "this.T2 = this.T;",
    "try { nope(); } catch (e) { this.Caught = true; }",
    "this.Sorted = [...this.A].sort((a, b) => b - a);",
    "this.Includes = this.A.includes(1);",
    "var x = {}; this.V = x;",
    "this['@metadata']['Mine'] = {};",
    "this.Copy = Object.assign({}, this.O);",
    "this.S = this.S.trim().substring(1, 3);",
    "this.Cmp = this.S < 'green';",
    "this.Date3 = new Date(Date.UTC(2020, 1, 2)).toISOString();",
    "this.Str = '' + this.F;",
    "this.Exp = 1e21;",
    "this.Small = 1e-7;",
    "this.Neg = -0;",
    "this.Hex = 0xff;",
    "this.Bits = this.N & 3;",
    "this.Pow = 2 ** 40;",
    "this.Mod = -7 % 3;",
    "throw 'no';",
    "nope.length;",
    "this.A[10] = 1;",
];

/// A script over one document.
#[derive(Clone)]
pub(super) struct Patch {
    id: String,
    statements: Vec<String>,
}

/// Any patch.
pub(super) fn any(dice: &mut Dice) -> Patch {
    let statement = |dice: &mut Dice| {
        let template = dice.of(STATEMENTS);
        // Values are between braces that are not objects.
        if template.contains("= {};") || template.contains("({})") || template.contains("+ {};") {
            return dice.fill(template, |dice| {
                let path = dice.of(SCALARS);
                literal(dice, path)
            });
        }
        template.to_owned()
    };
    let statements = (0..=dice.below(3)).map(|_| statement(dice)).collect();
    Patch { id: id(dice), statements }
}

impl Case for Patch {
    fn kind(&self) -> &'static str {
        "patches"
    }

    fn text(&self) -> String {
        format!("patch of {}: {}", self.id, self.statements.join(" "))
    }

    fn exchanges(&self) -> Vec<Exchange> {
        let script = self.statements.join("\n");
        let body = json!({"Patch": {"Script": script, "Values": {}}});
        let path = format!("/docs?id={}&test=true", self.id);
        vec![Exchange { method: "PATCH", path, body: Some(body), shown: Shown::All }]
    }

    fn smaller(&self) -> Vec<Box<dyn Case>> {
        let fewer = without_one(&self.statements).filter(|statements| !statements.is_empty());
        fewer.map(|statements| Box::new(Patch { statements, ..self.clone() }) as _).collect()
    }
}
