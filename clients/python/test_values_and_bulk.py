"""Values come back as stored; bulk insert, plain and compressed; statistics."""

import math
import os

import pytest
from ravendb.documents.bulk_insert_operation import BulkInsertOptions
from ravendb.documents.operations.statistics import (
    GetCollectionStatisticsOperation,
    GetDetailedStatisticsOperation,
    GetStatisticsOperation,
)
from ravendb.exceptions.documents.bulkinsert import BulkInsertAbortedException

from entities import City, Holder, load, save


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**31,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        0.1,
        -0.5,
        1.5e-7,
        math.pi,
        1 / 3,
        1.7976931348623157e308,
        5e-324,
        True,
        False,
        None,
        "",
        "Grüße",
        "日本語",
        "🏔️ 👩‍👩‍👧‍👦",
        "e\u0301",
        'line\nbreak\ttab " \\ \u0001',
        [],
        {},
        [1, [2, [3]]],
        {"key with spaces": {"deep": [None, 1.5]}},
    ],
    ids=repr,
)
def test_a_value_is_returned_as_it_was_stored(store, value):
    save(store, {"values/1": Holder(value)})
    back = load(store, "values/1", Holder).value
    assert back == value
    assert type(back) is type(value)


def test_a_document_of_a_megabyte_survives(store):
    text = "0123456789abcdef" * 65536 + "ü"
    save(store, {"big/1": Holder(text)})
    assert load(store, "big/1", Holder).value == text


@pytest.mark.parametrize("use_compression", [False, True])
def test_a_bulk_insert_stores_thousands(store, use_compression):
    prefix = f"bulk-{use_compression}/"
    with store.bulk_insert(options=BulkInsertOptions(use_compression=use_compression)) as bulk:
        for i in range(3000):
            bulk.store_as(Holder({"i": i, "text": "ä" * (i % 50)}), f"{prefix}{i:05}", metadata={})
    with store.open_session() as session:
        rows = [
            row.document.value["i"]
            for row in session.advanced.stream_starting_with(prefix, object_type=Holder)
        ]
    assert rows == list(range(3000))
    assert load(store, f"{prefix}02999", Holder).value["text"] == "ä" * 49


@pytest.mark.skipif(
    os.environ.get("CORVUS_TEST_REFERENCE") == "1", reason="a known fault of the reference server"
)
def test_emoji_survive_a_bulk_insert_which_escapes_them_as_surrogate_pairs(store):
    with store.bulk_insert() as bulk:
        bulk.store_as(Holder("🏔️ 👩‍👩‍👧‍👦"), "emoji/1", metadata={})
    assert load(store, "emoji/1", Holder).value == "🏔️ 👩‍👩‍👧‍👦"


def test_a_bulk_insert_assigns_hilo_ids_of_the_collection(store):
    with store.bulk_insert() as bulk:
        keys = [bulk.store(City(f"city {i}")) for i in range(100)]
    assert len(set(keys)) == 100
    statistics = store.maintenance.send(GetCollectionStatisticsOperation())
    assert statistics.collections["Cities"] == 100
    assert load(store, keys[42], City).name == "city 42"


def test_a_refused_document_fails_the_bulk_insert(store):
    save(store, {"fixed/1": City("stays")})
    with pytest.raises(BulkInsertAbortedException):
        with store.bulk_insert() as bulk:
            bulk.store_as(Holder(1), "fixed/1")
    assert load(store, "fixed/1", City).name == "stays"


def test_statistics_count_documents_and_change_with_writes(store):
    before = store.maintenance.send(GetStatisticsOperation())
    save(store, {"statistics/1": Holder(1)})
    after = store.maintenance.send(GetStatisticsOperation())
    assert after.count_of_documents == before.count_of_documents + 1
    assert after.last_doc_etag > before.last_doc_etag
    detailed = store.maintenance.send(GetDetailedStatisticsOperation())
    assert detailed.count_of_documents == after.count_of_documents
    collections = store.maintenance.send(GetCollectionStatisticsOperation())
    assert sum(collections.collections.values()) == after.count_of_documents
