//! Statistics of a database and its collections.

use database::Database;
use documents::{
    DocumentError,
    log::{self, EntryKind, EntryKinds, Selection},
};
use http::StatusCode;
use model::{CollectionName, Etag};
use storage::{Environment, ReadTransaction};
use wire::{
    database_shapes::ListedConfigurations,
    statistics_shapes::{
        ClusterStatistics, CollectionStatistics, DatabaseStatistics, collections_answer,
        detailed_collections_answer,
    },
};

use crate::{
    answers::{
        answer::Answer,
        document_pages::{Listing, list_documents},
    },
    api_error::ApiError,
    call::Call,
    handlers::indexes::summary_of,
    stored_record::body_of,
};

/// How many rows of a kind are sampled to estimate the size of a collection.
const SAMPLED_ROWS_MAX: usize = 1024;
/// How many entries of the log are searched for tombstones.
const SAMPLED_ENTRIES_MAX: usize = 4 * SAMPLED_ROWS_MAX;

/// `GET /stats`.
pub(crate) fn database(call: &Call) -> Result<Answer, ApiError> {
    let statistics = of_database(call.database()?)?;
    Ok(Answer::shape(StatusCode::OK, &statistics.to_json(&call.state.debug_metadata())))
}

/// `GET /stats/detailed`.
pub(crate) fn detailed(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let (state, id) = (call.state.engine.cluster_state(), database.record().topology_id);
    let failed_there = |error| ApiError::from(error);
    let cluster = ClusterStatistics {
        identities_count: state.identities(id).map_err(failed_there)?.len() as u64,
        compare_exchange_count: state.compare_exchange_count(id).map_err(failed_there)?,
        deleted_compare_exchange_count: state
            .deleted_compare_exchange_count(id)
            .map_err(failed_there)?,
    };
    Ok(Answer::shape(StatusCode::OK, &of_database(database)?.to_detailed_json(&cluster)))
}

/// `GET /stats/essential`.
pub(crate) fn essential(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &of_database(call.database()?)?.to_essential_json()))
}

/// `GET /collections/stats`.
pub(crate) fn collections(call: &Call) -> Result<Answer, ApiError> {
    let tx = call.read()?;
    let conflicts = documents::count_conflicts(&tx).map_err(failed)?.0;
    let collections = of_collections(&tx)?;
    Ok(Answer::shape(StatusCode::OK, &collections_answer(&collections, conflicts)))
}

/// `GET /collections/stats/detailed`.
pub(crate) fn detailed_collections(call: &Call) -> Result<Answer, ApiError> {
    let tx = call.database()?.read();
    let conflicts = documents::count_conflicts(&tx).map_err(failed)?.0;
    let collections = collections_with_bytes(&tx)?;
    Ok(Answer::shape(StatusCode::OK, &detailed_collections_answer(&collections, conflicts)))
}

/// The collections with their sizes: exact if there are few rows, else estimated.
pub(crate) fn collections_with_bytes(
    tx: &ReadTransaction,
) -> Result<Vec<CollectionStatistics>, ApiError> {
    let mut collections = of_collections(tx)?;
    for collection in &mut collections {
        estimate_bytes(tx, collection)?;
    }
    Ok(collections)
}

/// `GET /collections/docs`.
pub(crate) fn collection_documents(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = CollectionName::new(query.required("name")?)
        .map_err(|error| ApiError::argument(error.to_string()))?;
    let database = call.database()?;
    let listing = Listing::of(&query)?.of_collection(name).pinned(call.snapshot.is_some());
    Ok(list_documents(database.clone(), call.read()?, listing))
}

