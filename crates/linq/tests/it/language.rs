//! What the tables do not cover: sources, the host, errors and their places, definitions of
//! clients.

use std::error::Error;

use blittable::{BlittableBuf, ObjectBuilder, ParseLimits, parse_document};
use linq::{
    Budget, CounterInput, CreatedFieldOptions, DefinitionErrorKind, EvaluationError,
    EvaluationErrorKind, FieldIndexing, FieldTermVector, Map, NoHost, Reduce, SourceKind, Value,
};

use crate::fixture::{Fixture, entry, json, outputs};

fn map(text: &str) -> Map {
    Map::compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn refused(text: &str) -> (DefinitionErrorKind, u32, u32) {
    let error = Map::compile(text).err().unwrap_or_else(|| panic!("{text} is not refused"));
    (error.kind, error.position.line, error.position.column)
}

#[test]
fn a_map_says_what_it_reads() {
    let cases: [(&str, SourceKind, &[&str], Option<&str>); 9] = [
        ("from d in docs select new { d.A }", SourceKind::Documents, &[], None),
        ("docs.Dogs.Select(d => new { d.A })", SourceKind::Documents, &["Dogs"], None),
        ("from d in docs[\"A B\"] select new { d.A }", SourceKind::Documents, &["A B"], None),
        (
            "docs.WhereEntityIs(\"A\", \"B\").Select(d => new { d.A })",
            SourceKind::Documents,
            &["A", "B"],
            None,
        ),
        ("from t in timeSeries select new { t.Name }", SourceKind::TimeSeries, &[], None),
        ("from t in timeSeries.A select new { t.Name }", SourceKind::TimeSeries, &["A"], None),
        (
            "timeSeries.A.Pulse.Select(t => new { t.Name });",
            SourceKind::TimeSeries,
            &["A"],
            Some("Pulse"),
        ),
        (
            "from c in counters.A[\"B C\"] select new { c.Name }",
            SourceKind::Counters,
            &["A"],
            Some("B C"),
        ),
        (
            "// first\n/* second */ from c in counters select new { c.Name }",
            SourceKind::Counters,
            &[],
            None,
        ),
    ];
    for (text, kind, collections, name) in cases {
        let source = map(text).source().clone();
        assert_eq!((source.kind, source.name.as_deref()), (kind, name), "{text}");
        assert_eq!(source.collections, collections, "{text}");
    }
}

#[test]
fn references_are_known_before_anything_runs() {
    let loads = map("from d in docs.A let r = LoadDocument(d.R, \"Refs\") from s in d.S \
         where LoadDocument(s, \"refs\") != null \
         select new { r.X, Y = d.Z.Select(z => LoadDocument(z, \"Others\").W) }");
    assert_eq!(loads.referenced_collections(), ["Refs", "Others"]);
    assert!(!loads.loads_compare_exchange());
    assert!(
        map("docs.A.Select(d => new { X = LoadCompareExchangeValue(d.K) })")
            .loads_compare_exchange()
    );
}

#[test]
fn counters_are_mapped() {
    let map = map(
        "counters.Dogs.Likes.Select(c => new { c.Value, c.Name, Twice = c.Value * 2, Id = c.DocumentId })",
    );
    let counter = CounterInput { document_id: "dogs/1", name: "Likes", value: 21 };
    let mut shown = Vec::new();
    map.evaluate_counter(&counter, &mut NoHost, &Budget::default(), &mut |output| {
        shown.extend(entry(output));
    })
    .unwrap();
    assert_eq!(shown, ["{Id: dogs/1, Name: likes, Twice: 42, Value: 21}"]);
}

#[test]
fn data_outside_the_document_is_requested_from_the_host() {
    let fixture = Fixture::new();
    let map =
        map("from r in docs.Refs select new { C = CounterNamesFor(r), T = TimeSeriesNamesFor(r), \
         K = LoadCompareExchangeValue(\"known\"), U = LoadCompareExchangeValue(\"unknown\"), \
         Other = LoadDocument(\"r/2\", \"Refs\").Title }");
    let mut host = fixture.host();
    let shown = outputs(&map, &fixture.documents[2], &mut host, entry).unwrap();
    assert_eq!(
        shown[0].as_deref(),
        Some("{C: [likes, views], K: 8, Other: ref two, T: heartrate}")
    );
    assert_eq!(host.asked, ["r/2"]);
}

/// The terms of an expression over the document with a photo, besides `K: 1`.
fn terms_of_photo(expression: &str) -> Result<Option<String>, EvaluationError> {
    let fixture = Fixture::with_photo();
    let map = map(&format!("from p in docs.Photos select new {{ X = {expression}, K = 1 }}"));
    let shown = outputs(&map, &fixture.documents[0], &mut fixture.host(), entry)?;
    Ok(shown.into_iter().next().flatten())
}

#[test]
fn attachments_are_read_through_the_host() {
    for (expression, terms) in [
        ("LoadAttachment(p, \"PHOTO.jpg\").Name", "{K: 1, X: photo.jpg}"),
        ("this.LoadAttachment(p, \"photo.jpg\").GetContentAsString()", "{K: 1, X: picture}"),
        (
            "LoadAttachment(p, \"photo.jpg\").GetContentAsString(Encoding.UTF8)",
            "{K: 1, X: picture}",
        ),
        ("LoadAttachment(p, \"photo.jpg\").Nope", "{K: 1}"),
        ("LoadAttachment(p, \"nope\").GetContentAsString()", "{K: 1}"),
        ("LoadAttachment(p, \"nope\") == null", "{K: 1, X: true}"),
        ("LoadAttachments(p).Select(a => a.Name)", "{K: 1, X: [large, photo.jpg]}"),
        ("LoadAttachments(p).Last().Size + 1", "{K: 1, X: 8}"),
        ("LoadAttachments(LoadDocument(\"nope\", \"Refs\")).Count()", "{K: 1, X: 0}"),
        ("AttachmentsFor(p).Select(a => a.Name)", "{K: 1, X: photo.jpg}"),
    ] {
        let shown = terms_of_photo(expression).unwrap();
        assert_eq!(shown.as_deref(), Some(terms), "{expression}");
    }
    for (expression, kind) in [
        ("LoadAttachment(p, 5)", EvaluationErrorKind::InvalidArgument),
        ("LoadAttachment(p.Title, \"a\")", EvaluationErrorKind::InvalidArgument),
        ("LoadAttachments(5)", EvaluationErrorKind::InvalidArgument),
        ("LoadAttachment(p, \"large\").GetContentAsString()", EvaluationErrorKind::BudgetExceeded),
    ] {
        let error = terms_of_photo(expression).unwrap_err();
        assert_eq!(error.kind, kind, "{expression}");
    }
}

#[test]
fn what_is_loaded_without_tracking_is_not_followed() {
    let fixture = Fixture::new();
    let tracked =
        map("from r in docs.Refs select new { X = LoadDocument(\"r/2\", \"Refs\").Title }");
    assert_eq!(tracked.referenced_collections(), ["Refs"]);
    for call in ["NoTracking.LoadDocument", "this.NoTracking.LoadDocument"] {
        let text =
            format!("from r in docs.Refs select new {{ X = {call}(\"r/2\", \"Refs\").Title }}");
        let map = map(&text);
        assert_eq!(map.referenced_collections(), Vec::<&str>::new(), "{call}");
        let shown = outputs(&map, &fixture.documents[2], &mut fixture.host(), entry).unwrap();
        assert_eq!(shown[0].as_deref(), Some("{X: ref two}"), "{call}");
    }
    let text = "from r in docs.Refs select new { X = NoTracking.Nope(r) }";
    assert_eq!(Map::compile(text).unwrap_err().kind, DefinitionErrorKind::UnknownMethod);
}

#[test]
fn a_host_that_fails_ends_the_evaluation_and_keeps_its_error() {
    let fixture = Fixture::new();
    let map = map("docs.Refs.Select(r => new { X = 1 + LoadCompareExchangeValue(\"broken\") })");
    let error = outputs(&map, &fixture.documents[2], &mut fixture.host(), entry).unwrap_err();
    assert_eq!(error.kind, EvaluationErrorKind::Host);
    assert_eq!(error.source().unwrap().to_string(), "the store is closed");
    assert_eq!(error.expression, "LoadCompareExchangeValue(\"broken\")");
}

#[test]
fn created_fields_carry_their_options() {
    let fixture = Fixture::new();
    let cases = [
        ("CreateField(\"F\", d.Age)", CreatedFieldOptions::default()),
        (
            "CreateField(\"F\", d.Age, true, false)",
            CreatedFieldOptions {
                stored: Some(true),
                indexing: Some(FieldIndexing::Exact),
                term_vector: None,
            },
        ),
        (
            "CreateField(\"F\", d.Age, new CreateFieldOptions { Storage = FieldStorage.No, \
             Indexing = FieldIndexing.Search, TermVector = FieldTermVector.WithPositions })",
            CreatedFieldOptions {
                stored: Some(false),
                indexing: Some(FieldIndexing::Search),
                term_vector: Some(FieldTermVector::WithPositions),
            },
        ),
    ];
    for (text, expected) in cases {
        let map = map(&format!("docs.Docs.Select(d => new {{ _ = {text} }})"));
        let options =
            outputs(&map, &fixture.documents[0], &mut NoHost, |output| match output.get("_") {
                Some(Value::Field(field)) => field.options,
                other => panic!("{other:?}"),
            });
        assert_eq!(options.unwrap(), [expected], "{text}");
    }
}

#[test]
fn boosts_are_kept_of_fields_and_of_the_whole_output() {
    let fixture = Fixture::new();
    let map = map("docs.Docs.Select(d => new { A = d.Name.Boost(2.5) }.Boost(3))");
    let boosts = outputs(&map, &fixture.documents[0], &mut NoHost, |output| {
        let Some(Value::Boosted(boosted)) = output.get("A") else { panic!() };
        (output.boost(), boosted.factor, json(&boosted.value))
    });
    assert_eq!(boosts.unwrap(), [(Some(3.0), 2.5, "\"John Smith\"".to_owned())]);
}

#[test]
fn errors_of_documents_name_expression_and_place() {
    let fixture = Fixture::new();
    let cases = [
        ("5 / d.Nope", EvaluationErrorKind::DivideByZero, "5 / d.Nope"),
        ("d.Age.Nope", EvaluationErrorKind::NoSuchMember, "d.Age.Nope"),
        (
            "d.Lines.Select(l => l.Q / (l.Q - 3))",
            EvaluationErrorKind::DivideByZero,
            "l.Q / (l.Q - 3)",
        ),
        ("from l in d.Lines where l.Q select l", EvaluationErrorKind::InvalidCast, "l.Q"),
    ];
    for (expression, kind, place) in cases {
        let text = format!("from d in docs.Docs\nselect new {{ X = {expression} }}");
        let map = map(&text);
        let error = outputs(&map, &fixture.documents[0], &mut NoHost, entry).unwrap_err();
        assert_eq!((error.kind, error.expression.as_str()), (kind, place), "{error}");
        assert_eq!(error.position.line, 2);
        let column = text.lines().nth(1).unwrap().find(place).unwrap() as u32 + 1;
        assert_eq!(error.position.column, column, "{error}");
    }
}

#[test]
fn refusals_name_construct_and_place() {
    use DefinitionErrorKind as K;
    let cases = [
        ("", K::Syntax, 1, 1),
        ("xyz", K::NoSource, 1, 1),
        ("1 + 2", K::NoSource, 1, 1),
        ("results.GroupBy(r => r.A).Select(g => new { g.Key })", K::NoSource, 1, 1),
        ("from d in docs\nselect new { X = unknown }", K::UnknownName, 2, 18),
        ("from d in docs select new { X = Foo(d) }", K::UnknownMethod, 1, 33),
        ("from d in docs select new { X = Math.Foo(1) }", K::UnknownMethod, 1, 33),
        ("from d in docs select new { X = (Foo)d.A }", K::UnknownType, 1, 34),
        ("from d in docs select new { X = DateTime.UtcNow }", K::NotDeterministic, 1, 33),
        ("from d in docs select new { X = new Random() }", K::NotDeterministic, 1, 33),
        ("from d in docs orderby d.A select new { d.A }", K::OrderBy, 1, 16),
        ("from d in docs select new { X = d.A.OrderBy(a => a) }", K::OrderBy, 1, 33),
        ("from d in docs select d.A", K::OutputNotObject, 1, 1),
        ("from d in docs select new { d.A, A = 1 }", K::Syntax, 1, 38),
        ("from d in docs select new { A = null }", K::NotSupported, 1, 33),
        ("from d in docs select new { X = 1.5 * 2m }", K::NotSupported, 1, 33),
        ("from d in docs select new { X = \"a\".Foo() }", K::UnknownMethod, 1, 33),
        ("from d in docs select new { X = Regex.IsMatch(d.A, \"(\") }", K::NotSupported, 1, 33),
        (
            "from d in docs join e in docs.E on d.A equals e.B select new { d.A }",
            K::NotSupported,
            1,
            26,
        ),
        ("from d in docs select new { X = docs.A.Count() }", K::NotSupported, 1, 33),
        ("from d in docs.A.B select new { d.A }", K::NoSource, 1, 11),
    ];
    for (text, kind, line, column) in cases {
        assert_eq!(refused(text), (kind, line, column), "{text}");
    }
    let hint =
        Map::compile("docs.D.Select(d => new { X = loaddocument(d.A, \"B\") })").unwrap_err();
    assert!(hint.message.contains("did you mean 'LoadDocument'?"), "{hint}");
}

#[test]
fn a_reduce_says_what_it_groups_by() {
    let cases: [(&str, &[&str]); 4] = [
        ("from r in results group r by r.A into g select new { A = g.Key, B = 1 }", &["A"]),
        (
            "results.GroupBy(r => new { X = r.A, r.B }).Select(g => new { A = g.Key.X, g.Key.B })",
            &["A", "B"],
        ),
        ("from r in results group r by 1 into g select new { A = g.Sum(x => x.A) }", &[]),
        (
            "results.Where(r => r.A > 1).GroupBy(r => r.A).Select(g => new { A = g.Key, B = 1 })",
            &["A"],
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Reduce::compile(text).unwrap().group_by(), expected, "{text}");
    }
    let refused = [
        ("from r in results select new { r.A }", DefinitionErrorKind::NoGroupBy),
        (
            "from r in results group r by r.A.ToLower() into g select new { A = g.Key }",
            DefinitionErrorKind::GroupBy,
        ),
        (
            "from r in results group r by r.A into g select new { A = LoadDocument(g.Key, \"B\") }",
            DefinitionErrorKind::NotSupported,
        ),
        (
            "from r in results group r by r.A into g select new { A = g.Key, B = g.Count() }",
            DefinitionErrorKind::Aggregation,
        ),
    ];
    for (text, kind) in refused {
        assert_eq!(Reduce::compile(text).unwrap_err().kind, kind, "{text}");
    }
}

/// Forms that the expression writers of the clients produce.
#[test]
fn definitions_as_clients_write_them_compile() {
    let maps = [
        "from c in docs.Companies select new { Unknown = c.Unknown };",
        "docs.Orders.SelectMany(order => order.Lines, (order, line) => new {\n    Product = line.Product,\n    OrderedAt = order.OrderedAt,\n    Profit = (((decimal) line.Quantity) * line.PricePerUnit) * (1M - line.Discount)\n})",
        "docs.MainDocuments.Select(mainDocument => new {    mainDocument = mainDocument,    related = this.LoadDocument(String.Format(\"related/{0}\", mainDocument.name), \"RelatedDocuments\")}).Select(this0 => new {    name = this0.mainDocument.name,\n    value = this0.related != null ? ((decimal ? ) this0.related.value) : ((decimal ? ) null)\n})",
        "docs.Items.Select(doc => new {\n    doc = doc,\n    slug = Id(doc).ToString().Substring(Id(doc).ToString().IndexOf('/') + 1)\n}).Select(this0 => new {\n    slug = this0.slug,\n    title = this0.doc.title\n})",
        "from c in docs.Companies select new { Name = typeof(System.Xml.XmlNode).Name }",
        "docs.Listings.Select(item => new {\n    classCodes = item.classCodes,\n    coordinates = this.CreateSpatialField(((double ? )((double)(item.latitude))), ((double ? )((double)(item.longitude))))\n})",
        "docs.MyDocuments.SelectMany(doc => doc.items, (doc, item) => new {\n    doc = doc,\n    item = item\n}).Select(this0 => new {\n    this0 = this0,\n    lat = ((double)(this0.item.latitude ?? 0))\n}).Select(this1 => new {\n    this1 = this1,\n    lng = ((double)(this1.this0.item.longitude ?? 0))\n}).Select(this2 => new {\n    id = Id(this2.this1.this0.doc),\n    date = this2.this1.this0.item.date,\n    latitude = this2.this1.lat,\n    longitude = this2.lng,\n    coordinates = this.CreateSpatialField(((double ? ) this2.this1.lat), ((double ? ) this2.lng))\n})",
        "from ts in timeSeries.Companies.HeartRate.Where(x => true) from entry in ts.Entries select new {    heartBeat = entry.Values[0],    date = entry.Timestamp.Date,    user = ts.DocumentId }",
        "from order in docs.Orders\nselect new {\n  delay = order.shippedAt - ((DateTime?)order.orderedAt)\n}",
        "from doc in docs let x = 0 select new { Total = 3/x };",
        "from doc in docs.Complex select new  { doc.property, doc.property.body }",
    ];
    for text in maps {
        map(text);
    }
    let reduces = [
        "from result in results group result by result.name into g select new {   name = g.Key,   count = g.Sum(x => x.count) }",
        "results.GroupBy(r => new {\n    OrderedAt = r.OrderedAt,\n    Product = r.Product\n}).Select(g => new {\n    Product = g.Key.Product,\n    OrderedAt = g.Key.OrderedAt,\n    Profit = Enumerable.Sum(g, r => ((decimal) r.Profit))\n})",
    ];
    for text in reduces {
        Reduce::compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    }
}

#[test]
fn transparent_identifiers_are_never_built() {
    let fixture = Fixture::new();
    let map = map(
        "docs.Docs.SelectMany(d => d.Lines, (d, l) => new { d = d, l }).Select(t => new { t, y = t.l.Q * 10 })\
         .Where(u => u.y > 20).Select(u => new { u.t.l.P, u.y, u.t.d.Name, Whole = u.t.l })",
    );
    let shown = outputs(&map, &fixture.documents[0], &mut NoHost, entry).unwrap();
    assert_eq!(
        shown[0].as_deref(),
        Some("{Name: john smith, P: y, Whole: {\\p\\:\\y\\,\\q\\:3,\\pr\\:2}, y: 30}")
    );
    assert_eq!(shown.len(), 1);
}

/// RavenDB truncates a document's number when it is combined with an integer, even in comparisons.
#[test]
fn numbers_of_documents_are_compared_as_the_numbers_they_are() {
    let fixture = Fixture::new();
    let map = map(
        "docs.Docs.Where(d => d.Price > 2 && 2 < d.Price && d.Price != 2 && d.Price < 3 && d.Price == 2.5)\
         .Select(d => new { d.Price, Cast = (int)d.Price == 2, Product = d.Price * 2, Other = 2 * d.Price })",
    );
    let shown = outputs(&map, &fixture.documents[0], &mut NoHost, entry).unwrap();
    assert_eq!(shown[0].as_deref(), Some("{Cast: true, Other: 5.0, Price: 2.5, Product: 4}"));
}

#[test]
fn values_go_back_into_documents_with_their_digits() {
    let fixture = Fixture::new();
    let cases = [
        ("d.Dec", "10.10"),
        ("d.Dec * 1.0m", "10.100"),
        ("2.0", "2.0"),
        ("1e300", "1E+300"),
        ("d.Date.AddDays(1)", "\"2020-03-06T10:20:30.1230000Z\""),
        ("TimeSpan.FromHours(1.5)", "\"01:30:00\""),
        ("new { A = d.Nope, B = new[] { 'x' } }", "{\"A\":null,\"B\":[\"x\"]}"),
        ("new Dictionary<string, int> { { \"k\", 1 } }", "{\"k\":1}"),
        ("d.Addr", "{\"City\":\"Oz\",\"Geo\":{\"Lat\":10.5,\"Lng\":20.25}}"),
        ("d.Date.DayOfWeek", "\"Thursday\""),
        ("MetadataFor(d)", "{\"@collection\":\"Docs\",\"Foo\":\"bar\"}"),
    ];
    for (expression, expected) in cases {
        let map = map(&format!("docs.Docs.Select(d => new {{ X = {expression} }})"));
        let shown = outputs(&map, &fixture.documents[0], &mut NoHost, |output| {
            json(output.get("X").unwrap())
        });
        assert_eq!(shown.unwrap(), [expected], "{expression}");
    }
}

/// An index reduces in steps: parts first, then their results.
#[test]
fn results_can_be_reduced_again() {
    let reduce = Reduce::compile(
        "from r in results group r by r.K into g select new { K = g.Key, Count = g.Sum(x => x.Count), \
         Total = g.Sum(x => x.Total), Most = g.Max(x => x.Most), Least = g.Min(x => x.Least), \
         Tags = g.SelectMany(x => x.Tags).Distinct().ToArray() }",
    )
    .unwrap();
    let mapped: Vec<BlittableBuf> = (0..20)
        .map(|n| {
            parsed(&format!(
                r#"{{"K":"a","Count":1,"Total":{n}.25,"Most":{n},"Least":{n},"Tags":["t{}"]}}"#,
                n % 3
            ))
        })
        .collect();
    let whole = reduced(&reduce, &mapped);
    for size in [1, 3, 7, 19] {
        let parts: Vec<BlittableBuf> =
            mapped.chunks(size).flat_map(|part| reduced(&reduce, part)).collect();
        let again = reduced(&reduce, &parts);
        assert_eq!(json_of(&again), json_of(&whole), "parts of {size}");
    }
    assert_eq!(
        json_of(&whole),
        [r#"{"K":"a","Count":20,"Total":195.00,"Most":19,"Least":0,"Tags":["t0","t1","t2"]}"#]
    );
    let count = whole[0].as_view().root().get("Count").unwrap();
    assert!(matches!(count, Some(blittable::Value::Integer(20))), "a sum of integers stays one");
}

fn parsed(json: &str) -> BlittableBuf {
    parse_document(json.as_bytes(), &ParseLimits::default()).unwrap()
}

fn reduced(reduce: &Reduce, items: &[BlittableBuf]) -> Vec<BlittableBuf> {
    let mut roots = items.iter().map(|item| item.as_view().root());
    let mut results = Vec::new();
    reduce
        .evaluate(&mut roots, &Budget::default(), &mut |output| {
            let mut builder = ObjectBuilder::new();
            for (name, value) in output.fields() {
                linq::put_value(&mut builder, name, value).unwrap();
            }
            results.push(builder.finish().unwrap());
        })
        .unwrap();
    results
}

fn json_of(items: &[BlittableBuf]) -> Vec<String> {
    items.iter().map(|item| String::from_utf8(item.as_view().to_json().unwrap()).unwrap()).collect()
}
