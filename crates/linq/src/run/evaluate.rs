//! Evaluates maps and reduces: the border between the engine and this crate.

use std::rc::Rc;

use blittable::Object;

use crate::compile::plan::{Op, Slot};
use crate::definition::{Definition, Map, Reduce};
use crate::document::{CounterInput, DocumentInput, Host, NoHost, TimeSeriesInput};
use crate::limits::Budget;
use crate::run::fault::{EvaluationError, EvaluationErrorKind, Fault};
use crate::run::{Machine, over_budget};
use crate::value::{Date, DateKind, Names, Text, Value};

/// The slot of what a definition is applied to; the compiler numbers it first.
const ROOT: Slot = 0;

const COUNTER: &[&str] = &["DocumentId", "Name", "Value"];
const SERIES: &[&str] =
    &["DocumentId", "Name", "Start", "End", "Count", "Min", "Max", "Sum", "Entries"];
const ENTRY: &[&str] = &["Values", "Value", "Timestamp", "Tag"];

/// One output of a map or reduce.
#[derive(Clone, Copy, Debug)]
pub struct Output<'o, 'a> {
    fields: &'a [Box<str>],
    values: &'o [Value<'a>],
    boost: Option<f64>,
}

impl<'o, 'a> Output<'o, 'a> {
    /// Names and values in the order of the definition. The name `_` only carries fields created by
    /// `CreateField`.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'o Value<'a>)> + use<'o, 'a> {
        self.fields.iter().map(|name| &**name).zip(self.values)
    }

    /// The value of the field `name`.
    pub fn get(&self, name: &str) -> Option<&'o Value<'a>> {
        self.fields().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// The boost of the whole output, if the definition sets one.
    pub fn boost(&self) -> Option<f64> {
        self.boost
    }

    /// Whether no field has a value, so that an index creates no entry.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(is_missing)
    }
}

/// Whether there is no value, with or without a boost.
fn is_missing(value: &Value<'_>) -> bool {
    match value {
        Value::Missing => true,
        Value::Boosted(boosted) => is_missing(&boosted.value),
        _ => false,
    }
}

/// Receives the outputs.
pub(crate) type OutputSink<'s, 'a> = &'s mut dyn FnMut(Output<'_, 'a>);

impl Map {
    /// Evaluates the map for one document.
    ///
    /// # Errors
    /// When the document does not fit the definition, or exceeds the budget. Outputs passed before
    /// the error must be discarded.
    pub fn evaluate<'a>(
        &'a self,
        document: &DocumentInput<'a>,
        host: &mut dyn Host<'a>,
        budget: &Budget,
        out: OutputSink<'_, 'a>,
    ) -> Result<(), EvaluationError> {
        let root = Value::Document(Rc::new(*document));
        evaluate(&self.definition, root, host, budget, out)
    }

    /// Evaluates the map for one counter.
    ///
    /// # Errors
    /// As [`Map::evaluate`].
    pub fn evaluate_counter<'a>(
        &'a self,
        counter: &CounterInput<'a>,
        host: &mut dyn Host<'a>,
        budget: &Budget,
        out: OutputSink<'_, 'a>,
    ) -> Result<(), EvaluationError> {
        let values =
            vec![text(counter.document_id), text(counter.name), Value::Integer(counter.value)];
        evaluate(&self.definition, record(COUNTER, values), host, budget, out)
    }

    /// Evaluates the map for one segment of a time series.
    ///
    /// # Errors
    /// As [`Map::evaluate`].
    pub fn evaluate_time_series<'a>(
        &'a self,
        series: &TimeSeriesInput<'a>,
        host: &mut dyn Host<'a>,
        budget: &Budget,
        out: OutputSink<'_, 'a>,
    ) -> Result<(), EvaluationError> {
        evaluate(&self.definition, series_value(series), host, budget, out)
    }
}

