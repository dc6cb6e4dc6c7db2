//! Leaves out events of a plan whose simulation finds something, as long as it still finds something.

use crate::{plan::Plan, run::run};

/// A plan with fewer events that still finds something, after at most `runs_max` simulations.
pub fn shrink(plan: &Plan, mut runs_max: usize) -> Plan {
    let mut shrunk = plan.clone();
    let mut chunk = shrunk.events.len().div_ceil(2);
    while 0 < chunk {
        let (mut from, mut is_shorter) = (0, false);
        while from < shrunk.events.len() && 0 < runs_max {
            let mut shorter = shrunk.clone();
            let to = (from + chunk).min(shorter.events.len());
            shorter.events.drain(from..to);
            runs_max -= 1;
            if run(&shorter).findings.is_empty() {
                from += chunk;
            } else {
                (shrunk, is_shorter) = (shorter, true);
            }
        }
        if !is_shorter || chunk == 1 && shrunk.events.is_empty() {
            chunk /= 2;
        }
        if runs_max == 0 {
            break;
        }
    }
    shrunk
}
