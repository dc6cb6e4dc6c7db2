"""Works on a database of three nodes while clients/node/cluster/through_faults.mjs kills and pauses them. An application
sees no error, and the subscription sends every document.
"""

import datetime
import json
import os
import random
import sys
import threading
import time

from ravendb import DocumentStore
from ravendb.documents.operations.compare_exchange.operations import (
    GetCompareExchangeValueOperation,
    PutCompareExchangeValueOperation,
)
from ravendb.documents.session.misc import SessionOptions, TransactionMode
from ravendb.documents.subscriptions.options import SubscriptionCreationOptions, SubscriptionWorkerOptions
from ravendb.exceptions.raven_exceptions import ConcurrencyException

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from entities import City

SECONDS_MAX = 60
WRITERS = 3
# A node that does not answer for so long is taken for dead; without it a client waits for a paused node.
REQUEST_SECONDS_MAX = 2
DATABASE = os.environ["CORVUS_TEST_DATABASE"]


def is_over():
    return os.path.exists(os.environ["CORVUS_TEST_FAULTS_OVER"])


def until(what, condition):
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, f"it takes too long: {what}"
        time.sleep(0.05)


def open_store():
    """A store for one thread: when several threads of one store find that a node is gone, this client gives up."""
    store = DocumentStore(os.environ["CORVUS_TEST_URLS"].split(","), DATABASE)
    store.conventions.request_timeout = datetime.timedelta(seconds=REQUEST_SECONDS_MAX)
    store.initialize()
    return store


class Work:
    """What all threads do and count."""

    def __init__(self):
        self.lock = threading.Lock()
        self.kept, self.received, self.faults = [], set(), []
        self.counts = dict.fromkeys(["written", "read", "exchanged", "cluster_wide"], 0)
        self.acknowledged = open(os.environ["CORVUS_TEST_ACKNOWLEDGED"], "a", encoding="utf-8")

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def follow(self):
        store = open_store()
        name = store.subscriptions.create_for_options(SubscriptionCreationOptions(query="from Cities"))
        options = SubscriptionWorkerOptions(
            name,
            max_docs_per_batch=64,
            time_to_wait_before_connection_retry=datetime.timedelta(milliseconds=200),
            max_erroneous_period=datetime.timedelta(seconds=120),
        )
        self.worker = store.subscriptions.get_subscription_worker(options, City)
        self.worker.add_on_subscription_connection_retry(
            lambda error: print("-- the worker connects again:", str(error).split("\n")[0], file=sys.stderr)
        )
        self.task = self.worker.run(lambda batch: self.received.update(item.key for item in batch.items))

    def write(self, writer):
        """Documents that count as written once two of the three nodes have them."""
        store = open_store()
        for number in range(sys.maxsize):
            key = f"kept/{writer}-{number}"
            with store.open_session() as session:
                session.advanced.wait_for_replication_after_save_changes(
                    lambda wait: wait.majority(True)
                    .throw_on_timeout(True)
                    .with_timeout(datetime.timedelta(seconds=15))
                )
                session.store(City("Bern", number), key)
                session.save_changes()
            with self.lock:
                self.acknowledged.write(f"{key}\n")
                self.acknowledged.flush()
                self.kept.append(key)
                self.counts["written"] += 1
            yield
            time.sleep(0.005)

    def read(self):
        store = open_store()

        def load(key):
            with store.open_session() as session:
                return session.load(key, City)

        while True:
            time.sleep(0.01)
            key = random.choice(self.kept) if self.kept else None
            # A node that was away may not have it yet.
            if key:
                until(f"{key} to be read", lambda: load(key))
                self.count("read")
            yield

    def exchange(self):
        """Adds 1 to a value, again and again: nobody else changes it, so no change is lost."""
        store, index = open_store(), 0
        for value in range(1, sys.maxsize):
            put = store.operations.send(PutCompareExchangeValueOperation("value", value, index))
            # A repeated request has another id, so that the server cannot know the first one again.
            assert put.successful or put.value == value, f"value {value} was refused"
            index = put.index
            found = store.operations.send(GetCompareExchangeValueOperation("value", int))
            assert found.value == value, f"{found.value} instead of {value}"
            self.count("exchanged")
            yield
            time.sleep(0.02)

    def cluster_wide(self):
        """The client sends no id with these: when it repeats one whose answer was lost, that is refused."""
        store = open_store()
        for number in range(sys.maxsize):
            options = SessionOptions(transaction_mode=TransactionMode.CLUSTER_WIDE)
            try:
                with store.open_session(session_options=options) as session:
                    session.advanced.cluster_transaction.create_compare_exchange_value(f"unique/{number}", number)
                    session.store(City("Olten", number), f"unique/{number}")
                    session.save_changes()
            except ConcurrencyException:
                found = store.operations.send(GetCompareExchangeValueOperation(f"unique/{number}", int))
                assert found.value == number, f"{found.value} instead of {number}"
            self.count("cluster_wide")
            yield
            time.sleep(0.05)

    def run(self, steps):
        try:
            for _ in steps:
                if is_over() or self.faults:
                    return
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")


def main():
    work = Work()
    work.follow()
    steps = [work.write(writer) for writer in range(WRITERS)] + [work.read(), work.exchange(), work.cluster_wide()]
    threads = [threading.Thread(target=work.run, args=(one,), daemon=True) for one in steps]
    for thread in threads:
        thread.start()
    until("all of them to work", lambda: work.faults or all(work.counts.values()))
    print("working", flush=True)
    for thread in threads:
        thread.join()
    assert not work.faults, work.faults
    until(
        "every document from the subscription",
        lambda: work.task.done() or work.received.issuperset(work.kept),
    )
    assert not work.task.done(), f"the worker gave up: {work.task.exception()}"
    print(json.dumps({**work.counts, "received": len(work.received)}), flush=True)


try:
    main()
except BaseException as fault:
    print(fault, file=sys.stderr, flush=True)
    os._exit(1)
# The client's threads may run for a while.
os._exit(0)
