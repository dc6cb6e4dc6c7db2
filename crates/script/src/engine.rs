//! One JavaScript engine for one thread: compiled programs, budgets, and cleaning up after a run.
//!
//! An engine is created once per worker and runs any number of scripts of any kind, one at a time.
//! Global objects are frozen, so that scripts cannot see each other; each program keeps its own
//! functions. Invariant: after any error the engine serves the next script. A realm that may be in
//! a bad state (memory exhausted, jobs pending), or in which other programs take much of the memory,
//! is discarded and recreated.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use platform::Clock;
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{Context, Ctx, Exception, Function, Object, Persistent, Runtime, Value};
use rustc_hash::FxHashMap;

use crate::budget::{Budget, Meter};
use crate::counted_allocator::CountedAllocator;
use crate::error::{Exhausted, Refusal, ScriptError};
use crate::fault;
use crate::host::{CURRENT, Host};
use crate::natives::host_object;
use crate::program::{FILE_NAME, PROGRAM_BYTES_MAX, Program};

/// Default limit on the memory of one engine, in bytes.
pub const MEMORY_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// How many programs one engine keeps compiled.
pub const PROGRAMS_MAX: usize = 256;
/// Kept programs, with the values that they keep, may take this part of the memory. Beyond it they are
/// discarded: the running script is not to be charged for what others keep.
const KEPT_PART: usize = 4;
/// How much of the thread's stack scripts may use, in bytes.
const STACK_BYTES_MAX: usize = 256 << 10;

const PRELUDE: &str = include_str!("prelude.js");

type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::Proxy,
    intrinsic::Promise,
);

/// A JavaScript engine; stays on the thread that created it.
///
/// Creating one takes about 300 KB and a few milliseconds, which happens with the first script
/// unless it was prepared before; a compiled program adds a few KB.
pub struct Engine {
    clock: Arc<dyn Clock>,
    memory_bytes_max: usize,
    realm: RefCell<Option<Rc<Realm>>>,
}

/// A runtime with its only context. The order of the fields is the order in which they must die.
pub(crate) struct Realm {
    programs: RefCell<Programs>,
    context: Context,
    runtime: Runtime,
    meter: Rc<Meter>,
    memory_bytes_max: usize,
    /// Whether a program has run here.
    is_used: Cell<bool>,
    /// Bytes that the runtime has allocated.
    used_bytes: Rc<Cell<usize>>,
    /// Those that it uses before any run.
    own_bytes: usize,
}

#[derive(Default)]
struct Programs {
    compiled: FxHashMap<u64, Persistent<Value<'static>>>,
    /// In the order of their compilation, oldest first.
    order: VecDeque<u64>,
}

impl Programs {
    fn remove(&mut self, id: u64) {
        self.compiled.remove(&id);
        self.order.retain(|known| *known != id);
    }

    fn has_others(&self, id: u64) -> bool {
        self.order.iter().any(|known| *known != id)
    }

    fn insert(&mut self, id: u64, value: Persistent<Value<'static>>) {
        if self.order.len() >= PROGRAMS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.compiled.remove(&oldest);
        }
        self.order.push_back(id);
        self.compiled.insert(id, value);
    }
}

impl Engine {
    /// An engine with the default bound on memory.
    pub fn new(clock: Arc<dyn Clock>) -> Engine {
        Engine::with_memory(clock, MEMORY_BYTES_MAX_DEFAULT)
    }

