"""The Changes API and its users: documents, indexes, and aggressive caching."""

import datetime
import time

import pytest
from ravendb import IndexDefinition
from ravendb.documents.operations.indexes import DeleteIndexOperation, PutIndexesOperation

from entities import City, load, save

SECONDS_MAX = 15


class Listener:
    """What an observable reports, once its watch has started."""

    def __init__(self, observable):
        self.received = []
        self.stop = observable.subscribe(self.received.append)
        observable.ensure_subscribe_now()

    def until(self, done):
        deadline = time.monotonic() + SECONDS_MAX
        while not done(self.received):
            assert time.monotonic() < deadline, self.received
            time.sleep(0.02)
        return self.received


@pytest.fixture(scope="module")
def changes(store, tmp_path_factory):
    # The client writes a log to the current directory.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("changes"))
        connection = store.changes()
        connection.ensure_connected_now()
        yield connection
        connection.close()


def remove(store, key):
    with store.open_session() as session:
        session.delete(key)
        session.save_changes()


def ids(listener):
    return [change.key for change in listener.received]


def test_one_document_is_watched_in_any_case_of_its_id(store, changes):
    listener = Listener(changes.for_document("CITIES/1"))
    save(store, {"cities/1": City("Chur", 1), "cities/2": City("Bern", 2)})
    remove(store, "cities/1")
    received = listener.until(lambda received: len(received) >= 2)
    listener.stop()
    shown = [(change.type_of_change.value, change.key, change.collection_name) for change in received]
    assert shown == [("Put", "cities/1", "Cities"), ("Delete", "cities/1", "Cities")]


def test_documents_are_watched_by_prefix_by_collection_and_all(store, changes):
    by_prefix = Listener(changes.for_documents_start_with("Towns/"))
    by_collection = Listener(changes.for_documents_in_collection("cities"))
    everything = Listener(changes.for_all_documents())
    save(store, {"towns/1": City("Thusis", 3), "others/1": City("Ilanz", 4)})
    save(store, {"end/1": City("End", 0)})
    everything.until(lambda _: "end/1" in ids(everything))
    assert ids(by_prefix) == ["towns/1"]
    assert ids(by_collection) == ids(everything) == ["towns/1", "others/1", "end/1"]
    for listener in (by_prefix, by_collection, everything):
        listener.stop()


def test_changes_of_an_index_are_reported(store, changes):
    listener = Listener(changes.for_index("Cities/ByName"))
    definition = IndexDefinition()
    definition.name = "Cities/ByName"
    definition.maps = {"from c in docs.Cities select new { c.name }"}
    store.maintenance.send(PutIndexesOperation(definition))

    def kinds(received):
        return [change.type_of_change.value for change in received]

    listener.until(lambda received: "BatchCompleted" in kinds(received))
    store.maintenance.send(DeleteIndexOperation("Cities/ByName"))
    received = listener.until(lambda received: "IndexRemoved" in kinds(received))
    listener.stop()
    assert kinds(received)[0] == "IndexAdded"


def count(store, key, name, by):
    with store.open_session() as session:
        session.counters_for(key).increment(name, by)
        session.save_changes()


def test_counters_are_watched_one_by_name_by_document_and_all(store, changes):
    save(store, {"counted/1": City("Chur", 1), "counted/2": City("Bern", 2)})
    watches = [
        (lambda: changes.for_counter_of_document("counted/1", "Guests"), ["1 Guests"]),
        (lambda: changes.for_counter("guests"), ["1 Guests", "2 Guests"]),
        (lambda: changes.for_counters_of_document("counted/1"), ["1 Guests", "1 Beds"]),
        (lambda: changes.for_all_counters(), ["1 Guests", "2 Guests", "1 Beds", "2 End"]),
    ]
    # One at a time: the client also reports changes that other observables on the connection watch.
    for watch, expected in watches:
        listener = Listener(watch())
        for number, name in [(1, "Guests"), (2, "Guests"), (1, "Beds"), (2, "End")]:
            count(store, f"counted/{number}", name, 1)
        received = listener.until(lambda received, wanted=len(expected): len(received) >= wanted)
        listener.stop()
        assert [f"{change.document_id[-1]} {change.name}" for change in received] == expected
        assert all(change.type_of_change.value in ("Put", "Increment") for change in received)


def append(store, key, name, day):
    with store.open_session() as session:
        session.time_series_for(key, name).append_single(datetime.datetime(2026, 1, day), day)
        session.save_changes()


def test_time_series_are_watched_one_by_name_by_document_and_all(store, changes):
    save(store, {"measured/1": City("Chur", 1), "measured/2": City("Bern", 2)})
    watches = [
        (lambda: changes.for_time_series_of_document("measured/1", "Snow"), ["1 Snow"]),
        (lambda: changes.for_time_series("snow"), ["1 Snow", "2 Snow"]),
        (lambda: changes.for_time_series_of_document("measured/1"), ["1 Snow", "1 Wind"]),
        (lambda: changes.for_all_time_series(), ["1 Snow", "2 Snow", "1 Wind", "2 End"]),
    ]
    for day, (watch, expected) in enumerate(watches, start=1):
        listener = Listener(watch())
        for number, name in [(1, "Snow"), (2, "Snow"), (1, "Wind"), (2, "End")]:
            append(store, f"measured/{number}", name, day)
        received = listener.until(lambda received, wanted=len(expected): len(received) >= wanted)
        listener.stop()
        assert [f"{change.document_id[-1]} {change.name}" for change in received] == expected
        assert received[0].from_ == received[0].to_ == datetime.datetime(2026, 1, day)


def test_all_indexes_are_watched(store, changes):
    listener = Listener(changes.for_all_indexes())
    definition = IndexDefinition()
    definition.name = "Cities/ByPopulation"
    definition.maps = {"from c in docs.Cities select new { c.population }"}
    store.maintenance.send(PutIndexesOperation(definition))
    listener.until(lambda received: any(change.name == "Cities/ByPopulation" for change in received))
    listener.stop()


def test_cached_responses_are_invalidated_by_changes_of_other_clients(store, open_database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(store, {"kept/1": City("Davos", 1)})
    reader = open_database(store.database)

    def population():
        with reader.aggressively_cache_for(datetime.timedelta(hours=1)):
            return load(reader, "kept/1", City).population

    assert population() == 1
    before = reader.get_request_executor().number_of_server_requests
    assert population() == 1
    assert reader.get_request_executor().number_of_server_requests == before, "it is kept"
    with store.open_session() as session:
        session.load("kept/1", City).population = 2
        session.save_changes()
    deadline = time.monotonic() + SECONDS_MAX
    while population() != 2:
        assert time.monotonic() < deadline, "the cached response was not invalidated"
        time.sleep(0.02)
