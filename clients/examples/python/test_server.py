# A test against a server of its own: CORVUS=/path/to/corvus pytest test_server.py
import os
import subprocess
import uuid

import pytest
from ravendb import DocumentStore
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import CreateDatabaseOperation

AVAILABLE = "Server available on: "


@pytest.fixture(scope="session")
def corvus():
    """The address of a server in memory, on a free port. It ends with this process."""
    settings = ["--ServerUrl=http://127.0.0.1:0", "--RunInMemory=true", "--Logs.MinLevel=Warn"]
    settings.append(f"--Embedded.ParentProcessId={os.getpid()}")
    command = [os.environ.get("CORVUS", "corvus"), *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line.startswith(AVAILABLE), "the server did not start"
        yield line[len(AVAILABLE) :].strip()
        process.terminate()


@pytest.fixture
def store(corvus):
    """A store on an empty database."""
    with DocumentStore(corvus, f"test-{uuid.uuid4()}") as store:
        store.initialize()
        store.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord(store.database)))
        yield store


class Customer:
    def __init__(self, name=None):
        self.name = name


def test_a_customer_is_found_by_name(store):
    with store.open_session() as session:
        session.store(Customer("Ada"), "customers/1")
        session.save_changes()
    with store.open_session() as session:
        query = session.query_collection("Customers", Customer).where_equals("name", "Ada")
        found = list(query.wait_for_non_stale_results())
        assert [session.advanced.get_document_id(customer) for customer in found] == ["customers/1"]
