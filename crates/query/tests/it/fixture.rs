//! An in-memory database and short ways to query it.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::sync::{Arc, atomic::AtomicBool, mpsc};

use blittable::{BlittableBuf, ParseLimits, parse_document};
use documents::time_series::{Entry, TimeSeriesChange};
use documents::{
    Compression, DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext,
    initialize,
};
use indexing::{
    AutoIndexDefinition, DefinitionFormat, Index, IndexContext, IndexKind, IndexingPool, NoOutputs,
};
use model::ticks::TICKS_PER_MILLISECOND;
use model::{DatabaseId, DocumentId, DocumentsCompression, TimeSeriesName, date};
use platform::Platform;
use query::{
    CountedFacet, IndexSnapshot, Paging, QueryError, QueryResult, QueryScripts, RowOptions,
    SeriesOptions, execute, execute_on_index, facets_of_index, parse,
};
use script::ScriptPool;
use storage::ReadTransaction;
use storage::{Environment, EnvironmentOptions, WorkingMemory};

/// One database.
pub(crate) struct Database {
    platform: Platform,
    environment: Arc<Environment>,
    scripts: ScriptPool,
}

/// A response, read to its end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) total: i64,
    pub(crate) capped: Option<i64>,
    pub(crate) skipped: u64,
    pub(crate) index_name: String,
    pub(crate) etag: i64,
    pub(crate) included_paths: Option<Vec<String>>,
    pub(crate) includes: Vec<String>,
}

pub(crate) fn json(text: &str) -> BlittableBuf {
    parse_document(text.as_bytes(), &ParseLimits::default()).unwrap()
}

