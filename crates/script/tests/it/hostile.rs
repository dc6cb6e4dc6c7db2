//! Malicious or faulty scripts: each ends soon, reports why, and leaves the engine usable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use platform::real::RealClock;
use platform::simulated::SimulatedClock;
use platform::{Clock, Timestamp};
use script::{
    Argument, Budget, Engine, Exhausted, NoHost, PatchScript, PatchText, Projection,
    ScriptDocument, ScriptError, ScriptValue,
};

use crate::world::{json, parse, patch};

#[derive(Debug, Clone, Copy)]
enum End {
    Steps,
    Memory,
    Recursion,
    Throws,
    /// Any of the limits: which one is reached first depends on the machine.
    Stopped,
    /// Completes, with this in `this.r`.
    Yields(&'static str),
}

use End::{Memory, Recursion, Steps, Stopped, Throws, Yields};

#[rustfmt::skip]
const SCRIPTS: &[(&str, End)] = &[
    ("for (;;) {}", Steps),
    ("while (true) { try { while (true) {} } catch (e) {} finally { continue; } }", Steps),
    ("function f() { f() } f()", Recursion),
    ("function f() { try { f() } catch (e) { f() } } f()", Stopped),
    ("function f(x) { return [x].map(f) } f(1)", Recursion),
    ("var o = { get a() { return this.a } }; o.a", Recursion),
    ("var o = { toString() { return '' + this } }; '' + o", Recursion),
    ("var a = []; a[0] = a; this.r = '' + a", Stopped),
    ("var a = 'a'.repeat(30) + 'b'; /^(a+)+$/.test(a)", Steps),
    ("/(?:a|a|b)*c/.test('a'.repeat(50000))", Stopped),
    ("var s = 'a'; for (;;) s += s;", Stopped),
    ("'a'.repeat(2 ** 29)", Memory),
    ("'a'.padStart(2 ** 29)", Memory),
    ("new Array(1e9) + ''", Stopped),
    ("this.r = new Array(1e9)", Throws),
    ("this.r = new Array(4294967295)", Throws),
    ("var a = []; a[4294967294] = 1; this.r = { deep: [a] }", Throws),
    ("Array(5e7).fill(1).sort()", Stopped),
    ("Array(3e6).fill(1).sort()", Stopped),
    ("var a = Array(1e6).fill('x'); a.sort(); a.sort(); a.sort()", Stopped),
    ("[].join.call({ length: 1e15 })", Stopped),
    ("[].indexOf.call({ length: 1e15 }, 1)", Stopped),
    ("[].lastIndexOf.call({ length: 1e15 }, 1)", Stopped),
    ("[].reverse.call({ length: 1e15 })", Stopped),
    ("[].map.call({ length: 1e15 }, x => x)", Stopped),
    ("[].forEach.call({ length: 1e15 }, x => x)", Steps),
    ("[].concat(Object.assign([], { length: 4e9 }))", Stopped),
    ("[].includes.call({ length: 1e15 }, 1)", Stopped),
    ("[].fill.call({ length: 1e15 }, 1)", Stopped),
    ("[].copyWithin.call({ length: 1e15 }, 0, 5)", Stopped),
    ("[].flat.call({ length: 1e15 })", Stopped),
    ("[].some.call(new Array(4e9), x => x)", Steps),
    ("[].reduceRight.call(new Array(4e9), x => x)", Stopped),
    ("[].unshift.call({ length: 2 ** 52 }, 1)", Stopped),
    ("[].splice.call({ length: 2 ** 52 }, 0, 1)", Stopped),
    ("[].slice.call({ length: 2 ** 52 })", Stopped),
    ("[].toSorted.call({ length: 1e8 })", Stopped),
    ("Array.from({ length: 1e15 })", Stopped),
    ("[...{ *[Symbol.iterator]() { for (;;) yield 1 } }]", Steps),
    ("new Set({ *[Symbol.iterator]() { for (;;) yield {} } })", Steps),
    ("String.raw({ raw: { length: 1e15 } })", Stopped),
    ("JSON.stringify({ toJSON() { return this } , get a() { for (;;) {} } })", Steps),
    ("JSON.parse('['.repeat(1e6))", Recursion),
    ("var a = []; for (var i = 0; i < 300; i++) a = [a]; this.r = a", Throws),
    ("var o = {}; for (var i = 0; i < 300; i++) o = {o}; this.r = JSON.stringify(o).length", Yields("1802")),
    ("'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b')", Steps),
    ("'a'.repeat(4e6).includes('a'.repeat(2e6) + 'b')", Steps),
    ("'a'.repeat(4e6).lastIndexOf('b' + 'a'.repeat(2e6))", Steps),
    ("'a'.repeat(4e6).split('a'.repeat(2e6) + 'b')", Steps),
    ("'a'.repeat(4e6).replace('a'.repeat(2e6) + 'b', '')", Steps),
    ("'a'.repeat(4e6).replaceAll('a'.repeat(2e6) + 'b', '')", Steps),
    ("'a'.repeat(1e7).replaceAll('', 'bbbbbbbbbb')", Memory),
    ("(function* () { for (;;) yield 1 })().toArray()", Steps),
    ("for (var i = 0; ; i++) this['p' + i] = i", Steps),
    ("var m = new Map(); for (;;) m.set({}, 1)", Steps),
    ("new RegExp('(' .repeat(100000))", Throws),
    ("new RegExp('a{1,1000}'.repeat(5000))", Yields("untouched")),
    ("new RegExp('((a{1,99}){1,99}){1,99}').test('a'.repeat(1e6))", Stopped),
    ("function* g() { yield* g() } [...g()]", Recursion),
    ("Function('for(;;){}')()", Throws),
    ("(() => {}).constructor('return 1')()", Throws),
    ("(async () => {}).constructor('return 1')()", Throws),
    ("try { eval('1+1') } catch (error) { this.r = error.message }", Yields("\"eval: text cannot become code\"")),
    ("async function f() { for (;;) await 1 } f(); this.r = 1", Yields("1")),
    ("this.r = typeof Promise + typeof WebAssembly", Yields("\"undefinedundefined\"")),
    ("Array.prototype.map = null", Throws),
    ("Object.prototype.x = 1", Throws),
    ("Object.getPrototypeOf(scalarToRawString(this, x => x.a)).toString = null", Throws),
    ("this.r = scalarToRawString(this, x => x.a) + 1", Yields("\"1.01\"")),
    ("this.r = Object.create({}, { [Symbol.for('digits of a stored number')]: { value: '1.' } })", Yields("{}")),
    ("globalThis.x = 1", Throws),
    ("leak = 1", Throws),
    ("delete globalThis.load", Throws),
    ("load = 5", Throws),
    ("Object.defineProperty(Array.prototype, 'y', { value: 1 })", Throws),
    ("Object.setPrototypeOf(Array.prototype, null)", Throws),
    ("Object.getPrototypeOf(this).z = 1", Throws),
    ("Object.getPrototypeOf(function* () {}).prototype.next = 1", Throws),
    ("Object.getPrototypeOf([][Symbol.iterator]()).next = 1", Throws),
    ("Math.random = () => 4", Throws),
    ("JSON.parse = 1", Throws),
    ("RegExp.prototype.exec = 1", Throws),
    ("Symbol.absentMembers.x = 1; globalThis[Symbol.absentMembers].map = 1", Throws),
    ("var o = { get a() { throw new Error('no') } }; this.r = o", Throws),
    ("this.r = { toJSON() { throw 1 } }", Yields("{\"toJSON\":null}")),
    ("throw undefined", Throws),
    ("throw { a: 1 }", Throws),
    ("var e = new Error('x'); e.message = { toString() { for (;;) {} } }; throw e", Stopped),
    ("var e = new Error('x'); Object.defineProperty(e, 'stack', { get() { for (;;) {} } }); throw e", Throws),
    ("throw { toString() { for (;;) {} }, get a() { for (;;) {} } }", Stopped),
    ("this.r = { get a() { for (;;) {} } }", Steps),
    ("this.r = '\\ud800'", Yields("\"\u{fffd}\"")),
    ("this['\\ud800'] = 1; this.r = Object.keys(this)[1]", Yields("\"\u{fffd}\"")),
    ("this.r = 'a\\0b'.length", Yields("3")),
    ("this.r = parseInt('9'.repeat(1e6))", Yields("\"Infinity\"")),
    ("this.r = (0.1).toFixed(100).length", Yields("102")),
    ("this.r = Object.entries(this).length", Yields("1")),
    ("Object.freeze(this); this.r = 1", Stopped),
    ("var e = new Error(); e.message = 'x'; e.name = 'N'; var o = {}; o.toString = () => 'y'; o.constructor = 1; this.r = e + o", Yields("\"N: xy\"")),
    ("class A extends Error { constructor() { super('m'); this.name = 'A' } } this.r = '' + new A()", Yields("\"A: m\"")),
    ("import('fs')", Yields("untouched")),
];

/// No script may take longer than this, whatever it does inside of builtins and however busy the machine is.
const LATEST: Duration = Duration::from_secs(20);

/// A clock that advances by a millisecond with each reading, so that the limit a script reaches
/// first does not depend on the machine.
#[derive(Default)]
struct AskedClock {
    asked: AtomicU64,
}

impl Clock for AskedClock {
    fn now(&self) -> Timestamp {
        RealClock::new().now()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.asked.fetch_add(1, Ordering::Relaxed))
    }
}

