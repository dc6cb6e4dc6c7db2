//! The automatic index that a query over a collection needs: the fields that its conditions and its
//! order use, and the ways in which they must be indexed.
//!
//! A field that is only selected is not needed; nor do `id()`, `score()` and `random()` need one.

use blittable::Object;
use indexing::{AutoField, AutoFieldSource, AutoFieldWays, AutoIndexDefinition};
use rql::{Expression, FieldPath, Literal, MethodCall, PathStep, Query, Selection, SourceKind};

use crate::error::QueryError;
use crate::parameters::QueryContext;
use crate::spatial_clause::path_of;

const ALL_DOCUMENTS: &str = "@all_docs";

/// Methods whose first argument is a field that is indexed in the default way.
const OF_FIELDS: &[&str] = &["startsWith", "endsWith", "regex", "exists"];
/// Methods whose first argument is an analyzed field.
const OF_WORDS: &[&str] = &["search", "lucene"];
/// Methods whose arguments are conditions, possibly followed by options.
const OF_CONDITIONS: &[&str] = &["boost", "fuzzy", "proximity", "intersect"];

/// The smallest automatic index that can run `query`, which names no index.
///
/// # Errors
///
/// [`QueryError::Invalid`] for what requires a static index.
pub fn needed_index(
    query: &Query,
    parameters: Option<Object<'_>>,
) -> Result<AutoIndexDefinition, QueryError> {
    QueryContext::new(query, parameters).needed_index()
}

impl<'a> QueryContext<'a> {
    /// The smallest automatic index that can run the query.
    pub(crate) fn needed_index(&self) -> Result<AutoIndexDefinition, QueryError> {
        let query = self.query;
        let collection = match &query.source.kind {
            SourceKind::Collection(name) => name.as_str(),
            SourceKind::AllDocuments | SourceKind::Index(_) | SourceKind::Graph(_) => ALL_DOCUMENTS,
        };
        let mut needed = Needed { context: self, fields: Vec::new() };
        if let Some(condition) = &query.condition {
            needed.add_condition(condition, Exactness::Default)?;
        }
        for item in &query.order_by {
            needed.add_order(&item.key)?;
        }
        if let Some(select) = &query.select
            && let Selection::Items(items) = &select.selection
        {
            items.iter().try_for_each(|item| needed.add_selected(&item.value))?;
        }
        query.include.iter().try_for_each(|item| needed.add_included(item))?;
        if self.is_grouped() {
            let grouping = self.grouping(&|path| needed.ways_of(path))?;
            return Ok(AutoIndexDefinition::grouped(collection, grouping));
        }
        Ok(AutoIndexDefinition::new(collection, needed.fields))
    }
}

/// Whether a condition is inside `exact()`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Default,
    Exact,
}

struct Needed<'s, 'a> {
    context: &'s QueryContext<'a>,
    fields: Vec<AutoField>,
}

impl Needed<'_, '_> {
    /// The ways in which a field is used.
    fn ways_of(&self, path: &str) -> AutoFieldWays {
        let of_path = self.fields.iter().filter(|field| field.name() == path);
        of_path.fold(AutoFieldWays::default(), |ways, field| ways.union(field.ways))
    }

    /// The parser's nesting limit bounds the recursion.
    fn add_condition(
        &mut self,
        condition: &Expression,
        exactness: Exactness,
    ) -> Result<(), QueryError> {
        match condition {
            Expression::And(parts) | Expression::Or(parts) => {
                parts.iter().try_for_each(|part| self.add_condition(part, exactness))
            }
            Expression::Not(inner) => self.add_condition(inner, exactness),
            Expression::Compare { left: value, .. }
            | Expression::Between { value, .. }
            | Expression::In { value, .. } => self.add_value(value, exactness),
            Expression::Method(call) => self.add_call(call, exactness),
            Expression::Field(path) => self.add_path(path, exactness),
            Expression::Literal(_) | Expression::TimeSeries(_) => Ok(()),
        }
    }

    /// The left side of a comparison.
    fn add_value(&mut self, value: &Expression, exactness: Exactness) -> Result<(), QueryError> {
        match value {
            Expression::Field(path) => self.add_path(path, exactness),
            other => self.add_condition(other, exactness),
        }
    }

