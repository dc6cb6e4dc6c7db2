//! Texts that are no queries, with the whole message their author reads.

use rql::{NESTING_DEPTH_MAX, ParseErrorKind, QUERY_BYTES_MAX, parse, parse_update};

fn check(text: &str, message: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.to_string(), message, "{text}");
    assert_eq!(error.kind, ParseErrorKind::Syntax, "{text}");
}

fn check_invalid(text: &str, message: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.to_string(), message, "{text}");
    assert_eq!(error.kind, ParseErrorKind::Invalid, "{text}");
}

#[test]
fn the_end_comes_too_early() {
    for (text, message) in [
        ("", "1:1 Expected FROM clause"),
        ("from", "1:5 Unable to parse identifier in FROM clause"),
        ("from Crews where", "1:17 Unable to parse WHERE clause"),
        ("from Crews\nwhere Name =", "2:13 Unable to parse WHERE clause"),
        ("from Crews where (a='a'", "1:24 Unmatched parenthesis, expected ')'"),
        ("from Crews where a='a' and", "1:27 Failed to find second part of And expression"),
        ("from Crews where a='a' or", "1:26 Failed to find second part of Or expression"),
        ("from Crews where a='a' or not", "1:30 Failed to find second part of Or expression"),
        ("from Crews where a between 1", "1:29 parsing Between, expected AND"),
        ("from Crews where a between", "1:27 parsing Between, expected value (1st)"),
        ("from Crews where a in (1", "1:25 parsing In expression, expected ','"),
        ("from Crews where a in (1,", "1:26 parsing In, expected a value"),
        ("from Crews where search(", "1:25 parsing method, expected an argument"),
        ("from Crews where a = $", "1:23 Expected parameter name"),
        ("from Crews order by", "1:20 Unable to get field for ORDER BY"),
        ("from Crews group by a,", "1:23 Unable to get field for GROUP BY"),
        ("from Crews load", "1:16 Unable to get field for LOAD"),
        ("from Crews select", "1:18 Unable to get field for SELECT"),
        ("from Crews select a,", "1:21 Unable to get field for SELECT"),
        ("from Crews select a as", "1:23 Expected field alias after AS in SELECT"),
        ("from Crews include", "1:19 Unable to understand include clause expression"),
        ("from Crews filter", "1:18 Unable to parse FILTER clause"),
        ("from index", "1:11 Invalid syntax. Expected 'INDEX source' expression."),
        ("declare", "1:8 DECLARE clause found but missing 'function' keyword"),
        ("declare function f", "1:19 Unable to parse f signature"),
        ("declare function f()", "1:21 Unable to get body for f"),
    ] {
        check(text, &format!("{message} but got to the end of the query"));
    }
}

#[test]
fn something_else_was_found() {
    for (text, message) in [
        ("from 5", "1:6 Unable to parse identifier in FROM clause but got: 5"),
        ("from select", "1:6 Unable to parse identifier in FROM clause but got: select"),
        ("from C where a = 'open", "1:18 Unable to parse WHERE clause but got: 'open"),
        ("from C where a='x')", "1:19 Expected end of query but got: )"),
        ("from C where a in 'x'", "1:19 parsing In, expected '(' but got: 'x'"),
        ("from C where select = 1", "1:14 Unable to parse WHERE clause but got: select"),
        ("from C where 1 = 1", "1:14 Unable to parse WHERE clause but got: 1"),
        ("from C where a = 1e5", "1:19 Expected end of query but got: e5"),
        ("from C where a = .5", "1:18 Unable to parse WHERE clause but got: .5"),
        ("from C where a = 1.2.3", "1:18 Unable to parse WHERE clause but got: 1.2.3"),
        ("from C where a..b = 1", "1:16 Unable to parse WHERE clause but got: .b"),
        ("from C where a => 1", "1:17 Unable to parse WHERE clause but got: >"),
        ("from C as c, D as d", "1:12 Expected end of query but got: ,"),
        ("from C offset 3 limit 2", "1:17 Expected end of query but got: limit"),
        ("from C select a order by a", "1:17 Expected end of query but got: order"),
        ("from C; from D", "1:7 Expected end of query but got: ;"),
        ("from C update { }", "1:8 Expected end of query but got: update"),
        ("from C as c select { a: 1", "1:20 Unable to get field for SELECT but got: {"),
        (
            "from C where a = 'x\\q'",
            "1:20 Expected one of the escapes \\' \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX in a string but got: \\q",
        ),
        ("from C order a", "1:14 Expected BY after ORDER but got: a"),
        (
            "declare function f(x) { } declare function f(y) { } from C",
            "1:35 f function was declared multiple times but got: function",
        ),
    ] {
        check(text, message);
    }
}

