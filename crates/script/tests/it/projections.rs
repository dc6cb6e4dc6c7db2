//! Expressions over rows, compared with what the real server projected.

use script::{Argument, Budget, Projection, ScriptValue};

use crate::world::{Notes, document, engine};

const ORDER: &str = r#"{"Name":"A","Qty":2,"Price":1.50,"Company":"c/1","Missing":null,
    "Lines":[{"Product":"p/1","Q":1},{"Product":"p/2","Q":2},{"Q":3}],
    "Addr":{"City":"X","Geo":{"Lat":1.0}},"Tags":["a","b"],"When":"2020-01-02T03:04:05.0000000Z",
    "Ids":["c/1","c/zz",null],"L":9007199254740993,"Dbl":1.10,"Dict":{"k1":{"V":1},"k2":{"V":2}},
    "@metadata":{"@collection":"Orders"}}"#;
const NULLS: &str = r#"{"Name":"B","Company":"c/nope","Lines":null}"#;

#[rustfmt::skip]
const PROJECTIONS: &[(&str, &str)] = &[
    ("{ A: o.Name, B: o.Nope, C: null, D: undefined, E: o.Missing }",
        r#"{"A":"A","B":null,"C":null,"D":null,"E":null} {"A":"B","B":null,"C":null,"D":null,"E":null} {"A":null,"B":null,"C":null,"D":null,"E":null}"#),
    ("{ D: new Date(0), N: NaN, I: Infinity, Neg: -1/0, Z: -0, F: 0.1+0.2, I1: 3.0, big: 1e21, small: 1e-7, x: 12345678901234567890, fn: function(){}, b: true, arr: [1,undefined,null], nested: {a:undefined,b:[]} }",
        r#"{"D":"1970-01-01T00:00:00.0000000Z","N":"NaN","I":"Infinity","Neg":"-Infinity","Z":0,"F":0.30000000000000004,"I1":3,"big":1E+21,"small":1E-07,"x":1.2345678901234567E+19,"fn":null,"b":true,"arr":[1,null,null],"nested":{"a":null,"b":[]}}"#),
    ("{ L: o.L, Dbl: o.Dbl, L2: o.L + 1, P: o.Price, PQ: o.Price*o.Qty, W: o.When, Typ: typeof o.L }",
        r#"{"L":9007199254740992,"Dbl":1.1,"L2":9007199254740992,"P":1.5,"PQ":3,"W":"2020-01-02T03:04:05.0000000Z","Typ":"number"}"#),
    ("{ Id: id(o), M: getMetadata(o)['@collection'], LM: lastModified(o) }",
        r#"{"Id":"o/1","M":"Orders","LM":1764143451322.5393}"#),
    ("{ T: this.Name }", r#"{"T":null}"#),
    ("{ X: o.Nope.Deep.Deeper, Y: o.Lines.length }",
        r#"{"X":null,"Y":3} {"X":null,"Y":null} {"X":null,"Y":0}"#),
    ("{ X: o.Lines.map(l => l.Product) }", r#"{"X":["p/1","p/2",null]} {"X":null} {"X":[]}"#),
    ("{ C: load(o.Company).Name, N: load('c/nope'), Z: load(null), L: load(['c/1', 'zz']).map(c => c.Name) }",
        r#"{"C":"Comp","N":null,"Z":null,"L":["Comp",null]} {"C":null,"N":null,"Z":null,"L":["Comp",null]}"#),
    ("{ N: c.Name, C: c ? 1 : 0 }", r#"{"N":"Comp","C":1}"#),
    ("f(o)", r#"{"N":"A","K":5} {"N":"B","K":5}"#),
    ("{ P: $p + 1, Q: $q, R: $nope }", r#"{"P":6,"Q":{"a":[1]},"R":null}"#),
    ("{ a: spatial.distance(0,0,1,1,'kilometers'), s: startsWith('Abc','ab'), e: endsWith('abc','c'), r: regex('abc','^a'), ts: convertJsTimeToTimeSpanString(1000), sc: scalarToRawString(o, x => x.Price) }",
        r#"{"a":157.24181592758822,"s":true,"e":true,"r":true,"ts":"00:00:01","sc":1.50}"#),
    ("{ C: o?.Addr?.City, D: o.Nope ?? 'dflt', T: `x${o.Name}`, }", r#"{"C":"X","D":"dflt","T":"xA"}"#),
    ("{ D: Object.map(o.Dict, (v, k) => k + v.V), K: Object.keys(o.Dict), V: Object.values(o.Dict) }",
        r#"{"D":["k11","k22"],"K":["k1","k2"],"V":[{"V":1},{"V":2}]}"#),
    ("{ M: Raven_Min(1,2), m2: Raven_Max('a','b'), sum: o.Lines.reduce((a,l) => a + l.Q, 0) }",
        r#"{"M":1,"m2":"b","sum":6}"#),
    ("{ c: counter(o,'x'), l: counter(o,'likes'), cr: counterRaw(o,'x'), x: cmpxchg('k'), k: cmpxchg('known') }",
        r#"{"c":null,"l":3,"cr":{},"x":null,"k":{"a":[1]}}"#),
    ("{ I: include(o.Company) }", r#"{"I":null}"#),
    ("{ Name: o.Name, ...o.Addr }", r#"{"Name":"A","City":"X","Geo":{"Lat":1.0}}"#),
    ("{ Addr: o.Addr, Keys: Object.keys(o.Addr), In: 'City' in o.Addr, Own: o.Addr.hasOwnProperty('City') }",
        r#"{"Addr":{"City":"X","Geo":{"Lat":1.0}},"Keys":["City","Geo"],"In":true,"Own":true}"#),
    ("{ T: timeseries(o, 'hr').get('1970-01-01T00:00:01', '1971'), S: timeseries(o, 'hr').getStats(), N: timeseries('x/1', 'none').getStats() }",
        r#"{"T":[{"Timestamp":"1970-01-01T00:00:00.0000000Z","Tag":null,"Values":[1.5,2],"IsRollup":false}],"S":{"Start":"1970-01-01T00:00:00.0000000Z","End":"1970-01-01T00:00:00.0050000Z","Count":2},"N":{"Start":"0001-01-01T00:00:00.0000000Z","End":"0001-01-01T00:00:00.0000000Z","Count":0}}"#),
    ("{ Q: timeSeriesQuery('f', [o, 'x', [1]]).Count }", r#"{"Q":3}"#),
    ("{ D: convertJsTimeToTimeSpanString(86400000*2+3723004), Z: convertJsTimeToTimeSpanString(1.5) }",
        r#"{"D":"2.01:02:03.0040000","Z":"00:00:00.0020000"}"#),
    ("{ A: '{0} b {1}'.format('x'), B: Raven_Min(null, 2), C: Raven_Max(null, 2), D: Raven_Min('a', 2) }",
        r#"{"A":"x b {1}","B":null,"C":2,"D":2}"#),
    ("{ K: spatial.distance(0,0,1,1,'miles'), U: spatial.distance('a',0,1,1) }", r#"{"K":97.70553459517008,"U":null}"#),
    ("{ A: spatial.distance(10,20,30,40,'kilometers'), B: spatial.distance(-33,151,51,0,'miles'), C: spatial.distance(0,0,0,0.001), D: spatial.distance(50,8,50.0001,8,'miles'), E: spatial.distance(0,0,0,180), F: spatial.distance(10,20,30,40,'cartesian') }",
        r#"{"A":3040.4565331853883,"B":10518.052369105604,"C":0.11118958112759114,"D":0.006908811397156102,"E":20014.123860444433,"F":28.284271247461902}"#),
    ("{ L: scalarToRawString(o, x => x.L), P: scalarToRawString(o, x => x.Price), N: scalarToRawString(o, x => x.Name), M: scalarToRawString(o, x => x.Nope), G: scalarToRawString(o, x => x.Addr.Geo.Lat), C: scalarToRawString(o, x => x.L + 1), S: scalarToRawString(o, x => x.L) + 1, T: scalarToRawString(o, x => x.Price) + 1, I: scalarToRawString(o, x => x.Qty), D: scalarToRawString(o.Addr, x => x.Geo.Lat), Two: scalarToRawString(o, x => (x.Price, x.Dbl)) }",
        r#"{"L":9007199254740993,"P":1.50,"N":"A","M":null,"G":1.0,"C":9007199254740992,"S":9007199254740992,"T":"1.501","I":2,"D":1.0,"Two":1.10}"#),
    ("null", "null"),
    ("[{ a: 1 }, { a: 2 }]", r#"[{"a":1},{"a":2}]"#),
];

#[test]
fn projections_yield_what_the_real_server_yields() {
    let engine = engine();
    let company = document("c/1", r#"{"Name":"Comp","Emp":"e/1"}"#);
    for (text, expected) in PROJECTIONS {
        let declared = "function f(o) { return { N: o.Name, K: $p }; }";
        let projection = Projection::new(&["o", "c"], &[declared], text);
        let parameter = |name: &str| match name {
            "p" => Some(ScriptValue::Integer(5)),
            "q" => Some(ScriptValue::Object(vec![(
                "a".into(),
                ScriptValue::Array(vec![ScriptValue::Integer(1)]),
            )])),
            _ => None,
        };
        let bound = projection.bind(&engine, parameter).unwrap();
        let mut host = Notes::default();
        host.documents.insert("c/1".to_owned(), r#"{"Name":"Comp"}"#.to_owned());
        let rows = expected.matches("} {").count() + 1;
        let mut actual = Vec::new();
        for (id, json) in [("o/1", ORDER), ("o/2", NULLS), ("o/3", "{}")].into_iter().take(rows) {
            let arguments =
                [Argument::Document(document(id, json)), Argument::Document(company.clone())];
            let value = bound.evaluate(&arguments, Budget::default(), &mut host).unwrap();
            actual.push(value.to_json().unwrap());
        }
        assert_eq!(actual.join(" "), *expected, "{text}");
    }
}

#[test]
fn several_projections_and_engines_live_side_by_side() {
    let engines = [engine(), engine()];
    let first = Projection::new(&["o"], &[], "{ A: o.Name + $x }");
    let second = Projection::new(&["o", "all"], &[], "{ B: all.map(d => d && d.Name) }");
    for engine in &engines {
        let one = first.bind(engine, |_| Some(ScriptValue::String("1".into()))).unwrap();
        let other = first.bind(engine, |_| Some(ScriptValue::String("2".into()))).unwrap();
        let second = second.bind(engine, |_| None).unwrap();
        let row = document("o/1", ORDER);
        for (bound, expected) in
            [(&one, r#"{"A":"A1"}"#), (&other, r#"{"A":"A2"}"#), (&one, r#"{"A":"A1"}"#)]
        {
            let value = bound.evaluate(
                &[Argument::Document(row.clone())],
                Budget::default(),
                &mut Notes::default(),
            );
            assert_eq!(value.unwrap().to_json().unwrap(), expected);
        }
        let all = Argument::Documents(vec![Some(row.clone()), None]);
        let value = second.evaluate(
            &[Argument::Document(row), all],
            Budget::default(),
            &mut Notes::default(),
        );
        assert_eq!(value.unwrap().to_json().unwrap(), r#"{"B":["A",null]}"#);
    }
}

#[test]
fn a_projection_survives_the_end_of_its_realm() {
    let engine = engine();
    let projection =
        Projection::new(&["o"], &[], "{ A: o.Name, B: o.Big ? 'x'.repeat(2 ** 29) : 0 }");
    let bound = projection.bind(&engine, |_| None).unwrap();
    let row = |json| [Argument::Document(document("o/1", json))];
    let run = |json| bound.evaluate(&row(json), Budget::default(), &mut Notes::default());
    assert!(run(r#"{"Big":true}"#).is_err());
    assert_eq!(run(r#"{"Name":"A"}"#).unwrap().to_json().unwrap(), r#"{"A":"A","B":0}"#);
}