    fn add_call(&mut self, call: &MethodCall, exactness: Exactness) -> Result<(), QueryError> {
        let is_one_of = |names: &[&str]| names.iter().any(|name| call.is(name));
        if call.is("exact") {
            let mut conditions = call.arguments.iter();
            return conditions.try_for_each(|inner| self.add_condition(inner, Exactness::Exact));
        }
        if call.is("moreLikeThis") {
            let message = "Method moreLikeThis() cannot be used in dynamic queries";
            return Err(self.context.invalid(message));
        }
        if is_one_of(OF_CONDITIONS) {
            let mut arguments = call.arguments.iter();
            return arguments.try_for_each(|inner| self.add_condition(inner, exactness));
        }
        match call.arguments.first() {
            Some(Expression::Field(path)) if is_one_of(OF_WORDS) => {
                self.add_path_with(path, AutoFieldWays { search: true, ..Default::default() })
            }
            Some(Expression::Field(path)) if is_one_of(OF_FIELDS) => self.add_path(path, exactness),
            Some(Expression::Literal(Literal::String(name)))
                if is_one_of(OF_WORDS) || is_one_of(OF_FIELDS) =>
            {
                let step = PathStep::Name { name: name.clone(), quoted: true };
                let path = FieldPath { steps: vec![step], offset: call.offset };
                match is_one_of(OF_WORDS) {
                    true => self
                        .add_path_with(&path, AutoFieldWays { search: true, ..Default::default() }),
                    false => self.add_path(&path, exactness),
                }
            }
            Some(Expression::Method(shape)) if is_spatial(call) => self.add_shape(shape),
            // A method that takes no field is rejected when the condition is planned.
            _ => Ok(()),
        }
    }

