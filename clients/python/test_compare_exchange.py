"""Compare exchange and cluster-wide sessions: a change requires the newest version."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from ravendb import IndexDefinition
from ravendb.documents.operations.compare_exchange.operations import (
    DeleteCompareExchangeValueOperation,
    GetCompareExchangeValueOperation,
    GetCompareExchangeValuesOperation,
    PutCompareExchangeValueOperation,
)
from ravendb.documents.operations.identities import (
    NextIdentityForOperation,
    SeedIdentityForOperation,
)
from ravendb.documents.operations.indexes import PutIndexesOperation
from ravendb.documents.session.misc import SessionOptions, TransactionMode
from ravendb.exceptions.raven_exceptions import ConcurrencyException

from entities import City, Holder, load, save


def put(store, key, value, index):
    return store.operations.send(PutCompareExchangeValueOperation(key, value, index))


def get(store, key, object_type=str):
    return store.operations.send(GetCompareExchangeValueOperation(key, object_type))


def cluster_wide(store):
    options = SessionOptions(transaction_mode=TransactionMode.CLUSTER_WIDE)
    return store.open_session(session_options=options)


def test_a_value_changes_only_if_its_newest_version_is_given(store):
    first = put(store, "locks/1", "anna", 0)
    assert first.successful
    refused = put(store, "LOCKS/1", "bert", 0)
    assert (refused.successful, refused.value, refused.index) == (False, "anna", first.index)
    second = put(store, "locks/1", "bert", first.index)
    assert second.successful
    assert get(store, "Locks/1").value == "bert"
    removed = store.operations.send(
        DeleteCompareExchangeValueOperation(str, "locks/1", second.index)
    )
    assert removed.successful
    assert get(store, "locks/1") is None


def test_values_are_read_by_their_keys(store):
    for name in "cab":
        put(store, f"listed/{name}", name, 0)
    found = store.operations.send(
        GetCompareExchangeValuesOperation(["listed/a", "listed/c"], str)
    )
    assert sorted(found) == ["listed/a", "listed/c"]


def test_of_many_threads_that_acquire_the_same_lock_exactly_one_succeeds(store):
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda n: put(store, "race/1", f"n{n}", 0), range(32)))
    winners = [result for result in results if result.successful]
    assert len(winners) == 1
    assert get(store, "race/1").value == winners[0].value


def test_a_cluster_wide_session_stores_documents_and_values_together(store):
    with cluster_wide(store) as session:
        session.store(Holder(1), "together/1")
        session.advanced.cluster_transaction.create_compare_exchange_value("names/1", "together/1")
        session.save_changes()
    assert load(store, "together/1", Holder).value == 1
    assert get(store, "names/1").value == "together/1"


def test_a_taken_name_rejects_the_whole_session(store):
    put(store, "names/2", "somebody", 0)
    with cluster_wide(store) as session:
        session.store(Holder(1), "refused/1")
        session.advanced.cluster_transaction.create_compare_exchange_value("names/2", "refused/1")
        with pytest.raises(ConcurrencyException):
            session.save_changes()
    assert load(store, "refused/1", Holder) is None


def test_of_two_cluster_wide_sessions_that_create_one_document_the_second_is_refused(store):
    with cluster_wide(store) as a, cluster_wide(store) as b:
        a.store(Holder(1), "guarded/1")
        b.store(Holder(2), "guarded/1")
        a.save_changes()
        with pytest.raises(ConcurrencyException):
            b.save_changes()
    assert load(store, "guarded/1", Holder).value == 1


def test_queries_and_indexes_read_values(store):
    save(store, {"ranks/1": City("Chur", 3), "ranks/2": City("Arosa", 12)})
    put(store, "ranks/least", 12, 0)
    text = "from Cities where population >= cmpxchg('ranks/least') select name, cmpxchg('ranks/least') as least"
    with store.open_session() as session:
        rows = list(session.advanced.raw_query(text, dict).wait_for_non_stale_results())
        assert [(row["name"], row["least"]) for row in rows] == [("Arosa", 12)]
    definition = IndexDefinition()
    definition.name = "Cities/Ranks"
    definition.maps = {
        "from c in docs.Cities let rank = LoadCompareExchangeValue(\"ranks/\" + c.name) select new { rank }"
    }
    store.maintenance.send(PutIndexesOperation(definition))

    def ranked(rank):
        text = f"from index 'Cities/Ranks' where rank = '{rank}'"
        with store.open_session() as session:
            query = session.advanced.raw_query(text, City).wait_for_non_stale_results()
            return [city.name for city in query]

    assert ranked("first") == []
    first = put(store, "ranks/Chur", "first", 0)
    assert ranked("first") == ["Chur"]
    put(store, "ranks/Chur", "second", first.index)
    assert (ranked("first"), ranked("second")) == ([], ["Chur"])


def test_identities_increase_by_one_and_can_be_seeded(store):
    def next_of(name):
        return store.maintenance.send(NextIdentityForOperation(name))

    assert next_of("piers|") == 1
    assert next_of("PIERS|") == 2
    store.maintenance.send(SeedIdentityForOperation("piers|", 100))
    assert next_of("piers|") == 101
