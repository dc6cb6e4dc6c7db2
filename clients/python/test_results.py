"""Query results: orders, pages, projections, includes, lazies, streams, statistics and timings."""

import io
import json

import pytest
from ravendb.documents.queries.query import QueryData
from ravendb.documents.session.misc import OrderingType

from huts import HUTS, Club, Hut, names, save_huts


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)


class Row:
    def __init__(self, name=None, beds=None):
        self.name = name
        self.beds = beds


def huts(session):
    return session.query(object_type=Hut).wait_for_non_stale_results()


def rows(query):
    return [(row.name, row.beds) for row in query]


@pytest.mark.parametrize(
    "order, expected",
    [
        (lambda q: q.order_by("name"), ["Blüemlisalp", "Boval", "Britannia", "Coaz"]),
        (lambda q: q.order_by_descending("name"), ["Tin Box", "Monte Rosa", "Hörnli", "Finsteraar"]),
        (lambda q: q.order_by("beds"), ["Finsteraar", "Monte Rosa", "Hörnli", "Britannia"]),
        (lambda q: q.order_by("beds", OrderingType.LONG), ["Tin Box", "Coaz", "Boval", "Finsteraar"]),
        (
            lambda q: q.order_by_descending("price", OrderingType.FLOAT),
            ["Hörnli", "Monte Rosa", "Britannia", "Finsteraar"],
        ),
        (lambda q: q.order_by("beds", OrderingType.ALPHA_NUMERIC), ["Tin Box", "Coaz", "Boval", "Finsteraar"]),
        (
            lambda q: q.order_by("region").order_by_descending("altitude", OrderingType.LONG),
            ["Tin Box", "Finsteraar", "Blüemlisalp", "Coaz"],
        ),
        (
            lambda q: q.add_order("region", True).add_order("altitude", False, OrderingType.LONG),
            ["Monte Rosa", "Britannia", "Hörnli", "Boval"],
        ),
    ],
)
def test_orders_by_text_number_and_several_fields(store, order, expected):
    with store.open_session() as session:
        assert names(order(session.query(object_type=Hut)).take(4)) == expected


def test_a_random_order_with_a_seed_is_the_same_twice(store):
    with store.open_session() as session:
        first, second = (names(huts(session).random_ordering("seed")) for _ in range(2))
        assert first == second
        assert len(names(huts(session).random_ordering())) == len(HUTS)


def test_pages_first_single_count_and_statistics(store):
    seen = []
    with store.open_session() as session:
        large = huts(session).where_greater_than("beds", 100).order_by("beds", OrderingType.LONG)
        assert names(large.statistics(seen.append).skip(1).take(2)) == ["Monte Rosa", "Hörnli"]
        assert huts(session).where_greater_than("beds", 100).count() == 5
        assert huts(session).order_by("beds", OrderingType.LONG).first().name == "Tin Box"
        assert huts(session).where_equals("name", "coaz").single().altitude == 2610
    assert seen[0].total_results == 5
    assert not seen[0].is_stale
    assert seen[0].index_name.startswith("Auto/Huts/By")


def test_a_projection_renames_fields_or_returns_a_single_one(store):
    with store.open_session() as session:
        bern = huts(session).where_equals("region", "bern").order_by("name")
        assert rows(bern.select_fields(Row, "name", "beds")) == [("Blüemlisalp", 138), ("Finsteraar", 115)]
        renamed = QueryData(["name", "altitude"], ["name", "beds"])
        assert rows(bern.select_fields_query_data(Row, renamed)) == [("Blüemlisalp", 2840), ("Finsteraar", 3048)]
        assert list(bern.select_fields(str, "name")) == ["Blüemlisalp", "Finsteraar"]


def test_a_projection_in_javascript_computes_and_loads(store):
    function = "{ name: h.name.toUpperCase() + '@' + load(h.club).name, beds: h.beds * 2 }"
    with store.open_session() as session:
        bern = huts(session).where_equals("region", "bern").order_by("name")
        projected = bern.select_fields_query_data(Row, QueryData.custom_function("h", function))
        assert rows(projected) == [("BLÜEMLISALP@Alpine Club", 276), ("FINSTERAAR@Alpine Club", 230)]


