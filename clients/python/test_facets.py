"""Facets: values counted and aggregated by field, by range, and as defined by a document."""

import pytest
from ravendb import AbstractIndexCreationTask
from ravendb.documents.queries.facets.builders import RangeBuilder
from ravendb.documents.queries.facets.definitions import Facet, FacetSetup, RangeFacet
from ravendb.documents.queries.facets.misc import FacetOptions, FacetTermSortMode

from entities import save
from huts import Hut, save_huts


class HutsByFacets(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = "from h in docs.Huts select new { h.region, h.tags, h.beds, h.price, h.altitude }"


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)
    HutsByFacets().execute(store)


def huts(session):
    return session.query_index_type(HutsByFacets, Hut).wait_for_non_stale_results()


def facets(store, query):
    with store.open_session() as session:
        return query(huts(session)).execute()


def counts(facet):
    return {value.range_: value.count_ for value in facet.values}


def options(sort_mode, page_size=None, start=0, include_remaining_terms=False):
    chosen = FacetOptions()
    chosen.term_sort_mode = sort_mode
    chosen.start = start
    chosen.include_remaining_terms = include_remaining_terms
    if page_size is not None:
        chosen.page_size = page_size
    return chosen


def beds():
    return RangeBuilder.for_path("beds")


def test_a_field_is_counted_by_its_terms_and_nulls(store):
    found = facets(store, lambda q: q.aggregate_by(lambda b: b.by_field("region")))
    assert counts(found["region"]) == {"valais": 3, "bern": 2, "grisons": 2, "NULL_VALUE": 1}
    assert found["region"].remaining_terms_count == 0


def test_a_list_is_counted_by_its_items_under_a_given_name(store):
    found = facets(store, lambda q: q.aggregate_by(lambda b: b.by_field("tags").with_display_name("kind")))
    assert counts(found["kind"]) == {"glacier": 4, "climbing": 2, "ski": 2, "winter": 2, "NULL_VALUE": 1}


def test_numbers_are_aggregated_by_term(store):
    query = lambda q: q.aggregate_by(
        lambda b: b.by_field("region").sum_on("beds").max_on("beds").min_on("beds").average_on("price")
    )
    bern = {value.name: value for value in facets(store, query)["region"].values if value.range_ == "bern"}
    assert (bern["beds"].sum_, bern["beds"].max_, bern["beds"].min_) == (253, 138, 115)
    assert bern["price"].average_ == 77.25


def test_an_aggregation_has_its_given_name(store):
    found = facets(store, lambda q: q.aggregate_by(lambda b: b.by_field("region").sum_on("beds", "places")))
    assert {(value.range_, value.name, value.sum_) for value in found["region"].values} >= {("bern", "places", 253)}


def test_ranges_are_counted_in_the_order_given(store):
    query = lambda q: q.aggregate_by(
        lambda b: b.by_ranges(
            beds().is_less_than(100),
            beds().is_greater_than_or_equal_to(100).is_less_than(130),
            beds().is_greater_than_or_equal_to(130),
            beds().is_greater_than(1000),
        )
    )
    values = facets(store, query)["beds"].values
    assert [(value.range_, value.count_) for value in values] == [
        ("beds < 100", 3),
        ("beds >= 100 and beds < 130", 2),
        ("beds >= 130", 3),
        ("beds > 1000", 0),
    ]


def test_ranges_are_aggregated_too(store):
    query = lambda q: q.aggregate_by(
        lambda b: b.by_ranges(beds().is_less_than(100), beds().is_greater_than_or_equal_to(100))
        .with_display_name("size")
        .sum_on("beds")
        .max_on("altitude")
    )
    values = facets(store, query)["size"].values
    assert {(v.range_, v.sum_) for v in values if v.name == "beds"} == {("beds < 100", 176), ("beds >= 100", 637)}
    assert {(v.range_, v.max_) for v in values if v.name == "altitude"} == {("beds < 100", 3800), ("beds >= 100", 3260)}


def test_the_most_frequent_terms_come_first_and_the_remaining_ones_are_listed(store):
    chosen = options(FacetTermSortMode.COUNT_DESC, page_size=2, include_remaining_terms=True)
    found = facets(store, lambda q: q.aggregate_by(lambda b: b.by_field("tags").with_options(chosen)))["tags"]
    assert [(value.range_, value.count_) for value in found.values] == [("glacier", 4), ("climbing", 2)]
    assert sorted(found.remaining_terms) == ["NULL_VALUE", "ski", "winter"]
    assert (found.remaining_terms_count, found.remaining_hits) == (3, 5)


def test_terms_are_paged_in_descending_order(store):
    chosen = options(FacetTermSortMode.VALUE_DESC, page_size=2, start=1)
    condition = lambda q: q.where_not_none("region")
    found = facets(store, lambda q: condition(q).aggregate_by(lambda b: b.by_field("region").with_options(chosen)))
    assert [value.range_ for value in found["region"].values] == ["grisons", "bern"]


def test_several_facets_of_the_matching_documents(store):
    query = (
        lambda q: q.where_greater_than("altitude", 3000)
        .where_equals("region", "valais")
        .aggregate_by(lambda b: b.by_field("region"))
        .and_aggregate_by(lambda b: b.by_field("tags"))
        .and_aggregate_by(lambda b: b.by_ranges(beds().is_less_than(134)))
    )
    found = facets(store, query)
    assert counts(found["region"]) == {"valais": 2}
    assert counts(found["tags"]) == {"climbing": 1, "glacier": 1, "ski": 1}
    assert counts(found["beds"]) == {"beds < 134": 1}


def test_all_results_are_aggregated_as_one(store):
    found = facets(store, lambda q: q.aggregate_by(lambda b: b.all_results().sum_on("beds").max_on("price")))
    values = {value.name: value for value in found["@AllResults"].values}
    assert (values["beds"].count_, values["beds"].sum_, values["price"].max_) == (8, 813, 150)


def test_a_setup_document_defines_facets(store):
    region, size = Facet("region"), RangeFacet()
    region.options = options(FacetTermSortMode.COUNT_DESC)
    size.ranges = ["beds < 100", "beds >= 100"]
    save(store, {"facets/huts": FacetSetup([region], [size])})
    found = facets(store, lambda q: q.aggregate_using("facets/huts"))
    assert found["region"].values[0].range_ == "valais"
    assert counts(found["beds"]) == {"beds < 100": 3, "beds >= 100": 5}


def test_lazy_facets_and_a_lazy_query_are_sent_in_one_request(store):
    with store.open_session() as session:
        bern = huts(session).where_equals("region", "bern")
        tags = bern.aggregate_by(lambda b: b.by_field("tags")).execute_lazy()
        everyone = huts(session).lazily()
        assert counts(tags.value["tags"]) == {"glacier": 1, "ski": 1, "winter": 1}
        assert len(everyone.value) == 8
        assert session.advanced.number_of_requests == 1


def test_a_raw_query_can_select_facets(store):
    with store.open_session() as session:
        query = session.advanced.raw_query("from index 'HutsByFacets' select facet(region, sum(beds))", Hut)
        found = query.wait_for_non_stale_results().execute_aggregation()
    assert {value.range_: value.sum_ for value in found["region"].values}["grisons"] == 170


def test_facets_of_a_collection_are_rejected(store):
    with store.open_session() as session:
        with pytest.raises(Exception, match="static index"):
            session.query(object_type=Hut).aggregate_by(lambda b: b.by_field("region")).execute()
