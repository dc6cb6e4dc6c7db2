//! A planned time series query, run for one row.
//!
//! Entries are read one at a time, and segments that belong to one group as a whole; memory use
//! depends on the open groups and the text of the result.

use blittable::write_json_string;
use documents::{DocumentRow, FieldPath, Found};
use model::ticks::TICKS_PER_MILLISECOND;
use timeseries::{Entry, Summary};

use crate::error::QueryError;
use crate::loaded::Loaded;
use crate::row_document::RowDocument;
use crate::time_series::aggregation::Aggregation;
use crate::time_series::condition::{Cell, Operand, Seen, TagDocuments, Test};
use crate::time_series::groups::{Group, Grouping, Groups};
use crate::time_series::levels::Levels;
use crate::time_series::periods::Periods;
use crate::time_series::planned::{
    Column, GroupKey, Place, PlannedArgument, PlannedRange, PlannedSeries, SeriesDocument,
    SeriesName, moment_of, unknown_name,
};
use crate::time_series::reader::{SeriesReader, SeriesVisitor};
use crate::time_series::result::SeriesResult;
use crate::time_series::settings::SeriesSettings;

/// What a time series query reads.
pub(crate) struct Surroundings<'s> {
    pub(crate) reader: &'s dyn SeriesReader,
    pub(crate) tags: &'s dyn TagDocuments,
    pub(crate) settings: &'s dyn SeriesSettings,
}

/// The documents of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowDocuments<'r, 't> {
    pub(crate) row: &'r RowDocument<'t>,
    pub(crate) loaded: &'r [Loaded<'t>],
}

impl<'r, 't> RowDocuments<'r, 't> {
    fn at(&self, place: Place) -> Option<&'r DocumentRow<'t>> {
        match place {
            Place::Row => self.row.stored(),
            Place::Loaded(at) => match self.loaded.get(at) {
                Some(Loaded::One(document)) => document.as_ref(),
                Some(Loaded::Many(documents)) => documents.first(),
                Some(Loaded::Counter(_) | Loaded::Value(_)) | None => None,
            },
        }
    }
}

/// A resolved argument of a function.
enum Argument<'r, 't> {
    Document(Option<&'r DocumentRow<'t>>),
    Value(Cell),
}

/// The ends of a range in ticks.
type Ends = (Option<i64>, Option<i64>);