def test_distinct_keeps_one_row_of_each_kind(store):
    with store.open_session() as session:
        clubs = huts(session).where_not_none("club").select_fields(str, "club").distinct()
        assert sorted(clubs) == ["clubs/alpine", "clubs/guides", "clubs/nobody"]


def raw(store, text, **parameters):
    with store.open_session() as session:
        query = session.advanced.raw_query(text, dict).wait_for_non_stale_results()
        for name, value in parameters.items():
            query.add_parameter(name, value)
        return [{name: row[name] for name in row if name != "@metadata"} for row in query]


def test_raw_queries_declare_functions_load_documents_and_filter(store):
    function = "declare function shout(h) { return { text: h.name + '!' }; } "
    text = "from Huts as h where h.region = $r and h.beds > $b select shout(h)"
    assert raw(store, function + text, r="bern", b=120) == [{"text": "Blüemlisalp!"}]
    text = "from Huts as h where h.name = 'coaz' load h.club as c select { hut: h.name, club: c.name }"
    assert raw(store, text) == [{"hut": "Coaz", "club": "Alpine Club"}]
    assert raw(store, "from Huts where region = 'bern' filter beds > 120 select name") == [{"name": "Blüemlisalp"}]


@pytest.mark.parametrize("include", ["club", lambda b: b.include_documents("club")], ids=["path", "builder"])
def test_an_include_saves_the_second_request(store, include):
    with store.open_session() as session:
        assert len(list(huts(session).include(include).where_equals("region", "valais"))) == 3
        assert session.load("clubs/guides", Club).members == 80
        assert session.advanced.number_of_requests == 1


def test_lazy_queries_counts_and_loads_are_sent_in_one_request(store):
    with store.open_session() as session:
        bern = huts(session).where_equals("region", "bern").order_by("name").lazily()
        count = huts(session).where_equals("region", "grisons").count_lazily()
        club = session.advanced.lazily.load("clubs/guides", Club)
        session.advanced.eagerly.execute_all_pending_lazy_operations()
        assert [hut.name for hut in bern.value] == ["Blüemlisalp", "Finsteraar"]
        assert count.value == 2
        assert club.value.name == "Guides of Zermatt"
        assert session.advanced.number_of_requests == 1


def test_a_stream_returns_whole_documents_and_projections(store):
    with store.open_session() as session:
        names(session.query(object_type=Hut).where_equals("region", "bern").order_by("name"))
        bern = session.query(object_type=Hut).where_equals("region", "bern").order_by("name")
        streamed = [(row.key, row.document.name) for row in session.advanced.stream(bern)]
        assert streamed == [("huts/lake", "Blüemlisalp"), ("huts/ice", "Finsteraar")]
        seen = []
        streamed = session.advanced.stream_with_statistics(bern.select_fields(Row, "name", "beds"), seen.append)
        assert rows(row.document for row in streamed) == [("Blüemlisalp", 138), ("Finsteraar", 115)]
        assert seen[0].total_results == 2
        assert not seen[0].is_stale


def test_a_stream_is_written_to_a_file(store):
    with store.open_session() as session:
        names(session.query(object_type=Hut).where_equals("region", "bern"))
        file = io.BytesIO()
        session.query(object_type=Hut).where_equals("region", "bern").to_stream(file)
        assert {hut["name"] for hut in json.loads(file.getvalue())["Results"]} == {"Blüemlisalp", "Finsteraar"}


def test_timings_name_the_parts_of_a_query(store):
    seen = []
    with store.open_session() as session:
        list(huts(session).where_equals("name", "coaz").timings(seen.append))
    assert seen[0].duration_in_ms >= 0
    assert "Query" in seen[0].timings


def test_untracked_results_are_not_saved(store):
    with store.open_session() as session:
        hut = huts(session).where_equals("name", "coaz").no_tracking().single()
        hut.beds = 1
        session.save_changes()
    with store.open_session() as session:
        assert session.load("huts/round", Hut).beds == 80
