//! Scripts that change a document: `this` is the document, `args` are the arguments passed with the
//! script.

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
use crate::projection::dollars;
use crate::source::ScriptDocument;
use crate::value::ScriptValue;

/// The text of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PatchText {
    /// A name of the document in addition to `this`: the alias of a query.
    pub alias: Option<String>,
    /// Functions that the text may call.
    pub declarations: Vec<String>,
    /// Documents to load along with the one being changed.
    pub loads: Vec<PatchLoad>,
    /// The statements that change the document.
    pub text: String,
}

/// Documents to load whose ids are in the one being changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatchLoad {
    /// Their name in the text.
    pub name: String,
    /// The alias, or the name of an earlier load, from which the path starts.
    pub from: String,
    /// Where the ids are: names with dots, `[]` after those of arrays.
    pub path: String,
    /// Whether to load all of them, as an array, or only the first.
    pub many: bool,
}

impl PatchText {
    /// A patch of statements only.
    pub fn of(text: impl Into<String>) -> PatchText {
        PatchText { text: text.into(), ..PatchText::default() }
    }

    /// Approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.text.len() + self.declarations.iter().map(String::len).sum::<usize>()
    }
}

/// A compiled patch; runs on any engine.
#[derive(Debug)]
pub struct PatchScript {
    program: Program,
    parameters: Vec<String>,
    has_alias: bool,
}

/// What a patch did.
#[derive(Debug)]
pub struct Patched {
    /// The document after the script; `None` when the script did not change it. A script that sets
    /// properties to the values they already have produces an equal document: compare before
    /// writing.
    pub document: Option<BlittableBuf>,
    /// What the script returned.
    pub returned: ScriptValue,
}

impl PatchScript {
    /// Compiles the statements and declarations of a patch for this engine.
    pub fn compile(engine: &Engine, patch: &PatchText) -> Result<PatchScript, ScriptError> {
        let mut texts: Vec<&str> = patch.declarations.iter().map(String::as_str).collect();
        texts.push(&patch.text);
        let parameters = parameter_names(&texts);
        let mut heads = vec!["args".to_owned()];
        heads.extend(patch.alias.clone());
        if !parameters.is_empty() {
            heads.push(dollars(&parameters));
        }
        let mut builder = ProgramBuilder::new();
        builder.frame(&format!("(function ({}) {{ 'use strict';", heads.join(", ")));
        for declaration in &patch.declarations {
            builder.part(declaration).frame(";");
        }
        for load in &patch.loads {
            builder.frame(&load.statement());
        }
        builder.frame("return (function () {").part(&patch.text).frame("}).call(this); })");
        let program = builder.finish();
        engine.run(&program, Budget::default(), &mut NoHost, |_, _| Ok(()))?;
        Ok(PatchScript { program, parameters, has_alias: patch.alias.is_some() })
    }

    /// Removes this script, which will not run again, from the cache of `engine`.
    pub fn forget(&self, engine: &Engine) {
        engine.forget(&self.program);
    }

    /// Runs the script on `document`. `args` are its arguments: an object, or `None`.
    pub fn run(
        &self,
        engine: &Engine,
        document: &ScriptDocument,
        args: Option<&ScriptDocument>,
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<Patched, ScriptError> {
        let (returned, document) = engine.run(&self.program, budget, host, |ctx, program| {
            let patch = program.into_function().ok_or(rquickjs::Error::Unknown)?;
            let this = DocumentObject::of_document(ctx, Rc::clone(&document.source))?;
            let arguments = match args {
                Some(args) => DocumentObject::of_document(ctx, Rc::clone(&args.source))?,
                None => Object::new(ctx.clone())?.into_value(),
            };
            let mut values = Args::new(ctx.clone(), 2 + self.parameters.len());
            values.this(this.clone())?;
            values.push_arg(arguments.clone())?;
            if self.has_alias {
                values.push_arg(this.clone())?;
            }
            if let Some(arguments) = arguments.as_object() {
                for name in &self.parameters {
                    let value: Value<'_> = arguments.get(name.as_str())?;
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

impl PatchLoad {
    /// The statement that loads them. Names are those of a query, which are names in JavaScript, too.
    fn statement(&self) -> String {
        let PatchLoad { name, from, path, many } = self;
        let mut quoted = Vec::new();
        blittable::write_json_string(path, &mut quoted);
        let path = String::from_utf8_lossy(&quoted);
        let take = if *many { "" } else { "[0] ?? null" };
        let found = format!("[].concat(loadPath({from}, {path})).filter(found => found !== null)");
        format!("const {name} = ({found}){take};")
    }
}
