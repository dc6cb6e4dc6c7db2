"""Administration of indexes: terms, errors, stop, disable, reset, lock, side-by-side replacement."""

import time

import pytest
from ravendb import PutIndexesOperation
from ravendb.documents.indexes.definitions import IndexDefinition, IndexLockMode, IndexPriority, IndexRunningStatus
from ravendb.documents.operations.indexes import (
    DeleteIndexErrorsOperation,
    DeleteIndexOperation,
    DisableIndexOperation,
    EnableIndexOperation,
    GetIndexErrorsOperation,
    GetIndexesOperation,
    GetIndexingStatusOperation,
    GetIndexNamesOperation,
    GetIndexOperation,
    GetIndexStatisticsOperation,
    GetTermsOperation,
    IndexHasChangedOperation,
    ResetIndexOperation,
    SetIndexesLockOperation,
    SetIndexesPriorityOperation,
    StartIndexingOperation,
    StartIndexOperation,
    StopIndexingOperation,
    StopIndexOperation,
)

from entities import save
from huts import Hut, names, save_huts


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)


def definition(name, map_text):
    made = IndexDefinition()
    made.name = name
    made.maps = {map_text}
    return made


def put(store, name, map_text="from h in docs.Huts select new { h.name, h.region }"):
    store.maintenance.send(PutIndexesOperation(definition(name, map_text)))


def find(store, index, **condition):
    with store.open_session() as session:
        return names(session.query_index(index, Hut).where(**condition))


def status(store, name):
    listed = store.maintenance.send(GetIndexingStatusOperation())
    return {index.name: index.status for index in listed.indexes}[name]


def wait_for(condition):
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "waited for 15 seconds"
        time.sleep(0.05)


def test_definitions_are_listed_and_deleted(store):
    put(store, "Listed")
    assert "Listed" in store.maintenance.send(GetIndexNamesOperation(0, 100))
    assert "Listed" in [index.name for index in store.maintenance.send(GetIndexesOperation(0, 100))]
    assert "docs.Huts" in "".join(store.maintenance.send(GetIndexOperation("Listed")).maps)
    store.maintenance.send(DeleteIndexOperation("Listed"))
    assert "Listed" not in store.maintenance.send(GetIndexNamesOperation(0, 100))
    assert store.maintenance.send(GetIndexOperation("Listed")) is None


def test_the_terms_of_a_field_are_read_page_by_page(store):
    put(store, "Terms")
    find(store, "Terms", name="coaz")
    terms = lambda start, count: store.maintenance.send(GetTermsOperation("Terms", "name", start, count))
    assert terms(None, 3) == ["blüemlisalp", "boval", "britannia"]
    assert terms("britannia", 2) == ["coaz", "finsteraar"]


def test_statistics_count_entries_and_a_reset_starts_again(store):
    put(store, "Counted")
    find(store, "Counted", name="coaz")
    statistics = lambda: store.maintenance.send(GetIndexStatisticsOperation("Counted"))
    assert (statistics().entries_count, statistics().stale) == (8, False)
    store.maintenance.send(ResetIndexOperation("Counted"))
    assert find(store, "Counted", name="coaz") == ["Coaz"]
    assert statistics().entries_count == 8


def test_a_stopped_index_is_stale_until_it_is_started(store):
    put(store, "Stopped")
    find(store, "Stopped", name="coaz")
    store.maintenance.send(StopIndexOperation("Stopped"))
    assert status(store, "Stopped") == IndexRunningStatus.PAUSED
    save(store, {"huts/late": Hut("Late", "Uri")})
    with store.open_session() as session:
        seen = []
        assert list(session.query_index("Stopped", Hut).where_equals("name", "late").statistics(seen.append)) == []
        assert seen[0].is_stale
    store.maintenance.send(StartIndexOperation("Stopped"))
    assert find(store, "Stopped", name="late") == ["Late"]
    with store.open_session() as session:
        session.delete("huts/late")
        session.save_changes()


def test_all_indexing_is_stopped_and_started(store):
    put(store, "Everything")
    store.maintenance.send(StopIndexingOperation())
    assert status(store, "Everything") == IndexRunningStatus.PAUSED
    store.maintenance.send(StartIndexingOperation())
    assert status(store, "Everything") == IndexRunningStatus.RUNNING


def test_a_disabled_index_is_listed_as_disabled_until_it_is_enabled(store):
    put(store, "Disabled")
    store.maintenance.send(DisableIndexOperation("Disabled"))
    wait_for(lambda: status(store, "Disabled") == IndexRunningStatus.DISABLED)
    store.maintenance.send(EnableIndexOperation("Disabled"))
    wait_for(lambda: status(store, "Disabled") == IndexRunningStatus.RUNNING)
    assert find(store, "Disabled", name="coaz") == ["Coaz"]


def test_map_errors_are_kept_by_document_and_deleted(store):
    put(store, "Faulty", "from h in docs.Huts select new { h.name, share = 100 / (h.beds - 6) }")
    assert find(store, "Faulty", name="coaz") == ["Coaz"]
    errors = lambda: store.maintenance.send(GetIndexErrorsOperation("Faulty"))[0].errors
    wait_for(errors)
    assert [error.document for error in errors()] == ["huts/tin"]
    store.maintenance.send(DeleteIndexErrorsOperation(["Faulty"]))
    assert errors() == []


def test_lock_and_priority_are_changed(store):
    put(store, "Locked")
    store.maintenance.send(SetIndexesPriorityOperation(IndexPriority.HIGH, "Locked"))
    store.maintenance.send(SetIndexesLockOperation(IndexLockMode.LOCKED_IGNORE, "Locked"))
    put(store, "Locked", "from h in docs.Huts select new { h.beds }")
    stored = store.maintenance.send(GetIndexOperation("Locked"))
    assert (stored.priority, stored.lock_mode) == (IndexPriority.HIGH, IndexLockMode.LOCKED_IGNORE)
    assert "h.name" in "".join(stored.maps)
    store.maintenance.send(SetIndexesLockOperation(IndexLockMode.LOCKED_ERROR, "Locked"))
    with pytest.raises(Exception, match="Locked"):
        put(store, "Locked", "from h in docs.Huts select new { h.beds }")


def test_a_definition_is_compared_with_the_stored_one(store):
    put(store, "Compared")
    changed = lambda text: store.maintenance.send(IndexHasChangedOperation(definition("Compared", text)))
    assert not changed("from h in docs.Huts select new { h.name, h.region }")
    assert changed("from h in docs.Huts select new { h.name }")


def test_a_changed_definition_replaces_the_old_one_when_it_has_caught_up(store):
    put(store, "Replaced")
    find(store, "Replaced", name="coaz")
    put(store, "Replaced", "from h in docs.Huts select new { h.beds }")
    wait_for(lambda: "h.beds" in "".join(store.maintenance.send(GetIndexOperation("Replaced")).maps))
    assert find(store, "Replaced", beds=80) == ["Coaz"]
    assert "ReplacementOf/Replaced" not in store.maintenance.send(GetIndexNamesOperation(0, 100))
