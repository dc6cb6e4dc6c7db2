//! Facets listed in a document: `facet(id('facets/1'))`.

use blittable::{Array, Object, Value};

use crate::error::QueryError;
use crate::facet_plan::{
    ALL_RESULTS, Aggregation, Aggregations, FacetBy, FacetOptions, PlannedFacet,
};
use crate::facet_ranges::RangePlanner;
use crate::method_options::{MethodOptions, value_of};
use crate::parameters::{QueryContext, shown};
use crate::searched_fields::SearchedFields;

/// Maximum number of facets and ranges of one document.
const LISTED_MAX: usize = 1024;

/// Reads a setup document.
pub(crate) struct FacetSetup<'s, 'a> {
    pub(crate) context: &'s QueryContext<'a>,
    pub(crate) fields: &'s dyn SearchedFields,
    /// The id of the document.
    pub(crate) id: &'s str,
}

impl FacetSetup<'_, '_> {
    /// The facets of the document: first those of terms, then those of ranges.
    pub(crate) fn facets(&self, document: Object<'_>) -> Result<Vec<PlannedFacet>, QueryError> {
        let mut facets = Vec::new();
        for facet in self.objects(document, "Facets")? {
            facets.push(self.of_terms(facet)?);
        }
        for facet in self.objects(document, "RangeFacets")? {
            facets.push(self.of_ranges(facet)?);
        }
        Ok(facets)
    }

    fn of_terms(&self, facet: Object<'_>) -> Result<PlannedFacet, QueryError> {
        let settings = MethodOptions::of_object(facet, "facet");
        let options = match settings.get("Options")? {
            None => FacetOptions::default(),
            Some(Value::Object(options)) => {
                FacetOptions::read(&MethodOptions::of_object(options, "facet"))?
            }
            Some(other) => return Err(self.wrong("Options", "an object", &other)),
        };
        let field = settings.text("FieldName")?;
        let implied_name = field.clone().unwrap_or_else(|| ALL_RESULTS.to_owned());
        Ok(PlannedFacet {
            name: settings.text("DisplayFieldName")?.unwrap_or(implied_name),
            by: field.map_or(FacetBy::Nothing, |field| FacetBy::Terms { field, options }),
            sums: self.aggregations(facet)?,
        })
    }

    fn of_ranges(&self, facet: Object<'_>) -> Result<PlannedFacet, QueryError> {
        let settings = MethodOptions::of_object(facet, "facet");
        let texts = settings.texts("Ranges")?.unwrap_or_default();
        if texts.is_empty() || LISTED_MAX < texts.len() {
            let message = format!("'RangeFacets' must have 'Ranges', {LISTED_MAX} at most");
            return Err(self.refused(&message));
        }
        let mut ranges = Vec::with_capacity(texts.len());
        for text in &texts {
            ranges.push(rql::parse_condition(text).map_err(|error| {
                self.refused(&format!("the range '{text}' cannot be read: {error}"))
            })?);
        }
        // The parameters are those of the query, the conditions those of the document.
        let context = *self.context;
        let planner = RangePlanner { context: &context, fields: self.fields };
        let (field, by) = planner.plan(&ranges.iter().collect::<Vec<_>>())?;
        let name = settings.text("DisplayFieldName")?.unwrap_or(field);
        Ok(PlannedFacet { name, by, sums: self.aggregations(facet)? })
    }

    /// `{"Sum": "Total", "Max": [{"Name": "Total", "DisplayName": "Most"}]}`.
    fn aggregations(&self, facet: Object<'_>) -> Result<Vec<Aggregation>, QueryError> {
        let mut sums = Aggregations::default();
        let listed = match value_of(facet, "Aggregations")? {
            None => return Ok(Vec::new()),
            Some(Value::Object(listed)) => listed,
            Some(other) => return Err(self.wrong("Aggregations", "an object", &other)),
        };
        for at in 0..listed.len() {
            let Some((kind, value)) = listed.at(at)? else { break };
            match value {
                Value::Null => {}
                Value::String(field) => {
                    let field = field.as_cow()?;
                    self.add(&mut sums, kind, &field, &field)?;
                }
                Value::Array(fields) => self.add_all(&mut sums, kind, fields)?,
                other => return Err(self.wrong(kind, "a field or an array", &other)),
            }
        }
        Ok(sums.0)
    }

    fn add_all(
        &self,
        sums: &mut Aggregations,
        kind: &str,
        fields: Array<'_>,
    ) -> Result<(), QueryError> {
        for value in fields.iter() {
            match value? {
                Value::String(field) => {
                    let field = field.as_cow()?;
                    self.add(sums, kind, &field, &field)?;
                }
                Value::Object(field) => {
                    let settings = MethodOptions::of_object(field, "facet");
                    let Some(name) = settings.text("Name")? else {
                        return Err(self.refused("an aggregation has no 'Name'"));
                    };
                    let shown = settings.text("DisplayName")?;
                    self.add(sums, kind, &name, shown.as_deref().unwrap_or(&name))?;
                }
                other => return Err(self.wrong(kind, "fields", &other)),
            }
        }
        Ok(())
    }

    fn add(
        &self,
        sums: &mut Aggregations,
        kind: &str,
        field: &str,
        name: &str,
    ) -> Result<(), QueryError> {
        if LISTED_MAX < sums.0.len() {
            return Err(
                self.refused(&format!("a facet may have {LISTED_MAX} aggregations at most"))
            );
        }
        match sums.add(kind, field, name) {
            true => Ok(()),
            false => Err(self.refused(&format!("there is no aggregation '{kind}'"))),
        }
    }

    fn objects<'d>(&self, document: Object<'d>, name: &str) -> Result<Vec<Object<'d>>, QueryError> {
        let array = match value_of(document, name)? {
            None => return Ok(Vec::new()),
            Some(Value::Array(array)) => array,
            Some(other) => return Err(self.wrong(name, "an array", &other)),
        };
        let mut objects = Vec::new();
        for value in array.iter() {
            match value? {
                Value::Object(object) => objects.push(object),
                other => return Err(self.wrong(name, "objects", &other)),
            }
            if LISTED_MAX < objects.len() {
                let message = format!("'{name}' may have {LISTED_MAX} facets at most");
                return Err(self.refused(&message));
            }
        }
        Ok(objects)
    }

    fn wrong(&self, name: &str, wanted: &str, value: &Value<'_>) -> QueryError {
        self.refused(&format!("'{name}' must be {wanted}, but was: {}", shown(value)))
    }

    fn refused(&self, message: &str) -> QueryError {
        let message = format!("The facet setup document '{}': {message}", self.id);
        QueryError::InvalidOperation { message }
    }
}
