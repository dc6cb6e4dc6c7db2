package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

import org.junit.jupiter.api.Test;

import com.fasterxml.jackson.databind.ObjectMapper;

import net.ravendb.client.documents.commands.StreamResult;
import net.ravendb.client.documents.queries.QueryData;
import net.ravendb.client.documents.queries.timings.QueryTimings;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.OrderingType;
import net.ravendb.client.documents.session.QueryStatistics;
import net.ravendb.client.documents.session.StreamQueryStatistics;
import net.ravendb.client.primitives.Reference;

/** Query results: orders, pages, projections, includes, lazies, streams, statistics and timings. */
class ResultsTest extends HutsTest {
    public static class Row {
        public String name;
        public long beds;

        @Override
        public String toString() {
            return name + " " + beds;
        }
    }

    private static IDocumentQuery<Hut> bern(IDocumentSession session) {
        return session.query(Hut.class).whereEquals("region", "bern").orderBy("name");
    }

    private static List<String> texts(List<?> rows) {
        return rows.stream().map(Object::toString).collect(Collectors.toList());
    }

    @Test
    void ordersByTextNumberAndSeveralFields() {
        assertEquals(List.of("Blüemlisalp", "Boval", "Britannia"), find(q -> q.orderBy("name").take(3)));
        assertEquals(List.of("Tin Box", "Monte Rosa"), find(q -> q.orderByDescending("name").take(2)));
        assertEquals(List.of("Finsteraar", "Monte Rosa"), find(q -> q.orderBy("beds").take(2)));
        assertEquals(List.of("Tin Box", "Coaz"), find(q -> q.orderBy("beds", OrderingType.LONG).take(2)));
        assertEquals(List.of("Tin Box", "Coaz"), find(q -> q.orderBy("beds", OrderingType.ALPHA_NUMERIC).take(2)));
        assertEquals(List.of("Hörnli", "Monte Rosa"),
            find(q -> q.orderByDescending("price", OrderingType.DOUBLE).take(2)));
        assertEquals(List.of("Monte Rosa", "Britannia", "Hörnli", "Boval"),
            find(q -> q.addOrder("region", true).addOrder("altitude", false, OrderingType.LONG).take(4)));
    }

    @Test
    void aRandomOrderWithASeedIsTheSameTwice() {
        assertEquals(find(q -> q.randomOrdering("seed")), find(q -> q.randomOrdering("seed")));
        assertEquals(8, find(q -> q.randomOrdering()).size());
    }

    @Test
    void pagesFirstSingleCountAndStatistics() {
        try (IDocumentSession session = store.openSession()) {
            Reference<QueryStatistics> statistics = new Reference<>();
            assertEquals(List.of("Monte Rosa", "Hörnli"), names(session.query(Hut.class).statistics(statistics)
                .whereGreaterThan("beds", 100).orderBy("beds", OrderingType.LONG).skip(1).take(2)));
            assertEquals(5, statistics.value.getTotalResults());
            assertEquals(5, session.query(Hut.class).whereGreaterThan("beds", 100).count());
            assertEquals("Tin Box", session.query(Hut.class).orderBy("beds", OrderingType.LONG).first().name);
            assertEquals("Coaz", session.query(Hut.class).whereEquals("name", "coaz").single().name);
            assertFalse(session.query(Hut.class).whereEquals("name", "nobody").any());
        }
    }

    @Test
    void aProjectionRenamesFieldsOrReturnsASingleOne() {
        try (IDocumentSession session = store.openSession()) {
            assertEquals(List.of("Blüemlisalp 138", "Finsteraar 115"),
                texts(bern(session).selectFields(Row.class).toList()));
            QueryData renamed = new QueryData(new String[] {"name", "altitude"}, new String[] {"name", "beds"});
            assertEquals(List.of("Blüemlisalp 2840", "Finsteraar 3048"),
                texts(bern(session).selectFields(Row.class, renamed).toList()));
            assertEquals(List.of("Blüemlisalp", "Finsteraar"),
                bern(session).selectFields(String.class, "name").toList());
        }
    }

    @Test
    void aProjectionInJavaScriptComputesAndLoads() {
        QueryData function = QueryData.customFunction("h",
            "{ name: h.name.toUpperCase() + '@' + load(h.club).name, beds: h.beds * 2 }");
        try (IDocumentSession session = store.openSession()) {
            assertEquals(List.of("BLÜEMLISALP@Alpine Club 276", "FINSTERAAR@Alpine Club 230"),
                texts(bern(session).selectFields(Row.class, function).toList()));
        }
    }

