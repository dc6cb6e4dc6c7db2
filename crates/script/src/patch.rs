//! Scripts that change a document: `this` is the document, `args` are the values given with the script.

use std::rc::Rc;

use blittable::BlittableBuf;
use rquickjs::function::Args;
use rquickjs::{Object, Value};

use crate::budget::Budget;
use crate::convert::Converter;
use crate::engine::Engine;
use crate::error::ScriptError;
use crate::host::{Host, NoHost};
use crate::object::DocumentObject;
use crate::parameters::parameter_names;
use crate::program::{Program, ProgramBuilder};
use crate::projection::{Argument, dollars};
use crate::source::ScriptDocument;
use crate::value::ScriptValue;

/// A compiled patch; runs on any engine.
#[derive(Debug)]
pub struct PatchScript {
    program: Program,
    parameters: Vec<String>,
}

/// What a patch did.
#[derive(Debug)]
pub struct Patched {
    /// The document as the script left it; `None` when the script touched nothing of it. A script that
    /// gave properties the values they had gives an equal document here: compare before writing.
    pub document: Option<BlittableBuf>,
    /// What the script returned.
    pub returned: ScriptValue,
}

impl PatchScript {
    /// Compiles the statements `text`, which may use the functions of `declarations` and the variables
    /// `names` (the aliases of a query).
    pub fn compile(
        engine: &Engine,
        names: &[&str],
        declarations: &[&str],
        text: &str,
    ) -> Result<PatchScript, ScriptError> {
        let mut texts = declarations.to_vec();
        texts.push(text);
        let parameters = parameter_names(&texts);
        let mut heads = vec!["args".to_owned()];
        heads.extend(names.iter().map(|&name| name.to_owned()));
        if !parameters.is_empty() {
            heads.push(dollars(&parameters));
        }
        let mut builder = ProgramBuilder::new();
        builder.frame(&format!("(function ({}) {{ 'use strict';", heads.join(", ")));
        for declaration in declarations {
            builder.part(declaration).frame(";");
        }
        builder.frame("return (function () {").part(text).frame("}).call(this); })");
        let program = builder.finish();
        engine.run(&program, Budget::default(), &mut NoHost, |_, _| Ok(()))?;
        Ok(PatchScript { program, parameters })
    }

    /// Runs the script on `document`. `args` are the values given with it: an object, or nothing.
    /// `arguments` are those of the names given to [`PatchScript::compile`]; where one of them is meant
    /// to be the document itself it is [`PatchArgument::This`].
    pub fn run(
        &self,
        engine: &Engine,
        document: &ScriptDocument,
        args: Option<&ScriptDocument>,
        arguments: &[PatchArgument],
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<Patched, ScriptError> {
        let (returned, document) = engine.run(&self.program, budget, host, |ctx, program| {
            let patch = program.into_function().ok_or(rquickjs::Error::Unknown)?;
            let this = DocumentObject::of_document(ctx, Rc::clone(&document.source))?;
            let given = match args {
                Some(args) => DocumentObject::of_document(ctx, Rc::clone(&args.source))?,
                None => Object::new(ctx.clone())?.into_value(),
            };
            let mut values = Args::new(ctx.clone(), 1 + arguments.len() + self.parameters.len());
            values.this(this.clone())?;
            values.push_arg(given.clone())?;
            for argument in arguments {
                match argument {
                    PatchArgument::This => values.push_arg(this.clone())?,
                    PatchArgument::Other(argument) => values.push_arg(argument.to_js(ctx)?)?,
                }
            }
            if let Some(given) = given.as_object() {
                for name in &self.parameters {
                    let value: Value<'_> = given.get(name.as_str())?;
                    values.push_arg(value)?;
                }
            }
            let returned: Value<'_> = patch.call_arg(values)?;
            let mut converter = Converter::new(ctx);
            let is_touched = this
                .as_object()
                .and_then(DocumentObject::of)
                .is_some_and(|this| !this.borrow().is_untouched());
            let changed = if is_touched { Some(converter.convert(&this)?) } else { None };
            let returned = converter.convert(&returned).unwrap_or(ScriptValue::Null);
            Ok((returned, changed))
        })?;
        let document = match document {
            Some(changed) => changed.to_document()?,
            None => None,
        };
        Ok(Patched { document, returned })
    }
}

/// A variable of a patch beside `this` and `args`.
#[derive(Clone, Debug)]
pub enum PatchArgument {
    /// The document that is being patched.
    This,
    /// Anything else.
    Other(Argument),
}
