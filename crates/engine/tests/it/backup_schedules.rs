//! When scheduled backups run, and what is shown of those that do not.

use std::{path::Path, time::Duration};

use platform::Access;
use serde_json::{Map, Value, json};

use crate::{
    backup_chains::{Bench, FILES, ROOT},
    backups::show_failure,
};

const SECOND: Duration = Duration::from_secs(1);
const EACH_MINUTE: &str = "* * * * *";

impl Bench {
    /// The status as clients are shown it; empty before the first run.
    pub(crate) fn status(&self) -> Map<String, Value> {
        let record = self.engine.record("db").unwrap();
        let tasks = self.engine.backup_tasks(&record);
        let task = tasks.iter().find(|task| task.definition.id == self.task).unwrap();
        loop {
            let state = self.engine.backup_task_state(&record, task).unwrap();
            if state.running.is_none() {
                return state.status.unwrap_or_default();
            }
            std::thread::yield_now();
        }
    }

    /// Lets time pass, looking each second for what is due; returns how many runs have ended.
    pub(crate) fn pass(&self, seconds: u32) -> u64 {
        let runs = || self.status().get("Version").and_then(Value::as_u64).unwrap_or(0);
        let before = runs();
        for _ in 0..seconds {
            self.clock.advance(SECOND);
            self.engine.run_due_backups(54, show_failure);
            // Time does not pass for a run.
            runs();
        }
        runs() - before
    }
}

#[test]
fn a_run_that_cannot_begin_is_shown_and_tried_again_after_growing_pauses() {
    let bench = Bench::new(json!({ "FullBackupFrequency": EACH_MINUTE }));
    bench.put("a", "{}");
    bench.platform.disk.create(Path::new("/data/Backups"), Access::Buffered).unwrap();
    // At about 1, 2, 4 and 8 minutes.
    assert_eq!(bench.pass(900), 4);
    let status = bench.status();
    let error = status["Error"]["Exception"].as_str().unwrap();
    assert!(error.contains("Cannot create the folder /data/Backups/b"), "{error}");
    assert_eq!(status["LastFullBackup"], Value::Null);
    bench.platform.disk.remove_file(Path::new("/data/Backups")).unwrap();
    assert!(1 <= bench.pass(120));
    assert_eq!(bench.status()["Error"], Value::Null);
}

#[test]
fn a_database_that_cannot_be_opened_has_a_status_that_says_so() {
    let mut bench = Bench::new(json!({ "FullBackupFrequency": EACH_MINUTE }));
    bench.put("a", "{}");
    bench.while_stopped(|platform| {
        let (disk, files) = (&*platform.disk, Path::new(FILES));
        for name in disk.list(files).unwrap().iter().filter(|name| name.starts_with("corvus.")) {
            let file = disk.open(&files.join(name), Access::Buffered).unwrap();
            let bytes = usize::try_from(file.len().unwrap()).unwrap();
            file.write_all_at(&vec![0x55; bytes], 0).unwrap();
        }
    });
    assert_eq!(bench.pass(900), 4);
    assert!(bench.status()["Error"]["Exception"].is_string());
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_backups() {
    let bench = Bench::new(json!({}));
    bench.put("a", "{}");
    let years = Duration::from_secs(20 * 365 * 86_400);
    bench.clock.advance(years);
    bench.run(true);
    assert_eq!(bench.pass(10), 0);
    bench.clock.set_wall(Duration::from_secs(1_800_000_000));
    assert_eq!(bench.pass(10), 1);
    assert_eq!(bench.status()["LastFullBackup"].as_str().map(|text| &text[..4]), Some("2027"));
    assert_eq!(bench.platform.disk.list(Path::new(ROOT)).unwrap().len(), 2);
}