impl PlannedSeries {
    /// Which series of the row it reads: the document's id and collection, and the name.
    fn series_of<'r>(
        &self,
        row: RowDocuments<'r, '_>,
        arguments: &[Argument<'r, '_>],
    ) -> Option<(&'r str, String, String)> {
        let document = match self.document {
            SeriesDocument::At(place) => row.at(place),
            SeriesDocument::Argument(place) => match arguments.get(place) {
                Some(Argument::Document(document)) => *document,
                Some(Argument::Value(_)) | None => row.at(Place::Row),
            },
        }?;
        let name = match &self.name {
            SeriesName::Known(name) => name.clone(),
            SeriesName::Argument(place) => match arguments.get(*place) {
                Some(Argument::Value(Cell::Text(name))) => name.clone(),
                Some(_) | None => return None,
            },
        };
        let collection = document.collection().map(|name| name.into_owned()).unwrap_or_default();
        Some((document.id(), collection, name))
    }

    /// The names of the values of the row's series.
    pub(crate) fn value_names<'n>(
        &self,
        row: RowDocuments<'_, '_>,
        settings: &'n dyn SeriesSettings,
    ) -> Result<Option<&'n [String]>, QueryError> {
        let arguments = self.known_arguments(row)?;
        let series = self.series_of(row, &arguments);
        Ok(series.and_then(|(_, collection, name)| settings.value_names(&collection, &name)))
    }

    /// Adds the results for the row to `result`; returns how many entries were read, including
    /// those of interpolated groups.
    pub(crate) fn evaluate(
        &self,
        row: RowDocuments<'_, '_>,
        surroundings: &Surroundings<'_>,
        result: &mut SeriesResult<'_>,
    ) -> Result<u64, QueryError> {
        let arguments = self.known_arguments(row)?;
        let Some((id, collection, name)) = self.series_of(row, &arguments) else { return Ok(0) };
        let levels = self.levels(surroundings, id, &collection, &name)?;
        let Some(moments) = levels.ends() else { return Ok(0) };
        let names = surroundings.settings.value_names(&collection, &name).unwrap_or_default();
        let mut bind = |operand: &Operand| self.known_operand(operand, &arguments, names);
        let ends = self.ends(moments, &mut bind)?;
        let test = self.condition.as_ref().map(|test| test.bound(&mut bind)).transpose()?;
        let grouping = self.columns.as_ref().map(|columns| self.grouping_of(columns, ends));
        let moved = |moment: Option<i64>| moment.map(|moment| result.moved(moment));
        let mut evaluation = Evaluation {
            planned: self,
            test,
            groups: grouping.as_ref().map(Groups::new),
            range: (moved(ends.0), moved(ends.1)),
            tags: surroundings.tags,
            result,
            key: Key::default(),
            count: 0,
        };
        let from = ends
            .0
            .map_or(moments.0, |from| (from + TICKS_PER_MILLISECOND - 1) / TICKS_PER_MILLISECOND);
        let to = ends.1.map_or(moments.1, |to| to / TICKS_PER_MILLISECOND);
        levels.visit(surroundings.reader, id, (from, to), &mut evaluation)?;
        evaluation.finish()
    }

    /// The entries of the series, preceded by those of its rollups. A condition on values cannot be
    /// evaluated on a rollup, which has no values of single entries.
    fn levels(
        &self,
        surroundings: &Surroundings<'_>,
        id: &str,
        collection: &str,
        name: &str,
    ) -> Result<Levels, QueryError> {
        let reader = surroundings.reader;
        if self.condition.as_ref().is_some_and(Test::asks_for_values) || name.contains('@') {
            return Levels::only(reader, id, name);
        }
        let policies = surroundings.settings.rollups(collection);
        Levels::with_rollups(reader, id, name, &policies)
    }

    fn known_arguments<'r, 't>(
        &self,
        row: RowDocuments<'r, 't>,
    ) -> Result<Vec<Argument<'r, 't>>, QueryError> {
        let known = |argument: &PlannedArgument| {
            Ok(match argument {
                PlannedArgument::Document(place) => Argument::Document(row.at(*place)),
                PlannedArgument::Value(cell) => Argument::Value(cell.clone()),
                PlannedArgument::Field(place, path) => Argument::Value(match row.at(*place) {
                    Some(document) => field_of(document, path)?.unwrap_or(Cell::Null),
                    None => Cell::Null,
                }),
            })
        };
        self.arguments.iter().map(known).collect()
    }

    fn known_operand(
        &self,
        operand: &Operand,
        arguments: &[Argument<'_, '_>],
        names: &[String],
    ) -> Result<Operand, QueryError> {
        Ok(match operand {
            Operand::Argument(place) => Operand::Constant(match arguments.get(*place) {
                Some(Argument::Value(cell)) => cell.clone(),
                Some(Argument::Document(_)) => Cell::Composite,
                None => Cell::Null,
            }),
            Operand::ArgumentField(place, path) => Operand::Constant(match arguments.get(*place) {
                Some(Argument::Document(Some(document))) => match field_of(document, path)? {
                    Some(cell) => cell,
                    None => return Err(missing_field(document.id(), path)),
                },
                Some(Argument::Document(None)) | None => Cell::Null,
                Some(Argument::Value(_)) => {
                    return Err(unknown_name(&self.function, &path.text(), "argument"));
                }
            }),
            Operand::Named(name) => match names.iter().position(|known| known == name) {
                Some(position) => Operand::Value(position),
                None => return Err(unknown_name(&self.function, name, name)),
            },
            known => known.clone(),
        })
    }

    fn ends(
        &self,
        (first_ms, last_ms): (i64, i64),
        bind: &mut dyn FnMut(&Operand) -> Result<Operand, QueryError>,
    ) -> Result<Ends, QueryError> {
        let mut end = |operand: &Operand| match bind(operand)? {
            Operand::Constant(cell) => moment_of(&cell).map(Some),
            _ => Ok(None),
        };
        Ok(match &self.range {
            PlannedRange::Everything => (None, None),
            PlannedRange::Between(from, to) => (end(from)?, end(to)?),
            PlannedRange::First(length) => {
                (None, Some(length.after(first_ms * TICKS_PER_MILLISECOND)))
            }
            PlannedRange::Last(length) => {
                (Some(length.before(last_ms * TICKS_PER_MILLISECOND)), None)
            }
        })
    }

    fn grouping_of(&self, columns: &[Column], (from, to): Ends) -> Grouping {
        let offset = self.offset.unwrap_or(0);
        let origin = from.unwrap_or(0).saturating_add(offset);
        Grouping {
            periods: self.grouping.length.map(|length| Periods::new(length, Some(origin))),
            interpolation: self.grouping.interpolation,
            aggregations: columns.iter().map(|column| column.aggregation).collect(),
            end: to.map(|to| to.saturating_add(offset)),
        }
    }
}

/// The error for a comparison with a field that a document does not have.
pub(crate) fn missing_field(id: &str, path: &FieldPath) -> QueryError {
    let path = path.text();
    let message = format!(
        "Unable to get the value of '{path}' from document '{id}'. Document '{id}' does not have a \
         property named '{path}'."
    );
    QueryError::TimeSeries { message }
}