#[test]
fn a_misspelt_word_is_guessed() {
    for (text, message) in [
        ("form C", "1:1 Expected FROM clause but got: form (did you mean 'from'?)"),
        ("from C wehre a = 1", "1:14 Expected end of query but got: a (did you mean 'where'?)"),
        (
            "from C as c wher a = 1",
            "1:13 Expected end of query but got: wher (did you mean 'where'?)",
        ),
        (
            "from C where a = 1 inclde b",
            "1:20 Expected end of query but got: inclde (did you mean 'include'?)",
        ),
        (
            "from C order by a as lnog",
            "1:22 Expected string, long, double or alphaNumeric after AS but got: lnog (did you mean 'long'?)",
        ),
    ] {
        check(text, message);
    }
}

#[test]
fn well_formed_nonsense_is_refused_without_a_position() {
    let operators = "Valid operators are: 'in', 'between', =, <, >, <=, >=, !=";
    for (text, message) in [
        (
            "from C where a",
            format!("Expected operator after 'a' field, but found nothing. {operators}"),
        ),
        (
            "from C where a.b 'x'",
            format!("Expected operator after 'a.b' field, but found '''. {operators}"),
        ),
        (
            "from C where a like 'x'",
            format!("Expected operator after 'a' field, but found 'l'. {operators}"),
        ),
        (
            "from C where (a)",
            format!("Expected operator after 'a' field, but found ')'. {operators}"),
        ),
        (
            "from C where b = 1 and a",
            format!("Expected operator after 'a' field, but found nothing. {operators}"),
        ),
        ("from C limit", "Limit must contain a value".to_owned()),
        ("from C limit a", "Limit must contain a value".to_owned()),
        ("from C limit 1,", "Limit must contain a second value".to_owned()),
        ("from C limit 1,2 offset 3", "Cannot use 'offset' after 'limit $skip,$take'".to_owned()),
        ("from C offset x", "Offset must contain a value".to_owned()),
        ("from C filter a=1 filter_limit", "FILTER_LIMIT must contain a value".to_owned()),
        ("from C load a.b", "LOAD clause requires an alias but got: a.b".to_owned()),
        ("from C where a[x] = 1", "Expected to find closing ']' after 'a['.".to_owned()),
    ] {
        check_invalid(text, &message);
    }
}

#[test]
fn an_update_without_its_clause_is_refused() {
    let error = parse_update("from C where a = 1").unwrap_err();
    let message =
        "1:19 Update operations must end with UPDATE clause but got to the end of the query";
    assert_eq!(error.to_string(), message);
}

#[test]
fn length_and_depth_are_bounded() {
    let long = format!("from C where a = '{}'", "x".repeat(QUERY_BYTES_MAX));
    assert_eq!(parse(&long).unwrap_err().kind, ParseErrorKind::Invalid);

    let depth = NESTING_DEPTH_MAX as usize;
    let nested =
        |depth: usize| format!("from C where {}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(depth - 1)).is_ok());
    for text in [
        nested(depth + 1),
        format!("from C where {}a = 1", "not ".repeat(100_000 / 4)),
        format!("from C where {}", "f(".repeat(100_000)),
        format!("from C select {}", "f(".repeat(100_000)),
    ] {
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains("nested deeper than 200 levels"), "{message}");
    }
}

#[test]
fn a_chain_may_be_long_because_it_is_not_deep() {
    let chain = vec!["id() = 'crews/1'"; 10_000].join(" or ");
    assert!(parse(&format!("from C where {chain}")).is_ok());
}

#[test]
fn a_text_that_is_no_time_series_query_is_refused_at_its_place() {
    for (text, message) in [
        ("", "1:31 Expected the name of a time series after FROM but got: )"),
        (" 5", "1:32 Expected the name of a time series after FROM but got: 5)"),
        (
            " B as b",
            "1:34 Failed to find closing parentheses ) for time series select function but got: as",
        ),
        (" B between 1", "1:43 parsing Between, expected AND but got: )"),
        (
            " B last 1",
            "1:40 Could not parse the argument of LAST: expected a time period but got: )",
        ),
        (
            " B group by tag",
            "1:43 Could not parse the argument of GROUP BY: expected a time period but got: tag)",
        ),
        (
            " B group by 1h with linear",
            "1:57 Unable to parse WITH clause in time series function but got: )",
        ),
        (" B select *", "1:41 Unable to get field for SELECT but got: *)"),
    ] {
        check(&format!("from C select timeseries( from{text})"), message);
    }
    for (text, message) in [
        ("first 1h between 1 and 2", "A time series query has one range: BETWEEN, FIRST or LAST"),
        ("load Tag as a, Tag as b", "Cannot have multiple LOAD fields in time series functions"),
        ("scale x", "Failed to parse a value expression after SCALE in time series function"),
        (
            "where Value",
            "Expected operator after 'Value' field, but found ')'. Valid operators are: 'in', \
             'between', =, <, >, <=, >=, !=",
        ),
    ] {
        check_invalid(&format!("from C select timeseries(from B {text})"), message);
    }
    check(
        "declare timeseries f() { from B from C select f()",
        "1:33 Expected the end of the time series function but got: from",
    );
}
