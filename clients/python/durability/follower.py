"""Follows a database while the server is killed and started again: a worker of a subscription that
has a batch in its hands just then.

Prints "in mid-batch" when the server may be killed; the file CORVUS_TEST_RESTARTED appears when it runs
again. Afterwards every document has come, and what was acknowledged before has not come again. The
client's connection for changes does not come back by itself, whatever the server: it is left out.
"""

import datetime
import os
import secrets
import sys
import threading
import time

from ravendb import DocumentStore
from ravendb.documents.subscriptions.options import SubscriptionCreationOptions, SubscriptionWorkerOptions
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import CreateDatabaseOperation, DeleteDatabaseOperation

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from entities import City, save

SECONDS_MAX = 60
CITIES_BEFORE, CITIES_AFTER = 20, 10
BATCH_HELD = 3
RESTARTED = os.environ["CORVUS_TEST_RESTARTED"]


def until(condition, what):
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"it takes too long: {what}"
        time.sleep(0.05)


def is_back():
    return os.path.exists(RESTARTED)


class Follower:
    """A worker, the documents it received, and those the server confirmed."""

    def __init__(self, store):
        self.received, self.acknowledged, self.faults = [], set(), []
        self.batches = 0
        self.lock = threading.Lock()
        name = store.subscriptions.create_for_options(SubscriptionCreationOptions(query="from Cities"))
        options = SubscriptionWorkerOptions(
            name,
            max_docs_per_batch=4,
            time_to_wait_before_connection_retry=datetime.timedelta(milliseconds=200),
            max_erroneous_period=datetime.timedelta(seconds=SECONDS_MAX),
        )
        self.worker = store.subscriptions.get_subscription_worker(options, City)
        self.worker.add_after_acknowledgment(self.confirmed)
        self.task = self.worker.run(self.process)

    def process(self, batch):
        keys = [item.key for item in batch.items]
        with self.lock:
            again = self.acknowledged.intersection(keys)
            if again:
                self.faults.append(f"{again} come again and were acknowledged")
            self.received.extend(keys)
            self.batches += 1
        if self.batches == BATCH_HELD:
            print("in mid-batch", flush=True)
            until(is_back, "the restart")

    def confirmed(self, batch):
        with self.lock:
            self.acknowledged.update(item.key for item in batch.items)


def cities(first, count):
    return {f"cities/{number}": City("Bern", number) for number in range(first, first + count)}


def main():
    store = DocumentStore(os.environ["CORVUS_TEST_URL"], f"python-follower-{secrets.token_hex(5)}")
    store.initialize()
    store.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord(store.database)))
    save(store, cities(0, CITIES_BEFORE))
    follower = Follower(store)
    until(is_back, "the restart")
    save(store, cities(CITIES_BEFORE, CITIES_AFTER))
    everything = set(cities(0, CITIES_BEFORE + CITIES_AFTER))
    until(lambda: follower.acknowledged == everything or follower.task.done(), "the acknowledgements")
    assert not follower.task.done(), f"the worker gave up: {follower.task.exception()}"
    assert follower.faults == [], follower.faults
    assert set(follower.received) == everything
    follower.worker.close(False)
    store.maintenance.server.send(DeleteDatabaseOperation(store.database, True))


main()
# The client's threads may run for a while.
sys.stdout.flush()
os._exit(0)