impl Database {
    pub(crate) fn new() -> Database {
        let platform = Platform::memory();
        let options = EnvironmentOptions::new("database");
        let environment = Environment::open(&platform, options).unwrap();
        let mut tx = environment.write().unwrap();
        let identity =
            DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: "A".parse().unwrap() };
        initialize(&mut tx, identity).unwrap();
        tx.commit().unwrap();
        let scripts = ScriptPool::new(Arc::clone(&platform.clock));
        Database { platform, environment, scripts }
    }

    /// An index over this database, with that name for its files.
    pub(crate) fn open_index(&self, files: &str, definition: &AutoIndexDefinition) -> Index {
        let context = IndexContext {
            platform: self.platform.clone(),
            documents: Arc::clone(&self.environment),
            values: None,
            environment: EnvironmentOptions::new(files),
            scripts: ScriptPool::new(Arc::clone(&self.platform.clock)),
            pool: IndexingPool::new(Arc::clone(&self.platform.clock), 1),
            outputs: Arc::new(NoOutputs),
            definition_format: DefinitionFormat {
                write: wire::index_definition_text,
                read: wire::index_definition_of_text,
            },
        };
        Index::open(&definition.name(), IndexKind::Auto(definition.clone()), context).unwrap()
    }

    /// Waits until the index has caught up.
    pub(crate) fn catch_up(&self, index: &Index) {
        index.notice_changes();
        let last = index.last_etag_in(&self.environment.read()).unwrap();
        let (sender, receiver) = mpsc::channel();
        index.when_indexed(last, Box::new(move |reached| sender.send(reached).unwrap()));
        assert!(receiver.recv().unwrap(), "{:?}", index.failure());
    }

    pub(crate) fn ask_index(
        &self,
        index: &Index,
        text: &str,
        paging: Paging,
    ) -> Result<Answer, QueryError> {
        let (entries, documents) = (index.read(), self.environment.read());
        let snapshot = index_snapshot(index, &entries);
        let query = parse(text)?;
        let scripts = QueryScripts::of(&query, None, &self.scripts)?;
        let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose()?;
        let options = RowOptions::default();
        let result = execute_on_index(&documents, &snapshot, &query, None, paging, options)?;
        let mut result = result.with_scripts(scripts.as_ref());
        let answer = Answer::read(&mut result)?;
        let again = result.planned().run(&documents, Some(&snapshot), None)?;
        let again = Answer::read(&mut again.with_scripts(scripts.as_ref()))?;
        assert_eq!(again, answer, "{text}, run again from its plan");
        Ok(answer)
    }

    /// The facets that a query on an index returns.
    pub(crate) fn facets(
        &self,
        index: &Index,
        text: &str,
    ) -> Result<Vec<CountedFacet>, QueryError> {
        let (entries, documents) = (index.read(), self.environment.read());
        let snapshot = index_snapshot(index, &entries);
        let memory = WorkingMemory::default();
        Ok(facets_of_index(&documents, &snapshot, &parse(text)?, None, &memory)?.facets)
    }

    fn write(&self, work: impl FnOnce(&mut DocumentWriter<'_>)) {
        let mut tx = self.environment.write().unwrap();
        let context = WriteContext::new(self.platform.clock.now(), self.platform.entropy.as_ref());
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        work(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    pub(crate) fn put(&self, id: &str, collection: &str, body: &str) {
        let metadata = format!(r#""@metadata":{{"@collection":"{collection}"}}"#);
        let body = match body {
            "" => format!("{{{metadata}}}"),
            body => format!("{{{body},{metadata}}}"),
        };
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        self.write(|writer| {
            writer.put(&id, &ExpectedVersion::Any, &json(&body)).unwrap();
        });
    }

    /// The same, stored compressed.
    pub(crate) fn put_compressed(&self, id: &str, collection: &str, body: &str) {
        let mut rules = DocumentsCompression::nothing();
        rules.all_collections = true;
        let compression = Compression::new(rules);
        let body = format!(r#"{{{body},"@metadata":{{"@collection":"{collection}"}}}}"#);
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        let mut tx = self.environment.write().unwrap();
        let plain = WriteContext::new(self.platform.clock.now(), &*self.platform.entropy);
        let context = WriteContext { compression: &compression, ..plain };
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        writer.put(&id, &ExpectedVersion::Any, &json(&body)).unwrap();
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    /// Adds entries to a time series: their moments, values and tags.
    pub(crate) fn append(&self, id: &str, name: &str, entries: &[(&str, &[f64], Option<&str>)]) {
        let (id, name) = (DocumentId::new(id).unwrap(), TimeSeriesName::new(name).unwrap());
        let mut change = TimeSeriesChange::new(id, name);
        for (moment, values, tag) in entries {
            let ticks = date::parse(&format!("{moment}.0000000Z")).unwrap().utc_ticks();
            let timestamp_ms = ticks / TICKS_PER_MILLISECOND;
            change.appends.push(Entry { timestamp_ms, values, tag: *tag });
        }
        self.write(|writer| {
            writer.change_time_series(&change).unwrap();
        });
    }

    pub(crate) fn delete(&self, id: &str) {
        let id = DocumentId::new(id).unwrap();
        self.write(|writer| {
            writer.delete(&id, &ExpectedVersion::Any).unwrap();
        });
    }

    pub(crate) fn read(&self) -> ReadTransaction {
        self.environment.read()
    }

    pub(crate) fn scripts(&self) -> &ScriptPool {
        &self.scripts
    }

    pub(crate) fn ask(&self, text: &str) -> Answer {
        self.ask_page(text, Paging::default())
    }

    pub(crate) fn ask_page(&self, text: &str, paging: Paging) -> Answer {
        self.try_ask(text, paging).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub(crate) fn try_ask(&self, text: &str, paging: Paging) -> Result<Answer, QueryError> {
        self.try_ask_until(text, paging, Arc::default())
    }

    /// The same, canceled when the flag is set.
    pub(crate) fn try_ask_until(
        &self,
        text: &str,
        paging: Paging,
        stop: Arc<AtomicBool>,
    ) -> Result<Answer, QueryError> {
        let tx = self.environment.read();
        let query = parse(text)?;
        let scripts = QueryScripts::of(&query, None, &self.scripts)?;
        let scripts = scripts.as_ref().map(|scripts| scripts.bind(&query, None)).transpose()?;
        let result = execute(&tx, &query, None, paging, None)?;
        let result = result.with_scripts(scripts.as_ref()).stopped_by(stop);
        let mut result = result.with_series(SeriesOptions::default());
        let answer = Answer::read(&mut result)?;
        let no_entries: Option<&IndexSnapshot<'_, ReadTransaction>> = None;
        let again = result.planned().run(&tx, no_entries, None)?;
        let again = Answer::read(&mut again.with_scripts(scripts.as_ref()))?;
        assert_eq!(again, answer, "{text}, run again from its plan");
        Ok(answer)
    }
}

fn index_snapshot<'t>(
    index: &'t Index,
    tx: &'t ReadTransaction,
) -> IndexSnapshot<'t, ReadTransaction> {
    IndexSnapshot { index, tx, values: None, seed: 1, stop: Arc::default() }
}

impl Answer {
    fn read(result: &mut QueryResult<'_, ReadTransaction>) -> Result<Answer, QueryError> {
        result.count_filtered()?;
        let mut answer = Answer {
            total: result.total_results(),
            capped: result.capped_max_results(),
            skipped: result.skipped_results()?,
            index_name: result.index_name().to_owned(),
            etag: result.result_etag(),
            included_paths: result
                .included_paths()
                .map(|paths| paths.into_iter().map(str::to_owned).collect()),
            ..Answer::default()
        };
        while let Some(row) = result.next_row()? {
            let mut json = Vec::new();
            result.write_row(&row, b",", &mut json)?;
            answer.rows.push(String::from_utf8(json).unwrap());
            answer.ids.push(row.document.id().unwrap().to_owned());
        }
        answer.includes = result.includes().map(|row| row.unwrap().id().to_owned()).collect();
        Ok(answer)
    }
}