/// The statistics of an open database.
pub(crate) fn of_database(database: &Database) -> Result<DatabaseStatistics, ApiError> {
    let tx = database.read();
    let progress = documents::progress(&tx).map_err(failed)?;
    let newest =
        documents::newest_first(&tx).map_err(failed)?.next().transpose().map_err(failed)?;
    let revisions = documents::revisions_total(&tx).map_err(failed)?;
    let has_revisions = ListedConfigurations::of_record(&body_of(&database.record())).has_revisions;
    let attachments = documents::attachment_counts(&tx).map_err(failed)?;
    let conflicts = documents::count_conflicts(&tx).map_err(failed)?;
    let id = database.identity().database_id.text();
    let indexes = database.indexes().all();
    let indexes: Result<_, _> = indexes.iter().map(|index| summary_of(&tx, index)).collect();
    Ok(DatabaseStatistics {
        documents_count: progress.documents,
        tombstones_count: progress.tombstones,
        revisions_count: (revisions != 0 || has_revisions).then_some(revisions),
        attachments_count: attachments.attachments,
        contents_count: attachments.contents,
        conflicted_documents: conflicts.0,
        conflicts_count: conflicts.1,
        counted_documents: documents::counted_documents(&tx).map_err(failed)?,
        time_series_segments_count: documents::time_series::segments_count(&tx).map_err(failed)?,
        time_series_deleted_ranges_count: documents::time_series::deleted_ranges_count(&tx)
            .map_err(failed)?,
        change_vector: progress.change_vector.to_string(),
        database_id: String::from_utf8_lossy(&id).into_owned(),
        queued_commands: database.queue().statistics().length as u64,
        last_document_etag: newest.map_or(Etag(0), |row| row.etag()).0,
        last_database_etag: progress.last_etag.0,
        size_bytes: size_on_disk(database),
        indexes: indexes?,
    })
}

/// The disk space of a database.
pub(crate) fn size_on_disk(database: &Database) -> u64 {
    let of_one = |environment: &Environment| {
        let statistics = environment.statistics();
        statistics.data_file_bytes + statistics.journal_bytes
    };
    let indexes = database.indexes().all();
    of_one(database.environment())
        + indexes.iter().map(|index| of_one(index.environment())).sum::<u64>()
}

fn of_collections(tx: &ReadTransaction) -> Result<Vec<CollectionStatistics>, ApiError> {
    let collections = documents::collections(tx).map_err(failed)?;
    let of_one = |one: documents::CollectionStatistics| CollectionStatistics {
        name: one.name.as_str().to_owned(),
        documents_count: one.documents,
        documents_bytes: 0,
        tombstones_bytes: 0,
        revisions_bytes: 0,
    };
    Ok(collections.into_iter().map(of_one).collect())
}

/// Fills in the size of a collection: exact if there are few rows, else estimated from a sample.
fn estimate_bytes(
    tx: &ReadTransaction,
    collection: &mut CollectionStatistics,
) -> Result<(), ApiError> {
    let name = CollectionName::new(collection.name.as_str())
        .map_err(|error| ApiError::argument(error.to_string()))?;
    let documents = documents::newest_first_of_collection(tx, &name).map_err(failed)?;
    let sizes = documents.map(|row| row.map(|row| row.size_bytes()));
    collection.documents_bytes = estimate(sizes, collection.documents_count)?;
    let log_of = |kinds: EntryKinds| {
        log::read(tx, &[Selection::of_collection(kinds, &name)], Etag::ZERO).map_err(failed)
    };
    let tombstones = log_of(EntryKinds::DOCUMENTS)?.take(SAMPLED_ENTRIES_MAX).filter_map(|entry| {
        entry.map(|entry| entry.document_tombstone().map(|row| row.size_bytes())).transpose()
    });
    let count = documents::collection(tx, &name).map_err(failed)?.map_or(0, |one| one.tombstones);
    collection.tombstones_bytes = estimate(tombstones, count)?;
    let sizes = log_of(EntryKind::Revision.into())?.filter_map(|entry| {
        entry.map(|entry| entry.revision().map(|row| row.size_bytes())).transpose()
    });
    let count = documents::revisions_of_collection_count(tx, &name).map_err(failed)?;
    collection.revisions_bytes = estimate(sizes, count)?;
    Ok(())
}

/// The estimated size of `count` rows, from a sample.
fn estimate(
    sizes: impl Iterator<Item = Result<usize, DocumentError>>,
    count: u64,
) -> Result<u64, ApiError> {
    let (mut bytes, mut sampled) = (0, 0);
    for size in sizes.take(SAMPLED_ROWS_MAX) {
        bytes += size.map_err(failed)? as u64;
        sampled += 1;
    }
    let estimate = u128::from(bytes) * u128::from(count) / u128::from(u64::max(sampled, 1));
    Ok(u64::try_from(estimate).unwrap_or(u64::MAX))
}

fn failed(error: DocumentError) -> ApiError {
    ApiError::from(error)
}
