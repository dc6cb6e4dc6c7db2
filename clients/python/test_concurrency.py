"""Optimistic concurrency, all-or-nothing batches, and many threads at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from ravendb.documents.commands.batches import DeleteCommandData
from ravendb.exceptions.raven_exceptions import ConcurrencyException

from entities import Holder, change_vector, load, save

THREADS = 32


def optimistic(store):
    session = store.open_session()
    session.advanced.use_optimistic_concurrency = True
    return session


def test_without_optimistic_concurrency_the_last_writer_wins(store):
    save(store, {"last/1": Holder(0)})
    with store.open_session() as a, store.open_session() as b:
        first, second = a.load("last/1", Holder), b.load("last/1", Holder)
        first.value, second.value = 1, 2
        a.save_changes()
        b.save_changes()
    assert load(store, "last/1", Holder).value == 2


def test_with_optimistic_concurrency_the_second_writer_is_refused(store):
    save(store, {"optimistic/1": Holder(0)})
    with optimistic(store) as a, optimistic(store) as b:
        first, second = a.load("optimistic/1", Holder), b.load("optimistic/1", Holder)
        first.value, second.value = 1, 2
        a.save_changes()
        with pytest.raises(ConcurrencyException):
            b.save_changes()
    assert load(store, "optimistic/1", Holder).value == 1


def test_a_taken_id_is_refused_for_a_new_document(store):
    save(store, {"taken/1": Holder("first")})
    with optimistic(store) as session:
        session.store(Holder("second"), "taken/1")
        with pytest.raises(ConcurrencyException):
            session.save_changes()
    assert load(store, "taken/1", Holder).value == "first"


def test_a_delete_with_a_stale_change_vector_is_refused(store):
    save(store, {"delete/1": Holder(1)})
    stale = change_vector(store, "delete/1")
    save(store, {"delete/1": Holder(2)})
    with store.open_session() as session:
        session.delete("delete/1", stale)
        with pytest.raises(ConcurrencyException):
            session.save_changes()
    assert load(store, "delete/1", Holder).value == 2


def test_one_stale_command_undoes_the_whole_batch(store):
    save(store, {"batch/stale": Holder(0), "batch/deleted": Holder(0)})
    with optimistic(store) as session:
        stale = session.load("batch/stale", Holder)
        save(store, {"batch/stale": Holder(7)})
        session.store(Holder(1), "batch/new")
        session.delete("batch/deleted")
        stale.value = 1
        with pytest.raises(ConcurrencyException):
            session.save_changes()
    assert load(store, "batch/new", Holder) is None
    assert load(store, "batch/deleted", Holder).value == 0
    assert load(store, "batch/stale", Holder).value == 7


def test_deferred_commands_are_sent_with_the_session(store):
    save(store, {"deferred/1": Holder(1)})
    with store.open_session() as session:
        session.store(Holder(2), "deferred/2")
        session.advanced.defer(DeleteCommandData("deferred/1", None))
        session.save_changes()
    assert load(store, "deferred/1", Holder) is None
    assert load(store, "deferred/2", Holder).value == 2


def test_threads_that_increment_one_document_lose_no_update(store):
    save(store, {"counter/1": Holder(0)})

    def increment(_):
        while True:
            with optimistic(store) as session:
                session.load("counter/1", Holder).value += 1
                try:
                    return session.save_changes()
                except ConcurrencyException:
                    continue

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(increment, range(THREADS)))
    assert load(store, "counter/1", Holder).value == THREADS


def test_threads_read_back_what_they_have_just_written(store):
    def work(thread):
        for i in range(10):
            key = f"parts/{thread}-{i}"
            save(store, {key: Holder([thread, i])})
            assert load(store, key, Holder).value == [thread, i]
        return 10

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(work, range(THREADS))) == THREADS * 10