    /// An engine that may use this many bytes.
    pub fn with_memory(clock: Arc<dyn Clock>, memory_bytes_max: usize) -> Engine {
        Engine { clock, memory_bytes_max, realm: RefCell::new(None) }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Prepares what the first script would otherwise wait for. Errors are left for that script to
    /// report.
    pub fn make_ready(&self) {
        drop(self.realm());
    }

    /// What a script may use of memory, in bytes.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// Frees what runs have left behind, when that is more than this many bytes besides what an engine needs by itself:
    /// garbage first, and if that does not suffice everything that is kept. The next run pays for that, and no run is
    /// refused because of it.
    pub fn shrink_to(&self, bytes_max: usize) {
        let realm = self.realm.borrow().clone();
        let shrinks = |realm: &Rc<Realm>| realm.collects_down_to(realm.own_bytes + bytes_max);
        if let Some(realm) = realm.filter(|realm| !shrinks(realm)) {
            self.discard(&realm);
        }
    }

    /// Bytes of memory that are in use.
    pub fn used_bytes(&self) -> usize {
        self.realm.borrow().as_ref().map_or(0, |realm| realm.used_bytes.get())
    }

    /// Discards the state of `program`, so that its next run starts from scratch.
    pub(crate) fn forget(&self, program: &Program) {
        if let Some(realm) = &*self.realm.borrow() {
            realm.programs.borrow_mut().remove(program.id);
        }
    }

    /// The realm to run in, created when there is none.
    pub(crate) fn realm(&self) -> Result<Rc<Realm>, ScriptError> {
        if let Some(realm) = &*self.realm.borrow() {
            return Ok(Rc::clone(realm));
        }
        let realm = Rc::new(Realm::new(Arc::clone(&self.clock), self.memory_bytes_max)?);
        *self.realm.borrow_mut() = Some(Rc::clone(&realm));
        Ok(realm)
    }

    /// Runs `work` with the evaluated `program` within `budget`; calls of the script reach `host`.
    pub(crate) fn run<R>(
        &self,
        program: &Program,
        budget: Budget,
        host: &mut dyn Host,
        work: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, ScriptError> {
        let realm = self.realm_for(program, budget, host)?;
        let outcome = realm.run(program, budget, host, work);
        self.clean_up(&realm, outcome.as_ref().err());
        outcome
    }

    /// A realm with `program` evaluated, where other programs leave it enough of the memory. It is tried
    /// in a new realm before it fails: a run has no effects before this.
    pub(crate) fn realm_for(
        &self,
        program: &Program,
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<Rc<Realm>, ScriptError> {
        let realm = self.realm()?;
        let was_used = realm.is_used.replace(true);
        let prepared = realm.prepare(program, budget, host);
        let has_room = match &prepared {
            Ok(()) => !realm.is_crowded(program),
            Err(error) => !is_out_of_memory(error),
        };
        self.clean_up(&realm, prepared.as_ref().err());
        if has_room || !was_used {
            return prepared.map(|_| realm);
        }
        self.discard(&realm);
        let realm = self.realm()?;
        realm.is_used.set(true);
        let prepared = realm.prepare(program, budget, host);
        self.clean_up(&realm, prepared.as_ref().err());
        prepared.map(|_| realm)
    }

    /// Discards the realm when the run may have left something behind.
    pub(crate) fn clean_up(&self, realm: &Rc<Realm>, error: Option<&ScriptError>) {
        let is_spent = match error {
            Some(ScriptError::Engine(_)) => true,
            Some(error) if is_out_of_memory(error) => true,
            Some(_) | None => realm.runtime.is_job_pending(),
        };
        if is_spent {
            self.discard(realm);
        }
    }

    /// Later runs get another realm.
    fn discard(&self, realm: &Rc<Realm>) {
        let mut current = self.realm.borrow_mut();
        if current.as_ref().is_some_and(|current| Rc::ptr_eq(current, realm)) {
            *current = None;
        }
    }
}

fn is_out_of_memory(error: &ScriptError) -> bool {
    matches!(error, ScriptError::Exhausted(Exhausted::Memory(_)))
}

impl Realm {
    fn new(clock: Arc<dyn Clock>, memory_bytes_max: usize) -> Result<Realm, ScriptError> {
        let broken = |error: rquickjs::Error| ScriptError::Engine(error.to_string());
        // What scripts have freed is returned to the system like everything else.
        let (allocator, used_bytes) = CountedAllocator::new();
        let runtime = Runtime::new_with_alloc(allocator).map_err(broken)?;
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        runtime.set_memory_limit(memory_bytes_max);
        let context = Context::custom::<Intrinsics>(&runtime).map_err(broken)?;
        context.with(|ctx| set_up(&ctx)).map_err(ScriptError::Engine)?;
        let meter = Rc::new(Meter::new(clock));
        let polled = Rc::clone(&meter);
        runtime.set_interrupt_handler(Some(Box::new(move || polled.must_stop())));
        Ok(Realm {
            programs: RefCell::new(Programs::default()),
            context,
            runtime,
            meter,
            memory_bytes_max,
            is_used: Cell::new(false),
            own_bytes: used_bytes.get(),
            used_bytes,
        })
    }

    /// Evaluates `program` unless it is kept.
    fn prepare(
        &self,
        program: &Program,
        budget: Budget,
        host: &mut dyn Host,
    ) -> Result<(), ScriptError> {
        if self.programs.borrow().compiled.contains_key(&program.id) {
            return Ok(());
        }
        self.run(program, budget, host, |_, _| Ok(()))
    }

    /// Whether the programs that are kept besides `program` take too much of the memory.
    fn is_crowded(&self, program: &Program) -> bool {
        let has_others = self.programs.borrow().has_others(program.id);
        has_others && !self.collects_down_to(self.memory_bytes_max / KEPT_PART)
    }

    /// Whether at most this many bytes are in use, after garbage is collected if there are more: values that refer to
    /// each other stay until then.
    fn collects_down_to(&self, bytes_max: usize) -> bool {
        if bytes_max < self.used_bytes.get() {
            self.runtime.run_gc();
        }
        self.used_bytes.get() <= bytes_max
    }

    /// See [`Engine::run`].
    pub(crate) fn run<R>(
        &self,
        program: &Program,
        budget: Budget,
        host: &mut dyn Host,
        work: impl for<'js> FnOnce(&Ctx<'js>, Value<'js>) -> rquickjs::Result<R>,
    ) -> Result<R, ScriptError> {
        fault::forget();
        self.meter.start(budget);
        let run = || {
            self.context.with(|ctx| {
                let compiled = self.compiled(&ctx, program)?;
                let done = work(&ctx, compiled);
                let done = done.map_err(|error| self.explain(&ctx, program, error))?;
                // A script may catch the error of a limit, but not continue after it.
                self.meter.exhausted().map_or(Ok(done), |bound| Err(ScriptError::Exhausted(bound)))
            })
        };
        // A bug of this code or of the library must not end more than the run; what it leaves is discarded.
        let ran = || CURRENT.set(host, || self.meter.measure(run));
        catch_unwind(AssertUnwindSafe(ran)).unwrap_or_else(|_| {
            Err(ScriptError::Engine("the script made the engine panic, which is a bug".to_owned()))
        })
    }

    /// What the text of `program` evaluates to, from the cache.
    fn compiled<'js>(&self, ctx: &Ctx<'js>, program: &Program) -> Result<Value<'js>, ScriptError> {
        if let Some(value) = self.programs.borrow().compiled.get(&program.id) {
            let restored = value.clone().restore(ctx);
            return restored.map_err(|error| self.explain(ctx, program, error));
        }
        let value = self.compile(ctx, program)?;
        self.programs.borrow_mut().insert(program.id, Persistent::save(ctx, value.clone()));
        Ok(value)
    }

    fn compile<'js>(&self, ctx: &Ctx<'js>, program: &Program) -> Result<Value<'js>, ScriptError> {
        if program.text.len() > PROGRAM_BYTES_MAX {
            return Err(ScriptError::Parse {
                message: format!("a script may have at most {PROGRAM_BYTES_MAX} bytes"),
                position: None,
            });
        }
        let mut options = EvalOptions::default();
        options.filename = Some(FILE_NAME.to_owned());
        ctx.eval_with_options::<Value<'js>, _>(program.text.as_str(), options)
            .map_err(|error| self.explain_parse(ctx, program, error))
    }

    /// The error of a text that did not compile, or threw while it was evaluated.
    fn explain_parse(
        &self,
        ctx: &Ctx<'_>,
        program: &Program,
        error: rquickjs::Error,
    ) -> ScriptError {
        if let rquickjs::Error::InvalidString(_) = error {
            let message = "a script may not contain the character NUL".to_owned();
            return ScriptError::Parse { message, position: None };
        }
        let thrown = ctx.catch();
        let name = thrown.as_object().and_then(|thrown| thrown.get::<_, String>("name").ok());
        ctx.throw(thrown);
        match self.explain(ctx, program, error) {
            ScriptError::Runtime { message, position, .. }
                if name.as_deref() == Some("SyntaxError") =>
            {
                ScriptError::Parse { message, position }
            }
            other => other,
        }
    }

    /// Converts an error of the engine to one of this crate.
    fn explain(&self, ctx: &Ctx<'_>, program: &Program, error: rquickjs::Error) -> ScriptError {
        let thrown = ctx.catch();
        if let Some(bound) = self.meter.exhausted() {
            return ScriptError::Exhausted(bound);
        }
        match error {
            rquickjs::Error::Exception => self.explain_thrown(ctx, program, thrown),
            rquickjs::Error::Allocation => {
                ScriptError::Exhausted(Exhausted::Memory(self.memory_bytes_max))
            }
            other => ScriptError::Runtime {
                message: other.to_string(),
                position: None,
                stack: String::new(),
            },
        }
    }

    fn explain_thrown<'js>(
        &self,
        ctx: &Ctx<'js>,
        program: &Program,
        thrown: Value<'js>,
    ) -> ScriptError {
        if thrown.is_null() {
            // The engine could not even allocate the error.
            return ScriptError::Exhausted(Exhausted::Memory(self.memory_bytes_max));
        }
        let Some(exception) = thrown.as_object().cloned().and_then(Exception::from_object) else {
            let message = thrown_text(ctx, &thrown);
            return ScriptError::Runtime { message, position: None, stack: String::new() };
        };
        let message = exception.message().unwrap_or_default();
        if let Some(error) = fault::take(&message) {
            return error;
        }
        match message.as_str() {
            "out of memory" => {
                return ScriptError::Exhausted(Exhausted::Memory(self.memory_bytes_max));
            }
            "Maximum call stack size exceeded" | "stack overflow" => {
                return ScriptError::Exhausted(Exhausted::Recursion);
            }
            _ => {}
        }
        let name = exception.as_object().get::<_, String>("name").unwrap_or_default();
        ctx.catch();
        if let Some(kind) = Refusal::of_name(&name) {
            return ScriptError::Refused { kind, message };
        }
        let (position, stack) = program.stack(&exception.stack().unwrap_or_default());
        ScriptError::Runtime { message, position, stack }
    }
}

