//! Runs the stages of a query.
//!
//! Rows are the slots: a stage sets some and lets the next stage run, so that rows are collected
//! only where a grouping or a sorting needs all of them.

use crate::compile::plan::{Node, Op, Pipeline, Slot, Stage};
use crate::run::fault::Fault;
use crate::run::sets::Groups;
use crate::run::sorting::sort_by_keys;
use crate::run::{Evaluated, Machine, operators};
use crate::value::Value;
use crate::value::live::Counted;

/// The rows that a pipeline begins with.
enum Roots<'a> {
    /// One: what the slots hold already.
    Present,
    /// One for each value of a slot.
    Each(Slot, Vec<Value<'a>>),
    /// One for each list of values of several slots.
    EachOf(&'a [Slot], Vec<Vec<Value<'a>>>),
}

/// What is done for each row that comes out of the last stage.
pub(crate) type Sink<'s, 'a, 'h> = &'s mut dyn FnMut(&mut Machine<'a, 'h>) -> Result<(), Fault>;

impl<'a, 'h> Machine<'a, 'h> {
    /// The results of a nested query.
    #[inline(never)]
    pub(super) fn eval_sequence(&mut self, pipeline: &'a Pipeline) -> Evaluated<'a> {
        let (mut items, mut counted) = (Vec::new(), Counted::bytes(0));
        self.run(&pipeline.stages, &mut |machine| {
            let item = machine.eval(&pipeline.result)?;
            items.push(item);
            counted.add::<Value<'_>>();
            machine.check_length(items.len())
        })?;
        Ok(Value::list(items))
    }

    /// Runs all stages for what the slots hold now.
    pub(crate) fn run(&mut self, stages: &'a [Stage], sink: Sink<'_, 'a, 'h>) -> Result<(), Fault> {
        self.run_from(Roots::Present, stages, sink)
    }

    /// Runs all stages for several values of one slot.
    pub(crate) fn run_roots(
        &mut self,
        slot: Slot,
        roots: Vec<Value<'a>>,
        stages: &'a [Stage],
        sink: Sink<'_, 'a, 'h>,
    ) -> Result<(), Fault> {
        self.run_from(Roots::Each(slot, roots), stages, sink)
    }

    /// A stage that needs all rows cuts the pipeline in two: its results are the input rows of the
    /// rest, passed all together, since the rest may collect them again.
    fn run_from(
        &mut self,
        roots: Roots<'a>,
        stages: &'a [Stage],
        sink: Sink<'_, 'a, 'h>,
    ) -> Result<(), Fault> {
        let gathers = |stage: &Stage| matches!(stage, Stage::Group { .. } | Stage::Order { .. });
        let Some(cut) = stages.iter().position(gathers) else {
            return self.run_roots_rows(roots, stages, sink);
        };
        let (before, after) = (&stages[..cut], &stages[cut + 1..]);
        match &stages[cut] {
            Stage::Group { slot, element, key } => {
                let mut groups = Groups::default();
                self.run_roots_rows(roots, before, &mut |machine| {
                    let key = machine.eval(key)?;
                    groups.add(key, machine.eval(element)?);
                    Ok(())
                })?;
                let groups = groups.into_groups().into_iter();
                let groups = groups.map(|(key, items)| Value::group(key, items)).collect();
                self.run_from(Roots::Each(*slot, groups), after, sink)
            }
            Stage::Order { keys, live } => {
                let rows = self.ordered_rows(roots, before, keys, live)?;
                self.run_from(Roots::EachOf(live, rows), after, sink)
            }
            // `position` found one of the two.
            Stage::Set { .. } | Stage::Filter { .. } | Stage::Each { .. } => Ok(()),
        }
    }

    fn ordered_rows(
        &mut self,
        roots: Roots<'a>,
        before: &'a [Stage],
        keys: &'a [(Node, bool)],
        live: &'a [Slot],
    ) -> Result<Vec<Vec<Value<'a>>>, Fault> {
        let (mut rows, mut counted) = (Vec::new(), Counted::bytes(0));
        self.run_roots_rows(roots, before, &mut |machine| {
            let mut values = Vec::with_capacity(keys.len());
            for (key, _) in keys {
                values.push(machine.eval(key)?);
            }
            let row: Vec<_> = live.iter().map(|slot| machine.slot(*slot).clone()).collect();
            rows.push((values, row));
            (0..keys.len() + live.len()).for_each(|_| counted.add::<Value<'_>>());
            counted.add::<(Vec<Value<'_>>, Vec<Value<'_>>)>();
            machine.check_length(rows.len())
        })?;
        let descending: Vec<bool> = keys.iter().map(|(_, descending)| *descending).collect();
        let rows = sort_by_keys(rows, &descending)?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    fn run_roots_rows(
        &mut self,
        roots: Roots<'a>,
        stages: &'a [Stage],
        sink: Sink<'_, 'a, 'h>,
    ) -> Result<(), Fault> {
        match roots {
            Roots::Present => self.run_rows(stages, sink)?,
            Roots::Each(slot, values) => {
                for value in values {
                    self.set(slot, value);
                    self.run_rows(stages, sink)?;
                }
            }
            Roots::EachOf(slots, rows) => {
                for row in rows {
                    slots.iter().zip(row).for_each(|(slot, value)| self.set(*slot, value));
                    self.run_rows(stages, sink)?;
                }
            }
        }
        Ok(())
    }

    fn run_rows(&mut self, stages: &'a [Stage], sink: Sink<'_, 'a, 'h>) -> Result<(), Fault> {
        for (index, stage) in stages.iter().enumerate() {
            match stage {
                Stage::Set { slot, value } => {
                    let value = self.eval(value)?;
                    self.set(*slot, value);
                }
                Stage::Filter { condition, keeps_null } => {
                    if !self.passes(condition, *keeps_null)? {
                        return Ok(());
                    }
                }
                Stage::Each { slot, source } => {
                    let value = self.eval(source)?;
                    let elements =
                        operators::rows_of(&value).map_err(|fault| fault.at(source.span))?;
                    for element in elements {
                        self.set(*slot, element?);
                        self.run_rows(&stages[index + 1..], sink)?;
                    }
                    return Ok(());
                }
                Stage::Group { .. } | Stage::Order { .. } => {}
            }
        }
        sink(self)
    }
}

impl<'a> Machine<'a, '_> {
    /// Whether a row passes a filter. Where null passes, it does not do so within `&&` and `||`.
    fn passes(&mut self, condition: &'a Node, keeps_null: bool) -> Result<bool, Fault> {
        if keeps_null && matches!(condition.op, Op::And(_) | Op::Or(_)) {
            return self.holds(condition);
        }
        let value = self.eval(condition)?;
        let passes = match keeps_null {
            true => operators::passes(&value),
            false => operators::truth(&value),
        };
        passes.map_err(|fault| fault.at(condition.span))
    }

    /// Whether a condition holds, each part of it on its own.
    fn holds(&mut self, condition: &'a Node) -> Result<bool, Fault> {
        match &condition.op {
            Op::And(operands) => Ok(self.holds(&operands[0])? && self.holds(&operands[1])?),
            Op::Or(operands) => Ok(self.holds(&operands[0])? || self.holds(&operands[1])?),
            _ => self.eval_condition(condition),
        }
    }
}
