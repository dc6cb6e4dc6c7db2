"""Full text: scores, boosts, proximity, fuzzy search, highlights, suggestions, similar documents, explanations."""

import json

import pytest
from ravendb import AbstractIndexCreationTask
from ravendb.documents.indexes.definitions import FieldIndexing, FieldStorage, FieldTermVector
from ravendb.documents.queries.highlighting import HighlightingOptions
from ravendb.documents.queries.more_like_this import MoreLikeThisOptions, MoreLikeThisStopWords
from ravendb.documents.queries.suggestions import StringDistanceTypes, SuggestionOptions, SuggestionSortMode

from entities import save
from huts import Hut, names, save_huts


class HutsByWords(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = "from h in docs.Huts select new { h.name, h.region, h.tags, h.about }"
        self._index("about", FieldIndexing.SEARCH)
        self._store("about", FieldStorage.YES)
        self._term_vector("about", FieldTermVector.WITH_POSITIONS_AND_OFFSETS)
        self._suggestion("about")
        self._suggestion("name")


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)
    save(store, {"stops/hut": MoreLikeThisStopWords(None, ["hut", "glacier", "view"])})
    HutsByWords().execute(store)


def huts(session):
    return session.query_index_type(HutsByWords, Hut).wait_for_non_stale_results()


def find(store, condition):
    with store.open_session() as session:
        return names(condition(huts(session)))


# ---- scores -----------------------------------------------------------------------------------


def test_two_matching_words_score_higher_than_one(store):
    with store.open_session() as session:
        found = list(huts(session).search("about", "glacier stone").order_by_score())
        scores = [session.advanced.get_metadata_for(hut)["@index-score"] for hut in found]
    assert found[0].name == "Coaz"
    assert len(scores) == 5 and scores[0] > 1.5 * scores[1]
    assert scores == sorted(scores, reverse=True)


def test_descending_scores_start_with_the_lowest(store):
    assert find(store, lambda q: q.search("about", "glacier stone").order_by_score_descending())[-1] == "Coaz"


@pytest.mark.parametrize("lake, road, first", [(1, 10, "Finsteraar"), (10, 1, "Blüemlisalp")])
def test_a_boost_decides_the_order(store, lake, road, first):
    found = find(
        store,
        lambda q: q.search("about", "lake")
        .boost(lake)
        .or_else()
        .search("about", "road")
        .boost(road)
        .order_by_score(),
    )
    assert (found[0], len(found)) == (first, 2)


def test_a_boost_of_a_subclause_applies_to_all_of_it(store):
    found = find(
        store,
        lambda q: q.open_subclause()
        .where_equals("region", "bern")
        .and_also()
        .where_equals("tags", "ski")
        .close_subclause()
        .boost(9)
        .or_else()
        .where_equals("region", "grisons")
        .order_by_score(),
    )
    assert found[0] == "Finsteraar"
    assert sorted(found[1:]) == ["Boval", "Coaz"]


def test_explanations_show_how_a_score_is_computed(store):
    seen = []
    with store.open_session() as session:
        list(huts(session).search("about", "lake").include_explanations(explanations_callback=seen.append))
    assert list(seen[0].explanations) == ["huts/lake"]
    assert "about:lake" in seen[0].explanations["huts/lake"][0]


# ---- near words -------------------------------------------------------------------------------


@pytest.mark.parametrize("distance, expected", [(1, []), (2, ["Hörnli"])])
def test_proximity_bounds_the_words_between(store, distance, expected):
    assert find(store, lambda q: q.search("about", "stone matterhorn").proximity(distance)) == expected


@pytest.mark.parametrize("likeness, expected", [(0.5, ["Britannia"]), (0.9, [])])
def test_fuzzy_finds_a_misspelt_name(store, likeness, expected):
    assert find(store, lambda q: q.where_equals("name", "brittania").fuzzy(likeness)) == expected


# ---- highlights -------------------------------------------------------------------------------


def fragments(store, words, options=None):
    seen = []
    with store.open_session() as session:
        list(huts(session).search("about", words).highlight("about", 40, 2, seen.append, options))
    return {key: [text.strip() for text in seen[0].get_fragments(key)] for key in seen[0].result_indents}