pub(crate) fn field_of(
    document: &DocumentRow<'_>,
    path: &FieldPath,
) -> Result<Option<Cell>, QueryError> {
    Ok(match path.find(document.body()?.root())? {
        Found::Missing => None,
        Found::One(value) => Some(Cell::of(&value)?),
        Found::Length(length) => Some(Cell::Number(length as f64)),
        Found::List(_) => Some(Cell::Composite),
    })
}

/// One series while it is read.
struct Evaluation<'v, 'r, 'g> {
    planned: &'v PlannedSeries,
    test: Option<Test>,
    groups: Option<Groups<'g>>,
    /// The ends of the range as groups report them.
    range: Ends,
    tags: &'v dyn TagDocuments,
    result: &'v mut SeriesResult<'r>,
    key: Key,
    count: u64,
}

/// The key of the last entry, and the tag that it was made from.
#[derive(Default)]
struct Key {
    tag: Option<String>,
    json: Vec<u8>,
}

impl Evaluation<'_, '_, '_> {
    fn finish(mut self) -> Result<u64, QueryError> {
        let Some(groups) = &mut self.groups else { return Ok(self.count) };
        let (result, range) = (&mut *self.result, self.range);
        let columns = self.planned.columns.as_deref().unwrap_or_default();
        groups.finish(&mut |group: &Group| result.push_group(group, range, columns))?;
        Ok(self.count + groups.filled())
    }

    /// Computes the key of an entry with this tag.
    fn make_key(&mut self, tag: Option<&str>) -> Result<(), QueryError> {
        let Some(key) = &self.planned.grouping.key else {
            if self.key.json.is_empty() {
                self.key.json.extend_from_slice(b"null");
            }
            return Ok(());
        };
        if !self.key.json.is_empty() && self.key.tag.as_deref() == tag {
            return Ok(());
        }
        let json = &mut self.key.json;
        json.clear();
        match (key, tag) {
            (_, None) => json.extend_from_slice(b"null"),
            (GroupKey::Tag, Some(tag)) => write_json_string(tag, json),
            (GroupKey::OfTag(path), Some(tag)) => match self.tags.json(tag, path)? {
                Some(value) => json.extend_from_slice(&value),
                None => json.extend_from_slice(b"null"),
            },
        }
        self.key.tag = tag.map(str::to_owned);
        Ok(())
    }

    fn refuse_rollup(&self) -> Result<(), QueryError> {
        let columns = self.planned.columns.as_deref().unwrap_or_default();
        match columns.iter().find(|column| column.aggregation.needs_values()) {
            None => Ok(()),
            Some(Column { aggregation, .. }) => Err(QueryError::InvalidOperation {
                message: format!(
                    "Cannot use aggregation method '{}' on rolled-up time series: the values \
                     themselves are not there any more",
                    Aggregation::name(*aggregation)
                ),
            }),
        }
    }
}

impl SeriesVisitor for Evaluation<'_, '_, '_> {
    fn segment(
        &mut self,
        (first, last): (i64, i64),
        entries: u64,
        summaries: &[Summary],
    ) -> Result<bool, QueryError> {
        let planned = self.planned;
        let (Some(groups), None, None) = (&mut self.groups, &self.test, &planned.grouping.key)
        else {
            return Ok(false);
        };
        let (result, range) = (&mut *self.result, self.range);
        let moments = [first, last].map(|moment| result.moved(moment * TICKS_PER_MILLISECOND));
        let columns = planned.columns.as_deref().unwrap_or_default();
        let is_taken = groups.add_segment(
            (moments[0], moments[1]),
            summaries.iter().copied(),
            &mut |group: &Group| result.push_group(group, range, columns),
        )?;
        self.count += if is_taken { entries } else { 0 };
        Ok(is_taken)
    }

    fn entry(&mut self, entry: Entry<'_>, is_rollup: bool) -> Result<(), QueryError> {
        let moment = self.result.moved(entry.timestamp_ms.saturating_mul(TICKS_PER_MILLISECOND));
        if let Some(test) = &self.test {
            let seen = Seen { values: entry.values, tag: entry.tag, moment };
            if !test.passes(&seen, self.tags)? {
                return Ok(());
            }
        }
        self.count += 1;
        if self.groups.is_none() {
            return self.result.push_entry(entry, is_rollup);
        }
        if is_rollup {
            self.refuse_rollup()?;
        }
        self.make_key(entry.tag)?;
        let Some(groups) = &mut self.groups else { return Ok(()) };
        let (result, range) = (&mut *self.result, self.range);
        let columns = self.planned.columns.as_deref().unwrap_or_default();
        let mut take = |group: &Group| result.push_group(group, range, columns);
        groups.add(moment, &self.key.json, entry.values, is_rollup, &mut take)
    }
}
