"""Map-reduce: indexes with a reduce in C# and JavaScript, over several collections, and group by in queries."""

import pytest
from ravendb import AbstractIndexCreationTask, AbstractJavaScriptIndexCreationTask
from ravendb.documents.indexes.abstract_index_creation_tasks import AbstractMultiMapIndexCreationTask
from ravendb.documents.queries.group_by import GroupBy
from ravendb.documents.session.misc import OrderingType
from ravendb.documents.session.query_group_by import GroupByField

from entities import remove, save
from huts import Club, Hut, save_huts


class HutsByRegion(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = "from h in docs.Huts select new { h.region, count = 1, h.beds }"
        self.reduce = (
            "from r in results group r by r.region into g"
            " select new { region = g.Key, count = g.Sum(x => x.count), beds = g.Sum(x => x.beds) }"
        )


class HutsByTag(AbstractJavaScriptIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.maps = [
            "map('Huts', h => { if (!h.tags) return null;"
            " return h.tags.map(t => { return { tag: t, count: 1, beds: h.beds }; }); })"
        ]
        self.reduce = (
            "groupBy(x => x.tag).aggregate(g => { return { tag: g.key,"
            " count: g.values.reduce((n, x) => n + x.count, 0), beds: g.values.reduce((n, x) => n + x.beds, 0) }; })"
        )


class BedsByClub(AbstractMultiMapIndexCreationTask):
    def __init__(self):
        super().__init__()
        self._add_map("from h in docs.Huts select new { club = h.club, name = (string)null, beds = h.beds }")
        self._add_map("from c in docs.Clubs select new { club = Id(c), name = c.name, beds = 0 }")
        self._reduce = (
            "from r in results group r by r.club into g select new { club = g.Key,"
            " name = g.Select(x => x.name).FirstOrDefault(n => n != null), beds = g.Sum(x => x.beds) }"
        )


class HutsByClubName(AbstractIndexCreationTask):
    """The club is a separate document, so a hut's row depends on two documents."""

    def __init__(self):
        super().__init__()
        self.map = (
            'from h in docs.Huts let c = LoadDocument(h.club, "Clubs") where c != null'
            " select new { club = c.name, highest = h.altitude, lowest = h.altitude, names = new [] { h.name } }"
        )
        self.reduce = (
            "from r in results group r by r.club into g select new { club = g.Key,"
            " highest = g.Max(x => x.highest), lowest = g.Min(x => x.lowest),"
            " names = g.SelectMany(x => x.names).OrderBy(x => x) }"
        )


class BedsReplaced(AbstractIndexCreationTask):
    """A definition that is sent twice, with different factors."""

    def __init__(self, factor=1):
        super().__init__()
        self.map = f"from h in docs.Huts where h.region != null select new {{ h.region, beds = h.beds * {factor} }}"
        self.reduce = (
            "from r in results group r by r.region into g select new { region = g.Key, beds = g.Sum(x => x.beds) }"
        )


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)
    for index in HutsByRegion, HutsByTag, BedsByClub, HutsByClubName:
        index().execute(store)


def results(query):
    """The values of each result in the order of its properties, without metadata."""
    rows = query.of_type(dict).wait_for_non_stale_results()
    return [tuple(row[name] for name in row if name != "@metadata") for row in rows]


def groups(store, index, query=lambda q: q):
    with store.open_session() as session:
        return results(query(session.query_index_type(index, dict)))


def grouped(store, query):
    with store.open_session() as session:
        return set(results(query(session.query(object_type=Hut))))


def test_an_index_in_csharp_sums_by_key_and_keeps_the_case_of_keys(store):
    found = groups(store, HutsByRegion, lambda q: q.order_by("beds", OrderingType.LONG))
    assert found == [(None, 1, 6), ("valais", 1, 134), ("Grisons", 2, 170), ("Valais", 2, 250), ("Bern", 2, 253)]


def test_sums_are_updated_by_puts_moves_and_deletes(store):
    bern = lambda: groups(store, HutsByRegion, lambda q: q.where_equals("region", "bern"))
    save(store, {"huts/new": Hut("New", "Bern", 1, 10)})
    assert bern() == [("Bern", 3, 263)]
    save(store, {"huts/new": Hut("New", "Uri", 1, 10)})
    assert bern() == [("Bern", 2, 253)]
    assert groups(store, HutsByRegion, lambda q: q.where_equals("region", "uri")) == [("Uri", 1, 10)]
    remove(store, "huts/new")
    assert groups(store, HutsByRegion, lambda q: q.where_equals("region", "uri")) == []


def test_results_are_filtered_paged_and_projected_like_documents(store):
    with store.open_session() as session:
        query = session.query_index_type(HutsByRegion, dict).wait_for_non_stale_results()
        several = query.where_greater_than("count", 1).order_by_descending("beds", OrderingType.LONG)
        assert list(several.skip(1).take(1).select_fields(str, "region")) == ["Valais"]


def test_results_are_streamed(store):
    groups(store, HutsByRegion)
    with store.open_session() as session:
        query = session.query_index_type(HutsByRegion, dict).order_by("beds", OrderingType.LONG)
        assert [row.document["beds"] for row in session.advanced.stream(query)] == [6, 134, 170, 250, 253]


def test_an_index_in_javascript_sums_the_items_of_lists(store):
    found = groups(store, HutsByTag, lambda q: q.order_by("tag"))
    assert found == [("climbing", 2, 210), ("glacier", 4, 472), ("ski", 2, 249), ("winter", 2, 235)]


def test_an_index_over_two_collections_joins_them_by_key(store):
    found = groups(store, BedsByClub, lambda q: q.order_by("club"))
    assert found == [
        (None, None, 6),
        ("clubs/alpine", "Alpine Club", 587),
        ("clubs/guides", "Guides of Zermatt", 130),
        ("clubs/nobody", None, 90),
    ]


def test_group_by_counts_and_sums_through_an_automatic_index(store):
    found = grouped(store, lambda q: q.group_by("region").select_key().select_count())
    assert found == {("Valais", 2), ("valais", 1), ("Bern", 2), ("Grisons", 2), (None, 1)}
    beds = GroupByField("beds", "places")
    found = grouped(store, lambda q: q.group_by("region").select_key(projected_name="where").select_sum(beds))
    assert found == {("Valais", 250), ("valais", 134), ("Bern", 253), ("Grisons", 170), (None, 6)}


def test_groups_are_filtered_by_key_and_by_count_and_ordered(store):
    by_region = lambda q: q.group_by("region").select_key().select_count("huts")
    assert grouped(store, lambda q: by_region(q).where_equals("region", "bern")) == {("Bern", 2)}
    several = lambda q: by_region(q).where_greater_than("huts", 1).order_by_descending("region")
    with store.open_session() as session:
        assert results(several(session.query(object_type=Hut))) == [("Valais", 2), ("Grisons", 2), ("Bern", 2)]


def test_groups_of_two_keys(store):
    both = lambda q: q.group_by("region", "club").select_key("region").select_key("club").select_count()
    assert ("Bern", "clubs/alpine", 2) in grouped(store, both)
    assert len(grouped(store, both)) == 7


def test_groups_by_item_and_by_whole_list(store):
    found = grouped(store, lambda q: q.group_by("tags[]").select_key("tags[]", "tag").select_count())
    assert found == {("glacier", 4), ("winter", 2), ("climbing", 2), ("ski", 2), (None, 1)}
    with store.open_session() as session:
        query = session.query(object_type=Hut).group_by(GroupBy.array("tags")).select_key("tags").select_count()
        whole = results(query)
    assert (["ski", "winter"], 1) in whole and ([], 1) in whole and (None, 1) in whole
    assert len(whole) == 8


def test_a_group_is_updated_when_its_documents_change(store):
    alpine = (3048, 2610, ["Blüemlisalp", "Britannia", "Coaz", "Finsteraar", "Monte Rosa"])
    guides = (3260, 3260, ["Hörnli"])
    by_name = lambda: groups(store, HutsByClubName, lambda q: q.order_by("club"))
    assert by_name() == [("Alpine Club", *alpine), ("Guides of Zermatt", *guides)]
    save(store, {"clubs/guides": Club("Zermatt Guides", 80)})
    assert by_name() == [("Alpine Club", *alpine), ("Zermatt Guides", *guides)]
    save(store, {"clubs/guides": Club("Guides of Zermatt", 80)})


def test_the_old_definition_answers_until_the_changed_one_has_caught_up(store):
    beds = lambda: dict(groups(store, BedsReplaced))
    BedsReplaced().execute(store)
    old = {"Valais": 250, "valais": 134, "Bern": 253, "Grisons": 170}
    assert beds() == old
    BedsReplaced(factor=10).execute(store)
    new = {region: 10 * sum_of for region, sum_of in old.items()}
    while (found := beds()) != new:
        assert found == old


def test_results_are_counted_by_facets(store):
    with store.open_session() as session:
        query = session.query_index_type(HutsByRegion, dict).wait_for_non_stale_results()
        query = query.where_greater_than("beds", 100)
        facets = query.aggregate_by(lambda builder: builder.by_field("count").sum_on("beds")).execute()
    found = {value.range_: (value.count_, value.sum_) for value in facets["count"].values}
    assert found == {"1": (1, 134), "2": (3, 673)}


def test_groups_are_ordered_and_filtered_by_sums(store):
    beds = GroupByField("beds", "places")
    by_region = lambda q: q.group_by("region").select_key().select_sum(beds)
    with store.open_session() as session:
        query = by_region(session.query(object_type=Hut)).where_greater_than("places", 134)
        assert results(query.order_by_descending("places", OrderingType.LONG)) == [
            ("Bern", 253),
            ("Valais", 250),
            ("Grisons", 170),
        ]


def test_groups_are_projected_by_a_script(store):
    text = (
        "from Huts as h group by h.region where region = $region"
        " select { where: key(), mean: sum(x => x.beds) / count(), huts: count() }"
    )
    with store.open_session() as session:
        query = session.advanced.raw_query(text, object_type=dict).add_parameter("region", "Bern")
        row, = query.wait_for_non_stale_results()
        assert (row["where"], row["mean"], row["huts"]) == ("Bern", 126.5, 2)
