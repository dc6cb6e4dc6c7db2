"""The server under test and the databases that the tests own.

Each test module gets one database of its own, deleted again when the module ends.
"""

import os
import secrets

import pytest
from ravendb import DocumentStore
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import CreateDatabaseOperation, DeleteDatabaseOperation


def pytest_configure(config):
    if not os.environ.get("CORVUS_TEST_URL"):
        raise pytest.UsageError("CORVUS_TEST_URL is not set; start the tests through clients/run")


def open_store(database=None):
    store = DocumentStore(os.environ["CORVUS_TEST_URL"], database)
    if "CORVUS_TEST_CLIENT_PEM" in os.environ:
        store.certificate_pem_path = os.environ["CORVUS_TEST_CLIENT_PEM"]
        store.trust_store_path = os.environ["CORVUS_TEST_AUTHORITY"]
    store.initialize()
    return store


@pytest.fixture(scope="session")
def server_url():
    return os.environ["CORVUS_TEST_URL"]


@pytest.fixture(scope="session")
def server():
    """A store without a database, for server-wide operations."""
    store = open_store()
    yield store
    store.close()


@pytest.fixture(scope="module")
def new_database(server):
    """A function that creates a database and returns its name; all are deleted with the module."""
    made = []

    def create(label):
        name = f"python-{label}-{secrets.token_hex(5)}"
        server.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord(name)))
        made.append(name)
        return name

    yield create
    for name in made:
        server.maintenance.server.send(DeleteDatabaseOperation(name, True))


@pytest.fixture(scope="module")
def open_database():
    """A function that opens a store on an existing database; all are closed with the module."""
    opened = []

    def open_one(name):
        opened.append(open_store(name))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture(scope="module")
def store(request, new_database, open_database):
    return open_database(new_database(request.module.__name__.replace("test_", "").replace("_", "-")))
