//! Which documents a transformation reads, and its compiled script.

use std::fmt;

use documents::{
    TombstoneKind,
    log::{EntryKind, EntryKinds, Selection},
};
use model::CollectionName;
use script::{Engine, EtlScript, ScriptError};
use wire::EtlTransformation;

/// A function that decides about deletions, whatever the collection.
pub(crate) const DELETES: &str = "deleteDocumentsBehavior";
/// Functions of what was loaded, which add something to it.
const ADDERS: [&str; 3] = ["addAttachment", "addCounter", "addTimeSeries"];

/// A transformation that is ready to run.
#[derive(Debug)]
pub struct Plan {
    /// None if it reads all documents.
    collections: Vec<CollectionName>,
    /// `None` if documents are sent as they are.
    script: Option<EtlScript>,
    /// Whether the script may add something to what it loads.
    may_add: bool,
}

/// Why a transformation cannot run.
#[derive(Debug)]
pub enum PlanError {
    /// Its script is not JavaScript.
    Script(ScriptError),
    /// It contradicts itself.
    Invalid {
        /// For the caller.
        message: String,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Script(error) => error.fmt(f),
            PlanError::Invalid { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlanError::Script(error) => Some(error),
            PlanError::Invalid { .. } => None,
        }
    }
}

/// The kinds of things of a document that a script may decide about, collection by collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Deletions,
    Counters,
    TimeSeries,
}

impl Decision {
    const ALL: [Decision; 3] = [Decision::Deletions, Decision::Counters, Decision::TimeSeries];

    fn begin(self) -> &'static str {
        match self {
            Decision::Deletions => "deleteDocumentsOf",
            Decision::Counters => "loadCountersOf",
            Decision::TimeSeries => "loadTimeSeriesOf",
        }
    }

    /// The name of the function for a collection.
    pub(crate) fn function_of(self, collection: &str) -> String {
        format!("{}{collection}Behavior", self.begin())
    }

    /// The collection of a function with this name.
    fn collection_of(self, function: &str) -> Option<&str> {
        let collection = function.strip_prefix(self.begin())?.strip_suffix("Behavior")?;
        Some(collection).filter(|collection| !collection.is_empty())
    }

    fn of_what(self) -> &'static str {
        match self {
            Decision::Deletions => "documents",
            Decision::Counters => "counters of docs",
            Decision::TimeSeries => "time series of docs",
        }
    }
}

impl Plan {
    /// Compiles a transformation.
    ///
    /// # Errors
    /// Its script does not parse, loads nothing, or decides about collections that it does not read.
    pub fn compile(engine: &Engine, transform: &EtlTransformation) -> Result<Plan, PlanError> {
        let invalid = |message: String| PlanError::Invalid { message };
        let collections = transform.collections.iter().map(|name| {
            CollectionName::new(name.as_str()).map_err(|error| invalid(error.to_string()))
        });
        let collections = collections.collect::<Result<Vec<_>, _>>()?;
        let Some(text) = &transform.script else {
            return Ok(Plan { collections, script: None, may_add: false });
        };
        let may_add = ADDERS.iter().any(|name| text.contains(name));
        let script = EtlScript::compile(engine, text).map_err(PlanError::Script)?;
        if script.collections().is_empty() {
            let name = &transform.name;
            return Err(invalid(format!(
                "No `loadTo<CollectionName>()` method call found in '{name}' script."
            )));
        }
        for decision in Decision::ALL {
            check_decision(&script, transform, decision).map_err(invalid)?;
        }
        Ok(Plan { collections, script: Some(script), may_add })
    }

    /// Whether attachments, counters or time series may have been added to what an earlier version of a document loaded.
    pub(crate) fn may_add(&self) -> bool {
        self.may_add
    }

    pub(crate) fn script(&self) -> Option<&EtlScript> {
        self.script.as_ref()
    }

    /// Whether it reads the documents of a collection.
    pub(crate) fn reads(&self, collection: &CollectionName) -> bool {
        match self.collections.is_empty() {
            true => *collection != CollectionName::hilo(),
            false => self.collections.contains(collection),
        }
    }

    /// The part of the log that it reads.
    pub(crate) fn selections(&self) -> Vec<Selection<'_>> {
        let mut kinds = EntryKinds::DOCUMENTS;
        let decides = |decision: Decision| match &self.script {
            None => true,
            Some(script) => {
                script.behaviors().iter().any(|function| decision.collection_of(function).is_some())
            }
        };
        if decides(Decision::Counters) {
            kinds = kinds | EntryKinds::COUNTERS;
        }
        if decides(Decision::TimeSeries) {
            kinds = kinds | EntryKinds::TIME_SERIES;
        }
        let mut selections = vec![Selection::of_collections(kinds, &self.collections)];
        if self.script.is_none() {
            // The log files them under no collection.
            selections.push(Selection::all(EntryKind::AttachmentTombstone));
        }
        selections
    }
}

