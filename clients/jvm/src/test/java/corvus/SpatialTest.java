package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.indexes.spatial.SpatialRelation;
import net.ravendb.client.documents.indexes.spatial.SpatialUnits;
import net.ravendb.client.documents.queries.spatial.DynamicSpatialField;
import net.ravendb.client.documents.queries.spatial.PointField;
import net.ravendb.client.documents.queries.spatial.WktField;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.OrderingType;
import net.ravendb.client.exceptions.RavenException;

/** Spatial queries: circles, polygons and lines, nearest first, rounded distances, on automatic and static indexes. */
class SpatialTest extends HutsTest {
    private static final double LATITUDE = 46.02;
    private static final double LONGITUDE = 7.75;
    private static final String BERNESE_ALPS = "POLYGON((7.5 46.3, 8.3 46.3, 8.3 46.7, 7.5 46.7, 7.5 46.3))";
    private static final List<String> NEAREST_FIRST = List.of(
        "Hörnli", "Monte Rosa", "Britannia", "Blüemlisalp", "Finsteraar", "Coaz", "Boval", "Tin Box");

    public static class HutsByPlace extends AbstractIndexCreationTask {
        public HutsByPlace() {
            map = "docs.Huts.Select(h => new { h.beds, "
                + "place = this.CreateSpatialField((double?)h.latitude, (double?)h.longitude) })";
            spatial("place", options -> options.geography().geohashPrefixTreeIndex(9));
        }
    }

    public static class Trail {
        public String line;
    }

    private static PointField place() {
        return new PointField("latitude", "longitude");
    }

    @BeforeAll
    void storeIndexAndTrails() {
        new HutsByPlace().execute(store);
        for (var trail : Map.of("trails/north", "46.6", "trails/south", "46.0").entrySet()) {
            Trail line = new Trail();
            line.line = String.format("LINESTRING(7.0 %1$s, 8.0 %1$s)", trail.getValue());
            Server.save(store, line, trail.getKey());
        }
    }

    private List<String> findIndexed(Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> condition) {
        try (IDocumentSession session = store.openSession()) {
            return names(condition.apply(session.query(Hut.class, HutsByPlace.class)));
        }
    }

    @Test
    void aCircleNearestFirst() {
        assertEquals(NEAREST_FIRST.subList(0, 2),
            find(q -> q.spatial(place(), c -> c.withinRadius(15, LATITUDE, LONGITUDE))
                .orderByDistance(place(), LATITUDE, LONGITUDE)));
        assertEquals(NEAREST_FIRST.subList(0, 3),
            find(q -> q.spatial(place(), c -> c.withinRadius(10, LATITUDE, LONGITUDE, SpatialUnits.MILES))
                .orderByDistance(place(), LATITUDE, LONGITUDE)));
        assertEquals(NEAREST_FIRST.subList(0, 2),
            findIndexed(q -> q.withinRadiusOf("place", 15, LATITUDE, LONGITUDE)
                .orderByDistance("place", LATITUDE, LONGITUDE)));
    }

    @Test
    void aPolygonAndItsNegation() {
        Set<String> inside = Set.of("Blüemlisalp", "Finsteraar");
        assertEquals(inside, Set.copyOf(findIndexed(q -> q.spatial("place", c -> c.within(BERNESE_ALPS)))));
        assertEquals(inside,
            Set.copyOf(findIndexed(q -> q.relatesToShape("place", BERNESE_ALPS, SpatialRelation.INTERSECTS))));
        assertEquals(Set.of("Blüemlisalp"), Set.copyOf(findIndexed(q -> q.spatial("place", c -> c.within(BERNESE_ALPS))
            .andAlso().spatial("place", c -> c.withinRadius(10, 46.5, 7.77)))));
        assertEquals(Set.of("Monte Rosa", "Hörnli", "Britannia", "Coaz", "Boval"),
            Set.copyOf(findIndexed(q -> q.not().spatial("place", c -> c.within(BERNESE_ALPS)))));
    }

    @Test
    void linesCrossAPolygonOrAreWithinIt() {
        DynamicSpatialField line = new WktField("line");
        try (IDocumentSession session = store.openSession()) {
            Trail north = session.query(Trail.class).waitForNonStaleResults()
                .spatial(line, c -> c.intersects(BERNESE_ALPS)).single();
            assertEquals("trails/north", session.advanced().getDocumentId(north));
            Trail south = session.query(Trail.class)
                .spatial(line, c -> c.within("POLYGON((6 45, 9 45, 9 46.3, 6 46.3, 6 45))")).single();
            assertEquals("trails/south", session.advanced().getDocumentId(south));
        }
    }

    @Test
    void orderByDistancePutsDocumentsWithoutAPositionLast() {
        assertEquals(NEAREST_FIRST, findIndexed(q -> q.orderByDistance("place", LATITUDE, LONGITUDE)));
        List<String> farthest = findIndexed(q -> q.orderByDistanceDescending("place", LATITUDE, LONGITUDE));
        assertEquals(List.of("Boval", "Coaz"), farthest.subList(0, 2));
        assertEquals("Tin Box", farthest.get(7));
        assertEquals(List.of("Britannia", "Monte Rosa", "Hörnli"),
            find(q -> q.spatial(place(), c -> c.withinRadius(20, LATITUDE, LONGITUDE))
                .orderByDistanceDescending(place(), LATITUDE, LONGITUDE)));
    }

    @Test
    void roundedDistancesAreTiesForTheNextOrder() {
        assertEquals(List.of("Monte Rosa", "Hörnli", "Britannia", "Finsteraar", "Blüemlisalp"),
            findIndexed(q -> q.withinRadiusOf("place", 100, LATITUDE, LONGITUDE)
                .orderByDistance("place", LATITUDE, LONGITUDE, 50).orderBy("beds", OrderingType.LONG)));
    }

    @Test
    void theDistanceIsInTheMetadata() {
        try (IDocumentSession session = store.openSession()) {
            Hut hut = session.query(Hut.class, HutsByPlace.class).waitForNonStaleResults()
                .orderByDistance("place", LATITUDE, LONGITUDE).first();
            var spatial = session.advanced().getMetadataFor(hut).getObject("@spatial");
            assertEquals(7.05, ((Number) spatial.get("Distance")).doubleValue(), 0.02);
        }
    }

    @Test
    void invalidShapesAreRejected() {
        assertThrows(RavenException.class, () -> findIndexed(q -> q.spatial("place", c -> c.within("POLYGON(("))));
        assertThrows(RavenException.class, () -> findIndexed(q -> q.withinRadiusOf("place", 1, 200, LONGITUDE)));
    }
}
