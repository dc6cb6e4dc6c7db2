//! What rows take while they are made is counted, and refused where there is no room.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::rc::Rc;

use query::{Paging, QueryError, QueryScripts, execute, parse};
use storage::{MemoryBudget, WorkingMemory};

use crate::fixture::Database;

const TEXT_BYTES: usize = 1 << 20;

/// A small document that names a large one, and has a long time series; one that names very many; one that is
/// compressed, and one that names it.
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

/// What the query shows; rows are counted in `memory`.
fn rows(
    database: &Database,
    text: &str,
    memory: &Rc<WorkingMemory>,
) -> Result<Vec<String>, QueryError> {
    let tx = database.read();
    let query = parse(text)?;
    let scripts = QueryScripts::of(&query, None, database.scripts())?;
    let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose()?;
    let result = execute(&tx, &query, None, Paging::default(), None)?;
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

/// Runs the query in memory that another one has taken until it was refused `refusals` times, each time for one row.
fn rows_with_waiting(database: &Database, text: &str, refusals: usize) -> Vec<String> {
    let budget = MemoryBudget::new(8 << 20);
    let memory = Rc::new(WorkingMemory::beyond(0, &budget));
    let mut other = budget.share(0);
    let tx = database.read();
    let query = parse(text).unwrap();
    let scripts = QueryScripts::of(&query, None, database.scripts()).unwrap();
    let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose().unwrap();
    let result = execute(&tx, &query, None, Paging::default(), None).unwrap();
    let mut result = result.with_scripts(scripts.as_ref()).counted_in(&memory);
    let (mut rows, mut refused) = (Vec::new(), 0);
    loop {
        other.try_grow_to(budget.bytes_max() - budget.held_bytes() + other.bytes()).unwrap();
        assert!(matches!(result.next_row(), Err(QueryError::Memory(_))), "{text}");
        refused += 1;
        other.shrink_to(0);
        let Some(row) = result.next_row().unwrap() else { break };
        let scope = memory.scope();
        let mut json = Vec::new();
        result.write_row(&row, b",", &mut json).unwrap();
        rows.push(String::from_utf8(json).unwrap());
        drop((scope, row));
        if refused == refusals {
            while let Some(row) = result.next_row().unwrap() {
                let _scope = memory.scope();
                let mut json = Vec::new();
                result.write_row(&row, b",", &mut json).unwrap();
                rows.push(String::from_utf8(json).unwrap());
            }
            break;
        }
    }
    assert_eq!(refused, refusals, "{text}");
    drop(result);
    assert_eq!(budget.held_bytes(), 0, "{text}");
    rows
}

#[test]
fn a_row_that_was_refused_on_its_way_comes_again() {
    let database = Database::new();
    let text = "x".repeat(TEXT_BYTES);
    for number in 0..4 {
        database.put(
            &format!("large/{number}"),
            "Larges",
            &format!(r#""N":{number},"Text":"{text}""#),
        );
    }
    for text in [
        "from Larges as l filter l.Text != 'y' select l.N",
        "from Larges as l select distinct { N: l.N }",
    ] {
        let rows = rows_with_waiting(&database, text, 3);
        assert_eq!(rows.len(), 4, "{text}");
        let undisturbed = self::rows(&database, text, &Rc::default()).unwrap();
        assert_eq!(rows, undisturbed, "{text}");
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
