"""Features of static indexes: load, compute, dynamic fields, several collections."""

import pytest
from ravendb import AbstractIndexCreationTask, AbstractJavaScriptIndexCreationTask
from ravendb.documents.indexes.abstract_index_creation_tasks import AbstractMultiMapIndexCreationTask
from ravendb.documents.indexes.definitions import FieldIndexing, FieldStorage, IndexFieldOptions
from ravendb.documents.queries.query import ProjectionBehavior

from entities import save
from huts import CLUBS, Club, Hut, names, save_huts


class HutsInCSharp(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = """
            from h in docs.Huts
            let club = LoadDocument(h.club, "Clubs")
            select new
            {
                h.name,
                owner = club.name,
                size = h.beds > 100 ? "large" : "small",
                label = h.name + " in " + (h.region ?? "nowhere"),
                _ = h.tags.Select(t => CreateField("tag_" + t, true))
            }"""
        self._index("name", FieldIndexing.EXACT)
        self._index("label", FieldIndexing.SEARCH)
        self._store("size", FieldStorage.YES)


class HutsInJavaScript(AbstractJavaScriptIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.maps = [
            "map('Huts', function (h) { return { name: h.name, about: h.about,"
            " owner: load(h.club, 'Clubs').name, size: h.beds > 100 ? 'large' : 'small' }; })"
        ]
        about = IndexFieldOptions()
        about.indexing = FieldIndexing.SEARCH
        self.fields = {"about": about}


class Names(AbstractMultiMapIndexCreationTask):
    def __init__(self):
        super().__init__()
        self._add_map('from h in docs.Huts select new { h.name, kind = "hut" }')
        self._add_map('from c in docs.Clubs select new { c.name, kind = "club" }')


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)
    for index in HutsInCSharp, HutsInJavaScript, Names:
        index().execute(store)


def find(store, index, condition):
    with store.open_session() as session:
        return names(condition(session.query_index_type(index, Hut)).order_by("name"))


@pytest.mark.parametrize("index", [HutsInCSharp, HutsInJavaScript])
def test_a_loaded_document_is_part_of_the_entry_and_updates_it(store, index):
    owned_by = lambda name: find(store, index, lambda q: q.where_equals("owner", name))
    assert owned_by("alpine club") == ["Blüemlisalp", "Britannia", "Coaz", "Finsteraar", "Monte Rosa"]
    save(store, {"clubs/guides": Club("Renamed", 1)})
    assert owned_by("renamed") == ["Hörnli"]
    save(store, {"clubs/guides": CLUBS["clubs/guides"]})
    assert owned_by("renamed") == []


@pytest.mark.parametrize(
    "behavior, expected",
    [
        (ProjectionBehavior.DEFAULT, ("small", 80)),
        (ProjectionBehavior.FROM_INDEX, ("small", None)),
        (ProjectionBehavior.FROM_DOCUMENT, (None, 80)),
    ],
)
def test_a_projection_takes_its_fields_from_the_index_or_the_document(store, behavior, expected):
    with store.open_session() as session:
        # Not cached: the client caches responses by query text, which does not include the behavior.
        query = session.query_index_type(HutsInCSharp, Hut).wait_for_non_stale_results().no_caching()
        coaz = query.where_equals("name", "Coaz")
        (row,) = coaz.select_fields(dict, "size", "beds", projection_behavior=behavior)
    assert (row.get("size"), row.get("beds")) == expected


def test_an_exact_field_keeps_its_case_and_an_analyzed_one_its_words(store):
    assert find(store, HutsInCSharp, lambda q: q.where_equals("name", "coaz")) == []
    assert find(store, HutsInCSharp, lambda q: q.where_equals("name", "Coaz")) == ["Coaz"]
    assert find(store, HutsInCSharp, lambda q: q.search("label", "bern")) == ["Blüemlisalp", "Finsteraar"]
    assert find(store, HutsInCSharp, lambda q: q.search("label", "nowhere")) == ["Tin Box"]


def test_field_names_can_come_from_the_document(store):
    assert find(store, HutsInCSharp, lambda q: q.where_equals("tag_ski", True)) == ["Britannia", "Finsteraar"]


def test_fields_of_an_index_in_javascript_use_its_options(store):
    words = lambda q: q.search("about", "matterhorn").and_also().where_equals("size", "large")
    assert find(store, HutsInJavaScript, words) == ["Hörnli", "Monte Rosa"]


def test_an_index_over_two_collections_returns_both(store):
    with store.open_session() as session:
        query = session.query_index_type(Names, object).wait_for_non_stale_results()
        found = list(query.where_starts_with("name", "b").or_else().where_equals("kind", "club").order_by("name"))
    assert [hut.name for hut in found] == ["Alpine Club", "Blüemlisalp", "Boval", "Britannia", "Guides of Zermatt"]


def test_a_field_that_no_map_has_is_rejected(store):
    with pytest.raises(Exception, match="not indexed"):
        find(store, Names, lambda q: q.where_equals("beds", 1))
