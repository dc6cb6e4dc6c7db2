//! When a scheduled backup is due.

use model::ticks::{TICKS_PER_HOUR, TICKS_PER_MINUTE};
use wire::{PeriodicBackup, ProtocolError};

use super::status::BackupStatus;
use crate::cron_expression::CronExpression;

/// A run that failed is tried again after this time, and after twice the time that has passed since.
const RETRY_MIN_TICKS: i64 = TICKS_PER_MINUTE;
/// The longest pause before another try.
const RETRY_MAX_TICKS: i64 = TICKS_PER_HOUR;

/// The next run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextBackup {
    /// When, in ticks of UTC. It may have passed.
    pub ticks: i64,
    /// Whether everything is backed up.
    pub is_full: bool,
}

/// Runs that failed, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    /// How many.
    pub(super) count: u32,
    /// When the last one ended, in ticks of UTC.
    pub(super) at_ticks: i64,
}

/// Checks the times of a task.
///
/// # Errors
/// There are none, or one cannot be read.
pub(super) fn check(task: &PeriodicBackup) -> Result<(), ProtocolError> {
    let (full, incremental) = (&task.full_frequency, &task.incremental_frequency);
    if full.is_none() && incremental.is_none() {
        let message = "Couldn't parse the cron expressions for both full and incremental backups. full backup cron \
                       expression: , incremental backup cron expression: ";
        return Err(ProtocolError::argument(message));
    }
    for text in [full, incremental].into_iter().flatten() {
        CronExpression::parse(text).map_err(|error| ProtocolError::argument(error.to_string()))?;
    }
    Ok(())
}

/// The next run; `None` if there is none. `since` is when the task was defined, and `now` is now, in ticks of UTC.
/// `failures` are those that this process knows of; what failed before is in the status.
pub(super) fn next(
    task: &PeriodicBackup,
    status: Option<&BackupStatus>,
    (since, now): (i64, i64),
    failures: Option<Failures>,
) -> Option<NextBackup> {
    if task.is_disabled {
        return None;
    }
    let mut next = next_by_times(task, status, (since, now))?;
    let before = status.and_then(BackupStatus::failed_ticks);
    let before = before.map(|at_ticks| Failures { count: 1, at_ticks });
    if let Some(failed) = failures.or(before).filter(|failed| failed.at_ticks <= now) {
        let pause = RETRY_MIN_TICKS << failed.count.saturating_sub(1).min(6);
        next.ticks = next.ticks.max(failed.at_ticks + pause.min(RETRY_MAX_TICKS));
    }
    Some(next)
}

