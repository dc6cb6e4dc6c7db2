"""Spatial queries: circles, polygons and lines, nearest first, rounded distances, on automatic and static indexes."""

from dataclasses import dataclass
from typing import Optional

import pytest
from ravendb import AbstractIndexCreationTask, AbstractJavaScriptIndexCreationTask
from ravendb.documents.indexes.spatial.configuration import SpatialRelation, SpatialUnits
from ravendb.documents.queries.spatial import PointField, WktField
from ravendb.documents.session.misc import OrderingType

from entities import save
from huts import Hut, names, save_huts

ZERMATT = (46.02, 7.75)
BERNESE_ALPS = "POLYGON((7.5 46.3, 8.3 46.3, 8.3 46.7, 7.5 46.7, 7.5 46.3))"


class HutsByPlace(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = (
            "from h in docs.Huts select new { h.name, h.beds,"
            " place = CreateSpatialField((double?)h.latitude, (double?)h.longitude) }"
        )


class HutsByPlaceInJavaScript(AbstractJavaScriptIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.maps = ["map('Huts', h => ({ place: createSpatialField(h.latitude, h.longitude) }))"]


class HutsByQuadTree(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = (
            "from h in docs.Huts where h.latitude != null"
            ' select new { place = CreateSpatialField("POINT(" + h.longitude + " " + h.latitude + ")") }'
        )
        self._spatial("place", lambda options: options.geography().quad_prefix_tree_index(20))


@dataclass(eq=False)
class Trail:
    name: Optional[str] = None
    line: Optional[str] = None


@pytest.fixture(scope="module", autouse=True)
def documents(store):
    save_huts(store)
    north = Trail("north", "LINESTRING(7.0 46.6, 8.0 46.6)")
    south = Trail("south", "LINESTRING(7.0 46.0, 8.0 46.0)")
    save(store, {"trails/north": north, "trails/south": south})
    for index in HutsByPlace, HutsByPlaceInJavaScript, HutsByQuadTree:
        index().execute(store)


def place():
    return PointField("latitude", "longitude")


def find(store, condition, index=HutsByPlace):
    with store.open_session() as session:
        return names(condition(session.query_index_type(index, Hut)))


def find_unindexed(store, condition, object_type=Hut):
    with store.open_session() as session:
        return names(condition(session.query(object_type=object_type)))


def test_a_circle_nearest_first_on_an_automatic_index(store):
    near = lambda q: q.spatial(place(), lambda c: c.within_radius(15, *ZERMATT)).order_by_distance(place(), *ZERMATT)
    assert find_unindexed(store, near) == ["Hörnli", "Monte Rosa"]


def test_a_radius_in_miles_reaches_further_than_in_kilometers(store):
    def within(radius, units):
        circle = lambda c: c.within_radius(radius, *ZERMATT, units)
        return sorted(find_unindexed(store, lambda q: q.spatial(place(), circle)))

    assert within(10, SpatialUnits.MILES) == ["Britannia", "Hörnli", "Monte Rosa"]
    assert within(10, SpatialUnits.KILOMETERS) == ["Hörnli", "Monte Rosa"]


@pytest.mark.parametrize("index", [HutsByPlace, HutsByPlaceInJavaScript, HutsByQuadTree])
def test_a_circle_on_static_indexes(store, index):
    found = find(store, lambda q: q.within_radius_of("place", 15, *ZERMATT).order_by_distance("place", *ZERMATT), index)
    assert found == ["Hörnli", "Monte Rosa"]


@pytest.mark.parametrize("index", [HutsByPlace, HutsByPlaceInJavaScript, HutsByQuadTree])
@pytest.mark.parametrize("relation", [SpatialRelation.WITHIN, SpatialRelation.INTERSECTS])
def test_a_polygon(store, index, relation):
    found = find(store, lambda q: q.relates_to_shape("place", BERNESE_ALPS, relation), index)
    assert sorted(found) == ["Blüemlisalp", "Finsteraar"]


def test_spatial_clauses_are_combined_and_negated(store):
    alps = lambda c: c.within(BERNESE_ALPS)
    joined = lambda q: q.spatial("place", alps).and_also().spatial("place", lambda c: c.within_radius(10, 46.5, 7.77))
    assert find(store, joined) == ["Blüemlisalp"]
    outside = find(store, lambda q: q.not_().spatial("place", alps))
    assert sorted(outside) == ["Boval", "Britannia", "Coaz", "Hörnli", "Monte Rosa", "Tin Box"]


def test_lines_cross_a_polygon_or_are_within_it(store):
    crossing = lambda q: q.spatial(WktField("line"), lambda c: c.intersects(BERNESE_ALPS))
    assert find_unindexed(store, crossing, Trail) == ["north"]
    south = "POLYGON((6 45, 9 45, 9 46.3, 6 46.3, 6 45))"
    assert find_unindexed(store, lambda q: q.spatial(WktField("line"), lambda c: c.within(south)), Trail) == ["south"]


def test_order_by_distance_puts_documents_without_a_position_last(store):
    nearest = ["Hörnli", "Monte Rosa", "Britannia", "Blüemlisalp", "Finsteraar", "Coaz", "Boval"]
    assert find(store, lambda q: q.order_by_distance("place", *ZERMATT)) == nearest + ["Tin Box"]
    farthest = find_unindexed(store, lambda q: q.order_by_distance_descending(place(), *ZERMATT))
    assert farthest == nearest[::-1] + ["Tin Box"]


def test_rounded_distances_are_ties_for_the_next_order(store):
    def near(query):
        circle = query.spatial(place(), lambda c: c.within_radius(100, *ZERMATT))
        return circle.order_by_distance(place().round_to(50), *ZERMATT).order_by("beds", OrderingType.LONG)

    assert find_unindexed(store, near) == ["Monte Rosa", "Hörnli", "Britannia", "Finsteraar", "Blüemlisalp"]


def test_the_distance_is_in_the_metadata(store):
    with store.open_session() as session:
        query = session.query_index_type(HutsByPlace, Hut).wait_for_non_stale_results()
        hut = query.order_by_distance("place", *ZERMATT).first()
        spatial = session.advanced.get_metadata_for(hut)["@spatial"]
    assert hut.name == "Hörnli"
    assert spatial["Distance"] == pytest.approx(7.05, abs=0.02)
    assert (spatial["Latitude"], spatial["Longitude"]) == (hut.latitude, hut.longitude)


@pytest.mark.parametrize(
    "criteria, message",
    [
        (lambda c: c.within("POLYGON(("), "is not a valid WKT"),
        (lambda c: c.within_radius(1, 200, 7), "Bad Y value 200"),
    ],
)
def test_invalid_shapes_are_rejected(store, criteria, message):
    with pytest.raises(Exception, match=message):
        find(store, lambda q: q.spatial("place", criteria))
