//! What rows take while they are made is counted, and refused where there is no room.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{rc::Rc, time::Duration};

use query::{Paging, QueryError, QueryScripts, execute, parse};
use storage::{MemoryBudget, WorkingMemory};

use crate::fixture::Database;

const TEXT_BYTES: usize = 1 << 20;

/// A small document that names a large one, and has a long time series.
fn database() -> Database {
    let database = Database::new();
    let text = "x".repeat(TEXT_BYTES);
    database.put("large/1", "Larges", &format!(r#""Text":"{text}""#));
    database.put("small/1", "Smalls", r#""Ref":"large/1","N":1"#);
    let moment = |n: usize| format!("2020-01-01T{:02}:{:02}:{:02}", n / 3600, n / 60 % 60, n % 60);
    let moments: Vec<_> = (0..20_000).map(moment).collect();
    let entries: Vec<_> = moments.iter().map(|at| (at.as_str(), &[1.5_f64][..], None)).collect();
    database.append("small/1", "S", &entries);
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
        let memory = Rc::new(WorkingMemory::beyond(0, &budget, Duration::ZERO));
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
