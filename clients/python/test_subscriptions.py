"""Data subscriptions: workers that receive changed documents."""

import threading
import time

import pytest
from ravendb.documents.subscriptions.options import (
    SubscriptionCreationOptions,
    SubscriptionOpeningStrategy,
    SubscriptionUpdateOptions,
    SubscriptionWorkerOptions,
)
from ravendb.exceptions.exceptions import (
    SubscriptionClosedException,
    SubscriptionInUseException,
)

from entities import City, save

PATIENCE_SECONDS = 30


def create(store, query, **more):
    return store.subscriptions.create_for_options(SubscriptionCreationOptions(query=query, **more))


def until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it does not happen")


class Run:
    """A worker that records the documents it receives."""

    def __init__(self, store, name, object_type=City, on_batch=lambda batch: None, **options):
        self.items, self.batches = [], []
        self.lock = threading.Lock()
        options = SubscriptionWorkerOptions(name, **options)
        self.worker = store.subscriptions.get_subscription_worker(options, object_type)

        def process(batch):
            on_batch(batch)
            with self.lock:
                self.batches.append([item.key for item in batch.items])
                self.items.extend((item.key, item.result) for item in batch.items)

        self.task = self.worker.run(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.close()

    def keys(self):
        with self.lock:
            return [key for key, _ in self.items]


def cities(prefix, count, first=0):
    return {f"{prefix}/{number}": City("Bern", number) for number in range(first, first + count)}


def test_documents_are_sent_in_order_in_batches_of_the_requested_size(store):
    save(store, cities("cities", 5))
    with Run(store, create(store, "from Cities"), max_docs_per_batch=3) as run:
        until(lambda: len(run.items) == 5)
        assert run.batches[0] == ["cities/0", "cities/1", "cities/2"]
        save(store, cities("cities", 1, 5))
        until(lambda: len(run.items) == 6)
        assert run.items[5][1].population == 5


def test_a_condition_and_a_projection(new_database, open_database):
    store = open_database(new_database("subscriptions"))
    save(store, cities("cities", 5))
    chosen = create(store, "from Cities as c where c.population > 2")
    with Run(store, chosen) as run:
        until(lambda: run.keys() == ["cities/3", "cities/4"])
    projected = create(store, "from Cities as c select { population: c.population * 2 }")
    with Run(store, projected) as run:
        until(lambda: len(run.items) == 5)
        assert [shown.population for _, shown in run.items] == [0, 2, 4, 6, 8]


def test_unacknowledged_documents_are_sent_again(new_database, open_database):
    store = open_database(new_database("subscriptions"))
    save(store, cities("cities", 2))
    name = create(store, "from Cities")

    def fail(_):
        raise ValueError("not today")

    with Run(store, name, on_batch=fail) as failing:
        until(lambda: failing.task.done())
        assert failing.items == []
    # The client leaves its connection open, so the server considers the worker connected.
    with Run(store, name, strategy=SubscriptionOpeningStrategy.TAKE_OVER) as run:
        until(lambda: len(run.items) == 2)


def test_strategies(new_database, open_database):
    store = open_database(new_database("subscriptions"))
    save(store, cities("cities", 1))
    name = create(store, "from Cities")
    with Run(store, name) as first:
        until(lambda: len(first.items) == 1)
        with Run(store, name) as refused:
            with pytest.raises(SubscriptionInUseException):
                refused.task.result(PATIENCE_SECONDS)
        with Run(store, name, strategy=SubscriptionOpeningStrategy.TAKE_OVER) as taking:
            with pytest.raises(SubscriptionInUseException):
                first.task.result(PATIENCE_SECONDS)
            save(store, cities("cities", 1, 1))
            until(lambda: taking.keys() == ["cities/1"])


def test_a_waiting_worker_is_accepted_next(new_database, open_database):
    # The client has no strategy for workers that share a subscription.
    store = open_database(new_database("subscriptions"))
    name = create(store, "from Cities")
    with Run(store, name) as first:
        save(store, cities("cities", 1))
        until(lambda: len(first.items) == 1)
        waiting = Run(store, name, strategy=SubscriptionOpeningStrategy.WAIT_FOR_FREE)
        # If it is closed while it reads, the client keeps its connection for half a minute.
        time.sleep(1)
    with waiting:
        save(store, cities("cities", 3, 1))
        until(lambda: waiting.keys() == [f"cities/{number}" for number in (1, 2, 3)])


def test_a_worker_can_end_when_no_documents_are_left(new_database, open_database):
    store = open_database(new_database("subscriptions"))
    save(store, cities("cities", 3))
    with Run(store, create(store, "from Cities"), close_when_no_docs_left=True) as run:
        with pytest.raises(SubscriptionClosedException):
            run.task.result(PATIENCE_SECONDS)
        assert len(run.items) == 3


def test_subscriptions_are_listed_changed_and_deleted(new_database, open_database):
    store = open_database(new_database("subscriptions"))
    name = create(store, "from Cities", name="all cities")
    assert name == "all cities"
    assert [one.subscription_name for one in store.subscriptions.get_subscriptions(0, 10)] == [name]
    store.subscriptions.update(SubscriptionUpdateOptions(name=name, query="from Towns"))
    assert store.subscriptions.get_subscription_state(name).query == "from Towns"
    store.subscriptions.drop_connection(name)
    store.subscriptions.delete(name)
    with pytest.raises(Exception):
        store.subscriptions.get_subscription_state(name)
