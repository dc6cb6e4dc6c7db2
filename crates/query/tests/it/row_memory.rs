//! The memory of rows is charged while they are produced, and rows are refused when there is none.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::rc::Rc;

use query::{Paging, QueryError, QueryScripts, execute, parse};
use storage::{MemoryBudget, WorkingMemory};

use crate::fixture::Database;

const TEXT_BYTES: usize = 1 << 20;

/// A small document that names a large one, and has a long time series; one that names very many;
/// one that is compressed, and one that names it.
fn database() -> Database {
    let database = Database::new();
    let text = "x".repeat(TEXT_BYTES);
    database.put("large/1", "Larges", &format!(r#""Text":"{text}""#));
    database.put("small/1", "Smalls", r#""Ref":"large/1","N":1"#);
    let moment = |n: usize| format!("2020-01-01T{:02}:{:02}:{:02}", n / 3600, n / 60 % 60, n % 60);
    let moments: Vec<_> = (0..20_000).map(moment).collect();
    let entries: Vec<_> = moments.iter().map(|at| (at.as_str(), &[1.5_f64][..], None)).collect();
    database.append("small/1", "S", &entries);
    let ids: Vec<_> = (0..10_000).map(|n| format!(r#""nobody/{n}""#)).collect();
    database.put("many/1", "Manies", &format!(r#""Ids":[{}]"#, ids.join(",")));
    let lines: Vec<_> = (0..20_000).map(|n| format!(r#""line {n} of the text""#)).collect();
    database.put_compressed(
        "packed/1",
        "Packed",
        &format!(r#""N":1,"Lines":[{}]"#, lines.join(",")),
    );
    database.put("name/1", "Names", r#""Ref":"packed/1","N":1"#);
    database
}

const LARGE_ROWS: &[&str] = &[
    "from Larges as l select { a: l.Text }",
    "from Smalls as s load s.Ref as l select { a: l.Text }",
    "from Smalls as s load s.Ref as l select l.Text",
    "from Smalls as s load s.Ref as l select l.Text, l.Text as Again",
    "from Smalls as s load s.Ref as l select l",
    "from Smalls as s select { a: load(s.Ref).Text }",
    "declare function f(s) { try { return { a: load(s.Ref).Text } } catch (e) { return { a: 0 } } } \
     from Smalls as s select f(s)",
    "from Smalls as s load s.Ref as l filter l.Text != 'y' select { N: s.N }",
    "from Smalls as s select distinct { a: load(s.Ref).Text }",
    "from Smalls as s select { a: 'x'.repeat(1000000) }",
    "from Smalls as s select timeseries(from s.S)",
    "from Smalls as s select timeseries(from s.S) as T, s.N",
    "declare timeseries t(d) { from d.S } from Smalls as s select { T: t(s) }",
    "from Smalls as s select { T: timeseries(s, 'S').get().length }",
    "from Larges",
    "from Manies as m load m.Ids[] as l[] select l",
    "from Manies as m load m.Ids[] as l[] select l.Missing",
    "from Packed",
    "from Packed as p select p.N",
    "from Packed as p filter p.N = 1 select p.N",
    "from Packed as p select distinct p.N",
    "from Names as n load n.Ref as p select n.N, p.N as Other",
];

/// The rows of the query; their memory is charged to `memory`.
fn rows(
    database: &Database,
    text: &str,
    memory: &Rc<WorkingMemory>,
) -> Result<Vec<String>, QueryError> {
    page(database, text, Paging::default(), memory)
}

/// A page of the query; its memory is charged to `memory`.
fn page(
    database: &Database,
    text: &str,
    paging: Paging,
    memory: &Rc<WorkingMemory>,
) -> Result<Vec<String>, QueryError> {
    let tx = database.read();
    let query = parse(text)?;
    let scripts = QueryScripts::of(&query, None, database.scripts())?;
    let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose()?;
    let result = execute(&tx, &query, None, paging, None)?;
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(memory);
    result.count_filtered()?;
    let mut rows = Vec::new();
    while let Some(row) = result.next_row()? {
        let _scope = memory.scope();
        let mut json = Vec::new();
        result.write_row(&row, b",", &mut json)?;
        rows.push(String::from_utf8(json).unwrap());
    }
    Ok(rows)
}

fn is_refused(rows: &Result<Vec<String>, QueryError>) -> bool {
    matches!(rows, Err(QueryError::Memory(_)))
}

#[test]
fn a_row_without_room_is_refused_and_a_script_cannot_hide_it() {
    let database = database();
    for text in LARGE_ROWS {
        assert!(
            is_refused(&rows(&database, text, &Rc::new(WorkingMemory::up_to(300_000)))),
            "{text}"
        );
        let made = rows(&database, text, &Rc::default()).unwrap();
        assert_eq!(made.len(), 1, "{text}");
    }
}

#[test]
fn what_a_row_took_is_given_back() {
    let database = database();
    for text in LARGE_ROWS {
        let budget = MemoryBudget::new(64 << 20);
        let memory = Rc::new(WorkingMemory::beyond(0, &budget));
        let mut other = budget.share(0);
        other.try_grow_to(budget.bytes_max()).unwrap();
        assert!(is_refused(&rows(&database, text, &memory)), "{text}");
        drop(other);
        assert_eq!(rows(&database, text, &memory).unwrap().len(), 1, "{text}");
        assert_eq!(budget.held_bytes(), 0, "{text}");
    }
}

#[test]
fn small_rows_draw_nothing() {
    let database = database();
    let memory = Rc::new(WorkingMemory::up_to(4 << 10));
    for text in [
        "from Smalls",
        "from Smalls select N",
        "from Smalls as s select { N: s.N, R: s.Ref }",
        "from Smalls as s filter s.N = 1 select { N: s.N }",
        "from Smalls as s load s.Ref as l select s.N, id(l)",
    ] {
        assert_eq!(rows(&database, text, &memory).unwrap().len(), 1, "{text}");
    }
}

/// A page of the query, with all memory taken by another user each time before a row is requested.
fn page_with_refusals(database: &Database, text: &str, paging: Paging) -> Vec<String> {
    let budget = MemoryBudget::new(8 << 20);
    let memory = Rc::new(WorkingMemory::beyond(0, &budget));
    let mut other = budget.share(0);
    let tx = database.read();
    let query = parse(text).unwrap();
    let scripts = QueryScripts::of(&query, None, database.scripts()).unwrap();
    let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose().unwrap();
    let result = execute(&tx, &query, None, paging, None).unwrap();
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
    let (mut rows, mut refused) = (Vec::new(), 0);
    loop {
        other.try_grow_to(budget.bytes_max() - budget.held_bytes() + other.bytes()).unwrap();
        let context = result.next_row();
        other.shrink_to(0);
        let row = match context {
            Err(QueryError::Memory(_)) => {
                refused += 1;
                result.next_row().unwrap()
            }
            context => context.unwrap(),
        };
        let Some(row) = row else { break };
        let _scope = memory.scope();
        let mut json = Vec::new();
        result.write_row(&row, b",", &mut json).unwrap();
        rows.push(String::from_utf8(json).unwrap());
    }
    assert!(rows.len() <= refused, "{text}: {refused} refusals of {} rows", rows.len());
    drop(result);
    assert_eq!(budget.held_bytes(), 0, "{text}");
    rows
}

/// Six documents with a large text each, by number.
fn large_documents() -> Database {
    let database = Database::new();
    let text = "x".repeat(TEXT_BYTES);
    for number in 0..6 {
        let body = format!(r#""N":{number},"Half":{},"Text":"{text}""#, number / 2);
        database.put(&format!("large/{number}"), "Larges", &body);
    }
    database
}

#[test]
fn refused_rows_come_again_and_use_up_nothing_of_the_page() {
    let database = large_documents();
    for text in [
        "from Larges as l filter l.Text != 'y' select l.N",
        "from Larges as l filter l.N != 3 and l.Text != 'y' select l.N",
        "from Larges as l select distinct { N: l.N }",
        "from Larges as l select distinct { H: l.Half }",
        "from Larges as l filter l.Text != 'y' select distinct { H: l.Half }",
    ] {
        for (start, page_size) in [(0, None), (0, Some(2)), (1, Some(1)), (2, Some(3)), (2, None)] {
            let paging = Paging { start, page_size };
            let undisturbed = page(&database, text, paging, &Rc::default()).unwrap();
            assert!(!undisturbed.is_empty());
            let rows = page_with_refusals(&database, text, paging);
            assert_eq!(rows, undisturbed, "{text}, {paging:?}");
        }
    }
}

/// What is counted before the first row of a page: rows scanned, and rows dropped.
fn counts_of_page(database: &Database, text: &str, paging: Paging, refuses: bool) -> (u64, u64) {
    let budget = MemoryBudget::new(8 << 20);
    let memory = Rc::new(WorkingMemory::beyond(0, &budget));
    let mut other = budget.share(0);
    let tx = database.read();
    let query = parse(text).unwrap();
    let scripts = QueryScripts::of(&query, None, database.scripts()).unwrap();
    let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose().unwrap();
    let result = execute(&tx, &query, None, paging, None).unwrap();
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
    if refuses {
        other.try_grow_to(budget.bytes_max()).unwrap();
        for _ in 0..2 {
            let counted = result.count_filtered().and_then(|()| result.skipped_results());
            assert!(matches!(counted, Err(QueryError::Memory(_))), "{text}");
        }
        other.shrink_to(0);
    }
    result.count_filtered().unwrap();
    (result.scanned_results(), result.skipped_results().unwrap())
}

#[test]
fn refusals_do_not_change_what_is_counted() {
    let database = large_documents();
    for text in [
        "from Larges as l filter l.N != 1 and l.Text != 'y' select l.N",
        "from Larges as l select distinct { H: l.Half }",
    ] {
        for page_size in [None, Some(2), Some(0)] {
            let paging = Paging { start: 0, page_size };
            let [disturbed, undisturbed] =
                [true, false].map(|refuses| counts_of_page(&database, text, paging, refuses));
            assert_eq!(disturbed, undisturbed, "{text}, {paging:?}");
        }
    }
}

#[test]
fn rows_that_a_filter_keeps_are_counted_and_forgotten_when_there_is_no_room() {
    let database = Database::new();
    let lines: Vec<_> = (0..5_000).map(|n| format!(r#""line {n} of the text""#)).collect();
    let lines = lines.join(",");
    for number in 0..20 {
        let body = format!(r#""N":{number},"Lines":[{lines}]"#);
        database.put_compressed(&format!("packed/{number}"), "Packed", &body);
    }
    let text = "from Packed as p filter p.N < 19 select p.N";
    let undisturbed = rows(&database, text, &Rc::default()).unwrap();
    assert_eq!(undisturbed.len(), 19);
    for megabytes in [1, 64] {
        let budget = MemoryBudget::new(megabytes << 20);
        let memory = Rc::new(WorkingMemory::beyond(0, &budget));
        let tx = database.read();
        let query = parse(text).unwrap();
        let scripts = QueryScripts::of(&query, None, database.scripts()).unwrap();
        let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None).unwrap());
        let result = execute(&tx, &query, None, Paging::default(), None).unwrap();
        let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
        result.count_filtered().unwrap();
        assert_eq!(19 * 100_000 < budget.held_bytes(), megabytes == 64, "{}", budget.held_bytes());
        drop(result);
        assert_eq!(rows(&database, text, &memory).unwrap(), undisturbed);
        assert_eq!(budget.held_bytes(), 0);
    }
}