fn small_engine() -> Engine {
    Engine::with_memory(Arc::new(AskedClock::default()), 32 << 20)
}

fn ends(end: End, outcome: &Result<String, ScriptError>) -> bool {
    match (end, outcome) {
        (Steps, Err(ScriptError::Exhausted(Exhausted::Steps(_) | Exhausted::Time(_)))) => true,
        (Memory, Err(ScriptError::Exhausted(Exhausted::Memory(_)))) => true,
        (Recursion, Err(ScriptError::Exhausted(Exhausted::Recursion))) => true,
        (Stopped, Err(ScriptError::Exhausted(_) | ScriptError::Runtime { .. })) => true,
        (Throws, Err(ScriptError::Runtime { .. } | ScriptError::Result(_))) => true,
        (Yields(expected), Ok(actual)) => expected == actual,
        _ => false,
    }
}

fn run(engine: &Engine, text: &str) -> Result<String, ScriptError> {
    let document = ScriptDocument::unstored(parse(r#"{"a":1.0}"#));
    let budget =
        Budget { steps_max: 10_000, time_max: Duration::from_millis(100), ..Budget::default() };
    let script = PatchScript::compile(engine, &PatchText::of(text))?;
    let patched = script.run(engine, &document, None, budget, &mut NoHost)?;
    let Some(document) = patched.document else { return Ok("untouched".to_owned()) };
    let actual = document.as_view().root().get("r").unwrap();
    Ok(actual.map_or("absent".to_owned(), |value| format!("{value:?}")))
}

/// An engine for which time stands still: only memory and steps end its scripts, however busy the machine is.
fn engine_without_time(heap_bytes: usize) -> Engine {
    Engine::with_memory(Arc::new(SimulatedClock::new()), heap_bytes)
}

#[test]
fn hostile_scripts_end_and_leave_the_engine_usable() {
    let clock = RealClock::new();
    let engine = small_engine();
    let mut wrong = Vec::new();
    for (text, end) in SCRIPTS {
        let start = clock.monotonic();
        let outcome = run(&engine, text);
        let took = clock.monotonic() - start;
        if !ends(*end, &outcome) {
            wrong.push(format!("{text}\n    expected {end:?}, got {outcome:?}"));
        }
        if took > LATEST {
            wrong.push(format!("{text}\n    took {took:?}"));
        }
        let after = patch(
            &engine,
            &ScriptDocument::unstored(parse(r#"{"a":[1,2]}"#)),
            "this.b = this.a.map(x => x * 2).join() + `${'a'.indexOf('a')}${typeof leak}${[1].x}`",
            &mut NoHost,
        );
        match after.map(|patched| patched.document.map(|document| json(&document))) {
            Ok(Some(actual)) if actual == r#"{"a":[1,2],"b":"2,40undefinedundefined"}"# => {}
            other => wrong.push(format!("{text}\n    left an engine that returns {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls `work` deep in the stack.
fn far_down(
    depth: usize,
    work: &dyn Fn() -> Result<String, ScriptError>,
) -> Result<String, ScriptError> {
    let room = std::hint::black_box([depth; 512]);
    let outcome = if depth == 0 { work() } else { far_down(depth - 1, work) };
    std::hint::black_box(room);
    outcome
}

#[test]
fn callers_deep_in_their_stack_have_all_of_the_scripts_stack() {
    let engine = small_engine();
    let text = "function f(n) { return n === 0 ? 0 : 1 + f(n - 1) } this.r = f(100)";
    assert_eq!(run(&engine, text).unwrap(), "100");
    let other = format!("{text} // another text, which has to be parsed");
    assert_eq!(far_down(40, &|| run(&engine, &other)).unwrap(), "100");
    let third = format!("{text} // and back up again");
    assert_eq!(run(&engine, &third).unwrap(), "100");
}

/// Runs with these limits on a clock that advances by a millisecond with each reading.
fn converted(text: &str, time_max: Duration, result_bytes_max: u64) -> Result<(), ScriptError> {
    let engine = Engine::with_memory(Arc::new(AskedClock::default()), 64 << 20);
    let script = PatchScript::compile(&engine, &PatchText::of(text))?;
    let document = ScriptDocument::unstored(parse(r#"{"a":1.0}"#));
    let budget = Budget { steps_max: 100_000, time_max, result_bytes_max };
    script.run(&engine, &document, None, budget, &mut NoHost).map(drop)
}

#[test]
fn making_a_result_of_what_a_script_left_is_bounded_like_the_script() {
    // One string of 1 MB, a thousand times.
    let shared = "const s = 'x'.repeat(1 << 20); this.r = new Array(1000).fill(s);";
    let long = Duration::from_secs(1000);
    let outcome = converted(shared, long, 10 << 20);
    assert!(
        matches!(outcome, Err(ScriptError::Exhausted(Exhausted::Result(max))) if max == 10 << 20),
        "{outcome:?}"
    );
    let outcome = converted(shared, Duration::from_millis(20), u64::MAX);
    assert!(matches!(outcome, Err(ScriptError::Exhausted(Exhausted::Time(20)))), "{outcome:?}");
    let put =
        "const s = 'x'.repeat(1 << 20); try { put('a', {r: new Array(1000).fill(s)}) } catch {}";
    let outcome = converted(put, long, 10 << 20);
    assert!(matches!(outcome, Err(ScriptError::Exhausted(Exhausted::Result(_)))), "{outcome:?}");
    let nested = "let o = {}; for (let i = 0; i < 24; i++) o = {a: o, b: o}; this.r = o;";
    let outcome = converted(nested, long, 10 << 20);
    assert!(matches!(outcome, Err(ScriptError::Exhausted(Exhausted::Result(_)))), "{outcome:?}");
    let outcome = converted("this.r = 'x'.repeat(1 << 20)", long, 10 << 20);
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// A declared function with a text of this many bytes; no two are equal.
fn query(number: usize, bytes: usize) -> String {
    format!("function f() {{ return '{}'.length }}", format!("{number:08}").repeat(bytes / 8))
}

#[test]
fn what_other_programs_keep_is_not_the_need_of_a_script() {
    const HEAP_BYTES: usize = 4 << 20;
    let engine = engine_without_time(HEAP_BYTES);
    let call = |declaration: &str| {
        let projection = script::Projection::new(&[], &[declaration], "f()");
        let bound = projection.bind(&engine, |_| None)?;
        bound.evaluate(&[], Budget::default(), &mut NoHost)
    };
    // Each needs half of the memory while it runs, but keeps nothing.
    let own = "function f() { return 'x'.repeat(1 << 20).toUpperCase().length - (1 << 20) + 4 }";
    let projection = script::Projection::new(&[], &[own], "f()");
    for number in 0..100 {
        let bytes = 16 << 10 << (number % 5);
        let called = call(&query(number, bytes));
        assert!(matches!(called, Ok(ScriptValue::Integer(_))), "{number}: {called:?}");
        let patched = run(&engine, &format!("{own} this.r = f() // {number}"));
        assert_eq!(patched.unwrap(), "4");
        let bound = projection.bind(&engine, |_| None).unwrap();
        let called = bound.evaluate(&[], Budget::default(), &mut NoHost);
        assert!(matches!(called, Ok(ScriptValue::Integer(4))), "{number}: {called:?}");
    }
    let too_large = call(&query(0, HEAP_BYTES - (1 << 20)));
    assert!(matches!(too_large, Err(ScriptError::Exhausted(Exhausted::Memory(_)))));
    assert!(call(&query(0, 8)).is_ok());
}

#[test]
fn what_runs_leave_behind_can_be_freed() {
    const KEPT_BYTES: usize = 1 << 20;
    let engine = engine_without_time(16 << 20);
    engine.make_ready();
    assert!(engine.used_bytes() < KEPT_BYTES, "{}", engine.used_bytes());
    // Values that refer to each other, and a function that keeps a value from run to run.
    let texts = [
        "let a = ['x'.padEnd(8 << 20, 'y')]; a.push(a); this.r = a.length",
        "function f() {} f.kept = 'x'.padEnd(8 << 20, 'y'); this.r = 2",
        "let a = ['x'.padEnd(8 << 20, 'y')]; a.push(a); throw new Error('no')",
    ];
    let mut left_behind = 0;
    for text in texts.into_iter().cycle().take(30) {
        drop(run(&engine, text));
        left_behind = left_behind.max(engine.used_bytes());
        engine.shrink_to(KEPT_BYTES);
        assert!(engine.used_bytes() <= KEPT_BYTES, "{}", engine.used_bytes());
    }
    assert!(8 << 20 < left_behind, "{left_behind}");
    assert_eq!(run(&engine, "this.r = 4").unwrap(), "4");
}

#[test]
fn an_engine_with_little_memory_keeps_its_realm() {
    let engine = engine_without_time(4 << 20);
    for _ in 0..3 {
        assert_eq!(run(&engine, "this.r = 4").unwrap(), "4");
        engine.shrink_to(64 << 10);
        assert!(0 < engine.used_bytes(), "a realm is made once");
    }
}

#[test]
fn a_row_takes_no_more_than_a_script_may() {
    let text =
        "(() => { var a = {}; for (var i = 0; i < 60; i++) a = { x: a, y: a }; return a; })()";
    let projection = script::Projection::new(&[], &[], text);
    let engine = Engine::with_memory(Arc::new(AskedClock::default()), 4 << 20);
    let bound = projection.bind(&engine, |_| None).unwrap();
    let made = bound.evaluate(&[], Budget::default(), &mut NoHost);
    assert!(
        matches!(made, Err(ScriptError::Exhausted(Exhausted::Result(max))) if max == 4 << 20),
        "{made:?}"
    );
}

#[test]
fn the_rows_of_a_projection_can_be_limited_together() {
    let engine = Engine::with_memory(Arc::new(AskedClock::default()), 32 << 20);
    let projection = Projection::new(&["n"], &[], "(() => { while (n) { } return 'done'; })()");
    let bound = projection.bind(&engine, |_| None).unwrap();
    let row = |is_endless| {
        let argument = Argument::Value(ScriptValue::Bool(is_endless));
        bound.evaluate(&[argument], Budget::default(), &mut NoHost)
    };
    bound.limit_time(Duration::from_millis(100));
    row(false).unwrap();
    assert!(!bound.has_run_out_of_time());
    assert!(row(true).is_err());
    assert!(bound.has_run_out_of_time());
    assert!(row(true).is_err(), "nothing is left for the next row");
}