/// A thrown value that is not an error, as text.
fn thrown_text<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    if let Some(text) = thrown.as_string() {
        return crate::convert::well_formed(ctx, text).unwrap_or_default();
    }
    match crate::convert::Converter::new(ctx).convert(thrown) {
        Ok(value) => value.to_json().unwrap_or_default(),
        Err(_) => {
            ctx.catch();
            "the script threw a value that cannot be shown".to_owned()
        }
    }
}

/// Fills and freezes the global scope.
fn set_up(ctx: &Ctx<'_>) -> Result<(), String> {
    let evaluated = || -> rquickjs::Result<()> {
        let host: Object<'_> = host_object(ctx)?;
        let text = format!("(function (host) {{ 'use strict';\n{PRELUDE}\n}})");
        let prelude: Function<'_> = ctx.eval(text)?;
        prelude.call((host,))
    };
    evaluated().map_err(|error| {
        let thrown = ctx.catch();
        let exception = thrown.as_object().cloned().and_then(Exception::from_object);
        let message = exception.map(|exception| {
            format!(
                "{} {}",
                exception.message().unwrap_or_default(),
                exception.stack().unwrap_or_default()
            )
        });
        message.unwrap_or_else(|| error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use platform::real::RealClock;

    use super::*;
    use crate::program::ProgramBuilder;

    #[test]
    fn the_first_script_finds_the_prepared_realm() {
        let engine = Engine::new(Arc::new(RealClock::default()));
        engine.make_ready();
        let ready = engine.realm.borrow().clone().expect("there is a realm");
        let mut builder = ProgramBuilder::new();
        builder.part("1 + 1");
        let (program, mut host) = (builder.finish(), crate::host::NoHost);
        let two = engine.run(&program, Budget::default(), &mut host, |_, value| Ok(value.as_int()));
        assert_eq!(two.ok().flatten(), Some(2));
        assert!(Rc::ptr_eq(&ready, &engine.realm().expect("it is still there")));
    }
}
