"""Databases: create, list, disable, enable, delete, and the errors for a missing one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from ravendb.documents.operations.server_misc import ToggleDatabasesStateOperation
from ravendb.exceptions.raven_exceptions import ConcurrencyException, RavenException
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import (
    CreateDatabaseOperation,
    DeleteDatabaseOperation,
    GetBuildNumberOperation,
    GetDatabaseNamesOperation,
    GetDatabaseRecordOperation,
)

from entities import Holder, load, save


def names(server):
    return server.maintenance.server.send(GetDatabaseNamesOperation(0, 1024))


def test_a_created_database_is_listed_and_has_a_record(server, new_database):
    name = new_database("created")
    assert name in names(server)
    record = server.maintenance.server.send(GetDatabaseRecordOperation(name))
    assert record.database_name == name
    assert not record.disabled


def test_creating_a_database_twice_is_a_concurrency_error(server, new_database):
    name = new_database("twice")
    with pytest.raises(ConcurrencyException):
        server.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord(name)))


def test_a_deleted_database_is_removed_and_empty_when_created_again(server, new_database, open_database):
    name = new_database("again")
    save(open_database(name), {"holders/1": Holder("old")})
    server.maintenance.server.send(DeleteDatabaseOperation(name, True))
    assert name not in names(server)
    server.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord(name)))
    assert load(open_database(name), "holders/1", Holder) is None


def test_a_disabled_database_refuses_work_until_it_is_enabled(server, new_database, open_database):
    name = new_database("disabled")
    save(open_database(name), {"holders/1": Holder("still here")})
    assert server.maintenance.server.send(ToggleDatabasesStateOperation(name, True)).disabled
    with pytest.raises(Exception, match="disabled"):
        load(open_database(name), "holders/1", Holder)
    assert not server.maintenance.server.send(ToggleDatabasesStateOperation(name, False)).disabled
    assert load(open_database(name), "holders/1", Holder).value == "still here"


def test_an_unknown_database_is_reported(open_database):
    with pytest.raises(RavenException, match="DatabaseDoesNotExistException"):
        load(open_database("python-never-created"), "holders/1", Holder)
    with pytest.raises(RavenException, match="DatabaseDoesNotExistException"):
        save(open_database("python-never-created"), {"holders/1": Holder(1)})


def test_deleting_an_unknown_database_succeeds(server):
    server.maintenance.server.send(DeleteDatabaseOperation("python-never-created", True))


def test_eight_databases_are_used_in_parallel_without_mixing(new_database, open_database):
    stores = [open_database(new_database(f"parallel-{i}")) for i in range(8)]

    def use(store):
        save(store, {"holders/1": Holder(store.database)})
        return load(store, "holders/1", Holder).value

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, stores)) == [store.database for store in stores]


def test_the_build_number_names_the_product_version(server):
    build = server.maintenance.server.send(GetBuildNumberOperation())
    assert build.build_version > 0
    assert build.full_version.startswith(build.product_version)