impl Reduce {
    /// Evaluates the reduce for mapped values, which are usually those of one group. Each item is a
    /// mapped or reduced value, written with [`crate::put_value`].
    ///
    /// # Errors
    /// When the values do not fit the definition, or exceed the budget.
    pub fn evaluate<'a>(
        &'a self,
        items: &mut dyn Iterator<Item = Object<'a>>,
        budget: &Budget,
        out: OutputSink<'_, 'a>,
    ) -> Result<(), EvaluationError> {
        let items = items.map(Value::Object).collect();
        evaluate_rows(&self.definition, items, &mut NoHost, budget, out)
    }
}

fn evaluate<'a>(
    definition: &'a Definition,
    root: Value<'a>,
    host: &mut dyn Host<'a>,
    budget: &Budget,
    out: OutputSink<'_, 'a>,
) -> Result<(), EvaluationError> {
    let mut machine = Machine::new(definition.slots, host, budget);
    machine.set(ROOT, root);
    let mut outputs = 0;
    machine
        .run(&definition.pipeline.stages, &mut |machine| {
            machine.emit(definition, &mut outputs, out)
        })
        .map_err(|fault| fault.into_error(&definition.text))
}

/// As [`evaluate`], for several roots, whose rows meet where the definition groups them.
fn evaluate_rows<'a>(
    definition: &'a Definition,
    roots: Vec<Value<'a>>,
    host: &mut dyn Host<'a>,
    budget: &Budget,
    out: OutputSink<'_, 'a>,
) -> Result<(), EvaluationError> {
    let mut machine = Machine::new(definition.slots, host, budget);
    let mut outputs = 0;
    machine
        .run_roots(ROOT, roots, &definition.pipeline.stages, &mut |machine| {
            machine.emit(definition, &mut outputs, out)
        })
        .map_err(|fault| fault.into_error(&definition.text))
}

impl<'a> Machine<'a, '_> {
    fn emit(
        &mut self,
        definition: &'a Definition,
        outputs: &mut u32,
        out: &mut dyn FnMut(Output<'_, 'a>),
    ) -> Result<(), Fault> {
        *outputs += 1;
        if self.budget.outputs_max < *outputs {
            return Err(over_budget("outputs"));
        }
        let Op::Record { values: nodes, .. } = &definition.pipeline.result.op else {
            let message = "the definition has no output";
            return Err(Fault::new(EvaluationErrorKind::InvalidArgument, message));
        };
        let values = self.eval_all(nodes)?;
        let boost = match &definition.boost {
            Some(node) => Some(self.eval_factor(node)?),
            None => None,
        };
        out(Output { fields: &definition.fields, values: &values, boost });
        if self.host.takes_outputs() { Ok(()) } else { Err(over_budget("outputs")) }
    }
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Text::of_document(text))
}

fn record<'a>(names: &'static [&'static str], values: Vec<Value<'a>>) -> Value<'a> {
    Value::record(Names::Dynamic(names), values)
}

fn moment<'a>(ticks: i64) -> Value<'a> {
    Value::Date(Date { ticks, kind: DateKind::Utc })
}

fn numbers<'a>(values: &[f64]) -> Value<'a> {
    Value::list(values.iter().copied().map(Value::Double).collect())
}

fn series_value<'a>(series: &TimeSeriesInput<'a>) -> Value<'a> {
    let entries = series.entries.iter().map(|entry| {
        let tag = entry.tag.map_or(Value::ExplicitNull, text);
        let first = entry.values.first().map_or(Value::Missing, |value| Value::Double(*value));
        record(ENTRY, vec![numbers(entry.values), first, moment(entry.timestamp_ticks), tag])
    });
    let values = vec![
        text(series.document_id),
        text(series.name),
        moment(series.start_ticks),
        moment(series.end_ticks),
        Value::Integer(series.count),
        numbers(series.min),
        numbers(series.max),
        numbers(series.sum),
        Value::list(entries.collect()),
    ];
    record(SERIES, values)
}
