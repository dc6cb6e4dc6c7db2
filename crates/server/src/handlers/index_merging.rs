//! Indexes that could be merged: those over the same collection whose maps are plain and do not
//! conflict.

use std::collections::BTreeMap;

use http::StatusCode;
use indexing::{IndexKind, PlainMap, plain_map_of};
use model::{ALL_FIELDS, IndexDefinition, IndexSourceType, IndexType};
use serde_json::{Value, json};

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

const ALONE: &str = "Can't find any other index to merge this index with.";
/// The start of the source of a plain map over a collection.
const COLLECTION_PREFIX: &str = "docs.";

/// An index whose map is plain.
struct Candidate {
    definition: IndexDefinition,
    map: PlainMap,
}

/// `GET /indexes/suggest-index-merge`.
pub(crate) fn suggestions(call: &Call) -> Result<Answer, ApiError> {
    let (mut candidates, mut unmergeable) = (Vec::new(), BTreeMap::new());
    for index in call.database()?.indexes().all().iter().filter(|index| !index.is_replacement()) {
        let kind = index.kind();
        let IndexKind::Static(definition) = kind.as_ref() else { continue };
        match plain_map_of(definition) {
            None => {}
            Some(Ok(map)) => candidates.push(Candidate { definition: (**definition).clone(), map }),
            Some(Err(why)) => drop(unmergeable.insert(definition.name.clone(), why)),
        }
    }
    let mut suggestions = Vec::new();
    for group in groups(candidates) {
        match group.as_slice() {
            [alone] => drop(unmergeable.insert(alone.definition.name.clone(), ALONE)),
            group => suggestions.push(suggestion(group)?),
        }
    }
    let shape = json!({"Unmergables": unmergeable, "Suggestions": suggestions, "Errors": []});
    Ok(Answer::shape(StatusCode::OK, &shape))
}

/// Groups what fits together, each in the first group that it fits into.
fn groups(candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut groups: Vec<Vec<Candidate>> = Vec::new();
    for candidate in candidates {
        match groups.iter_mut().find(|group| group.iter().all(|other| fit(other, &candidate))) {
            Some(group) => group.push(candidate),
            None => groups.push(vec![candidate]),
        }
    }
    groups
}

/// Whether one index could contain the entries of both.
fn fit(one: &Candidate, other: &Candidate) -> bool {
    let agree = |name: &String| {
        one.definition.field(name) == other.definition.field(name)
            && one.map.fields.get(name) == other.map.fields.get(name)
    };
    let common = one.map.fields.keys().filter(|name| other.map.fields.contains_key(*name));
    let all_fields = |candidate: &Candidate| {
        candidate.definition.fields.get(ALL_FIELDS).cloned().unwrap_or_default()
    };
    one.map.source == other.map.source
        && common.into_iter().all(agree)
        && all_fields(one) == all_fields(other)
        && one.definition.configuration == other.definition.configuration
}

fn suggestion(group: &[Candidate]) -> Result<Value, ApiError> {
    let source = group[0].map.source.clone();
    let collection = source.strip_prefix(COLLECTION_PREFIX).unwrap_or("@all_docs").to_owned();
    let mut merged = PlainMap { source, fields: BTreeMap::new() };
    for candidate in group {
        merged.fields.extend(candidate.map.fields.clone());
    }
    let names = |is_listed: &dyn Fn(&Candidate) -> bool| -> Vec<String> {
        let listed = group.iter().filter(|candidate| is_listed(candidate));
        listed.map(|candidate| candidate.definition.name.clone()).collect()
    };
    // The one that already has everything, if there is one.
    let surpassing = group.iter().rfind(|candidate| candidate.map.fields == merged.fields);
    Ok(match surpassing {
        Some(surpassing) => {
            let name = &surpassing.definition.name;
            json!({
                "CanMerge": [], "CanDelete": names(&|other| other.definition.name != *name),
                "MergedIndex": null, "Collection": collection, "SurpassingIndex": name
            })
        }
        None => json!({
            "CanMerge": names(&|_| true), "CanDelete": [],
            "MergedIndex": merged_index(group, &merged), "Collection": collection,
            "SurpassingIndex": ""
        }),
    })
}

fn merged_index(group: &[Candidate], merged: &PlainMap) -> Value {
    let fields = group.iter().flat_map(|candidate| candidate.definition.fields.clone());
    let definition = IndexDefinition {
        maps: vec![merged.text()],
        fields: fields.collect(),
        configuration: group[0].definition.configuration.clone(),
        index_type: Some(IndexType::Map),
        source_type: Some(IndexSourceType::Documents),
        ..IndexDefinition::default()
    };
    let mut shape = wire::index_definition_json(&definition);
    shape["Name"] = Value::Null;
    shape["ClusterState"] = json!({"LastStateIndex": 0});
    shape
}
