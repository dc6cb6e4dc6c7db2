//! Errors: their kind, their words, and where in the author's text they happened.

use script::{Budget, Exhausted, PatchScript, PatchText, Position, ScriptError};

use crate::world::{Notes, document, engine, patch};

fn error(text: &str) -> ScriptError {
    let engine = engine();
    patch(&engine, &document("d/1", r#"{"a":1}"#), text, &mut Notes::default()).unwrap_err()
}

#[test]
fn texts_that_do_not_parse_say_where() {
    for (text, line, column) in
        [("this.x = ", 2, 1), ("var a = 1;\nvar b = );", 2, 9), ("10n", 1, 1)]
    {
        match error(text) {
            ScriptError::Parse { position: Some(at), message } => {
                assert_eq!(at.line.min(2), line.min(2), "{text}: {message} {at}");
                assert!(at.line < 2 || at.column == column, "{text}: {message} {at}");
            }
            // The end of the text is in the frame.
            ScriptError::Parse { position: None, .. } if line == 2 => {}
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn thrown_errors_say_where() {
    let text = "function f() {\n  throw new Error('boom');\n}\nf();";
    match error(text) {
        ScriptError::Runtime { message, position, stack } => {
            assert_eq!(message, "boom");
            assert_eq!(position.map(|at| at.line), Some(2));
            assert_eq!(stack.lines().count(), 2, "{stack}");
            assert!(stack.starts_with("at f:2:"), "{stack}");
        }
        other => panic!("{other:?}"),
    }
    for (text, message) in [
        ("throw 'text'", "text"),
        ("throw { a: 1 }", r#"{"a":1}"#),
        ("throw 5", "5"),
        ("null.x = 1", "cannot set property 'x' of null"),
    ] {
        match error(text) {
            ScriptError::Runtime { message: actual, .. } => assert_eq!(actual, message, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn errors_of_the_host_come_out_as_they_went_in() {
    match error("del('locked')") {
        ScriptError::Host(source) => assert_eq!(source.to_string(), "the document is locked"),
        other => panic!("{other:?}"),
    }
    let engine = engine();
    let caught = "try { del('locked') } catch (e) { this.e = e.message }";
    let patched = patch(&engine, &document("d/1", "{}"), caught, &mut Notes::default()).unwrap();
    let document = patched.document.unwrap();
    let message = document.as_view().root().get_str("e").unwrap().unwrap().into_owned();
    assert_eq!(message, "the document is locked");
}

#[test]
fn bounds_name_their_setting() {
    match error("for (;;) {}") {
        ScriptError::Exhausted(bound) => {
            assert_eq!(bound, Exhausted::Steps(10_000));
            let words = "the maximum number of statements executed have been reached - 10000";
            assert_eq!(bound.to_string(), words);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_declared_has_positions_of_its_own() {
    let engine = engine();
    let declared = "function f() {\n\n  return g.h.i();\n}";
    let declarations =
        vec![declared.to_owned(), "function bad() {\n throw new Error('x') }".to_owned()];
    let patch = PatchText { declarations, ..PatchText::of("f();\n bad()") };
    let script = PatchScript::compile(&engine, &patch).unwrap();
    let (document, budget) = (document("d/1", "{}"), Budget::default());
    let error = script.run(&engine, &document, None, budget, &mut Notes::default()).unwrap_err();
    match error {
        ScriptError::Runtime { position: Some(Position { line: 2, .. }), stack, .. } => {
            let lines = stack.lines().collect::<Vec<_>>();
            assert!(lines[0].starts_with("at bad:2:") && lines[1].contains(":2:"), "{stack}");
        }
        other => panic!("{other:?}"),
    }
}