    fn add_order(&mut self, key: &Expression) -> Result<(), QueryError> {
        match key {
            Expression::Field(path) => self.add_path(path, Exactness::Default),
            Expression::Method(call) if is_spatial(call) => match call.arguments.first() {
                Some(Expression::Method(shape)) => self.add_shape(shape),
                argument => {
                    if let Some(path) = argument.and_then(path_of) {
                        self.fields.push(self.context.named_field(&path)?);
                    }
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    fn add_selected(&mut self, value: &Expression) -> Result<(), QueryError> {
        let Expression::Method(call) = value else { return Ok(()) };
        if call.is("facet") {
            return Err(self.context.invalid("Facet query must be executed against static index."));
        }
        match call.arguments.first() {
            Some(Expression::Field(path)) if call.is("suggest") => {
                self.add_path_with(path, AutoFieldWays { suggest: true, ..Default::default() })
            }
            Some(Expression::Literal(Literal::String(name))) if call.is("suggest") => {
                let ways = AutoFieldWays { suggest: true, ..Default::default() };
                self.fields.push(AutoField { ways, ..AutoField::of_path(name) });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_included(&mut self, item: &Expression) -> Result<(), QueryError> {
        let Expression::Method(call) = item else { return Ok(()) };
        match call.arguments.first() {
            Some(Expression::Field(path)) if call.is("highlight") => {
                let ways = AutoFieldWays { search: true, highlight: true, ..Default::default() };
                self.add_path_with(path, ways)
            }
            _ => Ok(()),
        }
    }

    /// `spatial.point(Lat, Lng)` or `spatial.wkt(Place)` as the first argument of a spatial method.
    fn add_shape(&mut self, shape: &MethodCall) -> Result<(), QueryError> {
        let paths: Vec<_> = shape
            .arguments
            .iter()
            .filter_map(path_of)
            .filter_map(|path| self.path_text(&path).transpose())
            .collect::<Result<_, _>>()?;
        let source = match paths.as_slice() {
            [latitude, longitude] if shape.is("spatial.point") => {
                AutoFieldSource::Point { latitude: latitude.clone(), longitude: longitude.clone() }
            }
            [path] if shape.is("spatial.wkt") => AutoFieldSource::Shape { path: path.clone() },
            _ => return Ok(()),
        };
        self.fields.push(AutoField { source, ways: AutoFieldWays::default() });
        Ok(())
    }

    fn add_path(&mut self, path: &FieldPath, exactness: Exactness) -> Result<(), QueryError> {
        let exact = exactness == Exactness::Exact;
        self.add_path_with(path, AutoFieldWays { exact, ..Default::default() })
    }

    fn add_path_with(&mut self, path: &FieldPath, ways: AutoFieldWays) -> Result<(), QueryError> {
        let Some(text) = self.path_text(path)? else { return Ok(()) };
        let is_quoted = matches!(path.steps.as_slice(), [PathStep::Name { quoted: true, .. }]);
        let source = AutoFieldSource::Path { path: text, is_quoted };
        self.fields.push(AutoField { source, ways });
        Ok(())
    }

    /// The path without the alias; `None` for the alias alone.
    fn path_text(&self, path: &FieldPath) -> Result<Option<String>, QueryError> {
        self.context.require_known_alias(path)?;
        if self.context.is_grouped() {
            return self.context.path_in_entries(path).map(Some);
        }
        Ok(path.without_alias(self.context.alias()).map(|path| path.text()))
    }
}

/// Whether this is a method whose first argument is a shape of the document.
pub(crate) fn is_spatial(call: &MethodCall) -> bool {
    const METHODS: [&str; 5] = [
        "spatial.within",
        "spatial.contains",
        "spatial.disjoint",
        "spatial.intersects",
        "spatial.distance",
    ];
    METHODS.iter().any(|name| call.is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(text: &str) -> Result<String, String> {
        let query = rql::parse(text).unwrap();
        let context = QueryContext::new(&query, None);
        context.needed_index().map(|needed| needed.name()).map_err(|error| error.to_string())
    }

    #[test]
    fn indexes_are_named_as_they_were_measured() {
        for (rest, expected) in [
            ("where Name='a'", "ByName"),
            ("where name='a'", "Byname"),
            ("where Name='a' and Age>3", "ByAgeAndName"),
            ("order by Age as long", "ByAge"),
            ("order by id()", "ById()"),
            ("where id()='u/1' and true", "ById()"),
            ("where id()='u/1' or Name='a'", "ByName"),
            ("where search(Name,'a')", "BySearch(Name)"),
            ("where exact(Name='a')", "ByExact(Name)"),
            ("where exact(search(Name,'a'))", "BySearch(Name)"),
            ("where lucene(Name,'a')", "BySearch(Name)"),
            ("where search(Name,'a') and Name='b'", "BySearch(Name)"),
            ("where search(Name,'a') and exact(Name='b')", "BySearch(Name)AndExact(Name)"),
            ("where boost(Name='a',2)", "ByName"),
            ("where startsWith(Name,'a')", "ByName"),
            ("where exists(Name)", "ByName"),
            ("where regex(Name,'a')", "ByName"),
            ("where Address.City='x' order by Address.Zip", "ByAddress.CityAndAddress.Zip"),
            ("where Lines[].Sub[].P='x'", "ByLines[].Sub[].P"),
            ("where Tags[]='x'", "ByTags[]"),
            ("where Tags all in ('x')", "ByTags"),
            ("where 'Some Name'='x'", "By'Some Name'"),
            ("where \"Some Name\"='x' and Name='y'", "By'Some Name'AndName"),
            ("where Address.'Street Name'='x'", "ByAddress.Street Name"),
            ("as x where x.Name='a'", "ByName"),
            (
                "where spatial.within(spatial.point(Lat, Lng), spatial.circle(10, 1, 2))",
                "BySpatial.point(Lat|Lng)",
            ),
            (
                "where spatial.within(spatial.wkt(Loc), spatial.circle(10, 1, 2))",
                "BySpatial.wkt(Loc)",
            ),
            (
                "where spatial.within(spatial.point(Address.Lat, Address.Lng), spatial.circle(10, 1, 2)) \
                 and Name='a'",
                "ByNameAndSpatial.point(Address.Lat|Address.Lng)",
            ),
            (
                "order by spatial.distance(spatial.point(Lat, Lng), spatial.point(1,2))",
                "BySpatial.point(Lat|Lng)",
            ),
            ("select suggest(Name,'aa')", "BySuggest(Name)"),
            ("select suggest('Name','aa')", "BySuggest(Name)"),
            (
                "where search(Name,'a') include highlight(Name,20,1)",
                "BySearch(Name)AndHighlight(Name)",
            ),
            ("where Name='a' select Age, Address.City as C", "ByName"),
            ("where @metadata.@last-modified > '2020-01-01'", "By@metadata.@last-modified"),
            ("where Name[0]='a'", "ByName.0"),
            ("where Name.Length=3", "ByName.Length"),
            ("where intersect(Name='a', Age=1)", "ByAgeAndName"),
            ("where fuzzy(Name='a',0.5)", "ByName"),
            ("where Name between 'a' and 'b'", "ByName"),
            ("order by random()", "ById()"),
            ("order by score()", "ById()"),
            ("where _x='1'", "By_x"),
        ] {
            let name = name_of(&format!("from U {rest}"));
            assert_eq!(name.as_deref(), Ok(format!("Auto/U/{expected}").as_str()), "{rest}");
        }
        assert_eq!(name_of("from @all_docs where Name='a'").unwrap(), "Auto/AllDocs/ByName");
        assert_eq!(
            name_of("from 'Order Lines' where Name='a'").unwrap(),
            "Auto/Order Lines/ByName"
        );
    }

    #[test]
    fn what_takes_an_index_of_ones_own_is_refused() {
        for (rest, message) in [
            ("select facet(Name)", "Facet query must be executed against static index."),
            (
                "where moreLikeThis(id()='u/1')",
                "Method moreLikeThis() cannot be used in dynamic queries",
            ),
            ("as u where x.Name = 'a'", "Unknown alias x"),
        ] {
            let error = name_of(&format!("from U {rest}")).unwrap_err();
            assert!(error.starts_with(message), "{rest}: {error}");
        }
    }
}
