//! What the parser accepts and rejects, and how values read back, row by row.

use blittable::{ParseErrorKind, ParseLimits, parse_document};

use crate::{parse, print};

#[test]
fn accepted_text_reads_back_as_recorded() {
    let overlong_fraction = format!(r#"{{"a":0.{}}}"#, "1".repeat(400));
    let rows: &[(&str, &str)] = &[
        ("{}", "{}"),
        (" \t\r\n{ } \n", "{}"),
        ("\u{feff}{\"a\":1}", r#"{"a":1}"#),
        (r#"{"b":1,"a":[true,false,null]}"#, r#"{"b":1,"a":[true,false,null]}"#),
        // Numbers keep their text, except for -0.
        (
            r#"{"a":[1.0,1e5,1E+2,0.10,-0.0,0e0,0.000]}"#,
            r#"{"a":[1.0,1e5,1E+2,0.10,-0.0,0e0,0.000]}"#,
        ),
        (r#"{"a":[-0,0,-1,7]}"#, r#"{"a":[0,0,-1,7]}"#),
        (
            r#"{"a":[9223372036854775807,-9223372036854775808]}"#,
            r#"{"a":[9223372036854775807,-9223372036854775808]}"#,
        ),
        (
            r#"{"a":[9223372036854775808,-9223372036854775809,100000000000000000000]}"#,
            r#"{"a":[9223372036854775808,-9223372036854775809,100000000000000000000]}"#,
        ),
        (
            r#"{"a":[999999999999999999,1000000000000000000,-999999999999999999]}"#,
            r#"{"a":[999999999999999999,1000000000000000000,-999999999999999999]}"#,
        ),
        (
            r#"{"a":[1.7976931348623157e308,-1.7976931348623157E308,1e-400]}"#,
            r#"{"a":[1.7976931348623157e308,-1.7976931348623157E308,1e-400]}"#,
        ),
        (&overlong_fraction, &overlong_fraction),
        // Words that are not numbers in JSON become strings.
        (
            r#"{"a":NaN,"b":Infinity,"c":-Infinity}"#,
            r#"{"a":"NaN","b":"Infinity","c":"-Infinity"}"#,
        ),
        // Single quotes and one trailing comma.
        (r#"{'a':'x "y"',"b":'z'}"#, r#"{"a":"x \"y\"","b":"z"}"#),
        (r#"{'a"b':1}"#, r#"{"a\"b":1}"#),
        (r#"{"a":1,}"#, r#"{"a":1}"#),
        (r#"{"a":[1,2,],"b":{"c":1,},}"#, r#"{"a":[1,2],"b":{"c":1}}"#),
        // Duplicate keys: the last value at the last position; case matters.
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"b":2,"a":3}"#),
        (r#"{"x":{"a":1,"a":2,"b":3,"a":"4"}}"#, r#"{"x":{"b":3,"a":"4"}}"#),
        (r#"{"a":1,"A":2}"#, r#"{"a":1,"A":2}"#),
        (r#"{"":1}"#, r#"{"":1}"#),
        // Strings.
        (r#"{"a":"\ud83d\ude00"}"#, "{\"a\":\"\u{1f600}\"}"),
        ("{\"a\":\"\u{1f600}\"}", "{\"a\":\"\u{1f600}\"}"),
        (r#"{"a":"\ud800x"}"#, "{\"a\":\"\u{fffd}x\"}"),
        (r#"{"a":"\udc00"}"#, "{\"a\":\"\u{fffd}\"}"),
        (r#"{"a":"\ud800\u0041"}"#, "{\"a\":\"\u{fffd}A\"}"),
        (r#"{"a":"\ud800\ud83d\ude00"}"#, "{\"a\":\"\u{fffd}\u{1f600}\"}"),
        (r#"{"\u0041\n":1,"\ud800":2}"#, "{\"A\\n\":1,\"\u{fffd}\":2}"),
        (
            r#"{"a":"\/\b\f\n\r\t\"\\\u0001\u001f\u007f\u00e9\u2028"}"#,
            "{\"a\":\"/\\b\\f\\n\\r\\t\\\"\\\\\\u0001\\u001F\u{7f}\u{e9}\u{2028}\"}",
        ),
        // Raw control characters are accepted and printed as escapes.
        ("{\"a\":\"x\ty\nz\u{0}\"}", r#"{"a":"x\ty\nz\u0000"}"#),
    ];
    for (json, expected) in rows {
        let document = parse(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(print(&document), *expected, "{json}");
    }
}

#[test]
fn errors_report_where_and_why() {
    let unexpected = |found, expected| ParseErrorKind::UnexpectedByte { found, expected };
    let member = "a property name or '}'";
    let nines = format!(r#"{{"a":{}}}"#, "9".repeat(400));
    let rows: &[(&[u8], usize, ParseErrorKind)] = &[
        (b"", 0, ParseErrorKind::UnexpectedEnd),
        (b"  ", 2, ParseErrorKind::UnexpectedEnd),
        (b"{", 1, ParseErrorKind::UnexpectedEnd),
        (br#"{"a"#, 3, ParseErrorKind::UnexpectedEnd),
        (br#"{"a\"#, 4, ParseErrorKind::UnexpectedEnd),
        (br#"{"a""#, 4, ParseErrorKind::UnexpectedEnd),
        (br#"{"a":"#, 5, ParseErrorKind::UnexpectedEnd),
        (br#"{"a":tru"#, 8, ParseErrorKind::UnexpectedEnd),
        (br#"{"a":-"#, 6, ParseErrorKind::UnexpectedEnd),
        (br#"{"a":1."#, 7, ParseErrorKind::UnexpectedEnd),
        (br#"{"a":1"#, 6, ParseErrorKind::UnexpectedEnd),
        (b"[1]", 0, ParseErrorKind::RootIsNotAnObject),
        (b"1", 0, ParseErrorKind::RootIsNotAnObject),
        (b"null", 0, ParseErrorKind::RootIsNotAnObject),
        (br#"{"a":1} x"#, 8, ParseErrorKind::TrailingBytes),
        (br#"{"a":1}{}"#, 7, ParseErrorKind::TrailingBytes),
        (br#"{"a":/*c*/1}"#, 5, unexpected(b'/', "a value")),
        (br#"{"a":01}"#, 5, ParseErrorKind::InvalidNumber),
        (br#"{"a":00}"#, 5, ParseErrorKind::InvalidNumber),
        (br#"{"a":-01}"#, 5, ParseErrorKind::InvalidNumber),
        (br#"{"a":+1}"#, 5, unexpected(b'+', "a value")),
        (br#"{"a":.5}"#, 5, unexpected(b'.', "a value")),
        (br#"{"a":1.}"#, 7, ParseErrorKind::InvalidNumber),
        (br#"{"a":1.e5}"#, 7, ParseErrorKind::InvalidNumber),
        (br#"{"a":1e}"#, 7, ParseErrorKind::InvalidNumber),
        (br#"{"a":1e+}"#, 8, ParseErrorKind::InvalidNumber),
        (br#"{"a":-}"#, 6, ParseErrorKind::InvalidNumber),
        (br#"{"a":-NaN}"#, 6, ParseErrorKind::InvalidNumber),
        (br#"{"a":0x1}"#, 6, unexpected(b'x', "',' or '}'")),
        (br#"{"a":1.2.3}"#, 8, unexpected(b'.', "',' or '}'")),
        (br#"{"a":1-2}"#, 6, unexpected(b'-', "',' or '}'")),
        (br#"{"a":1.79e309}"#, 5, ParseErrorKind::NumberTooLarge),
        (br#"{"a":-1e400}"#, 5, ParseErrorKind::NumberTooLarge),
        (br#"{"a":1.7976931348623159e308}"#, 5, ParseErrorKind::NumberTooLarge),
        (nines.as_bytes(), 5, ParseErrorKind::NumberTooLarge),
        (b"{,}", 1, unexpected(b',', member)),
        (br#"{"a":1,,}"#, 7, unexpected(b',', member)),
        (br#"{"a":[,]}"#, 6, unexpected(b',', "a value")),
        (br#"{"a":[1,,2]}"#, 8, unexpected(b',', "a value")),
        (b"{a:1}", 1, unexpected(b'a', member)),
        (br#"{"a":1 "b":2}"#, 7, unexpected(b'"', "',' or '}'")),
        (br#"{"a":[1 2]}"#, 8, unexpected(b'2', "',' or ']'")),
        (br#"{"a" 1}"#, 5, unexpected(b'1', "':'")),
        (br#"{"a":[1}}"#, 7, unexpected(b'}', "',' or ']'")),
        (br#"{"a":{"b":1]}"#, 11, unexpected(b']', "',' or '}'")),
        (br#"{"a":TRUE}"#, 5, unexpected(b'T', "a value")),
        (br#"{"a":nul}"#, 8, unexpected(b'}', "null")),
        (br#"{"a":undefined}"#, 5, unexpected(b'u', "a value")),
        (br#"{"a":"\q"}"#, 6, ParseErrorKind::InvalidEscape(b'q')),
        (br"{'a':'it\'s'}", 8, ParseErrorKind::InvalidEscape(b'\'')),
        (br#"{"a":"xy\u12G4"}"#, 8, ParseErrorKind::InvalidUnicodeEscape),
        (br#"{"a":"\u+123"}"#, 6, ParseErrorKind::InvalidUnicodeEscape),
        (br#"{"a":"\u12"}"#, 6, ParseErrorKind::InvalidUnicodeEscape),
        (b"{\"a\":\"\xFF\"}", 6, ParseErrorKind::InvalidUtf8),
        (b"{\"a\":\"\xED\xA0\x80\"}", 6, ParseErrorKind::InvalidUtf8),
        (b"{\"a\":1}\xFF", 7, ParseErrorKind::InvalidUtf8),
        (b"\xC2\xA0{}", 0, unexpected(0xC2, "a value")),
    ];
    for (json, position, kind) in rows {
        let shown = json.escape_ascii();
        let Err(error) = parse(json) else { panic!("accepted {shown}") };
        assert_eq!((error.position, &error.kind), (*position, kind), "{shown}");
        assert_eq!(error.is_unexpected_end(), *kind == ParseErrorKind::UnexpectedEnd);
    }
}

#[test]
fn errors_are_in_plain_english() {
    let message = |json: &str| parse(json).unwrap_err().to_string();
    assert_eq!(message("{"), "the JSON text ends unexpectedly at byte 1");
    assert_eq!(message("{\"a\":\t?}"), "unexpected '?', expected a value at byte 6");
    assert_eq!(message(r#"{"a":01}"#), "this is not a valid JSON number at byte 5");
}

#[test]
fn each_limit_refuses_what_exceeds_it_and_nothing_less() {
    let limits = ParseLimits { depth_max: 3, document_bytes_max: 40, property_count_max: 3 };
    let check = |json: &str| parse_document(json.as_bytes(), &limits).map_err(|error| error.kind);
    assert!(check(r#"{"a":[[]]}"#).is_ok());
    assert_eq!(check(r#"{"a":[[[]]]}"#), Err(ParseErrorKind::TooDeep { depth_max: 3 }));
    assert_eq!(check(r#"{"a":[{"b":{}}]}"#), Err(ParseErrorKind::TooDeep { depth_max: 3 }));
    assert!(check(r#"{"a":1,"b":2,"c":{"d":1}}"#).is_ok());
    let too_many = Err(ParseErrorKind::TooManyProperties { count_max: 3 });
    assert_eq!(check(r#"{"a":1,"b":2,"c":3,"d":4}"#), too_many);
    assert_eq!(check(r#"{"a":1,"a":2,"a":3,"a":4}"#), too_many, "repeated names count");
    assert!(check(&format!(r#"   {{"a":"{}"}}   "#, "x".repeat(32))).is_ok());
    let too_large = Err(ParseErrorKind::TooLarge { bytes_max: 40 });
    assert_eq!(check(&format!(r#"{{"a":"{}"}}"#, "x".repeat(33))), too_large);
}