    @Test
    void distinctKeepsOneRowOfEachKind() {
        try (IDocumentSession session = store.openSession()) {
            List<String> clubs = session.query(Hut.class).whereNotEquals("club", (Object) null)
                .selectFields(String.class, "club").distinct().toList();
            assertEquals(List.of("clubs/alpine", "clubs/guides", "clubs/nobody"),
                clubs.stream().sorted().collect(Collectors.toList()));
        }
    }

    @Test
    void rawQueriesDeclareFunctionsAndLoadDocuments() {
        try (IDocumentSession session = store.openSession()) {
            String function = "declare function shout(h) { return { name: h.name + '!', beds: h.beds }; } ";
            assertEquals(List.of("Blüemlisalp! 138"), texts(session.advanced().rawQuery(Row.class,
                function + "from Huts as h where h.region = $r and h.beds > $b select shout(h)")
                .addParameter("r", "bern").addParameter("b", 120).toList()));
            assertEquals(List.of("Alpine Club 80"), texts(session.advanced().rawQuery(Row.class,
                "from Huts as h where h.name = 'coaz' load h.club as c select { name: c.name, beds: h.beds }")
                .toList()));
        }
    }

    @Test
    void anIncludeSavesTheSecondRequest() {
        for (boolean builder : new boolean[] {false, true}) {
            try (IDocumentSession session = store.openSession()) {
                IDocumentQuery<Hut> query = session.query(Hut.class).whereEquals("region", "valais");
                query = builder ? query.include(b -> b.includeDocuments("club")) : query.include("club");
                assertEquals(3, query.toList().size());
                assertEquals(80, session.load(Club.class, GUIDES).members);
                assertEquals(1, session.advanced().getNumberOfRequests());
            }
        }
    }

    @Test
    void lazyQueriesCountsAndLoadsAreSentInOneRequest() {
        try (IDocumentSession session = store.openSession()) {
            var huts = bern(session).lazily();
            var count = session.query(Hut.class).whereEquals("region", "grisons").countLazily();
            var club = session.advanced().lazily().load(Club.class, GUIDES);
            session.advanced().eagerly().executeAllPendingLazyOperations();
            assertEquals(2, huts.getValue().size());
            assertEquals(2, count.getValue());
            assertEquals("Guides of Zermatt", club.getValue().name);
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void aStreamReturnsWholeDocumentsAndProjections() {
        try (IDocumentSession session = store.openSession()) {
            names(bern(session));
            List<String> seen = new ArrayList<>();
            try (var stream = session.advanced().stream(bern(session))) {
                stream.forEachRemaining(
                    (StreamResult<Hut> row) -> seen.add(row.getId() + " " + row.getDocument().name));
            }
            assertEquals(List.of("huts/lake Blüemlisalp", "huts/ice Finsteraar"), seen);
            seen.clear();
            Reference<StreamQueryStatistics> statistics = new Reference<>();
            try (var stream = session.advanced().stream(bern(session).selectFields(Row.class), statistics)) {
                stream.forEachRemaining((StreamResult<Row> row) -> seen.add(row.getDocument().toString()));
            }
            assertEquals(List.of("Blüemlisalp 138", "Finsteraar 115"), seen);
            assertEquals(2, statistics.value.getTotalResults());
        }
    }

    @Test
    void aStreamIsWrittenToAFile() throws Exception {
        try (IDocumentSession session = store.openSession()) {
            names(bern(session));
            ByteArrayOutputStream file = new ByteArrayOutputStream();
            session.advanced().streamInto(bern(session), file);
            assertEquals(2, new ObjectMapper().readTree(file.toByteArray()).get("Results").size());
        }
    }

    @Test
    void timingsNameThePartsOfAQuery() {
        try (IDocumentSession session = store.openSession()) {
            Reference<QueryTimings> timings = new Reference<>();
            bern(session).timings(timings).toList();
            assertTrue(timings.value.getTimings().containsKey("Query"), timings.value.getTimings().toString());
        }
    }

    @Test
    void untrackedResultsAreNotSaved() {
        try (IDocumentSession session = store.openSession()) {
            session.query(Hut.class).whereEquals("name", "coaz").noTracking().single().beds = 1;
            assertFalse(session.advanced().hasChanges());
        }
    }
}
