"""Every condition that the client can build, through automatic indexes."""

import pytest
from ravendb.documents.queries.misc import SearchOperator
from ravendb.documents.queries.query import QueryOperator

from huts import HUTS, Hut, names, save_huts

ALL = {hut.name for hut in HUTS.values()}
BERN = {"Blüemlisalp", "Finsteraar"}
GRISONS = {"Coaz", "Boval"}
VALAIS = {"Monte Rosa", "Hörnli", "Britannia"}


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)


def check(store, condition, expected):
    with store.open_session() as session:
        found = names(condition(session.query(object_type=Hut)))
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    "condition, expected",
    [
        (lambda q: q.where_equals("region", "VALAIS"), VALAIS),
        (lambda q: q.where_equals("region", "Valais", exact=True), VALAIS - {"Britannia"}),
        (lambda q: q.where_equals("beds", 120), {"Monte Rosa"}),
        (lambda q: q.where_equals("price", 75.5), {"Blüemlisalp"}),
        (lambda q: q.where_equals("tags", "ski"), {"Britannia", "Finsteraar"}),
        (lambda q: q.where_not_equals("region", "valais"), ALL - VALAIS),
        (lambda q: q.where_equals("region", None), {"Tin Box"}),
        (lambda q: q.where_not_none("region"), ALL - {"Tin Box"}),
        (lambda q: q.where_exists("price"), ALL),
        (lambda q: q.not_().where_exists("price"), set()),
        (lambda q: q.where_equals("id()", "huts/rosa"), {"Monte Rosa"}),
    ],
)
def test_equality_of_strings_without_case_numbers_nulls_and_lists(store, condition, expected):
    check(store, condition, expected)


@pytest.mark.parametrize(
    "condition, expected",
    [
        (lambda q: q.where_greater_than("altitude", 3030), {"Finsteraar", "Hörnli", "Tin Box"}),
        (lambda q: q.where_greater_than_or_equal("altitude", 3048), {"Finsteraar", "Hörnli", "Tin Box"}),
        (lambda q: q.where_less_than("altitude", 2610), {"Boval"}),
        (lambda q: q.where_less_than_or_equal("altitude", 2610), GRISONS),
        (lambda q: q.where_between("altitude", 2840, 3030), {"Blüemlisalp", "Monte Rosa", "Britannia"}),
        (lambda q: q.where_less_than("price", 70), {"Tin Box"}),
        (lambda q: q.where_between("price", 70, 80), {"Coaz", "Blüemlisalp", "Finsteraar"}),
        (lambda q: q.where_greater_than("name", "HÖRNLI"), {"Monte Rosa", "Tin Box"}),
    ],
)
def test_ranges_of_numbers_and_strings(store, condition, expected):
    check(store, condition, expected)


@pytest.mark.parametrize(
    "condition, expected",
    [
        (lambda q: q.where_in("region", ["bern", "GRISONS"]), BERN | GRISONS),
        (lambda q: q.where_in("region", ["bern", None]), BERN | {"Tin Box"}),
        (lambda q: q.where_in("region", []), set()),
        (lambda q: q.contains_any("tags", ["ski", "climbing"]), {"Britannia", "Finsteraar", "Hörnli", "Coaz"}),
        (lambda q: q.contains_all("tags", ["glacier", "climbing"]), {"Coaz"}),
        (lambda q: q.contains_any("tags", []), set()),
        (lambda q: q.contains_all("tags", []), ALL),
        (lambda q: q.where(region="bern", name=["coaz", "boval"]), BERN | GRISONS),
    ],
)
def test_lists_of_values(store, condition, expected):
    check(store, condition, expected)


@pytest.mark.parametrize(
    "condition, expected",
    [
        (lambda q: q.where_starts_with("name", "b"), {"Blüemlisalp", "Boval", "Britannia"}),
        (lambda q: q.where_starts_with("name", "b", exact=True), set()),
        (lambda q: q.where_ends_with("name", "A"), {"Britannia", "Monte Rosa"}),
        (lambda q: q.where_starts_with("id()", "huts/r"), {"Monte Rosa", "Hörnli", "Coaz"}),
        (lambda q: q.where_regex("name", "^b.*l$"), {"Boval"}),
        (lambda q: q.where_lucene("region", "gr*"), GRISONS),
        (lambda q: q.search("about", "matterhorn lake"), {"Monte Rosa", "Hörnli", "Blüemlisalp"}),
        (lambda q: q.search("about", "matterhorn stone", SearchOperator.AND), {"Hörnli"}),
        (lambda q: q.search("about", "glac*"), {"Monte Rosa", "Britannia", "Coaz", "Boval"}),
    ],
)
def test_parts_of_strings(store, condition, expected):
    check(store, condition, expected)


@pytest.mark.parametrize(
    "condition, expected",
    [
        (lambda q: q.not_().where_equals("region", "bern"), ALL - BERN),
        (lambda q: q.not_().search("about", "glac*"), {"Blüemlisalp", "Finsteraar", "Hörnli", "Tin Box"}),
        (
            lambda q: q.where_greater_than("altitude", 3000).and_also().not_().where_in("region", ["bern"]),
            {"Britannia", "Hörnli", "Tin Box"},
        ),
        (
            lambda q: q.open_subclause()
            .where_equals("region", "bern")
            .or_else()
            .where_equals("region", "grisons")
            .close_subclause()
            .and_also()
            .where_greater_than("altitude", 2800),
            BERN,
        ),
        (
            lambda q: q.not_()
            .open_subclause()
            .where_equals("region", "bern")
            .or_else()
            .where_equals("region", "grisons")
            .close_subclause(),
            VALAIS | {"Tin Box"},
        ),
        (
            lambda q: q.where_equals("region", "bern")
            .or_else()
            .where_equals("region", "grisons")
            .and_also(wrap_previous_query_clauses=True)
            .where_less_than("beds", 100),
            GRISONS,
        ),
        (
            lambda q: q.using_default_operator(QueryOperator.OR)
            .where_equals("region", "bern")
            .where_equals("name", "coaz"),
            BERN | {"Coaz"},
        ),
        (lambda q: q.where_equals("region", "bern").intersect().where_equals("tags", "ski"), {"Finsteraar"}),
    ],
)
def test_conditions_are_negated_nested_and_joined(store, condition, expected):
    check(store, condition, expected)