def test_highlights_mark_the_word_with_given_tags(store):
    found = fragments(store, "glacier", HighlightingOptions(pre_tags=["["], post_tags=["]"]))
    assert sorted(found) == ["huts/rosa", "huts/round", "huts/valley"]
    assert found["huts/valley"] == ["the Morteratsch [glacier]"]


def test_highlights_use_a_different_colour_for_each_word(store):
    found = fragments(store, "glacier stone")
    assert any('<b style="background:yellow">glacier</b>' in text for text in found["huts/round"])
    assert any('<b style="background:lawngreen">stone</b>' in text for text in found["huts/round"])


# ---- suggestions ------------------------------------------------------------------------------


def suggestions(query):
    return {name: result.suggestions for name, result in query.execute().items()}


def test_suggestions_come_from_the_terms_of_the_field(store):
    with store.open_session() as session:
        query = huts(session).suggest_using(lambda b: b.by_field("name", "brittania"))
        assert suggestions(query) == {"name": ["britannia"]}
        query = huts(session).suggest_using(lambda b: b.by_field("about", ["glacir", "stoen"]))
        assert {"glacier", "glaciers", "stone"} <= set(suggestions(query)["about"])


def test_suggestions_apply_their_options_and_names(store):
    options = SuggestionOptions(1, StringDistanceTypes.JARO_WINKLER, 0.4, SuggestionSortMode.NONE)
    with store.open_session() as session:
        builder = lambda b: b.by_field("about", "glacir").with_display_name("words").with_options(options)
        assert suggestions(huts(session).suggest_using(builder)) == {"words": ["glacier"]}
        strict = SuggestionOptions(accuracy=0.95)
        query = huts(session).suggest_using(lambda b: b.by_field("about", "glacir").with_options(strict))
        assert suggestions(query) == {"about": []}


def test_suggestions_for_two_fields_are_sent_together_and_lazily(store):
    with store.open_session() as session:
        query = huts(session).suggest_using(lambda b: b.by_field("name", "cozz"))
        lazy = query.and_suggest_using(lambda b: b.by_field("about", "rood")).execute_lazy()
        assert lazy.value["name"].suggestions == ["coaz"]
        assert "road" in lazy.value["about"].suggestions
        assert session.advanced.number_of_requests == 1


def test_suggestions_work_on_an_automatic_index(store):
    with store.open_session() as session:
        query = session.query(object_type=Hut).wait_for_non_stale_results()
        assert suggestions(query.suggest_using(lambda b: b.by_field("name", "brittania"))) == {"name": ["britannia"]}


def test_suggestions_on_a_field_without_them_are_rejected(store):
    with store.open_session() as session:
        with pytest.raises(Exception, match="does not have suggestions configured for field 'region'"):
            huts(session).suggest_using(lambda b: b.by_field("region", "bren")).execute()


# ---- more like this ---------------------------------------------------------------------------


def like(store, base, **options):
    chosen = MoreLikeThisOptions(minimum_term_frequency=1, fields=["about"], **options)
    return find(store, lambda q: q.more_like_this(lambda b: b.using_document(base).with_options(chosen)))


def rosa(query):
    return query.where_equals("id()", "huts/rosa")


def test_similar_documents_share_words_with_the_base(store):
    found = like(store, rosa, minimum_document_frequency=2)
    assert found[0] in ("Coaz", "Hörnli")
    assert "Monte Rosa" not in found and "Tin Box" not in found


def test_options_limit_similarity_to_rare_long_or_unstopped_words(store):
    assert like(store, rosa, minimum_document_frequency=1, maximum_document_frequency=2) == ["Hörnli"]
    assert like(store, rosa, minimum_document_frequency=2, minimum_word_length=8) == ["Hörnli"]
    assert like(store, rosa, minimum_document_frequency=2, stop_words_document_id="stops/hut") == ["Hörnli"]


def test_a_text_can_be_the_base(store):
    base = json.dumps({"about": "a hut far from a road"})
    assert like(store, base, minimum_document_frequency=1)[0] == "Finsteraar"


def test_a_missing_base_document_is_rejected(store):
    with pytest.raises(Exception, match="did not yield any documents"):
        like(store, lambda query: query.where_equals("id()", "huts/none"))
