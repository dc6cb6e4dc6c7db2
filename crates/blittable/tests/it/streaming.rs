//! Requests read in one pass, and streams cut into elements.

use blittable::{
    Builder, JsonKind, JsonReader, ObjectScanner, ParseErrorKind, ParseLimits, ScanError, Scanned,
};

use crate::print;

#[test]
fn a_batch_of_commands_is_read_in_one_pass_with_its_documents() {
    let request = br#" {"Commands":[
        {"Id":"a","Type":"PUT","Document":{"x":[1.0,{"y":"}"}]},"ChangeVector":null},
        {"Type":"DELETE","Id":"b\u0041","Unknown":{"z":[true,{"q":"\""}]}}],"Count":2}trailing"#;
    let mut reader = JsonReader::new(request);
    let mut builder = Builder::new(ParseLimits::default());
    let mut seen = Vec::new();
    let mut count = 0;
    reader.begin_object().unwrap();
    while let Some(name) = reader.next_name().unwrap() {
        match name.as_ref() {
            "Commands" => read_commands(&mut reader, &mut builder, &mut seen),
            "Count" => count = reader.read_i64().unwrap(),
            other => panic!("{other}"),
        }
    }
    assert_eq!(count, 2);
    assert_eq!(seen, ["a", r#"{"x":[1.0,{"y":"}"}]}"#, "bA", r#"{"z":[true,{"q":"\""}]}"#]);
    assert_eq!(reader.position(), request.len() - "trailing".len());
    assert_eq!(reader.finish().unwrap_err().kind, ParseErrorKind::TrailingBytes);
}

fn read_commands(reader: &mut JsonReader<'_>, builder: &mut Builder, seen: &mut Vec<String>) {
    reader.begin_array().unwrap();
    while reader.next_element().unwrap() {
        reader.begin_object().unwrap();
        while let Some(name) = reader.next_name().unwrap() {
            match name.as_ref() {
                "Id" => seen.push(reader.read_str().unwrap().into_owned()),
                "Document" => seen.push(print(&reader.read_document(builder).unwrap())),
                "ChangeVector" => assert_eq!(reader.read_optional_str().unwrap(), None),
                "Unknown" => seen.push(reader.read_raw().unwrap().to_owned()),
                _ => reader.skip_value().unwrap(),
            }
        }
    }
}

#[test]
fn each_type_is_read_by_its_method_and_refused_by_the_others() {
    let mut reader = JsonReader::new(br#"["s",1,2.5,true,null,{},[],NaN,-Infinity,null,9]"#);
    reader.begin_array().unwrap();
    let mut kinds = Vec::new();
    while reader.next_element().unwrap() {
        kinds.push(reader.peek().unwrap());
        reader.skip_value().unwrap();
    }
    use JsonKind::{Array, Bool, Null, Number, Object, String};
    assert_eq!(
        kinds,
        [String, Number, Number, Bool, Null, Object, Array, String, String, Null, Number]
    );
    reader.finish().unwrap();

    let mut reader = JsonReader::new(b"1.5");
    assert_eq!(reader.read_i64().unwrap_err().kind, ParseErrorKind::NotAnInteger);
    assert_eq!(JsonReader::new(b" 1e5 ").read_number().unwrap(), "1e5");
    assert!(!JsonReader::new(b"false").read_bool().unwrap());
    assert_eq!(JsonReader::new(b"null").read_optional_bool().unwrap(), None);
    assert_eq!(JsonReader::new(b"-7").read_optional_i64().unwrap(), Some(-7));
    assert_eq!(JsonReader::new(b"-Infinity").read_str().unwrap(), "-Infinity");
    let error = JsonReader::new(b"  12").read_str().unwrap_err();
    assert_eq!(error.to_string(), "expected a string but found a number at byte 2");
    assert!(JsonReader::new(b"[1]").begin_object().is_err());
    assert!(JsonReader::new(b"").peek().unwrap_err().is_unexpected_end());
}

#[test]
fn skipping_checks_the_syntax_of_what_it_skips() {
    for valid in ["{}", "[[],{'a':[1,],}]", r#""x""#, "-1.5e3", r#"{"a":{"b":[{}]}}"#] {
        let mut reader = JsonReader::new(valid.as_bytes());
        assert_eq!(reader.read_raw().unwrap(), valid);
        reader.finish().unwrap();
    }
    for invalid in ["{", "[}", "{]", r#"{"a":[}]"#, "[1 2]", "[1,,2]", "tru", r#"{"a"}"#, "\"\\q\""]
    {
        assert!(JsonReader::new(invalid.as_bytes()).skip_value().is_err(), "{invalid}");
    }
}

/// Cuts `stream` into chunks of `chunk_bytes` and collects the elements.
fn collect(stream: &[u8], chunk_bytes: usize) -> Result<Vec<String>, ScanError> {
    let mut scanner = ObjectScanner::new(1000);
    let mut elements = Vec::new();
    let mut pending = Vec::new();
    for mut chunk in stream.chunks(chunk_bytes) {
        while !chunk.is_empty() {
            match scanner.scan(chunk)? {
                Scanned::Element { start, end } => {
                    pending.extend_from_slice(&chunk[start..end]);
                    elements.push(String::from_utf8(std::mem::take(&mut pending)).unwrap());
                    chunk = &chunk[end..];
                }
                Scanned::Partial { start } => {
                    pending.extend_from_slice(&chunk[start..]);
                    break;
                }
                Scanned::Between => break,
            }
        }
    }
    assert_eq!(scanner.position(), stream.len() as u64);
    scanner.finish()?;
    Ok(elements)
}

#[test]
fn elements_are_found_whatever_the_chunks() {
    let first = r#"{"a":"}\"]{\\","b":[{},[]],'c':'}\'"'}"#;
    let second = "{\n}";
    let third = r#"{"long":"some text that is longer than eight bytes \\\\\"}"}"#;
    let streams = [
        format!(" [ {first} , {second},{third} ] \n"),
        format!("{first}{second}\r\n{third}"),
        format!("{first},{second},\n{third},"),
    ];
    for stream in &streams {
        for chunk_bytes in 1..=stream.len() {
            let found = collect(stream.as_bytes(), chunk_bytes).unwrap();
            assert_eq!(found, [first, second, third], "chunks of {chunk_bytes}");
        }
    }
    for empty in ["", "  ", "[]", " [ ] "] {
        assert_eq!(collect(empty.as_bytes(), 1), Ok(Vec::new()));
    }
}

#[test]
fn streams_that_are_no_sequence_of_objects_are_refused() {
    let unexpected = |found, position| Err(ScanError::UnexpectedByte { found, position });
    for (stream, expected) in [
        ("1", unexpected(b'1', 0)),
        ("[{},5]", unexpected(b'5', 4)),
        ("[[", unexpected(b'[', 1)),
        ("[]{}", unexpected(b'{', 2)),
        ("{}]", unexpected(b']', 2)),
        ("[{},,{}]", unexpected(b',', 4)),
        ("[ ,{}]", unexpected(b',', 2)),
        ("{}, ,", unexpected(b',', 4)),
        (",{}", unexpected(b',', 0)),
        ("[{}", Err(ScanError::UnexpectedEnd { position: 3 })),
        (r#"{"a":"#, Err(ScanError::UnexpectedEnd { position: 5 })),
    ] {
        for chunk_bytes in [1, 100] {
            assert_eq!(collect(stream.as_bytes(), chunk_bytes), expected, "{stream}");
        }
    }
    let too_large = format!(r#"[{{}},{{"a":"{}"}}]"#, "x".repeat(1000));
    for chunk_bytes in [1, 7, 5000] {
        let expected = Err(ScanError::ElementTooLarge { bytes_max: 1000, position: 4 });
        assert_eq!(collect(too_large.as_bytes(), chunk_bytes), expected);
    }
}
