//! Queries and their printed form, which shows how they were understood.

use rql::{
    Expression, Literal, NumberValue, PathStep, Selection, SourceKind, parse, parse_condition,
    parse_update,
};

/// Asserts that `text` parses and prints as `printed`, and that the printed form is stable.
fn check(text: &str, printed: &str) {
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(query.to_string(), printed, "{text}");
    let again = parse(printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert_eq!(query, again, "{text}");
}

#[test]
fn sources_are_collections_indexes_and_everything() {
    check("FROM Crews", "from Crews");
    check("from 'Night Crews' as n", "from 'Night Crews' as n");
    check("from \"Crews\" c // the crew\n", "from Crews as c");
    check("/* all */ from @ALL_docs", "from @all_docs");
    check("from index 'Crews/ByPort' AS c", "from index 'Crews/ByPort' as c");
    check("from index Crews where X=1", "from index 'Crews' where X = 1");
    check("from 'index'", "from 'index'");
    check("from 'select'", "from 'select'");
    check("from Crews (Revisions = true) as c", "from Crews (Revisions = true) as c");
    check("from Crews as filter", "from Crews as filter");
}

#[test]
fn and_binds_tighter_than_or_and_parentheses_are_kept() {
    check(
        "from C where a=1 or b==2 and c!=3 or d<>4",
        "from C where a = 1 or (b = 2 and c != 3) or d != 4",
    );
    check("from C where (a=1 or b=2) and c=3", "from C where (a = 1 or b = 2) and c = 3");
    check("from C where ((a=1 and b=2) and c=3)", "from C where (a = 1 and b = 2) and c = 3");
    check("from C where a=1 and not b=2", "from C where a = 1 and not b = 2");
    check("from C where not (a=1 or not exists(b))", "from C where not (a = 1 or not exists(b))");
    check("from C where not = 1 and not not = 2", "from C where not = 1 and not not = 2");
    check("from C where true and not in (1)", "from C where true and not in (1)");
    check("from C where not in = 1", "from C where not in = 1");
}

#[test]
fn every_operator_and_value_is_understood() {
    check(
        "from C where a<1 and a<=-2 and a>1_000 and a>=0.5 and a='\\'\\\\\"'",
        "from C where a < 1 and a <= -2 and a > 1000 and a >= 0.5 and a = '\\'\\\\\"'",
    );
}

#[test]
fn lists_and_ranges_keep_their_values() {
    check(
        "from C where a between $low and 'z' and b in ('x', \"y\", null, true, $more)",
        "from C where a between $low and 'z' and b in ('x', 'y', null, true, $more)",
    );
    check("from C where b ALL IN () or c in ($p0)", "from C where b all in () or c in ($p0)");
}

#[test]
fn paths_have_members_elements_and_quotes() {
    check(
        "from C where Lines[].Product = 1 and Lines[2].'unit price' > 2 and 'a b'.c = 3",
        "from C where Lines[].Product = 1 and Lines[2].'unit price' > 2 and 'a b'.c = 3",
    );
    check("from C where @metadata.@collection = 'x'", "from C where @metadata.@collection = 'x'");
    check(
        "from C where x.select=1 and a-b=2 and é.1=3",
        "from C where x.select = 1 and a-b = 2 and é.1 = 3",
    );
    check("from C where 'order' = 1", "from C where 'order' = 1");
}

#[test]
fn methods_are_allowed_anywhere_with_any_arguments() {
    check(
        "from C where boost(search(Name, 'red fox', and) or exact(Name = 'x'), 2.5) and Key = cmpxchg('k')",
        "from C where boost(search(Name, 'red fox', and) or exact(Name = 'x'), 2.5) and Key = cmpxchg('k')",
    );
    check(
        "from C order by spatial.distance(spatial.point(Lat,Lng), spatial.point(1, -2.5)) desc, score()",
        "from C order by spatial.distance(spatial.point(Lat, Lng), spatial.point(1, -2.5)) desc, score()",
    );
    check(
        "from index 'I' select facet(Age < 5, Age >= 5 and Age < $p, sum(Pay)) as Ages",
        "from index 'I' select facet(Age < 5, Age >= 5 and Age < $p, sum(Pay)) as Ages",
    );
    check("from C where id(c) in ($ids)", "from C where id(c) in ($ids)");
}

#[test]
fn clauses_follow_each_other_in_their_order() {
    check(
        "from Trips as t group by t.Port as p, array(Stops[]) where count() > 5 \
         order by count() as long desc, p as alphanumeric asc \
         load t.Boat as b, t.Crew[].Id as c[] filter t.Open = true \
         select distinct p, key() as 'the key', 'text' \
         include t.Boat, 'Crew[].Id', counters('likes'), $path limit 5, $take filter_limit 9",
        "from Trips as t group by t.Port as p, array(Stops[]) where count() > 5 \
         order by count() as long desc, p as alphaNumeric \
         load t.Boat as b, t.Crew[].Id as c[] filter t.Open = true \
         select distinct p, key() as 'the key', 'text' \
         include t.Boat, 'Crew[].Id', counters('likes'), $path limit $take offset 5 filter_limit 9",
    );
    check("from C limit 10 offset 20", "from C limit 10 offset 20");
    check("from C offset $skip", "from C offset $skip");
    check("from C select *", "from C select *");
    check("from C where true order by id() DESCENDING", "from C where true order by id() desc");
}

#[test]
fn scripts_are_kept_as_they_were_written() {
    let query = parse(
        "declare function label(o, x) { return `${o.a}}` + /}/; } \
         declare timeseries beats(u) { from u.Beats select max() } \
         from Boats as b select { A: label(b), B: '}' // }\n } limit 1",
    )
    .unwrap();
    assert_eq!(query.declarations[0].parameters, ["o", "x"]);
    assert_eq!(query.declarations[0].function(), Some("return `${o.a}}` + /}/;"));
    let beats = query.declarations[1].time_series().unwrap();
    assert_eq!(beats.to_string(), "from u.Beats select max()");
    let select = query.select.clone().unwrap();
    assert_eq!(select.selection, Selection::Script("A: label(b), B: '}' // }".to_owned()));
    assert_eq!(parse(&query.to_string()).unwrap(), query);
}

#[test]
fn every_clause_of_a_time_series_query_is_understood() {
    for (text, printed) in [
        ("FROM Beats", "from Beats"),
        ("from u.'INC: Beats' SELECT max()", "from u.'INC: Beats' select max()"),
        ("from 'Beats per minute'", "from 'Beats per minute'"),
        ("from $name between $a and b.End", "from $name between $a and b.End"),
        ("from B between '2020' and 2021", "from B between '2020' and 2021"),
        ("from B first 1h", "from B first '1 h'"),
        ("from B last 12 months", "from B last '12 months'"),
        ("from B last $long", "from B last $long"),
        (
            "from B load tag sensor where Value > 1 and sensor.Kind = 'x' or Values[2] in (1, $p)",
            "from B load Tag as sensor where (Value > 1 and sensor.Kind = 'x') or Values[2] in (1, $p)",
        ),
        ("from B group by 1hour", "from B group by '1 hour'"),
        (
            "from B group by '7 days', tag with interpolation(linear)",
            "from B group by '7 days', tag with interpolation(linear)",
        ),
        (
            "from B load Tag as s group by $p, s.Kind select min(), percentile(99.9) as p",
            "from B load Tag as s group by $p, s.Kind select min(), percentile(99.9) as p",
        ),
        (
            "from B group by 1 q select avg() scale -0.5 offset '02:00'",
            "from B group by '1 q' select avg() scale -0.5 offset '02:00'",
        ),
        ("from first scale $s", "from first scale $s"),
    ] {
        let query = parse(&format!("from P as u select timeseries( {text} ) as t, Name")).unwrap();
        let expected = format!("from P as u select timeseries({printed}) as t, Name");
        assert_eq!(query.to_string(), expected);
        assert_eq!(parse(&query.to_string()).unwrap(), query, "{text}");
        let declared = format!("declare timeseries f(u){{{text}}} from P as u select f(u)");
        let declared = parse(&declared).unwrap();
        assert_eq!(declared.declarations[0].time_series().unwrap().to_string(), printed);
        assert_eq!(parse(&declared.to_string()).unwrap(), declared, "{text}");
    }
}

#[test]
fn graphs_are_kept_as_text() {
    let graph = parse("match (Boats as b)-[Crew]->(People as p) select p.Name ").unwrap();
    let text = "match (Boats as b)-[Crew]->(People as p) select p.Name".to_owned();
    assert_eq!(graph.source.kind, SourceKind::Graph(text));
}

#[test]
fn an_update_ends_with_its_script() {
    let text = "from C as c where c.N = $n load c.B as b update { c.N = { a: 1 }; }";
    let query = parse_update(text).unwrap();
    assert_eq!(query.update.as_deref(), Some("c.N = { a: 1 };"));
    assert_eq!(parse_update(&query.to_string()).unwrap(), query);
}

#[test]
fn numbers_know_their_kind() {
    for (text, expected) in [
        ("5", NumberValue::Long(5)),
        ("-1_000", NumberValue::Long(-1000)),
        ("2.50", NumberValue::Double(2.5)),
        ("9223372036854775808", NumberValue::TooLarge),
    ] {
        let query = parse(&format!("from C limit {text}")).unwrap();
        let Some(Literal::Number(number)) = query.limit else { panic!("{text} is a number") };
        assert_eq!(number.value(), expected, "{text}");
    }
}

#[test]
fn a_path_loses_the_alias_it_starts_with() {
    let query = parse("from C as c include c.Boat.Id, Boat, c").unwrap();
    let without = |number: usize| {
        let Expression::Field(path) = &query.include[number] else { panic!("a field") };
        path.without_alias(Some("c")).map(|path| path.text())
    };
    assert_eq!(without(0).as_deref(), Some("Boat.Id"));
    assert_eq!(without(1).as_deref(), Some("Boat"));
    assert_eq!(without(2), None);
}

#[test]
fn a_tree_knows_where_its_parts_stood() {
    let query = parse("from C\nwhere\n  foo(é, 'x') and bar(1)").unwrap();
    let Some(Expression::And(parts)) = &query.condition else { panic!("a conjunction") };
    let Expression::Method(call) = &parts[1] else { panic!("a call") };
    assert_eq!(call.offset.locate(query.text.as_str()).to_string(), "3:19");
    let Expression::Method(first) = &parts[0] else { panic!("a call") };
    let Expression::Field(path) = &first.arguments[0] else { panic!("a field") };
    assert!(matches!(&path.steps[0], PathStep::Name { quoted: false, .. }));
}

#[test]
fn a_call_among_arguments_may_have_a_name() {
    check(
        "from index 'Boats' select facet(Maker, SUM(Price) as Total, avg(Sails) AS 'Mean sails') as M",
        "from index 'Boats' select facet(Maker, SUM(Price) as Total, avg(Sails) as 'Mean sails') as M",
    );
    let query = parse("from index 'B' select facet(sum(Price) as Total)").unwrap();
    let Some(Selection::Items(items)) = query.select.map(|select| select.selection) else {
        panic!("not a list of items")
    };
    let Expression::Method(facet) = &items[0].value else { panic!("not a call") };
    let Expression::Method(sum) = &facet.arguments[0] else { panic!("not a call") };
    assert_eq!((facet.alias.as_deref(), sum.alias.as_deref()), (None, Some("Total")));
    assert!(parse("from index 'B' select facet(Price as Total)").is_err());
}

#[test]
fn a_condition_can_stand_alone() {
    let condition = parse_condition("Price >= $low and Price < 150.0").unwrap();
    assert_eq!(condition.to_string(), "Price >= $low and Price < 150.0");
    for text in ["", "Price", "Price !! 3", "Price < 3 select Price", "Price < 3)"] {
        assert!(parse_condition(text).is_err(), "{text}");
    }
}