fn next_by_times(
    task: &PeriodicBackup,
    status: Option<&BackupStatus>,
    (since, now): (i64, i64),
) -> Option<NextBackup> {
    let after = |frequency: &Option<String>, ticks: i64| {
        CronExpression::parse(frequency.as_deref()?).ok()?.next_after(ticks)
    };
    let last_full = status.and_then(BackupStatus::last_full_ticks);
    let last_incremental = status.and_then(BackupStatus::last_incremental_ticks);
    let full = after(&task.full_frequency, last_full.unwrap_or(since));
    let last = last_full.max(last_incremental);
    // The clock was ahead then. That time says nothing, and waiting for it could take years.
    if now < last.unwrap_or(since) {
        let is_full = match (&task.full_frequency, &task.incremental_frequency) {
            (Some(_), Some(_)) => last_full.is_none_or(|last| now < last),
            (full, _) => full.is_some() || last_full.is_none(),
        };
        return Some(NextBackup { ticks: now, is_full });
    }
    let incremental = after(&task.incremental_frequency, last.unwrap_or(since));
    Some(match (full, incremental) {
        // Without a backup of everything, what has changed since is everything.
        _ if last_full.is_none() => {
            let ticks = [full, incremental].into_iter().flatten().min()?;
            NextBackup { ticks, is_full: true }
        }
        (Some(full), Some(incremental)) if incremental < full => {
            NextBackup { ticks: incremental, is_full: false }
        }
        (Some(full), _) => NextBackup { ticks: full, is_full: true },
        (None, Some(incremental)) => NextBackup { ticks: incremental, is_full: false },
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use model::date;
    use serde_json::json;

    use super::*;
    use crate::backup::{file_names::FileKind, status::tests};

    fn ticks(text: &str) -> i64 {
        date::parse(text).unwrap().utc_ticks()
    }

    fn task(full: &str, incremental: &str) -> PeriodicBackup {
        let sent = json!({"FullBackupFrequency": full, "IncrementalBackupFrequency": incremental});
        PeriodicBackup::read(sent.as_object().unwrap()).unwrap()
    }

    fn status(full: &str, incremental: Option<&str>, failed: Option<&str>) -> BackupStatus {
        BackupStatus::of_times(ticks(full), incremental.map(ticks), failed.map(ticks))
    }

    fn shown(next: Option<NextBackup>) -> Option<(String, bool)> {
        next.map(|next| (date::format(next.ticks)[..16].to_owned(), next.is_full))
    }

    #[test]
    fn the_first_backup_is_of_everything_and_those_that_follow_take_turns() {
        let since = ticks("2026-11-23T12:00:00Z");
        let both = task("0 2 * * 0", "0 2 * * *");
        let at =
            |status: Option<&BackupStatus>| shown(next(&both, status, (since, i64::MAX), None));
        // The 29th is a Sunday.
        assert_eq!(at(None), Some(("2026-11-24T02:00".into(), true)));
        let first = status("2026-11-24T02:00:03Z", None, None);
        assert_eq!(at(Some(&first)), Some(("2026-11-25T02:00".into(), false)));
        let later = status("2026-11-24T02:00:03Z", Some("2026-11-28T02:00:03Z"), None);
        assert_eq!(at(Some(&later)), Some(("2026-11-29T02:00".into(), true)));
        let full = task("*/5 * * * *", "");
        assert_eq!(
            shown(next(&full, Some(&first), (since, i64::MAX), None)),
            Some(("2026-11-24T02:05".into(), true))
        );
        let incremental = task("", "0 * * * *");
        assert_eq!(
            shown(next(&incremental, None, (since, i64::MAX), None)),
            Some(("2026-11-23T13:00".into(), true))
        );
        assert_eq!(
            shown(next(&incremental, Some(&later), (since, i64::MAX), None)),
            Some(("2026-11-28T03:00".into(), false))
        );
        let disabled = PeriodicBackup { is_disabled: true, ..both };
        assert_eq!(next(&disabled, None, (since, i64::MAX), None), None);
    }

    #[test]
    fn a_run_that_failed_is_tried_again_after_growing_pauses() {
        let often = task("* * * * *", "");
        let failed = status("2026-11-24T02:00:00Z", None, Some("2026-11-24T03:00:00Z"));
        for (failures, expected) in [
            (1, "2026-11-24T03:01"),
            (2, "2026-11-24T03:02"),
            (4, "2026-11-24T03:08"),
            (40, "2026-11-24T04:00"),
        ] {
            let at_ticks = ticks("2026-11-24T03:00:00Z");
            let known = Some(Failures { count: failures, at_ticks });
            let next = shown(next(&often, Some(&failed), (0, i64::MAX), known));
            assert_eq!(next, Some((expected.to_owned(), true)), "{failures}");
        }
    }

    #[test]
    fn a_time_that_lies_ahead_makes_a_run_due_at_once() {
        let (now, at) = (ticks("2026-11-24T12:00:00Z"), "2026-11-24T12:00".to_owned());
        let both = task("0 2 * * 0", "0 2 * * *");
        let (before, ahead) = ("2026-11-24T02:00:00Z", "2031-01-01T00:00:00Z");
        for (task, last, expected) in [
            (&both, status(ahead, None, None), (at.clone(), true)),
            (&both, status(before, Some(ahead), None), (at.clone(), false)),
            (&both, status(before, None, Some(ahead)), ("2026-11-25T02:00".to_owned(), false)),
            (&task("", "0 2 * * *"), status(ahead, None, None), (at.clone(), false)),
            (&task("0 2 * * 0", ""), status(ahead, None, None), (at.clone(), true)),
        ] {
            assert_eq!(shown(next(task, Some(&last), (0, now), None)), Some(expected));
        }
        let created = ticks(ahead);
        assert_eq!(shown(next(&both, None, (created, now), None)), Some((at, true)));
    }

    #[test]
    fn a_run_after_a_time_that_lies_ahead_is_not_due_again_at_once() {
        let (began, ahead) = ("2026-11-24T12:00:00Z", "2031-01-01T00:00:00Z");
        let before = "2026-11-24T02:00:00Z";
        for task in [task("0 2 * * 0", "0 2 * * *"), task("", "0 2 * * *"), task("0 2 * * 0", "")] {
            for last in [
                status(ahead, None, None),
                status(before, Some(ahead), None),
                status(ahead, Some(ahead), None),
            ] {
                let mut last = last;
                let mut now = ticks(began);
                // A task with both kinds may need one of each.
                for _ in 0..2 {
                    let due = next(&task, Some(&last), (0, now), None).unwrap();
                    if now < due.ticks {
                        break;
                    }
                    let kind = if due.is_full { FileKind::Full } else { FileKind::Incremental };
                    let at = date::format(now);
                    last = last.after(tests::run(&at, tests::written(kind, 1)));
                    now += TICKS_PER_MINUTE;
                }
                let due = next(&task, Some(&last), (0, now), None).unwrap();
                assert!(now < due.ticks && due.ticks < now + 8 * 24 * TICKS_PER_HOUR, "{due:?}");
            }
        }
    }

    #[test]
    fn a_task_without_times_is_refused_and_so_is_one_that_cannot_be_read() {
        let error = check(&task("", "")).unwrap_err();
        assert!(error.message.starts_with("Couldn't parse the cron expressions for both"));
        let error = check(&task("bad", "")).unwrap_err();
        assert_eq!(error.message, "The provided cron string <bad> has too few parameters");
        check(&task("0 2 * * 0", "")).unwrap();
    }
}
