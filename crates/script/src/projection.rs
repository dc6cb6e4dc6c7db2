//! Expressions over documents: `select { … }` and calls of declared functions, row by row.
//!
//! Compiled once per query text, bound to the query's parameters once per query, then called per row.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::function::Args;
use rquickjs::{Ctx, Function, Persistent, Value};

use crate::budget::Budget;
use crate::convert::Converter;
use crate::engine::{Engine, Realm};
use crate::error::ScriptError;
use crate::host::{Host, NoHost};
use crate::object::DocumentObject;
use crate::parameters::parameter_names;
use crate::program::{Program, ProgramBuilder};
use crate::source::ScriptDocument;
use crate::to_js::to_js;
use crate::value::ScriptValue;

/// An argument of an expression, in the order of its names.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A document; only the properties read are decoded.
    Document(ScriptDocument),
    /// Several documents, `null` where one is missing.
    Documents(Vec<Option<ScriptDocument>>),
    /// Any other value.
    Value(ScriptValue),
}

impl Argument {
    pub(crate) fn to_js<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
        let document_to_js = |document: &ScriptDocument| {
            DocumentObject::of_document(ctx, Rc::clone(&document.source))
        };
        match self {
            Argument::Document(document) => document_to_js(document),
            Argument::Documents(documents) => {
                let array = rquickjs::Array::new(ctx.clone())?;
                for (index, document) in documents.iter().enumerate() {
                    match document {
                        Some(document) => array.set(index, document_to_js(document)?)?,
                        None => array.set(index, Value::new_null(ctx.clone()))?,
                    }
                }
                Ok(array.into_value())
            }
            Argument::Value(value) => to_js(ctx, value),
        }
    }
}

/// A compiled expression; runs on any engine.
#[derive(Debug)]
pub struct Projection {
    program: Program,
    parameters: Vec<String>,
}

impl Projection {
    /// Prepares the expression `text`, which may use the variables `names`, the functions of
    /// `declarations` and parameters `$p`. Errors of the text show when it is bound.
    pub fn new(names: &[&str], declarations: &[&str], text: &str) -> Projection {
        let mut texts = declarations.to_vec();
        texts.push(text);
        let parameters = parameter_names(&texts);
        let mut builder = ProgramBuilder::new();
        builder.frame(&format!("(function ({}) {{ 'use strict';", dollars(&parameters)));
        for declaration in declarations {
            builder.part(declaration).frame(";");
        }
        builder.frame(&format!("return function ({}) {{ return (", names.join(", ")));
        builder.part(text).frame("); }; })");
        Projection { program: builder.finish(), parameters }
    }

    /// The names of the parameters that the texts use, without `$`.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Compiles the expression and binds it to the values of its parameters, which `value_of`
    /// returns by name; a missing one is `undefined`.
    pub fn bind<'a>(
        &'a self,
        engine: &'a Engine,
        mut value_of: impl FnMut(&str) -> Option<ScriptValue>,
    ) -> Result<BoundProjection<'a>, ScriptError> {
        let realm = engine.realm_for(&self.program, Budget::default(), &mut NoHost)?;
        let bound = realm.run(&self.program, Budget::default(), &mut NoHost, |ctx, program| {
            let bind = program.into_function().ok_or(rquickjs::Error::Unknown)?;
            let mut args = Args::new(ctx.clone(), self.parameters.len());
            for name in &self.parameters {
                let value = value_of(name).unwrap_or(ScriptValue::Undefined);
                args.push_arg(to_js(ctx, &value)?)?;
            }
            let row: Function<'_> = bind.call_arg(args)?;
            Ok(Persistent::save(ctx, row))
        });
        engine.clean_up(&realm, bound.as_ref().err());
        let time_left = Cell::new(None);
        Ok(BoundProjection { row: bound?, realm, projection: self, engine, time_left })
    }
}

/// An expression with its parameters; stays on the engine's thread.
pub struct BoundProjection<'a> {
    row: Persistent<Function<'static>>,
    /// Kept so that the function above does not outlive it.
    realm: Rc<Realm>,
    projection: &'a Projection,
    engine: &'a Engine,
    /// How long the further evaluations may take together, if that is limited.
    time_left: Cell<Option<Duration>>,
}

impl BoundProjection<'_> {
    /// Limits the time of all further evaluations together, for a caller that can evaluate the rows
    /// elsewhere if they take longer.
    pub fn limit_time(&self, time: Duration) {
        self.time_left.set(Some(time));
    }

    /// Whether that time is used up; the evaluation that used it up was stopped.
    pub fn has_run_out_of_time(&self) -> bool {
        self.time_left.get().is_some_and(|left| left.is_zero())
    }

    /// The value of the expression for one row; `arguments` in the order of the names.
    pub fn evaluate(
        &self,
        arguments: &[Argument],
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<ScriptValue, ScriptError> {
        // Nothing else limits the size of a row; a script with little memory may only produce small
        // ones.
        let bytes_max = self.engine.memory_bytes_max() as u64;
        let mut budget =
            Budget { result_bytes_max: budget.result_bytes_max.min(bytes_max), ..budget };
        let limited = self.time_left.get().map(|left| (left, self.engine.now()));
        if let Some((left, _)) = limited {
            budget.time_max = budget.time_max.min(left);
        }
        let program = &self.projection.program;
        let outcome = self.realm.run(program, budget, host, |ctx, _| {
            let row = self.row.clone().restore(ctx)?;
            let mut args = Args::new(ctx.clone(), arguments.len());
            for argument in arguments {
                args.push_arg(argument.to_js(ctx)?)?;
            }
            let value: Value<'_> = row.call_arg(args)?;
            Converter::new(ctx).convert(&value)
        });
        if let Some((left, began)) = limited {
            let elapsed = self.engine.now().saturating_sub(began);
            self.time_left.set(Some(left.saturating_sub(elapsed)));
        }
        self.engine.clean_up(&self.realm, outcome.as_ref().err());
        outcome
    }
}

/// `$a, $b` as the head of a function.
pub(crate) fn dollars(parameters: &[String]) -> String {
    parameters.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ")
}
