"""Counters: counted by sessions and operations, included, selected."""

import pytest
from ravendb.documents.operations.counters import (
    CounterBatch,
    CounterBatchOperation,
    CounterOperation,
    CounterOperationType,
    DocumentCountersOperation,
    GetCountersOperation,
)
from ravendb.exceptions.raven_exceptions import RavenException

from entities import City, save


@pytest.fixture(scope="module", autouse=True)
def cities(store):
    save(store, {"cities/1": City("Chur", 1), "cities/2": City("Brig", 2)})


def count(store, key, **counters):
    with store.open_session() as session:
        of_city = session.counters_for(key)
        for name, by in counters.items():
            of_city.increment(name, by)
        session.save_changes()


def all_of(store, key):
    with store.open_session() as session:
        return session.counters_for(key).get_all() or {}


def test_a_session_increments_counters_and_another_one_reads_them(store):
    count(store, "cities/1", guests=40, nights=1)
    count(store, "cities/1", guests=-5)
    assert all_of(store, "cities/1") == {"guests": 35, "nights": 1}
    with store.open_session() as session:
        assert session.counters_for("cities/1").get("guests") == 35
        city = session.load("cities/1", City)
        assert session.advanced.get_counters_for(city) == ["guests", "nights"]


def test_a_deleted_counter_starts_again_at_zero(store):
    with store.open_session() as session:
        session.counters_for("cities/1").delete("nights")
        session.save_changes()
    assert all_of(store, "cities/1") == {"guests": 35}
    count(store, "cities/1", nights=2)
    assert all_of(store, "cities/1") == {"guests": 35, "nights": 2}


def test_operations_increment_counters_of_several_documents(store):
    def operation(key, *steps):
        batch = DocumentCountersOperation(key, [])
        for name, kind, by in steps:
            batch.add_operations(CounterOperation(name, kind, by))
        return batch

    increment = CounterOperationType.INCREMENT
    documents = [
        operation("cities/1", ("guests", increment, 5)),
        operation("cities/2", ("guests", increment, 7)),
    ]
    store.operations.send(CounterBatchOperation(CounterBatch(documents=documents)))
    details = store.operations.send(GetCountersOperation("cities/1", ["guests", "nothing"]))
    # The client requests the names in an unspecified order.
    found = [one for one in details.counters if one is not None]
    assert [(one.counter_name, one.total_value) for one in found] == [("guests", 40)]
    full = store.operations.send(GetCountersOperation("cities/2", ["guests"], True))
    assert list(full.counters[0].counter_values.values()) == [7]


def test_a_counter_of_a_missing_document_is_refused(store):
    with pytest.raises(RavenException, match="Cannot operate on counters of a missing document"):
        count(store, "cities/none", guests=1)


def test_counters_are_included_with_loaded_documents(store):
    with store.open_session() as session:
        session.load("cities/1", City, lambda includes: includes.include_all_counters())
        requests = session.advanced.number_of_requests
        assert session.counters_for("cities/1").get_all() == {"guests": 40, "nights": 2}
        assert session.advanced.number_of_requests == requests


def test_counters_are_projected(store):
    with store.open_session() as session:
        text = "from Cities as c order by c.name select c.name, counter(c, 'guests') as guests"
        rows = session.advanced.raw_query(text, dict)
        assert [row["guests"] for row in rows] == [7, 40]
