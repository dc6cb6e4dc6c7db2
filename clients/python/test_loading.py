"""Loading many documents, includes, prefixes, lazy operations, collection queries and streams."""

import pytest

from entities import City, Country, Holder, save

PAGE_KEYS = [f"page/{i:03}" for i in range(50)]


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save(
        store,
        {
            "countries/ch": Country("Switzerland", "cities/bern"),
            "countries/de": Country("Germany", "cities/berlin"),
        },
    )
    save(
        store,
        {"cities/bern": City("Bern", 1), "cities/berlin": City("Berlin", 2, "countries/de", ["cities/bern"])},
    )
    save(store, {key: Holder(i) for i, key in enumerate(PAGE_KEYS)})


def values(entities):
    return [entity.value for entity in entities]


def test_many_ids_are_returned_by_id_and_missing_ones_as_none(store):
    with store.open_session() as session:
        loaded = session.load(["page/001", "page/none", "page/049"], Holder)
        assert [loaded["page/001"].value, loaded["page/none"], loaded["page/049"].value] == [1, None, 49]


def test_enough_ids_that_the_client_uses_post_are_loaded(store):
    with store.open_session() as session:
        loaded = session.load([f"page/{i:03}" for i in range(1500)], Holder)
        assert sum(1 for entity in loaded.values() if entity) == 50


def test_a_missing_document_is_none(store):
    with store.open_session() as session:
        assert session.load("nowhere/1", Holder) is None


def test_an_include_saves_the_second_request(store):
    with store.open_session() as session:
        country = session.include("capital").load("countries/ch", Country)["countries/ch"]
        assert session.load(country.capital, City).name == "Bern"
        assert session.advanced.number_of_requests == 1


def test_an_include_reaches_into_arrays(store):
    with store.open_session() as session:
        session.load(
            "cities/berlin",
            City,
            lambda includes: includes.include_documents("twins").include_documents("country"),
        )
        assert session.load("cities/bern", City).name == "Bern"
        assert session.load("countries/de", Country).name == "Germany"
        assert session.advanced.number_of_requests == 1


def test_load_starting_with_is_ordered_paged_and_filtered(store):
    with store.open_session() as session:
        start = session.advanced.load_starting_with
        assert values(start("page/", Holder, page_size=1024)) == list(range(50))
        assert values(start("page/", Holder, start=10, page_size=3)) == [10, 11, 12]
        assert values(start("page/", Holder, start_after="page/047", page_size=9)) == [48, 49]
        assert values(start("page/", Holder, matches="0?5|*49", page_size=99)) == [5, 15, 25, 35, 45, 49]
        assert values(start("nowhere/", Holder)) == []


def test_lazy_loads_are_sent_in_one_request(store):
    with store.open_session() as session:
        bern = session.advanced.lazily.load("cities/bern", City)
        pages = session.advanced.lazily.load(["page/001", "page/002"], Holder)
        prefix = session.advanced.lazily.load_starting_with("page/00", Holder)
        session.advanced.eagerly.execute_all_pending_lazy_operations()
        assert bern.value.name == "Bern"
        assert sorted(entity.value for entity in pages.value.values()) == [1, 2]
        assert len(prefix.value) == 10
        assert session.advanced.number_of_requests == 1


def test_collection_queries_page_through_the_collection(store):
    with store.open_session() as session:
        assert values(session.query_collection("Holders", Holder)) == list(range(50))
        assert values(session.query_collection("Holders", Holder).skip(20).take(3)) == [20, 21, 22]
        assert session.query_collection("Holders", Holder).count() == 50
        assert list(session.query_collection("Volcanoes", Holder)) == []


def test_raw_queries_by_id_and_by_prefix(store):
    def query(text, **parameters):
        with store.open_session() as session:
            raw = session.advanced.raw_query(text, Holder)
            for name, value in parameters.items():
                raw.add_parameter(name, value)
            return values(raw)

    assert query("from Holders where id() = $id", id="page/007") == [7]
    assert query("from Holders where id() = $id", id="page/none") == []
    assert query("from Holders where id() in ($ids)", ids=["page/030", "page/002"]) == [2, 30]
    assert query("from Holders where startsWith(id(), $prefix)", prefix="page/00") == list(range(10))
    assert query("from Holders limit 3 offset 10") == [10, 11, 12]
    assert len(query("from @all_docs where startsWith(id(), 'page/')")) == 50


def test_query_statistics_count_the_whole_collection(store):
    seen = []
    with store.open_session() as session:
        list(session.query_collection("Holders", Holder).statistics(seen.append).take(5))
    assert seen[0].total_results == 50
    assert not seen[0].is_stale


def test_streams_by_prefix_and_by_query(store):
    with store.open_session() as session:
        rows = list(session.advanced.stream_starting_with("page/", object_type=Holder))
        assert [row.key for row in rows] == PAGE_KEYS
        assert [row.document.value for row in rows] == list(range(50))
        rows = list(session.advanced.stream(session.query_collection("Holders", Holder)))
        assert [row.document.value for row in rows] == list(range(50))
        raw = session.advanced.raw_query("from Holders limit 4 offset 2", Holder)
        assert [row.document.value for row in session.advanced.stream(raw)] == [2, 3, 4, 5]


def test_an_empty_stream_ends_at_once(store):
    with store.open_session() as session:
        assert list(session.advanced.stream_starting_with("nowhere/")) == []
