//! Scripts of the administrators' console: `server`, and `database` where the script is for one.
//!
//! `console.js` has the names that scripts use; each member that does something calls its [`Host`] by the name of an
//! operation, so that this crate knows no servers.

use rquickjs::{Function, Value};

use crate::budget::Budget;
use crate::convert::Converter;
use crate::engine::Engine;
use crate::error::ScriptError;
use crate::host::Host;
use crate::program::{Program, ProgramBuilder};
use crate::value::ScriptValue;

const FRAME: &str = include_str!("console.js");

/// A script of the console.
#[derive(Debug)]
pub struct ConsoleScript {
    program: Program,
}

impl ConsoleScript {
    /// Prepares a script, the body of a function. Errors of the text show when it runs.
    pub fn new(text: &str) -> ConsoleScript {
        let mut builder = ProgramBuilder::new();
        builder.frame("(function () {");
        builder.frame("const model = (function () { 'use strict';").frame(FRAME);
        builder.frame("return { server, database }; })();");
        builder.frame("const script = function (server, database) { 'use strict';");
        builder.part(text);
        builder.frame("};");
        builder.frame(
            "return name => script(model.server(), name == null ? null : model.database(name));",
        );
        builder.frame("})()");
        ConsoleScript { program: builder.finish() }
    }

    /// Runs it, for the database of this name if there is one; returns what it returns.
    ///
    /// # Errors
    /// It is not JavaScript, it throws, it exceeds the budget, or an operation of the host fails.
    pub fn run(
        &self,
        engine: &Engine,
        database: Option<&str>,
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<ScriptValue, ScriptError> {
        engine.run(&self.program, budget, host, |ctx, script| {
            let script: Function<'_> = script.into_function().ok_or(rquickjs::Error::Unknown)?;
            let returned: Value<'_> = script.call((database,))?;
            Converter::new(ctx).convert(&returned)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::Platform;

    use super::*;
    use crate::error::HostError;

    #[derive(Default)]
    struct Recorder {
        operations: Vec<(String, Vec<ScriptValue>)>,
    }

    impl Host for Recorder {
        fn operate(
            &mut self,
            operation: &str,
            arguments: Vec<ScriptValue>,
        ) -> Result<ScriptValue, HostError> {
            self.operations.push((operation.to_owned(), arguments));
            match operation {
                "tag" => Ok(ScriptValue::String("A".into())),
                "remove" => Err("there is no such node".into()),
                _ => Ok(ScriptValue::Undefined),
            }
        }
    }

    fn run(text: &str, database: Option<&str>) -> (Result<ScriptValue, ScriptError>, Recorder) {
        let engine = Engine::new(Arc::clone(&Platform::memory().clock));
        let mut recorder = Recorder::default();
        let script = ConsoleScript::new(text);
        let returned = script.run(&engine, database, Budget::default(), &mut recorder);
        (returned, recorder)
    }

    fn json(value: &ScriptValue) -> String {
        let mut out = Vec::new();
        value.write_json(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_reach_the_host_with_their_arguments() {
        let text = "server.ServerStore.ValidateFixedPort = false; \
                    server.ServerStore.AddNodeToClusterAsync('http://b', 'B', false, true, \
                    server.ServerStore.ServerShutdown).Wait(); return server.ServerStore.NodeTag;";
        let (returned, recorder) = run(text, None);
        assert_eq!(json(&returned.unwrap()), "\"A\"");
        let operations: Vec<_> = recorder
            .operations
            .iter()
            .map(|(name, values)| (name.as_str(), values.iter().map(json).collect::<Vec<_>>()))
            .collect();
        let add = vec!["\"http://b\"".to_owned(), "\"B\"".to_owned(), "true".to_owned()];
        assert_eq!(operations, [("add", add), ("tag", vec![])]);
    }

    #[test]
    fn what_does_not_exist_is_null_and_can_neither_be_set_nor_called() {
        let (returned, _) = run("return server.ServerStore.Nope.Nah", None);
        assert_eq!(json(&returned.unwrap()), "null");
        for text in ["server.ServerStore.Nope = 1", "server.ServerStore.Nope()"] {
            assert!(matches!(run(text, None).0, Err(ScriptError::Runtime { .. })), "{text}");
        }
    }

    #[test]
    fn an_operation_that_fails_throws() {
        let (returned, _) = run("server.ServerStore.RemoveFromClusterAsync('Z').Wait()", None);
        assert!(matches!(returned, Err(ScriptError::Host(_))));
        let caught =
            "try { server.ServerStore.RemoveFromClusterAsync('Z') } catch (e) { return 'caught' }";
        assert_eq!(json(&run(caught, None).0.unwrap()), "\"caught\"");
    }

    #[test]
    fn a_script_for_a_database_knows_it() {
        assert_eq!(json(&run("return database.Name", Some("db")).0.unwrap()), "\"db\"");
        assert_eq!(json(&run("return database", None).0.unwrap()), "null");
        assert_eq!(json(&run("return {a: 1, b: [1, 2]}", None).0.unwrap()), r#"{"a":1,"b":[1,2]}"#);
    }

    #[test]
    fn text_that_is_no_javascript_is_refused_with_the_place() {
        let (returned, _) = run("var a = 1;\nsyntax error here", None);
        let Err(ScriptError::Parse { position: Some(position), .. }) = returned else {
            panic!("{returned:?}");
        };
        assert_eq!(position.line, 2);
    }
}
