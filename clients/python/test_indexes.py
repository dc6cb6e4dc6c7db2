"""Queries that need an index: automatic ones, and definitions in C#."""

import pytest
from ravendb import AbstractIndexCreationTask, PutIndexesOperation
from ravendb.documents.indexes.definitions import IndexDefinition
from ravendb.documents.operations.indexes import GetIndexNamesOperation, GetIndexStatisticsOperation

from entities import City, remove, save


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save(
        store,
        {
            "cities/bern": City("Bern", 134000, "countries/ch", ["Vienna"]),
            "cities/basel": City("Basel", 173000, "countries/ch", []),
            "cities/berlin": City("Berlin", 3600000, "countries/de", ["Paris", "Vienna"]),
            "cities/none": City(None, 0),
        },
    )


def names(query):
    return [city.name for city in query.wait_for_non_stale_results()]


def cities(session):
    return session.query(object_type=City)


def test_conditions_find_documents_through_an_automatic_index(store):
    with store.open_session() as session:
        assert names(cities(session).where_equals("name", "BERN")) == ["Bern"]
        assert names(cities(session).where_equals("name", None)) == [None]
        assert names(cities(session).where_in("twins", ["vienna"]).order_by("name")) == ["Berlin", "Bern"]
        large = cities(session).where_greater_than("population", 150000)
        assert sorted(names(large)) == ["Basel", "Berlin"]


def test_words_prefixes_and_negations_return_the_matching_documents(store):
    with store.open_session() as session:
        assert sorted(names(cities(session).where_starts_with("name", "be"))) == ["Berlin", "Bern"]
        assert names(cities(session).search("name", "basel paris")) == ["Basel"]
        other = cities(session).where_not_equals("country", "countries/ch")
        assert sorted(str(name) for name in names(other)) == ["Berlin", "None"]


def test_a_change_is_found_by_a_query_that_waits_for_it(store):
    save(store, {"cities/bonn": City("Bonn", 330000, "countries/de")})
    with store.open_session() as session:
        assert names(cities(session).where_equals("name", "bonn")) == ["Bonn"]
    remove(store, "cities/bonn")
    with store.open_session() as session:
        assert names(cities(session).where_equals("name", "bonn")) == []


class CitiesByTwin(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = "from c in docs.Cities from t in c.twins select new { twin = t, c.population }"


def test_a_definition_of_a_class_is_stored_and_kept_up_to_date(store):
    CitiesByTwin().execute(store)
    with store.open_session() as session:
        query = session.query_index_type(CitiesByTwin, City).where_equals("twin", "paris")
        assert names(query) == ["Berlin"]
    statistics = store.maintenance.send(GetIndexStatisticsOperation("CitiesByTwin"))
    assert statistics.entries_count == 3


def test_an_invalid_definition_is_rejected(store):
    definition = IndexDefinition()
    definition.name = "Bad"
    definition.maps = {"from c in docs.Cities select new { c.name"}
    with pytest.raises(Exception, match="Bad"):
        store.maintenance.send(PutIndexesOperation(definition))
    assert "Bad" not in store.maintenance.send(GetIndexNamesOperation(0, 100))