/// The kinds of deletions that a transformation reads, and must not miss.
pub fn deletions_read(transform: &EtlTransformation) -> Vec<TombstoneKind> {
    let Some(text) = &transform.script else { return TombstoneKind::ALL.to_vec() };
    let mut kinds = vec![TombstoneKind::Documents];
    for (decision, kind) in [
        (Decision::Counters, TombstoneKind::Counters),
        (Decision::TimeSeries, TombstoneKind::TimeSeries),
    ] {
        if text.contains(decision.begin()) {
            kinds.push(kind);
        }
    }
    kinds
}

fn check_decision(
    script: &EtlScript,
    transform: &EtlTransformation,
    decision: Decision,
) -> Result<(), String> {
    for function in script.behaviors() {
        let Some(collection) = decision.collection_of(function) else { continue };
        let is_it = |name: &&String| name.eq_ignore_ascii_case(collection);
        if !transform.collections.iter().any(|name| is_it(&name)) {
            let read: Vec<String> =
                transform.collections.iter().map(|name| format!("'{name}'")).collect();
            return Err(format!(
                "There is '{function}' function defined in '{}' script while the processed collections ({}) \
                 doesn't include '{collection}'. {}<CollectionName>Behavior() function is meant to be defined only \
                 for {} from collections that are loaded to the same collection on a destination side.",
                transform.name,
                read.join(", "),
                decision.begin(),
                decision.of_what(),
            ));
        }
        if decision != Decision::Deletions && !script.collections().iter().any(|name| is_it(&name))
        {
            return Err(format!(
                "`{function}` function is defined while nothing is loaded to {collection}. Load behavior functions \
                 apply only to what is loaded to the collection that it comes from."
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use documents::TombstoneKind;
    use platform::real::RealClock;

    use super::*;

    fn transform(collections: &[&str], script: Option<&str>) -> EtlTransformation {
        EtlTransformation {
            name: "s".to_owned(),
            is_disabled: false,
            reads_all: collections.is_empty(),
            collections: collections.iter().map(|name| (*name).to_owned()).collect(),
            script: script.map(str::to_owned),
        }
    }

    fn plan(collections: &[&str], script: Option<&str>) -> Result<Plan, PlanError> {
        let engine = Engine::new(Arc::new(RealClock::default()));
        Plan::compile(&engine, &transform(collections, script))
    }

    #[test]
    fn a_plan_reads_what_it_sends_and_misses_no_deletion_of_it() {
        let counters = "loadToUsers(this); function loadCountersOfUsersBehavior(id, name) {}";
        for (collections, script) in
            [(&[][..], None), (&["Users"], Some("loadToUsers(this)")), (&["Users"], Some(counters))]
        {
            let plan = plan(collections, script).unwrap();
            let read = deletions_read(&transform(collections, script));
            let selections = plan.selections();
            for (kind, entry) in [
                (TombstoneKind::Documents, EntryKind::DocumentTombstone),
                (TombstoneKind::Attachments, EntryKind::AttachmentTombstone),
                (TombstoneKind::Counters, EntryKind::CounterTombstone),
                (TombstoneKind::TimeSeries, EntryKind::DeletedRange),
            ] {
                let has = selections.iter().any(|selection| selection.has(entry));
                assert_eq!(has, read.contains(&kind), "{script:?}: {kind:?}");
            }
        }
        let all = plan(&[], None).unwrap();
        assert!(all.reads(&CollectionName::empty()) && !all.reads(&CollectionName::hilo()));
        assert!(!plan(&["Users"], None).unwrap().reads(&CollectionName::empty()));
    }

    #[test]
    fn scripts_that_contradict_themselves_are_refused() {
        for (collections, script, expected) in [
            (
                &["Users"][..],
                "var a = 1",
                "No `loadTo<CollectionName>()` method call found in 's' script.",
            ),
            (&["Users"], "loadToUsers(", "unexpected token"),
            (
                &["Users"],
                "loadToUsers(this); function deleteDocumentsOfPeopleBehavior() {}",
                "the processed collections ('Users') doesn't include 'People'",
            ),
            (&[], "loadToUsers(this); function loadCountersOfUsersBehavior() {}", "collections ()"),
            (
                &["Users"],
                "loadToPeople(this); function loadTimeSeriesOfUsersBehavior() {}",
                "nothing is loaded to Users",
            ),
        ] {
            let error = plan(collections, Some(script)).unwrap_err().to_string();
            assert!(error.contains(expected), "{script}: {error}");
        }
    }
}
