"""Patching documents by scripts: operations, sessions, and by query."""

import datetime

import pytest
from ravendb.documents.commands.batches import PatchCommandData
from ravendb.documents.operations.misc import DeleteByQueryOperation, QueryOperationOptions
from ravendb.documents.operations.patch import (
    PatchByQueryOperation,
    PatchOperation,
    PatchRequest,
    PatchStatus,
)
from ravendb.documents.queries.index_query import IndexQuery
from ravendb.exceptions.raven_exceptions import ConcurrencyException

from entities import City, Holder, change_vector, load, save

PATIENT = QueryOperationOptions(allow_stale=False, stale_timeout=datetime.timedelta(minutes=1))


def request(script, **values):
    return PatchRequest(script, values)


def patch(store, key, script, version=None, if_missing=None, skip=False, **values):
    missing = PatchRequest.for_script(if_missing) if if_missing else None
    operation = PatchOperation(key, version, request(script, **values), missing, skip)
    return store.operations.send_patch_operation(operation, None)


def change_by_query(store, text, options=PATIENT, **parameters):
    query = IndexQuery(text)
    query.query_parameters = parameters
    store.operations.send_async(PatchByQueryOperation(query, options)).wait_for_completion()


def test_a_patch_changes_a_document_and_returns_its_status(store):
    save(store, {"patch/1": City("Ulm", 5, twins=["Wien"])})
    script = "this.population += args.more; this.twins.push(args.twin)"
    assert patch(store, "patch/1", script, more=2, twin="Jena") == PatchStatus.PATCHED
    city = load(store, "patch/1", City)
    assert (city.population, city.twins) == (7, ["Wien", "Jena"])
    assert patch(store, "patch/1", "this.population = 7") == PatchStatus.NOT_MODIFIED
    assert patch(store, "nope", "this.a = 1") == PatchStatus.DOCUMENT_DOES_NOT_EXIST


def test_a_patch_can_create_a_missing_document(store):
    made = "this.name = 'made'"
    assert patch(store, "made/1", "this.name = 'x'", if_missing=made) == PatchStatus.CREATED
    assert load(store, "made/1", City).name == "made"


def test_a_patch_at_another_version_is_rejected(store):
    save(store, {"version/1": Holder(0)})
    stale = change_vector(store, "version/1")
    patch(store, "version/1", "this.value = 1", stale)
    with pytest.raises(ConcurrencyException):
        patch(store, "version/1", "this.value = 2", stale)
    assert load(store, "version/1", Holder).value == 1


def test_a_failing_script_changes_nothing(store):
    save(store, {"failing/1": Holder(0)})
    for script in ["this.value = 1; throw new Error('leak')", "this.value = 1; for (;;) {}"]:
        with pytest.raises(Exception, match="leak|maximum number of statements"):
            patch(store, "failing/1", script)
    assert load(store, "failing/1", Holder).value == 0


def test_a_session_patches_without_loading(store):
    save(store, {"session/1": City("Ulm", 5, twins=["Wien", "Jena"])})
    with store.open_session() as session:
        session.advanced.patch("session/1", "name", "Neu-Ulm")
        session.advanced.increment("session/1", "population", 3)
        session.advanced.patch_array("session/1", "twins", lambda twins: twins.add("Graz"))
        session.save_changes()
    with store.open_session() as session:
        session.advanced.patch_array("session/1", "twins", lambda twins: twins.remove_at(0))
        session.save_changes()
    city = load(store, "session/1", City)
    assert (city.name, city.population, city.twins) == ("Neu-Ulm", 8, ["Jena", "Graz"])


def test_a_session_patches_loaded_documents(store):
    save(store, {"loaded/1": City("Ulm", 5)})
    with store.open_session() as session:
        city = session.load("loaded/1", City)
        session.advanced.increment(city, "population", 1)
        session.save_changes()
    assert load(store, "loaded/1", City).population == 6


def test_a_session_adds_a_document_or_patches_it(store):
    for expected in [1, 6]:
        with store.open_session() as session:
            session.advanced.add_or_increment("added/1", City("Ulm", 1), "population", 5)
            session.save_changes()
        assert load(store, "added/1", City).population == expected
    with store.open_session() as session:
        session.advanced.add_or_patch("added/1", City(), "name", "Bonn")
        session.save_changes()
    assert load(store, "added/1", City).name == "Bonn"


def test_deferred_patches_are_applied_with_their_batch_or_not_at_all(store):
    save(store, {"deferred/1": Holder(0), "deferred/2": Holder(0)})
    with store.open_session() as session:
        for key in ["deferred/1", "deferred/2"]:
            script = request("this.value = args.v", v=4)
            session.advanced.defer(PatchCommandData(key, None, script, None))
        session.save_changes()
    assert load(store, "deferred/2", Holder).value == 4
    with store.open_session() as session:
        session.advanced.defer(PatchCommandData("deferred/1", None, request("this.value = 9"), None))
        session.advanced.defer(PatchCommandData("deferred/2", None, request("throw 'no'"), None))
        with pytest.raises(Exception, match="no"):
            session.save_changes()
    assert load(store, "deferred/1", Holder).value == 4


def test_documents_that_match_a_query_are_patched_and_deleted(store):
    save(store, {f"set/{n}": Holder(n) for n in range(4)})
    text = "from Holders where value > $least and startsWith(id(), 'set/') update { this.value += args.by }"
    change_by_query(store, text, least=1, by=10)
    assert [load(store, f"set/{n}", Holder).value for n in range(4)] == [0, 1, 12, 13]
    query = IndexQuery("from Holders where value > 12 and startsWith(id(), 'set/')")
    store.operations.send_async(DeleteByQueryOperation(query, PATIENT)).wait_for_completion()
    assert load(store, "set/3", Holder) is None
    assert load(store, "set/2", Holder).value == 12


def test_a_failing_script_is_reported_by_the_operation(store):
    save(store, {"sunk/1": City("Vineta", 1)})
    with pytest.raises(Exception, match="sunk"):
        change_by_query(store, "from Cities update { throw new Error('sunk') }")
    assert load(store, "sunk/1", City).population == 1
