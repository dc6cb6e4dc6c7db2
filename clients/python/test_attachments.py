"""Attachments: stored and read by sessions and operations, copied, moved, renamed."""

import os

import pytest
from ravendb.documents.operations.attachments import (
    DeleteAttachmentOperation,
    PutAttachmentOperation,
)
from ravendb.documents.operations.statistics import GetStatisticsOperation
from ravendb.exceptions.raven_exceptions import RavenException

from entities import City, save

HELLO = "Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8="


def content_of(store, key, name):
    with store.open_session() as session:
        found = session.advanced.attachments.get(key, name)
        return found if found is None else found.data


def names_of(store, key):
    with store.open_session() as session:
        city = session.load(key, City)
        return [one.name for one in session.advanced.attachments.get_names(city)]


def test_a_session_stores_a_document_with_its_attachments(store):
    with store.open_session() as session:
        session.store(City("Chur", 1), "cities/1")
        session.advanced.attachments.store("cities/1", "hello.txt", b"hello", "text/plain")
        session.advanced.attachments.store("cities/1", "b.bin", b"\0\r\n--\xff", "x/y")
        session.save_changes()
    assert names_of(store, "cities/1") == ["b.bin", "hello.txt"]
    assert content_of(store, "cities/1", "HELLO.txt") == b"hello"
    assert content_of(store, "cities/1", "b.bin") == b"\0\r\n--\xff"


def test_the_details_of_an_attachment_are_returned(store):
    with store.open_session() as session:
        attachments = session.advanced.attachments
        details = attachments.get("cities/1", "hello.txt").details
        # The client reads the size from a header and does not convert it to a number.
        assert (details.name, details.hash, int(details.size)) == ("hello.txt", HELLO, 5)
        assert details.content_type == "text/plain"
        assert attachments.exists("cities/1", "hello.txt")
        assert not attachments.exists("cities/1", "nothing")


def test_large_contents_are_returned_unchanged(store):
    save(store, {"cities/large": City("large", 1)})
    content = os.urandom(3 << 20)
    with store.open_session() as session:
        session.advanced.attachments.store("cities/large", "a", content, "x/y")
        session.save_changes()
    assert content_of(store, "cities/large", "a") == content


def test_operations_put_and_delete(store):
    save(store, {"cities/2": City("Basel", 1)})
    stored = store.operations.send(
        PutAttachmentOperation("cities/2", "a", b"hello", "text/plain", None)
    )
    # The server receives a multipart form around the content, so the length is not compared.
    assert (stored.name, stored.document_id) == ("a", "cities/2")
    assert names_of(store, "cities/2") == ["a"]
    store.operations.send(DeleteAttachmentOperation("cities/2", "a"))
    assert names_of(store, "cities/2") == []


def test_storing_an_attachment_on_a_missing_document_fails(store):
    with pytest.raises(RavenException, match="non existent document"):
        store.operations.send(PutAttachmentOperation("cities/none", "a", b"x", "t/x", None))


def test_attachments_are_copied_moved_and_renamed(store):
    save(store, {"cities/4": City("from", 1), "cities/5": City("to", 1)})
    with store.open_session() as session:
        session.advanced.attachments.store("cities/4", "a", b"hello", "text/plain")
        session.save_changes()
    with store.open_session() as session:
        session.load(["cities/4", "cities/5"], City)
        session.advanced.attachments.copy("cities/4", "a", "cities/5", "copied")
        session.save_changes()
    with store.open_session() as session:
        session.load("cities/4", City)
        session.advanced.attachments.rename("cities/4", "a", "b")
        session.save_changes()
    assert (names_of(store, "cities/4"), names_of(store, "cities/5")) == (["b"], ["copied"])
    with store.open_session() as session:
        session.load(["cities/4", "cities/5"], City)
        session.advanced.attachments.move("cities/4", "b", "cities/5", "moved")
        session.save_changes()
    assert names_of(store, "cities/4") == []
    assert names_of(store, "cities/5") == ["copied", "moved"]
    assert content_of(store, "cities/5", "moved") == b"hello"


def test_statistics_count_attachments_and_distinct_contents(store):
    statistics = store.maintenance.send(GetStatisticsOperation())
    assert statistics.count_of_attachments == 5
    assert statistics.count_of_unique_attachments == 3
